//! Keeps a renewable credential alive while the loop runs.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::inbox::{Inbox, Verdict, verdict};
use super::options::Report;
use crate::clock;
use crate::error::Chain;
use crate::model::Timestamp;
use crate::retry::{Delays, Pace};

/// A third of the 24 hours that a renewable credential is good for.
const RENEW_BEFORE: Duration = Duration::from_secs(8 * 60 * 60);
/// The wall clock is looked at this often: a machine that slept has lost time that timers did not see.
const LOOK_EVERY: Duration = Duration::from_secs(5 * 60);

/// Renews until the credential can't be renewed any more. What it can't do, the loop itself finds out.
pub(super) async fn keep_fresh<I: Inbox>(inbox: I, report: Report, delays: Delays) {
    let mut pace = Pace::new(delays);
    let mut expires_at = loop {
        match inbox.expires_at().await {
            Ok(expires_at) => break expires_at,
            Err(error) if verdict(&error) == Verdict::Wait => sleep(pace.next(error.retry_after())).await,
            Err(_) => return,
        }
    };
    loop {
        report.update(|status| status.expires_at = expires_at);
        let Some(ends) = expires_at else { return };
        until_due(ends).await;
        pace.progress();
        expires_at = loop {
            match inbox.renew().await {
                Ok(renewed) => break renewed,
                Err(error) if verdict(&error) == Verdict::Wait => sleep(pace.next(error.retry_after())).await,
                Err(error) => {
                    tracing::debug!("the credential is not renewed: {}", Chain(&error));
                    return;
                }
            }
        };
        if expires_at.is_some_and(|renewed| renewed <= ends) {
            return; // the hard deadline; it moves no further
        }
    }
}

async fn until_due(ends: Timestamp) {
    let left = || ends.since(clock::now());
    let started = Instant::now();
    let planned = left().saturating_sub(RENEW_BEFORE);
    while left() > RENEW_BEFORE && started.elapsed() < planned {
        sleep(planned.saturating_sub(started.elapsed()).min(LOOK_EVERY)).await;
    }
}
