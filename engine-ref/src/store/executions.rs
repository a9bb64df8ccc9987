//! Executions: at most one for each request, and one for each business operation of an executor.

pub(crate) mod pages;

use beepgrid::{Action, ExecutionId, ExecutionState, PrincipalId, RequestId, Timestamp};
use serde_json::Value;

use super::credentials::time;
use super::principals::stored_json;
use super::requests::to_json;
use super::{ReadTx, Row, StoreError, WriteTx};

/// An execution as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExecutionRow {
    pub(crate) id: ExecutionId,
    pub(crate) request_id: RequestId,
    pub(crate) executor_id: PrincipalId,
    pub(crate) operation_key: String,
    pub(crate) action: Action,
    pub(crate) state: ExecutionState,
    pub(crate) result: Value,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

fn execution(row: &Row) -> Result<ExecutionRow, StoreError> {
    Ok(ExecutionRow {
        id: row.text("id")?.into(),
        request_id: row.text("request_id")?.into(),
        executor_id: row.text("executor_id")?.into(),
        operation_key: row.text("operation_key")?,
        action: stored_json(row, "action")?,
        state: row.text("state")?.as_str().into(),
        result: stored_json(row, "result")?,
        created_at: time(row, "created_at")?,
        updated_at: time(row, "updated_at")?,
    })
}

/// The execution, if there is one.
pub(crate) fn by_id(tx: &ReadTx<'_>, id: &ExecutionId) -> Result<Option<ExecutionRow>, StoreError> {
    // Primary key.
    tx.find("SELECT * FROM executions WHERE id = :id", &[("id", id)])?.as_ref().map(execution).transpose()
}

/// What a request was redeemed for.
pub(crate) fn of_request(tx: &ReadTx<'_>, request: &RequestId) -> Result<Option<ExecutionRow>, StoreError> {
    // Unique index executions_request.
    let row = tx.find("SELECT * FROM executions WHERE request_id = :request", &[("request", request)])?;
    row.as_ref().map(execution).transpose()
}

/// Which request an executor redeemed for a business operation.
pub(crate) fn request_of_operation(
    tx: &ReadTx<'_>,
    executor: &PrincipalId,
    operation_key: &str,
) -> Result<Option<RequestId>, StoreError> {
    // Unique index executions_operation.
    let row = tx.find(
        "SELECT request_id FROM executions WHERE executor_id = :executor AND operation_key = :operation",
        &[("executor", executor), ("operation", &operation_key)],
    )?;
    row.map(|row| Ok(row.text("request_id")?.into())).transpose()
}

/// Stores an execution.
pub(crate) fn insert(tx: &WriteTx<'_>, row: &ExecutionRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO executions (id, request_id, executor_id, operation_key, action, state, result, created_at, updated_at)
         VALUES (:id, :request, :executor, :operation, :action, :state, :result, :created, :updated)",
        &[
            ("id", &row.id),
            ("request", &row.request_id),
            ("executor", &row.executor_id),
            ("operation", &row.operation_key),
            ("action", &to_json("action", &row.action)?),
            ("state", &row.state.as_str()),
            ("result", &row.result.to_string()),
            ("created", &row.created_at),
            ("updated", &row.updated_at),
        ],
    )?;
    pages::note_readers(tx, row)
}

/// Stores what was reported.
pub(crate) fn report(tx: &WriteTx<'_>, id: &ExecutionId, state: &ExecutionState, result: &Value) -> Result<(), StoreError> {
    // Primary key.
    tx.execute(
        "UPDATE executions SET state = :state, result = :result, updated_at = :now WHERE id = :id",
        &[("id", id), ("state", &state.as_str()), ("result", &result.to_string()), ("now", &tx.now())],
    )?;
    Ok(())
}
