//! A PostgreSQL for tests: the one that `BEEPGRID_TEST_DATABASE_URL` names, else a private server from the programs that are
//! installed here. One per test process; each test has a schema of its own. These functions block: call them outside async code
//! or in `spawn_blocking`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::server::Server;

/// An address and a schema that nobody else uses. The schema is made by whoever opens it.
#[derive(Debug)]
pub struct Database {
    url: String,
    schema: String,
    /// Whether the server outlives this process, so that the schema has to be removed.
    lasting: bool,
}

/// There is no PostgreSQL here, and why.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no PostgreSQL for tests: {0}")]
pub struct NotAvailable(pub(super) String);

impl Database {
    /// The address of the database; anybody on this machine may connect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The schema of this test.
    pub fn schema(&self) -> &str {
        &self.schema
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if !self.lasting {
            return;
        }
        let (url, sql) = (self.url.clone(), format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", self.schema));
        // The driver must not run inside async code, and a test may end in some. A schema that stays does no harm.
        let dropping = std::thread::spawn(move || {
            if let Ok(mut client) = postgres::Client::connect(&url, postgres::NoTls) {
                drop(client.batch_execute(&sql));
            }
        });
        drop(dropping.join());
    }
}

/// A database of one's own, or the reason why there is none.
pub fn try_database() -> Result<Database, NotAvailable> {
    static SERVER: OnceLock<Result<Server, NotAvailable>> = OnceLock::new();
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let random = uuid::Uuid::now_v7().simple().to_string();
    let schema = format!("test_{}_{number}", random.get(20..).unwrap_or_default());
    if let Ok(url) = std::env::var("BEEPGRID_TEST_DATABASE_URL") {
        return Ok(Database { url, schema, lasting: true });
    }
    let server = SERVER.get_or_init(Server::start).as_ref().map_err(Clone::clone)?;
    Ok(Database { url: server.url().to_owned(), schema, lasting: false })
}

/// A database of one's own.
///
/// # Panics
/// If there is no PostgreSQL here.
#[expect(clippy::panic, reason = "a test that needs it can't go on")]
pub fn database() -> Database {
    try_database().unwrap_or_else(|missing| panic!("{missing}"))
}

/// A database of one's own, or `None` where there is no PostgreSQL and the test may be left out.
///
/// # Panics
/// If there is none and `BEEPGRID_TEST_REQUIRE_POSTGRES` is `1`.
pub fn database_or_skip() -> Option<Database> {
    let required = std::env::var("BEEPGRID_TEST_REQUIRE_POSTGRES").is_ok_and(|value| value == "1");
    if required { Some(database()) } else { try_database().ok() }
}
