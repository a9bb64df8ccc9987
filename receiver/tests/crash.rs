//! Real processes, killed with SIGKILL at each row of the table in the crate's documentation (field reports B04, B22 a, B28).
//!
//! Each case starts this test binary again as a child that runs a receiver, stops it at a named point, kills it, and starts another on the same inbox
//! with three more messages behind. The runtime's durable history is a file that both children append to.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![cfg(unix)]

mod support;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use beepgrid::Client;
use beepgrid_receiver::{
    BusyMode, Capabilities, Handover, HeldReason, InboxErrorKind, InboxStore, InputBinding, LiveInput, Receiver, Reconciled,
    Reporter, SqliteInbox, StoredInput, Submission,
};
use support::http::HttpEngine;
use support::{message, until};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

const FOLDER: &str = "BEEPGRID_CRASH_FOLDER";
const URL: &str = "BEEPGRID_CRASH_URL";
const BLIND: &str = "BEEPGRID_CRASH_BLIND";
const PAUSE_AT: &str = "BEEPGRID_RECEIVER_PAUSE_AT";

// The child.

/// A runtime whose durable history is a file.
struct FileRuntime {
    history: PathBuf,
    blind: bool,
}

impl InputBinding for FileRuntime {
    fn name(&self) -> &'static str {
        "file"
    }

    fn attach(&self, _reporter: Reporter) -> Capabilities {
        let mut capabilities = Capabilities::new();
        capabilities.steer = true;
        capabilities.reconcile = true;
        capabilities
    }

    async fn submit(&self, input: &LiveInput, _to: Handover) -> Submission {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.history).unwrap();
        writeln!(file, "{}", input.id).unwrap();
        file.sync_all().unwrap();
        Submission::Accepted
    }

    async fn reconcile(&self, stored: &StoredInput) -> Reconciled {
        match lines(&self.history).contains(&stored.id.to_string()) {
            _ if self.blind => Reconciled::Unknown,
            true => Reconciled::Accepted,
            false => Reconciled::Retry,
        }
    }
}

/// Not a test: what a child process runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn child_entry() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = PathBuf::from(folder);
    let client = Client::new(std::env::var(URL).unwrap(), "a-token-of-the-test").unwrap();
    let inbox = SqliteInbox::open(folder.join("inbox")).await.unwrap();
    let runtime = FileRuntime { history: folder.join("history"), blind: std::env::var(BLIND).is_ok() };
    let receiver = Receiver::builder(client, inbox, runtime)
        .mode(BusyMode::Steer)
        .reconnect(Duration::from_millis(20), Duration::from_millis(200))
        .build()
        .unwrap();
    receiver.run(CancellationToken::new()).await.unwrap();
}

// The parent.

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

struct Case {
    folder: TempDir,
    engine: HttpEngine,
    blind: bool,
}

impl Case {
    async fn new(blind: bool) -> Self {
        let engine = HttpEngine::start().await;
        for (id, conversation) in [("m1", "a"), ("m2", "a"), ("m3", "b")] {
            engine.deliver(message(id, conversation));
        }
        Self { folder: tempfile::tempdir().unwrap(), engine, blind }
    }

