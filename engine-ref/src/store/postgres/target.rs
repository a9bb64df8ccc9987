//! Which database and schema, and how each connection to it is set up.

use std::time::Duration;

use ::postgres::{Client, Config, NoTls};
use sha2::{Digest, Sha256};

use super::session::Session;
use crate::store::StoreError;

/// A schema of a PostgreSQL database, and this process at it.
#[derive(Clone, Debug)]
pub(super) struct Target {
    config: Config,
    schema: String,
    /// Says which process sent a notification.
    pub(super) process: String,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Reader,
    Listener,
}

/// Long enough for a slow network, short enough that a call is answered.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// After this silence of a peer that should have answered, a connection counts as gone.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(20);
/// Transaction states of a batch can be asked for since this version.
const OLDEST: i64 = 130_000;

impl Target {
    pub(super) fn parse(url: &str, schema: &str) -> Result<Self, StoreError> {
        // The text of the error does not repeat the URL, which may hold a password.
        let mut config: Config = url
            .parse()
            .map_err(|error: ::postgres::Error| StoreError::Open(format!("the database URL is wrong: {}", chain(&error))))?;
        if !is_schema_name(schema) {
            return Err(StoreError::Open(format!(
                "{schema:?} can't be a schema: a to z, 0 to 9 and _, no digit first, at most 40 characters, not pg_ first"
            )));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(NETWORK_TIMEOUT);
        }
        config.keepalives_idle(NETWORK_TIMEOUT);
        // Notices ("already exists, skipping") are nothing to act on; without this the driver logs each of them.
        config.notice_callback(|notice| tracing::debug!(notice = notice.message(), "PostgreSQL says"));
        Ok(Self { config, schema: schema.to_owned(), process: uuid::Uuid::now_v7().simple().to_string() })
    }

    /// Opens a connection for `role`.
    pub(super) fn connect(&self, role: Role) -> Result<Session, StoreError> {
        self.client(role).map(Session::new)
    }

    pub(super) fn client(&self, role: Role) -> Result<Client, StoreError> {
        let name = match role {
            Role::Writer => "writer",
            Role::Reader => "reader",
            Role::Listener => "listener",
        };
        let mut config = self.config.clone();
        config.application_name(&format!("beepgrid {name} {}", self.schema));
        let unavailable = |error: ::postgres::Error| StoreError::Unavailable(error.into());
        let mut client = config.connect(NoTls).map_err(unavailable)?;
        client
            .batch_execute(&format!(
                "SET search_path TO \"{}\"; SET client_min_messages TO warning; SET standard_conforming_strings TO on; \
                 SET synchronous_commit TO on; SET statement_timeout TO 0; SET lock_timeout TO 0; \
                 SET idle_in_transaction_session_timeout TO '60s'",
                self.schema
            ))
            .map_err(unavailable)?;
        Ok(client)
    }

    /// Refuses servers that can't do what the writer needs.
    pub(super) fn check_version(session: &Session) -> Result<(), StoreError> {
        let version = session.simple("SELECT current_setting('server_version_num') AS version", "version")?;
        match version.and_then(|version| version.parse::<i64>().ok()) {
            Some(version) if version < OLDEST => {
                Err(StoreError::Open(format!("PostgreSQL 13 or newer is needed, this one is {}", version / 10_000)))
            }
            _ => Ok(()),
        }
    }

    /// Creates the schema if it is not there. The lock keeps two processes from doing it at once.
    pub(super) fn create_schema(&self, session: &Session) -> Result<(), StoreError> {
        // A role that may use the schema need not be allowed to create one.
        let there = session.simple(&format!("SELECT CAST(to_regnamespace('\"{}\"') AS TEXT) AS it", self.schema), "it")?;
        if there.is_some() {
            return Ok(());
        }
        session.simple(&format!("{}; CREATE SCHEMA IF NOT EXISTS \"{}\"; COMMIT", self.begin_alone(), self.schema), "none")?;
        Ok(())
    }

    /// Begins a write beside which no other process writes to this schema. A snapshot taken before the lock would be too old,
    /// so each statement takes its own.
    pub(super) fn begin_alone(&self) -> String {
        let key = self.lock_key();
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
             SELECT pg_advisory_xact_lock({key}), CAST(pg_current_xact_id() AS TEXT) AS xid"
        )
    }

    fn lock_key(&self) -> i64 {
        let digest: [u8; 32] = Sha256::digest(format!("beepgrid writer {}", self.schema).as_bytes()).into();
        digest.first_chunk().map_or(0, |first| i64::from_be_bytes(*first))
    }

    /// Where commits of this schema are announced.
    pub(super) fn channel(&self) -> String {
        format!("beepgrid_{}", self.schema)
    }
}

/// Also keeps the name harmless inside quotes.
fn is_schema_name(name: &str) -> bool {
    (1..=40).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.starts_with("pg_")
}

fn chain(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
