//! The SDK's client as a [`Source`].

use beepgrid::{AckManyItem, Client, DeliveryId, Error, ErrorCode, ErrorKind, InboxInput, Leased};

use super::{AckOutcome, CredentialLife, Leases, Poll, Source, SourceError, SourceErrorKind};

impl Source for Client {
    async fn lease(&self, poll: Poll) -> Result<Leases, SourceError> {
        let wait_ms = i64::try_from(poll.wait.as_millis()).unwrap_or(i64::MAX);
        let input = InboxInput::new().wait_ms(wait_ms).limit(i64::from(poll.limit)).kinds(poll.kinds);
        let mut leases = Leases::default();
        for item in self.inbox_items(input).await? {
            match item {
                Leased::Delivery(delivery) => leases.deliveries.push(*delivery),
                Leased::Undecodable(error) => leases.unreadable.push(SourceError::new(SourceErrorKind::Undecodable, error)),
            }
        }
        Ok(leases)
    }

    async fn ack(&self, leases: Vec<(DeliveryId, i64)>) -> Result<Vec<AckOutcome>, SourceError> {
        let answers = self.ack_many(&leases).await?;
        let outcome = |item: AckManyItem| match item.code {
            _ if item.received => AckOutcome::Received,
            Some(code) => AckOutcome::Refused(code),
            None => AckOutcome::Refused(ErrorCode::Other(String::new())),
        };
        Ok(answers.into_iter().map(outcome).collect())
    }

    async fn credential(&self) -> Result<CredentialLife, SourceError> {
        let me = self.me().await?;
        Ok(CredentialLife { expires_at: me.credential.expires_at })
    }

    async fn renew(&self) -> Result<Option<CredentialLife>, SourceError> {
        match self.renew_credential().await {
            Ok(credential) => Ok(Some(CredentialLife { expires_at: credential.expires_at })),
            Err(error) if error.code() == Some(&ErrorCode::NotRenewable) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl From<Error> for SourceError {
    fn from(error: Error) -> Self {
        let stale = error.code() == Some(&ErrorCode::StaleGeneration);
        let kind = match error.kind() {
            ErrorKind::Decode => SourceErrorKind::Undecodable,
            _ if error.is_transient() || stale => SourceErrorKind::Passing,
            _ => SourceErrorKind::Final,
        };
        let wait = error.api().and_then(|api| api.retry_after);
        Self::new(kind, error).retry_after(wait)
    }
}
