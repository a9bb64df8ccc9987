//! Settings of the loop, what a handler gets, and what a watcher sees.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::model::{Delivery, DeliveryKind, Timestamp};

/// How many deliveries one lease takes at most.
const DEFAULT_LIMIT: i64 = 10;
/// How long the engine holds an empty answer back.
const DEFAULT_WAIT: Duration = Duration::from_secs(15);
/// How often held leases are extended.
const DEFAULT_EXTEND_EVERY: Duration = Duration::from_secs(10);
/// How long a handler may take to notice that its lease is lost.
const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// Settings of [`Client::run_with`](crate::Client::run_with).
#[derive(Clone, Debug)]
#[must_use]
pub struct RunOptions {
    pub(super) limit: i64,
    pub(super) wait: Duration,
    pub(super) extend_every: Duration,
    pub(super) grace: Duration,
    pub(super) kinds: Vec<DeliveryKind>,
    pub(super) renew: bool,
    pub(super) status: Option<Arc<watch::Sender<RunStatus>>>,
}

/// One delivery in a handler's hands.
#[derive(Debug)]
#[non_exhaustive]
pub struct Handling {
    /// What to handle.
    pub delivery: Delivery,
    /// Fires when the lease is lost, before anybody else can hold it, and when the loop is told to stop. After it fired, start nothing
    /// new; an `Ok` is then still acknowledged if the lease is held.
    pub cancel: CancellationToken,
}

/// How the loop is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunStatus {
    /// Whether the last poll was answered.
    pub connected: bool,
    /// Deliveries handled and acknowledged.
    pub acknowledged: u64,
    /// Leases lost before they were acknowledged.
    pub lost: u64,
    /// Deliveries, or whole answers, that could not be decoded.
    pub undecodable: u64,
    /// The last failure with its causes.
    pub last_error: Option<String>,
    /// How long the loop waits until the next poll, while it is backing off.
    pub waiting: Option<Duration>,
    /// When the credential ends; `None` while unknown, and if it never ends.
    pub expires_at: Option<Timestamp>,
}

impl RunOptions {
    /// At most ten deliveries a lease, polls of 15 seconds, every kind.
    pub fn new() -> Self {
        Self {
            limit: DEFAULT_LIMIT,
            wait: DEFAULT_WAIT,
            extend_every: DEFAULT_EXTEND_EVERY,
            grace: DEFAULT_GRACE,
            kinds: Vec::new(),
            renew: true,
            status: None,
        }
    }

    /// At most this many deliveries a lease, 1 to 10. All of them are held while the first is handled.
    pub fn limit(mut self, limit: i64) -> Self {
        self.limit = limit.clamp(1, DEFAULT_LIMIT);
        self
    }

    /// How long the engine holds an empty answer back, at most 15 seconds.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait.min(DEFAULT_WAIT);
        self
    }

    /// How often held leases are extended, at most every ten seconds.
    pub fn extend_every(mut self, every: Duration) -> Self {
        self.extend_every = every.clamp(Duration::from_millis(10), DEFAULT_EXTEND_EVERY);
        self
    }

    /// How long a handler may go on after its lease was lost; then its future is dropped. Ten seconds unless set.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Leases only deliveries of these kinds; the others stay with the engine.
    pub fn kinds(mut self, kinds: Vec<DeliveryKind>) -> Self {
        self.kinds = kinds;
        self
    }

    /// Whether a renewable credential is renewed when a third of it is left. It is unless this is switched off.
    pub fn renew(mut self, renew: bool) -> Self {
        self.renew = renew;
        self
    }

    /// Reports every change of state here.
    ///
    /// ```
    /// use beepgrid::{RunOptions, RunStatus};
    ///
    /// let (sender, watcher) = tokio::sync::watch::channel(RunStatus::default());
    /// let options = RunOptions::new().status(sender);
    /// assert!(!watcher.borrow().connected);
    /// ```
    pub fn status(mut self, status: watch::Sender<RunStatus>) -> Self {
        self.status = Some(Arc::new(status));
        self
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Where the loop's parts report to, if anybody watches.
#[derive(Clone, Debug)]
pub(super) struct Report(Option<Arc<watch::Sender<RunStatus>>>);

impl Report {
    pub(super) fn new(options: &RunOptions) -> Self {
        Self(options.status.clone())
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut RunStatus)) {
        if let Some(sender) = &self.0 {
            sender.send_modify(change);
        }
    }
}
