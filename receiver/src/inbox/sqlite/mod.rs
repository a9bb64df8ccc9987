//! The durable inbox: one SQLite file in a private folder, owned by one process.
//!
//! All SQLite calls run on a thread of the inbox's own. Here: opening, the thread, and the trait. Ownership and file modes are in
//! `ownership.rs`, the schema in `schema.rs`, the SQL in `rows.rs`.

mod ownership;
mod rows;
mod schema;
mod tally;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beepgrid::{ConversationId, DeliveryId, Timestamp};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use self::ownership::Ownership;
use self::tally::Tally;
use super::{Applied, Counts, InboxError, InboxErrorKind, InboxStore, OpenInput, PutReport, StateChange};
use crate::input::{LiveInput, Resolution, StoredInput};
use crate::mutants::{self, Mutant};

/// Before this version of SQLite a rare race could damage a database in WAL mode.
const OLDEST_SAFE_SQLITE: i32 = 3_051_003;
/// How long a write waits for another program that holds the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Jobs that may wait for the thread; there are three callers.
const JOBS: usize = 16;
/// Rows that one pruning transaction removes.
const PRUNE_STEP: i64 = 1_000;

/// An inbox in a folder on disk.
///
/// The folder is made (or, while it is empty, changed) to mode 0700 and the files in it to 0600; a folder with content or a file that
/// others may read is refused. One
/// process owns it at a time, by a lock of the operating system that ends with the process, however it ends. Dropping the inbox waits for the
/// call in progress and gives up ownership; [`InboxStore::close`] does the same without blocking.
pub struct SqliteInbox {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
    folder: PathBuf,
}

type Job = Box<dyn FnOnce(&mut Option<Disk>) + Send>;

/// How to open a [`SqliteInbox`].
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    folder: PathBuf,
    busy_timeout: Duration,
    max_pages: Option<u32>,
}

impl SqliteOptions {
    /// How long a write waits for another program (a backup, say) that holds the database; 10 seconds by default.
    #[must_use]
    pub fn busy_timeout(mut self, wait: Duration) -> Self {
        self.busy_timeout = wait;
        self
    }

    /// Lets the file grow to so many pages only, to play a full disk.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn max_pages(mut self, pages: u32) -> Self {
        self.max_pages = Some(pages);
        self
    }

    /// Opens the inbox, making it if it does not exist.
    ///
    /// # Errors
    /// `InUse`, `NotPrivate`, `Newer`, `Corrupt`, `Full`; nothing is changed then.
    pub async fn open(self) -> Result<SqliteInbox, InboxError> {
        let (opened, open) = oneshot::channel();
        let (sender, mut receiver) = mpsc::channel::<Job>(JOBS);
        let folder = self.folder.clone();
        #[cfg(feature = "testing")]
        let planted = mutants::planted();
        let thread = std::thread::Builder::new().name("beepgrid-inbox".to_owned()).spawn(move || {
            #[cfg(feature = "testing")]
            mutants::plant(planted);
            let mut disk = match Disk::open(&self) {
                Ok(disk) => Some(disk),
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            if opened.send(Ok(())).is_err() {
                return;
            }
            while let Some(job) = receiver.blocking_recv() {
                job(&mut disk);
            }
        });
        let thread = thread.map_err(|e| InboxError::new(InboxErrorKind::Storage, "starting the inbox thread").because(e))?;
        // The thread always answers, unless it panicked; then there is no inbox.
        open.await.unwrap_or_else(|_| Err(InboxError::new(InboxErrorKind::Closed, "opening")))?;
        Ok(SqliteInbox { jobs: Some(sender), thread: Some(thread), folder })
    }
}

impl SqliteInbox {
    /// How to open the inbox in `folder`.
    pub fn options(folder: impl AsRef<Path>) -> SqliteOptions {
        SqliteOptions { folder: folder.as_ref().to_owned(), busy_timeout: BUSY_TIMEOUT, max_pages: None }
    }

