//! Pages of every collection, and what there is to be known of the workspace: limits, providers, the fleet. All reads.

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use beepgrid::{Account, FleetStatus, Permission, Provider, QueryInput, QueryPage};

use super::extract::Input;
use crate::core::Core;
use crate::service::actor::{Caller, Need};
use crate::service::queries::{self, Context, Query};
use crate::service::{Refusal, account, fleet, providers};

/// The routes of this family.
pub(super) fn routes() -> Router<Core> {
    Router::new()
        .route("/query", post(query))
        .route("/account", get(read_account))
        .route("/providers", get(provider_catalog))
        .route("/fleet/status", get(fleet_status))
}

const READ: Need = Need::Ceiling(Permission::Read);

async fn query(caller: Caller, State(core): State<Core>, Input(input): Input<QueryInput>) -> Result<Json<QueryPage>, Refusal> {
    let query = Query::new(input)?;
    let settings = core.settings();
    let context = Context {
        presence: core.presence().clone(),
        cursor_key: settings.cursor_key.clone(),
        workspace: settings.workspace.clone(),
    };
    core.read(&caller, READ, move |tx, actor| queries::query(tx, actor, &query, &context)).await.map(Json)
}

async fn read_account(caller: Caller, State(core): State<Core>) -> Result<Json<Account>, Refusal> {
    core.read(&caller, READ, account::account).await.map(Json)
}

async fn provider_catalog(caller: Caller, State(core): State<Core>) -> Result<Json<Vec<Provider>>, Refusal> {
    core.read(&caller, READ, |_, _| Ok(providers::catalog())).await.map(Json)
}

async fn fleet_status(caller: Caller, State(core): State<Core>) -> Result<Json<FleetStatus>, Refusal> {
    let presence = core.presence().clone();
    core.read(&caller, READ, move |tx, actor| fleet::status(tx, actor, &presence)).await.map(Json)
}
