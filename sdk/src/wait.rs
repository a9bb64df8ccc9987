//! Waiting for a request to leave `open`.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::Client;
use crate::error::{Cause, Chain, Error};
use crate::model::{Request, RequestId, RequestState};
use crate::ops;
use crate::retry::Pace;

/// The longest wait of one round; the engine's own limit.
const ROUND: Duration = Duration::from_secs(15);
/// An open request that comes back faster than this was not waited for; asking again at once would spin.
const TOO_FAST: Duration = Duration::from_secs(1);

/// Waits for a request's final state when it is awaited; made by [`Client::wait`].
#[must_use = "waiting starts only when it is awaited"]
pub struct Wait {
    client: Client,
    id: RequestId,
    timeout: Option<Duration>,
    round: Duration,
}

impl Wait {
    pub(crate) fn new(client: &Client, id: &RequestId) -> Self {
        Self { client: client.clone(), id: id.clone(), timeout: None, round: ROUND }
    }

    /// Stops waiting after this long. The request stands; it can be waited for again.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn until_final(self) -> Result<Request, Error> {
        let mut pace = Pace::new(self.client.settings().loops);
        loop {
            let asked_at = Instant::now();
            let asked = match self.client.wait_round(&self.id, self.round).await {
                Ok(request) if request.state != RequestState::Open => return Ok(request),
                Ok(_) if asked_at.elapsed() >= TOO_FAST => {
                    pace.progress();
                    continue;
                }
                Ok(_) => None,
                Err(error) if error.is_transient() => {
                    tracing::debug!(op = "wait", id = %self.id, "waiting on after: {}", Chain(&error));
                    error.retry_after()
                }
                Err(error) => return Err(error),
            };
            tokio::time::sleep(pace.next(asked)).await;
        }
    }
}

impl IntoFuture for Wait {
    type Output = Result<Request, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Some(timeout) = self.timeout else {
                return self.until_final().await;
            };
            match tokio::time::timeout(timeout, self.until_final()).await {
                Ok(result) => result,
                Err(_) => Err(Error::new(ops::WAIT.name, None, false, Cause::Deadline(timeout))),
            }
        })
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("id", &self.id).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
