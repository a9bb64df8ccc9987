//! Tokens outside the process: the environment, and token files that only their owner can read.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use crate::client::DEFAULT_URL;
use crate::error::{ConfigurationFault, Error};

const URL: &str = "BEEPGRID_URL";
const TOKEN: &str = "BEEPGRID_TOKEN";
const TOKEN_FILE: &str = "BEEPGRID_TOKEN_FILE";

/// The longest token, and the longest token file without its line end.
const MAX_TOKEN_BYTES: usize = 4096;

/// Base URL and token as the environment gives them. Empty variables count as absent.
pub(crate) fn from_environment(lookup: &impl Fn(&str) -> Option<OsString>) -> Result<(String, SecretString), Error> {
    environment(lookup).map_err(|fault| Error::configuration("from_env", fault))
}

fn environment(lookup: &impl Fn(&str) -> Option<OsString>) -> Result<(String, SecretString), ConfigurationFault> {
    let read = |name: &'static str| lookup(name).filter(|value| !value.is_empty());
    let text = |name: &'static str, value: OsString| {
        value.into_string().map_err(|_| ConfigurationFault::Environment { name, problem: "is not UTF-8" })
    };
    let url = match read(URL) {
        Some(url) => text(URL, url)?,
        None => DEFAULT_URL.to_owned(),
    };
    let file = read(TOKEN_FILE).map(PathBuf::from);
    if let Some(token) = read(TOKEN) {
        if file.is_some() {
            tracing::warn!("{TOKEN} and {TOKEN_FILE} are both set; {TOKEN} is used");
        }
        let token = text(TOKEN, token)?;
        check_token(&token).map_err(|problem| ConfigurationFault::Environment { name: TOKEN, problem })?;
        return Ok((url, token.into()));
    }
    match file {
        Some(path) => Ok((url, read_file(&path)?)),
        None => Err(ConfigurationFault::Environment { name: TOKEN, problem: "is not set, and neither is BEEPGRID_TOKEN_FILE" }),
    }
}

/// Whether this can be a bearer token: printable ASCII without spaces.
pub(crate) fn check_token(token: &str) -> Result<(), &'static str> {
    check_bytes(token.as_bytes())
}

fn check_bytes(token: &[u8]) -> Result<(), &'static str> {
    match token {
        [] => Err("is empty"),
        _ if token.len() > MAX_TOKEN_BYTES => Err("is larger than 4 KiB; this is no token"),
        [0xEF, 0xBB, 0xBF, ..] => Err("starts with a byte order mark; save it as plain ASCII"),
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => Err("is UTF-16; save it as plain ASCII"),
        _ if token.contains(&0) => Err("holds a NUL byte; save it as plain ASCII"),
        _ if token.iter().any(|byte| matches!(byte, b'\n' | b'\r')) => Err("has more than one line, or a second line end"),
        _ if token.iter().any(u8::is_ascii_whitespace) => Err("holds white space"),
        _ if !token.iter().all(u8::is_ascii_graphic) => Err("holds characters that no token has"),
        _ => Ok(()),
    }
}

/// Reads a token from a file that only its owner can read.
///
/// One line end at the end (LF or CRLF) is trimmed. Blocks while it reads, which is at most 4 KiB.
///
/// ```no_run
/// # fn example() -> Result<(), beepgrid::Error> {
/// let token = beepgrid::read_token("/run/secrets/beepgrid")?;
/// let client = beepgrid::Client::new("https://beepgrid.example", token)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration), whose source names the file and the reason and never the content:
/// not there, readable for others, a byte order mark, UTF-16, white space, several lines, empty, a NUL, more than 4 KiB.
pub fn read_token(path: impl AsRef<Path>) -> Result<SecretString, Error> {
    read_file(path.as_ref()).map_err(|fault| Error::configuration("read_token", fault))
}

