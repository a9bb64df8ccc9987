//! The hold after a restore, and what a restore changes in every row of a kind.

use super::{ReadTx, StoreError, WriteTx};

/// Whether the workspace is on hold.
pub(crate) fn is_on(tx: &ReadTx<'_>) -> Result<bool, StoreError> {
    // Primary key.
    tx.get("SELECT on_hold FROM workspace WHERE id = 1", &[])?.bool("on_hold")
}

/// Starts the hold or takes it off. `false` if that changed nothing.
pub(crate) fn set(tx: &WriteTx<'_>, on: bool) -> Result<bool, StoreError> {
    Ok(tx.execute("UPDATE workspace SET on_hold = :on WHERE id = 1 AND on_hold <> :on", &[("on", &on)])? == 1)
}

/// Ends every credential, whoever has it. Returns how many there were.
pub(crate) fn revoke_credentials(tx: &WriteTx<'_>) -> Result<u64, StoreError> {
    // All of them, once after a restore.
    tx.execute("UPDATE credentials SET revoked = TRUE, version = version + 1 WHERE revoked = FALSE", &[])
}

/// Raises the generation of every delivery that may be leased again: after leases that the restored database knows nothing of, a
/// receiver must not take the next one for an older one.
pub(crate) fn raise_generations(tx: &WriteTx<'_>, by: i64) -> Result<u64, StoreError> {
    // What is live or set aside, once after a restore.
    tx.execute("UPDATE deliveries SET generation = generation + :by WHERE state IN ('ready', 'leased', 'parked')", &[("by", &by)])
}
