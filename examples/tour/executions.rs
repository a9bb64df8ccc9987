//! Bound actions: an approval for exactly one thing, redeemed by who carries it out.

use beepgrid::{
    Action, AskInput, ErrorCode, ExecutionState, JsonMap, Outcome, RedeemInput, ReportInput, RequestKind, ResponseInput, Target,
};
use serde_json::json;

use crate::stage::{Log, Stage, refused, same};

pub(crate) async fn visit(log: &mut Log, stage: &Stage) -> anyhow::Result<()> {
    Log::region("Bound approvals and execution");
    let (owner, builder) = (&stage.owner, &stage.builder);
    let mut arguments = JsonMap::new();
    arguments.insert("ids".to_owned(), json!([241, 242]));
    let action = Action::new("reconcile-orders", &stage.builder_id, "orders", stage.name("business"))
        .resource_version("v2")
        .arguments(arguments);
    let ask = AskInput::to(Target::person(&stage.me.id), "Reconcile these two orders?");
    let ask = ask.kind(RequestKind::Approval).action(action.clone());
    let approval = log.call("for this action, nothing else", owner.ask(ask)).await?;
    refused(
        "before the decision",
        builder.redeem(&approval.id, RedeemInput::new(action.clone())).await,
        &ErrorCode::NotApproved,
    )?;
    let input = ResponseInput::new(Outcome::Approved, approval.version);
    log.call("approved", owner.respond(&approval.id, input)).await?;
    let other = action.clone().resource_version("v3");
    refused("another action", builder.redeem(&approval.id, RedeemInput::new(other)).await, &ErrorCode::ActionMismatch)?;
    let execution = log.call("Builder may carry it out", builder.redeem(&approval.id, RedeemInput::new(action.clone()))).await?;
    same("the state", &execution.state, &ExecutionState::Authorized)?;
    let again = log.call("once more: the same execution", builder.redeem(&approval.id, RedeemInput::new(action))).await?;
    same("the execution", &again.id, &execution.id)?;
    let running = ReportInput::new(ExecutionState::Running);
    log.call("it runs", builder.report_execution(&execution.id, running)).await?;
    let report = ReportInput::new(ExecutionState::Succeeded).result(json!({"fixture": true}));
    let done = log.call("it is done", builder.report_execution(&execution.id, report)).await?;
    same("the state", &done.state, &ExecutionState::Succeeded)
}
