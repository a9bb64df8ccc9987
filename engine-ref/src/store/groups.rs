//! Directory groups and their members.

pub(crate) mod pages;

use beepgrid::{GroupId, GroupPurpose, PrincipalId, Timestamp};

use super::credentials::time;
use super::{ReadTx, Row, StoreError, WriteTx, principals};
use crate::service::audience::Party;

/// A group as it is stored, without its members.
#[derive(Clone, Debug)]
pub(crate) struct GroupRow {
    pub(crate) id: GroupId,
    pub(crate) name: String,
    pub(crate) purpose: GroupPurpose,
    pub(crate) version: i64,
    pub(crate) created_at: Timestamp,
}

fn group(row: &Row) -> Result<GroupRow, StoreError> {
    Ok(GroupRow {
        id: row.text("id")?.into(),
        name: row.text("name")?,
        purpose: row.text("purpose")?.as_str().into(),
        version: row.int("version")?,
        created_at: time(row, "created_at")?,
    })
}

/// One group.
pub(crate) fn by_id(tx: &ReadTx<'_>, id: &str) -> Result<Option<GroupRow>, StoreError> {
    // Index: primary key.
    tx.find("SELECT * FROM directory_groups WHERE id = :id", &[("id", &id)])?.map(|row| group(&row)).transpose()
}

/// The groups that a principal belongs to.
pub(crate) fn ids_of_member(tx: &ReadTx<'_>, principal: &PrincipalId) -> Result<Vec<GroupId>, StoreError> {
    // Index: group_members_principal.
    tx.query("SELECT group_id FROM group_members WHERE principal_id = :principal", &[("principal", principal)])?
        .iter()
        .map(|row| row.text("group_id").map(Into::into))
        .collect()
}

/// Whether a principal belongs to a group.
pub(crate) fn is_member(tx: &ReadTx<'_>, group: &GroupId, principal: &PrincipalId) -> Result<bool, StoreError> {
    // Index: primary key.
    Ok(tx
        .find(
            "SELECT 1 AS found FROM group_members WHERE group_id = :group AND principal_id = :principal",
            &[("group", group), ("principal", principal)],
        )?
        .is_some())
}

/// The members of a group in order of ids.
pub(crate) fn members(tx: &ReadTx<'_>, group: &GroupId) -> Result<Vec<Party>, StoreError> {
    // Index: primary key of group_members, primary key of principals.
    tx.query(
        "SELECT p.id, p.kind, p.name, p.disabled, p.operator FROM group_members m JOIN principals p ON p.id = m.principal_id
         WHERE m.group_id = :group ORDER BY m.principal_id",
        &[("group", group)],
    )?
    .iter()
    .map(principals::party)
    .collect()
}

/// Stores a group.
pub(crate) fn insert(tx: &WriteTx<'_>, row: &GroupRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO directory_groups (id, name, purpose, version, created_at) VALUES (:id, :name, :purpose, :version, :now)",
        &[
            ("id", &row.id),
            ("name", &row.name),
            ("purpose", &row.purpose.as_str()),
            ("version", &row.version),
            ("now", &row.created_at),
        ],
    )?;
    Ok(())
}

/// Stores a group's name under its next version.
pub(crate) fn update(tx: &WriteTx<'_>, id: &GroupId, name: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE directory_groups SET name = :name, version = version + 1 WHERE id = :id", &[("name", &name), ("id", id)])?;
    Ok(())
}

/// Replaces the members of a group.
pub(crate) fn set_members(tx: &WriteTx<'_>, group: &GroupId, members: &[PrincipalId]) -> Result<(), StoreError> {
    tx.execute("DELETE FROM group_members WHERE group_id = :group", &[("group", group)])?;
    for member in members {
        tx.execute(
            "INSERT INTO group_members (group_id, principal_id) VALUES (:group, :member) ON CONFLICT DO NOTHING",
            &[("group", group), ("member", member)],
        )?;
    }
    Ok(())
}

/// Deletes a group and the bindings that reached its members.
pub(crate) fn delete(tx: &WriteTx<'_>, id: &GroupId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM group_members WHERE group_id = :id", &[("id", id)])?;
    tx.execute("DELETE FROM role_bindings WHERE subject_kind = 'group' AND subject_id = :id", &[("id", id)])?;
    tx.execute("DELETE FROM directory_groups WHERE id = :id", &[("id", id)])?;
    Ok(())
}
