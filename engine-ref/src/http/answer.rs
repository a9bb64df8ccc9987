//! Answers of writes: 201 for what was made now, 200 for a replay and for everything that makes nothing.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use beepgrid::{Deleted, Permission};
use serde::Serialize;

use crate::core::{Answered, Core, Keyed};
use crate::service::Refusal;
use crate::service::actor::{Actor, Caller, Need};
use crate::store::WriteTx;

/// Of an operation that creates: 201, or 200 when it had been done before under the same key.
pub(super) fn created<T: Serialize>(answered: Answered<T>) -> Response {
    let status = if answered.fresh { StatusCode::CREATED } else { StatusCode::OK };
    (status, Json(answered.value)).into_response()
}

/// Of an operation that changes: 200 either way.
pub(super) fn done<T: Serialize>(answered: Answered<T>) -> Response {
    Json(answered.value).into_response()
}

/// Deletes what the path names; a replay says the same.
pub(super) async fn delete_resource(
    core: Core,
    caller: Caller,
    operation: &'static str,
    key: Option<String>,
    id: String,
    effect: fn(&WriteTx<'_>, &Actor, &str) -> Result<(), Refusal>,
) -> Result<Response, Refusal> {
    let keyed = Keyed { operation, key, path: vec![id.clone()] };
    let effect = move |tx: &WriteTx<'_>, actor: &Actor, id: &String| effect(tx, actor, id);
    let need = Need::Ceiling(Permission::Manage);
    core.keyed(&caller, need, keyed, id, effect, |_, _, _, ()| Ok(Deleted { deleted: true })).await.map(done)
}
