//! The Coordinator: its switch; plans where the engine has a model, and a clear refusal where it has none.

use std::time::Duration;

use beepgrid::{AssistanceUpdate, ErrorCode, OverseerInput, PlanId};

use crate::stage::{Log, Stage, check, refused, same};

/// One person may ask the model once a second.
const BETWEEN: Duration = Duration::from_millis(1_100);

/// Returns whether the engine has a model to plan with.
pub(crate) async fn visit(log: &mut Log, stage: &Stage) -> anyhow::Result<bool> {
    Log::region("Coordinator");
    let owner = &stage.owner;
    let before = log.call("its switch", owner.assistance()).await?;
    let input = AssistanceUpdate::new(true).version(before.version);
    let on = log.call("on", owner.update_assistance(input)).await?;
    check("it is on", on.overseer && on.version > before.version)?;
    if on.overseer_configured {
        plans(log, stage).await?;
    } else {
        log.line("SKIPPED", "planning, confirming, summarising, coordinating: until a model is configured in the engine");
        nothing_is_planned(log, stage).await?;
    }
    let input = AssistanceUpdate::new(before.overseer).version(on.version);
    let restored = log.call("as it was", owner.update_assistance(input)).await?;
    check("it is as it was", restored.overseer == before.overseer)?;
    Ok(restored.overseer_configured)
}

/// With a model: reviewed, confirmed once, summed up; and without a review.
async fn plans(log: &mut Log, stage: &Stage) -> anyhow::Result<()> {
    let owner = &stage.owner;
    let input = OverseerInput::new("Ask the specialists that you have whether staging is ready.");
    let plan = log.call("a plan to review", owner.plan_overseer(input)).await?;
    same("the plan", &log.call("as it stands", owner.overseer_plan(&plan.id)).await?.id, &plan.id)?;
    let listed = log.call("all plans", owner.overseer_plans()).await?;
    check("it is listed", listed.iter().any(|one| one.id == plan.id))?;
    let sent = log.call("confirmed", owner.confirm_overseer(&plan.id)).await?;
    let again = log.call("once more: the same", owner.confirm_overseer(&plan.id)).await?;
    check("it was sent once", sent.dispatches == again.dispatches)?;
    tokio::time::sleep(BETWEEN).await;
    if sent.replies.is_empty() {
        log.line("note", "the model asked nobody: there is nothing to sum up");
    } else {
        let summed = log.call("what the replies come to", owner.summarize_overseer(&plan.id)).await?;
        same("the plan", &summed.id, &plan.id)?;
        tokio::time::sleep(BETWEEN).await;
    }
    let input = OverseerInput::new("Ask the specialists to report what blocks the release.");
    let automatic = log.call("without a review", owner.coordinate(input)).await?;
    check("it says so", automatic.automatic)
}

/// Without a model: every call says so, and nothing is stored.
async fn nothing_is_planned(log: &mut Log, stage: &Stage) -> anyhow::Result<()> {
    let owner = &stage.owner;
    let nobody = PlanId::new("pln_00000000000000000000000000000000");
    let input = OverseerInput::new("Who is there?");
    refused("a plan", owner.plan_overseer(input.clone()).await, &ErrorCode::Unavailable)?;
    refused("coordinating", owner.coordinate(input).await, &ErrorCode::Unavailable)?;
    log.call("the plans so far", owner.overseer_plans()).await?;
    refused("a plan that is not there", owner.overseer_plan(&nobody).await, &ErrorCode::NotFound)?;
    refused("confirming it", owner.confirm_overseer(&nobody).await, &ErrorCode::NotFound)?;
    refused("summing it up", owner.summarize_overseer(&nobody).await, &ErrorCode::NotFound)
}
