//! Conversations and their participants.

pub(crate) mod pages;

use beepgrid::{ConversationId, PrincipalId, Timestamp};

use super::credentials::time;
use super::{ReadTx, Row, StoreError, WriteTx, principals};
use crate::service::audience::Party;

/// A conversation as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct ConversationRow {
    pub(crate) id: ConversationId,
    pub(crate) shared: bool,
    pub(crate) title: String,
    pub(crate) version: i64,
    pub(crate) manager_id: Option<PrincipalId>,
    pub(crate) created_at: Timestamp,
}

/// A participant, present or past.
#[derive(Clone, Debug)]
pub(crate) struct ParticipantRow {
    pub(crate) party: Party,
    pub(crate) active: bool,
    pub(crate) left_sequence: Option<i64>,
}

fn conversation(row: &Row) -> Result<ConversationRow, StoreError> {
    Ok(ConversationRow {
        id: row.text("id")?.into(),
        shared: row.bool("shared")?,
        title: row.text("title")?,
        version: row.int("version")?,
        manager_id: row.opt_text("manager_id")?.map(Into::into),
        created_at: time(row, "created_at")?,
    })
}

/// One conversation.
pub(crate) fn by_id(tx: &ReadTx<'_>, id: &ConversationId) -> Result<Option<ConversationRow>, StoreError> {
    // Index: primary key.
    tx.find("SELECT * FROM conversations WHERE id = :id", &[("id", id)])?.map(|row| conversation(&row)).transpose()
}

/// The pair under which a direct conversation of two principals is found.
fn pair(a: &PrincipalId, b: &PrincipalId) -> String {
    let (first, second) = if a <= b { (a, b) } else { (b, a) };
    format!("{first} {second}")
}

/// The most recently used direct conversation of exactly these two.
pub(crate) fn direct_between(tx: &ReadTx<'_>, a: &PrincipalId, b: &PrincipalId) -> Result<Option<ConversationId>, StoreError> {
    // Index: conversations_pair.
    let row =
        tx.find("SELECT id FROM conversations WHERE pair = :pair ORDER BY last_sequence DESC LIMIT 1", &[("pair", &pair(a, b))])?;
    row.map(|row| row.text("id").map(Into::into)).transpose()
}

/// Stores a conversation; `direct` names the two of a direct one.
pub(crate) fn insert(
    tx: &WriteTx<'_>,
    row: &ConversationRow,
    direct: Option<(&PrincipalId, &PrincipalId)>,
    sequence: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO conversations (id, shared, title, version, manager_id, pair, created_at, last_sequence)
         VALUES (:id, :shared, :title, :version, :manager, :pair, :now, :sequence)",
        &[
            ("id", &row.id),
            ("shared", &row.shared),
            ("title", &row.title),
            ("version", &row.version),
            ("manager", &row.manager_id),
            ("pair", &direct.map(|(a, b)| pair(a, b))),
            ("now", &row.created_at),
            ("sequence", &sequence),
        ],
    )?;
    Ok(())
}

/// Notes the newest activity, which orders conversations.
pub(crate) fn touch(tx: &WriteTx<'_>, id: &ConversationId, sequence: i64) -> Result<(), StoreError> {
    let values: super::tx::Params<'_> = &[("sequence", &sequence), ("id", id)];
    tx.execute("UPDATE conversations SET last_sequence = :sequence WHERE id = :id", values)?;
    // Prefix of the primary key: those present, at most a hundred.
    tx.execute("UPDATE participants SET last_sequence = :sequence WHERE conversation_id = :id AND active = TRUE", values)?;
    Ok(())
}

/// Stores title and manager of a chat under its next version.
pub(crate) fn update(tx: &WriteTx<'_>, row: &ConversationRow) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE conversations SET title = :title, manager_id = :manager, version = version + 1 WHERE id = :id",
        &[("title", &row.title), ("manager", &row.manager_id), ("id", &row.id)],
    )?;
    Ok(())
}

/// Where the history of a present participant starts; `None` for everybody else.
pub(crate) fn history_start(tx: &ReadTx<'_>, id: &ConversationId, principal: &PrincipalId) -> Result<Option<i64>, StoreError> {
    // Index: primary key of participants.
    let row = tx.find(
        "SELECT history_start FROM participants
         WHERE conversation_id = :id AND principal_id = :principal AND active = TRUE",
        &[("id", id), ("principal", principal)],
    )?;
    row.map(|row| row.int("history_start")).transpose()
}

/// All who are or were in a conversation, in order of ids.
pub(crate) fn participants(tx: &ReadTx<'_>, id: &ConversationId) -> Result<Vec<ParticipantRow>, StoreError> {
    // Index: primary key of participants; at most 100 present ones.
    tx.query(
        "SELECT p.id, p.kind, p.name, p.disabled, p.operator, m.active, m.left_sequence
         FROM participants m JOIN principals p ON p.id = m.principal_id
         WHERE m.conversation_id = :id ORDER BY m.principal_id",
        &[("id", id)],
    )?
    .iter()
    .map(|row| {
        Ok(ParticipantRow {
            party: principals::party(row)?,
            active: row.bool("active")?,
            left_sequence: row.opt_int("left_sequence")?,
        })
    })
    .collect()
}

/// Lets a principal in from a position on; a former participant gets a new window.
pub(crate) fn join(tx: &WriteTx<'_>, id: &ConversationId, principal: &PrincipalId, history_start: i64) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO participants (conversation_id, principal_id, history_start, active, left_sequence, last_sequence, shared)
         VALUES (:id, :principal, :start, TRUE, NULL,
            COALESCE((SELECT last_sequence FROM conversations WHERE id = :id), 0),
            COALESCE((SELECT shared FROM conversations WHERE id = :id), FALSE))
         ON CONFLICT (conversation_id, principal_id)
         DO UPDATE SET history_start = excluded.history_start, active = TRUE, left_sequence = NULL,
            last_sequence = excluded.last_sequence",
        &[("id", id), ("principal", principal), ("start", &history_start)],
    )?;
    Ok(())
}

/// Ends a principal's access at a position.
pub(crate) fn part(tx: &WriteTx<'_>, id: &ConversationId, principal: &PrincipalId, sequence: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE participants SET active = FALSE, left_sequence = :sequence
         WHERE conversation_id = :id AND principal_id = :principal",
        &[("sequence", &sequence), ("id", id), ("principal", principal)],
    )?;
    Ok(())
}
