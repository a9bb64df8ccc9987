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
    BusyMode, Capabilities, Content, Evidence, Handover, HeldReason, InboxErrorKind, InboxStore, InputBinding, InputState,
    LiveInput, Receiver, Reconciled, Refusal, Reporter, Resolution, SqliteInbox, StoredInput, Submission,
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
const ANSWER: &str = "BEEPGRID_CRASH_ANSWER";
const PAUSE_AT: &str = "BEEPGRID_RECEIVER_PAUSE_AT";

// The child.

/// A runtime whose durable history is a file.
struct FileRuntime {
    history: PathBuf,
    blind: bool,
    answer: String,
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
        match self.answer.as_str() {
            // Into a memory that dies with the process.
            "take" => return Submission::Taken(Evidence::none().native_id("native-1")),
            "refuse" => return Submission::Refused(Refusal::Rejected("not today".to_owned())),
            "lose" => return Submission::Unknown("lost".to_owned()),
            _ => {}
        }
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
    let answer = std::env::var(ANSWER).unwrap_or_default();
    let runtime = FileRuntime { history: folder.join("history"), blind: std::env::var(BLIND).is_ok(), answer };
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
        self.start_answering("", pause_at)
    }

    fn start_answering(&self, answer: &str, pause_at: Option<&str>) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child_entry", "--nocapture"])
            .env(FOLDER, self.folder.path())
            .env(URL, self.engine.url())
            .env(ANSWER, answer)
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
        self.kill_answering_at("", point, before_the_kill).await;
    }

    /// The same with a runtime that answers so.
    async fn kill_answering_at(&self, answer: &str, point: &str, before_the_kill: impl AsyncFn()) {
        let mut child = self.start_answering(answer, Some(point));
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
async fn step_2_killed_after_the_batch_is_stored() {
    let case = Case::new(false).await;
    case.kill_at("intake.stored", async || assert_eq!(case.engine.acked(), Vec::<String>::new())).await;
    assert_eq!(case.inbox().await.counts().await.unwrap().rows, 3);
    case.restart(6).await;
    case.nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_5_killed_after_a_row_was_picked() {
    let case = Case::new(false).await;
    case.kill_at("dispatch.picked", async || until("acknowledged", async || case.engine.acked().len() == 3).await).await;
    assert_eq!(case.history(), Vec::<String>::new());
    case.restart(6).await;
    case.nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_6_killed_between_the_mark_and_the_runtime() {
    let case = Case::new(false).await;
    case.kill_at("dispatch.marked", async || {}).await;
    assert_eq!(case.history(), Vec::<String>::new());
    case.restart(6).await;
    case.nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_7_killed_between_the_runtime_and_the_accepted_mark() {
    let case = Case::new(false).await;
    case.kill_at("dispatch.taken", async || {}).await;
    assert_eq!(case.history(), ["m1"]);
    case.restart(6).await;
    case.nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_2_killed_in_the_middle_of_storing() {
    let case = Case::new(false).await;
    case.kill_at("inbox.mid_batch", async || assert_eq!(case.engine.acked(), Vec::<String>::new())).await;
    assert_eq!(case.inbox().await.counts().await.unwrap().rows, 0, "all of it or nothing");
    case.restart(6).await;
    assert!(case.engine.generation("m1") > 1, "the engine handed it out again");
    case.nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_6_and_7_with_a_runtime_that_cannot_tell_are_held_and_shown() {
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
async fn step_1_killed_with_a_lease_and_nothing_stored() {
    let case = Case::new(false).await;
    case.kill_at("intake.leased", async || assert_eq!(case.engine.generation("m1"), 1)).await;
    assert_eq!(case.inbox().await.counts().await.unwrap().rows, 0);
    case.restart(6).await;
    assert!(case.engine.generation("m1") > 1, "the engine handed it out again");
    case.nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_3_killed_after_the_engine_has_the_ack_and_before_that_is_noted() {
    let case = Case::new(false).await;
    case.kill_at("intake.acked", async || assert_eq!(case.engine.acked().len(), 3)).await;
    assert_eq!(case.inbox().await.unacked(10).await.unwrap().len(), 3);
    case.restart(6).await;
    assert_eq!(case.engine.generation("m1"), 1, "nothing came again");
    case.nothing_lost_or_doubled().await;
    assert_eq!(case.inbox().await.unacked(10).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_8_killed_after_the_evidence_of_what_was_taken_is_stored() {
    let case = Case::new(false).await;
    case.kill_answering_at("take", "recorded.evidence", async || {}).await;
    let stored = case.inbox().await.get("m1".into()).await.unwrap().unwrap();
    assert_eq!((stored.state, stored.attempts), (InputState::Submitting, 1));
    assert_eq!(stored.attempt.unwrap().native_id.as_deref(), Some("native-1"));
    case.restart(6).await;
    case.nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_9_killed_after_a_refused_row_was_put_back() {
    let case = Case::new(false).await;
    case.kill_answering_at("refuse", "recorded.pending", async || {}).await;
    let stored = case.inbox().await.get("m1".into()).await.unwrap().unwrap();
    assert_eq!((stored.state, stored.attempts, stored.body()), (InputState::Pending, 1, "text of m1"));
    assert!(stored.next_attempt_at.is_some());
    case.restart(6).await;
    case.nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_10_killed_after_the_accepted_mark() {
    let case = Case::new(false).await;
    case.kill_at("recorded.accepted", async || assert_eq!(case.history(), ["m1"])).await;
    let stored = case.inbox().await.get("m1".into()).await.unwrap().unwrap();
    assert_eq!((stored.state, stored.content, stored.body()), (InputState::Accepted, Content::Scrubbed, ""));
    case.restart(6).await;
    case.nothing_lost_or_doubled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_11_and_12_killed_while_held_and_resolved_between_two_runs() {
    let case = Case::new(true).await;
    case.kill_answering_at("lose", "recorded.held", async || {}).await;
    assert_eq!(case.inbox().await.held(10).await.unwrap()[0].id.as_str(), "m1");
    case.restart(2).await;
    assert_eq!(case.history(), ["m3", "m5"], "asked about again, still unknown, its conversation waits");
    let inbox = case.inbox().await;
    inbox.resolve("m1".into(), Resolution::Retry, beepgrid::Timestamp::from_micros(1)).await.unwrap();
    drop(inbox);
    let mut child = case.start(None);
    until("everything arrived", async || case.history().len() == 6).await;
    until("and is recorded", async || lines(&case.folder.path().join("history")).len() == 6).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    child.kill().await.unwrap();
    case.nothing_lost_or_doubled().await;
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
