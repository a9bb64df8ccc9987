//! Claude, where `BEEPGRID_TEST_CLAUDE` names its program (`npm install @anthropic-ai/claude-code`, then
//! `node_modules/@anthropic-ai/claude-code-linux-x64/claude`): the real program with a scripted model, a real engine in front of the receiver.
//!
//! The program is proprietary, so nothing installs it here.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use beepgrid_receiver::claude::{ClaudeBinding, Options};
use beepgrid_receiver::{BusyMode, Handle, Receiver, RunError, SqliteInbox, Status};
use beepgrid_tests::model::{Item, Model, NAME};
use beepgrid_tests::stores::Kind;
use beepgrid_tests::world::World;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const PROGRAM: &str = "BEEPGRID_TEST_CLAUDE";

/// Waits for a state of a program that may take its time on a small machine.
async fn until(what: &str, reached: impl AsyncFn() -> bool) {
    let waiting = async {
        while !reached().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(120), waiting).await.is_ok(), "not reached: {what}");
}

struct Running {
    binding: ClaudeBinding,
    handle: Handle<SqliteInbox>,
    status: watch::Receiver<Status>,
    task: JoinHandle<Result<(), RunError>>,
}

struct Case {
    program: PathBuf,
    session: String,
    model: Model,
    folder: TempDir,
    world: World,
    /// The processes that there were.
    pids: Arc<Mutex<Vec<u64>>>,
    running: Option<Running>,
}

impl Case {
    /// `None` where the program is not named.
    async fn new(mode: BusyMode) -> Option<Self> {
        let Some(program) = std::env::var_os(PROGRAM) else {
            eprintln!("skipped: {PROGRAM} names no program");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("project")).unwrap();
        let (model, world) = (Model::start().await, World::real(Kind::Sqlite).await);
        let session = Options::new("").session_id().to_owned();
        let mut case = Self { program: program.into(), session, model, folder, world, pids: Arc::default(), running: None };
        case.receive(mode).await;
        Some(case)
    }

    async fn receive(&mut self, mode: BusyMode) {
        let pids = Arc::clone(&self.pids);
        let options = Options::new(&self.program)
            .session(&self.session)
            .folder(self.folder.path().join("project"))
            .config_dir(self.folder.path().join("claude"))
            .args(["--model", NAME, "--allowedTools", "Bash,mcp__beepgrid__wait_for_result"])
            .env("ANTHROPIC_BASE_URL", self.model.url().trim_end_matches("/v1"))
            .env("ANTHROPIC_API_KEY", "no secret")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .on_record(move |record| {
                if let Some(pid) = record.pointer("/response/response/pid").and_then(serde_json::Value::as_u64) {
                    pids.lock().unwrap().push(pid);
                }
            });
        let binding = ClaudeBinding::start(options).unwrap();
        let inbox = SqliteInbox::open(self.folder.path().join("inbox").join("inbox.db")).await.unwrap();
        let client = self.world.client(&self.world.builder.api);
        let receiver = Receiver::builder(client, inbox, binding.clone()).mode(mode).build().unwrap();
        let (handle, status) = (receiver.handle(), receiver.status());
        self.running = Some(Running { binding, handle, status, task: tokio::spawn(receiver.run(CancellationToken::new())) });
    }

    /// As after a kill: nothing more is recorded, and the process is left to itself.
    async fn kill_receiver(&mut self) {
        let running = self.running.take().unwrap();
        running.task.abort();
        let _ = running.task.await;
    }

