//! Connections, destinations, account links, delivery preferences and the assistance switch.

pub(crate) mod pages;

use beepgrid::{
    AccountLink, AccountLinkId, AssistanceSettings, ConnectionId, DeliveryPreferences, Destination, JsonMap, PrincipalId,
    Timestamp,
};

use super::credentials::time;
use super::principals::stored_json;
use super::{ReadTx, Row, StoreError, WriteTx, transports};

/// A connection as it is stored; the secret is sealed.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionRow {
    pub(crate) id: ConnectionId,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) config: JsonMap,
    pub(crate) secret: Option<Vec<u8>>,
    pub(crate) enabled: bool,
    pub(crate) version: i64,
    pub(crate) created_at: Timestamp,
}

fn connection_row(row: &Row) -> Result<ConnectionRow, StoreError> {
    Ok(ConnectionRow {
        id: row.text("id")?.into(),
        kind: row.text("kind")?,
        name: row.text("name")?,
        config: stored_json(row, "config")?,
        secret: row.opt_blob("secret")?,
        enabled: row.bool("enabled")?,
        version: row.int("version")?,
        created_at: time(row, "created_at")?,
    })
}

fn json(map: &JsonMap) -> String {
    serde_json::Value::Object(map.clone()).to_string()
}

/// One connection.
pub(crate) fn connection(tx: &ReadTx<'_>, id: &str) -> Result<Option<ConnectionRow>, StoreError> {
    // Index: primary key.
    tx.find("SELECT * FROM connections WHERE id = :id", &[("id", &id)])?.map(|row| connection_row(&row)).transpose()
}

/// Connections after an id, in order of ids.
pub(crate) fn connections(tx: &ReadTx<'_>, after: &str, limit: i64) -> Result<Vec<ConnectionRow>, StoreError> {
    // Index: primary key.
    tx.query("SELECT * FROM connections WHERE id > :after ORDER BY id LIMIT :limit", &[("after", &after), ("limit", &limit)])?
        .iter()
        .map(connection_row)
        .collect()
}

/// Stores a connection.
pub(crate) fn insert_connection(tx: &WriteTx<'_>, row: &ConnectionRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO connections (id, kind, name, config, secret, enabled, version, created_at)
         VALUES (:id, :kind, :name, :config, :secret, :enabled, :version, :now)",
        &[
            ("id", &row.id),
            ("kind", &row.kind),
            ("name", &row.name),
            ("config", &json(&row.config)),
            ("secret", &row.secret),
            ("enabled", &row.enabled),
            ("version", &row.version),
            ("now", &row.created_at),
        ],
    )?;
    Ok(())
}

/// Stores the editable part of a connection under its next version.
pub(crate) fn update_connection(tx: &WriteTx<'_>, row: &ConnectionRow) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE connections SET name = :name, config = :config, secret = :secret, enabled = :enabled, version = version + 1
         WHERE id = :id",
        &[
            ("name", &row.name),
            ("config", &json(&row.config)),
            ("secret", &row.secret),
            ("enabled", &row.enabled),
            ("id", &row.id),
        ],
    )?;
    Ok(())
}

/// Deletes a connection with its destinations and links, and gives up what waits for it.
pub(crate) fn delete_connection(tx: &WriteTx<'_>, id: &ConnectionId) -> Result<(), StoreError> {
    transports::give_up(tx, id, None, "connection_gone")?;
    transports::delete_callbacks(tx, id)?;
    tx.execute("DELETE FROM destinations WHERE connection_id = :id", &[("id", id)])?;
    tx.execute("DELETE FROM account_links WHERE connection_id = :id", &[("id", id)])?;
    tx.execute("DELETE FROM connections WHERE id = :id", &[("id", id)])?;
    Ok(())
}

fn destination_row(row: &Row) -> Result<Destination, StoreError> {
    Ok(Destination {
        id: row.text("id")?.into(),
        connection_id: row.text("connection_id")?.into(),
        principal_id: row.text("principal_id")?.into(),
        address: row.text("address")?,
        mode: row.text("mode")?,
        priority: row.int("priority")?,
        version: row.int("version")?,
        created_at: time(row, "created_at")?,
    })
}

/// One destination.
pub(crate) fn destination(tx: &ReadTx<'_>, id: &str) -> Result<Option<Destination>, StoreError> {
    // Index: primary key.
    tx.find("SELECT * FROM destinations WHERE id = :id", &[("id", &id)])?.map(|row| destination_row(&row)).transpose()
}

/// Destinations after an id, in order of ids.
pub(crate) fn destinations(tx: &ReadTx<'_>, after: &str, limit: i64) -> Result<Vec<Destination>, StoreError> {
    // Index: primary key.
    tx.query("SELECT * FROM destinations WHERE id > :after ORDER BY id LIMIT :limit", &[("after", &after), ("limit", &limit)])?
        .iter()
        .map(destination_row)
        .collect()
}

