//! The settings of an engine process: defaults, then a TOML file, then the environment, then flags; checked once.
//!
//! Every problem is found before anything is opened, and names the setting and where its value came from. Values of secrets are
//! never repeated.

mod check;
mod sources;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use secrecy::SecretString;

use self::sources::Sources;
pub use self::sources::{Flags, Origin, Setting};
pub use crate::Attachments;

/// The address that an engine listens on unless told otherwise.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:4010";
/// The origin of callbacks and links unless told otherwise.
pub const DEFAULT_PUBLIC_URL: &str = "http://localhost:4010";
/// The database unless told otherwise.
pub const DEFAULT_DATABASE_URL: &str = "sqlite:.local/beepgrid.db";
/// The schema in a PostgreSQL database unless told otherwise.
pub const DEFAULT_SCHEMA: &str = "beepgrid";
/// What is logged unless told otherwise.
pub const DEFAULT_LOG: &str = "info";

/// A setting that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} ({origin}): {problem}")]
pub struct ConfigError {
    /// The setting, by the name of its environment variable; `--config` for the file itself.
    pub setting: &'static str,
    /// Where the value came from.
    pub origin: Origin,
    /// What is wrong and what would be right.
    pub problem: String,
}

/// Settings of an engine process that fit together.
#[derive(Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Where to listen.
    pub address: SocketAddr,
    /// The origin of callbacks and links.
    pub public_url: String,
    /// Where the data is.
    pub database: DatabaseUrl,
    /// The workspace's name.
    pub workspace: String,
    /// The environment's name.
    pub environment: String,
    /// The token of the owner that a new workspace gets.
    pub bootstrap_token: Option<SecretString>,
    /// Authenticates cursors and seals secrets. Only `--dev` may do without: it keeps one in a file.
    pub secret_key: Option<SecretKey>,
    /// Where file bytes go.
    pub attachments: Option<Attachments>,
    /// Where metrics are served.
    pub metrics_address: Option<SocketAddr>,
    /// The model behind the Coordinator.
    pub coordinator: Option<Coordinator>,
    /// What is logged: directives such as `info,beepgrid_engine_ref=debug`.
    pub log: String,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Whether what is missing is made for local development.
    pub dev: bool,
    /// Whether the schema of a PostgreSQL database is brought up to date at start.
    pub migrate: bool,
    /// What was set and has no effect, with the reason.
    pub ignored: Vec<Ignored>,
}

/// Where the data is.
#[derive(Clone)]
pub enum DatabaseUrl {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A schema of a PostgreSQL database.
    Postgres {
        /// The URL; it may hold a password.
        url: SecretString,
        /// The schema.
        schema: String,
    },
}

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => f.debug_tuple("Sqlite").field(path).finish(),
            Self::Postgres { schema, .. } => f.debug_struct("Postgres").field("schema", schema).finish_non_exhaustive(),
        }
    }
}

/// 32 secret bytes that no log shows.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey([u8; 32]);

impl SecretKey {
    /// Reads 64 hexadecimal digits.
    ///
    /// # Errors
    /// What is wrong, without the text.
    pub fn from_hex(text: &str) -> Result<Self, &'static str> {
        check::secret_key(text).map(Self)
    }

    /// The bytes.
    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

/// The model behind the Coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coordinator {
    /// `deepseek`, `openai` or `compatible`.
    pub provider: String,
    /// The model's name.
    pub model: String,
    /// Where a compatible provider is.
    pub url: Option<String>,
    /// The file with the provider's key.
    pub key_file: Option<PathBuf>,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A setting that was given and has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Its name.
    pub setting: Setting,
    /// Why it has none.
    pub reason: &'static str,
}

impl Settings {
    /// Reads and checks everything. `lookup` gives the environment's variables; empty ones count as absent.
    ///
    /// # Errors
    /// The first setting that can't be used, by name.
    pub fn load(flags: Flags, lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let (dev, insecure_http, migrate) = (flags.dev, flags.insecure_http, flags.migrate);
        let sources = Sources::gather(flags, lookup)?;
        let public_url = sources.checked(Setting::PublicUrl, check::origin)?;
        let address = sources.checked_or(Setting::Addr, DEFAULT_ADDRESS, check::address)?;
        check_exposure(&sources, address, &Exposure { dev, insecure_http, public_url: public_url.as_deref() })?;
        let database = database_of(&sources)?;
        let secret_key = sources.checked(Setting::SecretKey, check::secret_key)?.map(SecretKey);
        if secret_key.is_none() && !dev {
            let problem = "is needed, except with --dev: 64 hexadecimal digits, as `openssl rand -hex 32` makes them";
            return Err(sources.error(Setting::SecretKey, problem));
        }
        let settings = Self {
            address,
            public_url: public_url.unwrap_or_else(|| DEFAULT_PUBLIC_URL.to_owned()),
            workspace: sources.checked_or(Setting::Workspace, "local", check::name)?,
            environment: sources.checked_or(Setting::Environment, "development", check::name)?,
            bootstrap_token: sources.checked(Setting::BootstrapToken, check::bootstrap_token)?,
            secret_key,
            attachments: sources.checked(Setting::AttachmentsDir, check::attachments)?,
            metrics_address: sources.checked(Setting::MetricsAddr, check::loopback)?,
            coordinator: coordinator(&sources)?,
            log: sources.checked_or(Setting::Log, DEFAULT_LOG, check::log)?,
            log_format: sources.checked_or(Setting::LogFormat, "text", check::log_format)?,
            dev,
            migrate,
            ignored: ignored(&sources, &database),
            database,
        };
        Ok(settings)
    }
}

