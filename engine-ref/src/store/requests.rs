//! Requests and their original audience.

pub(crate) mod pages;

use beepgrid::{
    Action, ConversationId, InstanceId, Mention, PrincipalId, RequestId, RequestKind, RequestState, Response, Timestamp,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ReadTx, Row, StoreError, WriteTx};

/// A request as it is stored. A due one may still say `open`: readers go through `service::requests`.
#[derive(Clone, Debug)]
pub(crate) struct RequestRow {
    pub(crate) id: RequestId,
    /// Where the requester reads it; in a group ask the first member's private history.
    pub(crate) conversation_id: ConversationId,
    pub(crate) requester_id: PrincipalId,
    pub(crate) requester_instance_id: Option<InstanceId>,
    pub(crate) kind: RequestKind,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) choices: Vec<String>,
    pub(crate) mentions: Vec<Mention>,
    pub(crate) blocking: bool,
    pub(crate) group_ask: bool,
    pub(crate) state: RequestState,
    pub(crate) version: i64,
    pub(crate) action: Option<Action>,
    pub(crate) executor_id: Option<PrincipalId>,
    pub(crate) shared_key: String,
    pub(crate) expires_at: Timestamp,
    pub(crate) created_at: Timestamp,
    pub(crate) sequence: i64,
    pub(crate) closed_at: Option<Timestamp>,
    pub(crate) closed_by: Option<PrincipalId>,
    pub(crate) response: Option<Response>,
    pub(crate) replaces_id: Option<RequestId>,
}

/// One of those who were asked, and where it reads the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeatRow {
    pub(crate) principal_id: PrincipalId,
    pub(crate) conversation_id: ConversationId,
}

/// A request beside what decides whether one reader may see it.
#[derive(Clone, Debug)]
pub(crate) struct SeenRow {
    pub(crate) request: RequestRow,
    /// Whether it stands in a shared chat.
    pub(crate) shared: bool,
    /// Where the reader was asked, if it was.
    pub(crate) seat: Option<ConversationId>,
    /// The reader's history window in the conversation where it would read the request, while it is a participant.
    pub(crate) window: Option<i64>,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) struct Closing<'c> {
    pub(crate) id: &'c RequestId,
    pub(crate) state: &'c RequestState,
    pub(crate) version: i64,
    pub(crate) closed_at: Timestamp,
    pub(crate) closed_by: Option<&'c PrincipalId>,
    pub(crate) response: Option<&'c Response>,
}

macro_rules! columns {
    () => {
        "r.id, r.conversation_id, r.requester_id, r.requester_instance_id, r.kind, r.title, r.body, r.choices, r.mentions,
         r.blocking, r.group_ask, r.state, r.version, r.action, r.executor_id, r.shared_key, r.expires_at, r.created_at,
         r.sequence, r.closed_at, r.closed_by, r.response, r.replaces_id"
    };
}

macro_rules! seen {
    ($explain:literal, $rest:literal) => {
        concat!(
            $explain,
            "SELECT ",
            columns!(),
            ", c.shared, a.conversation_id AS seat, p.active, p.history_start
             FROM requests r
             JOIN conversations c ON c.id = r.conversation_id
             LEFT JOIN request_audience a ON a.request_id = r.id AND a.principal_id = :reader
             LEFT JOIN participants p
                ON p.conversation_id = COALESCE(a.conversation_id, r.conversation_id) AND p.principal_id = :reader ",
            $rest
        )
    };
}

macro_rules! page {
    ($explain:literal) => {
        seen!(
            $explain,
            "WHERE r.id IN (
                SELECT DISTINCT s.request_id FROM request_audience s
                WHERE s.conversation_id = :conversation AND s.request_id < :before
                ORDER BY s.request_id DESC LIMIT :limit)
             ORDER BY r.id DESC"
        )
    };
}

macro_rules! blocking {
    ($explain:literal) => {
        concat!(
            $explain,
            "SELECT CAST(count(*) AS BIGINT) AS n FROM requests
             WHERE requester_id = :requester AND state = 'open' AND blocking = TRUE AND expires_at > :now"
        )
    };
}

macro_rules! due {
    ($explain:literal) => {
        concat!($explain, "SELECT id FROM requests WHERE state = 'open' AND expires_at <= :now ORDER BY expires_at LIMIT :limit")
    };
}

fn from_json<T: DeserializeOwned>(name: &'static str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_| StoreError::Column { name, found: "malformed", wanted: "JSON" })
}

pub(super) fn to_json<T: Serialize>(name: &'static str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|_| StoreError::Column { name, found: "not writable", wanted: "JSON" })
}

