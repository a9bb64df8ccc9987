//! Pages of destinations of one connection or one person.

use beepgrid::Destination;

use super::{ReadTx, StoreError, destination_row};

// Index destinations_connection.
pub(crate) const OF_CONNECTION: &str =
    "SELECT * FROM destinations WHERE connection_id = :of AND id > :after ORDER BY id LIMIT :limit";

// Index destinations_principal: what one person has.
pub(crate) const OF_PRINCIPAL: &str =
    "SELECT * FROM destinations WHERE principal_id = :of AND id > :after ORDER BY id LIMIT :limit";

/// A connection's destinations after an id.
pub(crate) fn of_connection(tx: &ReadTx<'_>, id: &str, after: &str, limit: i64) -> Result<Vec<Destination>, StoreError> {
    tx.query(OF_CONNECTION, &[("of", &id), ("after", &after), ("limit", &limit)])?.iter().map(destination_row).collect()
}

/// A person's destinations after an id.
pub(crate) fn of_principal(tx: &ReadTx<'_>, id: &str, after: &str, limit: i64) -> Result<Vec<Destination>, StoreError> {
    tx.query(OF_PRINCIPAL, &[("of", &id), ("after", &after), ("limit", &limit)])?.iter().map(destination_row).collect()
}
