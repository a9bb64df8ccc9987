//! Roles, role bindings and contact policies: where rules come from.

pub(crate) mod pages;

use beepgrid::{PermissionRule, PrincipalId, RoleBinding, RoleBindingId, RoleId, Timestamp};

use super::credentials::time;
use super::principals::stored_json;
use super::{ReadTx, Row, StoreError, WriteTx};

/// A role as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct RoleRow {
    pub(crate) id: RoleId,
    pub(crate) name: String,
    pub(crate) rules: Vec<PermissionRule>,
    pub(crate) version: i64,
    pub(crate) created_at: Timestamp,
}

/// A subject's contact policy.
#[derive(Clone, Debug)]
pub(crate) struct PolicyRow {
    pub(crate) version: i64,
    pub(crate) rules: Vec<PermissionRule>,
}

fn json(rules: &[PermissionRule]) -> Result<String, StoreError> {
    serde_json::to_string(rules).map_err(|source| StoreError::Json { column: "rules", source })
}

/// Every rule that reaches a subject: its own policy, roles bound to it, roles bound to its groups.
pub(crate) fn rules_reaching(tx: &ReadTx<'_>, subject: &PrincipalId) -> Result<Vec<PermissionRule>, StoreError> {
    // Indices: primary key of contact_policies; role_bindings_subject; group_members_principal. Once per subject and epoch.
    let sources = tx.query(
        "SELECT rules FROM contact_policies WHERE subject_id = :subject
         UNION ALL
         SELECT r.rules FROM role_bindings b JOIN roles r ON r.id = b.role_id
         WHERE b.subject_id = :subject AND b.subject_kind = 'principal'
         UNION ALL
         SELECT r.rules FROM group_members m JOIN role_bindings b ON b.subject_id = m.group_id AND b.subject_kind = 'group'
                             JOIN roles r ON r.id = b.role_id
         WHERE m.principal_id = :subject",
        &[("subject", subject)],
    )?;
    let mut rules = Vec::new();
    for source in &sources {
        rules.extend(stored_json::<Vec<PermissionRule>>(source, "rules")?);
    }
    Ok(rules)
}

/// A set of rules that reaches a subject, and the way it comes.
#[derive(Clone, Debug)]
pub(crate) struct SourceRow {
    /// The role and its binding; `None` for the subject's own policy.
    pub(crate) role: Option<(RoleId, String, RoleBindingId)>,
    /// The group through which a role comes; `None` for a direct one.
    pub(crate) via: Option<String>,
    pub(crate) rules: Vec<PermissionRule>,
}

/// Every set of rules that reaches a subject, roles in order of their bindings.
pub(crate) fn sources_reaching(tx: &ReadTx<'_>, subject: &str) -> Result<Vec<SourceRow>, StoreError> {
    // Indices as in `rules_reaching`. Asked by people, not on the path of a send.
    tx.query(
        "SELECT NULL AS binding_id, NULL AS role_id, NULL AS name, NULL AS via, rules FROM contact_policies WHERE subject_id = :subject
         UNION ALL
         SELECT b.id AS binding_id, r.id AS role_id, r.name, NULL AS via, r.rules
         FROM role_bindings b JOIN roles r ON r.id = b.role_id
         WHERE b.subject_id = :subject AND b.subject_kind = 'principal'
         UNION ALL
         SELECT b.id AS binding_id, r.id AS role_id, r.name, m.group_id AS via, r.rules
         FROM group_members m JOIN role_bindings b ON b.subject_id = m.group_id AND b.subject_kind = 'group'
                              JOIN roles r ON r.id = b.role_id
         WHERE m.principal_id = :subject
         ORDER BY binding_id",
        &[("subject", &subject)],
    )?
    .iter()
    .map(|row| {
        let role = match (row.opt_text("role_id")?, row.opt_text("name")?, row.opt_text("binding_id")?) {
            (Some(role), Some(name), Some(binding)) => Some((role.into(), name, binding.into())),
            _ => None,
        };
        Ok(SourceRow { role, via: row.opt_text("via")?, rules: stored_json(row, "rules")? })
    })
    .collect()
}

/// The subjects of a role's bindings.
pub(crate) fn bindings_of_role(tx: &ReadTx<'_>, role: &RoleId, limit: i64) -> Result<Vec<RoleBinding>, StoreError> {
    // Index: role_bindings_once.
    tx.query("SELECT * FROM role_bindings WHERE role_id = :role ORDER BY id LIMIT :limit", &[("role", role), ("limit", &limit)])?
        .iter()
        .map(binding)
        .collect()
}

/// Gives the workspace a new policy epoch, in the transaction of the change.
pub(crate) fn set_epoch(tx: &WriteTx<'_>, epoch: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE workspace SET epoch = :epoch WHERE id = 1", &[("epoch", &epoch)])?;
    Ok(())
}

