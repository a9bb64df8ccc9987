//! Pages of principals that belong to a group, or whom a role reaches.

use super::{PrincipalRow, ReadTx, StoreError, principal};

// Primary key of group_members.
pub(crate) const OF_GROUP: &str = "SELECT p.* FROM group_members m JOIN principals p ON p.id = m.principal_id
     WHERE m.group_id = :owner AND m.principal_id > :after AND m.principal_id < :end ORDER BY m.principal_id LIMIT :limit";

// Index role_bindings_once, then the primary key of group_members: what one role's bindings cover.
pub(crate) const OF_ROLE: &str = "SELECT p.* FROM (
        SELECT b.subject_id AS id FROM role_bindings b
        WHERE b.role_id = :owner AND b.subject_kind = 'principal' AND b.subject_id > :after AND b.subject_id < :end
        UNION
        SELECT m.principal_id AS id FROM role_bindings b JOIN group_members m ON m.group_id = b.subject_id
        WHERE b.role_id = :owner AND b.subject_kind = 'group' AND m.principal_id > :after AND m.principal_id < :end) found
     JOIN principals p ON p.id = found.id ORDER BY p.id LIMIT :limit";

/// Which ids a page may have: after one, before another, so many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range<'r> {
    pub(crate) after: &'r str,
    pub(crate) end: &'r str,
    pub(crate) limit: i64,
}

/// The members of a group within a range of ids.
pub(crate) fn of_group(tx: &ReadTx<'_>, group: &str, range: Range<'_>) -> Result<Vec<PrincipalRow>, StoreError> {
    within(tx, OF_GROUP, group, range)
}

/// The principals that a role reaches, directly or through a group, within a range of ids.
pub(crate) fn of_role(tx: &ReadTx<'_>, role: &str, range: Range<'_>) -> Result<Vec<PrincipalRow>, StoreError> {
    within(tx, OF_ROLE, role, range)
}

fn within(tx: &ReadTx<'_>, sql: &'static str, owner: &str, range: Range<'_>) -> Result<Vec<PrincipalRow>, StoreError> {
    let params: super::super::tx::Params<'_> =
        &[("owner", &owner), ("after", &range.after), ("end", &range.end), ("limit", &range.limit)];
    tx.query(sql, params)?.iter().map(principal).collect()
}
