//! Channels as data: connections here, what hangs on them in the files of this folder. Nothing here sends anything.

mod callbacks;
mod destinations;
mod preferences;
mod sending;

use beepgrid::webhook::WebhookSecret;
use beepgrid::{
    Connection, ConnectionDiagnostics, ConnectionEdit, ConnectionId, ConnectionInput, ConnectionSetup, DiagnosticCheck, JsonMap,
};

use super::actor::Actor;
use super::limits::{MAX_METADATA_BYTES, SECRET_BYTES};
use super::seal::SecretKey;
use super::{Refusal, checks, new_id};
use crate::store::channels::{self, ConnectionRow};
use crate::store::{ReadTx, WriteTx};

pub(crate) use self::callbacks::{Callback, receive};
pub(crate) use self::destinations::{
    check_destination, check_destination_edit, check_link, create_destination, create_link, delete_destination, delete_link,
    destination, edit_destination, link,
};
pub(crate) use self::preferences::{check_preferences, check_route, preferences, preview_route, routes, save_preferences};
pub(crate) use self::sending::{check_test, record, show as show_transport, test};

/// The providers that this engine knows.
pub(crate) const PROVIDERS: &[&str] = &["slack", "telegram", "discord", "smtp", "webhook"];

fn check_secret(secret: Option<&String>) -> Result<(), Refusal> {
    match secret {
        Some(secret) if !SECRET_BYTES.contains(&secret.len()) => {
            let (least, most) = (SECRET_BYTES.start(), SECRET_BYTES.end());
            Err(Refusal::invalid("secret", format!("one text of {least} to {most} bytes")))
        }
        _ => Ok(()),
    }
}

/// Whether a new connection has the right form.
pub(crate) fn check_connection(input: &ConnectionInput) -> Result<(), Refusal> {
    if !PROVIDERS.contains(&input.kind.as_str()) {
        return Err(checks::one_of("kind", &input.kind, PROVIDERS));
    }
    checks::name("name", &input.name)?;
    check_config(&input.config)?;
    check_secret(input.secret.as_ref())
}

/// Whether an edit of a connection has the right form.
pub(crate) fn check_connection_edit(input: &ConnectionEdit) -> Result<(), Refusal> {
    input.name.as_ref().map_or(Ok(()), |name| checks::name("name", name).map(drop))?;
    input.config.as_ref().map_or(Ok(()), check_config)?;
    check_secret(input.secret.as_ref())
}

fn check_config(config: &JsonMap) -> Result<(), Refusal> {
    checks::json("config", &serde_json::Value::Object(config.clone()), MAX_METADATA_BYTES)
}

/// The secret's bytes: base64 behind `whsec_` for webhooks, else the text itself.
fn secret_bytes(kind: &str, secret: &str) -> Result<Vec<u8>, Refusal> {
    if kind != "webhook" {
        return Ok(secret.as_bytes().to_vec());
    }
    let parsed: WebhookSecret = secret.parse().map_err(|_| Refusal::invalid("secret", "after whsec_ there has to be base64"))?;
    Ok(parsed.expose_bytes().to_vec())
}

/// Makes a connection; its secret is stored sealed.
pub(crate) fn create_connection(
    tx: &WriteTx<'_>,
    actor: &Actor,
    input: &ConnectionInput,
    key: &SecretKey,
) -> Result<ConnectionId, Refusal> {
    actor.must_manage(tx, "connection")?;
    let id: ConnectionId = new_id(ConnectionId::PREFIX);
    let secret = sealed(key, &id, &input.kind, input.secret.as_deref())?;
    let row = ConnectionRow {
        id,
        kind: input.kind.clone(),
        name: checks::name("name", &input.name)?,
        config: input.config.clone(),
        secret,
        enabled: input.enabled,
        version: 1,
        created_at: tx.now(),
    };
    channels::insert_connection(tx, &row)?;
    Ok(row.id)
}

fn sealed(key: &SecretKey, id: &ConnectionId, kind: &str, secret: Option<&str>) -> Result<Option<Vec<u8>>, Refusal> {
    secret.map(|secret| key.seal(id.as_str(), &secret_bytes(kind, secret)?)).transpose()
}

