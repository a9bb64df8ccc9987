//! Messages over HTTP.

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use beepgrid::{Permission, SendBatchInput, SendInput};

use super::answer::created;
use super::extract::{Input, MaybeKey};
use crate::core::{Answered, Core, Keyed};
use crate::service::actor::{Caller, Need};
use crate::service::{Refusal, messages};

/// The routes of this family.
pub(super) fn routes() -> Router<Core> {
    Router::new().route("/messages", post(send)).route("/messages/batch", post(send_batch))
}

async fn send(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    headers: HeaderMap,
    Input(input): Input<SendInput>,
) -> Result<Response, Refusal> {
    messages::check(&input)?;
    let keyed = Keyed { operation: "send", key, path: Vec::new() };
    let need = Need::Ceiling(Permission::Message);
    if wants_minimal(&headers) {
        return core
            .keyed(&caller, need, keyed, input, messages::send, |_, _, _, sent| Ok(messages::receipt(sent)))
            .await
            .map(created);
    }
    core.keyed(&caller, need, keyed, input, messages::send, |tx, actor, _, sent| messages::result(tx, actor, sent))
        .await
        .map(created)
}

/// Whether the caller asks for the compact receipt (`Prefer: return=minimal`).
fn wants_minimal(headers: &HeaderMap) -> bool {
    headers
        .get_all("prefer")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split([',', ';']))
        .any(|preference| preference.trim().eq_ignore_ascii_case("return=minimal"))
}

async fn send_batch(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<SendBatchInput>,
) -> Result<Response, Refusal> {
    messages::check_batch(&input)?;
    let keyed = Keyed { operation: "send_batch", key, path: Vec::new() };
    let answered: Answered<_> = core
        .keyed(&caller, Need::Ceiling(Permission::Message), keyed, input, messages::send_batch, |tx, actor, _, sent| {
            messages::batch_result(tx, actor, sent)
        })
        .await?;
    Ok(created(answered))
}