fn role_row(row: &Row) -> Result<RoleRow, StoreError> {
    Ok(RoleRow {
        id: row.text("id")?.into(),
        name: row.text("name")?,
        rules: stored_json(row, "rules")?,
        version: row.int("version")?,
        created_at: time(row, "created_at")?,
    })
}

/// One role.
pub(crate) fn role(tx: &ReadTx<'_>, id: &str) -> Result<Option<RoleRow>, StoreError> {
    // Index: primary key.
    tx.find("SELECT * FROM roles WHERE id = :id", &[("id", &id)])?.map(|row| role_row(&row)).transpose()
}

/// Stores a role.
pub(crate) fn insert_role(tx: &WriteTx<'_>, row: &RoleRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO roles (id, name, rules, version, created_at) VALUES (:id, :name, :rules, :version, :now)",
        &[
            ("id", &row.id),
            ("name", &row.name),
            ("rules", &json(&row.rules)?),
            ("version", &row.version),
            ("now", &row.created_at),
        ],
    )?;
    Ok(())
}

/// Stores a role's name and rules under its next version.
pub(crate) fn update_role(tx: &WriteTx<'_>, row: &RoleRow) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE roles SET name = :name, rules = :rules, version = version + 1 WHERE id = :id",
        &[("name", &row.name), ("rules", &json(&row.rules)?), ("id", &row.id)],
    )?;
    Ok(())
}

/// Deletes a role and its bindings.
pub(crate) fn delete_role(tx: &WriteTx<'_>, id: &RoleId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM role_bindings WHERE role_id = :id", &[("id", id)])?;
    tx.execute("DELETE FROM roles WHERE id = :id", &[("id", id)])?;
    Ok(())
}

fn binding(row: &Row) -> Result<RoleBinding, StoreError> {
    Ok(RoleBinding {
        id: row.text("id")?.into(),
        role_id: row.text("role_id")?.into(),
        subject_kind: row.text("subject_kind")?.as_str().into(),
        subject_id: row.text("subject_id")?,
        created_at: time(row, "created_at")?,
    })
}

/// One binding.
pub(crate) fn binding_by_id(tx: &ReadTx<'_>, id: &str) -> Result<Option<RoleBinding>, StoreError> {
    // Index: primary key.
    tx.find("SELECT * FROM role_bindings WHERE id = :id", &[("id", &id)])?.map(|row| binding(&row)).transpose()
}

/// The bindings of one subject.
pub(crate) fn bindings_of(tx: &ReadTx<'_>, subject: &str, limit: i64) -> Result<Vec<RoleBinding>, StoreError> {
    // Index: role_bindings_subject.
    tx.query(
        "SELECT * FROM role_bindings WHERE subject_id = :subject ORDER BY id LIMIT :limit",
        &[("subject", &subject), ("limit", &limit)],
    )?
    .iter()
    .map(binding)
    .collect()
}

/// Stores a binding. `false` if the subject has the role already.
pub(crate) fn insert_binding(tx: &WriteTx<'_>, binding: &RoleBinding) -> Result<bool, StoreError> {
    let stored = tx.execute(
        "INSERT INTO role_bindings (id, role_id, subject_kind, subject_id, created_at)
         VALUES (:id, :role, :kind, :subject, :now)
         ON CONFLICT (role_id, subject_kind, subject_id) DO NOTHING",
        &[
            ("id", &binding.id),
            ("role", &binding.role_id),
            ("kind", &binding.subject_kind.as_str()),
            ("subject", &binding.subject_id),
            ("now", &binding.created_at),
        ],
    )?;
    Ok(stored == 1)
}

/// Deletes a binding.
pub(crate) fn delete_binding(tx: &WriteTx<'_>, id: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM role_bindings WHERE id = :id", &[("id", &id)])?;
    Ok(())
}

/// A subject's contact policy, if one was ever saved.
pub(crate) fn policy(tx: &ReadTx<'_>, subject: &str) -> Result<Option<PolicyRow>, StoreError> {
    // Index: primary key.
    let Some(row) =
        tx.find("SELECT version, rules FROM contact_policies WHERE subject_id = :subject", &[("subject", &subject)])?
    else {
        return Ok(None);
    };
    Ok(Some(PolicyRow { version: row.int("version")?, rules: stored_json(&row, "rules")? }))
}

/// Replaces a subject's contact policy.
pub(crate) fn save_policy(tx: &WriteTx<'_>, kind: &str, subject: &str, policy: &PolicyRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO contact_policies (subject_id, subject_kind, version, rules) VALUES (:subject, :kind, :version, :rules)
         ON CONFLICT (subject_id) DO UPDATE SET version = excluded.version, rules = excluded.rules",
        &[("subject", &subject), ("kind", &kind), ("version", &policy.version), ("rules", &json(&policy.rules)?)],
    )?;
    Ok(())
}
