//! Bound actions over HTTP: redeem an approval, report what was seen.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use beepgrid::{ExecutionId, Permission, RedeemInput, ReportInput, RequestId};

use super::answer::{created, done};
use super::extract::{Input, MaybeKey, PathId};
use crate::core::{Answered, Core, Keyed};
use crate::service::actor::{Caller, Need};
use crate::service::{Refusal, executions, requests};

/// The routes of this family.
pub(super) fn routes() -> Router<Core> {
    Router::new().route("/requests/{id}/redeem", post(redeem)).route("/executions/{id}/report", post(report))
}

async fn redeem(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<RedeemInput>,
) -> Result<Response, Refusal> {
    requests::form::action(&input.action).map_err(|refusal| refusal.at("action"))?;
    let keyed = Keyed { operation: "redeem", key, path: vec![id.clone()] };
    let answer = core.keyed(
        &caller,
        Need::Ceiling(Permission::Execute),
        keyed,
        (RequestId::new(id), input),
        executions::redeem,
        executions::redeemed,
    );
    let Answered { value: (execution, made), fresh } = answer.await?;
    Ok(created(Answered { value: execution, fresh: fresh && made }))
}

async fn report(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(input): Input<ReportInput>,
) -> Result<Response, Refusal> {
    executions::check_report(&input)?;
    let keyed = Keyed { operation: "report_execution", key, path: vec![id.clone()] };
    let answer = core.keyed(
        &caller,
        Need::Ceiling(Permission::Execute),
        keyed,
        (ExecutionId::new(id), input),
        executions::report,
        executions::reported,
    );
    answer.await.map(done)
}
