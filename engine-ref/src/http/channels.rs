//! Channels and assistance as data over HTTP.

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{delete, get, patch, post};
use axum::{Json, Router};
use beepgrid::{
    AccountLinkInput, AckResult, AssistanceSettings, AssistanceUpdate, ConnectionDiagnostics, ConnectionEdit, ConnectionInput,
    ConnectionSetup, ConnectionTestInput, DeliveryPreferences, DestinationEdit, DestinationInput, Permission, RoutePreview,
    RoutePreviewInput, webhook,
};

use super::answer::{created, delete_resource, done};
use super::extract::{Input, MaybeKey, PathId, read_body};
use crate::core::{Core, Keyed};
use crate::service::actor::{Actor, Caller, Need};
use crate::service::channels::Callback;
use crate::service::limits::MAX_CALLBACK_BYTES;
use crate::service::{Refusal, assistance, channels};
use crate::store::WriteTx;

/// The routes of this family.
pub(super) fn routes() -> Router<Core> {
    Router::new()
        .route("/connections", post(create_connection))
        .route("/connections/{id}", patch(edit_connection).delete(delete_connection))
        .route("/connections/{id}/setup", get(connection_setup))
        .route("/connections/{id}/diagnostics", get(connection_diagnostics))
        .route("/connections/{id}/test", post(test_connection))
        .route("/callbacks/{id}", post(callback))
        .route("/destinations", post(create_destination))
        .route("/destinations/{id}", patch(edit_destination).delete(delete_destination))
        .route("/account-links", post(create_account_link))
        .route("/account-links/{id}", delete(delete_account_link))
        .route("/routes/preview", post(preview_route))
        .route("/people/{id}/delivery-preferences", get(delivery_preferences).put(save_delivery_preferences))
        .route("/assistance", get(read_assistance).patch(update_assistance))
}

const READ: Need = Need::Ceiling(Permission::Read);
const MANAGE: Need = Need::Ceiling(Permission::Manage);

async fn create_connection(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<ConnectionInput>,
) -> Result<Response, Refusal> {
    channels::check_connection(&input)?;
    let keyed = Keyed { operation: "create_connection", key, path: Vec::new() };
    let secret = core.settings().secret_key.clone();
    let effect =
        move |tx: &WriteTx<'_>, actor: &Actor, input: &ConnectionInput| channels::create_connection(tx, actor, input, &secret);
    core.keyed(&caller, MANAGE, keyed, input, effect, |tx, _, _, id| channels::connection(tx, id)).await.map(created)
}

async fn edit_connection(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<ConnectionEdit>,
) -> Result<Response, Refusal> {
    channels::check_connection_edit(&input)?;
    let keyed = Keyed { operation: "edit_connection", key, path: vec![id.clone()] };
    let secret = core.settings().secret_key.clone();
    let effect = move |tx: &WriteTx<'_>, actor: &Actor, input: &(String, ConnectionEdit)| {
        channels::edit_connection(tx, actor, input, &secret)
    };
    core.keyed(&caller, MANAGE, keyed, (id, input), effect, |tx, _, _, id| channels::connection(tx, id)).await.map(done)
}

async fn delete_connection(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
) -> Result<Response, Refusal> {
    delete_resource(core, caller, "delete_connection", key, id, channels::delete_connection).await
}

async fn connection_setup(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
) -> Result<Json<ConnectionSetup>, Refusal> {
    let url = core.settings().public_url.clone();
    core.read(&caller, READ, move |tx, actor| channels::setup(tx, actor, &id, &url)).await.map(Json)
}

async fn connection_diagnostics(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
) -> Result<Json<ConnectionDiagnostics>, Refusal> {
    let secret = core.settings().secret_key.clone();
    core.read(&caller, READ, move |tx, actor| channels::diagnostics(tx, actor, &id, &secret)).await.map(Json)
}

async fn test_connection(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<ConnectionTestInput>,
) -> Result<Response, Refusal> {
    channels::check_test(&input)?;
    let keyed = Keyed { operation: "test_connection", key, path: vec![id.clone()] };
    core.keyed(&caller, MANAGE, keyed, (id, input), channels::test, |tx, _, _, id| channels::record(tx, id)).await.map(created)
}