/// Edits a connection.
pub(crate) fn edit_connection(
    tx: &WriteTx<'_>,
    actor: &Actor,
    (id, input): &(String, ConnectionEdit),
    key: &SecretKey,
) -> Result<ConnectionId, Refusal> {
    let mut row = managed(tx, actor, id)?;
    if row.version != input.version {
        return Err(Refusal::version_conflict(row.version));
    }
    if let Some(name) = &input.name {
        row.name = checks::name("name", name)?;
    }
    if let Some(config) = &input.config {
        row.config.clone_from(config);
    }
    if input.secret.is_some() {
        row.secret = sealed(key, &row.id, &row.kind, input.secret.as_deref())?;
    }
    row.enabled = input.enabled.unwrap_or(row.enabled);
    channels::update_connection(tx, &row)?;
    Ok(row.id)
}

/// Deletes a connection with its destinations and links.
pub(crate) fn delete_connection(tx: &WriteTx<'_>, actor: &Actor, id: &str) -> Result<(), Refusal> {
    let row = managed(tx, actor, id)?;
    channels::delete_connection(tx, &row.id)?;
    Ok(())
}

/// A connection that the actor manages; for everybody else there is none.
fn managed(tx: &ReadTx<'_>, actor: &Actor, id: &str) -> Result<ConnectionRow, Refusal> {
    if !actor.manages(tx, "connection")? {
        return Err(Refusal::not_found());
    }
    channels::connection(tx, id)?.ok_or_else(Refusal::not_found)
}

/// Whether a connection is in use; `None` when there is none.
pub(crate) fn is_enabled(tx: &ReadTx<'_>, id: &ConnectionId) -> Result<Option<bool>, Refusal> {
    Ok(channels::connection(tx, id.as_str())?.map(|row| row.enabled))
}

/// A connection as it stands, without its secret.
pub(crate) fn connection(tx: &ReadTx<'_>, id: &ConnectionId) -> Result<Connection, Refusal> {
    channels::connection(tx, id.as_str())?.map(show).ok_or_else(Refusal::not_found)
}

/// The wire form: whether there is a secret, never which.
pub(crate) fn show(row: ConnectionRow) -> Connection {
    let ConnectionRow { id, kind, name, config, secret, enabled, version, created_at } = row;
    Connection { id, kind, name, config, has_secret: secret.is_some(), enabled, version, created_at }
}

/// How to set the provider up for one connection.
pub(crate) fn setup(tx: &ReadTx<'_>, actor: &Actor, id: &str, public_url: &str) -> Result<ConnectionSetup, Refusal> {
    let row = managed(tx, actor, id)?;
    let callback_url = format!("{}/api/v1/callbacks/{}", public_url.trim_end_matches('/'), row.id);
    let steps: &[&str] = match row.kind.as_str() {
        "slack" => &[
            "Create a Slack app and give its bot the scopes chat:write and im:write.",
            "Set the request URL for events and interactivity to the callback URL.",
            "Install the app and store its bot token and signing secret in this connection.",
        ],
        "telegram" => &["Create a bot and store its token as the secret.", "Set the bot's webhook to the callback URL."],
        "discord" => &[
            "Create an application with a bot and store the bot token as the secret.",
            "Set the interactions endpoint to the callback URL.",
        ],
        "smtp" => &["Enter host, port, user and sender address in config and the password as the secret."],
        _ => &["Give the receiving service the secret; it verifies the signature of every delivery with it."],
    };
    let steps = steps.iter().map(|step| (*step).to_owned()).collect();
    let values = [("callback_url".to_owned(), callback_url.clone().into())].into_iter().collect();
    Ok(ConnectionSetup { connection_id: row.id, kind: row.kind, callback_url, steps, values })
}

/// What can be checked without sending anything.
pub(crate) fn diagnostics(tx: &ReadTx<'_>, actor: &Actor, id: &str, key: &SecretKey) -> Result<ConnectionDiagnostics, Refusal> {
    let row = managed(tx, actor, id)?;
    let check = |name: &str, ok: bool, right: &str, wrong: &str| DiagnosticCheck {
        name: name.to_owned(),
        ok,
        detail: if ok { right } else { wrong }.to_owned(),
    };
    let opens = match &row.secret {
        Some(sealed) => key.open(row.id.as_str(), sealed)?.is_some(),
        None => false,
    };
    let checks = vec![
        check("enabled", row.enabled, "in use", "not in use: set enabled"),
        check("secret", row.secret.is_some(), "stored", "none stored: edit the connection"),
        check("secret_opens", opens, "opens with this engine's key", "does not open: enter it again"),
    ];
    Ok(ConnectionDiagnostics { connection_id: row.id, observed_at: tx.now(), ok: checks.iter().all(|check| check.ok), checks })
}
