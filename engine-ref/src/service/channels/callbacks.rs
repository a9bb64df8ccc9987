//! Callbacks of providers. Only what is signed is taken, over the bytes as they came; it is stored once for each id that its sender
//! gave it, for the channel that it belongs to.

use beepgrid::webhook::WebhookSecret;

use crate::service::limits::{MAX_ID_CHARS, MAX_WAITING_CALLBACKS};
use crate::service::seal::SecretKey;
use crate::service::{Refusal, restore};
use crate::store::channels::{self, ConnectionRow};
use crate::store::{ReadTx, WriteTx, transports};

/// When a provider may call again whose callbacks nobody has looked at yet.
const RETRY: std::time::Duration = std::time::Duration::from_secs(60);

/// A callback as it came: three headers of the Standard Webhooks scheme, and the body.
#[derive(Clone, Debug)]
pub(crate) struct Callback {
    pub(crate) id: String,
    pub(crate) timestamp: String,
    pub(crate) signature: String,
    pub(crate) body: Vec<u8>,
}

/// Takes a callback. One that came before changes nothing.
///
/// # Errors
/// 503 while the workspace is on hold, 401 for what no secret of a connection that takes callbacks signed, 400 for an unusable id and 429
/// when too many wait, both only for what is signed.
pub(crate) fn receive(tx: &WriteTx<'_>, connection: &str, callback: &Callback, key: &SecretKey) -> Result<(), Refusal> {
    restore::refuse_on_hold(tx)?;
    // Whatever is wrong: who can't sign does not learn which connections there are, of which kind, or in use.
    let (row, secret) = taking(tx, connection, key)?.ok_or(Refusal::Unauthorized)?;
    let Callback { id, timestamp, signature, body } = callback;
    secret.verify(id, timestamp, signature, body, tx.now()).map_err(|_| Refusal::Unauthorized)?;
    if id.is_empty() || id.chars().count() > MAX_ID_CHARS || id.chars().any(char::is_control) {
        return Err(Refusal::invalid("webhook-id", format!("1 to {MAX_ID_CHARS} code points without control characters")));
    }
    if transports::has_callback(tx, &row.id, id)? {
        return Ok(());
    }
    if transports::waiting_callbacks(tx, &row.id, MAX_WAITING_CALLBACKS)? >= MAX_WAITING_CALLBACKS {
        let message = format!("{MAX_WAITING_CALLBACKS} callbacks of this connection wait already");
        return Err(Refusal::RateLimited { message, retry_after: RETRY });
    }
    transports::insert_callback(tx, &row.id, id, body)?;
    Ok(())
}

/// A connection that is in use and whose callbacks can be verified, with its secret.
fn taking(tx: &ReadTx<'_>, id: &str, key: &SecretKey) -> Result<Option<(ConnectionRow, WebhookSecret)>, Refusal> {
    let Some(row) = channels::connection(tx, id)?.filter(|row| row.enabled && row.kind == "webhook") else { return Ok(None) };
    let Some(sealed) = &row.secret else { return Ok(None) };
    let secret = key.open(row.id.as_str(), sealed)?.and_then(|bytes| WebhookSecret::from_bytes(bytes).ok());
    Ok(secret.map(|secret| (row, secret)))
}
