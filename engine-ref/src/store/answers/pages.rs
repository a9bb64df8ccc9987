//! Pages of answers by id: all of them, or those that somebody published or is in the audience of.

use super::{AnswerRow, PrincipalId, ReadTx, StoreError, all as rows};

// Primary key.
pub(crate) const ALL: &str = "SELECT * FROM answers WHERE id > :after ORDER BY id LIMIT :limit";

// Indexes answer_audience_principal and answers_publisher, then primary keys.
pub(crate) const OF: &str = "SELECT a.* FROM (
        SELECT heard.id FROM (SELECT answer_id AS id FROM answer_audience
            WHERE principal_id = :principal AND answer_id > :after ORDER BY answer_id LIMIT :limit) heard
        UNION
        SELECT own.id FROM (SELECT id FROM answers
            WHERE publisher_id = :principal AND id > :after ORDER BY id LIMIT :limit) own) found
     JOIN answers a ON a.id = found.id ORDER BY a.id LIMIT :limit";

/// Answers after an id.
pub(crate) fn all(tx: &ReadTx<'_>, after: &str, limit: i64) -> Result<Vec<AnswerRow>, StoreError> {
    rows(&tx.query(ALL, &[("after", &after), ("limit", &limit)])?)
}

/// Answers that concern a principal after an id.
pub(crate) fn of(tx: &ReadTx<'_>, principal: &PrincipalId, after: &str, limit: i64) -> Result<Vec<AnswerRow>, StoreError> {
    rows(&tx.query(OF, &[("principal", principal), ("after", &after), ("limit", &limit)])?)
}
