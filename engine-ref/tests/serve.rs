//! `beepgrid serve` from outside: the built program, real files, real signals.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests: whatever fails here should stop the test on the spot"
)]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use beepgrid::{Client, EnrollInput, ErrorCode, ErrorKind, ExposeSecret as _, InboxInput};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const BOOTSTRAP: &str = "bootstrap-token-of-more-than-32-characters";

/// The program in a folder of its own, with nothing of this process's environment but the search path.
fn beepgrid(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_beepgrid"));
    command.args(arguments).current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    // A free port, unless the test says otherwise.
    command.env("BEEPGRID_ADDR", "127.0.0.1:0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

fn production(folder: &Path) -> Command {
    let mut command = beepgrid(folder, &["serve"]);
    command.env("BEEPGRID_SECRET_KEY", KEY);
    command
}

/// Runs a command that ends by itself.
async fn finished(mut command: Command) -> Output {
    tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").expect("it starts")
}

/// The exit code, and the error that stands as one line of JSON on standard error.
fn failure(output: &Output) -> (i32, String, String) {
    let said = String::from_utf8_lossy(&output.stderr);
    let error = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()).next_back();
    let error = error.unwrap_or_else(|| panic!("no JSON in {said}"));
    let text = |name: &str| error[name].as_str().expect("a text").to_owned();
    assert!(output.stdout.is_empty(), "a failure prints no result");
    (output.status.code().expect("an exit code"), text("code"), text("message"))
}

/// A program that serves.
struct Serving {
    child: Child,
    url: String,
    output: Lines<BufReader<ChildStdout>>,
}

impl Serving {
    async fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let first = tokio::time::timeout(PATIENCE, output.next_line()).await.expect("it says something").expect("a line");
        let Some(first) = first else { panic!("{:?}", child.wait_with_output().await) };
        let url = first.rsplit(' ').next().expect("a word").to_owned();
        Self { child, url, output }
    }

    async fn dev(folder: &Path) -> Self {
        Self::start(beepgrid(folder, &["serve", "--dev"])).await
    }

    /// Sends SIGTERM; gives what was printed after the first line, what was logged, and how it ended.
    async fn stop(mut self) -> (Vec<String>, String, ExitStatus) {
        let id = self.child.id().expect("it runs").to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().await.expect("kill").success());
        let mut printed = Vec::new();
        while let Some(line) = self.output.next_line().await.expect("a line") {
            printed.push(line);
        }
        let ended = tokio::time::timeout(PATIENCE, self.child.wait_with_output()).await.expect("it ends").expect("its output");
        (printed, String::from_utf8(ended.stderr).expect("UTF-8"), ended.status)
    }

    /// The status of a plain GET.
    async fn get(&self, path: &str) -> u16 {
        let address = self.url.strip_prefix("http://").expect("a URL");
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered");
        answer.split(' ').nth(1).expect("a status").parse().expect("a number")
    }

    fn client(&self, token: &str) -> Client {
        Client::new(&self.url, token.to_owned()).expect("a client")
    }
}

fn token(folder: &Path) -> String {
    let token = beepgrid::read_token(folder.join(".local/owner-token")).expect("a token file");
    token.expose_secret().to_owned()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o777
}

fn new_folder() -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().to_owned();
    (folder, path)
}

#[tokio::test]
async fn a_fresh_development_start_answers_and_keeps_its_files_private() {
    let (_kept, folder) = new_folder();
    let serving = Serving::dev(&folder).await;
    assert_eq!(serving.get("/healthz").await, 200);
    assert_eq!(serving.get("/readyz").await, 200);
    let me = serving.client(&token(&folder)).me().await.expect("the owner");
    assert!(me.operator);
    let local = folder.join(".local");
    assert_eq!(mode(&local), 0o700);
    for file in fs::read_dir(&local).expect("the folder") {
        let path = file.expect("a file").path();
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), wanted, "{}", path.display());
    }
    let (printed, logged, status) = serving.stop().await;
    assert!(status.success(), "{logged}");
    let printed = printed.join("\n");
    let file = fs::canonicalize(local.join("owner-token")).expect("the token file");
    assert!(printed.contains(file.to_str().expect("a path")), "{printed}");
    assert_eq!(printed.matches("export BEEPGRID_").count(), 2, "{printed}");
    for secret in [token(&folder), fs::read_to_string(local.join("secret-key")).expect("a key").trim().to_owned()] {
        assert_eq!(secret.len(), 64);
        assert!(!printed.contains(&secret) && !logged.contains(&secret), "a secret is shown");
    }
}

