//! Where settings come from, and which source wins.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::ConfigError;

/// A configuration file is text that a person wrote.
const MAX_FILE_BYTES: u64 = 1 << 20;

macro_rules! settings {
    ($($(#[$doc:meta])+ $name:ident = $variable:literal,)+) => {
        /// A setting that a file, the environment or a flag can give.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Setting { $($(#[$doc])+ $name,)+ }

        impl Setting {
            /// Every setting.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its environment variable, which is its name everywhere.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $variable,)+ }
            }
        }
    };
}

settings! {
    /// The listen address.
    Addr = "BEEPGRID_ADDR",
    /// The origin of callbacks and links.
    PublicUrl = "BEEPGRID_PUBLIC_URL",
    /// `sqlite:PATH` or `postgres://…`.
    DatabaseUrl = "BEEPGRID_DATABASE_URL",
    /// The schema in a PostgreSQL database.
    Schema = "BEEPGRID_SCHEMA",
    /// The workspace's name.
    Workspace = "BEEPGRID_WORKSPACE",
    /// The environment's name.
    Environment = "BEEPGRID_ENVIRONMENT",
    /// The token of a new workspace's owner.
    BootstrapToken = "BEEPGRID_BOOTSTRAP_TOKEN",
    /// 32 bytes in hexadecimal.
    SecretKey = "BEEPGRID_SECRET_KEY",
    /// Where file bytes go: a folder, or `database`.
    AttachmentsDir = "BEEPGRID_ATTACHMENTS_DIR",
    /// The loopback address of the metrics.
    MetricsAddr = "BEEPGRID_METRICS_ADDR",
    /// The Coordinator's provider.
    AiProvider = "BEEPGRID_AI_PROVIDER",
    /// The Coordinator's model.
    AiModel = "BEEPGRID_AI_MODEL",
    /// Where a compatible provider is.
    AiUrl = "BEEPGRID_AI_URL",
    /// The file with the provider's key.
    AiKeyFile = "BEEPGRID_AI_KEY_FILE",
    /// What is logged.
    Log = "BEEPGRID_LOG",
    /// `text` or `json`.
    LogFormat = "BEEPGRID_LOG_FORMAT",
}

impl Setting {
    /// Its name in a configuration file: `addr` for `BEEPGRID_ADDR`.
    pub fn key(self) -> String {
        self.name().trim_start_matches("BEEPGRID_").to_ascii_lowercase()
    }

    fn is_secret(self) -> bool {
        matches!(self, Self::BootstrapToken | Self::SecretKey | Self::DatabaseUrl)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable.
    Environment,
    /// A flag on the command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("not set"),
            Self::File(path) => write!(f, "in {}", path.display()),
            Self::Environment => f.write_str("in the environment"),
            Self::Flag => f.write_str("as a flag"),
        }
    }
}

/// What the command line gave.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Settings that were given as flags.
    pub settings: Vec<(Setting, String)>,
    /// `--dev`.
    pub dev: bool,
    /// `--insecure-http`.
    pub insecure_http: bool,
    /// `--migrate`.
    pub migrate: bool,
}

/// Every value that was given, from the source that wins.
pub(super) struct Sources(BTreeMap<Setting, (String, Origin)>);

impl Sources {
    pub(super) fn gather(flags: Flags, lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let mut given = match &flags.config {
            Some(path) => file(path)?,
            None => BTreeMap::new(),
        };
        for setting in Setting::ALL {
            let Some(value) = lookup(setting.name()).filter(|value| !value.is_empty()) else { continue };
            let value = value.into_string().map_err(|_| ConfigError {
                setting: setting.name(),
                origin: Origin::Environment,
                problem: "is not UTF-8".to_owned(),
            })?;
            given.insert(*setting, (value, Origin::Environment));
        }
        given.extend(flags.settings.into_iter().map(|(setting, value)| (setting, (value, Origin::Flag))));
        Ok(Self(given))
    }

    pub(super) fn is_set(&self, setting: Setting) -> bool {
        self.0.contains_key(&setting)
    }

    pub(super) fn is_flag(&self, setting: Setting) -> bool {
        self.0.get(&setting).is_some_and(|(_, origin)| *origin == Origin::Flag)
    }

    /// The checked value, if there is one.
    pub(super) fn checked<T, P: Into<String>>(
        &self,
        setting: Setting,
        check: impl FnOnce(&str) -> Result<T, P>,
    ) -> Result<Option<T>, ConfigError> {
        let Some((value, _)) = self.0.get(&setting) else { return Ok(None) };
        check(value).map(Some).map_err(|problem| self.error(setting, problem))
    }

    /// The checked value, or the checked default.
    pub(super) fn checked_or<T, P: Into<String>>(
        &self,
        setting: Setting,
        default: &str,
        check: impl FnOnce(&str) -> Result<T, P>,
    ) -> Result<T, ConfigError> {
        let value = self.0.get(&setting).map_or(default, |(value, _)| value);
        check(value).map_err(|problem| self.error(setting, problem))
    }

    pub(super) fn error(&self, setting: Setting, problem: impl Into<String>) -> ConfigError {
        let origin = self.0.get(&setting).map_or(Origin::Default, |(_, origin)| origin.clone());
        ConfigError { setting: setting.name(), origin, problem: problem.into() }
    }
}

/// Reads a configuration file: one text a setting.
fn file(path: &Path) -> Result<BTreeMap<Setting, (String, Origin)>, ConfigError> {
    let origin = Origin::File(path.to_owned());
    let refuse = |setting, problem| ConfigError { setting, origin: origin.clone(), problem };
    let (text, private) = read(path).map_err(|problem| refuse("--config", problem))?;
    // The parser's own display repeats the line, which may hold a secret.
    let table: toml::Table = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
        refuse("--config", format!("is not TOML; see line {line}"))
    })?;
    let mut given = BTreeMap::new();
    for (key, value) in table {
        let Some(setting) = Setting::ALL.iter().copied().find(|setting| setting.key() == key) else {
            return Err(refuse("--config", format!("has the unknown setting {key:?}")));
        };
        let toml::Value::String(value) = value else {
            return Err(refuse(setting.name(), format!("is written `{key} = \"…\"`, as a text")));
        };
        if setting.is_secret() && !private {
            return Err(refuse(
                setting.name(),
                "is secret, but others can read the file; make it owner-only with chmod 600".to_owned(),
            ));
        }
        if !value.is_empty() {
            given.insert(setting, (value, origin.clone()));
        }
    }
    Ok(given)
}

/// The text of a file, and whether only its owner can read it.
fn read(path: &Path) -> Result<(String, bool), String> {
    let failed = |error: std::io::Error| format!("can't be read: {error}");
    // Looked at before it is opened, because opening a pipe would wait for a writer.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err("is not a file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(failed)?;
    let private = is_private(&file).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err("is larger than 1 MiB".to_owned());
    }
    String::from_utf8(bytes).map(|text| (text, private)).map_err(|_| "is not UTF-8".to_owned())
}

#[cfg(unix)]
fn is_private(file: &std::fs::File) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    const OTHERS: u32 = 0o077;
    Ok(file.metadata()?.mode() & OTHERS == 0)
}

/// Elsewhere access lists decide, and the profile folder is private by default.
#[cfg(not(unix))]
fn is_private(_file: &std::fs::File) -> std::io::Result<bool> {
    Ok(true)
}
