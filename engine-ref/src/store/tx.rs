//! What service code sees of the database: a read or a write transaction of one piece of work.

use std::cell::{Cell, RefCell};
use std::ops::Deref;

use beepgrid::Timestamp;

use super::sql::Dialect;
use super::{Row, StoreError, ToValue};
use crate::signals::Signal;

/// Named values for one statement.
pub(crate) type Params<'p> = &'p [(&'static str, &'p dyn ToValue)];

/// A connection with an open transaction. Both databases; errors are sorted already.
pub(super) trait Backend {
    fn dialect(&self) -> Dialect;
    fn query(&self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, StoreError>;
    fn execute(&self, sql: &'static str, params: Params<'_>) -> Result<u64, StoreError>;
    /// Runs several statements without values, as they stand.
    fn script(&self, sql: &str) -> Result<(), StoreError>;
}

/// One consistent view of the database.
pub(crate) struct ReadTx<'a> {
    backend: &'a dyn Backend,
    now: Timestamp,
    failed: Cell<bool>,
}

impl std::fmt::Debug for ReadTx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadTx").field("now", &self.now).field("failed", &self.failed.get()).finish_non_exhaustive()
    }
}

impl<'a> ReadTx<'a> {
    pub(super) fn new(backend: &'a dyn Backend, now: Timestamp) -> Self {
        Self { backend, now, failed: Cell::new(false) }
    }

    /// The time of this piece of work: the same at every call.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// All rows.
    pub(crate) fn query(&self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        self.guarded(|backend| backend.query(sql, params))
    }

    /// The first row, if there is one.
    pub(crate) fn find(&self, sql: &'static str, params: Params<'_>) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, params)?.into_iter().next())
    }

    /// The first row of a statement that always has one; none is an error.
    pub(crate) fn get(&self, sql: &'static str, params: Params<'_>) -> Result<Row, StoreError> {
        self.find(sql, params)?.ok_or(StoreError::NoRow { sql })
    }

    /// Whether a statement failed: then the piece must not be kept, whatever it says itself.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.get()
    }

    /// PostgreSQL refuses everything after an error until the savepoint is undone; here both databases do.
    fn guarded<T>(&self, run: impl FnOnce(&dyn Backend) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.failed.get() {
            return Err(StoreError::Aborted);
        }
        let result = run(self.backend);
        self.failed.set(result.is_err());
        result
    }
}

/// What the pieces of one commit share.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The newest event sequence, once somebody asked.
    pub(super) sequence: Cell<Option<i64>>,
    /// Whether `sequence` has moved since it was read.
    pub(super) moved: Cell<bool>,
    /// What the commit will wake.
    pub(super) signals: RefCell<Vec<Signal>>,
}

/// One piece of work that changes something; all of it is kept or nothing.
#[derive(Debug)]
pub(crate) struct WriteTx<'a> {
    read: ReadTx<'a>,
    batch: &'a Batch,
}

impl<'a> WriteTx<'a> {
    pub(super) fn new(backend: &'a dyn Backend, now: Timestamp, batch: &'a Batch) -> Self {
        Self { read: ReadTx::new(backend, now), batch }
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) fn execute(&self, sql: &'static str, params: Params<'_>) -> Result<u64, StoreError> {
        self.guarded(|backend| backend.execute(sql, params))
    }

    /// The sequence of the next event: higher than all before, in the order of commits, also between processes.
    pub(crate) fn next_sequence(&self) -> Result<i64, StoreError> {
        self.skip_sequences(1)
    }

    /// Moves the event sequence forward by `count` and returns the newest.
    pub(crate) fn skip_sequences(&self, count: i64) -> Result<i64, StoreError> {
        let newest = match self.batch.sequence.get() {
            Some(newest) => newest,
            None => self.get("SELECT sequence FROM workspace WHERE id = 1", &[])?.int("sequence")?,
        };
        let next = newest.saturating_add(count);
        self.batch.sequence.set(Some(next));
        self.batch.moved.set(true);
        Ok(next)
    }

    /// Wakes whoever waits for `signal`, after the commit and only if this piece is kept.
    pub(crate) fn signal(&self, signal: Signal) {
        self.batch.signals.borrow_mut().push(signal);
    }

    /// Runs statements of a test.
    #[cfg(test)]
    pub(crate) fn script(&self, sql: &str) -> Result<(), StoreError> {
        self.guarded(|backend| backend.script(sql))
    }
}

impl<'a> Deref for WriteTx<'a> {
    type Target = ReadTx<'a>;

    fn deref(&self) -> &Self::Target {
        &self.read
    }
}
