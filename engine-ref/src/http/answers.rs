//! Reusable answers over HTTP: list, publish, invalidate, answer and publish in one step.

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use beepgrid::{AnswerAndShareInput, AnswerId, AnswerInput, Permission, RequestId};
use serde::Deserialize;

use super::answer::{created, done};
use super::extract::{Input, MaybeKey, Params, PathId};
use crate::core::{Core, Keyed};
use crate::service::actor::{Caller, Need};
use crate::service::{Refusal, answers};

/// The routes of this family.
pub(super) fn routes() -> Router<Core> {
    Router::new()
        .route("/answers", get(list).post(publish))
        .route("/answers/{id}/invalidate", post(invalidate))
        .route("/requests/{id}/answer-and-share", post(answer_and_share))
}

/// A query or body without members.
#[derive(Debug, Deserialize)]
struct Nothing {}

async fn list(caller: Caller, State(core): State<Core>, Params(Nothing {}): Params<Nothing>) -> Result<Response, Refusal> {
    let (answers, more) = core.read(&caller, Need::Ceiling(Permission::Read), answers::list).await?;
    let mut response = Json(answers).into_response();
    if more {
        response.headers_mut().insert(HeaderName::from_static("x-more"), HeaderValue::from_static("true"));
    }
    Ok(response)
}

async fn publish(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<AnswerInput>,
) -> Result<Response, Refusal> {
    answers::check(&input)?;
    let keyed = Keyed { operation: "publish_answer", key, path: Vec::new() };
    let need = Need::Ceiling(Permission::Manage);
    core.keyed(&caller, need, keyed, input, answers::publish, answers::published).await.map(created)
}

async fn invalidate(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(Nothing {}): Input<Nothing>,
) -> Result<Response, Refusal> {
    let keyed = Keyed { operation: "invalidate_answer", key, path: vec![id.clone()] };
    let need = Need::Ceiling(Permission::Manage);
    core.keyed(&caller, need, keyed, AnswerId::new(id), answers::invalidate, answers::invalidated).await.map(done)
}

async fn answer_and_share(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<AnswerAndShareInput>,
) -> Result<Response, Refusal> {
    answers::check_shared(&input)?;
    let keyed = Keyed { operation: "answer_and_share", key, path: vec![id.clone()] };
    let answer = core.keyed(
        &caller,
        Need::Ceiling(Permission::Respond),
        keyed,
        (RequestId::new(id), input),
        answers::answer_and_share,
        answers::shared,
    );
    answer.await.map(created)
}
