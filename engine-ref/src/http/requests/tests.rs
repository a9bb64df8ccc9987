//! Waiting reads, keys and statuses, by calling the handlers as the router does. The owner asks itself, which needs no rule.

use axum::body::to_bytes;
use axum::http::StatusCode;
use beepgrid::{ErrorCode, Target, Timestamp};
use tokio::task::JoinHandle;

use super::*;
use crate::clock::Clock;
use crate::core::Settings;
use crate::service::actor::TokenDigest;
use crate::service::setup;
use crate::signals::Signal;
use crate::store::{Database, Store, StoreConfig};

const TOKEN: &str = "a token that is long enough for an owner";
const PATIENCE: Duration = Duration::from_secs(30);

struct Owner {
    core: Core,
    clock: Clock,
    caller: Caller,
}

impl Owner {
    async fn new() -> Self {
        let clock = Clock::manual("2026-12-01T08:00:00Z".parse().unwrap());
        let store = Store::open(StoreConfig::new(Database::Memory), clock.clone()).await.unwrap();
        store.write(|tx| setup::bootstrap(tx, "Olga", TOKEN)).await.unwrap();
        let settings = Settings::plain();
        let core = Core::new(store, clock.clone(), settings);
        let caller = core.caller(TokenDigest::of(TOKEN)).await.unwrap();
        Self { core, clock, caller }
    }

    fn question(&self) -> AskInput {
        AskInput::to(Target::person(&self.caller.principal_id), "Ready?")
    }

    async fn ask(&self, input: AskInput, key: Option<&str>) -> Result<(StatusCode, Request), Refusal> {
        let key = MaybeKey(key.map(str::to_owned));
        read(super::ask(self.caller.clone(), State(self.core.clone()), key, Input(input)).await?).await
    }

    async fn asked(&self) -> Request {
        self.ask(self.question(), None).await.unwrap().1
    }

    async fn respond(&self, id: &RequestId, input: ResponseInput, key: Option<&str>) -> Result<(StatusCode, Request), Refusal> {
        let (id, key) = (PathId(id.to_string()), MaybeKey(key.map(str::to_owned)));
        read(super::respond(self.caller.clone(), State(self.core.clone()), id, key, Input(input)).await?).await
    }

    async fn get(&self, id: &RequestId, wait_ms: i64) -> Result<Request, Refusal> {
        let query = Params(Waiting { wait_ms: Some(wait_ms) });
        get_request(self.caller.clone(), State(self.core.clone()), PathId(id.to_string()), query).await.map(|Json(it)| it)
    }