/// The destinations of one person in order of priority.
pub(crate) fn destinations_of(tx: &ReadTx<'_>, principal: &PrincipalId, limit: i64) -> Result<Vec<Destination>, StoreError> {
    // Index: destinations_principal.
    tx.query(
        "SELECT * FROM destinations WHERE principal_id = :principal ORDER BY priority, id LIMIT :limit",
        &[("principal", principal), ("limit", &limit)],
    )?
    .iter()
    .map(destination_row)
    .collect()
}

/// Stores a destination.
pub(crate) fn insert_destination(tx: &WriteTx<'_>, row: &Destination) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO destinations (id, connection_id, principal_id, address, mode, priority, version, created_at)
         VALUES (:id, :connection, :principal, :address, :mode, :priority, :version, :now)",
        &[
            ("id", &row.id),
            ("connection", &row.connection_id),
            ("principal", &row.principal_id),
            ("address", &row.address),
            ("mode", &row.mode),
            ("priority", &row.priority),
            ("version", &row.version),
            ("now", &row.created_at),
        ],
    )?;
    Ok(())
}

/// Stores the editable part of a destination under its next version.
pub(crate) fn update_destination(tx: &WriteTx<'_>, row: &Destination) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE destinations SET address = :address, mode = :mode, priority = :priority, version = version + 1 WHERE id = :id",
        &[("address", &row.address), ("mode", &row.mode), ("priority", &row.priority), ("id", &row.id)],
    )?;
    Ok(())
}

/// Deletes a destination, and gives up what waits for it.
pub(crate) fn delete_destination(tx: &WriteTx<'_>, row: &Destination) -> Result<(), StoreError> {
    transports::give_up(tx, &row.connection_id, Some(&row.id), "destination_gone")?;
    tx.execute("DELETE FROM destinations WHERE id = :id", &[("id", &row.id)])?;
    Ok(())
}

/// One account link.
pub(crate) fn link(tx: &ReadTx<'_>, id: &str) -> Result<Option<AccountLink>, StoreError> {
    // Index: primary key.
    let Some(row) = tx.find("SELECT * FROM account_links WHERE id = :id", &[("id", &id)])? else { return Ok(None) };
    Ok(Some(AccountLink {
        id: row.text("id")?.into(),
        connection_id: row.text("connection_id")?.into(),
        principal_id: row.text("principal_id")?.into(),
        provider_account: row.text("provider_account")?,
        created_at: time(&row, "created_at")?,
    }))
}

/// Stores an account link. `false` if the account is linked over this connection already.
pub(crate) fn insert_link(tx: &WriteTx<'_>, row: &AccountLink) -> Result<bool, StoreError> {
    let stored = tx.execute(
        "INSERT INTO account_links (id, connection_id, principal_id, provider_account, created_at)
         VALUES (:id, :connection, :principal, :account, :now)
         ON CONFLICT (connection_id, provider_account) DO NOTHING",
        &[
            ("id", &row.id),
            ("connection", &row.connection_id),
            ("principal", &row.principal_id),
            ("account", &row.provider_account),
            ("now", &row.created_at),
        ],
    )?;
    Ok(stored == 1)
}

/// Deletes an account link.
pub(crate) fn delete_link(tx: &WriteTx<'_>, id: &AccountLinkId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM account_links WHERE id = :id", &[("id", id)])?;
    Ok(())
}

/// A person's saved delivery preferences.
pub(crate) fn preferences(tx: &ReadTx<'_>, person: &PrincipalId) -> Result<Option<DeliveryPreferences>, StoreError> {
    // Index: primary key.
    let row = tx.find("SELECT preferences FROM delivery_preferences WHERE person_id = :person", &[("person", person)])?;
    row.map(|row| stored_json(&row, "preferences")).transpose()
}

/// Saves a person's delivery preferences.
pub(crate) fn save_preferences(tx: &WriteTx<'_>, preferences: &DeliveryPreferences) -> Result<(), StoreError> {
    let text = serde_json::to_string(preferences).map_err(|source| StoreError::Json { column: "preferences", source })?;
    tx.execute(
        "INSERT INTO delivery_preferences (person_id, version, preferences) VALUES (:person, :version, :preferences)
         ON CONFLICT (person_id) DO UPDATE SET version = excluded.version, preferences = excluded.preferences",
        &[("person", &preferences.person_id), ("version", &preferences.version), ("preferences", &text)],
    )?;
    Ok(())
}

/// The assistance switch; whether a model is configured is not stored here.
pub(crate) fn assistance(tx: &ReadTx<'_>) -> Result<AssistanceSettings, StoreError> {
    let row = tx.get("SELECT overseer, version FROM assistance WHERE id = 1", &[])?;
    Ok(AssistanceSettings { overseer: row.bool("overseer")?, version: row.int("version")?, overseer_configured: false })
}

/// Sets the assistance switch under its next version.
pub(crate) fn set_assistance(tx: &WriteTx<'_>, overseer: bool) -> Result<(), StoreError> {
    tx.execute("UPDATE assistance SET overseer = :overseer, version = version + 1 WHERE id = 1", &[("overseer", &overseer)])?;
    Ok(())
}
