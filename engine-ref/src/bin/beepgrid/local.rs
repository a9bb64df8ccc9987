//! What `serve --dev` makes under `.local/`: a private folder, the owner's token, the secret key. Nothing there is ever overwritten.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use beepgrid::{ExposeSecret, SecretString};
use beepgrid_engine_ref::config::{ConfigError, Origin, SecretKey};

/// The folder of a development engine, in the working directory.
const FOLDER: &str = ".local";

/// How the user of a development engine gets at its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// With the token in this file.
    File {
        /// The file.
        file: PathBuf,
        /// Whether it was made just now.
        made: bool,
    },
    /// With the token that the environment or a configuration file gave.
    Environment,
    /// With a token that only they know.
    Elsewhere {
        /// Where the token would be.
        file: PathBuf,
        /// Whether there is a file, with a token that does not work.
        foreign: bool,
    },
}

/// The folder, made and checked.
#[derive(Debug)]
pub(crate) struct Local(PathBuf);

/// A secret from a file.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) secret: SecretString,
    /// Whether the file was made just now.
    pub(crate) made: bool,
}

impl Local {
    /// Makes the folder, for its owner only, if it is not there.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(FOLDER) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("can't make the folder {FOLDER}"));
            }
            _ => {}
        }
        let folder = fs::canonicalize(FOLDER).with_context(|| format!("can't open the folder {FOLDER}"))?;
        let known = fs::metadata(&folder).with_context(|| format!("can't open {}", folder.display()))?;
        if !known.is_dir() {
            return Err(refused(&folder, "is not a folder"));
        }
        // Whoever may write there can put other files in the place of ours.
        #[cfg(unix)]
        if std::os::unix::fs::MetadataExt::mode(&known) & 0o022 != 0 {
            return Err(refused(&folder, "can be written by others; make it owner-only with chmod 700"));
        }
        Ok(Self(folder))
    }

    /// Where the owner's token is.
    pub(crate) fn token_file(&self) -> PathBuf {
        self.0.join("owner-token")
    }

    /// The owner's token, if the file is there.
    pub(crate) fn find_owner_token(&self) -> anyhow::Result<Option<SecretString>> {
        find(&self.token_file())
    }

    /// The owner's token; a fresh one the first time.
    pub(crate) fn owner_token(&self) -> anyhow::Result<Kept> {
        keep(&self.token_file())
    }

    /// The secret key; a fresh one the first time.
    pub(crate) fn secret_key(&self) -> anyhow::Result<(SecretKey, bool)> {
        let file = self.0.join("secret-key");
        let kept = keep(&file)?;
        let key = SecretKey::from_hex(kept.secret.expose_secret()).map_err(|problem| refused(&file, problem))?;
        Ok((key, kept.made))
    }
}

fn find(file: &Path) -> anyhow::Result<Option<SecretString>> {
    match fs::symlink_metadata(file) {
        Ok(_) => Ok(Some(beepgrid::read_token(file).map_err(|error| unreadable(&error))?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("can't look at {}", file.display())),
    }
}

/// Reads a secret, or makes one that is not there: whole or not at all, and never over another one.
fn keep(file: &Path) -> anyhow::Result<Kept> {
    if let Some(secret) = find(file)? {
        return Ok(Kept { secret, made: false });
    }
    let secret = random()?;
    let cannot = || format!("can't make {}", file.display());
    let folder = file.parent().unwrap_or(Path::new("."));
    // Private from its first byte on, under another name until everything is on disk.
    let mut staged = tempfile::NamedTempFile::new_in(folder).with_context(cannot)?;
    staged.write_all(secret.expose_secret().as_bytes()).with_context(cannot)?;
    staged.write_all(b"\n").with_context(cannot)?;
    staged.as_file().sync_all().with_context(cannot)?;
    match staged.persist_noclobber(file) {
        Ok(_) => {}
        // Another start was faster: its secret is the one.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            let secret = find(file)?.ok_or_else(|| anyhow!("{} was there and is gone", file.display()))?;
            return Ok(Kept { secret, made: false });
        }
        Err(error) => return Err(error.error).with_context(cannot),
    }
    if cfg!(unix) {
        File::open(folder).and_then(|folder| folder.sync_all()).with_context(cannot)?;
    }
    Ok(Kept { secret, made: true })
}

/// 32 random bytes in hexadecimal.
pub(crate) fn random() -> anyhow::Result<SecretString> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|_| anyhow!("the system gives no random numbers"))?;
    Ok(bytes.iter().fold(String::with_capacity(64), |text, byte| text + &format!("{byte:02x}")).into())
}

/// The innermost cause names the file and the reason; the levels above tell of a client that is not there.
fn unreadable(error: &beepgrid::Error) -> anyhow::Error {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let problem = cause.to_string();
    ConfigError { setting: "--dev", origin: Origin::Flag, problem }.into()
}

fn refused(path: &Path, problem: &str) -> anyhow::Error {
    let problem = format!("{} {problem}", path.display());
    ConfigError { setting: "--dev", origin: Origin::Flag, problem }.into()
}
