//! SQLite: one file, one engine. What differs from PostgreSQL.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use super::bell::Bell;
use super::owner::Owner;
use super::sql::{self, Dialect};
use super::tx::{Backend, Params};
use super::writer::{self, Commit};
use super::{Row, StoreError, Value};
use crate::signals::Signal;

/// Older ones can corrupt a database when the log is reset while another connection writes.
const OLDEST: i32 = 3_051_003;
/// How long a write waits for another program that holds the file (a backup, a shell).
const WRITE_WAIT: Duration = Duration::from_secs(15);
/// How long a read or a checkpoint waits; in the log mode there is next to nothing to wait for.
const SHORT_WAIT: Duration = Duration::from_secs(2);
/// More statements than the engine has.
const STATEMENTS: usize = 512;

/// A connection of this engine. The thread that opened it uses it and drops it.
pub(super) struct Sqlite(Rc<Session>);

struct Session {
    connection: Connection,
    statements: RefCell<HashMap<(usize, usize), Rc<Known>>>,
    /// Whether the open transaction is one that must not write.
    reading: Cell<bool>,
    committed: Bell,
    /// Last, so that the file is let go after its connection is closed.
    owner: Option<Arc<Owner>>,
}

struct Known {
    statement: sql::Statement,
    columns: OnceCell<Arc<[String]>>,
}

impl Sqlite {
    /// The connection that writes to a file. `committed` is rung after each commit.
    pub(super) fn writer(owner: &Arc<Owner>, committed: Bell) -> Result<Self, StoreError> {
        let connection = open(owner.database(), OpenFlags::SQLITE_OPEN_READ_WRITE, WRITE_WAIT)?;
        if connection.is_readonly("main").map_err(|error| cannot_open(owner.database(), &error))? {
            return Err(StoreError::Open(format!("the database {} can't be written", owner.database().display())));
        }
        prepare(&connection).map_err(|error| cannot_open(owner.database(), &error))?;
        Ok(Self::new(connection, committed, Some(Arc::clone(owner))))
    }

    /// A connection that reads a file beside the writer.
    pub(super) fn reader(owner: &Arc<Owner>) -> Result<Self, StoreError> {
        let connection = open(owner.database(), OpenFlags::SQLITE_OPEN_READ_ONLY, SHORT_WAIT)?;
        Ok(Self::new(connection, Bell::default(), Some(Arc::clone(owner))))
    }

    /// A database that lives as long as this connection.
    pub(super) fn in_memory() -> Result<Self, StoreError> {
        check_version()?;
        let connection = Connection::open_in_memory().and_then(|connection| {
            connection.pragma_update(None, "foreign_keys", true)?;
            Ok(connection)
        });
        Ok(Self::new(connection.map_err(|error| cannot_open(Path::new(":memory:"), &error))?, Bell::default(), None))
    }

    fn new(connection: Connection, committed: Bell, owner: Option<Arc<Owner>>) -> Self {
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let statements = RefCell::default();
        Self(Rc::new(Session { connection, statements, reading: Cell::new(false), committed, owner }))
    }

    /// For the migrations: statements with or without a transaction.
    pub(super) fn backend(&self) -> &dyn Backend {
        &*self.0
    }

    fn begin(&self, begin: &str) -> Result<Rc<dyn Backend>, StoreError> {
        // A rollback that failed would leave the old transaction open for ever.
        self.0.end()?;
        self.0.script(begin)?;
        Ok(Rc::clone(&self.0) as Rc<dyn Backend>)
    }
}

/// The connection that a checkpoint runs on, beside the writer.
pub(super) fn checkpointer(owner: &Owner) -> Result<Connection, StoreError> {
    let connection = open(owner.database(), OpenFlags::SQLITE_OPEN_READ_WRITE, Duration::from_millis(100))?;
    prepare(&connection).map_err(|error| cannot_open(owner.database(), &error))?;
    Ok(connection)
}

impl writer::Connection for Sqlite {
    fn begin_write(&self) -> Result<Rc<dyn Backend>, StoreError> {
        if let Some(owner) = &self.0.owner {
            owner.check()?;
        }
        self.0.reading.set(false);
        // Never a read that turns into a write: that one is refused at once instead of waiting.
        self.begin("BEGIN IMMEDIATE")
    }

    fn begin_read(&self) -> Result<Rc<dyn Backend>, StoreError> {
        self.0.reading.set(true);
        self.begin("BEGIN")
    }

    fn is_open(&self) -> bool {
        !self.0.connection.is_autocommit()
    }

    fn announce(&self, _signals: &[Signal]) -> Result<(), StoreError> {
        // There is no other process.
        Ok(())
    }

    fn commit(&self) -> Commit {
        let Err(error) = self.0.connection.execute_batch("COMMIT") else {
            self.0.committed.ring();
            return Commit::Kept;
        };
        let synced = error.sqlite_extended_error_code() != Some(ffi::SQLITE_IOERR_FSYNC);
        let error = sorted(error, "COMMIT");
        self.rollback();
        // After a failed flush the log holds the whole commit: the next write covers it, a crash before that revives it.
        if synced { Commit::Undone(error) } else { Commit::Unknown(error) }
    }

