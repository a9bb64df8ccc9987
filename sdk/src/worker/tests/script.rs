//! An inbox that answers as it is told to, and remembers what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::{ApiError, Cause, DecodeFault, Error};
use crate::model::{Delivery, ErrorCode, InboxInput, Timestamp};
use crate::worker::Leased;
use crate::worker::inbox::{Inbox, LeaseId};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// How one call is answered.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Fine,
    Api(u16, &'static str, Option<Duration>),
    /// Nothing comes until the caller's limit is over.
    Silence,
    /// The answer is there, and is no JSON.
    Garbage,
    /// Fine, after a while.
    Slow(Duration),
}

/// One poll: how long it takes and what it brings.
pub(super) struct Poll(pub(super) Duration, pub(super) Result<Vec<Leased>, Answer>);

#[derive(Default)]
pub(super) struct Script {
    pub(super) polls: VecDeque<Poll>,
    /// Answers in order; `Fine` when there are no more.
    pub(super) extends: VecDeque<Answer>,
    pub(super) acks: VecDeque<Answer>,
    pub(super) renewals: VecDeque<Result<Option<Timestamp>, Answer>>,
    pub(super) expires_at: Option<Timestamp>,
    seen: Seen,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) polls: Vec<Instant>,
    pub(super) extends: Vec<(LeaseId, Instant)>,
    pub(super) acks: Vec<(LeaseId, Instant)>,
    pub(super) releases: Vec<LeaseId>,
    pub(super) renewals: Vec<Instant>,
}

#[derive(Clone, Default)]
pub(super) struct Fake(Arc<Mutex<Script>>);

impl Fake {
    pub(super) fn with(&self, change: impl FnOnce(&mut Script)) -> &Self {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        self
    }

    pub(super) fn seen(&self) -> Seen {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).seen.clone()
    }

    pub(super) fn polls(&self, polls: impl IntoIterator<Item = Poll>) -> &Self {
        self.with(|script| script.polls.extend(polls))
    }

    pub(super) fn acked(&self) -> Vec<String> {
        self.seen().acks.iter().map(|(lease, _)| lease.delivery.to_string()).collect()
    }
}

pub(super) fn api(operation: &'static str, status: u16, code: &'static str, retry_after: Option<Duration>) -> Error {
    let api = ApiError { code: ErrorCode::from(code), message: String::new(), status, request_id: None, retry_after };
    Error::new(operation, None, false, Cause::Api(api))
}

async fn answer(operation: &'static str, answer: Option<Answer>, limit: Duration) -> Result<(), Error> {
    match answer {
        None | Some(Answer::Fine) => Ok(()),
        Some(Answer::Api(status, code, retry_after)) => Err(api(operation, status, code, retry_after)),
        Some(Answer::Slow(time)) => {
            sleep(time).await;
            Ok(())
        }
        Some(Answer::Silence) => {
            sleep(limit).await;
            Err(Error::new(operation, None, true, Cause::Deadline(limit)))
        }
        Some(Answer::Garbage) => Err(Error::new(operation, None, true, Cause::Decode(DecodeFault::TooLarge { limit: 1 }))),
    }
}

impl Inbox for Fake {
    async fn lease(&self, _input: InboxInput) -> Result<Vec<Leased>, Error> {
        let mut next = None;
        self.with(|script| {
            script.seen.polls.push(Instant::now());
            next = script.polls.pop_front();
        });
        let Some(Poll(time, result)) = next else {
            sleep(15 * SECOND).await;
            return Ok(Vec::new());
        };
        sleep(time).await;
        match result {
            Ok(items) => Ok(items),
            Err(failure) => Err(answer("inbox", Some(failure), 25 * SECOND).await.unwrap_err()),
        }
    }

    async fn extend(&self, lease: &LeaseId, _by: Duration, limit: Duration) -> Result<(), Error> {
        let mut next = None;
        self.with(|script| {
            script.seen.extends.push((lease.clone(), Instant::now()));
            next = script.extends.pop_front();
        });
        answer("extend", next, limit).await
    }

    async fn ack(&self, lease: &LeaseId, limit: Duration) -> Result<(), Error> {
        let mut next = None;
        self.with(|script| {
            script.seen.acks.push((lease.clone(), Instant::now()));
            next = script.acks.pop_front();
        });
        answer("ack", next, limit).await
    }

    async fn release(&self, lease: &LeaseId, _limit: Duration) -> Result<(), Error> {
        self.with(|script| script.seen.releases.push(lease.clone()));
        Ok(())
    }

    async fn expires_at(&self) -> Result<Option<Timestamp>, Error> {
        let mut at = None;
        self.with(|script| at = script.expires_at);
        Ok(at)
    }

    async fn renew(&self) -> Result<Option<Timestamp>, Error> {
        let mut next = None;
        self.with(|script| {
            script.seen.renewals.push(Instant::now());
            next = script.renewals.pop_front();
        });
        match next {
            Some(Ok(at)) => Ok(at),
            Some(Err(failure)) => Err(answer("renew_credential", Some(failure), SECOND).await.unwrap_err()),
            None => Err(api("renew_credential", 409, "not_renewable", None)),
        }
    }
}

pub(super) fn delivery(id: &str) -> Leased {
    let json = format!(r#"{{"id":"{id}","generation":1,"payload":{{"type":"message","conversation_id":"cnv_1"}}}}"#);
    let delivery: Delivery = serde_json::from_str(&json).unwrap();
    Leased::Delivery(Box::new(delivery))
}

pub(super) fn deliveries(ids: &[&str]) -> Poll {
    Poll(Duration::ZERO, Ok(ids.iter().map(|id| delivery(id)).collect()))
}

pub(super) fn failing(status: u16, code: &'static str, retry_after: Option<Duration>) -> Poll {
    Poll(Duration::ZERO, Err(Answer::Api(status, code, retry_after)))
}
