//! What every store must do, run on each of them. `common.rs` has the cases; the other files what only one database can show.

mod common;
mod file;
#[cfg(feature = "postgres")]
mod shared;

use std::sync::Arc;
use std::time::Duration;

use beepgrid::Timestamp;
use futures_util::FutureExt;

use super::{Database, Hooks, Migration, Store, StoreConfig, StoreError};
use crate::clock::Clock;
use crate::service::refusal::Refusal;

/// The least a store needs, and a table with a column of each type.
const STEPS: &[Migration] = &[Migration {
    version: 1,
    name: "test",
    sql: "CREATE TABLE workspace (id BIGINT PRIMARY KEY, sequence BIGINT NOT NULL);
          INSERT INTO workspace (id, sequence) VALUES (1, 0);
          -- A comment with :name and {token}; and a quote's end.
          CREATE TABLE sample (name TEXT {key} PRIMARY KEY, flag BOOLEAN, number BIGINT, body TEXT, raw {blob})",
}];

/// A limit for what is waited for: generous, because a test machine can be slow.
const LIMIT: Duration = Duration::from_secs(30);

/// Where a store of a test lives; more than one can be opened there in turn.
struct Place {
    database: Database,
    #[expect(dead_code, reason = "holds the folder or schema until the test is over")]
    keep: Box<dyn Send + Sync>,
}

impl Place {
    fn memory() -> Self {
        Self { database: Database::Memory, keep: Box::new(()) }
    }

    fn file() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { database: Database::Sqlite(folder.path().join("beepgrid.db")), keep: Box::new(folder) }
    }

    #[cfg(feature = "postgres")]
    async fn postgres() -> Option<Self> {
        let database = tokio::task::spawn_blocking(crate::testing::postgres::database_or_skip).await.unwrap()?;
        let (url, schema) = (database.url().to_owned(), database.schema().to_owned());
        Some(Self { database: Database::Postgres { url, schema }, keep: Box::new(database) })
    }

    fn is_memory(&self) -> bool {
        matches!(self.database, Database::Memory)
    }

    fn path(&self) -> &std::path::Path {
        match &self.database {
            Database::Sqlite(path) => path,
            other => panic!("not a file: {other:?}"),
        }
    }

    fn config(&self) -> StoreConfig {
        StoreConfig { migrations: STEPS, ..StoreConfig::new(self.database.clone()) }
    }

    async fn try_open(&self, change: impl FnOnce(&mut StoreConfig)) -> Result<Store, StoreError> {
        let mut config = self.config();
        change(&mut config);
        Store::open(config, Clock::manual(Timestamp::from_micros(1_000_000))).await
    }

    async fn open(&self) -> Store {
        self.try_open(|_| ()).await.unwrap()
    }

    async fn open_with_hook(&self, hook: impl Fn() + Send + Sync + 'static) -> Store {
        self.try_open(|config| config.hooks = Hooks { before_commit: Some(Arc::new(hook)) }).await.unwrap()
    }
}

/// Stores one name.
async fn put(store: &Store, name: &str) -> Result<(), Refusal> {
    let name = name.to_owned();
    store
        .write(move |tx| {
            tx.execute("INSERT INTO sample (name) VALUES (:name)", &[("name", &name)])?;
            Ok(())
        })
        .await
}

/// All stored names, in the order of the key.
async fn names(store: &Store) -> Vec<String> {
    let read = store.read(|tx| {
        let rows = tx.query("SELECT name FROM sample ORDER BY name", &[])?;
        Ok(rows.iter().map(|row| row.text("name")).collect::<Result<Vec<_>, _>>()?)
    });
    read.await.unwrap()
}

/// Waits for a state of the store.
async fn until<F: Future<Output = bool>>(mut reached: impl FnMut() -> F) {
    let waiting = async {
        while !reached().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.expect("the state is reached in time");
}

/// Occupies a store's writer until it is let go, so that writes gather behind it.
struct Gate {
    go: std::sync::mpsc::SyncSender<()>,
    held: tokio::task::JoinHandle<Result<(), Refusal>>,
}

impl Gate {
    async fn close(store: &Store) -> Self {
        let (go, wait) = std::sync::mpsc::sync_channel(1);
        let (began, running) = tokio::sync::oneshot::channel();
        let store = store.clone();
        let held = tokio::spawn(async move {
            let piece = move |_: &super::WriteTx<'_>| {
                began.send(()).unwrap();
                wait.recv_timeout(LIMIT).unwrap();
                Ok(())
            };
            store.write(piece).await
        });
        running.await.unwrap();
        Self { go, held }
    }

    async fn open(self) {
        self.go.send(()).unwrap();
        self.held.await.unwrap().unwrap();
    }
}

/// Starts writes in order, each queued before the next, and returns once all wait behind the gate.
async fn queue<T: Send + 'static>(
    writes: Vec<impl Future<Output = Result<T, Refusal>> + Send + 'static>,
) -> Vec<tokio::task::JoinHandle<Result<T, Refusal>>> {
    let mut tasks = Vec::new();
    for write in writes {
        let mut write = Box::pin(write);
        // One poll puts it into the queue: there is room for all of them.
        assert!((&mut write).now_or_never().is_none());
        tasks.push(tokio::spawn(write));
    }
    tasks
}
