//! Dispatch previews over HTTP. They send nothing, and a key is ignored.

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use beepgrid::{DispatchPreview, DispatchPreviewInput, Permission};

use super::extract::Input;
use crate::core::Core;
use crate::service::actor::{Caller, Need};
use crate::service::{Refusal, previews};

/// The routes of this family.
pub(super) fn routes() -> Router<Core> {
    Router::new().route("/dispatch/preview", post(dispatch_preview))
}

async fn dispatch_preview(
    caller: Caller,
    State(core): State<Core>,
    Input(input): Input<DispatchPreviewInput>,
) -> Result<Json<DispatchPreview>, Refusal> {
    previews::check_form(&input)?;
    let key = core.settings().cursor_key.clone();
    let need = Need::Ceiling(Permission::Read);
    core.read(&caller, need, move |tx, actor| previews::preview(tx, actor, &input, &key)).await.map(Json)
}
