//! Engines on each store, started in this process.

use std::path::Path;
use std::time::Duration;

use beepgrid::Timestamp;
use beepgrid_engine_ref::{Clock, Engine, EngineBuilder};
use tempfile::TempDir;

/// Where an engine keeps its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SQLite in memory.
    Sqlite,
    /// SQLite in a file.
    SqliteFile,
    /// PostgreSQL, in a schema of its own.
    Postgres,
}

/// A place for rows that outlives an engine.
#[derive(Debug)]
pub enum Place {
    /// Gone with the engine.
    Memory,
    /// A file in a folder of its own.
    File(TempDir),
    /// A database address and a schema.
    Schema(beepgrid_engine_ref::testing::postgres::Database),
}

/// A running engine, its clock, and where its rows are.
#[derive(Debug)]
pub struct Site {
    engine: Option<Engine>,
    /// The clock; manual unless the site was started with the system's.
    pub clock: Clock,
    /// Where the rows are.
    pub place: Place,
    /// The engine's address.
    pub url: String,
}

/// The owner's token of every engine here.
pub const OWNER_TOKEN: &str = "owner-token-of-the-tests-0123456789abcdef";

/// Whether that store is not to be had on this machine, so that its tests are left out.
pub async fn is_missing(kind: Kind) -> bool {
    let look = || beepgrid_engine_ref::testing::postgres::database_or_skip().is_none();
    kind == Kind::Postgres && tokio::task::spawn_blocking(look).await.expect("the look ends")
}

/// What manual clocks start at.
pub fn start_of_time() -> Timestamp {
    "2026-12-01T08:00:00Z".parse().expect("a time")
}

impl Place {
    /// A fresh place of that kind.
    pub async fn fresh(kind: Kind) -> Self {
        match kind {
            Kind::Sqlite => Self::Memory,
            Kind::SqliteFile => Self::File(TempDir::new().expect("a temporary folder")),
            Kind::Postgres => Self::Schema(tokio::task::spawn_blocking(postgres).await.expect("PostgreSQL starts")),
        }
    }

    /// The path of the database file.
    ///
    /// # Panics
    /// If it is not one.
    pub fn path(&self) -> std::path::PathBuf {
        match self {
            Self::File(dir) => dir.path().join("beepgrid.db"),
            other => panic!("not a file: {other:?}"),
        }
    }

    /// The address of the database and the schema in it.
    ///
    /// # Panics
    /// If it is not PostgreSQL.
    pub fn schema(&self) -> (String, String) {
        match self {
            Self::Schema(database) => (database.url().to_owned(), database.schema().to_owned()),
            other => panic!("not PostgreSQL: {other:?}"),
        }
    }

    /// An engine over these rows.
    pub async fn engine(&self, clock: &Clock) -> Engine {
        self.engine_with(clock, |builder| builder).await
    }

    /// Settings that name these rows and nothing else.
    pub fn builder(&self) -> EngineBuilder {
        match self {
            Self::Memory => Engine::builder().in_memory(),
            Self::File(_) => Engine::builder().sqlite(Path::new(&self.path())),
            Self::Schema(_) => {
                let (url, schema) = self.schema();
                Engine::builder().postgres(url, schema)
            }
        }
    }

    /// The same with other settings.
    pub async fn engine_with(&self, clock: &Clock, settings: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Engine {
        settings(self.builder()).clock(clock.clone()).owner_token(OWNER_TOKEN).start().await.expect("the engine starts")
    }
}

fn postgres() -> beepgrid_engine_ref::testing::postgres::Database {
    beepgrid_engine_ref::testing::postgres::database()
}

impl Site {
    /// An engine with a clock that stands still until it is moved.
    pub async fn manual(kind: Kind) -> Self {
        Self::start(Place::fresh(kind).await, Clock::manual(start_of_time())).await
    }

    /// An engine with the system's clock.
    pub async fn real(kind: Kind) -> Self {
        Self::start(Place::fresh(kind).await, Clock::system()).await
    }

    /// An engine over these rows with this clock.
    pub async fn start(place: Place, clock: Clock) -> Self {
        let engine = place.engine(&clock).await;
        Self { url: engine.url().to_owned(), engine: Some(engine), clock, place }
    }

    /// An engine with a clock that stands still, and with other settings; a further one over the same rows has them not.
    pub async fn with(kind: Kind, settings: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Self {
        let (place, clock) = (Place::fresh(kind).await, Clock::manual(start_of_time()));
        let engine = place.engine_with(&clock, settings).await;
        Self { url: engine.url().to_owned(), engine: Some(engine), clock, place }
    }

    /// An engine of another process.
    pub fn remote(url: &str) -> Self {
        Self { url: url.to_owned(), engine: None, clock: Clock::system(), place: Place::Memory }
    }

    /// A further engine over the same rows, with the same clock.
    pub async fn another(&self) -> Engine {
        self.place.engine(&self.clock).await
    }

    /// Stops the engine and starts one over the same rows.
    pub async fn restart(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.stop().await;
        }
        let engine = self.another().await;
        engine.url().clone_into(&mut self.url);
        self.engine = Some(engine);
    }

    /// Stops the engine.
    pub async fn stop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.stop().await;
        }
    }

    /// Moves the manual clock on.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// The time now, by the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
