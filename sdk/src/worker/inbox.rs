//! What the loop asks of the engine; a trait, so that every order of answers and losses can be played on a virtual clock.

use std::future::Future;
use std::time::Duration;

use super::Leased;
use crate::client::Client;
use crate::error::Error;
use crate::model::{CredentialKind, DeliveryId, ErrorCode, InboxInput, ReleaseInput, Timestamp};

/// One lease: a delivery and the number that it was leased under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaseId {
    pub(super) delivery: DeliveryId,
    pub(super) generation: i64,
}

pub(super) trait Inbox: Clone + Send + Sync + 'static {
    fn lease(&self, input: InboxInput) -> impl Future<Output = Result<Vec<Leased>, Error>> + Send;
    fn extend(&self, lease: &LeaseId, by: Duration, limit: Duration) -> impl Future<Output = Result<(), Error>> + Send;
    fn ack(&self, lease: &LeaseId, limit: Duration) -> impl Future<Output = Result<(), Error>> + Send;
    fn release(&self, lease: &LeaseId, limit: Duration) -> impl Future<Output = Result<(), Error>> + Send;
    /// When the credential ends, if it is a worker's and ends at all.
    fn expires_at(&self) -> impl Future<Output = Result<Option<Timestamp>, Error>> + Send;
    /// Moves that end, and says where it is now.
    fn renew(&self) -> impl Future<Output = Result<Option<Timestamp>, Error>> + Send;
}

impl Inbox for Client {
    async fn lease(&self, input: InboxInput) -> Result<Vec<Leased>, Error> {
        self.inbox_items(input).await
    }

    async fn extend(&self, lease: &LeaseId, by: Duration, limit: Duration) -> Result<(), Error> {
        let seconds = i64::try_from(by.as_secs()).unwrap_or(1).max(1);
        Client::extend(self, &lease.delivery, lease.generation, seconds).timeout(limit).await.map(|_| ())
    }

    async fn ack(&self, lease: &LeaseId, limit: Duration) -> Result<(), Error> {
        self.ack_lease(&lease.delivery, lease.generation).timeout(limit).await
    }

    async fn release(&self, lease: &LeaseId, limit: Duration) -> Result<(), Error> {
        Client::release(self, &lease.delivery, ReleaseInput::new(lease.generation)).timeout(limit).await
    }

    async fn expires_at(&self) -> Result<Option<Timestamp>, Error> {
        let credential = self.me().await?.credential;
        Ok(credential.expires_at.filter(|_| credential.kind == CredentialKind::Worker))
    }

    async fn renew(&self) -> Result<Option<Timestamp>, Error> {
        Ok(self.renew_credential().await?.expires_at)
    }
}

/// What a failure means for the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The lease is no longer ours. The loop goes on.
    Lost,
    /// Passing, or at least not a refusal: wait and go on.
    Wait,
    /// A refusal: stop.
    Stop,
}

pub(super) fn verdict(error: &Error) -> Verdict {
    match error.kind() {
        _ if error.code() == Some(&ErrorCode::StaleGeneration) => Verdict::Lost,
        _ if error.is_transient() => Verdict::Wait,
        crate::ErrorKind::Decode => Verdict::Wait,
        _ => Verdict::Stop,
    }
}
