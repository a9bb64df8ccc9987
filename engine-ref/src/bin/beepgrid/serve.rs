//! `beepgrid serve`: settings, start, signals, a clean stop.

use std::io;
use std::path::PathBuf;

use anyhow::Context as _;
use beepgrid::{Client, ErrorCode, ExposeSecret, SecretString};
use beepgrid_engine_ref::config::{ConfigError, DatabaseUrl, Flags, LogFormat, Origin, SecretKey, Setting, Settings};
use beepgrid_engine_ref::{Engine, EngineBuilder, EngineError};
use clap::Args;
use tracing_subscriber::EnvFilter;

use crate::local::{Local, Owner};
use crate::signals::Signals;

/// The flags of `serve`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub(crate) struct ServeArguments {
    /// Read settings from a TOML file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// For local development: make what is missing under .local/ and listen on loopback only
    #[arg(long)]
    dev: bool,
    /// Listen beyond loopback without https
    #[arg(long)]
    insecure_http: bool,
    /// Bring the schema of a PostgreSQL database up to date first (SQLite does that at every start)
    #[arg(long)]
    migrate: bool,
    /// Serve no browser pages; accepted, there are none yet
    #[arg(long)]
    no_ui: bool,
    /// Address and port to listen on; port 0 takes a free one [default: 127.0.0.1:4010]
    #[arg(long, value_name = "ADDRESS")]
    addr: Option<String>,
    /// Origin of callbacks and links [default: http://localhost:4010]
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// sqlite:PATH, or postgres://… without a password [default: sqlite:.local/beepgrid.db]
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Schema in a PostgreSQL database [default: beepgrid]
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,
    /// Name of the workspace [default: local]
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// Name of the environment [default: development]
    #[arg(long, value_name = "NAME")]
    environment: Option<String>,
    /// Folder for file bytes, or `database`
    #[arg(long, value_name = "FOLDER")]
    attachments_dir: Option<String>,
    /// Loopback address of /metrics
    #[arg(long, value_name = "ADDRESS")]
    metrics_addr: Option<String>,
    /// Coordinator: deepseek, openai or compatible
    #[arg(long, value_name = "NAME")]
    ai_provider: Option<String>,
    /// Coordinator: the model
    #[arg(long, value_name = "NAME")]
    ai_model: Option<String>,
    /// Coordinator: where a compatible provider is
    #[arg(long, value_name = "URL")]
    ai_url: Option<String>,
    /// Coordinator: an owner-only file with the provider's key
    #[arg(long, value_name = "FILE")]
    ai_key_file: Option<String>,
    /// What is logged, such as warn,beepgrid_engine_ref=debug [default: info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl ServeArguments {
    fn into_flags(self) -> Flags {
        let given = [
            (Setting::Addr, self.addr),
            (Setting::PublicUrl, self.public_url),
            (Setting::DatabaseUrl, self.database_url),
            (Setting::Schema, self.schema),
            (Setting::Workspace, self.workspace),
            (Setting::Environment, self.environment),
            (Setting::AttachmentsDir, self.attachments_dir),
            (Setting::MetricsAddr, self.metrics_addr),
            (Setting::AiProvider, self.ai_provider),
            (Setting::AiModel, self.ai_model),
            (Setting::AiUrl, self.ai_url),
            (Setting::AiKeyFile, self.ai_key_file),
            (Setting::Log, self.log),
            (Setting::LogFormat, self.log_format),
        ];
        let settings = given.into_iter().filter_map(|(setting, value)| Some((setting, value?))).collect();
        Flags { config: self.config, settings, dev: self.dev, insecure_http: self.insecure_http, migrate: self.migrate }
    }
}

/// What a started engine tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) url: String,
    /// In development: how to act as the owner.
    pub(crate) owner: Option<Owner>,
}

/// Serves until a signal; `started` shows the notice once calls are answered.
pub(crate) fn run(arguments: ServeArguments, started: impl FnOnce(&Notice)) -> anyhow::Result<()> {
    let no_ui = arguments.no_ui;
    let settings = Settings::load(arguments.into_flags(), |name| std::env::var_os(name))?;
    log_to_stderr(&settings)?;
    for ignored in &settings.ignored {
        tracing::warn!("{} has no effect: {}", ignored.setting, ignored.reason);
    }
    if no_ui {
        tracing::info!("--no-ui has no effect: there are no browser pages yet");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("can't start the runtime")?;
    runtime.block_on(serve(&settings, started))
}

fn log_to_stderr(settings: &Settings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.log).context("BEEPGRID_LOG is no filter")?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let installed = match settings.log_format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    installed.map_err(|error| anyhow::anyhow!("can't log: {error}"))
}

