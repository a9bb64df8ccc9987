//! After a database was restored from a backup: hold, look, resume.
//!
//! A backup knows nothing of what happened after it. Put it into its place, call [`begin`] before anything else uses it, and start the
//! engines. While the workspace is on hold its operators read and manage (identities, credentials, connections); every other call is
//! refused with `unavailable` and a `Retry-After`, and nothing is leased, expired, parked, swept, planned or sent outside. Enroll the
//! workers again, compare with the world outside, then call [`resume`].
//!
//! [`begin`]
//! * ends **every credential** and makes a new one for the owner: a token that was revoked after the backup must not come back to
//!   life. Receivers and other clients with an old token are refused with `unauthorized`;
//! * raises the **event sequence** by one million, so that no number that a reader has seen is given out again: a reader with its old
//!   position goes on there and gets everything that happens from now on. A position beyond that is refused (`invalid_cursor`), as ever;
//! * raises the **generations** of deliveries that may be leased again by as much, so that a receiver does not take the next lease for
//!   one that it had before: it knows the delivery by its id and acknowledges it under the new generation;
//! * marks what was **on its way outside** as `unknown`, which is never sent again by itself. What was `queued` stays so.
//!
//! Deadlines go on meanwhile: what is due is closed when the hold is taken off.
//!
//! Both work on the database, not on an engine. A SQLite file is one engine's: stop it first, or they fail. With PostgreSQL engines
//! may run; they follow at once.
//!
//! ```no_run
//! # async fn example() -> Result<(), beepgrid_engine_ref::EngineError> {
//! use beepgrid_engine_ref::{Engine, restore};
//!
//! let database = || Engine::builder().sqlite("/var/lib/beepgrid/beepgrid.db");
//! let owner_token = restore::begin(database()).await?;
//! // Serve it, look and mend with the new token, and then:
//! restore::resume(database()).await?;
//! # drop(owner_token);
//! # Ok(())
//! # }
//! ```

use secrecy::{ExposeSecret, SecretString};

use crate::engine::{EngineBuilder, EngineError};
use crate::service::{Refusal, restore};
use crate::store::{Store, hold};

/// Puts a restored workspace on hold and returns the token of its owner's new credential, the only one that works.
///
/// Of the settings it takes where the database is and whether to bring its schema up to date, where files are, the clock, and the
/// token itself, if one was given: to keep it safe before it is in force. Called again, it does all of it again; the token from before
/// ends.
///
/// # Errors
/// The database can't be used (an engine has it, another schema, damaged) or has no owner; a token of the wrong form. Nothing is
/// changed then, and everything otherwise: it is one transaction.
pub async fn begin(database: EngineBuilder) -> Result<SecretString, EngineError> {
    let (store, token) = database.open().await?;
    let new = token.clone();
    let begun = store.write(move |tx| restore::begin(tx, new.expose_secret())).await;
    if closed(&store, begun).await? { Ok(token) } else { Err(EngineError::NoOwner) }
}

/// Takes the hold off. Returns whether there was one.
///
/// # Errors
/// The database can't be used.
pub async fn resume(database: EngineBuilder) -> Result<bool, EngineError> {
    let (store, _) = database.open().await?;
    let resumed = store.write(restore::resume).await;
    closed(&store, resumed).await
}

/// Whether a workspace is on hold.
///
/// # Errors
/// The database can't be used.
pub async fn is_on_hold(database: EngineBuilder) -> Result<bool, EngineError> {
    let (store, _) = database.open().await?;
    let found = store.read(|tx| Ok(hold::is_on(tx)?)).await;
    closed(&store, found).await
}

/// Lets the database go, whatever came of it.
async fn closed<T>(store: &Store, outcome: Result<T, Refusal>) -> Result<T, EngineError> {
    store.close().await;
    outcome.map_err(|refusal| EngineError::Store(format!("{refusal:?}")))
}
