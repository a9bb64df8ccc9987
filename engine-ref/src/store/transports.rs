//! What goes outside over connections, the attempts to hand it over, and what providers call back with.

pub(crate) mod pages;

use beepgrid::{ConnectionId, ConversationId, DeliveryId, DestinationId, MessageId, PrincipalId, RequestId, Timestamp};

use super::credentials::time;
use super::{ReadTx, Row, StoreError, WriteTx};

/// Where everything begins that is to go outside.
pub(crate) const QUEUED: &str = "queued";
/// How a transport can stand.
pub(crate) const STATES: &[&str] = &[QUEUED, "sending", "accepted", "failed", "unknown"];

/// A transport as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TransportRow {
    pub(crate) id: DeliveryId,
    pub(crate) connection_id: ConnectionId,
    pub(crate) destination_id: DestinationId,
    pub(crate) recipient_id: PrincipalId,
    pub(crate) kind: String,
    pub(crate) operation_id: String,
    pub(crate) message_id: Option<MessageId>,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) conversation_id: Option<ConversationId>,
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
    pub(crate) attempts: i64,
    pub(crate) created_at: Timestamp,
    pub(crate) changed_at: Timestamp,
}

/// An attempt as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AttemptRow {
    pub(crate) number: i64,
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) changed_at: Timestamp,
}

fn transport(row: &Row) -> Result<TransportRow, StoreError> {
    Ok(TransportRow {
        id: row.text("id")?.into(),
        connection_id: row.text("connection_id")?.into(),
        destination_id: row.text("destination_id")?.into(),
        recipient_id: row.text("recipient_id")?.into(),
        kind: row.text("kind")?,
        operation_id: row.text("operation_id")?,
        message_id: row.opt_text("message_id")?.map(Into::into),
        request_id: row.opt_text("request_id")?.map(Into::into),
        conversation_id: row.opt_text("conversation_id")?.map(Into::into),
        state: row.text("state")?,
        reason: row.opt_text("reason")?,
        attempts: row.int("attempts")?,
        created_at: time(row, "created_at")?,
        changed_at: time(row, "changed_at")?,
    })
}

fn attempt(row: &Row) -> Result<AttemptRow, StoreError> {
    Ok(AttemptRow {
        number: row.int("number")?,
        state: row.text("state")?,
        reason: row.opt_text("reason")?,
        created_at: time(row, "created_at")?,
        changed_at: time(row, "changed_at")?,
    })
}

/// One transport.
pub(crate) fn by_id(tx: &ReadTx<'_>, id: &DeliveryId) -> Result<Option<TransportRow>, StoreError> {
    // Index: primary key.
    tx.find("SELECT * FROM transports WHERE id = :id", &[("id", id)])?.map(|row| transport(&row)).transpose()
}

/// One attempt.
pub(crate) fn attempt_by_number(tx: &ReadTx<'_>, id: &DeliveryId, number: i64) -> Result<Option<AttemptRow>, StoreError> {
    // Index: primary key.
    let sql = "SELECT * FROM delivery_attempts WHERE delivery_id = :id AND number = :number";
    tx.find(sql, &[("id", id), ("number", &number)])?.map(|row| attempt(&row)).transpose()
}

/// Stores what is to go outside, with its first attempt; both wait.
pub(crate) fn queue(tx: &WriteTx<'_>, row: &TransportRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO transports (id, connection_id, destination_id, recipient_id, kind, operation_id, message_id, request_id,
                                 conversation_id, state, attempts, created_at, changed_at)
         VALUES (:id, :connection, :destination, :recipient, :kind, :operation, :message, :request, :conversation, 'queued', 1,
                 :now, :now)",
        &[
            ("id", &row.id),
            ("connection", &row.connection_id),
            ("destination", &row.destination_id),
            ("recipient", &row.recipient_id),
            ("kind", &row.kind),
            ("operation", &row.operation_id),
            ("message", &row.message_id),
            ("request", &row.request_id),
            ("conversation", &row.conversation_id),
            ("now", &row.created_at),
        ],
    )?;
    tx.execute(
        "INSERT INTO delivery_attempts (delivery_id, number, state, created_at, changed_at) VALUES (:id, 1, 'queued', :now, :now)",
        &[("id", &row.id), ("now", &row.created_at)],
    )?;
    Ok(())
}

