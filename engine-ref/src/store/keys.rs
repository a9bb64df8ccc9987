//! Idempotency records, in the transaction of the effect.

use beepgrid::{ErrorCode, PrincipalId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ReadTx, StoreError, WriteTx};
use crate::service::refusal::Refusal;

/// What was done under a key.
#[derive(Debug)]
pub(crate) struct KeyRecord {
    digest: Vec<u8>,
    made: String,
}

impl KeyRecord {
    /// The ids that the first call made, if this is the same request.
    pub(crate) fn made_for<M: DeserializeOwned>(&self, digest: &[u8; 32]) -> Result<M, Refusal> {
        if self.digest != digest {
            return Err(Refusal::conflict(
                ErrorCode::IdempotencyConflict,
                "this key was used for another request of the same operation; a new request needs a new key",
            ));
        }
        serde_json::from_str(&self.made).map_err(|e| Refusal::internal(format!("a key's record can't be read: {e}")))
    }
}

/// The record of a principal's key for an operation.
pub(crate) fn find(
    tx: &ReadTx<'_>,
    principal: &PrincipalId,
    operation: &str,
    key: &str,
) -> Result<Option<KeyRecord>, StoreError> {
    // Index: primary key.
    let row = tx.find(
        "SELECT digest, made FROM idempotency_keys WHERE principal_id = :principal AND operation = :operation AND idem_key = :key",
        &[("principal", principal), ("operation", &operation), ("key", &key)],
    )?;
    row.map(|row| Ok(KeyRecord { digest: row.blob("digest")?, made: row.text("made")? })).transpose()
}

/// Remembers what was made under a key.
pub(crate) fn insert<M: Serialize>(
    tx: &WriteTx<'_>,
    principal: &PrincipalId,
    operation: &str,
    key: &str,
    digest: &[u8; 32],
    made: &M,
) -> Result<(), Refusal> {
    let made = serde_json::to_string(made).map_err(|e| Refusal::internal(format!("a key's record can't be written: {e}")))?;
    tx.execute(
        "INSERT INTO idempotency_keys (principal_id, operation, idem_key, digest, made, created_at)
         VALUES (:principal, :operation, :key, :digest, :made, :now)",
        &[
            ("principal", principal),
            ("operation", &operation),
            ("key", &key),
            ("digest", digest),
            ("made", &made),
            ("now", &tx.now()),
        ],
    )?;
    Ok(())
}
