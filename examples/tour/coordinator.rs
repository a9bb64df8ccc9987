//! The Coordinator: its switch, and why nothing is planned here.

use beepgrid::AssistanceUpdate;

use crate::stage::{Log, Stage, check};

/// Returns whether the engine has a model to plan with.
pub(crate) async fn visit(log: &mut Log, stage: &Stage) -> anyhow::Result<bool> {
    Log::region("Coordinator");
    let owner = &stage.owner;
    let before = log.call("its switch", owner.assistance()).await?;
    let input = AssistanceUpdate::new(true).version(before.version);
    let on = log.call("on", owner.update_assistance(input)).await?;
    check("it is on", on.overseer && on.version > before.version)?;
    let input = AssistanceUpdate::new(before.overseer).version(on.version);
    let restored = log.call("as it was", owner.update_assistance(input)).await?;
    check("it is as it was", restored.overseer == before.overseer)?;
    if !restored.overseer_configured {
        log.line("SKIPPED", "planning, confirming, summarising, coordinating: until a model is configured in the engine");
    }
    Ok(restored.overseer_configured)
}