#[tokio::test]
async fn sigterm_ends_a_waiting_poll_and_exits_cleanly() {
    let (_kept, folder) = new_folder();
    let serving = Serving::dev(&folder).await;
    let owner = serving.client(&token(&folder));
    let session = owner.enroll(EnrollInput::new("agent/poller", "Poller")).await.expect("enrolled");
    let worker = serving.client(&session.token);
    let waits = |wait_ms| worker.inbox(InboxInput::new().wait_ms(wait_ms));
    let waiting = || {
        let worker = worker.clone();
        tokio::spawn(async move {
            loop {
                match worker.inbox(InboxInput::new().wait_ms(15_000)).await {
                    // The fifth poll below had the place.
                    Err(error) if error.code() == Some(&ErrorCode::RateLimited) => {}
                    ended => return ended,
                }
            }
        })
    };
    let polls = [waiting(), waiting(), waiting(), waiting()];
    // An instance may hold four polls: once a fifth is refused, they are there.
    tokio::time::timeout(PATIENCE, async { while waits(200).await.is_ok() {} }).await.expect("the polls are held");
    let began = tokio::time::Instant::now();
    let (_, logged, status) = serving.stop().await;
    assert_eq!(status.code(), Some(0), "{logged}");
    assert!(began.elapsed() < Duration::from_secs(9), "it waited for the polls");
    for poll in polls {
        assert_eq!(poll.await.expect("it ends").expect("an answer"), []);
    }
}

#[tokio::test]
async fn a_second_engine_on_the_same_file_is_refused() {
    let (_kept, folder) = new_folder();
    let serving = Serving::dev(&folder).await;
    let (exit, code, message) = failure(&finished(beepgrid(&folder, &["serve", "--dev"])).await);
    assert_eq!((exit, code.as_str()), (1, "store"));
    assert!(message.contains("another engine"), "{message}");
    assert_eq!(serving.get("/readyz").await, 200);
    assert!(serving.stop().await.2.success());
}

#[tokio::test]
async fn after_a_kill_the_owners_token_still_works() {
    let (_kept, folder) = new_folder();
    let mut serving = Serving::dev(&folder).await;
    let owner = serving.client(&token(&folder)).me().await.expect("the owner");
    let before = token(&folder);
    serving.child.kill().await.expect("killed");
    let serving = Serving::dev(&folder).await;
    assert_eq!(token(&folder), before, "nothing was overwritten");
    let again = serving.client(&before).me().await.expect("the owner");
    assert_eq!((again.id(), &again.credential.id), (owner.id(), &owner.credential.id));
    let (printed, logged, _) = serving.stop().await;
    assert!(printed.iter().any(|line| line.starts_with("Owner token found")), "{printed:?}");
    assert!(!logged.contains("ignored"), "{logged}");
}

#[tokio::test]
async fn a_token_or_key_file_that_others_read_is_refused() {
    let (_kept, folder) = new_folder();
    assert!(Serving::dev(&folder).await.stop().await.2.success());
    for name in ["owner-token", "secret-key"] {
        let file = folder.join(".local").join(name);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("opened up");
        let (exit, code, message) = failure(&finished(beepgrid(&folder, &["serve", "--dev"])).await);
        assert_eq!((exit, code.as_str()), (2, "invalid_setting"));
        assert!(message.contains(name), "{message}");
        let content = fs::read_to_string(&file).expect("the file");
        assert!(!message.contains(content.trim()), "the content is shown");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("closed again");
    }
    let key = folder.join(".local/secret-key");
    fs::write(&key, "not a key\n").expect("written");
    assert_eq!(failure(&finished(beepgrid(&folder, &["serve", "--dev"])).await).0, 2);
    assert_eq!(fs::read_to_string(&key).expect("the file").trim(), "not a key");
}