    /// Starts a read that waits, and returns once it does.
    async fn wait(&self, id: &RequestId) -> JoinHandle<Result<Request, Refusal>> {
        let (core, caller, id) = (self.core.clone(), self.caller.clone(), id.clone());
        let before = core.held();
        let task = tokio::spawn({
            let core = core.clone();
            async move { wait_for_end(&core, &caller, id, Duration::from_secs(15)).await }
        });
        tokio::time::timeout(PATIENCE, async {
            while core.held() == before {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the read waits");
        task
    }
}

async fn read(response: Response) -> Result<(StatusCode, Request), Refusal> {
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    Ok((status, serde_json::from_slice(&body).unwrap()))
}

/// What a waiting read ends with. Signals wake it long before it would look for itself.
async fn end(task: JoinHandle<Result<Request, Refusal>>) -> Result<Request, Refusal> {
    tokio::time::timeout(SAFETY_LOOK, task).await.expect("woken at once").unwrap()
}

#[tokio::test]
async fn waiting_read_ends_with_the_decision() {
    let owner = Owner::new().await;
    let asked = owner.asked().await;
    let waiting = owner.wait(&asked.id).await;
    owner.respond(&asked.id, ResponseInput::answered(1, "yes"), None).await.unwrap();
    let ended = end(waiting).await.unwrap();
    assert_eq!((ended.state, ended.version), (RequestState::Resolved, 2));
    assert_eq!(owner.core.held(), 0);
    // What is final is answered without waiting.
    assert_eq!(owner.get(&asked.id, 15_000).await.unwrap().version, 2);
}

#[tokio::test]
async fn waiting_read_ends_when_the_deadline_comes() {
    let owner = Owner::new().await;
    let expires = owner.clock.now().plus(Duration::from_secs(60));
    let asked = owner.ask(owner.question().expires_at(expires), None).await.unwrap().1;
    let waiting = owner.wait(&asked.id).await;
    owner.clock.advance(Duration::from_secs(60));
    assert_eq!(end(waiting).await.unwrap().state, RequestState::Expired);
}

#[tokio::test]
async fn waiting_read_ends_when_time_is_up() {
    let owner = Owner::new().await;
    let asked = owner.asked().await;
    assert_eq!(owner.get(&asked.id, 20).await.unwrap().state, RequestState::Open);
    for wrong in [-1, 15_001] {
        assert!(matches!(owner.get(&asked.id, wrong).await, Err(Refusal::Invalid { field, .. }) if field == "wait_ms"));
    }
}

#[tokio::test]
async fn waiting_read_ends_when_the_credential_is_revoked() {
    let owner = Owner::new().await;
    let asked = owner.asked().await;
    let waiting = owner.wait(&asked.id).await;
    let principal = owner.caller.principal_id.clone();
    let revoke = move |tx: &crate::store::WriteTx<'_>| {
        tx.execute("UPDATE credentials SET revoked = TRUE", &[])?;
        tx.signal(Signal::Access { principal });
        Ok(())
    };
    owner.core.store().write(revoke).await.unwrap();
    assert!(matches!(end(waiting).await, Err(Refusal::Unauthorized)));
}

#[tokio::test]
async fn seventeenth_waiting_read_is_refused() {
    let owner = Owner::new().await;
    let asked = owner.asked().await;
    let mut waiting = Vec::new();
    for _ in 0..MAX_WAITING_READS {
        waiting.push(owner.wait(&asked.id).await);
    }
    assert!(matches!(owner.get(&asked.id, 1_000).await, Err(Refusal::RateLimited { .. })));
    // A read that does not wait holds nothing.
    assert_eq!(owner.get(&asked.id, 0).await.unwrap().state, RequestState::Open);
    waiting.remove(0).abort();
    let more = owner.wait_any(&asked.id).await;
    owner.respond(&asked.id, ResponseInput::answered(1, "yes"), None).await.unwrap();
    for task in waiting.into_iter().chain([more]) {
        assert_eq!(end(task).await.unwrap().state, RequestState::Resolved);
    }
}

impl Owner {
    /// Like `wait`, where one of the others may be leaving at the same time.
    async fn wait_any(&self, id: &RequestId) -> JoinHandle<Result<Request, Refusal>> {
        let leave = async {
            while self.core.held() >= MAX_WAITING_READS {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, leave).await.expect("an aborted read leaves");
        self.wait(id).await
    }
}

#[tokio::test]
async fn ask_under_its_key_happens_once() {
    let owner = Owner::new().await;
    let (status, first) = owner.ask(owner.question(), Some("k")).await.unwrap();
    assert_eq!(status, StatusCode::CREATED);
    // Spelling out a default makes no other request.
    let spelled = owner.question().kind(beepgrid::RequestKind::Question).expires_at(Timestamp::NEVER);
    let (status, again) = owner.ask(spelled, Some("k")).await.unwrap();
    assert_eq!((status, &again), (StatusCode::OK, &first));
    let other = owner.ask(owner.question().title("Other"), Some("k")).await;
    assert!(matches!(other, Err(Refusal::Conflict { code: ErrorCode::IdempotencyConflict, .. })));
    let (_, fresh) = owner.ask(owner.question(), None).await.unwrap();
    assert_ne!(fresh.id, first.id);
}

#[tokio::test]
async fn replayed_ask_outlives_its_deadline_and_a_refused_one_takes_no_key() {
    let owner = Owner::new().await;
    let soon = owner.clock.now().plus(Duration::from_secs(5));
    let (_, first) = owner.ask(owner.question().expires_at(soon), Some("k")).await.unwrap();
    owner.clock.advance(Duration::from_secs(60));
    let (status, again) = owner.ask(owner.question().expires_at(soon), Some("k")).await.unwrap();
    assert_eq!((status, again.id, again.state), (StatusCode::OK, first.id, RequestState::Expired));
    assert!(owner.ask(owner.question().expires_at(soon), Some("k2")).await.is_err());
    assert_eq!(owner.ask(owner.question(), Some("k2")).await.unwrap().0, StatusCode::CREATED);
}

#[tokio::test]
async fn keyed_decision_replays_and_an_unkeyed_one_is_late() {
    let owner = Owner::new().await;
    let asked = owner.asked().await;
    let (status, first) = owner.respond(&asked.id, ResponseInput::answered(1, "yes"), Some("k")).await.unwrap();
    let (_, again) = owner.respond(&asked.id, ResponseInput::answered(1, "yes"), Some("k")).await.unwrap();
    assert_eq!((status, &again), (StatusCode::OK, &first));
    let late = owner.respond(&asked.id, ResponseInput::answered(1, "yes"), None).await;
    assert!(matches!(late, Err(Refusal::Conflict { code: ErrorCode::RequestClosed, .. })));
    // The key belongs to this request, not to the next.
    let next = owner.asked().await;
    let other = owner.respond(&next.id, ResponseInput::answered(1, "yes"), Some("k")).await;
    assert!(matches!(other, Err(Refusal::Conflict { code: ErrorCode::IdempotencyConflict, .. })));
}

#[tokio::test]
async fn replacement_needs_a_key() {
    let owner = Owner::new().await;
    let asked = owner.asked().await;
    let replace = |key: Option<&str>| {
        let (id, key) = (PathId(asked.id.to_string()), MaybeKey(key.map(str::to_owned)));
        super::replace(owner.caller.clone(), State(owner.core.clone()), id, key, Input(ReplaceRequestInput::new(1, "Anew")))
    };
    assert!(matches!(replace(None).await, Err(Refusal::Invalid { field, .. }) if field == "Idempotency-Key"));
    assert_eq!(replace(Some("k")).await.unwrap().status(), StatusCode::CREATED);
    assert_eq!(replace(Some("k")).await.unwrap().status(), StatusCode::OK);
}