    fn rollback(&self) {
        if let Err(error) = self.0.end() {
            tracing::error!(error = error.chain(), "can't roll back");
        }
    }
}

impl Session {
    fn end(&self) -> Result<(), StoreError> {
        if self.connection.is_autocommit() { Ok(()) } else { self.script("ROLLBACK") }
    }

    fn known(&self, sql: &'static str) -> Result<Rc<Known>, StoreError> {
        if let Some(known) = self.statements.borrow().get(&sql::identity(sql)) {
            return Ok(Rc::clone(known));
        }
        let statement = sql::translate(sql, Dialect::Sqlite)?;
        let known = Rc::new(Known { statement, columns: OnceCell::new() });
        self.statements.borrow_mut().insert(sql::identity(sql), Rc::clone(&known));
        Ok(known)
    }

    fn bound(
        &self,
        sql: &'static str,
        known: &sql::Statement,
        params: Params<'_>,
    ) -> Result<rusqlite::CachedStatement<'_>, StoreError> {
        let values = sql::arrange(sql, known, params)?;
        let mut prepared = self.connection.prepare_cached(&known.text).map_err(|error| sorted(error, sql))?;
        if self.reading.get() && !prepared.readonly() {
            return Err(StoreError::Statement { sql: sql.to_owned(), source: "it writes, in a read".into() });
        }
        for (index, value) in values.iter().enumerate() {
            prepared.raw_bind_parameter(index + 1, borrowed(value)).map_err(|error| sorted(error, sql))?;
        }
        Ok(prepared)
    }
}

impl Backend for Session {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn query(&self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        let known = self.known(sql)?;
        let mut prepared = self.bound(sql, &known.statement, params)?;
        let columns = known.columns.get_or_init(|| prepared.column_names().map(str::to_owned).collect());
        let mut rows = prepared.raw_query();
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(|error| sorted(error, sql))? {
            let values = (0..columns.len()).map(|index| value(sql, row.get_ref(index)));
            found.push(Row::new(Arc::clone(columns), values.collect::<Result<_, _>>()?));
        }
        Ok(found)
    }

    fn execute(&self, sql: &'static str, params: Params<'_>) -> Result<u64, StoreError> {
        let known = self.known(sql)?;
        let changed = self.bound(sql, &known.statement, params)?.raw_execute().map_err(|error| sorted(error, sql))?;
        Ok(changed.try_into().unwrap_or(u64::MAX))
    }

    fn script(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.execute_batch(sql).map_err(|error| sorted(error, sql))
    }
}

fn open(path: &Path, access: OpenFlags, wait: Duration) -> Result<Connection, StoreError> {
    check_version()?;
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    connection
        .and_then(|connection| connection.busy_timeout(wait).map(|()| connection))
        .map_err(|error| cannot_open(path, &error))
}

/// Settings of connections that write; the first statement also reads the file, so that a damaged one shows here.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        let failure = ffi::Error::new(ffi::SQLITE_CANTOPEN);
        return Err(rusqlite::Error::SqliteFailure(failure, Some(format!("no write-ahead log here, only {mode}"))));
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)
}

fn check_version() -> Result<(), StoreError> {
    if rusqlite::version_number() >= OLDEST {
        return Ok(());
    }
    let found = rusqlite::version();
    Err(StoreError::Open(format!("SQLite {found} can corrupt databases in use; 3.51.3 or newer is needed")))
}

fn cannot_open(path: &Path, error: &rusqlite::Error) -> StoreError {
    let what = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => "it is not a SQLite database",
        Some(ErrorCode::DatabaseCorrupt) => "it is damaged; restore a backup",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "another program holds it",
        _ => return StoreError::Open(format!("can't open the database {}: {error}", path.display())),
    };
    StoreError::Open(format!("can't open the database {}: {what}", path.display()))
}

fn sorted(error: rusqlite::Error, sql: &str) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => StoreError::Constraint(error.into()),
        Some(
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::OutOfMemory
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::FileLockingProtocolFailed,
        ) => StoreError::Unavailable(error.into()),
        _ => StoreError::Statement { sql: sql.to_owned(), source: error.into() },
    }
}

fn borrowed(value: &Value) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match value {
        Value::Null => ValueRef::Null,
        Value::Bool(bool) => ValueRef::Integer(i64::from(*bool)),
        Value::Int(int) => ValueRef::Integer(*int),
        Value::Text(text) => ValueRef::Text(text.as_bytes()),
        Value::Blob(blob) => ValueRef::Blob(blob),
    })
}

fn value(sql: &str, found: rusqlite::Result<ValueRef<'_>>) -> Result<Value, StoreError> {
    let refused = |source| StoreError::Statement { sql: sql.to_owned(), source };
    Ok(match found.map_err(|error| sorted(error, sql))? {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(int) => Value::Int(int),
        ValueRef::Real(_) => return Err(refused("a column is a floating point number".into())),
        ValueRef::Text(text) => Value::Text(std::str::from_utf8(text).map_err(|error| refused(error.into()))?.to_owned()),
        ValueRef::Blob(blob) => Value::Blob(blob.to_vec()),
    })
}
