//! People, agents, services, groups, roles, bindings, contact policies, the directory and the workspace over HTTP.

use axum::extract::State;
use axum::response::Response;
use axum::routing::{delete, get, patch, post, put};
use axum::{Json, Router};
use beepgrid::{
    ContactPermissionsInput, GroupEdit, GroupInput, Permission, PrincipalEdit, PrincipalInput, PrincipalKind, QueryPage,
    RoleBindingInput, RoleEdit, RoleInput, StatusInput, Workspace,
};
use serde::Deserialize;
use serde_json::Value;

use super::answer::{created, delete_resource, done};
use super::extract::{Input, MaybeKey, Params, PathId, number};
use crate::core::{Core, Keyed};
use crate::service::actor::{Actor, Caller, Need};
use crate::service::identity::{self, DirectoryQuery};
use crate::service::{Refusal, policies};
use crate::store::{MIGRATIONS, WriteTx};

/// The routes of this family.
pub(super) fn routes() -> Router<Core> {
    Router::new()
        .merge(principals("/people", PrincipalKind::Person))
        .merge(principals("/agents", PrincipalKind::Agent))
        .merge(principals("/services", PrincipalKind::Service))
        .route("/groups", post(create_group))
        .route("/groups/{id}", patch(edit_group).delete(delete_group))
        .route("/roles", post(create_role))
        .route("/roles/{id}", patch(edit_role).delete(delete_role))
        .route("/role-bindings", post(bind_role))
        .route("/role-bindings/{id}", delete(unbind_role))
        .route("/contact-permissions", put(save_contact_permissions))
        .route("/directory", get(directory))
        .route("/workspace", get(workspace))
}

const MANAGE: Need = Need::Ceiling(Permission::Manage);

