//! A private PostgreSQL server that ends with this process, however it ends.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::postgres::NotAvailable;

const PATIENCE: Duration = Duration::from_secs(60);
const ATTEMPTS: u32 = 5;

/// Starts the server when it is told to, and ends it and its files when the pipe closes: on a clean exit, a panic and a SIGKILL
/// alike, also before the server runs.
const WATCHDOG: &str = r#"
folder=$1; shift
if read -r _; then
    "$@" </dev/null >"$folder/log" 2>&1 &
    server=$!
    while read -r _; do :; done
    kill -QUIT "$server" 2>/dev/null
    wait "$server"
fi
rm -rf "$folder"
"#;

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    url: String,
    /// Its input pipe stays open as long as this process lives.
    watchdog: Child,
}

/// The user that runs the server: PostgreSQL refuses root.
struct Account {
    uid: u32,
    gid: u32,
}

impl Server {
    pub(super) fn start() -> Result<Self, NotAvailable> {
        let programs = programs()?;
        let account = account()?;
        let mut last = NotAvailable("the server did not start".to_owned());
        for _ in 0..ATTEMPTS {
            // Somebody else may take the free port before the server does.
            match Self::start_once(&programs, account.as_ref()) {
                Ok(server) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    fn start_once(programs: &Path, account: Option<&Account>) -> Result<Self, NotAvailable> {
        let folder = tempfile::Builder::new().prefix("beepgrid-postgres-").tempdir().map_err(failed("a folder"))?;
        if let Some(account) = account {
            chown(folder.path(), Some(account.uid), Some(account.gid)).map_err(failed("a folder"))?;
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(failed("a port"))?.port();
        let data = folder.path().join("data");
        let settings = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={port}"),
            "unix_socket_directories=".to_owned(),
            // A test's data need not survive a power cut.
            "fsync=off".to_owned(),
            "max_connections=400".to_owned(),
            "shared_buffers=32MB".to_owned(),
            "log_min_messages=warning".to_owned(),
        ];
        let mut command = vec![programs.join("postgres").into_os_string(), "-D".into(), data.clone().into_os_string()];
        command.extend(settings.iter().flat_map(|setting| ["-c".into(), setting.into()]));
        let mut watchdog = Command::new("sh");
        watchdog.args(["-c", WATCHDOG, "watchdog"]).arg(folder.path()).args(as_account(account, command));
        watchdog.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A Ctrl-C meant for the tests would end the watchdog before its work.
        let watchdog = watchdog.process_group(0).spawn().map_err(failed("sh"))?;
        let url = format!("postgresql://beepgrid@127.0.0.1:{port}/postgres");
        let mut server = Self { url, watchdog };
        // From here on the watchdog removes the folder.
        let folder = folder.keep();
        initialise(programs, account, &data)?;
        let go = server.watchdog.stdin.as_mut().map(|pipe| pipe.write_all(b"go\n"));
        go.transpose().map_err(failed("sh"))?;
        server.wait_until_ready(&folder.join("log"))?;
        Ok(server)
    }

    fn wait_until_ready(&mut self, log: &Path) -> Result<(), NotAvailable> {
        let end = Instant::now() + PATIENCE;
        loop {
            // Another server on this port would not know the user.
            let Err(error) = postgres::Client::connect(&self.url, postgres::NoTls) else { return Ok(()) };
            let written = fs::read_to_string(log).unwrap_or_default();
            if Instant::now() >= end || written.contains("FATAL:  ") && !written.contains("starting up") {
                // Dropping the pipe ends the server and removes the folder.
                return Err(NotAvailable(format!("{error}; the server says: {written}")));
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

/// The folder with `initdb` and `postgres`: in the search path, or where Debian keeps them.
fn programs() -> Result<PathBuf, NotAvailable> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut versions: Vec<(u32, PathBuf)> = Vec::new();
    for entry in fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        let version = entry.file_name().to_str().and_then(|name| name.parse().ok()).unwrap_or(0);
        versions.push((version, entry.path().join("bin")));
    }
    versions.sort_unstable_by(|one, other| other.cmp(one));
    folders.extend(versions.into_iter().map(|(_, folder)| folder));
    let complete = |folder: &PathBuf| ["initdb", "postgres"].iter().all(|program| folder.join(program).is_file());
    folders.into_iter().find(complete).ok_or_else(|| NotAvailable("initdb and postgres are not installed".to_owned()))
}

/// Whom to run the server as, when this process is root.
fn account() -> Result<Option<Account>, NotAvailable> {
    let root = fs::metadata("/proc/self").or_else(|_| fs::metadata(std::env::temp_dir())).map_err(failed("the user"))?;
    if root.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").map_err(failed("/etc/passwd"))?;
    let find = |wanted: &str| {
        let fields: Vec<&str> =
            users.lines().map(|line| line.split(':').collect()).find(|fields: &Vec<&str>| fields.first() == Some(&wanted))?;
        Some(Account { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
    };
    let account = find("postgres").or_else(|| find("nobody"));
    account.map(Some).ok_or_else(|| NotAvailable("neither a user postgres nor nobody, and this is root".to_owned()))
}

/// The command itself, or the same under another user.
fn as_account(account: Option<&Account>, command: Vec<std::ffi::OsString>) -> Vec<std::ffi::OsString> {
    let Some(account) = account else { return command };
    let mut all: Vec<std::ffi::OsString> = vec![
        "setpriv".into(),
        format!("--reuid={}", account.uid).into(),
        format!("--regid={}", account.gid).into(),
        "--clear-groups".into(),
        "--".into(),
    ];
    all.extend(command);
    all
}

/// Makes the data folder; with a language's order of text where possible, because that is what servers out there have.
fn initialise(programs: &Path, account: Option<&Account>, data: &Path) -> Result<(), NotAvailable> {
    let sets: [&[&str]; 2] = [&["--locale-provider=icu", "--icu-locale=en-US", "--locale=C.UTF-8"], &["--locale=C"]];
    let mut said = String::new();
    for locale in sets {
        let mut command = vec![programs.join("initdb").into_os_string(), "-D".into(), data.as_os_str().to_owned()];
        command.extend(["-U", "beepgrid", "-A", "trust", "-E", "UTF8", "--no-sync"].map(|part| OsStr::new(part).to_owned()));
        command.extend(locale.iter().map(|part| OsStr::new(part).to_owned()));
        let command = as_account(account, command);
        let Some((program, arguments)) = command.split_first() else { continue };
        let output = Command::new(program).args(arguments).current_dir("/").output().map_err(failed("initdb"))?;
        if output.status.success() {
            return Ok(());
        }
        said = String::from_utf8_lossy(&output.stderr).into_owned();
        // It leaves nothing behind after a failure, but a wrong option is refused before it can clean up.
        drop(fs::remove_dir_all(data));
    }
    Err(NotAvailable(format!("initdb failed: {said}")))
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> NotAvailable {
    move |error| NotAvailable(format!("{what}: {error}"))
}
