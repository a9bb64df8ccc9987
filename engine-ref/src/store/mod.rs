//! The engine's database: one way to read, one way to write, the same on SQLite and PostgreSQL.
//!
//! Work comes as closures that run on the store's own threads, in transactions. A write is answered after its commit is
//! durable; only then do others hear of it. SQL text stands once, in `<family>.rs`.

pub(crate) mod answers;
pub(crate) mod attachments;
mod backup;
mod bell;
pub(crate) mod blobs;
pub(crate) mod channels;
mod checkpoint;
pub(crate) mod conversations;
pub(crate) mod coordinator;
pub(crate) mod credentials;
pub(crate) mod deliveries;
mod error;
pub(crate) mod events;
pub(crate) mod executions;
pub(crate) mod groups;
pub(crate) mod hold;
pub(crate) mod instances;
pub(crate) mod keys;
pub(crate) mod messages;
mod migrate;
mod open;
mod owner;
mod piece;
#[cfg(test)]
mod plans;
pub(crate) mod policies;
#[cfg(feature = "postgres")]
mod postgres;
pub(crate) mod principals;
pub(crate) mod requests;
mod sql;
mod sqlite;
#[cfg(test)]
mod suite;
pub(crate) mod transports;
mod tx;
mod value;
mod writer;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::mpsc;

use self::bell::Keeper;
use self::piece::Command;
use crate::service::refusal::Refusal;
use crate::signals::Signals;

pub(crate) use self::error::StoreError;
pub(crate) use self::migrate::{MIGRATIONS, Migration};
pub use self::open::Attachments;
pub(crate) use self::open::{Database, Hooks, StoreConfig};
pub(crate) use self::tx::{ReadTx, WriteTx};
pub(crate) use self::value::{Row, ToValue, Value};

/// An open database; clones share it. Its threads end when it is closed, or when the last clone is gone.
#[derive(Clone, Debug)]
pub(crate) struct Store(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    writes: mpsc::Sender<Command>,
    /// Where reads go: to threads of their own, or in memory to the writer.
    reads: mpsc::Sender<Command>,
    blobs: blobs::Blobs,
    signals: Signals,
    commits: Arc<AtomicU64>,
    /// Stops what runs beside reads and writes.
    bell: Keeper,
    threads: Mutex<Threads>,
}

#[derive(Debug, Default)]
struct Threads {
    /// Readers, listener, checkpoints: they end before the writer, whose connection closes the file.
    others: Vec<JoinHandle<()>>,
    writer: Vec<JoinHandle<()>>,
}

impl Store {
    /// Runs `work` in a transaction beside which nothing else writes, and returns once it is durable.
    ///
    /// A refusal or a panic undoes all of it. `work` holds up every other write: no input or output, no waiting. Dropped before
    /// its turn, it does not run; dropped later, it goes on.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&WriteTx<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (piece, outcome) = piece::write(work);
        if self.0.writes.send(Command::Write(piece)).await.is_err() {
            return Err(StoreError::Closed.into());
        }
        outcome.await.unwrap_or(Err(Refusal::OutcomeUnknown))
    }

    /// Runs `work` on one consistent state of the database, beside the writes.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ReadTx<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (piece, outcome) = piece::read(work);
        if self.0.reads.send(Command::Read(piece)).await.is_err() {
            return Err(StoreError::Closed.into());
        }
        outcome.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    /// Where the bytes of files are.
    pub(crate) fn blobs(&self) -> &blobs::Blobs {
        &self.0.blobs
    }

    /// What commits wake, those of other processes too.
    pub(crate) fn signals(&self) -> &Signals {
        &self.0.signals
    }

    /// How many commits there were; writes that waited together share one.
    #[cfg_attr(not(test), expect(dead_code, reason = "counted for the suite; metrics will show it"))]
    pub(crate) fn commits(&self) -> u64 {
        self.0.commits.load(Ordering::Relaxed)
    }

    /// Finishes what is queued, refuses what comes later, and lets the database go. Every clone is closed.
    pub(crate) async fn close(&self) {
        let threads = std::mem::take(&mut *self.0.threads.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.bell.0.stop();
        // A closed channel means that the threads behind it have ended: that is what is wanted.
        drop(self.0.reads.send(Command::Close).await);
        join(threads.others).await;
        drop(self.0.writes.send(Command::Close).await);
        join(threads.writer).await;
    }
}

async fn join(threads: Vec<JoinHandle<()>>) {
    let joined = tokio::task::spawn_blocking(move || {
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the store had panicked");
            }
        }
    });
    // It can only fail with the runtime, which then ends anyway.
    drop(joined.await);
}

/// Proves that the database can be written: changes a row to what it is.
pub(crate) fn probe(tx: &WriteTx<'_>) -> Result<(), Refusal> {
    tx.execute("UPDATE workspace SET sequence = sequence WHERE id = 1", &[])?;
    Ok(())
}
