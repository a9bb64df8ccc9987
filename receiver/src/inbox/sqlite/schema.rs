//! The schema of the inbox file and how it is brought up to date.

use rusqlite::{Connection, TransactionBehavior};

use super::super::{InboxError, InboxErrorKind};
use super::storage;

/// Marks the file as ours ("BgIn").
const APPLICATION_ID: i64 = 0x4267_496e;

/// Each step brings the schema one version further; released steps are never edited.
const STEPS: &[&str] = &[
    // 1. `payload` stands last, so that reading the columns before it never walks through its overflow pages.
    "CREATE TABLE inputs (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        conversation_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        request_id TEXT,
        created_at INTEGER NOT NULL,
        received_at INTEGER NOT NULL,
        generation INTEGER NOT NULL,
        acked INTEGER NOT NULL DEFAULT 0,
        state TEXT NOT NULL CHECK (state IN ('pending', 'submitting', 'accepted')),
        held_reason TEXT,
        held_detail TEXT,
        held_since INTEGER,
        attempts INTEGER NOT NULL DEFAULT 0,
        next_attempt_at INTEGER,
        attempt TEXT,
        last_error TEXT,
        accepted_at INTEGER,
        ending TEXT,
        revision INTEGER NOT NULL DEFAULT 1,
        payload TEXT
    ) STRICT;
    CREATE INDEX inputs_open ON inputs (created_at, id) WHERE state <> 'accepted';
    CREATE INDEX inputs_unacked ON inputs (seq) WHERE acked = 0;
    CREATE INDEX inputs_by_request ON inputs (request_id, kind) WHERE request_id IS NOT NULL;
    CREATE INDEX inputs_done ON inputs (accepted_at) WHERE state = 'accepted' AND acked = 1;",
    // 2. Which native session a conversation belongs to.
    "CREATE TABLE sessions (
        conversation_id TEXT PRIMARY KEY,
        session TEXT NOT NULL,
        since INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX inputs_conversation ON inputs (conversation_id);",
];

pub(super) fn check_and_migrate(connection: &mut Connection, about: &str) -> Result<(), InboxError> {
    let wrong = |error| storage(about, error);
    let health: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(wrong)?;
    if health != "ok" {
        return Err(InboxError::new(InboxErrorKind::Corrupt, about).because(health));
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(wrong)?;
    let owner: i64 = tx.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(wrong)?;
    let objects: i64 = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(wrong)?;
    if owner != APPLICATION_ID && (owner != 0 || objects > 0) {
        return Err(InboxError::new(InboxErrorKind::Corrupt, about).because("the file belongs to another program"));
    }
    tx.execute_batch("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL) STRICT;").map_err(wrong)?;
    let found: i64 = tx.query_row("SELECT COALESCE(max(version), 0) FROM schema_version", [], |row| row.get(0)).map_err(wrong)?;
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    if found > known {
        let problem = format!("{about} has schema {found}, this version knows {known}");
        return Err(InboxError::new(InboxErrorKind::Newer, problem));
    }
    for (version, step) in (1_i64..).zip(STEPS) {
        if version > found {
            tx.execute_batch(step).map_err(wrong)?;
            tx.execute("INSERT INTO schema_version (version) VALUES (?1)", [version]).map_err(wrong)?;
        }
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID).map_err(wrong)?;
    tx.commit().map_err(wrong)
}