#[tokio::test]
async fn a_token_file_of_another_workspace_is_told_and_left_alone() {
    let (_kept, folder) = new_folder();
    let serving = Serving::dev(&folder).await;
    let good = token(&folder);
    serving.stop().await;
    let file = folder.join(".local/owner-token");
    fs::write(&file, format!("{}\n", "x".repeat(64))).expect("written");
    let (printed, _, status) = Serving::dev(&folder).await.stop().await;
    assert!(status.success() && !printed.iter().any(|line| line.contains("export")), "{printed:?}");
    fs::remove_file(&file).expect("removed");
    let serving = Serving::dev(&folder).await;
    serving.client(&good).me().await.expect("the owner is the same");
    serving.stop().await;
    assert!(!file.exists(), "a token that is no owner's was made");
}

#[tokio::test]
async fn bad_settings_are_named() {
    let (_kept, folder) = new_folder();
    for (name, value) in [
        ("BEEPGRID_ADDR", "nowhere"),
        ("BEEPGRID_ADDR", "0.0.0.0:0"),
        ("BEEPGRID_DATABASE_URL", "mysql://db"),
        ("BEEPGRID_SECRET_KEY", "not-hexadecimal"),
        ("BEEPGRID_BOOTSTRAP_TOKEN", "hunter2-is-short"),
        ("BEEPGRID_METRICS_ADDR", "0.0.0.0:1"),
    ] {
        let mut command = production(&folder);
        command.env(name, value);
        let (exit, code, message) = failure(&finished(command).await);
        assert_eq!((exit, code.as_str()), (2, "invalid_setting"), "{name}");
        assert!(message.contains(name) && !message.contains("hunter2") && !message.contains("not-hex"), "{message}");
    }
    let mut command = beepgrid(&folder, &["serve", "--dev"]);
    command.env("BEEPGRID_ADDR", "0.0.0.0:0").env("BEEPGRID_PUBLIC_URL", "https://example.com");
    assert_eq!(failure(&finished(command).await).0, 2);
    for arguments in [&["serve", "--config", "no.toml"][..], &["serve", "--unknown"], &["serve", "hunter2"], &["hunter2"], &[]] {
        let (exit, _, message) = failure(&finished(beepgrid(&folder, arguments)).await);
        assert_eq!(exit, 2, "{arguments:?}");
        assert!(!message.contains("hunter2"), "{message}");
    }
    assert!(fs::read_dir(&folder).expect("the folder").next().is_none(), "nothing was made");
}

#[tokio::test]
async fn a_new_workspace_needs_a_bootstrap_token_once() {
    let (_kept, folder) = new_folder();
    let (exit, _, message) = failure(&finished(production(&folder)).await);
    assert_eq!(exit, 2);
    assert!(message.contains("BEEPGRID_BOOTSTRAP_TOKEN"), "{message}");
    let mut command = production(&folder);
    command.env("BEEPGRID_BOOTSTRAP_TOKEN", BOOTSTRAP);
    let serving = Serving::start(command).await;
    assert!(serving.client(BOOTSTRAP).me().await.expect("the owner").operator);
    serving.stop().await;
    let serving = Serving::start(production(&folder)).await;
    serving.client(BOOTSTRAP).me().await.expect("the owner, without the variable");
    serving.stop().await;
    let mut command = production(&folder);
    let other = BOOTSTRAP.replace("bootstrap", "different");
    command.env("BEEPGRID_BOOTSTRAP_TOKEN", &other);
    let serving = Serving::start(command).await;
    let refused = serving.client(&other).me().await.expect_err("ignored");
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::Api, Some(&ErrorCode::Unauthorized)));
    let (printed, logged, status) = serving.stop().await;
    assert!(status.success() && printed.is_empty(), "{printed:?}");
    assert_eq!(logged.matches("bootstrap token was ignored").count(), 1, "{logged}");
    assert!(!logged.contains(&other) && !logged.contains(KEY), "a secret is logged");
    assert_eq!(mode(&folder.join(".local/beepgrid.db")), 0o600);
}

