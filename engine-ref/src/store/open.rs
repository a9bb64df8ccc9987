//! Opening a store: which database, its schema, and its threads.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use super::bell::Keeper;
use super::blobs::Blobs;
use super::migrate::Runner;
use super::owner::Owner;
use super::piece::{Command, ReadPiece};
use super::sqlite::Sqlite;
use super::writer::{Connection, Writer, read_once};
use super::{MIGRATIONS, Migration, Shared, Store, StoreError, Threads, backup, checkpoint, sqlite};
use crate::clock::Clock;
use crate::signals::Signals;

/// Writes and reads that wait at most; more callers wait for a place.
pub(super) const QUEUE: usize = 256;
const SQLITE_READERS: usize = 2;
#[cfg(feature = "postgres")]
pub(super) const POSTGRES_READERS: usize = 4;

/// Where the data is.
#[derive(Clone, Debug)]
pub(crate) enum Database {
    /// In memory, for this store only.
    Memory,
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A schema of a PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres { url: String, schema: String },
}

/// Where the bytes of files go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachments {
    /// Into the database: what PostgreSQL and a database in memory do by themselves.
    Database,
    /// Into files of this folder. The default of a SQLite file is the folder of its name with `.files` after it.
    ///
    /// Engines that share a database need one folder that they all reach.
    Folder(PathBuf),
}

/// How to open a store.
#[derive(Clone, Debug)]
pub(crate) struct StoreConfig {
    pub(crate) database: Database,
    /// Whether to bring the schema up to date; otherwise an old one is an error.
    pub(crate) migrate: bool,
    pub(crate) migrations: &'static [Migration],
    pub(crate) hooks: Hooks,
    /// Where the bytes of files go; `None` for what suits the database.
    pub(crate) attachments: Option<Attachments>,
}

impl StoreConfig {
    /// A database that is brought up to date when it is opened.
    pub(crate) fn new(database: Database) -> Self {
        Self { database, migrate: true, migrations: MIGRATIONS, hooks: Hooks::default(), attachments: None }
    }
}

/// Places where a test can look or wait.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    /// Runs on the writer's thread when everything is written but nothing committed.
    pub(crate) before_commit: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Hooks {
    pub(super) fn before_commit(&self) {
        if let Some(hook) = &self.before_commit {
            hook();
        }
    }
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").field("before_commit", &self.before_commit.is_some()).finish()
    }
}

impl Store {
    /// Opens a database, brings its schema up to date and starts the threads. Fails if it can't be used as it is.
    pub(crate) async fn open(config: StoreConfig, clock: Clock) -> Result<Self, StoreError> {
        let (writes, write_queue) = mpsc::channel(QUEUE);
        let opening = Opening {
            clock,
            signals: Signals::default(),
            commits: Arc::default(),
            bell: Keeper::default(),
            threads: Threads::default(),
            config,
        };
        match opening.config.database.clone() {
            Database::Memory => opening.in_memory(writes, write_queue).await,
            Database::Sqlite(path) => opening.sqlite(path, writes, write_queue).await,
            #[cfg(feature = "postgres")]
            Database::Postgres { url, schema } => opening.postgres(&url, &schema, writes, write_queue).await,
        }
    }
}

/// A store in the making. Dropped half-way, its threads end.
pub(super) struct Opening {
    pub(super) config: StoreConfig,
    pub(super) clock: Clock,
    pub(super) signals: Signals,
    pub(super) commits: Arc<AtomicU64>,
    pub(super) bell: Keeper,
    pub(super) threads: Threads,
}

type Writes = mpsc::Sender<Command>;
type Queue = mpsc::Receiver<Command>;

impl Opening {
    async fn in_memory(mut self, writes: Writes, queue: Queue) -> Result<Store, StoreError> {
        let (config, clock) = (self.config.clone(), self.clock.clone());
        self.writer(queue, move || {
            let connection = Sqlite::in_memory()?;
            migrate_sqlite(&connection, &config, &clock, None)?;
            Ok(Box::new(connection))
        })
        .await?;
        let reads = writes.clone();
        let blobs = self.blobs(None)?;
        Ok(self.finish(writes, reads, blobs))
    }

    async fn sqlite(mut self, path: PathBuf, writes: Writes, queue: Queue) -> Result<Store, StoreError> {
        let (taken, owner) = oneshot::channel();
        let (config, clock, bell) = (self.config.clone(), self.clock.clone(), self.bell.0.clone());
        self.writer(queue, move || {
            let owner = Arc::new(Owner::take(&path)?);
            let connection = Sqlite::writer(&owner, bell)?;
            migrate_sqlite(&connection, &config, &clock, Some(&owner))?;
            drop(taken.send(owner));
            Ok(Box::new(connection))
        })
        .await?;
        let owner = owner.await.map_err(|_| StoreError::Closed)?;
        let blobs = self.blobs(Some(owner.database()))?;
        let (reads, read_queue) = mpsc::channel(QUEUE);
        let reader = Arc::clone(&owner);
        self.readers(read_queue, SQLITE_READERS, move || Ok(Box::new(Sqlite::reader(&reader)?))).await?;
        let bell = self.bell.0.clone();
        let beside = start("beepgrid-checkpoint", move |ready| {
            // The owner is held until the connection is closed.
            if let Some(connection) = reported(ready, sqlite::checkpointer(&owner)) {
                checkpoint::run(&connection, &bell);
                drop(connection);
            }
            drop(owner);
        })
        .await?;
        self.threads.others.push(beside);
        Ok(self.finish(writes, reads, blobs))
    }

