//! A running engine and how to start one.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use axum::serve::ListenerExt;
use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::core::{Core, PLANNER_DEADLINE, Settings};
use crate::service::coordinator::planner::Planner;
use crate::service::seal::SecretKey;
use crate::service::{cursor, setup};
use crate::store::{Attachments, Database, Hooks, MIGRATIONS, Store, StoreConfig, StoreError};
use crate::{background, http};

/// How long [`Engine::stop`] waits for calls that are under way.
const DRAIN: Duration = Duration::from_secs(10);
/// A bootstrap token has at least this many characters.
const MIN_TOKEN_CHARS: usize = 32;

/// Why an engine did not start. The text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The database can't be opened, migrated or written.
    #[error("the database can't be used: {0}")]
    Store(String),
    /// The address can't be listened on.
    #[error("can't listen on {address}")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A setting is wrong; the text names it.
    #[error("{0}")]
    Setting(String),
    /// The workspace has no owner, and [`EngineBuilder::create_owner`] forbade to make one.
    #[error("the workspace has no owner")]
    NoOwner,
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.chain())
    }
}

/// How to start an engine. Everything has a default: SQLite in memory, a free port on loopback, a fresh owner token.
#[derive(Debug)]
#[must_use = "call start"]
pub struct EngineBuilder {
    database: Database,
    address: SocketAddr,
    clock: Clock,
    migrate: bool,
    settings: Settings,
    owner_name: String,
    owner_token: Option<SecretString>,
    create_owner: bool,
    secret_key: Option<[u8; 32]>,
    hooks: Hooks,
    keep_events: Option<Duration>,
    attachments: Option<Attachments>,
}

impl EngineBuilder {
    fn new() -> Self {
        Self {
            database: Database::Memory,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            clock: Clock::system(),
            migrate: true,
            settings: Settings {
                workspace: "local".to_owned(),
                environment: "development".to_owned(),
                public_url: String::new(),
                planner: None,
                planner_deadline: PLANNER_DEADLINE,
                secret_key: SecretKey::new([0; 32]),
                cursor_key: cursor::Key::new([0; 32]),
            },
            owner_name: "Owner".to_owned(),
            owner_token: None,
            create_owner: true,
            secret_key: None,
            hooks: Hooks::default(),
            keep_events: None,
            attachments: None,
        }
    }

    /// Keeps everything in memory: gone when the engine stops.
    pub fn in_memory(mut self) -> Self {
        self.database = Database::Memory;
        self
    }

    /// Keeps everything in a SQLite file, which is made if it is not there. One engine at a time owns it.
    pub fn sqlite(mut self, path: impl Into<PathBuf>) -> Self {
        self.database = Database::Sqlite(path.into());
        self
    }

    /// Keeps everything in a schema of a PostgreSQL database; any number of engines may share it.
    #[cfg(feature = "postgres")]
    pub fn postgres(mut self, url: impl Into<String>, schema: impl Into<String>) -> Self {
        self.database = Database::Postgres { url: url.into(), schema: schema.into() };
        self
    }

    /// Whether to bring the database's schema up to date at start; on by default.
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// The address to listen on; port 0 takes a free one.
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// The workspace's name.
    pub fn workspace(mut self, name: impl Into<String>) -> Self {
        self.settings.workspace = name.into();
        self
    }

    /// The environment's name, `development` when unset.
    pub fn environment(mut self, name: impl Into<String>) -> Self {
        self.settings.environment = name.into();
        self
    }

    /// The name of the owner that a new workspace gets.
    pub fn owner_name(mut self, name: impl Into<String>) -> Self {
        self.owner_name = name.into();
        self
    }

    /// The token of the owner that a new workspace gets: at least 32 characters. A workspace that has an owner ignores it.
    pub fn owner_token(mut self, token: impl Into<String>) -> Self {
        self.owner_token = Some(SecretString::from(token.into()));
        self
    }

    /// Whether a workspace without an owner gets one; on by default. Otherwise it is refused with [`EngineError::NoOwner`].
    pub fn create_owner(mut self, create: bool) -> Self {
        self.create_owner = create;
        self
    }

    /// The secret that authenticates cursors; the same for every engine of a workspace. A fresh one when unset.
    pub fn secret_key(mut self, key: [u8; 32]) -> Self {
        self.secret_key = Some(key);
        self
    }

