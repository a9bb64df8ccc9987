//! Access, explanations, capabilities and previews over HTTP. All of them are reads; a key is ignored.

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use beepgrid::{
    Access, CapabilityInput, CapabilityResult, ContactPreview, ContactPreviewInput, ExplainInput, Explanation, Permission,
    RoleBinding, RolePreview, RolePreviewInput,
};
use serde::Deserialize;

use super::extract::{Input, Params};
use crate::core::Core;
use crate::service::actor::{Caller, Need};
use crate::service::{Refusal, access, checks};

/// The routes of this family.
pub(super) fn routes() -> Router<Core> {
    Router::new()
        .route("/access", get(read_access))
        .route("/role-bindings", get(role_bindings))
        .route("/permissions/explain", post(explain))
        .route("/capabilities", post(capabilities))
        .route("/contact-permissions/preview", post(preview_contact_permissions))
        .route("/roles/preview", post(preview_role))
}

const READ: Need = Need::Ceiling(Permission::Read);

#[derive(Debug, Default, Deserialize)]
struct Subject {
    #[serde(default)]
    subject_id: Option<String>,
}

async fn read_access(caller: Caller, State(core): State<Core>, Params(params): Params<Subject>) -> Result<Json<Access>, Refusal> {
    core.read(&caller, READ, move |tx, actor| access::access(tx, actor, params.subject_id.as_deref())).await.map(Json)
}

async fn role_bindings(
    caller: Caller,
    State(core): State<Core>,
    Params(params): Params<Subject>,
) -> Result<Json<Vec<RoleBinding>>, Refusal> {
    let subject = params.subject_id.unwrap_or_default();
    checks::id("subject_id", &subject)?;
    core.read(&caller, READ, move |tx, actor| access::bindings(tx, actor, &subject)).await.map(Json)
}

async fn explain(
    caller: Caller,
    State(core): State<Core>,
    Input(input): Input<ExplainInput>,
) -> Result<Json<Explanation>, Refusal> {
    access::check_explain(&input)?;
    core.read(&caller, READ, move |tx, actor| access::explain(tx, actor, &input)).await.map(Json)
}

async fn capabilities(
    caller: Caller,
    State(core): State<Core>,
    Input(input): Input<CapabilityInput>,
) -> Result<Json<CapabilityResult>, Refusal> {
    access::check_capabilities(&input)?;
    core.read(&caller, READ, move |tx, actor| access::capability(tx, actor, &input)).await.map(Json)
}

async fn preview_contact_permissions(
    caller: Caller,
    State(core): State<Core>,
    Input(input): Input<ContactPreviewInput>,
) -> Result<Json<ContactPreview>, Refusal> {
    access::check_contact_preview(&input)?;
    core.read(&caller, READ, move |tx, actor| access::preview_policy(tx, actor, &input)).await.map(Json)
}

async fn preview_role(
    caller: Caller,
    State(core): State<Core>,
    Input(input): Input<RolePreviewInput>,
) -> Result<Json<RolePreview>, Refusal> {
    access::check_role_preview(&input)?;
    core.read(&caller, READ, move |tx, actor| access::preview_role(tx, actor, &input)).await.map(Json)
}
