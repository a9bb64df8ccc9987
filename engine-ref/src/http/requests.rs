//! Requests over HTTP: ask, read and wait, respond, cancel, supersede, replace, blocking, trace.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use beepgrid::{
    AskBatchInput, AskInput, BlockingInput, CancelInput, Permission, ReplaceRequestInput, Request, RequestId, RequestState,
    RequestTrace, ResponseInput, SupersedeInput,
};
use serde::Deserialize;
use tokio::time::Instant;

use super::answer::{created, done};
use super::extract::{Input, MaybeKey, Params, PathId, number};
use crate::core::{Core, Keyed};
use crate::service::actor::{Actor, Caller, Need};
use crate::service::limits::{MAX_WAIT_MS, MAX_WAITING_READS};
use crate::service::{Refusal, checks, requests};
use crate::store::ReadTx;

/// How long a waiting read trusts the signals before it looks for itself.
const SAFETY_LOOK: Duration = Duration::from_secs(5);

/// The routes of this family.
pub(super) fn routes() -> Router<Core> {
    Router::new()
        .route("/requests", post(ask))
        .route("/requests/batch", post(ask_batch))
        .route("/requests/{id}", get(get_request))
        .route("/requests/{id}/respond", post(respond))
        .route("/requests/{id}/cancel", post(cancel))
        .route("/requests/{id}/replace", post(replace))
        .route("/requests/{id}/supersede", post(supersede))
        .route("/requests/{id}/blocking", post(set_blocking))
        .route("/requests/{id}/trace", get(trace))
}

async fn ask(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<AskInput>,
) -> Result<Response, Refusal> {
    let input = requests::form::ask(input)?;
    let keyed = Keyed { operation: "ask", key, path: Vec::new() };
    let answer = core.keyed(&caller, Need::Ceiling(Permission::Request), keyed, input, requests::ask, requests::answer);
    answer.await.map(created)
}

async fn ask_batch(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<AskBatchInput>,
) -> Result<Response, Refusal> {
    let input = requests::form::ask_batch(input)?;
    let keyed = Keyed { operation: "ask_batch", key, path: Vec::new() };
    let answer =
        core.keyed(&caller, Need::Ceiling(Permission::Request), keyed, input, requests::ask_batch, requests::batch_answer);
    answer.await.map(created)
}

async fn respond(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<ResponseInput>,
) -> Result<Response, Refusal> {
    requests::form::response(&input)?;
    let keyed = Keyed { operation: "respond", key, path: vec![id.clone()] };
    let answer = core.keyed(
        &caller,
        Need::Ceiling(Permission::Respond),
        keyed,
        (RequestId::new(id), input),
        requests::respond,
        requests::answer,
    );
    answer.await.map(done)
}

async fn cancel(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<CancelInput>,
) -> Result<Response, Refusal> {
    let keyed = Keyed { operation: "cancel", key, path: vec![id.clone()] };
    let answer = core.keyed(
        &caller,
        Need::Ceiling(Permission::Request),
        keyed,
        (RequestId::new(id), input),
        requests::cancel,
        requests::answer,
    );
    answer.await.map(done)
}

async fn replace(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<ReplaceRequestInput>,
) -> Result<Response, Refusal> {
    if key.is_none() {
        return Err(Refusal::invalid("Idempotency-Key", "required: a replacement must be recoverable under its key"));
    }
    requests::form::replace(&input)?;
    let keyed = Keyed { operation: "replace_request", key, path: vec![id.clone()] };
    let answer = core.keyed(
        &caller,
        Need::Ceiling(Permission::Request),
        keyed,
        (RequestId::new(id), input),
        requests::replace,
        requests::replacement_answer,
    );
    answer.await.map(created)
}

async fn supersede(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<SupersedeInput>,
) -> Result<Response, Refusal> {
    let keyed = Keyed { operation: "supersede", key, path: vec![id.clone()] };
    let (need, input) = (Need::Ceiling(Permission::Request), (RequestId::new(id), input));
    core.keyed(&caller, need, keyed, input, requests::supersede, requests::answer).await.map(done)
}

async fn set_blocking(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<BlockingInput>,
) -> Result<Response, Refusal> {
    let keyed = Keyed { operation: "set_request_blocking", key, path: vec![id.clone()] };
    let (need, input) = (Need::Ceiling(Permission::Request), (RequestId::new(id), input));
    core.keyed(&caller, need, keyed, input, requests::set_blocking, requests::answer).await.map(done)
}

#[derive(Debug, Deserialize)]
struct TracePage {
    #[serde(default)]
    cursor: Option<String>,
}

async fn trace(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    Params(page): Params<TracePage>,
) -> Result<Json<RequestTrace>, Refusal> {
    let key = core.settings().cursor_key.clone();
    let look =
        move |tx: &ReadTx<'_>, actor: &Actor| requests::trace(tx, actor, &RequestId::new(id), page.cursor.as_deref(), &key);
    core.read(&caller, Need::Ceiling(Permission::Read), look).await.map(Json)
}

#[derive(Debug, Deserialize)]
struct Waiting {
    #[serde(default, deserialize_with = "number")]
    wait_ms: Option<i64>,
}

async fn get_request(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    Params(query): Params<Waiting>,
) -> Result<Json<Request>, Refusal> {
    let wait_ms = query.wait_ms.unwrap_or(0);
    checks::range("wait_ms", wait_ms, 0, MAX_WAIT_MS)?;
    let wait = Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0));
    wait_for_end(&core, &caller, RequestId::new(id), wait).await.map(Json)
}

/// The request as soon as it has left `open`, or as it is when time is up. Whether the caller may still see it, and whether its
/// token still works, is checked at every look.
async fn wait_for_end(core: &Core, caller: &Caller, id: RequestId, wait: Duration) -> Result<Request, Refusal> {
    // Before the first look, so that an end between looks is not missed.
    let mut closed = core.signals().request(&id);
    let mut access = core.signals().access(&caller.principal_id);
    let until = Instant::now() + wait;
    let mut hold = None;
    loop {
        let request = look(core, caller, &id).await?;
        let now = Instant::now();
        if request.state != RequestState::Open || now >= until {
            return Ok(request);
        }
        if hold.is_none() {
            hold = Some(core.hold(format!("waiting reads of {}", caller.principal_id), MAX_WAITING_READS)?);
        }
        tokio::select! {
            () = closed.next() => {}
            () = access.next() => {}
            () = core.clock().sleep_until(request.expires_at) => {}
            () = tokio::time::sleep_until(until.min(now + SAFETY_LOOK)) => {}
            () = core.stopping().cancelled() => return Ok(request),
        }
    }
}

async fn look(core: &Core, caller: &Caller, id: &RequestId) -> Result<Request, Refusal> {
    let id = id.clone();
    core.read(caller, Need::Ceiling(Permission::Read), move |tx, actor| requests::get(tx, actor, &id)).await
}

#[cfg(test)]
mod tests;
