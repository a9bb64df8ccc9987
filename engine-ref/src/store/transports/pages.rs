//! Pages of what goes outside, by id, and of its attempts, by number.

use beepgrid::DeliveryId;

use super::{AttemptRow, ReadTx, StoreError, TransportRow, attempt, transport};
use crate::store::tx::Params;

// Primary key.
pub(crate) const ALL: &str = "SELECT * FROM transports WHERE id > :after ORDER BY id LIMIT :limit";

// Index transports_connection.
pub(crate) const OF_CONNECTION: &str =
    "SELECT * FROM transports WHERE connection_id = :of AND id > :after ORDER BY id LIMIT :limit";

// Index transports_operation.
pub(crate) const OF_OPERATION: &str =
    "SELECT * FROM transports WHERE operation_id = :of AND id > :after ORDER BY id LIMIT :limit";

// Index transports_request.
pub(crate) const OF_REQUEST: &str =
    "SELECT * FROM transports WHERE request_id = :request AND id > :after ORDER BY id LIMIT :limit";

// Primary key.
pub(crate) const ATTEMPTS: &str =
    "SELECT * FROM delivery_attempts WHERE delivery_id = :of AND number > :sequence ORDER BY number LIMIT :limit";

fn rows(tx: &ReadTx<'_>, sql: &'static str, params: Params<'_>) -> Result<Vec<TransportRow>, StoreError> {
    tx.query(sql, params)?.iter().map(transport).collect()
}

/// What goes outside after an id.
pub(crate) fn all(tx: &ReadTx<'_>, after: &str, limit: i64) -> Result<Vec<TransportRow>, StoreError> {
    rows(tx, ALL, &[("after", &after), ("limit", &limit)])
}

/// What goes over a connection after an id.
pub(crate) fn of_connection(tx: &ReadTx<'_>, id: &str, after: &str, limit: i64) -> Result<Vec<TransportRow>, StoreError> {
    rows(tx, OF_CONNECTION, &[("of", &id), ("after", &after), ("limit", &limit)])
}

/// What carries a message or request after an id.
pub(crate) fn of_operation(tx: &ReadTx<'_>, id: &str, after: &str, limit: i64) -> Result<Vec<TransportRow>, StoreError> {
    rows(tx, OF_OPERATION, &[("of", &id), ("after", &after), ("limit", &limit)])
}

/// What carries something of a request after an id.
pub(crate) fn of_request(tx: &ReadTx<'_>, request: &str, after: &str, limit: i64) -> Result<Vec<TransportRow>, StoreError> {
    rows(tx, OF_REQUEST, &[("request", &request), ("after", &after), ("limit", &limit)])
}

/// The attempts of one delivery after a number.
pub(crate) fn attempts(tx: &ReadTx<'_>, id: &DeliveryId, after: i64, limit: i64) -> Result<Vec<AttemptRow>, StoreError> {
    tx.query(ATTEMPTS, &[("of", id), ("sequence", &after), ("limit", &limit)])?.iter().map(attempt).collect()
}