    /// Starts the writer thread on the connection that `open` makes there.
    pub(super) async fn writer(
        &mut self,
        queue: Queue,
        open: impl FnOnce() -> Result<Box<dyn Connection>, StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        let (clock, signals) = (self.clock.clone(), self.signals.clone());
        let extras = (Arc::clone(&self.commits), self.config.hooks.clone());
        let thread = start("beepgrid-writer", move |ready| {
            let opened = open().and_then(|connection| {
                signals.newest_event(newest_sequence(&*connection)?);
                Ok(connection)
            });
            if let Some(connection) = reported(ready, opened) {
                Writer::new(connection, clock, signals, extras).run(queue);
            }
        })
        .await?;
        self.threads.writer.push(thread);
        Ok(())
    }

    /// Starts reader threads that share one queue, each on a connection that `open` makes there.
    pub(super) async fn readers(
        &mut self,
        queue: Queue,
        count: usize,
        open: impl Fn() -> Result<Box<dyn Connection>, StoreError> + Send + Sync + Clone + 'static,
    ) -> Result<(), StoreError> {
        let queue = Arc::new(Mutex::new(queue));
        for number in 1..=count {
            let (queue, open, clock) = (Arc::clone(&queue), open.clone(), self.clock.clone());
            let thread = start(&format!("beepgrid-read-{number}"), move |ready| {
                if let Some(connection) = reported(ready, open()) {
                    serve_reads(&*connection, &clock, &queue);
                }
            })
            .await?;
            self.threads.others.push(thread);
        }
        Ok(())
    }

    /// Where the bytes of files are, for a database in this file or in none.
    pub(super) fn blobs(&self, database: Option<&Path>) -> Result<Blobs, StoreError> {
        Blobs::open(self.config.attachments.as_ref(), database)
    }

    pub(super) fn finish(self, writes: Writes, reads: Writes, blobs: Blobs) -> Store {
        let Self { signals, commits, bell, threads, .. } = self;
        Store(Arc::new(Shared { writes, reads, blobs, signals, commits, bell, threads: Mutex::new(threads) }))
    }
}

/// Where a new thread says whether it could open its connection.
pub(super) type Ready = oneshot::Sender<Result<(), StoreError>>;

/// Starts a thread and returns once it says that it is ready.
pub(super) async fn start(name: &str, body: impl FnOnce(Ready) + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    let (ready, opened) = oneshot::channel();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || body(ready));
    let thread = thread.map_err(|error| StoreError::Open(format!("can't start a thread: {error}")))?;
    opened.await.unwrap_or(Err(StoreError::Closed))?;
    Ok(thread)
}

/// Says how opening went, and goes on with what was opened.
pub(super) fn reported<T>(ready: Ready, opened: Result<T, StoreError>) -> Option<T> {
    let (opened, report) = match opened {
        Ok(opened) => (Some(opened), Ok(())),
        Err(error) => (None, Err(error)),
    };
    // Nobody waits any more: then the queue is closed too, and the thread ends by itself.
    drop(ready.send(report));
    opened
}

fn serve_reads(connection: &dyn Connection, clock: &Clock, queue: &Mutex<Queue>) {
    while let Some(piece) = next_read(queue) {
        read_once(connection, clock, piece);
    }
}

/// The next read; `None` once the queue is closed and empty.
fn next_read(queue: &Mutex<Queue>) -> Option<ReadPiece> {
    // One thread waits in the queue, the others for their turn to. None runs a read while it holds the queue.
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match queue.blocking_recv()? {
            Command::Read(piece) => return Some(piece),
            Command::Write(piece) => drop(piece),
            // Closed by whoever holds it: the others would wait for ever for one who waits for them.
            Command::Close => queue.close(),
        }
    }
}

fn newest_sequence(connection: &dyn Connection) -> Result<i64, StoreError> {
    let backend = connection.begin_read()?;
    let rows = backend.query("SELECT sequence FROM workspace WHERE id = 1", &[]);
    connection.rollback();
    rows?.first().map_or(Ok(0), |row| row.int("sequence"))
}

fn migrate_sqlite(connection: &Sqlite, config: &StoreConfig, clock: &Clock, owner: Option<&Owner>) -> Result<(), StoreError> {
    let backend = connection.backend();
    let save = |version| owner.map_or(Ok(()), |owner| backup::before(backend, owner, version));
    let steps = config.migrations;
    Runner { backend, begin: "BEGIN IMMEDIATE", backup: &save, steps, now: clock.now() }.run(config.migrate)
}
