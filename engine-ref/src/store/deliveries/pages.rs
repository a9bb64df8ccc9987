//! Pages of deliveries by id.

use super::{DeliveryId, DeliveryRow, PrincipalId, ReadTx, RequestId, StoreError, WriteTx, all as rows};

// Primary key.
pub(crate) const ALL: &str = "SELECT * FROM deliveries WHERE id > :after ORDER BY id LIMIT :limit";

// Index deliveries_set_aside.
pub(crate) const PARKED: &str = "SELECT * FROM deliveries WHERE state = 'parked' AND id > :after ORDER BY id LIMIT :limit";

// Index deliveries_request: what belongs to one request.
pub(crate) const OF_REQUEST: &str =
    "SELECT * FROM deliveries WHERE request_id = :request AND id > :after ORDER BY id LIMIT :limit";

// Primary key of item_readers and index deliveries_set_aside_of.
pub(crate) const OF: &str = "SELECT found.id AS id FROM (
        SELECT asked.id FROM (SELECT item_id AS id FROM item_readers
            WHERE reader = :reader AND item_id > :after AND item_id < 'dlv_~' ORDER BY item_id LIMIT :limit) asked
        UNION
        SELECT own.id FROM (SELECT id FROM deliveries
            WHERE agent_id = :reader AND state = 'parked' AND id > :after ORDER BY id LIMIT :limit) own) found
     ORDER BY found.id LIMIT :limit";

/// Deliveries after an id.
pub(crate) fn all(tx: &ReadTx<'_>, after: &str, limit: i64) -> Result<Vec<DeliveryRow>, StoreError> {
    rows(&tx.query(ALL, &[("after", &after), ("limit", &limit)])?)
}

/// Parked deliveries after an id.
pub(crate) fn parked(tx: &ReadTx<'_>, after: &str, limit: i64) -> Result<Vec<DeliveryRow>, StoreError> {
    rows(&tx.query(PARKED, &[("after", &after), ("limit", &limit)])?)
}

/// A request's deliveries after an id.
pub(crate) fn of_request(tx: &ReadTx<'_>, request: &str, after: &str, limit: i64) -> Result<Vec<DeliveryRow>, StoreError> {
    rows(&tx.query(OF_REQUEST, &[("request", &request), ("after", &after), ("limit", &limit)])?)
}

/// Deliveries of what a reader asked, also outside, and its own that are parked, after an id, which begins with the prefix of
/// deliveries.
pub(crate) fn of(tx: &ReadTx<'_>, reader: &PrincipalId, after: &str, limit: i64) -> Result<Vec<DeliveryId>, StoreError> {
    let found = tx.query(OF, &[("reader", reader), ("after", &after), ("limit", &limit)])?;
    found.iter().map(|row| Ok(row.text("id")?.into())).collect()
}

/// Notes whom a request's delivery concerns: who asked.
pub(super) fn note_reader(tx: &WriteTx<'_>, id: &DeliveryId, request: &RequestId) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO item_readers (reader, item_id) SELECT requester_id, CAST(:id AS TEXT) FROM requests WHERE id = :request",
        &[("id", id), ("request", request)],
    )?;
    Ok(())
}
