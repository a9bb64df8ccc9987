//! Pages of executions by id: all of them, or those that concern one principal.

use super::{ExecutionRow, PrincipalId, ReadTx, StoreError, WriteTx, execution};

// Primary key.
pub(crate) const ALL: &str = "SELECT * FROM executions WHERE id > :after ORDER BY id LIMIT :limit";

// Primary key of item_readers; ids of one kind share their prefix.
pub(crate) const OF: &str = "SELECT e.* FROM item_readers i JOIN executions e ON e.id = i.item_id
     WHERE i.reader = :reader AND i.item_id > :after AND i.item_id < 'exe_~' ORDER BY i.item_id LIMIT :limit";

/// Executions after an id.
pub(crate) fn all(tx: &ReadTx<'_>, after: &str, limit: i64) -> Result<Vec<ExecutionRow>, StoreError> {
    tx.query(ALL, &[("after", &after), ("limit", &limit)])?.iter().map(execution).collect()
}

/// Executions that concern a reader after an id, which begins with the prefix of executions.
pub(crate) fn of(tx: &ReadTx<'_>, reader: &PrincipalId, after: &str, limit: i64) -> Result<Vec<ExecutionRow>, StoreError> {
    tx.query(OF, &[("reader", reader), ("after", &after), ("limit", &limit)])?.iter().map(execution).collect()
}

/// Notes whom an execution concerns: who asked, who decided, who executes.
pub(super) fn note_readers(tx: &WriteTx<'_>, row: &ExecutionRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO item_readers (reader, item_id)
         SELECT CAST(:executor AS TEXT), CAST(:id AS TEXT)
         UNION SELECT requester_id, CAST(:id AS TEXT) FROM requests WHERE id = :request
         UNION SELECT closed_by, CAST(:id AS TEXT) FROM requests WHERE id = :request AND closed_by IS NOT NULL",
        &[("executor", &row.executor_id), ("id", &row.id), ("request", &row.request_id)],
    )?;
    Ok(())
}
