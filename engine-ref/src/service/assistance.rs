//! The switch of the Coordinator.

use beepgrid::{AssistanceSettings, AssistanceUpdate};

use super::Refusal;
use super::actor::Actor;
use crate::store::{ReadTx, WriteTx, channels};

/// Whether the Coordinator is on, and whether the engine has a model for it.
pub(crate) fn get(tx: &ReadTx<'_>, configured: bool) -> Result<AssistanceSettings, Refusal> {
    Ok(AssistanceSettings { overseer_configured: configured, ..channels::assistance(tx)? })
}

/// Switches the Coordinator on or off.
pub(crate) fn update(tx: &WriteTx<'_>, actor: &Actor, input: &AssistanceUpdate) -> Result<(), Refusal> {
    actor.must_manage(tx, "assistance")?;
    let stored = channels::assistance(tx)?;
    if input.version.is_some_and(|version| version != stored.version) {
        return Err(Refusal::version_conflict(stored.version));
    }
    channels::set_assistance(tx, input.overseer.unwrap_or(stored.overseer))?;
    Ok(())
}
