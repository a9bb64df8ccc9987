//! Pages of roles: all of them, or those that reach one subject; and through which groups a role reaches.

use super::{ReadTx, RoleRow, StoreError, role_row};

// Primary key.
pub(crate) const ALL: &str = "SELECT * FROM roles WHERE id > :after ORDER BY id LIMIT :limit";

// Indexes role_bindings_subject and group_members_principal: what reaches one subject.
pub(crate) const REACHING: &str = "SELECT r.* FROM (
        SELECT b.role_id AS id FROM role_bindings b
        WHERE b.subject_id = :subject AND b.subject_kind = 'principal' AND b.role_id > :after
        UNION
        SELECT b.role_id AS id FROM group_members m JOIN role_bindings b ON b.subject_id = m.group_id AND b.subject_kind = 'group'
        WHERE m.principal_id = :subject AND b.role_id > :after) found
     JOIN roles r ON r.id = found.id ORDER BY r.id LIMIT :limit";

/// Roles after an id.
pub(crate) fn all(tx: &ReadTx<'_>, after: &str, limit: i64) -> Result<Vec<RoleRow>, StoreError> {
    tx.query(ALL, &[("after", &after), ("limit", &limit)])?.iter().map(role_row).collect()
}

/// The roles that reach a subject, directly or through a group, after an id.
pub(crate) fn reaching(tx: &ReadTx<'_>, subject: &str, after: &str, limit: i64) -> Result<Vec<RoleRow>, StoreError> {
    tx.query(REACHING, &[("subject", &subject), ("after", &after), ("limit", &limit)])?.iter().map(role_row).collect()
}

/// Whether a role is bound to this principal or group itself.
pub(crate) fn is_bound(tx: &ReadTx<'_>, role: &str, subject_kind: &str, subject: &str) -> Result<bool, StoreError> {
    // Index role_bindings_once.
    let found = tx.find(
        "SELECT 1 AS found FROM role_bindings WHERE role_id = :role AND subject_kind = :kind AND subject_id = :subject",
        &[("role", &role), ("kind", &subject_kind), ("subject", &subject)],
    )?;
    Ok(found.is_some())
}