/// Ends what waits for a connection that is gone, or for one of its destinations: it will never be sent.
pub(crate) fn give_up(
    tx: &WriteTx<'_>,
    connection: &ConnectionId,
    destination: Option<&DestinationId>,
    reason: &str,
) -> Result<(), StoreError> {
    // Index: transports_waiting.
    tx.execute(
        "UPDATE delivery_attempts SET state = 'failed', reason = :reason, changed_at = :now
         WHERE state = 'queued' AND delivery_id IN (
             SELECT id FROM transports WHERE connection_id = :connection AND state IN ('queued', 'sending') AND state = 'queued'
               AND (CAST(:destination AS TEXT) IS NULL OR destination_id = :destination))",
        &[("reason", &reason), ("now", &tx.now()), ("connection", connection), ("destination", &destination)],
    )?;
    tx.execute(
        "UPDATE transports SET state = 'failed', reason = :reason, changed_at = :now
         WHERE connection_id = :connection AND state IN ('queued', 'sending') AND state = 'queued'
           AND (CAST(:destination AS TEXT) IS NULL OR destination_id = :destination)",
        &[("reason", &reason), ("now", &tx.now()), ("connection", connection), ("destination", &destination)],
    )?;
    Ok(())
}

/// Marks what was on its way to a provider as of unknown outcome: whoever sent it can't say any more. Returns how many there were.
pub(crate) fn lose_track(tx: &WriteTx<'_>, reason: &str) -> Result<u64, StoreError> {
    // Few; once after a restore.
    tx.execute(
        "UPDATE delivery_attempts SET state = 'unknown', reason = :reason, changed_at = :now WHERE state = 'sending'",
        &[("reason", &reason), ("now", &tx.now())],
    )?;
    tx.execute(
        "UPDATE transports SET state = 'unknown', reason = :reason, changed_at = :now
         WHERE state IN ('queued', 'sending') AND state = 'sending'",
        &[("reason", &reason), ("now", &tx.now())],
    )
}

/// How many callbacks of a connection nobody has looked at; counted up to a limit.
pub(crate) fn waiting_callbacks(tx: &ReadTx<'_>, connection: &ConnectionId, limit: i64) -> Result<i64, StoreError> {
    // Index: callbacks_waiting.
    tx.get(
        "SELECT count(*) AS n FROM (
             SELECT 1 FROM callbacks WHERE connection_id = :connection AND handled_at IS NULL LIMIT :limit) waiting",
        &[("connection", connection), ("limit", &limit)],
    )?
    .int("n")
}

/// Whether a callback with this id came before.
pub(crate) fn has_callback(tx: &ReadTx<'_>, connection: &ConnectionId, external_id: &str) -> Result<bool, StoreError> {
    // Index: primary key.
    let sql = "SELECT 1 AS known FROM callbacks WHERE connection_id = :connection AND external_id = :id";
    Ok(tx.find(sql, &[("connection", connection), ("id", &external_id)])?.is_some())
}

/// Stores a callback.
pub(crate) fn insert_callback(
    tx: &WriteTx<'_>,
    connection: &ConnectionId,
    external_id: &str,
    body: &[u8],
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO callbacks (connection_id, external_id, body, received_at) VALUES (:connection, :id, :body, :now)",
        &[("connection", connection), ("id", &external_id), ("body", &body), ("now", &tx.now())],
    )?;
    Ok(())
}

/// Deletes what a connection was called back with.
pub(crate) fn delete_callbacks(tx: &WriteTx<'_>, connection: &ConnectionId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM callbacks WHERE connection_id = :connection", &[("connection", connection)])?;
    Ok(())
}
