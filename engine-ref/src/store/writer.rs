//! Group commit: one thread takes every write that waits, runs each in its own savepoint, commits once, and only then answers.
//!
//! Whatever fails before the commit undoes the whole batch, and its callers hear that nothing was stored. A failed commit whose
//! outcome can't be learnt is said to be unknown, never to be a failure.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::piece::{Command, ReadPiece, WritePiece};
use super::tx::{Backend, Batch};
use super::{Hooks, ReadTx, StoreError, WriteTx};
use crate::clock::Clock;
use crate::service::refusal::Refusal;
use crate::signals::{self, Signal, Signals};

/// PostgreSQL keeps 64 subtransactions of a transaction at hand; more of them slow every reader down.
const MAX_BATCH: usize = 60;

/// How a commit ended.
#[derive(Debug)]
pub(super) enum Commit {
    /// It is durable.
    Kept,
    /// It certainly left nothing behind.
    Undone(StoreError),
    /// It may or may not have happened.
    Unknown(StoreError),
}

/// A connection of one database, owned by one thread.
pub(super) trait Connection {
    /// Begins a transaction that no other writer of this database runs beside.
    fn begin_write(&self) -> Result<Rc<dyn Backend>, StoreError>;
    /// Begins a transaction that sees one state and can't change it.
    fn begin_read(&self) -> Result<Rc<dyn Backend>, StoreError>;
    /// Whether the transaction is still there: some errors end it.
    fn is_open(&self) -> bool;
    /// Hands the signals of this transaction to other processes, with the commit.
    fn announce(&self, signals: &[Signal]) -> Result<(), StoreError>;
    fn commit(&self) -> Commit;
    /// Ends the transaction, if there is one. A connection that can't do that must not be used again.
    fn rollback(&self);
}

/// The writer thread's state.
pub(super) struct Writer {
    pub(super) connection: Box<dyn Connection>,
    pub(super) clock: Clock,
    pub(super) signals: Signals,
    pub(super) commits: Arc<AtomicU64>,
    pub(super) hooks: Hooks,
    waiting: VecDeque<Box<dyn WritePiece>>,
}

impl Writer {
    pub(super) fn new(
        connection: Box<dyn Connection>,
        clock: Clock,
        signals: Signals,
        (commits, hooks): (Arc<AtomicU64>, Hooks),
    ) -> Self {
        Self { connection, clock, signals, commits, hooks, waiting: VecDeque::new() }
    }