fn request(row: &Row) -> Result<RequestRow, StoreError> {
    Ok(RequestRow {
        id: row.text("id")?.into(),
        conversation_id: row.text("conversation_id")?.into(),
        requester_id: row.text("requester_id")?.into(),
        requester_instance_id: row.opt_text("requester_instance_id")?.map(Into::into),
        kind: row.text("kind")?.as_str().into(),
        title: row.text("title")?,
        body: row.text("body")?,
        choices: from_json("choices", &row.text("choices")?)?,
        mentions: from_json("mentions", &row.text("mentions")?)?,
        blocking: row.bool("blocking")?,
        group_ask: row.bool("group_ask")?,
        state: row.text("state")?.as_str().into(),
        version: row.int("version")?,
        action: row.opt_text("action")?.map(|text| from_json("action", &text)).transpose()?,
        executor_id: row.opt_text("executor_id")?.map(Into::into),
        shared_key: row.text("shared_key")?,
        expires_at: Timestamp::from_micros(row.int("expires_at")?),
        created_at: Timestamp::from_micros(row.int("created_at")?),
        sequence: row.int("sequence")?,
        closed_at: row.opt_int("closed_at")?.map(Timestamp::from_micros),
        closed_by: row.opt_text("closed_by")?.map(Into::into),
        response: row.opt_text("response")?.map(|text| from_json("response", &text)).transpose()?,
        replaces_id: row.opt_text("replaces_id")?.map(Into::into),
    })
}

fn seen(row: &Row) -> Result<SeenRow, StoreError> {
    let active = row.opt_bool("active")? == Some(true);
    Ok(SeenRow {
        request: request(row)?,
        shared: row.bool("shared")?,
        seat: row.opt_text("seat")?.map(Into::into),
        window: row.opt_int("history_start")?.filter(|_| active),
    })
}

/// The request, if there is one.
pub(crate) fn find(tx: &ReadTx<'_>, id: &RequestId) -> Result<Option<RequestRow>, StoreError> {
    // Primary key.
    tx.find(concat!("SELECT ", columns!(), " FROM requests r WHERE r.id = :id"), &[("id", id)])?.as_ref().map(request).transpose()
}

/// The request beside what decides whether `reader` may see it.
pub(crate) fn find_for(tx: &ReadTx<'_>, id: &RequestId, reader: &PrincipalId) -> Result<Option<SeenRow>, StoreError> {
    // Four primary keys.
    tx.find(seen!("", "WHERE r.id = :id"), &[("id", id), ("reader", reader)])?.as_ref().map(seen).transpose()
}

/// Requests that stand in a conversation, newest first, older than `before`.
pub(crate) fn page_in_conversation(
    tx: &ReadTx<'_>,
    conversation: &ConversationId,
    reader: &PrincipalId,
    before: &str,
    limit: i64,
) -> Result<Vec<SeenRow>, StoreError> {
    // Walks request_audience_conversation from its end: everything asked in a conversation has a seat there.
    let rows =
        tx.query(page!(""), &[("conversation", conversation), ("reader", reader), ("before", &before), ("limit", &limit)])?;
    rows.iter().map(seen).collect()
}

/// Everybody who was asked, by id.
pub(crate) fn audience(tx: &ReadTx<'_>, id: &RequestId) -> Result<Vec<SeatRow>, StoreError> {
    // Prefix of the primary key.
    let rows = tx.query(
        "SELECT principal_id, conversation_id FROM request_audience WHERE request_id = :id ORDER BY principal_id",
        &[("id", id)],
    )?;
    rows.iter().map(seat).collect()
}

/// Those who were asked and still are participants whose window holds the request, by id.
pub(crate) fn present_audience(tx: &ReadTx<'_>, id: &RequestId) -> Result<Vec<SeatRow>, StoreError> {
    // Prefix of the primary key, then two primary keys for each seat.
    let rows = tx.query(
        "SELECT a.principal_id, a.conversation_id FROM request_audience a
         JOIN requests r ON r.id = a.request_id
         JOIN participants p ON p.conversation_id = a.conversation_id AND p.principal_id = a.principal_id
         WHERE a.request_id = :id AND p.active = TRUE AND p.history_start <= r.sequence
         ORDER BY a.principal_id",
        &[("id", id)],
    )?;
    rows.iter().map(seat).collect()
}

fn seat(row: &Row) -> Result<SeatRow, StoreError> {
    Ok(SeatRow { principal_id: row.text("principal_id")?.into(), conversation_id: row.text("conversation_id")?.into() })
}