#[tokio::test]
async fn a_schema_of_a_newer_release_is_refused_and_left_alone() {
    let (_kept, folder) = new_folder();
    Serving::dev(&folder).await.stop().await;
    let file = folder.join(".local/beepgrid.db");
    let newer = "INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES (9999, 'later', 'x', 0)";
    rusqlite::Connection::open(&file).expect("the database").execute(newer, []).expect("inserted");
    let before = fs::read(&file).expect("the file");
    let (exit, code, message) = failure(&finished(beepgrid(&folder, &["serve", "--dev"])).await);
    assert_eq!((exit, code.as_str()), (1, "store"));
    assert!(message.contains("newer release"), "{message}");
    assert!(fs::read(&file).expect("the file") == before, "the database was changed");
}

#[tokio::test]
async fn an_address_in_use_is_a_clear_failure() {
    let (_kept, folder) = new_folder();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let mut command = beepgrid(&folder, &["serve", "--dev"]);
    command.env("BEEPGRID_ADDR", &address);
    let (exit, code, message) = failure(&finished(command).await);
    assert_eq!((exit, code.as_str()), (1, "listen"));
    assert!(message.contains(&address), "{message}");
}

#[tokio::test]
async fn settings_without_effect_are_told_in_the_log() {
    let (_kept, folder) = new_folder();
    let mut command = beepgrid(&folder, &["serve", "--dev", "--no-ui", "--log-format", "json"]);
    command.env("BEEPGRID_METRICS_ADDR", "127.0.0.1:0").env("BEEPGRID_ATTACHMENTS_DIR", "files");
    let (_, logged, status) = Serving::start(command).await.stop().await;
    assert!(status.success());
    for line in logged.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|_| panic!("{line}"));
    }
    for name in ["BEEPGRID_METRICS_ADDR", "BEEPGRID_ATTACHMENTS_DIR", "--no-ui"] {
        assert_eq!(logged.matches(&format!("{name} has no effect")).count(), 1, "{logged}");
    }
}

#[tokio::test]
async fn version_and_help_are_results() {
    let (_kept, folder) = new_folder();
    for arguments in [&["version"][..], &["help"], &["help", "serve"], &["serve", "--help"], &["--help"]] {
        let output = finished(beepgrid(&folder, arguments)).await;
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{arguments:?}");
    }
    let version = finished(beepgrid(&folder, &["version"])).await;
    assert_eq!(String::from_utf8_lossy(&version.stdout).trim(), concat!("beepgrid ", env!("CARGO_PKG_VERSION")));
}

#[cfg(all(feature = "postgres", feature = "testing"))]
#[tokio::test(flavor = "multi_thread")]
async fn postgres_is_migrated_only_when_asked_for() {
    let database =
        tokio::task::spawn_blocking(beepgrid_engine_ref::testing::postgres::database_or_skip).await.expect("a database");
    let Some(database) = database else { return };
    let (_kept, folder) = new_folder();
    let settings = [
        ("BEEPGRID_DATABASE_URL", database.url()),
        ("BEEPGRID_SCHEMA", database.schema()),
        ("BEEPGRID_BOOTSTRAP_TOKEN", BOOTSTRAP),
    ];
    let mut command = production(&folder);
    command.envs(settings);
    let (exit, code, message) = failure(&finished(command).await);
    assert_eq!((exit, code.as_str()), (1, "store"));
    assert!(message.contains("migrate"), "{message}");
    let mut command = production(&folder);
    command.envs(settings).arg("--migrate");
    let serving = Serving::start(command).await;
    serving.client(BOOTSTRAP).me().await.expect("the owner");
    assert_eq!(serving.stop().await.2.code(), Some(0));
    let mut command = production(&folder);
    command.envs(settings);
    assert!(Serving::start(command).await.stop().await.2.success());
    tokio::task::spawn_blocking(move || drop(database)).await.expect("dropped");
}