/// Where the data is, for a command that needs no other setting.
///
/// # Errors
/// What can't be used, by name.
pub fn database(flags: Flags, lookup: impl Fn(&str) -> Option<OsString>) -> Result<DatabaseUrl, ConfigError> {
    database_of(&Sources::gather(flags, lookup)?)
}

/// What decides whether an address may be listened on.
struct Exposure<'a> {
    dev: bool,
    insecure_http: bool,
    public_url: Option<&'a str>,
}

/// Tokens travel in every call: beyond this machine only under https, or when asked for in so many words.
fn check_exposure(sources: &Sources, address: SocketAddr, exposure: &Exposure<'_>) -> Result<(), ConfigError> {
    if check::is_loopback(address) {
        return Ok(());
    }
    if exposure.dev {
        return Err(sources.error(Setting::Addr, "--dev listens on loopback addresses only"));
    }
    if exposure.insecure_http || exposure.public_url.is_some_and(|url| url.starts_with("https://")) {
        return Ok(());
    }
    let problem = "is not a loopback address: put a proxy with TLS in front and set BEEPGRID_PUBLIC_URL to its https origin, \
                   or accept plain http with --insecure-http";
    Err(sources.error(Setting::Addr, problem))
}

fn database_of(sources: &Sources) -> Result<DatabaseUrl, ConfigError> {
    let schema = sources.checked_or(Setting::Schema, DEFAULT_SCHEMA, check::schema)?;
    let database = sources.checked_or(Setting::DatabaseUrl, DEFAULT_DATABASE_URL, |url| check::database(url, schema))?;
    if matches!(&database, DatabaseUrl::Postgres { url, .. } if check::has_password(url)) && sources.is_flag(Setting::DatabaseUrl)
    {
        let problem =
            "holds a password, which other users of this machine could read: give it in the environment or in a private file";
        return Err(sources.error(Setting::DatabaseUrl, problem));
    }
    Ok(database)
}

fn coordinator(sources: &Sources) -> Result<Option<Coordinator>, ConfigError> {
    use Setting::{AiKeyFile, AiModel, AiProvider, AiUrl};
    let Some(provider) = sources.checked(AiProvider, check::provider)? else {
        let stray = [AiModel, AiUrl, AiKeyFile].into_iter().find(|setting| sources.is_set(*setting));
        return match stray {
            Some(setting) => Err(sources.error(setting, "means nothing without BEEPGRID_AI_PROVIDER")),
            None => Ok(None),
        };
    };
    let model = sources.checked(AiModel, check::name)?;
    let model = model.ok_or_else(|| sources.error(AiModel, "is needed with BEEPGRID_AI_PROVIDER"))?;
    let url = sources.checked(AiUrl, check::provider_url)?;
    let key_file = sources.checked(AiKeyFile, check::key_file)?;
    match (provider.as_str(), &url, &key_file) {
        ("compatible", None, _) => return Err(sources.error(AiUrl, "is needed with the provider `compatible`")),
        ("compatible", Some(_), _) | (_, None, Some(_)) => {}
        (_, Some(_), _) => return Err(sources.error(AiUrl, "goes only with the provider `compatible`")),
        (_, None, None) => return Err(sources.error(AiKeyFile, "is needed with this provider")),
    }
    Ok(Some(Coordinator { provider, model, url, key_file }))
}

/// Nothing that is set is silently without effect.
fn ignored(sources: &Sources, database: &DatabaseUrl) -> Vec<Ignored> {
    const LATER: &str = "this release has nothing that uses it yet";
    let later = [
        Setting::AttachmentsDir,
        Setting::MetricsAddr,
        Setting::AiProvider,
        Setting::AiModel,
        Setting::AiUrl,
        Setting::AiKeyFile,
    ];
    let mut ignored: Vec<Ignored> = later.into_iter().map(|setting| Ignored { setting, reason: LATER }).collect();
    ignored.push(Ignored {
        setting: Setting::PublicUrl,
        reason: "this release makes no callbacks and links yet; it only tells that a proxy adds https",
    });
    if matches!(database, DatabaseUrl::Sqlite(_)) {
        ignored.push(Ignored { setting: Setting::Schema, reason: "it belongs to PostgreSQL, and the database is SQLite" });
    }
    ignored.retain(|one| sources.is_set(one.setting));
    ignored
}

#[cfg(test)]
mod tests;