    /// Serves until the store is closed or dropped and everything queued is done.
    pub(super) fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        while let Some(first) = commands.blocking_recv() {
            self.take(first, &mut commands);
            while self.waiting.len() < MAX_BATCH
                && let Ok(next) = commands.try_recv()
            {
                self.take(next, &mut commands);
            }
            // A batch that fails in the middle leaves the pieces that it did not begin.
            while !self.waiting.is_empty() {
                self.write_waiting();
            }
        }
    }

    fn take(&mut self, command: Command, commands: &mut mpsc::Receiver<Command>) {
        match command {
            Command::Write(piece) => self.waiting.push_back(piece),
            Command::Read(piece) => read_once(&*self.connection, &self.clock, piece),
            Command::Close => commands.close(),
        }
    }

    /// Runs what waits as one transaction and answers it. Each call answers at least one piece, or drops abandoned ones.
    fn write_waiting(&mut self) {
        self.waiting.retain(|piece| !piece.is_abandoned());
        if self.waiting.is_empty() {
            return;
        }
        let backend = match self.connection.begin_write() {
            Ok(backend) => backend,
            Err(error) => {
                return not_stored(self.waiting.drain(..).collect(), &error);
            }
        };
        let batch = Batch::default();
        let mut done = Vec::with_capacity(self.waiting.len());
        let ready = self
            .run_waiting(&*backend, &batch, &mut done)
            .and_then(|kept| if kept { self.seal(&*backend, &batch).map(Some) } else { Ok(None) });
        match ready {
            // Everybody was refused: there is nothing to commit.
            Ok(None) => {
                self.connection.rollback();
                answer_all(done, None);
            }
            Ok(Some(signals)) => self.commit(done, &signals),
            Err(error) => {
                self.connection.rollback();
                not_stored(done, &error);
            }
        }
    }

    /// Runs the pieces that wait; those that were begun are in `done` afterwards. Says whether any is to be kept.
    fn run_waiting(
        &mut self,
        backend: &dyn Backend,
        batch: &Batch,
        done: &mut Vec<Box<dyn WritePiece>>,
    ) -> Result<bool, StoreError> {
        let alone = self.waiting.len() == 1;
        let mut any_kept = false;
        let mut step = Some("SAVEPOINT piece");
        while let Some(mut piece) = self.waiting.pop_front() {
            if let Some(step) = step.filter(|_| !alone)
                && let Err(error) = backend.script(step)
            {
                // It was not begun, so it may go with the next batch; but the first goes now, or a batch might never end.
                if done.is_empty() {
                    done.push(piece);
                } else {
                    self.waiting.push_front(piece);
                }
                return Err(error);
            }
            let signals_before = batch.signals.borrow().len();
            let kept = piece.run(&WriteTx::new(backend, self.clock.now(), batch));
            done.push(piece);
            if !self.connection.is_open() {
                return Err(StoreError::unavailable("the transaction was lost"));
            }
            if kept {
                any_kept = true;
                step = Some("RELEASE SAVEPOINT piece; SAVEPOINT piece");
                continue;
            }
            batch.signals.borrow_mut().truncate(signals_before);
            if !alone {
                // The savepoint itself stays and serves the next piece.
                backend.script("ROLLBACK TO SAVEPOINT piece")?;
            }
            step = None;
        }
        Ok(any_kept)
    }

    /// Adds what belongs to the commit as a whole, and returns the signals that go with it.
    fn seal(&self, backend: &dyn Backend, batch: &Batch) -> Result<Vec<Signal>, StoreError> {
        const STORE: &str = "UPDATE workspace SET sequence = :sequence WHERE id = 1";
        if let Some(sequence) = batch.sequence.get().filter(|_| batch.moved.get())
            && backend.execute(STORE, &[("sequence", &sequence)])? != 1
        {
            return Err(StoreError::NoRow { sql: STORE });
        }
        let signals = signals::distinct(batch.signals.take());
        self.connection.announce(&signals)?;
        self.hooks.before_commit();
        Ok(signals)
    }

    fn commit(&self, done: Vec<Box<dyn WritePiece>>, signals: &[Signal]) {
        match self.connection.commit() {
            Commit::Kept => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                self.signals.publish(signals);
                answer_all(done, None);
            }
            Commit::Undone(error) => not_stored(done, &error),
            Commit::Unknown(error) => {
                tracing::error!(error = error.chain(), pieces = done.len(), "a commit's outcome is unknown");
                self.signals.wake_everybody();
                answer_all(done, Some(&|| Refusal::OutcomeUnknown));
            }
        }
    }
}

/// Runs one read between a begin and an end.
pub(super) fn read_once(connection: &dyn Connection, clock: &Clock, piece: ReadPiece) {
    match connection.begin_read() {
        Ok(backend) => {
            piece(Ok(&ReadTx::new(&*backend, clock.now())));
            connection.rollback();
        }
        Err(error) => piece(Err(error)),
    }
}

/// Tells the pieces of a failed batch, also those that were refused for what they had read in it.
fn not_stored(done: Vec<Box<dyn WritePiece>>, error: &StoreError) {
    let reason = error.chain();
    tracing::warn!(error = reason, pieces = done.len(), "a batch of writes was undone");
    answer_all(done, Some(&|| refusal(error, reason.clone())));
}

/// A refusal for one of several pieces that met the same error.
fn refusal(error: &StoreError, reason: String) -> Refusal {
    if error.is_passing() { Refusal::Unavailable { reason } } else { Refusal::Internal { reason } }
}

fn answer_all(pieces: Vec<Box<dyn WritePiece>>, instead: Option<&dyn Fn() -> Refusal>) {
    for mut piece in pieces {
        if let Some(refusal) = instead {
            piece.refuse(refusal());
        }
        piece.answer();
    }
}