async fn serve(settings: &Settings, started: impl FnOnce(&Notice)) -> anyhow::Result<()> {
    let mut signals = Signals::listen().context("can't listen for signals")?;
    let (mut engine, owner) = tokio::select! {
        ready = start(settings) => ready?,
        () = signals.next() => {
            tracing::info!("stopped before the engine was up");
            return Ok(());
        }
    };
    started(&Notice { url: engine.url().to_owned(), owner });
    tokio::select! {
        failed = engine.failed() => {
            return failed.context("the server ended by itself");
        }
        () = signals.next() => tracing::info!("stopping: calls under way are finished first; a second signal cuts them off"),
    }
    tokio::select! {
        () = engine.stop() => tracing::info!("stopped"),
        // What was answered is durable, so nothing is lost by this.
        () = signals.next() => tracing::warn!("stopped without waiting for the calls under way"),
    }
    Ok(())
}

async fn start(settings: &Settings) -> anyhow::Result<(Engine, Option<Owner>)> {
    if settings.dev {
        let (engine, owner) = start_for_development(settings).await?;
        return Ok((engine, Some(owner)));
    }
    let builder = builder(settings, settings.secret_key.as_ref().map(SecretKey::bytes));
    let engine = match &settings.bootstrap_token {
        Some(token) => builder.owner_token(token.expose_secret()).start().await?,
        None => builder.create_owner(false).start().await.map_err(without_owner)?,
    };
    Ok((engine, None))
}

/// Starts an engine on a machine where nothing is configured.
async fn start_for_development(settings: &Settings) -> anyhow::Result<(Engine, Owner)> {
    let local = Local::open()?;
    let key = match &settings.secret_key {
        Some(key) => key.bytes(),
        None => secret_key(&local, settings)?,
    };
    if let Some(token) = &settings.bootstrap_token {
        let engine = builder(settings, Some(key)).owner_token(token.expose_secret()).start().await?;
        return Ok((engine, Owner::Environment));
    }
    // Refused early when others can read it: it is about to be used.
    let found = local.find_owner_token()?;
    match builder(settings, Some(key)).create_owner(false).start().await {
        Ok(engine) => {
            let owner = known_owner(&engine, found, local.token_file()).await;
            Ok((engine, owner))
        }
        // The file first: a crash in between leaves a token without an owner, which the next start gives it.
        Err(EngineError::NoOwner) => {
            let kept = local.owner_token()?;
            let engine = builder(settings, Some(key)).owner_token(kept.secret.expose_secret()).start().await?;
            Ok((engine, Owner::File { file: local.token_file(), made: kept.made }))
        }
        Err(error) => Err(error.into()),
    }
}

fn secret_key(local: &Local, settings: &Settings) -> anyhow::Result<[u8; 32]> {
    let used_before = matches!(&settings.database, DatabaseUrl::Sqlite(path) if path.exists());
    let (key, made) = local.secret_key()?;
    if made && used_before {
        tracing::warn!(
            "the database is older than its secret key: cursors from before are invalid, sealed secrets must be entered again"
        );
    }
    Ok(key.bytes())
}

/// Whether the token in the file is this workspace's, found out as any client would.
async fn known_owner(engine: &Engine, token: Option<SecretString>, file: PathBuf) -> Owner {
    let Some(token) = token else { return Owner::Elsewhere { file, foreign: false } };
    let asked = match Client::new(engine.url(), token) {
        Ok(client) => client.me().await,
        Err(error) => Err(error),
    };
    match asked {
        Err(error) if error.api().is_some_and(|api| api.code == ErrorCode::Unauthorized) => {
            Owner::Elsewhere { file, foreign: true }
        }
        _ => Owner::File { file, made: false },
    }
}

fn builder(settings: &Settings, key: Option<[u8; 32]>) -> EngineBuilder {
    let mut builder = Engine::builder()
        .address(settings.address)
        .public_url(&settings.public_url)
        .workspace(&settings.workspace)
        .environment(&settings.environment);
    if let Some(key) = key {
        builder = builder.secret_key(key);
    }
    if let Some(attachments) = &settings.attachments {
        builder = builder.attachments(attachments.clone());
    }
    match &settings.database {
        // It has one user, and a copy is made first.
        DatabaseUrl::Sqlite(path) => builder.sqlite(path).migrate(true),
        DatabaseUrl::Postgres { url, schema } => postgres(builder, url, schema).migrate(settings.migrate),
    }
}

#[cfg(feature = "postgres")]
fn postgres(builder: EngineBuilder, url: &SecretString, schema: &str) -> EngineBuilder {
    builder.postgres(url.expose_secret(), schema)
}

/// Never reached: the settings refuse such a URL in this build.
#[cfg(not(feature = "postgres"))]
fn postgres(builder: EngineBuilder, _url: &SecretString, _schema: &str) -> EngineBuilder {
    builder
}

/// Names the setting that a new workspace lacks.
fn without_owner(error: EngineError) -> anyhow::Error {
    if !matches!(error, EngineError::NoOwner) {
        return error.into();
    }
    let problem = "is needed once: the workspace has no owner. Set it to a fresh secret of at least 32 characters, as \
                   `openssl rand -hex 32` makes them, and keep that: it becomes the owner's token. For local development use --dev";
    ConfigError { setting: Setting::BootstrapToken.name(), origin: Origin::Default, problem: problem.to_owned() }.into()
}
