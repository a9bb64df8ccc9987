//! Brings a database to the schema of this program: numbered files, each in one transaction, never edited after release.

use beepgrid::Timestamp;
use sha2::{Digest, Sha256};

use super::sql::{self, Dialect};
use super::tx::Backend;
use super::{Row, StoreError};

/// One step of the schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// All steps, in order.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "init", sql: include_str!("../../migrations/0001_init.sql") },
    Migration { version: 2, name: "answers_executions", sql: include_str!("../../migrations/0002_answers_executions.sql") },
    Migration { version: 3, name: "files", sql: include_str!("../../migrations/0003_files.sql") },
    Migration { version: 4, name: "channels", sql: include_str!("../../migrations/0004_channels.sql") },
    Migration { version: 5, name: "queries", sql: include_str!("../../migrations/0005_queries.sql") },
    Migration { version: 6, name: "plans", sql: include_str!("../../migrations/0006_plans.sql") },
    Migration { version: 7, name: "transports", sql: include_str!("../../migrations/0007_transports.sql") },
    Migration { version: 8, name: "hold", sql: include_str!("../../migrations/0008_hold.sql") },
];

impl Migration {
    /// A fingerprint of the text that a checkout with other line ends does not change.
    fn checksum(&self) -> String {
        let digest = Sha256::digest(self.sql.replace("\r\n", "\n").as_bytes());
        digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }
}

/// What a database needs besides the steps themselves.
pub(super) struct Runner<'a> {
    pub(super) backend: &'a dyn Backend,
    /// Begins a transaction that no other migration runs beside.
    pub(super) begin: &'a str,
    /// Saves what is there before step `version` changes it.
    pub(super) backup: &'a dyn Fn(i64) -> Result<(), StoreError>,
    pub(super) steps: &'a [Migration],
    pub(super) now: Timestamp,
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT PRIMARY KEY, name TEXT NOT NULL, \
     checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)";

impl Runner<'_> {
    /// Checks the schema and, if `migrate`, applies what is missing.
    pub(super) fn run(&self, migrate: bool) -> Result<(), StoreError> {
        let applied = self.applied()?;
        let pending = self.pending(&applied)?;
        let Some(first) = pending.first() else { return Ok(()) };
        if !migrate {
            return Err(StoreError::Open(format!(
                "the schema of the database lacks step {} and later; run `beepgrid migrate` or `beepgrid serve --migrate`",
                first.version
            )));
        }
        if applied.is_empty() {
            self.check_empty()?;
        } else {
            (self.backup)(first.version)?;
        }
        pending.iter().try_for_each(|step| self.apply(step))
    }

    fn applied(&self) -> Result<Vec<Row>, StoreError> {
        let there = match self.backend.dialect() {
            Dialect::Sqlite => "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations'",
            Dialect::Postgres => {
                "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema() AND tablename = 'schema_migrations'"
            }
        };
        if self.backend.query(there, &[])?.is_empty() {
            return Ok(Vec::new());
        }
        self.backend.query("SELECT version, name, checksum FROM schema_migrations ORDER BY version", &[])
    }

    /// The steps that are not in the database. What is there must be the first of ours, unchanged.
    fn pending(&self, applied: &[Row]) -> Result<&[Migration], StoreError> {
        for (index, row) in applied.iter().enumerate() {
            let (version, name) = (row.int("version")?, row.text("name")?);
            let Some(step) = self.steps.get(index) else {
                let newest = self.steps.last().map_or(0, |step| step.version);
                return Err(StoreError::Open(format!(
                    "the database has schema step {version} ({name}) of a newer release; this one knows steps up to {newest}"
                )));
            };
            if step.version != version || step.name != name || step.checksum() != row.text("checksum")? {
                return Err(StoreError::Open(format!(
                    "schema step {version} ({name}) in the database is not the one of this release: \
                     the file was changed after it was applied, or the database belongs to another program"
                )));
            }
        }
        Ok(self.steps.get(applied.len()..).unwrap_or_default())
    }

    /// Refuses to add our tables to those of another program.
    fn check_empty(&self) -> Result<(), StoreError> {
        let tables = match self.backend.dialect() {
            Dialect::Sqlite => "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'schema_migrations' LIMIT 1",
            Dialect::Postgres => {
                "SELECT CAST(tablename AS TEXT) AS name FROM pg_catalog.pg_tables WHERE schemaname = current_schema() \
                 AND tablename <> 'schema_migrations' LIMIT 1"
            }
        };
        let Some(table) = self.backend.query(tables, &[])?.into_iter().next() else { return Ok(()) };
        // Another process may have made them just now.
        if !self.applied()?.is_empty() {
            return Ok(());
        }
        let table = table.text("name")?;
        Err(StoreError::Open(format!("the database has a table {table:?}, but none of this program's schema steps")))
    }

    fn apply(&self, step: &Migration) -> Result<(), StoreError> {
        let result = self.backend.script(self.begin).and_then(|()| self.steps_in_transaction(step));
        if result.is_err() {
            // The first error says more; a connection that is gone has rolled back by itself.
            drop(self.backend.script("ROLLBACK"));
        }
        result
    }

    fn steps_in_transaction(&self, step: &Migration) -> Result<(), StoreError> {
        // Another process may have done it while this one waited for the lock.
        let still_pending = self.pending(&self.applied()?)?.iter().any(|pending| pending.version == step.version);
        if still_pending {
            self.backend.script(TABLE)?;
            self.backend.script(&sql::translate_script(step.sql, self.backend.dialect())?)?;
            self.backend.execute(
                "INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES (:version, :name, :checksum, :now)",
                &[("version", &step.version), ("name", &step.name), ("checksum", &step.checksum()), ("now", &self.now)],
            )?;
            tracing::info!(version = step.version, name = step.name, "schema step applied");
        }
        self.backend.script("COMMIT")
    }
}
