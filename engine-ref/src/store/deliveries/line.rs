//! The ordered lane: each conversation of an agent is a line of live deliveries, of which all but the first are marked as
//! waiting. The lease looks at the first ones only, and goes along a line where it may.

use beepgrid::{ConversationId, PrincipalId};

use super::{DeliveryRow, Kinds, Place, ReadTx, StoreError, Worker, WriteTx, all};
use crate::store::tx::Params;

// The lines in which something may be leased, by their first delivery: it is due, and nobody holds anything of the line. The worker
// itself holds a line back as well: if the answer to its earlier lease was lost, what follows would overtake what was in it.
// Index: deliveries_front for the walk, deliveries_holding for each line.
macro_rules! fronts {
    ($prefix:literal) => {
        concat!(
            $prefix,
            "SELECT d.* FROM deliveries d
             WHERE d.agent_id = :agent AND d.waits = FALSE AND d.lane = 2 AND d.state IN ('ready', 'leased')
               AND (d.position, d.id) > (:position, :after)
               AND d.due_at <= :now
               AND NOT EXISTS (
                   SELECT 1 FROM deliveries h
                   WHERE h.agent_id = :agent AND h.conversation_id = d.conversation_id AND h.due_at > :now
                     AND h.lane = 2 AND h.state IN ('ready', 'leased') AND h.state = 'leased' AND h.leased_until > :now)
             ORDER BY d.position, d.id LIMIT :limit"
        )
    };
}

// A line from a place on, without what is due but not of a wanted kind.
// Index: deliveries_line.
macro_rules! along {
    ($prefix:literal) => {
        concat!(
            $prefix,
            "SELECT d.* FROM deliveries d
             WHERE d.agent_id = :agent AND d.conversation_id = :conversation AND d.lane = 2 AND d.state IN ('ready', 'leased')
               AND (d.position, d.id) > (:position, :after)
               AND (d.due_at > :now OR (d.kind = 'message' AND :messages = TRUE) OR (d.kind = 'request' AND :requests = TRUE))
             ORDER BY d.position, d.id LIMIT :limit"
        )
    };
}

/// The first deliveries of the lines in which something may be leased, in order, after a place.
pub(crate) fn fronts(tx: &ReadTx<'_>, agent: &PrincipalId, after: &Place, limit: i64) -> Result<Vec<DeliveryRow>, StoreError> {
    all(&tx.query(
        fronts!(""),
        &[("agent", agent), ("position", &after.position), ("after", &after.id), ("now", &tx.now()), ("limit", &limit)],
    )?)
}

/// What stands in a free line after a place. All of it may be leased up to the first that is not due.
pub(crate) fn along(
    tx: &ReadTx<'_>,
    agent: &PrincipalId,
    (conversation, kinds): (&ConversationId, Kinds),
    after: &Place,
    limit: i64,
) -> Result<Vec<DeliveryRow>, StoreError> {
    all(&tx.query(
        along!(""),
        &[
            ("agent", agent),
            ("conversation", conversation),
            ("position", &after.position),
            ("after", &after.id),
            ("now", &tx.now()),
            ("messages", &kinds.messages),
            ("requests", &kinds.requests),
            ("limit", &limit),
        ],
    )?)
}

/// Lets the one that stands first now in a line be its front, after another has left it.
pub(super) fn leave(tx: &WriteTx<'_>, left: &DeliveryRow) -> Result<(), StoreError> {
    // Index: deliveries_line, one entry.
    tx.execute(
        "UPDATE deliveries SET waits = FALSE
         WHERE waits = TRUE AND id = (
             SELECT d.id FROM deliveries d
             WHERE d.agent_id = :agent AND d.conversation_id = :conversation AND d.lane = 2 AND d.state IN ('ready', 'leased')
             ORDER BY d.position, d.id LIMIT 1)",
        &[("agent", &left.agent_id), ("conversation", &left.conversation_id)],
    )?;
    Ok(())
}

/// Puts a delivery that is live again into its old place, in front of what stood first if that is later.
pub(super) fn join_again(tx: &WriteTx<'_>, row: &DeliveryRow) -> Result<(), StoreError> {
    // Index: deliveries_line, one entry each.
    let place: Params<'_> =
        &[("id", &row.id), ("position", &row.position), ("agent", &row.agent_id), ("conversation", &row.conversation_id)];
    tx.execute(
        "UPDATE deliveries SET waits = EXISTS (
             SELECT 1 FROM deliveries d
             WHERE d.agent_id = :agent AND d.conversation_id = :conversation AND d.lane = 2 AND d.state IN ('ready', 'leased')
               AND (d.position, d.id) < (:position, :id))
         WHERE id = :id",
        place,
    )?;
    tx.execute(
        "UPDATE deliveries SET waits = TRUE
         WHERE waits = FALSE AND id = (
             SELECT d.id FROM deliveries d
             WHERE d.agent_id = :agent AND d.conversation_id = :conversation AND d.lane = 2 AND d.state IN ('ready', 'leased')
               AND (d.position, d.id) > (:position, :id)
             ORDER BY d.position, d.id LIMIT 1)",
        place,
    )?;
    Ok(())
}

/// Whether an instance other than the worker's holds a running lease in a line.
pub(crate) fn is_held_by_other(tx: &ReadTx<'_>, worker: &Worker<'_>, conversation: &ConversationId) -> Result<bool, StoreError> {
    // Index: deliveries_holding.
    let found = tx.find(
        "SELECT 1 AS held FROM deliveries
         WHERE agent_id = :agent AND conversation_id = :conversation AND due_at > :now AND lane = 2
           AND state IN ('ready', 'leased') AND state = 'leased' AND leased_until > :now AND leased_by <> :instance LIMIT 1",
        &[("agent", worker.agent), ("conversation", conversation), ("now", &tx.now()), ("instance", worker.instance)],
    )?;
    Ok(found.is_some())
}

/// Whether a line has something that is due.
pub(crate) fn has_due(tx: &ReadTx<'_>, agent: &PrincipalId, conversation: &ConversationId) -> Result<bool, StoreError> {
    // Index: deliveries_holding.
    let found = tx.find(
        "SELECT 1 AS due FROM deliveries
         WHERE agent_id = :agent AND conversation_id = :conversation AND due_at <= :now AND lane = 2
           AND state IN ('ready', 'leased') LIMIT 1",
        &[("agent", agent), ("conversation", conversation), ("now", &tx.now())],
    )?;
    Ok(found.is_some())
}

#[cfg(test)]
mod tests;
