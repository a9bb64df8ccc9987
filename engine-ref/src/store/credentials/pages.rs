//! Pages of credentials: all of them, or those of one principal.

use super::{CredentialRow, ReadTx, StoreError, credential};

// Primary key.
pub(crate) const ALL: &str = "SELECT c.*, p.name AS owner_name FROM credentials c JOIN principals p ON p.id = c.principal_id
     WHERE c.id > :after ORDER BY c.id LIMIT :limit";

// Index credentials_principal.
pub(crate) const OF_PRINCIPAL: &str =
    "SELECT c.*, p.name AS owner_name FROM credentials c JOIN principals p ON p.id = c.principal_id
     WHERE c.principal_id = :principal AND c.id > :after ORDER BY c.id LIMIT :limit";

/// Credentials after an id.
pub(crate) fn all(tx: &ReadTx<'_>, after: &str, limit: i64) -> Result<Vec<CredentialRow>, StoreError> {
    tx.query(ALL, &[("after", &after), ("limit", &limit)])?.iter().map(credential).collect()
}

/// A principal's credentials after an id.
pub(crate) fn of_principal(tx: &ReadTx<'_>, principal: &str, after: &str, limit: i64) -> Result<Vec<CredentialRow>, StoreError> {
    tx.query(OF_PRINCIPAL, &[("principal", &principal), ("after", &after), ("limit", &limit)])?.iter().map(credential).collect()
}
