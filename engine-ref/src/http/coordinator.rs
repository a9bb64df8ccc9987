//! The Coordinator over HTTP: plan, read, confirm, sum up, coordinate.
//!
//! Model-backed routes look for their key first, then ask the model outside of every transaction, then write under the key. Of two with
//! one key both may ask the model; one effect comes of it.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use beepgrid::{OverseerConfirmation, OverseerInput, OverseerPlan, Permission, PlanId};

use super::answer::{created, done};
use super::extract::{Input, MaybeKey, PathId};
use crate::core::{Answered, Core, Keyed};
use crate::service::actor::{Actor, Caller, Need};
use crate::service::coordinator::planner::{PlannerError, Planning, Proposal};
use crate::service::coordinator::{self, Made, Summed, Turn};
use crate::service::{Refusal, checks};
use crate::store::{ReadTx, WriteTx};

/// The routes of this family.
pub(super) fn routes() -> Router<Core> {
    Router::new()
        .route("/fleet/plan", post(plan))
        .route("/fleet/plans", get(list))
        .route("/fleet/plans/{id}", get(read))
        .route("/fleet/plans/{id}/summary", post(summarize))
        .route("/fleet/command", post(confirm))
        .route("/fleet/coordinate", post(coordinate))
}

const READ: Need = Need::Ceiling(Permission::Read);
/// Plans send messages and questions; which of the two is checked when it is sent.
const SEND: Need = Need::Ceiling(Permission::Message);

async fn plan(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<OverseerInput>,
) -> Result<Response, Refusal> {
    proposed(&core, &caller, "plan_overseer", key, input, coordinator::store).await
}

async fn coordinate(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<OverseerInput>,
) -> Result<Response, Refusal> {
    proposed(&core, &caller, "coordinate", key, input, coordinator::coordinate).await
}

type Effect = fn(&WriteTx<'_>, &Actor, &OverseerInput, &Proposal) -> Result<Made, Refusal>;

async fn proposed(
    core: &Core,
    caller: &Caller,
    operation: &'static str,
    key: Option<String>,
    input: OverseerInput,
    effect: Effect,
) -> Result<Response, Refusal> {
    coordinator::check(&input)?;
    let keyed = Keyed { operation, key, path: Vec::new() };
    if let Some(plan) = core.earlier(caller, SEND, keyed.clone(), input.clone(), answer(core)).await? {
        return Ok(created(Answered { value: plan, fresh: false }));
    }
    let (seen, wanted) = (core.presence().clone(), input.clone());
    let brief = core.read(caller, SEND, move |tx, actor| coordinator::brief(tx, actor, &seen, &wanted)).await?;
    let (planner, _turn) = planner(core, caller)?;
    let proposal = in_time(core, planner.plan(brief)).await?.map_err(|error| Refusal::provider_failed(error.to_string()))?;
    let effect = move |tx: &WriteTx<'_>, actor: &Actor, input: &OverseerInput| effect(tx, actor, input, &proposal);
    core.keyed(caller, SEND, keyed, input, effect, answer(core)).await.map(created)
}

async fn summarize(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
) -> Result<Response, Refusal> {
    let id = PlanId::new(id);
    let keyed = Keyed { operation: "summarize_overseer", key, path: vec![id.to_string()] };
    if let Some(plan) = core.earlier(&caller, SEND, keyed.clone(), id.clone(), answer(&core)).await? {
        return Ok(done(Answered { value: plan, fresh: false }));
    }
    let wanted = id.clone();
    let brief = core.read(&caller, SEND, move |tx, actor| coordinator::replies(tx, actor, &wanted)).await?;
    let (planner, _turn) = planner(&core, &caller)?;
    let replies = brief.replies.clone();
    // What was sent stands, whatever becomes of its summary: a failure is written down beside it.
    let summed = match in_time(&core, planner.summarize(brief)).await {
        Ok(Ok(text)) => coordinator::check_summary(&text, &replies),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the model gave no summary");
            Summed::Failed("the model failed")
        }
        Err(Refusal::ProviderTimeout) => Summed::Failed("the model did not answer in time"),
        Err(refusal) => return Err(refusal),
    };
    let effect = move |tx: &WriteTx<'_>, actor: &Actor, id: &PlanId| coordinator::summed(tx, actor, id, &summed);
    core.keyed(&caller, SEND, keyed, id, effect, answer(&core)).await.map(done)
}

async fn confirm(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<OverseerConfirmation>,
) -> Result<Response, Refusal> {
    checks::id("plan_id", input.plan_id.as_str())?;
    let keyed = Keyed { operation: "confirm_overseer", key, path: Vec::new() };
    core.keyed(&caller, SEND, keyed, input, coordinator::confirm, answer(&core)).await.map(done)
}

async fn read(caller: Caller, State(core): State<Core>, PathId(id): PathId) -> Result<Json<OverseerPlan>, Refusal> {
    let (seen, id) = (core.presence().clone(), PlanId::new(id));
    core.read(&caller, READ, move |tx, actor| coordinator::get(tx, actor, &seen, &id)).await.map(Json)
}

async fn list(caller: Caller, State(core): State<Core>) -> Result<Response, Refusal> {
    let seen = core.presence().clone();
    let (plans, more) = core.read(&caller, READ, move |tx, actor| coordinator::list(tx, actor, &seen)).await?;
    let mut response = Json(plans).into_response();
    if more {
        response.headers_mut().insert(HeaderName::from_static("x-more"), HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Builds the answer of every write of this family: the plan as it stands.
fn answer<I>(core: &Core) -> impl FnOnce(&ReadTx<'_>, &Actor, &I, &Made) -> Result<OverseerPlan, Refusal> + Send + use<I> {
    let seen = core.presence().clone();
    move |tx, actor, _, made| coordinator::get(tx, actor, &seen, &made.plan_id)
}

fn planner(
    core: &Core,
    caller: &Caller,
) -> Result<(std::sync::Arc<dyn crate::service::coordinator::planner::Planner>, Turn), Refusal> {
    let Some(planner) = core.settings().planner.clone() else {
        return Err(Refusal::NotConfigured { message: "the engine has no model for the Coordinator: set BEEPGRID_AI_PROVIDER" });
    };
    let turn = core.allowance().take(&caller.principal_id, core.clock().now())?;
    Ok((planner, turn))
}

async fn in_time<T>(core: &Core, call: Planning<T>) -> Result<Result<T, PlannerError>, Refusal> {
    let deadline: Duration = core.settings().planner_deadline;
    tokio::time::timeout(deadline, call).await.map_err(|_| Refusal::ProviderTimeout)
}