fn operation(kind: &PrincipalKind, create: &'static str, agents: &'static str, services: &'static str) -> &'static str {
    match kind {
        PrincipalKind::Person => create,
        PrincipalKind::Service => services,
        _ => agents,
    }
}

/// Create, edit and status of one kind of principal.
fn principals(path: &str, kind: PrincipalKind) -> Router<Core> {
    let (edit_kind, status_kind) = (kind.clone(), kind.clone());
    let create = move |caller: Caller, State(core): State<Core>, MaybeKey(key): MaybeKey, Input(input): Input<PrincipalInput>| {
        create_principal(core, caller, key, kind, input)
    };
    let edit = move |caller: Caller,
                     State(core): State<Core>,
                     PathId(id): PathId,
                     MaybeKey(key): MaybeKey,
                     Input(input): Input<PrincipalEdit>| edit_principal(core, caller, key, edit_kind, (id, input));
    let status = move |caller: Caller,
                       State(core): State<Core>,
                       PathId(id): PathId,
                       MaybeKey(key): MaybeKey,
                       Input(input): Input<StatusInput>| set_status(core, caller, key, status_kind, (id, input));
    Router::new()
        .route(path, post(create))
        .route(&format!("{path}/{{id}}"), patch(edit))
        .route(&format!("{path}/{{id}}/status"), post(status))
}

async fn create_principal(
    core: Core,
    caller: Caller,
    key: Option<String>,
    kind: PrincipalKind,
    input: PrincipalInput,
) -> Result<Response, Refusal> {
    identity::check_input(&input)?;
    let operation = operation(&kind, "create_person", "create_agent", "create_service");
    let keyed = Keyed { operation, key, path: Vec::new() };
    let effect = move |tx: &WriteTx<'_>, actor: &Actor, input: &PrincipalInput| identity::create(tx, actor, kind, input);
    core.keyed(&caller, MANAGE, keyed, input, effect, |tx, actor, _, id| identity::for_author(tx, actor, id)).await.map(created)
}

async fn edit_principal(
    core: Core,
    caller: Caller,
    key: Option<String>,
    kind: PrincipalKind,
    input: (String, PrincipalEdit),
) -> Result<Response, Refusal> {
    identity::check_edit(&input.1)?;
    let operation = operation(&kind, "edit_person", "edit_agent", "edit_service");
    let keyed = Keyed { operation, key, path: vec![input.0.clone()] };
    let effect = move |tx: &WriteTx<'_>, actor: &Actor, input: &(String, PrincipalEdit)| identity::edit(tx, actor, &kind, input);
    core.keyed(&caller, MANAGE, keyed, input, effect, |tx, actor, _, id| identity::for_author(tx, actor, id)).await.map(done)
}

async fn set_status(
    core: Core,
    caller: Caller,
    key: Option<String>,
    kind: PrincipalKind,
    input: (String, StatusInput),
) -> Result<Response, Refusal> {
    let operation = operation(&kind, "set_person_status", "set_agent_status", "set_service_status");
    let keyed = Keyed { operation, key, path: vec![input.0.clone()] };
    let effect =
        move |tx: &WriteTx<'_>, actor: &Actor, input: &(String, StatusInput)| identity::set_status(tx, actor, &kind, input);
    core.keyed(&caller, MANAGE, keyed, input, effect, |tx, actor, _, id| identity::for_author(tx, actor, id)).await.map(done)
}

async fn create_group(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<GroupInput>,
) -> Result<Response, Refusal> {
    policies::check_group(&input)?;
    let keyed = Keyed { operation: "create_group", key, path: Vec::new() };
    core.keyed(&caller, MANAGE, keyed, input, policies::create_group, |tx, actor, _, id| policies::group(tx, actor, id))
        .await
        .map(created)
}

async fn edit_group(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<GroupEdit>,
) -> Result<Response, Refusal> {
    policies::check_group_edit(&input)?;
    let keyed = Keyed { operation: "edit_group", key, path: vec![id.clone()] };
    core.keyed(&caller, MANAGE, keyed, (id, input), policies::edit_group, |tx, actor, _, id| policies::group(tx, actor, id))
        .await
        .map(done)
}

async fn delete_group(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
) -> Result<Response, Refusal> {
    delete_resource(core, caller, "delete_group", key, id, policies::delete_group).await
}

async fn create_role(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<RoleInput>,
) -> Result<Response, Refusal> {
    policies::check_role(&input)?;
    let keyed = Keyed { operation: "create_role", key, path: Vec::new() };
    core.keyed(&caller, MANAGE, keyed, input, policies::create_role, |tx, _, _, id| policies::role(tx, id)).await.map(created)
}

async fn edit_role(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<RoleEdit>,
) -> Result<Response, Refusal> {
    policies::check_role_edit(&input)?;
    let keyed = Keyed { operation: "edit_role", key, path: vec![id.clone()] };
    core.keyed(&caller, MANAGE, keyed, (id, input), policies::edit_role, |tx, _, _, id| policies::role(tx, id)).await.map(done)
}

async fn delete_role(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
) -> Result<Response, Refusal> {
    delete_resource(core, caller, "delete_role", key, id, policies::delete_role).await
}

async fn bind_role(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<RoleBindingInput>,
) -> Result<Response, Refusal> {
    policies::check_binding(&input)?;
    let keyed = Keyed { operation: "bind_role", key, path: Vec::new() };
    core.keyed(&caller, MANAGE, keyed, input, policies::bind, |tx, _, _, id| policies::binding(tx, id)).await.map(created)
}

async fn unbind_role(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
) -> Result<Response, Refusal> {
    delete_resource(core, caller, "unbind_role", key, id, policies::unbind).await
}

async fn save_contact_permissions(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<ContactPermissionsInput>,
) -> Result<Response, Refusal> {
    policies::check_policy(&input)?;
    let keyed = Keyed { operation: "save_contact_permissions", key, path: Vec::new() };
    core.keyed(&caller, MANAGE, keyed, input, policies::save_policy, |_, _, _, made| Ok(made.clone())).await.map(done)
}

#[derive(Debug, Default, Deserialize)]
struct DirectoryParams {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    search: Option<String>,
    #[serde(default, deserialize_with = "number")]
    limit: Option<i64>,
    #[serde(default)]
    cursor: Option<String>,
}

async fn directory(
    caller: Caller,
    State(core): State<Core>,
    Params(params): Params<DirectoryParams>,
) -> Result<Json<QueryPage<Value>>, Refusal> {
    let query = DirectoryQuery::new(&params.kind, params.search, params.limit, params.cursor)?;
    let key = core.settings().cursor_key.clone();
    core.read(&caller, Need::Ceiling(Permission::Read), move |tx, actor| identity::directory(tx, actor, &query, &key))
        .await
        .map(Json)
}

async fn workspace(caller: Caller, State(core): State<Core>) -> Result<Json<Workspace>, Refusal> {
    let on_hold = core.read(&caller, Need::Ceiling(Permission::Read), |_, actor| Ok(actor.on_hold)).await?;
    let settings = core.settings();
    Ok(Json(Workspace {
        scope: settings.workspace.clone(),
        company: settings.workspace.clone(),
        environment: settings.environment.clone(),
        deployment: "self_hosted".to_owned(),
        schema_version: MIGRATIONS.last().map_or(0, |migration| migration.version),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        on_hold,
    }))
}
