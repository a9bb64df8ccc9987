//! Enrollment, credentials and the caller over HTTP.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use axum::{Json, Router};
use beepgrid::{
    Credential, CredentialEdit, CredentialInput, CredentialReplacement, EnrollInput, IssuedCredential, Me, Permission,
    RevokeInput, RotateInput, Session,
};

use super::answer::done;
use super::extract::{Input, MaybeKey, NoKey, PathId};
use crate::core::{Core, Keyed};
use crate::service::actor::{Caller, Need};
use crate::service::{Refusal, identity, setup};

/// The routes of this family.
pub(super) fn routes() -> Router<Core> {
    Router::new()
        .route("/me", get(me))
        .route("/enroll", post(enroll))
        .route("/credentials", get(credentials).post(create_credential))
        .route("/credentials/renew", post(renew_credential))
        .route("/credentials/{id}", patch(edit_credential))
        .route("/credentials/{id}/rotate", post(rotate_credential))
        .route("/credentials/{id}/revoke", post(revoke_credential))
}

async fn me(caller: Caller, State(core): State<Core>) -> Result<Json<Me>, Refusal> {
    core.read(&caller, Need::Any, identity::me).await.map(Json)
}

async fn enroll(
    caller: Caller,
    State(core): State<Core>,
    _: NoKey,
    Input(input): Input<EnrollInput>,
) -> Result<(StatusCode, Json<Session>), Refusal> {
    setup::check_enroll(&input)?;
    let session = core.write(&caller, Need::Any, move |tx, actor| setup::enroll(tx, actor, &input)).await?;
    Ok((StatusCode::CREATED, Json(session)))
}

async fn credentials(caller: Caller, State(core): State<Core>) -> Result<Response, Refusal> {
    let (mut list, more): (Vec<Credential>, bool) = core.read(&caller, Need::Ceiling(Permission::Read), setup::list).await?;
    for credential in &mut list {
        credential.last_used_at = core.presence().last_used(&credential.id, credential.last_used_at);
    }
    let mut response = Json(list).into_response();
    if more {
        response.headers_mut().insert("x-more", axum::http::HeaderValue::from_static("true"));
    }
    Ok(response)
}

async fn create_credential(
    caller: Caller,
    State(core): State<Core>,
    _: NoKey,
    Input(input): Input<CredentialInput>,
) -> Result<(StatusCode, Json<IssuedCredential>), Refusal> {
    setup::check_credential(&input)?;
    let need = Need::Ceiling(Permission::Manage);
    let issued = core.write(&caller, need, move |tx, actor| setup::create_credential(tx, actor, &input)).await?;
    Ok((StatusCode::CREATED, Json(issued)))
}

async fn edit_credential(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<CredentialEdit>,
) -> Result<Response, Refusal> {
    setup::check_edit(&input)?;
    let keyed = Keyed { operation: "edit_credential", key, path: vec![id.clone()] };
    let need = Need::Ceiling(Permission::Manage);
    core.keyed(&caller, need, keyed, (id, input), setup::edit, |tx, _, _, id| setup::for_author(tx, id)).await.map(done)
}

async fn rotate_credential(
    caller: Caller,
    State(core): State<Core>,
    _: NoKey,
    PathId(id): PathId,
    Input(input): Input<RotateInput>,
) -> Result<Json<CredentialReplacement>, Refusal> {
    setup::check_rotate(&input)?;
    let need = Need::Ceiling(Permission::Manage);
    core.write(&caller, need, move |tx, actor| setup::rotate(tx, actor, &(id, input))).await.map(Json)
}

async fn renew_credential(caller: Caller, State(core): State<Core>, _: NoKey) -> Result<Json<Credential>, Refusal> {
    core.write(&caller, Need::Any, setup::renew).await.map(Json)
}

async fn revoke_credential(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<RevokeInput>,
) -> Result<Response, Refusal> {
    let keyed = Keyed { operation: "revoke_credential", key, path: vec![id.clone()] };
    let need = Need::Ceiling(Permission::Manage);
    core.keyed(&caller, need, keyed, (id, input), setup::revoke, |_, _, _, made| Ok(made.clone())).await.map(done)
}