    /// Opens the inbox in `folder`, making it if it does not exist.
    ///
    /// # Errors
    /// See [`SqliteOptions::open`].
    pub async fn open(folder: impl AsRef<Path>) -> Result<Self, InboxError> {
        Self::options(folder).open().await
    }

    async fn run<T: Send + 'static>(
        &self,
        doing: &'static str,
        job: impl FnOnce(&mut Disk) -> Result<T, InboxError> + Send + 'static,
    ) -> Result<T, InboxError> {
        let closed = || InboxError::new(InboxErrorKind::Closed, doing);
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |disk| {
            let result = match disk {
                Some(disk) => job(disk),
                None => Err(InboxError::new(InboxErrorKind::Closed, doing)),
            };
            // Nobody waits any more if the caller was cancelled; the work is done all the same.
            let _ = answer.send(result);
        });
        let jobs = self.jobs.as_ref().ok_or_else(closed)?;
        jobs.send(job).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }
}

impl Drop for SqliteInbox {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was reported to its caller as `Closed`.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for SqliteInbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteInbox").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// What the thread owns. Fields drop in order: the connection goes before the locks.
struct Disk {
    connection: Connection,
    ownership: Ownership,
    counts: Counts,
}

impl Disk {
    fn open(options: &SqliteOptions) -> Result<Self, InboxError> {
        if rusqlite::version_number() < OLDEST_SAFE_SQLITE {
            let found = rusqlite::version();
            return Err(InboxError::new(InboxErrorKind::Storage, format!("SQLite {found} is too old, 3.51.3 is needed")));
        }
        let mut ownership = Ownership::take(&options.folder)?;
        let file = ownership.database_file()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let about = file.display().to_string();
        let wrong = |error| storage(&about, error);
        let mut connection = Connection::open_with_flags(&file, flags).map_err(wrong)?;
        connection.busy_timeout(options.busy_timeout).map_err(wrong)?;
        connection.set_prepared_statement_cache_capacity(32);
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON; PRAGMA trusted_schema = OFF;",
            )
            .map_err(wrong)?;
        schema::check_and_migrate(&mut connection, &about)?;
        if let Some(pages) = options.max_pages {
            connection.pragma_update(None, "max_page_count", i64::from(pages)).map_err(wrong)?;
        }
        let counts = rows::counts(&connection).map_err(wrong)?;
        Ok(Self { connection, ownership, counts })
    }

    /// One write, all or nothing. The write lock is taken first, so that what is read inside can't be outdated by the time it is written.
    fn write<T>(
        &mut self,
        doing: &str,
        work: impl FnOnce(&Transaction<'_>, &mut Tally) -> Result<T, rusqlite::Error>,
    ) -> Result<T, InboxError> {
        self.ownership.check()?;
        let wrong = |error| storage(doing, error);
        let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(wrong)?;
        let mut tally = Tally::default();
        let done = work(&tx, &mut tally);
        if done.is_err() && mutants::on(Mutant::FailedTransactionKept) {
            tx.commit().map_err(wrong)?;
            return done.map_err(wrong);
        }
        let done = done.map_err(wrong)?;
        tx.commit().map_err(wrong)?;
        tally.apply(&mut self.counts);
        Ok(done)
    }

    fn read<T>(&self, doing: &str, work: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>) -> Result<T, InboxError> {
        work(&self.connection).map_err(|error| storage(doing, error))
    }

    fn prune(&mut self, accepted_before: Timestamp) -> Result<u32, InboxError> {
        let mut gone = 0;
        loop {
            let step = self.write("forgetting old ids", |tx, tally| rows::prune(tx, tally, accepted_before, PRUNE_STEP))?;
            gone += step;
            if i64::from(step) < PRUNE_STEP {
                break;
            }
        }
        self.write("forgetting old sessions", |tx, _| rows::prune_sessions(tx, accepted_before))?;
        // Moves scrubbed pages out of the log as well. A reader in the way is no reason to fail.
        let _ = self.read("emptying the log", |db| db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
        Ok(gone)
    }
}

/// Puts SQLite's error into our words.
fn storage(about: &str, error: rusqlite::Error) -> InboxError {
    use rusqlite::ErrorCode;
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => InboxErrorKind::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => InboxErrorKind::Busy,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => InboxErrorKind::Corrupt,
        _ => InboxErrorKind::Storage,
    };
    InboxError::new(kind, about).because(error)
}

impl InboxStore for SqliteInbox {
    async fn put(&self, batch: Vec<LiveInput>, now: Timestamp) -> Result<PutReport, InboxError> {
        self.run("storing a batch", move |disk| disk.write("storing a batch", |tx, tally| rows::put(tx, tally, &batch, now)))
            .await
    }