/// Of a provider, which has no token: the signature says who it is.
async fn callback(
    State(core): State<Core>,
    PathId(id): PathId,
    headers: HeaderMap,
    request: Request,
) -> Result<Json<AckResult>, Refusal> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let body = read_body(request, MAX_CALLBACK_BYTES).await?;
    let secret = core.settings().secret_key.clone();
    let callback = Callback {
        id: header(webhook::ID_HEADER),
        timestamp: header(webhook::TIMESTAMP_HEADER),
        signature: header(webhook::SIGNATURE_HEADER),
        body,
    };
    core.store().write(move |tx| channels::receive(tx, &id, &callback, &secret)).await?;
    Ok(Json(AckResult { received: true }))
}

async fn create_destination(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<DestinationInput>,
) -> Result<Response, Refusal> {
    channels::check_destination(&input)?;
    let keyed = Keyed { operation: "create_destination", key, path: Vec::new() };
    let answer =
        core.keyed(&caller, MANAGE, keyed, input, channels::create_destination, |tx, _, _, id| channels::destination(tx, id));
    answer.await.map(created)
}

async fn edit_destination(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<DestinationEdit>,
) -> Result<Response, Refusal> {
    channels::check_destination_edit(&input)?;
    let keyed = Keyed { operation: "edit_destination", key, path: vec![id.clone()] };
    let answer =
        core.keyed(&caller, MANAGE, keyed, (id, input), channels::edit_destination, |tx, _, _, id| channels::destination(tx, id));
    answer.await.map(done)
}

async fn delete_destination(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
) -> Result<Response, Refusal> {
    delete_resource(core, caller, "delete_destination", key, id, channels::delete_destination).await
}

async fn create_account_link(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<AccountLinkInput>,
) -> Result<Response, Refusal> {
    channels::check_link(&input)?;
    let keyed = Keyed { operation: "create_account_link", key, path: Vec::new() };
    core.keyed(&caller, MANAGE, keyed, input, channels::create_link, |tx, _, _, id| channels::link(tx, id)).await.map(created)
}

async fn delete_account_link(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
) -> Result<Response, Refusal> {
    delete_resource(core, caller, "delete_account_link", key, id, channels::delete_link).await
}

async fn preview_route(
    caller: Caller,
    State(core): State<Core>,
    Input(input): Input<RoutePreviewInput>,
) -> Result<Json<RoutePreview>, Refusal> {
    channels::check_route(&input)?;
    core.read(&caller, READ, move |tx, actor| channels::preview_route(tx, actor, &input)).await.map(Json)
}

async fn delivery_preferences(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
) -> Result<Json<DeliveryPreferences>, Refusal> {
    core.read(&caller, READ, move |tx, actor| channels::preferences(tx, actor, &id)).await.map(Json)
}

async fn save_delivery_preferences(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<DeliveryPreferences>,
) -> Result<Response, Refusal> {
    channels::check_preferences(&id, &input)?;
    let keyed = Keyed { operation: "save_delivery_preferences", key, path: vec![id.clone()] };
    let answer = core.keyed(&caller, MANAGE, keyed, (id, input), channels::save_preferences, |_, _, _, made| Ok(made.clone()));
    answer.await.map(done)
}

async fn read_assistance(caller: Caller, State(core): State<Core>) -> Result<Json<AssistanceSettings>, Refusal> {
    let configured = core.settings().planner.is_some();
    core.read(&caller, READ, move |tx, _| assistance::get(tx, configured)).await.map(Json)
}

async fn update_assistance(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<AssistanceUpdate>,
) -> Result<Response, Refusal> {
    let keyed = Keyed { operation: "update_assistance", key, path: Vec::new() };
    let configured = core.settings().planner.is_some();
    let answer =
        core.keyed(&caller, MANAGE, keyed, input, assistance::update, move |tx, _, _, ()| assistance::get(tx, configured));
    answer.await.map(done)
}
