//! Runtime connections of agents, and whether they still can connect.

pub(crate) mod pages;

use beepgrid::{InstanceId, JsonMap, PrincipalId, PrincipalKind, Timestamp};

use super::{ReadTx, Row, StoreError, WriteTx};
use crate::service::audience::Party;

/// A runtime connection as it is stored. `last_seen` lags behind what the process keeps in memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InstanceRow {
    pub(crate) id: InstanceId,
    pub(crate) agent_id: PrincipalId,
    pub(crate) name: String,
    pub(crate) capabilities: Vec<String>,
    pub(crate) progress: JsonMap,
    pub(crate) created_at: Timestamp,
    pub(crate) last_seen: Timestamp,
}

fn json<T: serde::de::DeserializeOwned>(row: &Row, name: &'static str) -> Result<T, StoreError> {
    let wrong = StoreError::Column { name, found: "other text", wanted: "JSON that this program wrote" };
    serde_json::from_str(&row.text(name)?).map_err(|_| wrong)
}

fn instance(row: &Row) -> Result<InstanceRow, StoreError> {
    Ok(InstanceRow {
        id: row.text("id")?.into(),
        agent_id: row.text("agent_id")?.into(),
        name: row.text("name")?,
        capabilities: json(row, "capabilities")?,
        progress: json(row, "progress")?,
        created_at: Timestamp::from_micros(row.int("created_at")?),
        last_seen: Timestamp::from_micros(row.int("last_seen")?),
    })
}

/// Stores a new runtime connection.
pub(crate) fn insert(tx: &WriteTx<'_>, row: &InstanceRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO instances (id, agent_id, name, capabilities, progress, created_at, last_seen)
         VALUES (:id, :agent, :name, :capabilities, :progress, :created, :seen)",
        &[
            ("id", &row.id),
            ("agent", &row.agent_id),
            ("name", &row.name),
            ("capabilities", &serde_json::Value::from(row.capabilities.clone()).to_string()),
            ("progress", &serde_json::Value::Object(row.progress.clone()).to_string()),
            ("created", &row.created_at),
            ("seen", &row.last_seen),
        ],
    )?;
    Ok(())
}

/// One runtime connection.
pub(crate) fn by_id(tx: &ReadTx<'_>, id: &InstanceId) -> Result<Option<InstanceRow>, StoreError> {
    // Index: primary key.
    tx.find("SELECT * FROM instances WHERE id = :id", &[("id", id)])?.map(|row| instance(&row)).transpose()
}

/// A runtime connection as a target: its agent, narrowed to it.
pub(crate) fn party(tx: &ReadTx<'_>, id: &str) -> Result<Option<Party>, StoreError> {
    // Index: primary keys.
    let found = tx.find(
        "SELECT i.id AS instance_id, p.id, p.kind, p.name, p.disabled, p.operator
         FROM instances i JOIN principals p ON p.id = i.agent_id WHERE i.id = :id",
        &[("id", &id)],
    )?;
    found
        .map(|row| {
            Ok(Party {
                id: row.text("id")?.into(),
                kind: PrincipalKind::from(row.text("kind")?.as_str()),
                name: row.text("name")?,
                disabled: row.bool("disabled")?,
                operator: row.bool("operator")?,
                instance_id: Some(row.text("instance_id")?.into()),
            })
        })
        .transpose()
}

/// Whether the connection still has a credential that works. The end of the last one is final: none is ever added.
pub(crate) fn is_live(tx: &ReadTx<'_>, id: &InstanceId) -> Result<bool, StoreError> {
    // Index: credentials_instance.
    let found = tx.find(
        "SELECT 1 AS live FROM credentials
         WHERE instance_id = :id AND revoked = FALSE AND (expires_at IS NULL OR expires_at > :now) LIMIT 1",
        &[("id", id), ("now", &tx.now())],
    )?;
    Ok(found.is_some())
}

/// How many connections of an agent have a credential that works.
pub(crate) fn count_live(tx: &ReadTx<'_>, agent: &PrincipalId) -> Result<i64, StoreError> {
    // Index: credentials_principal; a worker credential belongs to the agent. Bounded by what one agent ever enrolled.
    tx.get(
        "SELECT count(DISTINCT instance_id) AS n FROM credentials
         WHERE principal_id = :agent AND instance_id IS NOT NULL AND revoked = FALSE
           AND (expires_at IS NULL OR expires_at > :now)",
        &[("agent", agent), ("now", &tx.now())],
    )?
    .int("n")
}

/// Moves `last_seen` forward; an older time changes nothing.
pub(crate) fn touch(tx: &WriteTx<'_>, id: &InstanceId, seen: Timestamp) -> Result<(), StoreError> {
    // Index: primary key.
    let sql = "UPDATE instances SET last_seen = :seen WHERE id = :id AND last_seen < :seen";
    tx.execute(sql, &[("id", id), ("seen", &seen)])?;
    Ok(())
}

/// Replaces the reported progress.
pub(crate) fn set_progress(tx: &WriteTx<'_>, id: &InstanceId, progress: &JsonMap) -> Result<(), StoreError> {
    let text = serde_json::Value::Object(progress.clone()).to_string();
    tx.execute("UPDATE instances SET progress = :progress WHERE id = :id", &[("id", id), ("progress", &text)])?;
    Ok(())
}

/// Replaces the declared capabilities.
pub(crate) fn set_capabilities(tx: &WriteTx<'_>, id: &InstanceId, capabilities: &[String]) -> Result<(), StoreError> {
    let text = serde_json::Value::from(capabilities.to_vec()).to_string();
    tx.execute("UPDATE instances SET capabilities = :capabilities WHERE id = :id", &[("id", id), ("capabilities", &text)])?;
    Ok(())
}
