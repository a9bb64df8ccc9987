//! Hears what other processes commit.

use std::time::{Duration, Instant};

use ::postgres::Client;
use ::postgres::fallible_iterator::FallibleIterator;

use super::notice;
use super::target::{Role, Target};
use crate::signals::Signals;
use crate::store::StoreError;
use crate::store::bell::Bell;
use crate::store::open::{Ready, reported};

/// How long the end of the store may go unnoticed.
const LOOK_UP: Duration = Duration::from_millis(250);
/// After this silence the connection is tried: a peer that vanished says nothing.
const SILENCE: Duration = Duration::from_secs(15);
const ANSWER: Duration = Duration::from_secs(5);
const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// Publishes the signals of other processes until the bell is stopped. Whatever happened while it could not hear wakes
/// everybody once.
pub(super) fn run(target: &Target, signals: &Signals, bell: &Bell, ready: Ready) {
    let Some(mut client) = reported(ready, listen(target, signals)) else { return };
    loop {
        if let Err(error) = hear(&mut client, target, signals, bell) {
            tracing::warn!(error = error.chain(), "signals of other processes are not heard");
        }
        let mut delay = FIRST_DELAY;
        client = loop {
            if !bell.pause(delay) {
                return;
            }
            match listen(target, signals) {
                Ok(client) => break client,
                Err(error) => tracing::debug!(error = error.chain(), "can't listen yet"),
            }
            delay = (delay * 2).min(LONGEST_DELAY);
        };
        signals.wake_everybody();
        tracing::info!("signals of other processes are heard again");
    }
}

/// Listens first and looks then, so that no event falls in between.
fn listen(target: &Target, signals: &Signals) -> Result<Client, StoreError> {
    let mut client = target.client(Role::Listener)?;
    let lost = |error: ::postgres::Error| StoreError::Unavailable(error.into());
    client.batch_execute(&format!("LISTEN \"{}\"", target.channel())).map_err(lost)?;
    let row = client.query_opt("SELECT sequence FROM workspace WHERE id = 1", &[]).map_err(lost)?;
    if let Some(row) = row {
        signals.newest_event(row.try_get(0).map_err(lost)?);
    }
    Ok(client)
}

/// Returns without an error only when the bell was stopped.
fn hear(client: &mut Client, target: &Target, signals: &Signals, bell: &Bell) -> Result<(), StoreError> {
    let lost = |error: ::postgres::Error| StoreError::Unavailable(error.into());
    let mut last_sign = Instant::now();
    while !bell.is_stopped() {
        let next = client.notifications().timeout_iter(LOOK_UP).next().map_err(lost)?;
        if let Some(notification) = next {
            last_sign = Instant::now();
            if let Some(heard) = notice::signals(&target.process, notification.payload()) {
                signals.publish(&heard);
            }
            continue;
        }
        if client.is_closed() {
            return Err(StoreError::unavailable("the connection was closed"));
        }
        if last_sign.elapsed() >= SILENCE {
            client.is_valid(ANSWER).map_err(lost)?;
            last_sign = Instant::now();
        }
    }
    Ok(())
}
