//! What has to be done to a workspace that came out of a backup, and that it stands still meanwhile.
//!
//! Between the backup and the restore things happened that the workspace does not know any more: tokens were revoked, messages went
//! outside, workers acknowledged, readers saw events. So nobody's token counts until somebody has looked, nothing is done by itself,
//! and what is numbered goes on with numbers that nobody has seen.

use super::limits::RESTORE_GAP;
use super::{Refusal, policies, setup};
use crate::signals::Signal;
use crate::store::{ReadTx, WriteTx, hold, principals, transports};

/// Starts the hold: every credential ends but a fresh one of the owner, sequences and generations go on far ahead, and what was on its
/// way outside is of unknown outcome. Returns whether there is an owner; without one nothing is done.
pub(crate) fn begin(tx: &WriteTx<'_>, token: &str) -> Result<bool, Refusal> {
    let Some(owner) = principals::first_operator(tx)? else { return Ok(false) };
    hold::set(tx, true)?;
    hold::revoke_credentials(tx)?;
    setup::issue_owner(tx, owner, token)?;
    tx.skip_sequences(RESTORE_GAP)?;
    hold::raise_generations(tx, RESTORE_GAP)?;
    transports::lose_track(tx, "restored")?;
    // Engines that compiled the rules of the time after the backup have to forget them.
    policies::changed(tx)?;
    tx.signal(Signal::All);
    Ok(true)
}

/// Takes the hold off. Returns whether there was one.
pub(crate) fn resume(tx: &WriteTx<'_>) -> Result<bool, Refusal> {
    let resumed = hold::set(tx, false)?;
    tx.signal(Signal::All);
    Ok(resumed)
}

/// Refuses whatever an operator's right does not stand behind, while the workspace is on hold.
pub(crate) fn refuse_on_hold(tx: &ReadTx<'_>) -> Result<(), Refusal> {
    if hold::is_on(tx)? { Err(Refusal::OnHold) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
