//! Events and where they are looked for.
//!
//! Beside each event stands a row for everybody whom it may concern (`event_readers`), so a read walks what concerns its reader and
//! not the traffic of the workspace. A message costs one statement and a row for each present participant; operators walk the
//! events themselves.

use beepgrid::{ConversationId, EventId, PrincipalId, Timestamp};
use serde_json::Value;

use super::credentials::time;
use super::principals::stored_json;
use super::{ReadTx, Row, StoreError, WriteTx};
use crate::service::events::Event;

/// The reader that stands for everybody: each decides by its own rules whether it may see the event.
pub(crate) const EVERYBODY: &str = "*";

/// An event as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct EventRow {
    pub(crate) sequence: i64,
    pub(crate) id: EventId,
    pub(crate) kind: String,
    pub(crate) actor_id: PrincipalId,
    pub(crate) conversation_id: ConversationId,
    pub(crate) recipient_id: PrincipalId,
    pub(crate) subject_id: String,
    pub(crate) data: Value,
    pub(crate) created_at: Timestamp,
}

/// What there is: up to which sequence events are gone, and the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) floor: i64,
    pub(crate) newest: i64,
}

fn event(row: &Row) -> Result<EventRow, StoreError> {
    Ok(EventRow {
        sequence: row.int("sequence")?,
        id: row.text("id")?.into(),
        kind: row.text("kind")?,
        actor_id: row.text("actor_id")?.into(),
        conversation_id: row.text("conversation_id")?.into(),
        recipient_id: row.text("recipient_id")?.into(),
        subject_id: row.text("subject_id")?,
        data: stored_json(row, "data")?,
        created_at: time(row, "created_at")?,
    })
}

/// Appends an event.
pub(crate) fn insert(tx: &WriteTx<'_>, sequence: i64, id: &EventId, event: &Event<'_>) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO events (sequence, id, kind, actor_id, conversation_id, recipient_id, subject_id, data, created_at)
         VALUES (:sequence, :id, :kind, :actor, :conversation, :recipient, :subject, :data, :now)",
        &[
            ("sequence", &sequence),
            ("id", id),
            ("kind", &event.kind),
            ("actor", event.actor_id),
            ("conversation", &event.conversation_id),
            ("recipient", &event.recipient_id),
            ("subject", &event.subject_id),
            ("data", &event.data.to_string()),
            ("now", &tx.now()),
        ],
    )?;
    Ok(())
}

/// Notes whom an event may concern: the present participants of its conversation, its actor and its recipient; of a request also
/// those who were asked, who asked and who executes. Returns them, conversations among them.
pub(crate) fn index(tx: &WriteTx<'_>, sequence: i64, event: &Event<'_>) -> Result<Vec<String>, StoreError> {
    // Prefixes of the primary keys of participants and request_audience.
    let rows = if event.kind.starts_with("request.") {
        tx.query(
            "INSERT INTO event_readers (reader, sequence)
             SELECT r.reader, CAST(:sequence AS BIGINT) FROM (
                SELECT principal_id AS reader FROM participants WHERE conversation_id = :conversation AND active = TRUE
                UNION SELECT principal_id FROM request_audience WHERE request_id = :subject
                UNION SELECT conversation_id FROM request_audience WHERE request_id = :subject
                UNION SELECT requester_id FROM requests WHERE id = :subject
                UNION SELECT COALESCE(executor_id, '') FROM requests WHERE id = :subject
                UNION SELECT CAST(:conversation AS TEXT)
                UNION SELECT CAST(:actor AS TEXT)
                UNION SELECT CAST(:recipient AS TEXT)) r
             WHERE r.reader <> '' RETURNING reader",
            &[
                ("sequence", &sequence),
                ("conversation", &event.conversation_id),
                ("subject", &event.subject_id),
                ("actor", event.actor_id),
                ("recipient", &event.recipient_id),
            ],
        )?
    } else {
        tx.query(
            "INSERT INTO event_readers (reader, sequence)
             SELECT r.reader, CAST(:sequence AS BIGINT) FROM (
                SELECT principal_id AS reader FROM participants WHERE conversation_id = :conversation AND active = TRUE
                UNION SELECT CAST(:conversation AS TEXT)
                UNION SELECT CAST(:actor AS TEXT)
                UNION SELECT CAST(:recipient AS TEXT)) r
             WHERE r.reader <> '' RETURNING reader",
            &[
                ("sequence", &sequence),
                ("conversation", &event.conversation_id),
                ("actor", event.actor_id),
                ("recipient", &event.recipient_id),
            ],
        )?
    };
    rows.iter().map(|row| row.text("reader")).collect()
}

/// Notes one more principal or conversation that an event may concern; false if it was noted already.
pub(crate) fn index_for(tx: &WriteTx<'_>, sequence: i64, reader: &str) -> Result<bool, StoreError> {
    let noted = tx.execute(
        "INSERT INTO event_readers (reader, sequence) VALUES (:reader, :sequence) ON CONFLICT DO NOTHING",
        &[("reader", &reader), ("sequence", &sequence)],
    )?;
    Ok(noted == 1)
}

