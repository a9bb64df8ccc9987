//! Moves SQLite's write-ahead log into the database beside the writer, so that no commit pays for it.

use std::time::Duration;

use rusqlite::Connection;

use super::bell::Bell;

/// Commits of this long are looked at together.
const PAUSE: Duration = Duration::from_millis(200);
/// From this much log on, it is copied into the database; readers and writer go on.
const COPY_FROM: i64 = 4 << 20;
/// From this much log on, the writer is held for a moment, so that the log starts anew.
const RESTART_FROM: i64 = 64 << 20;

/// Copies the log whenever commits have rung and there is enough of it. Ends when the bell is stopped.
pub(super) fn run(connection: &Connection, bell: &Bell) {
    let page = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap_or(4096);
    while bell.wait() && bell.pause(PAUSE) {
        if let Err(error) = round(connection, page) {
            // The log stays as it is and the next commit rings again.
            tracing::warn!(error = &error as &dyn std::error::Error, "checkpoint failed");
        }
    }
}

fn round(connection: &Connection, page: i64) -> rusqlite::Result<()> {
    let (log, copied) = checkpoint(connection, "PRAGMA wal_checkpoint(NOOP)")?;
    if (log - copied) * page >= COPY_FROM {
        checkpoint(connection, "PRAGMA wal_checkpoint(PASSIVE)")?;
    }
    if log * page >= RESTART_FROM {
        // Short of time it gives up: a long read may need the old log, and the writer must not wait for it.
        checkpoint(connection, "PRAGMA wal_checkpoint(TRUNCATE)")?;
    }
    Ok(())
}

/// Returns the pages in the log and how many of them are in the database.
fn checkpoint(connection: &Connection, pragma: &str) -> rusqlite::Result<(i64, i64)> {
    connection.prepare_cached(pragma)?.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))
}