/// The runtime connections that the request was addressed to, each with its agent.
pub(crate) fn pins(tx: &ReadTx<'_>, id: &RequestId) -> Result<Vec<(PrincipalId, InstanceId)>, StoreError> {
    // Index deliveries_request.
    let rows = tx.query(
        "SELECT agent_id, instance_id FROM deliveries
         WHERE request_id = :id AND kind = 'request' AND pin = 'hard' AND instance_id IS NOT NULL",
        &[("id", id)],
    )?;
    rows.iter().map(|row| Ok((row.text("agent_id")?.into(), row.text("instance_id")?.into()))).collect()
}

/// How many open requests the agent says it waits for.
pub(crate) fn count_blocking(tx: &ReadTx<'_>, requester: &PrincipalId) -> Result<i64, StoreError> {
    // Index requests_blocking: at most the limit.
    tx.get(blocking!(""), &[("requester", requester), ("now", &tx.now())])?.int("n")
}

/// Open requests whose deadline has come, the longest due first.
pub(crate) fn due(tx: &ReadTx<'_>, limit: i64) -> Result<Vec<RequestId>, StoreError> {
    // Index requests_due. What never expires stands at its far end.
    let rows = tx.query(due!(""), &[("now", &tx.now()), ("limit", &limit)])?;
    rows.iter().map(|row| Ok(row.text("id")?.into())).collect()
}

/// Stores a request.
pub(crate) fn insert(tx: &WriteTx<'_>, row: &RequestRow) -> Result<(), StoreError> {
    let action = row.action.as_ref().map(|action| to_json("action", action)).transpose()?;
    tx.execute(
        "INSERT INTO requests (id, conversation_id, requester_id, requester_instance_id, kind, title, body, choices, mentions,
            blocking, group_ask, state, version, action, executor_id, shared_key, expires_at, created_at, sequence, replaces_id)
         VALUES (:id, :conversation, :requester, :instance, :kind, :title, :body, :choices, :mentions,
            :blocking, :group_ask, :state, :version, :action, :executor, :shared_key, :expires, :created, :sequence, :replaces)",
        &[
            ("id", &row.id),
            ("conversation", &row.conversation_id),
            ("requester", &row.requester_id),
            ("instance", &row.requester_instance_id),
            ("kind", &row.kind.as_str()),
            ("title", &row.title),
            ("body", &row.body),
            ("choices", &to_json("choices", &row.choices)?),
            ("mentions", &to_json("mentions", &row.mentions)?),
            ("blocking", &row.blocking),
            ("group_ask", &row.group_ask),
            ("state", &row.state.as_str()),
            ("version", &row.version),
            ("action", &action),
            ("executor", &row.executor_id),
            ("shared_key", &row.shared_key),
            ("expires", &row.expires_at),
            ("created", &row.created_at),
            ("sequence", &row.sequence),
            ("replaces", &row.replaces_id),
        ],
    )?;
    Ok(())
}

/// Stores that a principal was asked.
pub(crate) fn insert_seat(tx: &WriteTx<'_>, id: &RequestId, seat: &SeatRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO request_audience (request_id, principal_id, conversation_id) VALUES (:request, :principal, :conversation)",
        &[("request", id), ("principal", &seat.principal_id), ("conversation", &seat.conversation_id)],
    )?;
    Ok(())
}

/// Notes whether the requester waits for an open request.
pub(crate) fn set_blocking(tx: &WriteTx<'_>, id: &RequestId, blocking: bool) -> Result<(), StoreError> {
    // Primary key.
    tx.execute("UPDATE requests SET blocking = :blocking WHERE id = :id", &[("id", id), ("blocking", &blocking)])?;
    Ok(())
}

/// Ends an open request that stands one version before `closing.version`; false if it doesn't.
pub(crate) fn close(tx: &WriteTx<'_>, closing: &Closing<'_>) -> Result<bool, StoreError> {
    let response = closing.response.map(|response| to_json("response", response)).transpose()?;
    // Primary key.
    let changed = tx.execute(
        "UPDATE requests SET state = :state, version = :version, closed_at = :at, closed_by = :by, response = :response
         WHERE id = :id AND state = 'open' AND version = :before",
        &[
            ("id", closing.id),
            ("state", &closing.state.as_str()),
            ("version", &closing.version),
            ("before", &closing.version.saturating_sub(1)),
            ("at", &closing.closed_at),
            ("by", &closing.closed_by),
            ("response", &response),
        ],
    )?;
    Ok(changed == 1)
}

#[cfg(test)]
mod tests;