/// Notes that what belongs to a conversation from a position on may concern a newcomer. Costs a row for each such event.
pub(crate) fn index_history(
    tx: &WriteTx<'_>,
    conversation: &ConversationId,
    newcomer: &PrincipalId,
    from: i64,
) -> Result<(), StoreError> {
    // Primary key of event_readers.
    tx.execute(
        "INSERT INTO event_readers (reader, sequence)
         SELECT CAST(:newcomer AS TEXT), sequence FROM event_readers WHERE reader = :conversation AND sequence >= :from
         ON CONFLICT DO NOTHING",
        &[("newcomer", newcomer), ("conversation", conversation), ("from", &from)],
    )?;
    Ok(())
}

/// What there is in this transaction's view.
pub(crate) fn kept(tx: &ReadTx<'_>) -> Result<Kept, StoreError> {
    let row = tx.get("SELECT events_floor, sequence FROM workspace WHERE id = 1", &[])?;
    Ok(Kept { floor: row.int("events_floor")?, newest: row.int("sequence")? })
}

/// The next events of all.
pub(crate) fn after(tx: &ReadTx<'_>, after: i64, limit: i64) -> Result<Vec<EventRow>, StoreError> {
    // Primary key.
    let rows = tx.query(
        "SELECT * FROM events WHERE sequence > :after ORDER BY sequence LIMIT :limit",
        &[("after", &after), ("limit", &limit)],
    )?;
    rows.iter().map(event).collect()
}

/// The next events that may concern a principal.
pub(crate) fn after_for(tx: &ReadTx<'_>, reader: &PrincipalId, after: i64, limit: i64) -> Result<Vec<EventRow>, StoreError> {
    // Primary key of event_readers twice, then that of events.
    let rows = tx.query(
        "SELECT e.* FROM (
            SELECT own.sequence FROM (SELECT sequence FROM event_readers
                WHERE reader = :reader AND sequence > :after ORDER BY sequence LIMIT :limit) own
            UNION
            SELECT shared.sequence FROM (SELECT sequence FROM event_readers
                WHERE reader = '*' AND sequence > :after ORDER BY sequence LIMIT :limit) shared) next
         JOIN events e ON e.sequence = next.sequence ORDER BY e.sequence LIMIT :limit",
        &[("reader", reader), ("after", &after), ("limit", &limit)],
    )?;
    rows.iter().map(event).collect()
}

/// The next events of a conversation.
pub(crate) fn after_in(
    tx: &ReadTx<'_>,
    conversation: &ConversationId,
    after: i64,
    limit: i64,
) -> Result<Vec<EventRow>, StoreError> {
    // Primary key of event_readers, then that of events.
    let rows = tx.query(
        "SELECT e.* FROM event_readers r JOIN events e ON e.sequence = r.sequence
         WHERE r.reader = :conversation AND r.sequence > :after ORDER BY r.sequence LIMIT :limit",
        &[("conversation", conversation), ("after", &after), ("limit", &limit)],
    )?;
    rows.iter().map(event).collect()
}

/// The last of the next `limit` events after `floor` if all of them happened before `time`, or of those of them that did.
pub(crate) fn older_than(tx: &ReadTx<'_>, floor: i64, time: Timestamp, limit: i64) -> Result<Option<i64>, StoreError> {
    // Primary key. Sequences follow the clock, so the first young one ends the old ones.
    let rows = tx.query(
        "SELECT sequence, created_at FROM events WHERE sequence > :floor ORDER BY sequence LIMIT :limit",
        &[("floor", &floor), ("limit", &limit)],
    )?;
    let mut last = None;
    for row in rows {
        if row.int("created_at")? >= time.as_micros() {
            break;
        }
        last = Some(row.int("sequence")?);
    }
    Ok(last)
}

/// Lets events go up to a sequence.
pub(crate) fn forget(tx: &WriteTx<'_>, up_to: i64) -> Result<(), StoreError> {
    tx.execute("UPDATE workspace SET events_floor = :floor WHERE id = 1 AND events_floor < :floor", &[("floor", &up_to)])?;
    tx.execute("DELETE FROM events WHERE sequence <= :floor", &[("floor", &up_to)])?;
    Ok(())
}

/// The reader that follows after another, and the first event noted for it.
pub(crate) fn reader_after(tx: &ReadTx<'_>, after: &str) -> Result<Option<(String, i64)>, StoreError> {
    // Primary key: a jump from reader to reader.
    let row = tx.find(
        "SELECT reader, sequence FROM event_readers WHERE reader > :after ORDER BY reader, sequence LIMIT 1",
        &[("after", &after)],
    )?;
    row.map(|row| Ok((row.text("reader")?, row.int("sequence")?))).transpose()
}

/// Lets go what stands for one reader about events that are gone.
pub(crate) fn forget_for(tx: &WriteTx<'_>, reader: &str, up_to: i64) -> Result<(), StoreError> {
    // Primary key.
    tx.execute(
        "DELETE FROM event_readers WHERE reader = :reader AND sequence <= :floor",
        &[("reader", &reader), ("floor", &up_to)],
    )?;
    Ok(())
}
