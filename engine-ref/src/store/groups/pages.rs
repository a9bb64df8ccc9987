//! Pages of groups: all of them, or those of one member.

use super::{GroupRow, ReadTx, StoreError, group};

// Primary key.
pub(crate) const ALL: &str = "SELECT * FROM directory_groups WHERE id > :after ORDER BY id LIMIT :limit";

// Index group_members_principal.
pub(crate) const OF_MEMBER: &str = "SELECT g.* FROM group_members m JOIN directory_groups g ON g.id = m.group_id
     WHERE m.principal_id = :member AND m.group_id > :after ORDER BY m.group_id LIMIT :limit";

/// Groups after an id.
pub(crate) fn all(tx: &ReadTx<'_>, after: &str, limit: i64) -> Result<Vec<GroupRow>, StoreError> {
    tx.query(ALL, &[("after", &after), ("limit", &limit)])?.iter().map(group).collect()
}

/// The groups of a member after an id.
pub(crate) fn of_member(tx: &ReadTx<'_>, member: &str, after: &str, limit: i64) -> Result<Vec<GroupRow>, StoreError> {
    tx.query(OF_MEMBER, &[("member", &member), ("after", &after), ("limit", &limit)])?.iter().map(group).collect()
}
