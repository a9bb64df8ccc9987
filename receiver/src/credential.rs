//! Keeps a renewable credential alive and shows when it ends.

use std::sync::Arc;
use std::time::Duration;

use beepgrid::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::RetryPolicy;
use crate::engine::{CredentialLife, Source, SourceError, SourceErrorKind};
use crate::status::{Part, StatusBoard};

/// How long a renewable lease lasts when it is new.
const LEASE: Duration = Duration::from_secs(24 * 60 * 60);
/// Long waits are cut, so that a changed wall clock is noticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(60 * 60);

pub(crate) struct Renewal<S> {
    pub(crate) source: Arc<S>,
    pub(crate) clock: Clock,
    pub(crate) status: Arc<StatusBoard>,
    pub(crate) retry: RetryPolicy,
}

impl<S: Source> Renewal<S> {
    /// Works until `cancel` fires, or there is nothing to renew. A refusal is left to the intake, which meets it too.
    pub(crate) async fn run(self, cancel: &CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.keep() => {}
        }
    }

    async fn keep(&self) {
        let Some(mut life) = self.repeat("reading the credential", || self.source.credential()).await else { return };
        let mut length = LEASE;
        loop {
            self.status.expires_at(life.expires_at);
            let Some(end) = life.expires_at.filter(|at| *at < Timestamp::NEVER) else { return };
            self.sleep_until(end.minus(length / 3)).await;
            let asked_at = self.clock.now();
            let Some(Some(renewed)) = self.repeat("renewing the credential", || self.source.renew()).await else { return };
            let moved = renewed.expires_at.is_none_or(|at| at > end);
            if !moved {
                // The hard end is reached: nothing moves it any more.
                return;
            }
            length = renewed.expires_at.map_or(LEASE, |at| at.since(asked_at)).max(Duration::from_secs(3));
            life = CredentialLife { expires_at: renewed.expires_at };
        }
    }

    /// Until it works, or never will.
    async fn repeat<T, F: Future<Output = Result<T, SourceError>>>(&self, doing: &str, call: impl Fn() -> F) -> Option<T> {
        let mut failures = 0;
        loop {
            match call().await {
                Ok(value) => return Some(value),
                Err(error) => {
                    self.status.failed(Part::Engine, doing, &error);
                    if error.kind() != SourceErrorKind::Passing {
                        return None;
                    }
                    failures += 1;
                    let backoff = self.retry.delay(failures);
                    tokio::time::sleep(error.asked_wait().map_or(backoff, |asked| asked.max(backoff))).await;
                }
            }
        }
    }

    async fn sleep_until(&self, at: Timestamp) {
        loop {
            let left = at.since(self.clock.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
        }
    }
}
