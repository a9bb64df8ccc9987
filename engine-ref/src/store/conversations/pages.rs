//! Pages of conversations by recent activity, the most recent first: all of them, or those of one participant.

use beepgrid::ConversationId;

use super::{ConversationRow, ReadTx, Row, StoreError, conversation};

// Index participants_recent, from its end.
pub(crate) const OF_PARTICIPANT: &str = "SELECT c.*, p.last_sequence AS activity
     FROM participants p JOIN conversations c ON c.id = p.conversation_id
     WHERE p.principal_id = :principal AND p.active = TRUE AND (p.last_sequence, p.conversation_id) < (:sequence, :id)
     ORDER BY p.last_sequence DESC, p.conversation_id DESC LIMIT :limit";

// Index conversations_recent, from its end.
pub(crate) const ALL: &str = "SELECT c.*, c.last_sequence AS activity FROM conversations c
     WHERE (c.last_sequence, c.id) < (:sequence, :id) ORDER BY c.last_sequence DESC, c.id DESC LIMIT :limit";

/// A place in the order of recent activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) sequence: i64,
    pub(crate) id: String,
}

/// A conversation and its place.
#[derive(Clone, Debug)]
pub(crate) struct RecentRow {
    pub(crate) conversation: ConversationRow,
    pub(crate) place: Place,
}

fn recent(row: &Row) -> Result<RecentRow, StoreError> {
    let place = Place { sequence: row.int("activity")?, id: row.text("id")? };
    Ok(RecentRow { conversation: conversation(row)?, place })
}

/// Conversations that a principal is in now, less recent than a place.
pub(crate) fn of_participant(tx: &ReadTx<'_>, principal: &str, before: &Place, limit: i64) -> Result<Vec<RecentRow>, StoreError> {
    let params: super::super::tx::Params<'_> =
        &[("principal", &principal), ("sequence", &before.sequence), ("id", &before.id), ("limit", &limit)];
    tx.query(OF_PARTICIPANT, params)?.iter().map(recent).collect()
}

/// Conversations less recent than a place.
pub(crate) fn all(tx: &ReadTx<'_>, before: &Place, limit: i64) -> Result<Vec<RecentRow>, StoreError> {
    tx.query(ALL, &[("sequence", &before.sequence), ("id", &before.id), ("limit", &limit)])?.iter().map(recent).collect()
}

/// One conversation and its place.
pub(crate) fn by_id(tx: &ReadTx<'_>, id: &str) -> Result<Option<RecentRow>, StoreError> {
    // Index: primary key.
    let row = tx.find("SELECT c.*, c.last_sequence AS activity FROM conversations c WHERE c.id = :id", &[("id", &id)])?;
    row.map(|row| recent(&row)).transpose()
}

/// Whether a principal is in a conversation now.
pub(crate) fn is_in(tx: &ReadTx<'_>, id: &ConversationId, principal: &str) -> Result<bool, StoreError> {
    // Index: primary key of participants.
    let found = tx.find(
        "SELECT 1 AS found FROM participants WHERE conversation_id = :id AND principal_id = :principal AND active = TRUE",
        &[("id", id), ("principal", &principal)],
    )?;
    Ok(found.is_some())
}