    /// Where the bytes of files go: by default beside a SQLite file, in a folder of its name with `.files` after it, and otherwise
    /// into the database.
    pub fn attachments(mut self, attachments: Attachments) -> Self {
        self.attachments = Some(attachments);
        self
    }

    /// The origin that callbacks and links are written with; the address it listens on when unset.
    pub fn public_url(mut self, url: impl Into<String>) -> Self {
        self.settings.public_url = url.into();
        self
    }

    /// The clock that leases, expiries and waits go by.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The Coordinator's model. Without one nothing is planned (`unavailable`).
    pub fn planner(mut self, planner: impl Planner) -> Self {
        self.settings.planner = Some(std::sync::Arc::new(planner));
        self
    }

    /// How long the Coordinator's model may take; 35 seconds when unset, less than clients wait.
    pub fn planner_deadline(mut self, deadline: Duration) -> Self {
        self.settings.planner_deadline = deadline;
        self
    }

    /// Lets events go once they are this old; unset, they are kept for ever. A reader that comes back with an older position is
    /// told so (`cursor_expired`).
    pub fn keep_events(mut self, age: Duration) -> Self {
        self.keep_events = Some(age);
        self
    }

    /// Runs on the store's writer when everything is written and nothing is committed; a test stops or kills there.
    #[cfg(feature = "testing")]
    pub fn before_commit(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.before_commit = Some(std::sync::Arc::new(hook));
        self
    }

    /// Brings the schema of the database up to date, whatever [`EngineBuilder::migrate`] says, and lets it go; returns its version.
    ///
    /// # Errors
    /// The database can't be used: locked by an engine, newer, damaged, another program's.
    pub async fn prepare_database(self) -> Result<i64, EngineError> {
        let config = StoreConfig { attachments: self.attachments, ..StoreConfig::new(self.database) };
        let store = Store::open(config, self.clock).await?;
        store.close().await;
        Ok(MIGRATIONS.last().map_or(0, |step| step.version))
    }

    /// Opens the database without serving it, and hands out the owner's token that was given, or a fresh one.
    pub(crate) async fn open(self) -> Result<(Store, SecretString), EngineError> {
        let token = checked_token(self.owner_token)?;
        if matches!(self.database, Database::Memory) {
            return Err(EngineError::Setting("a database in memory is gone with its engine: name one that is kept".to_owned()));
        }
        let config = StoreConfig { migrate: self.migrate, attachments: self.attachments, ..StoreConfig::new(self.database) };
        Ok((Store::open(config, self.clock).await?, token))
    }

    /// Opens the database, makes the owner if there is none, and starts to listen.
    ///
    /// # Errors
    /// The database can't be used (locked by another engine, newer schema, damaged, read-only), the address is taken, or a
    /// setting is wrong. Nothing is left running.
    pub async fn start(self) -> Result<Engine, EngineError> {
        let given = self.owner_token.is_some();
        let token = checked_token(self.owner_token)?;
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|_| EngineError::Setting("no random numbers for the secret key".to_owned()))?;
        let secret_key = SecretKey::new(self.secret_key.unwrap_or(key));
        let cursor_key = secret_key
            .derive("cursors")
            .map_err(|_| EngineError::Setting("the secret key has a length that can't be used".to_owned()))?;
        let mut settings = Settings { cursor_key: cursor::Key::new(cursor_key), secret_key, ..self.settings };

        let listener =
            TcpListener::bind(self.address).await.map_err(|source| EngineError::Listen { address: self.address, source })?;
        let address = listener.local_addr().map_err(|source| EngineError::Listen { address: self.address, source })?;
        if settings.public_url.is_empty() {
            settings.public_url = format!("http://{address}");
        }
        let (migrate, hooks, attachments) = (self.migrate, self.hooks, self.attachments);
        let config = StoreConfig { migrate, hooks, attachments, ..StoreConfig::new(self.database) };
        let store = Store::open(config, self.clock.clone()).await?;
        let core = Core::new(store.clone(), self.clock, settings);
        let made = if self.create_owner {
            make_owner(&store, self.owner_name, token.clone()).await
        } else {
            check_owner(&store).await.map(|()| false)
        };
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                // The lock on the file is given back before the caller can try again.
                store.close().await;
                return Err(error);
            }
        };
        if given && !made {
            tracing::warn!("the workspace has an owner already; the bootstrap token was ignored");
        }
        if core.is_on_hold().await.unwrap_or(false) {
            tracing::warn!(
                "the workspace is on hold after a restore: operators read and manage, nothing else until it is resumed"
            );
        }
        let engine = Engine::serve(core, listener, address, token, made);
        if let Some(age) = self.keep_events {
            engine.jobs.spawn(background::retention::run(engine.core.clone(), age));
        }
        Ok(engine)
    }
}

