//! People, agents and services.

pub(crate) mod pages;

use beepgrid::{JsonMap, PrincipalId, PrincipalKind, Timestamp};

use super::credentials::time;
use super::{ReadTx, Row, StoreError, WriteTx};
use crate::service::audience::Party;

/// A principal as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct PrincipalRow {
    pub(crate) id: PrincipalId,
    pub(crate) kind: PrincipalKind,
    pub(crate) name: String,
    pub(crate) external_id: String,
    pub(crate) metadata: JsonMap,
    pub(crate) version: i64,
    pub(crate) disabled: bool,
    pub(crate) operator: bool,
    pub(crate) parent_id: Option<PrincipalId>,
    pub(crate) enrolled_by: Option<PrincipalId>,
    pub(crate) created_at: Timestamp,
}

impl PrincipalRow {
    /// The principal as a target.
    pub(crate) fn as_party(&self) -> Party {
        Party {
            id: self.id.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            disabled: self.disabled,
            operator: self.operator,
            instance_id: None,
        }
    }
}

/// JSON that the engine itself wrote.
pub(super) fn stored_json<T: serde::de::DeserializeOwned>(row: &Row, column: &'static str) -> Result<T, StoreError> {
    serde_json::from_str(&row.text(column)?).map_err(|source| StoreError::Json { column, source })
}

fn principal(row: &Row) -> Result<PrincipalRow, StoreError> {
    Ok(PrincipalRow {
        id: row.text("id")?.into(),
        kind: row.text("kind")?.as_str().into(),
        name: row.text("name")?,
        external_id: row.text("external_id")?,
        metadata: stored_json(row, "metadata")?,
        version: row.int("version")?,
        disabled: row.bool("disabled")?,
        operator: row.bool("operator")?,
        parent_id: row.opt_text("parent_id")?.map(Into::into),
        enrolled_by: row.opt_text("enrolled_by")?.map(Into::into),
        created_at: time(row, "created_at")?,
    })
}

/// A principal as a target, from a row with `id, kind, name, disabled, operator`.
pub(super) fn party(row: &Row) -> Result<Party, StoreError> {
    Ok(Party {
        id: row.text("id")?.into(),
        kind: row.text("kind")?.as_str().into(),
        name: row.text("name")?,
        disabled: row.bool("disabled")?,
        operator: row.bool("operator")?,
        instance_id: None,
    })
}

/// One principal by id.
pub(crate) fn by_id(tx: &ReadTx<'_>, id: &str) -> Result<Option<PrincipalRow>, StoreError> {
    // Index: primary key.
    tx.find("SELECT * FROM principals WHERE id = :id", &[("id", &id)])?.map(|row| principal(&row)).transpose()
}

/// One principal by its external id within its kind.
pub(crate) fn by_external_id(tx: &ReadTx<'_>, kind: &str, external_id: &str) -> Result<Option<PrincipalRow>, StoreError> {
    // Index: principals_external.
    tx.find(
        "SELECT * FROM principals WHERE kind = :kind AND external_id = :external",
        &[("kind", &kind), ("external", &external_id)],
    )?
    .map(|row| principal(&row))
    .transpose()
}

/// One principal of a kind by id or, if no id fits, by external id; as a target.
pub(crate) fn party_by_any_id(tx: &ReadTx<'_>, kind: &str, id: &str) -> Result<Option<Party>, StoreError> {
    // Index: primary key, then principals_external.
    let by_id = tx.find(
        "SELECT id, kind, name, disabled, operator FROM principals WHERE id = :id AND kind = :kind",
        &[("id", &id), ("kind", &kind)],
    )?;
    let found = match by_id {
        Some(row) => Some(row),
        None => tx.find(
            "SELECT id, kind, name, disabled, operator FROM principals WHERE kind = :kind AND external_id = :external",
            &[("kind", &kind), ("external", &id)],
        )?,
    };
    found.map(|row| party(&row)).transpose()
}

/// One principal of any kind as a target.
pub(crate) fn party_by_id(tx: &ReadTx<'_>, id: &PrincipalId) -> Result<Option<Party>, StoreError> {
    // Index: primary key.
    tx.find("SELECT id, kind, name, disabled, operator FROM principals WHERE id = :id", &[("id", id)])?
        .map(|row| party(&row))
        .transpose()
}

/// The principals of one kind after an id, in order of ids.
pub(crate) fn page(tx: &ReadTx<'_>, kind: &str, after: &str, limit: i64) -> Result<Vec<PrincipalRow>, StoreError> {
    // Index: principals_kind.
    tx.query(
        "SELECT * FROM principals WHERE kind = :kind AND id > :after ORDER BY id LIMIT :limit",
        &[("kind", &kind), ("after", &after), ("limit", &limit)],
    )?
    .iter()
    .map(principal)
    .collect()
}

/// The operators that are not disabled.
pub(crate) fn live_operators(tx: &ReadTx<'_>) -> Result<i64, StoreError> {
    // Asked only when an operator is disabled.
    tx.get("SELECT count(*) AS n FROM principals WHERE kind = 'person' AND operator = TRUE AND disabled = FALSE", &[])?.int("n")
}

/// The operator that was made first, of those that are not disabled.
pub(crate) fn first_operator(tx: &ReadTx<'_>) -> Result<Option<PrincipalId>, StoreError> {
    // Asked only after a restore.
    let found = tx.find(
        "SELECT id FROM principals WHERE kind = 'person' AND operator = TRUE AND disabled = FALSE ORDER BY id LIMIT 1",
        &[],
    )?;
    found.map(|row| Ok(row.text("id")?.into())).transpose()
}

/// Stores a principal. `false` if its external id is taken within its kind.
pub(crate) fn insert(tx: &WriteTx<'_>, row: &PrincipalRow) -> Result<bool, StoreError> {
    let metadata = serde_json::Value::Object(row.metadata.clone()).to_string();
    let stored = tx.execute(
        "INSERT INTO principals (id, kind, name, external_id, metadata, version, disabled, operator, parent_id, enrolled_by, created_at)
         VALUES (:id, :kind, :name, :external, :metadata, :version, :disabled, :operator, :parent, :enrolled, :now)
         ON CONFLICT (kind, external_id) DO NOTHING",
        &[
            ("id", &row.id),
            ("kind", &row.kind.as_str()),
            ("name", &row.name),
            ("external", &row.external_id),
            ("metadata", &metadata),
            ("version", &row.version),
            ("disabled", &row.disabled),
            ("operator", &row.operator),
            ("parent", &row.parent_id),
            ("enrolled", &row.enrolled_by),
            ("now", &row.created_at),
        ],
    )?;
    Ok(stored == 1)
}

/// Stores name, metadata and status of a principal under its next version.
pub(crate) fn update(tx: &WriteTx<'_>, row: &PrincipalRow) -> Result<(), StoreError> {
    let metadata = serde_json::Value::Object(row.metadata.clone()).to_string();
    tx.execute(
        "UPDATE principals SET name = :name, metadata = :metadata, disabled = :disabled, version = version + 1 WHERE id = :id",
        &[("name", &row.name), ("metadata", &metadata), ("disabled", &row.disabled), ("id", &row.id)],
    )?;
    Ok(())
}
