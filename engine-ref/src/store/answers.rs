//! Published answers and their audiences. Their texts are those of the question that they come from.

pub(crate) mod pages;

use beepgrid::{AnswerId, PrincipalId, RequestId, Timestamp};

use super::credentials::time;
use super::{ReadTx, Row, StoreError, WriteTx};

/// An answer as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnswerRow {
    pub(crate) id: AnswerId,
    pub(crate) request_id: RequestId,
    pub(crate) publisher_id: PrincipalId,
    pub(crate) responder_id: PrincipalId,
    pub(crate) key: String,
    /// A digest of title, body and choices.
    pub(crate) context: String,
    pub(crate) valid_until: Timestamp,
    pub(crate) created_at: Timestamp,
    pub(crate) invalidated_at: Option<Timestamp>,
}

fn answer(row: &Row) -> Result<AnswerRow, StoreError> {
    Ok(AnswerRow {
        id: row.text("id")?.into(),
        request_id: row.text("request_id")?.into(),
        publisher_id: row.text("publisher_id")?.into(),
        responder_id: row.text("responder_id")?.into(),
        key: row.text("shared_key")?,
        context: row.text("context")?,
        valid_until: time(row, "valid_until")?,
        created_at: time(row, "created_at")?,
        invalidated_at: row.opt_int("invalidated_at")?.map(Timestamp::from_micros),
    })
}

fn all(rows: &[Row]) -> Result<Vec<AnswerRow>, StoreError> {
    rows.iter().map(answer).collect()
}

/// The answer, if there is one.
pub(crate) fn by_id(tx: &ReadTx<'_>, id: &AnswerId) -> Result<Option<AnswerRow>, StoreError> {
    // Primary key.
    tx.find("SELECT * FROM answers WHERE id = :id", &[("id", id)])?.as_ref().map(answer).transpose()
}

/// Everybody whom an answer is for, by id.
pub(crate) fn audience(tx: &ReadTx<'_>, id: &AnswerId) -> Result<Vec<PrincipalId>, StoreError> {
    // Prefix of the primary key.
    let rows = tx.query("SELECT principal_id FROM answer_audience WHERE answer_id = :id ORDER BY principal_id", &[("id", id)])?;
    rows.iter().map(|row| Ok(row.text("principal_id")?.into())).collect()
}

/// Whether an answer is for somebody.
pub(crate) fn is_for(tx: &ReadTx<'_>, id: &AnswerId, principal: &PrincipalId) -> Result<bool, StoreError> {
    // Primary key.
    let row = tx.find(
        "SELECT answer_id FROM answer_audience WHERE answer_id = :id AND principal_id = :principal",
        &[("id", id), ("principal", principal)],
    )?;
    Ok(row.is_some())
}

/// What was published from a question, newest first.
pub(crate) fn of_request(tx: &ReadTx<'_>, request: &RequestId, limit: i64) -> Result<Vec<AnswerRow>, StoreError> {
    // Index answers_request.
    all(&tx.query(
        "SELECT * FROM answers WHERE request_id = :request ORDER BY id DESC LIMIT :limit",
        &[("request", request), ("limit", &limit)],
    )?)
}

/// What is offered under a key for a context, newest first, older than `before`.
pub(crate) fn offered(tx: &ReadTx<'_>, key: &str, context: &str, before: &str, limit: i64) -> Result<Vec<AnswerRow>, StoreError> {
    // Index answers_offered, from its end.
    all(&tx.query(
        "SELECT * FROM answers
         WHERE shared_key = :key AND context = :context AND invalidated_at IS NULL AND valid_until > :now AND id < :before
         ORDER BY id DESC LIMIT :limit",
        &[("key", &key), ("context", &context), ("now", &tx.now()), ("before", &before), ("limit", &limit)],
    )?)
}

/// All answers older than `before`, newest first.
pub(crate) fn page(tx: &ReadTx<'_>, before: &str, limit: i64) -> Result<Vec<AnswerRow>, StoreError> {
    // Primary key, from its end.
    all(&tx.query(
        "SELECT * FROM answers WHERE id < :before ORDER BY id DESC LIMIT :limit",
        &[("before", &before), ("limit", &limit)],
    )?)
}

/// The answers that somebody published or is in the audience of, older than `before`, newest first.
pub(crate) fn page_for(tx: &ReadTx<'_>, principal: &PrincipalId, before: &str, limit: i64) -> Result<Vec<AnswerRow>, StoreError> {
    // Indexes answer_audience_principal and answers_publisher, each from its end, then primary keys.
    all(&tx.query(
        "SELECT a.* FROM (
            SELECT heard.answer_id AS id FROM (SELECT answer_id FROM answer_audience
                WHERE principal_id = :principal AND answer_id < :before ORDER BY answer_id DESC LIMIT :limit) heard
            UNION
            SELECT own.id FROM (SELECT id FROM answers
                WHERE publisher_id = :principal AND id < :before ORDER BY id DESC LIMIT :limit) own) found
         JOIN answers a ON a.id = found.id ORDER BY a.id DESC LIMIT :limit",
        &[("principal", principal), ("before", &before), ("limit", &limit)],
    )?)
}

/// Stores an answer and whom it is for.
pub(crate) fn insert(tx: &WriteTx<'_>, row: &AnswerRow, audience: &[PrincipalId]) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO answers (id, request_id, publisher_id, responder_id, shared_key, context, valid_until, created_at)
         VALUES (:id, :request, :publisher, :responder, :key, :context, :valid_until, :created)",
        &[
            ("id", &row.id),
            ("request", &row.request_id),
            ("publisher", &row.publisher_id),
            ("responder", &row.responder_id),
            ("key", &row.key),
            ("context", &row.context),
            ("valid_until", &row.valid_until),
            ("created", &row.created_at),
        ],
    )?;
    for principal in audience {
        tx.execute(
            "INSERT INTO answer_audience (answer_id, principal_id) VALUES (:answer, :principal)",
            &[("answer", &row.id), ("principal", principal)],
        )?;
    }
    Ok(())
}

/// Takes an answer out of reuse, once.
pub(crate) fn invalidate(tx: &WriteTx<'_>, id: &AnswerId) -> Result<(), StoreError> {
    // Primary key.
    tx.execute(
        "UPDATE answers SET invalidated_at = :now WHERE id = :id AND invalidated_at IS NULL",
        &[("id", id), ("now", &tx.now())],
    )?;
    Ok(())
}