/// The token that was given, or a fresh one.
fn checked_token(given: Option<SecretString>) -> Result<SecretString, EngineError> {
    let Some(token) = given else {
        let fresh = setup::new_token().map_err(|_| EngineError::Setting("no random numbers for the owner token".to_owned()))?;
        return Ok(SecretString::from(fresh));
    };
    let text = token.expose_secret();
    if text.chars().count() < MIN_TOKEN_CHARS {
        return Err(EngineError::Setting(format!("the owner token needs at least {MIN_TOKEN_CHARS} characters")));
    }
    if text.bytes().any(|byte| !(0x21..=0x7E).contains(&byte)) {
        return Err(EngineError::Setting("the owner token may have printable ASCII without spaces only".to_owned()));
    }
    Ok(token)
}

/// Makes the owner of a new workspace; `false` when there is one.
async fn make_owner(store: &Store, name: String, token: SecretString) -> Result<bool, EngineError> {
    let made = store.write(move |tx| setup::bootstrap(tx, &name, token.expose_secret())).await;
    made.map_err(|refusal| EngineError::Store(format!("the owner can't be made: {refusal:?}")))
}

async fn check_owner(store: &Store) -> Result<(), EngineError> {
    match store.read(setup::has_owner).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(EngineError::NoOwner),
        Err(refusal) => Err(EngineError::Store(format!("the owner can't be looked up: {refusal:?}"))),
    }
}

/// A running engine. Dropped, it stops without draining; [`Engine::stop`] is the clean way.
#[derive(Debug)]
pub struct Engine {
    core: Core,
    url: String,
    address: SocketAddr,
    owner_token: SecretString,
    owner_made: bool,
    server: JoinHandle<std::io::Result<()>>,
    jobs: TaskTracker,
}

impl Engine {
    /// How to start an engine.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::new()
    }

    fn serve(core: Core, listener: TcpListener, address: SocketAddr, owner_token: SecretString, owner_made: bool) -> Self {
        let jobs = TaskTracker::new();
        background::start(&core, &jobs);
        jobs.close();
        let stopping = core.stopping().clone();
        // A small answer must not wait for the acknowledgement of the one before.
        let listener = listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection keeps Nagle's algorithm");
            }
        });
        let server =
            axum::serve(listener, http::router(core.clone())).with_graceful_shutdown(async move { stopping.cancelled().await });
        let server = tokio::spawn(server.into_future());
        Self { core, url: format!("http://{address}"), address, owner_token, owner_made, server, jobs }
    }

    /// The base URL for clients.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The owner's token, as given or made. Meaningless when the workspace had an owner before ([`Engine::owner_made`]).
    pub fn owner_token(&self) -> &str {
        self.owner_token.expose_secret()
    }

    /// Whether this start made the owner.
    pub fn owner_made(&self) -> bool {
        self.owner_made
    }

    /// A client with the owner's token.
    ///
    /// # Panics
    /// Never: the URL is this engine's own.
    #[cfg(feature = "client")]
    #[expect(clippy::expect_used, reason = "a loopback URL and a token of printable ASCII are always accepted")]
    pub fn owner(&self) -> beepgrid::Client {
        beepgrid::Client::new(&self.url, self.owner_token()).expect("a loopback URL is accepted")
    }

    /// Waits until the server ends by itself, which it does only when it fails.
    ///
    /// # Errors
    /// What the system said when listening failed.
    pub async fn failed(&mut self) -> std::io::Result<()> {
        match (&mut self.server).await {
            Ok(ended) => ended,
            Err(error) => Err(std::io::Error::other(error)),
        }
    }

    /// Stops: no new calls, polls end empty, calls under way finish, the database is closed.
    pub async fn stop(mut self) {
        self.core.stopping().cancel();
        // A server that `failed` has seen the end of is not awaited again.
        if !self.server.is_finished() && tokio::time::timeout(DRAIN, &mut self.server).await.is_err() {
            tracing::warn!("calls were still under way after {DRAIN:?}; they were cut off");
            self.server.abort();
        }
        self.jobs.wait().await;
        self.core.store().close().await;
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.core.stopping().cancel();
        self.server.abort();
    }
}
