//! What the receiver needs of the engine, as a trait: the client implements it, and so does a fake in tests and simulations.

mod client;

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use beepgrid::{Delivery, DeliveryId, DeliveryKind, ErrorCode, Timestamp};

/// One request for deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    /// How long the engine may wait for the first one.
    pub wait: Duration,
    /// At most this many.
    pub limit: u32,
    /// Only these kinds; all when empty.
    pub kinds: Vec<DeliveryKind>,
}

/// What one lease brought.
#[derive(Debug, Default)]
pub struct Leases {
    /// The deliveries, in the engine's order.
    pub deliveries: Vec<Delivery>,
    /// One error for each delivery that can't be read. It is not acknowledged; the engine brings it again, ever later, and parks it in the end.
    pub unreadable: Vec<SourceError>,
}

impl From<Vec<Delivery>> for Leases {
    fn from(deliveries: Vec<Delivery>) -> Self {
        Self { deliveries, unreadable: Vec::new() }
    }
}

/// What became of one acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AckOutcome {
    /// The engine has it.
    Received,
    /// Refused with this code; `stale_generation` means that the delivery was leased again since.
    Refused(ErrorCode),
}

/// How long the credential lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialLife {
    /// When it ends; `None` is never.
    pub expires_at: Option<Timestamp>,
}

/// Where deliveries come from.
pub trait Source: Send + Sync + 'static {
    /// Leases deliveries; nothing within the wait is an empty list.
    fn lease(&self, poll: Poll) -> impl Future<Output = Result<Leases, SourceError>> + Send;

    /// Acknowledges leases, each on its own; one result for each, in order.
    fn ack(&self, leases: Vec<(DeliveryId, i64)>) -> impl Future<Output = Result<Vec<AckOutcome>, SourceError>> + Send;

    /// How long the present credential lasts.
    fn credential(&self) -> impl Future<Output = Result<CredentialLife, SourceError>> + Send;

    /// Moves a renewable credential's end forward; `None` if it is not renewable.
    fn renew(&self) -> impl Future<Output = Result<Option<CredentialLife>, SourceError>> + Send;
}

impl<S: Source> Source for Arc<S> {
    fn lease(&self, poll: Poll) -> impl Future<Output = Result<Leases, SourceError>> + Send {
        S::lease(self, poll)
    }

    fn ack(&self, leases: Vec<(DeliveryId, i64)>) -> impl Future<Output = Result<Vec<AckOutcome>, SourceError>> + Send {
        S::ack(self, leases)
    }

    fn credential(&self) -> impl Future<Output = Result<CredentialLife, SourceError>> + Send {
        S::credential(self)
    }

    fn renew(&self) -> impl Future<Output = Result<Option<CredentialLife>, SourceError>> + Send {
        S::renew(self)
    }
}

/// What a failed call means for the loop that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SourceErrorKind {
    /// Not reachable, 5xx, 408, 425 or 429: try again later.
    Passing,
    /// An answer came and can't be read: take less at a time, so that one bad delivery does not hide the good ones.
    Undecodable,
    /// The engine will go on saying no: 401, 403 and other 4xx.
    Final,
}

/// Why a call to the engine failed.
pub struct SourceError {
    kind: SourceErrorKind,
    retry_after: Option<Duration>,
    cause: Box<dyn StdError + Send + Sync>,
}

impl SourceError {
    /// A failure of the given kind with its cause.
    pub fn new(kind: SourceErrorKind, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { kind, retry_after: None, cause: cause.into() }
    }

    /// How long the engine asked to wait.
    #[must_use]
    pub fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }

    /// What it means for the loop.
    pub fn kind(&self) -> SourceErrorKind {
        self.kind
    }

    /// How long to wait, if the engine said so.
    pub fn asked_wait(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Debug for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceError").field("kind", &self.kind).field("cause", &self.cause).finish_non_exhaustive()
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            SourceErrorKind::Passing => "the engine can't be used at the moment",
            SourceErrorKind::Undecodable => "the engine's answer can't be read",
            SourceErrorKind::Final => "the engine refuses this receiver",
        })
    }
}

impl StdError for SourceError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.cause.as_ref())
    }
}
