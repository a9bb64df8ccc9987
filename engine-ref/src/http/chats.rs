//! Conversations and chats over HTTP.

use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use beepgrid::{ChatMembershipInput, Conversation, ConversationId, Permission, StartChatInput};

use super::answer::{created, done};
use super::extract::{Input, MaybeKey, PathId};
use crate::core::{Core, Keyed};
use crate::service::actor::{Caller, Need};
use crate::service::{Refusal, chats, conversations};

/// The routes of this family.
pub(super) fn routes() -> Router<Core> {
    Router::new()
        .route("/chats", post(start_chat))
        .route("/conversations/{id}", get(conversation))
        .route("/conversations/{id}/membership", post(change_chat_membership))
}

async fn start_chat(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<StartChatInput>,
) -> Result<Response, Refusal> {
    chats::check_start(&input)?;
    let keyed = Keyed { operation: "start_chat", key, path: Vec::new() };
    core.keyed(&caller, Need::Ceiling(Permission::Message), keyed, input, chats::start, |tx, actor, _, made| {
        chats::started(tx, actor, made)
    })
    .await
    .map(created)
}

async fn conversation(caller: Caller, State(core): State<Core>, PathId(id): PathId) -> Result<Json<Conversation>, Refusal> {
    let id = ConversationId::new(id);
    core.read(&caller, Need::Ceiling(Permission::Read), move |tx, actor| conversations::get(tx, actor, &id)).await.map(Json)
}

async fn change_chat_membership(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<ChatMembershipInput>,
) -> Result<Response, Refusal> {
    chats::check_membership(&input)?;
    let keyed = Keyed { operation: "change_chat_membership", key, path: vec![id.clone()] };
    let input = (ConversationId::new(id), input);
    core.keyed(&caller, Need::Ceiling(Permission::Message), keyed, input, chats::change, |_, _, _, made| Ok(made.clone()))
        .await
        .map(done)
}
