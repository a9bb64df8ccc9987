//! One lease in our hands: extended while it is needed, given up in time when it can't be.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::inbox::{Inbox, LeaseId, Verdict, verdict};
use crate::error::Chain;
use crate::retry::{Delays, Pace};

/// How long the engine leases a delivery, and how far each extension reaches.
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// No lease is extended past this; the engine may answer with less than was asked for when it comes near.
const LONGEST_HOLD: Duration = Duration::from_secs(12 * 60 * 60);

/// A lease that is ours until the moment it says. Dropping it ends the extensions.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) lease: LeaseId,
    held: Arc<Held>,
    extending: CancellationToken,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Held {
    /// Nobody else can hold the lease before this: it counts from when the last granted lease or extension was *sent*.
    until: Mutex<Instant>,
    lost: CancellationToken,
    handler: CancellationToken,
}

impl Hold {
    /// Takes up a lease that was asked for at `sent`, and keeps it on a task of its own.
    pub(super) fn start<I: Inbox>(
        inbox: &I,
        tasks: &mut JoinSet<()>,
        lease: LeaseId,
        sent: Instant,
        cancel: &CancellationToken,
        (every, delays): (Duration, Delays),
    ) -> Self {
        let extending = CancellationToken::new();
        let held =
            Arc::new(Held { until: Mutex::new(sent + LEASE), lost: CancellationToken::new(), handler: cancel.child_token() });
        let keeper = Keeper {
            inbox: inbox.clone(),
            lease: lease.clone(),
            held: Arc::clone(&held),
            extending: extending.clone(),
            every,
            last_end: sent + LONGEST_HOLD,
            pace: Pace::new(delays),
        };
        tasks.spawn(keeper.keep());
        Self { lease, held, _stop: extending.clone().drop_guard(), extending }
    }

    /// Whether the lease is certainly ours, by the clock and not by whether a timer had its turn.
    pub(super) fn is_held(&self) -> bool {
        !self.held.lost.is_cancelled() && !self.left().is_zero()
    }

    /// How long it is certainly ours.
    pub(super) fn left(&self) -> Duration {
        self.held.until().saturating_duration_since(Instant::now())
    }

    /// The token that the handler gets.
    pub(super) fn handler_token(&self) -> CancellationToken {
        self.held.handler.clone()
    }

    pub(super) async fn lost(&self) {
        self.held.lost.cancelled().await;
    }

    /// No extension is sent after this.
    pub(super) fn stop_extending(&self) {
        self.extending.cancel();
    }
}

impl Held {
    fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn extend_to(&self, until: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    fn lose(&self) {
        self.lost.cancel();
        self.handler.cancel();
    }
}

struct Keeper<I> {
    inbox: I,
    lease: LeaseId,
    held: Arc<Held>,
    extending: CancellationToken,
    every: Duration,
    last_end: Instant,
    pace: Pace,
}

impl<I: Inbox> Keeper<I> {
    async fn keep(mut self) {
        let extending = self.extending.clone();
        tokio::select! {
            biased;
            () = extending.cancelled() => {}
            () = self.extend_for_ever() => self.held.lose(),
        }
    }

    /// Ends only when the lease is lost.
    async fn extend_for_ever(&mut self) {
        // A long poll uses up a part of the lease before it answers: the first extension comes by what is left of it.
        let left = self.held.until().saturating_duration_since(Instant::now());
        let mut next = Instant::now() + self.every.min(left / 2);
        loop {
            let until = self.held.until();
            tokio::select! {
                biased;
                () = sleep_until(until) => {
                    tracing::warn!(id = %self.lease.delivery, "the lease ran out here before it could be extended");
                    return;
                }
                () = sleep_until(next) => {}
            }
            let sent = Instant::now();
            let answer = tokio::select! {
                biased;
                () = sleep_until(until) => continue,
                answer = self.inbox.extend(&self.lease, LEASE, until.saturating_duration_since(sent)) => answer,
            };
            let error = match answer {
                Ok(()) => {
                    self.pace.progress();
                    self.held.extend_to((sent + LEASE).min(self.last_end));
                    next = sent + self.every;
                    continue;
                }
                Err(error) => error,
            };
            match verdict(&error) {
                Verdict::Wait => {
                    tracing::debug!(id = %self.lease.delivery, "the lease was not extended: {}", Chain(&error));
                    // A wait beyond the lease is a loss, found at the top.
                    next = Instant::now().checked_add(self.pace.next(error.retry_after())).unwrap_or(until);
                }
                Verdict::Lost | Verdict::Stop => {
                    tracing::warn!(id = %self.lease.delivery, "the lease is lost: {}", Chain(&error));
                    return;
                }
            }
        }
    }
}