    async fn unacked(&self, limit: u32) -> Result<Vec<(DeliveryId, i64)>, InboxError> {
        self.run("reading leases", move |disk| disk.read("reading leases", |db| rows::unacked(db, limit))).await
    }

    async fn mark_acked(&self, leases: Vec<(DeliveryId, i64)>) -> Result<(), InboxError> {
        self.run("noting acks", move |disk| disk.write("noting acks", |tx, _| rows::mark_acked(tx, &leases))).await
    }

    async fn pending(&self, limit: u32) -> Result<Vec<StoredInput>, InboxError> {
        self.run("reading inputs", move |disk| disk.read("reading inputs", |db| rows::pending(db, limit))).await
    }

    async fn open(&self) -> Result<Vec<OpenInput>, InboxError> {
        self.run("reading open inputs", move |disk| disk.read("reading open inputs", rows::open)).await
    }

    async fn set_state(&self, changes: Vec<StateChange>, now: Timestamp) -> Result<Vec<Applied>, InboxError> {
        self.run("changing states", move |disk| {
            disk.write("changing states", |tx, tally| rows::set_state(tx, tally, &changes, now))
        })
        .await
    }

    async fn get(&self, id: DeliveryId) -> Result<Option<StoredInput>, InboxError> {
        self.run("reading an input", move |disk| disk.read("reading an input", |db| rows::get(db, &id))).await
    }

    async fn held(&self, limit: u32) -> Result<Vec<StoredInput>, InboxError> {
        self.run("reading held inputs", move |disk| disk.read("reading held inputs", |db| rows::held(db, limit))).await
    }

    async fn resolve(&self, id: DeliveryId, resolution: Resolution, now: Timestamp) -> Result<(), InboxError> {
        self.run("resolving an input", move |disk| {
            let found = disk.write("resolving an input", |tx, tally| rows::resolve(tx, tally, &id, resolution, now))?;
            match found {
                rows::Found::Resolved => Ok(()),
                rows::Found::Nothing => Err(InboxError::new(InboxErrorKind::NotFound, id.as_str())),
                rows::Found::NotHeld => Err(InboxError::new(InboxErrorKind::NotHeld, id.as_str())),
            }
        })
        .await
    }

    async fn remember_session(
        &self,
        conversation: ConversationId,
        session: String,
        now: Timestamp,
    ) -> Result<String, InboxError> {
        self.run("remembering a session", move |disk| {
            disk.write("remembering a session", |tx, _| rows::remember_session(tx, &conversation, &session, now))
        })
        .await
    }

    async fn counts(&self) -> Result<Counts, InboxError> {
        self.run("counting", move |disk| {
            disk.ownership.check()?;
            Ok(disk.counts)
        })
        .await
    }

    async fn prune(&self, accepted_before: Timestamp) -> Result<u32, InboxError> {
        self.run("forgetting old ids", move |disk| disk.prune(accepted_before)).await
    }

    async fn close(&self) -> Result<(), InboxError> {
        let Some(jobs) = &self.jobs else { return Ok(()) };
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |disk| {
            drop(disk.take());
            let _ = answer.send(());
        });
        // Closed already is closed.
        if jobs.send(job).await.is_ok() {
            let _ = answered.await;
        }
        Ok(())
    }
}