fn read_file(path: &Path) -> Result<SecretString, ConfigurationFault> {
    let refuse = |problem| ConfigurationFault::TokenFile { path: path.to_owned(), problem };
    let failed = |source| ConfigurationFault::TokenFileIo { path: path.to_owned(), source };
    // Looked at before it is opened, because opening a pipe would wait for a writer.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(refuse("is not a regular file"));
    }
    let file = File::open(path).map_err(failed)?;
    if !is_private(&file).map_err(failed)? {
        return Err(refuse("can be read by others; make it owner-only with chmod 600"));
    }
    // One line end more than a token, and one byte to see that there is still more.
    let mut content = Vec::with_capacity(256);
    file.take(MAX_TOKEN_BYTES as u64 + 3).read_to_end(&mut content).map_err(failed)?;
    let token = content.strip_suffix(b"\r\n").or_else(|| content.strip_suffix(b"\n")).unwrap_or(&content);
    check_bytes(token).map_err(refuse)?;
    match std::str::from_utf8(token) {
        Ok(token) => Ok(token.into()),
        Err(_) => Err(refuse("holds characters that no token has")),
    }
}

/// Writes a token to a file that only its owner can read, in one step.
///
/// The file is 0600 from the first moment on, and a directory made for it 0700. What stood there is replaced whole, or stays if
/// anything fails: a crash loses neither token. A symbolic link is replaced, not followed. Blocks until the disk has it.
///
/// ```no_run
/// # async fn example(launcher: beepgrid::Client) -> Result<(), beepgrid::Error> {
/// use beepgrid::EnrollInput;
///
/// let session = launcher.enroll(EnrollInput::new("team/builder-7", "Builder 7")).await?;
/// beepgrid::save_token(".local/builder-7-token", session.token)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) when the file can't be written or kept private.
pub fn save_token(path: impl AsRef<Path>, token: impl Into<SecretString>) -> Result<(), Error> {
    save_file(path.as_ref(), &token.into()).map_err(|fault| Error::configuration("save_token", fault))
}

fn save_file(path: &Path, token: &SecretString) -> Result<(), ConfigurationFault> {
    check_token(token.expose_secret()).map_err(ConfigurationFault::Token)?;
    let failed = |source| ConfigurationFault::TokenFileIo { path: path.to_owned(), source };
    let Some(name) = path.file_name() else {
        return Err(ConfigurationFault::TokenFile { path: path.to_owned(), problem: "is not the path of a file" });
    };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    make_directory(directory).map_err(failed)?;
    let staged = Staged::write(directory, name, token).map_err(failed)?;
    staged.replace(path).map_err(failed)?;
    sync_directory(directory).map_err(failed)
}

/// A complete private file beside its target, removed again unless it takes the target's place.
struct Staged {
    path: PathBuf,
    placed: bool,
}

impl Staged {
    fn write(directory: &Path, name: &std::ffi::OsStr, token: &SecretString) -> io::Result<Self> {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.tmp", uuid::Uuid::now_v7().simple()));
        let path = directory.join(hidden);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        private_from_the_start(&mut options);
        let mut file = options.open(&path)?;
        let staged = Self { path, placed: false };
        make_private(&file)?;
        file.write_all(token.expose_secret().as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        Ok(staged)
    }

    fn replace(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.placed {
            // Best effort: the failure that brought us here is the one to report.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(unix)]
fn is_private(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    const OTHERS: u32 = 0o077;
    Ok(file.metadata()?.mode() & OTHERS == 0)
}

#[cfg(unix)]
fn private_from_the_start(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600);
}

/// The umask may have taken the owner's bits, and some file systems ignore modes: the result is checked, not assumed.
#[cfg(unix)]
fn make_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    if file.metadata()?.mode() & 0o777 == 0o600 {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "this file system can't keep a file private"))
}

#[cfg(unix)]
fn make_directory(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
fn is_private(_file: &File) -> io::Result<bool> {
    Ok(true) // access lists; the profile folder is private by default
}

#[cfg(not(unix))]
fn private_from_the_start(_options: &mut OpenOptions) {}

#[cfg(not(unix))]
fn make_private(_file: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn make_directory(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)
}

#[cfg(not(unix))]
fn sync_directory(_directory: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