    /// With SIGKILL.
    async fn kill_claude(&self) {
        let pid = self.pids.lock().unwrap().last().copied();
        if let Some(pid) = pid {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).output().await;
        }
    }

    fn binding(&self) -> &ClaudeBinding {
        &self.running.as_ref().unwrap().binding
    }

    async fn send(&self, body: &str) -> String {
        self.world.send(&self.world.ann.api, &self.world.builder.target(), body).await.0
    }

    async fn say(&self, conversation: &str, body: &str) {
        self.world.say(&self.world.ann.api, conversation, body).await;
    }

    fn status(&self) -> Status {
        self.running.as_ref().unwrap().status.borrow().clone()
    }

    /// Everything that was stored is accepted.
    async fn settled(&self, rows: u32) {
        let settled = |status: &Status| status.rows == rows && status.pending == 0 && status.submitting == 0;
        until("everything is settled", async || settled(&self.status())).await;
        let held = self.running.as_ref().unwrap().handle.held(10).await.unwrap();
        assert!(held.is_empty(), "{held:?}");
    }

    /// So many are with Claude and not proven yet.
    async fn in_its_memory(&self, inputs: u32) {
        until("Claude has them in its queue", async || self.status().submitting == inputs).await;
    }

    async fn shown(&self, part: &str) {
        until(&format!("the model is shown {part}"), async || self.model.times_shown(part) > 0).await;
    }

    /// A turn whose tool runs until [`Self::open`], or for a minute.
    async fn tool_turn(&self) -> String {
        let gate = self.gate().display().to_string();
        let wait = format!("n=0; until test -e {gate} || test $n -ge 600; do n=$((n+1)); sleep 0.1; done");
        let conversation = self.send(&format!("alpha [[tool touch {gate}.began; {wait}]]")).await;
        let began = self.gate().with_extension("began");
        until("the tool runs", async || began.exists()).await;
        conversation
    }

    fn gate(&self) -> PathBuf {
        self.folder.path().join("gate")
    }

    fn open(&self) {
        std::fs::write(self.gate(), "").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_steer_joins_after_the_running_tool_and_is_nobody_s_word_but_the_peer_s() {
    let Some(case) = Case::new(BusyMode::Steer).await else { return };
    std::fs::write(case.folder.path().join("project/secret.txt"), "TOP SECRET").unwrap();
    let conversation = case.tool_turn().await;
    case.say(&conversation, "bravo @secret.txt").await;
    case.say(&conversation, "charlie").await;
    case.in_its_memory(2).await;
    assert_eq!(case.model.times_shown("bravo"), 0);
    case.open();
    case.settled(3).await;
    case.shown("charlie").await;
    assert_eq!(case.model.order(&["bravo", "charlie", "alpha"]), ["alpha", "bravo", "charlie"]);
    case.say(&conversation, "delta @secret.txt").await;
    case.settled(4).await;
    let asked = case.model.asked();
    let items = &asked.last().unwrap().items;
    let bravo = items.iter().find(|item| matches!(item, Item::User(text) if text.contains("> bravo"))).unwrap();
    let Item::User(bravo) = bravo else { unreachable!() };
    assert!(bravo.starts_with("[MESSAGE FROM NON-USER SOURCE - NOT USER INPUT]\n[beepgrid message "), "{bravo}");
    assert_eq!(case.model.times_shown("TOP SECRET"), 0, "a peer's mention reads no file");
    assert_eq!(asked.iter().filter(|asked| asked.users().join(" ").contains("alpha")).count(), 3, "two turns");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queued_inputs_wait_for_the_end_of_the_turn_and_each_gets_one_of_its_own() {
    let Some(case) = Case::new(BusyMode::Queue).await else { return };
    let conversation = case.tool_turn().await;
    case.say(&conversation, "bravo").await;
    case.say(&conversation, "charlie").await;
    until("they wait", async || case.status().pending == 2).await;
    case.open();
    case.settled(3).await;
    case.shown("charlie").await;
    let parts = ["alpha", "bravo", "charlie"];
    let asked = case.model.asked();
    let shown = asked.iter().map(|asked| parts.iter().filter(|part| asked.users().join(" ").contains(**part)).count());
    assert_eq!(shown.filter(|count| *count > 0).collect::<Vec<_>>(), [1, 1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_claude_had_in_its_queue_is_handed_over_again() {
    let Some(case) = Case::new(BusyMode::Steer).await else { return };
    let conversation = case.tool_turn().await;
    case.say(&conversation, "bravo").await;
    case.say(&conversation, "charlie").await;
    case.in_its_memory(2).await;
    case.kill_claude().await;
    case.open();
    case.settled(3).await;
    case.shown("charlie").await;
    for part in ["alpha", "bravo", "charlie"] {
        assert_eq!(case.model.times_shown(part), 1, "{part}");
    }
    assert_eq!(case.model.order(&["charlie", "bravo", "alpha"]), ["alpha", "bravo", "charlie"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_claude_takes_in_after_the_host_died_is_not_repeated() {
    let Some(mut case) = Case::new(BusyMode::Steer).await else { return };
    let conversation = case.tool_turn().await;
    case.say(&conversation, "bravo").await;
    case.in_its_memory(1).await;
    case.kill_receiver().await;
    case.receive(BusyMode::Steer).await;
    case.say(&conversation, "charlie").await;
    case.open();
    case.settled(3).await;
    case.shown("charlie").await;
    for part in ["alpha", "bravo", "charlie"] {
        assert_eq!(case.model.times_shown(part), 1, "{part}");
    }
    assert_eq!(case.model.order(&["charlie", "bravo", "alpha"]), ["alpha", "bravo", "charlie"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_interrupt_takes_out_of_the_queue_comes_again() {
    let Some(case) = Case::new(BusyMode::Steer).await else { return };
    let conversation = case.tool_turn().await;
    case.say(&conversation, "bravo").await;
    case.in_its_memory(1).await;
    let receipt = case.binding().interrupt(true).await.unwrap();
    assert_eq!(receipt.cancelled.len(), 1);
    case.settled(2).await;
    case.shown("bravo").await;
    assert_eq!(case.model.times_shown("bravo"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_reaches_the_call_that_waits_for_it() {
    let Some(case) = Case::new(BusyMode::Steer).await else { return };
    let request = case.world.ask(&case.world.builder.api, &case.world.ann.target(), "Ship?").await;
    let call = json!({ "request_id": request["id"] });
    let conversation = case.send(&format!("alpha [[call mcp__beepgrid__wait_for_result {call}]]")).await;
    case.settled(1).await;
    // The wait ends early for live input.
    case.say(&conversation, "bravo").await;
    case.shown("bravo").await;
    case.say(&conversation, &format!("charlie [[call mcp__beepgrid__wait_for_result {call}]]")).await;
    case.settled(3).await;
    let response = json!({ "outcome": "answered", "answer": "yes, ship it", "version": request["version"] });
    case.world.ann.api.post(&format!("/requests/{}/respond", request["id"].as_str().unwrap()), response).await.ok();
    until("the call returns with the result", async || {
        let asked = case.model.asked();
        asked
            .iter()
            .flat_map(|asked| &asked.items)
            .any(|item| matches!(item, Item::Result(text) if text.contains("> yes, ship it")))
    })
    .await;
    case.settled(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deaths_on_both_sides_in_a_stream_of_messages_lose_and_double_nothing() {
    for mode in [BusyMode::Steer, BusyMode::Queue] {
        let Some(mut case) = Case::new(mode).await else { return };
        let conversation = case.send("number-00").await;
        case.shown("number-00").await;
        let mut names = vec!["number-00".to_owned()];
        for round in 0..8 {
            for _ in 0..4 {
                let name = format!("number-{:02}", names.len());
                let tool = if names.len() % 3 == 0 { " [[tool sleep 0.2]]" } else { "" };
                case.say(&conversation, &format!("{name}{tool}")).await;
                names.push(name);
            }
            // At whatever point that is.
            tokio::time::sleep(Duration::from_millis(97 * round)).await;
            match round % 3 {
                0 => case.kill_claude().await,
                1 => {
                    case.kill_receiver().await;
                    case.receive(mode).await;
                }
                _ => {
                    case.kill_receiver().await;
                    case.kill_claude().await;
                    case.receive(mode).await;
                }
            }
        }
        case.settled(u32::try_from(names.len()).unwrap()).await;
        case.say(&conversation, "the end").await;
        case.shown("the end").await;
        let parts: Vec<&str> = names.iter().map(String::as_str).collect();
        for name in &parts {
            assert_eq!(case.model.times_shown(name), 1, "{name}, {mode}");
        }
        assert_eq!(case.model.order(&parts), parts, "{mode}");
    }
}