    fn start(&self, pause_at: Option<&str>) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child_entry", "--nocapture"])
            .env(FOLDER, self.folder.path())
            .env(URL, self.engine.url())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true);
        if self.blind {
            command.env(BLIND, "1");
        }
        if let Some(point) = pause_at {
            command.env(PAUSE_AT, point);
        }
        command.spawn().unwrap()
    }

    /// Runs a child up to a point, lets the parent look, and kills it there.
    async fn kill_at(&self, point: &str, before_the_kill: impl AsyncFn()) {
        let mut child = self.start(Some(point));
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        let reached = async {
            while let Some(line) = out.next_line().await.unwrap() {
                if line == format!("reached {point}") {
                    return;
                }
            }
            panic!("the child ended before {point}");
        };
        tokio::time::timeout(Duration::from_secs(20), reached).await.unwrap();
        before_the_kill().await;
        child.kill().await.unwrap();
    }

    /// The next process, with three more messages behind; returns when everything arrived that can.
    async fn restart(&self, expected: usize) {
        for (id, conversation) in [("m4", "a"), ("m5", "b"), ("m6", "a")] {
            self.engine.deliver(message(id, conversation));
        }
        let mut child = self.start(None);
        until("everything is acknowledged", async || self.engine.acked().len() == 6).await;
        until("everything arrived", async || self.history().len() >= expected).await;
        // Long enough for a second copy, or for what must not come, to show.
        tokio::time::sleep(Duration::from_millis(300)).await;
        child.kill().await.unwrap();
    }

    fn history(&self) -> Vec<String> {
        lines(&self.folder.path().join("history"))
    }

    async fn inbox(&self) -> SqliteInbox {
        SqliteInbox::open(self.folder.path().join("inbox")).await.unwrap()
    }

    /// All six once, each conversation in order, nothing left.
    async fn nothing_lost_or_doubled(&self) {
        let history = self.history();
        let of = |ids: &[&str]| -> Vec<String> { history.iter().filter(|id| ids.contains(&id.as_str())).cloned().collect() };
        assert_eq!(of(&["m1", "m2", "m4", "m6"]), ["m1", "m2", "m4", "m6"]);
        assert_eq!(of(&["m3", "m5"]), ["m3", "m5"]);
        assert_eq!(history.len(), 6);
        let inbox = self.inbox().await;
        assert_eq!(inbox.counts().await.unwrap().rows, 6);
        assert_eq!(inbox.held(10).await.unwrap().len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_between_store_and_ack() {
    let case = Case::new(false).await;
    case.kill_at("intake.stored", async || assert_eq!(case.engine.acked(), Vec::<String>::new())).await;
    assert_eq!(case.inbox().await.counts().await.unwrap().rows, 3);
    case.restart(6).await;
    case.nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b_killed_between_ack_and_dispatch() {
    let case = Case::new(false).await;
    case.kill_at("dispatch.picked", async || until("acknowledged", async || case.engine.acked().len() == 3).await).await;
    assert_eq!(case.history(), Vec::<String>::new());
    case.restart(6).await;
    case.nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_killed_between_the_mark_and_the_runtime() {
    let case = Case::new(false).await;
    case.kill_at("dispatch.marked", async || {}).await;
    assert_eq!(case.history(), Vec::<String>::new());
    case.restart(6).await;
    case.nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d_killed_between_the_runtime_and_the_accepted_mark() {
    let case = Case::new(false).await;
    case.kill_at("dispatch.taken", async || {}).await;
    assert_eq!(case.history(), ["m1"]);
    case.restart(6).await;
    case.nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e_killed_in_the_middle_of_storing() {
    let case = Case::new(false).await;
    case.kill_at("inbox.mid_batch", async || assert_eq!(case.engine.acked(), Vec::<String>::new())).await;
    assert_eq!(case.inbox().await.counts().await.unwrap().rows, 0, "all of it or nothing");
    case.restart(6).await;
    assert!(case.engine.generation("m1") > 1, "the engine handed it out again");
    case.nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_and_d_with_a_runtime_that_cannot_tell_are_held_and_shown() {
    for (point, history) in [("dispatch.marked", vec!["m3", "m5"]), ("dispatch.taken", vec!["m1", "m3", "m5"])] {
        let case = Case::new(true).await;
        case.kill_at(point, async || {}).await;
        case.restart(history.len()).await;
        assert_eq!(case.history(), history, "{point}: never replayed, its conversation waits, the other goes on");
        let held = case.inbox().await.held(10).await.unwrap();
        assert_eq!((held.len(), held[0].id.as_str()), (1, "m1"));
        assert_eq!(held[0].held.as_ref().unwrap().reason, HeldReason::Undecided);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_receiver_keeps_others_out_and_a_killed_one_does_not() {
    let case = Case::new(false).await;
    let mut child = case.start(None);
    until("the child delivers", async || case.history().len() == 3).await;
    let refused = SqliteInbox::open(case.folder.path().join("inbox")).await.unwrap_err();
    assert_eq!(refused.kind(), InboxErrorKind::InUse);
    child.kill().await.unwrap();
    assert_eq!(case.inbox().await.counts().await.unwrap().rows, 3);
}
