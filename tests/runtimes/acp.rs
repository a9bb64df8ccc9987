//! An agent that speaks the Agent Client Protocol and runs on Anthropic's interface, where `BEEPGRID_TEST_ACP` is its command line (tried with
//! `npm install @agentclientprotocol/claude-agent-acp`): the real program with a scripted model, a real engine in front of the receiver.

use std::path::PathBuf;
use std::time::Duration;

use beepgrid_receiver::acp::{AcpBinding, Options, Permission, Steering};
use beepgrid_receiver::{BusyMode, Handle, Receiver, RunError, SqliteInbox, Status};
use beepgrid_tests::model::{Model, NAME};
use beepgrid_tests::stores::Kind;
use beepgrid_tests::world::World;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const COMMAND: &str = "BEEPGRID_TEST_ACP";

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
    binding: AcpBinding,
    handle: Handle<SqliteInbox>,
    status: watch::Receiver<Status>,
    task: JoinHandle<Result<(), RunError>>,
}

struct Case {
    command: Vec<String>,
    session: Option<String>,
    model: Model,
    folder: TempDir,
    world: World,
    running: Option<Running>,
}

impl Case {
    /// `None` where the program is not named.
    async fn new(mode: BusyMode) -> Option<Self> {
        let Ok(command) = std::env::var(COMMAND) else {
            eprintln!("skipped: {COMMAND} is no command line");
            return None;
        };
        let command = command.split_whitespace().map(str::to_owned).collect();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("project")).unwrap();
        std::fs::create_dir(folder.path().join("claude")).unwrap();
        let settings = json!({ "permissions": { "allow": ["Bash"], "defaultMode": "default" } });
        std::fs::write(folder.path().join("claude/settings.json"), settings.to_string()).unwrap();
        let (model, world) = (Model::start().await, World::real(Kind::Sqlite).await);
        let mut case = Self { command, session: None, model, folder, world, running: None };
        case.receive(mode).await;
        Some(case)
    }

    async fn receive(&mut self, mode: BusyMode) {
        let mut options = Options::new(&self.command[0], &self.command[1..], self.folder.path().join("project"))
            .env("ANTHROPIC_BASE_URL", self.model.url().trim_end_matches("/v1"))
            .env("ANTHROPIC_API_KEY", "no secret")
            .env("ANTHROPIC_MODEL", NAME)
            .env("CLAUDE_CONFIG_DIR", self.folder.path().join("claude").display().to_string())
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .permission(|ask| async move {
                let allow = ask.choices.iter().find(|choice| choice.kind == "allow_once");
                allow.map_or(Permission::Reject, |choice| Permission::Choose(choice.id.clone()))
            });
        if let Some(session) = &self.session {
            options = options.session(session);
        }
        let binding = AcpBinding::start(options).await.unwrap();
        self.session = binding.session();
        let inbox = SqliteInbox::open(self.folder.path().join("inbox").join("inbox.db")).await.unwrap();
        let client = self.world.client(&self.world.builder.api);
        let receiver = Receiver::builder(client, inbox, binding.clone()).mode(mode).build().unwrap();
        let (handle, status) = (receiver.handle(), receiver.status());
        self.running = Some(Running { binding, handle, status, task: tokio::spawn(receiver.run(CancellationToken::new())) });
    }

    /// As after a kill: nothing more is recorded.
    async fn kill_receiver(&mut self) {
        let running = self.running.take().unwrap();
        running.task.abort();
        let _ = running.task.await;
    }

    fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    async fn send(&self, body: &str) -> String {
        self.world.send(&self.world.ann.api, &self.world.builder.target(), body).await.0
    }

    async fn say(&self, conversation: &str, body: &str) {
        self.world.say(&self.world.ann.api, conversation, body).await;
    }

    fn status(&self) -> Status {
        self.running().status.borrow().clone()
    }

    /// Everything that was stored is accepted.
    async fn settled(&self, rows: u32) {
        let settled = |status: &Status| status.rows == rows && status.pending == 0 && status.submitting == 0 && status.held == 0;
        until("everything is settled", async || settled(&self.status())).await;
        let held = self.running().handle.held(10).await.unwrap();
        assert!(held.is_empty(), "{held:?}");
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

    /// The newest conversation that shows all of them, which a question about a title does not, shows them in this order.
    fn in_order(&self, parts: &[&str]) {
        let places = |text: &str| parts.iter().map(|part| text.find(part)).collect::<Option<Vec<_>>>();
        let places = self.model.asked().iter().rev().find_map(|asked| places(&asked.users().join("\n"))).unwrap();
        assert!(places.is_sorted(), "{places:?}");
    }

    fn gate(&self) -> PathBuf {
        self.folder.path().join("gate")
    }

    fn open(&self) {
        std::fs::write(self.gate(), "").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steered_inputs_reach_the_model_once_and_in_order() {
    let Some(case) = Case::new(BusyMode::Steer).await else { return };
    std::fs::write(case.folder.path().join("project/secret.txt"), "TOP SECRET").unwrap();
    assert_eq!(case.running().binding.steering(), Steering::Standard);
    let conversation = case.tool_turn().await;
    case.say(&conversation, "bravo").await;
    case.say(&conversation, "charlie").await;
    until("they are handed over", async || case.status().submitting == 3).await;
    case.open();
    case.settled(3).await;
    case.shown("charlie").await;
    for part in ["alpha", "bravo", "charlie"] {
        assert_eq!(case.model.times_shown(part), 1, "{part}");
    }
    case.in_order(&["alpha", "bravo", "charlie"]);
    case.say(&conversation, "delta @secret.txt").await;
    case.settled(4).await;
    case.shown("delta").await;
    assert_eq!(case.model.times_shown("TOP SECRET"), 0, "a peer's mention reads no file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queued_inputs_wait_for_the_end_of_the_turn() {
    let Some(case) = Case::new(BusyMode::Queue).await else { return };
    let conversation = case.tool_turn().await;
    case.say(&conversation, "bravo").await;
    case.say(&conversation, "charlie").await;
    until("they wait", async || case.status().pending == 2).await;
    assert_eq!(case.model.times_shown("bravo"), 0);
    case.open();
    case.settled(3).await;
    case.shown("charlie").await;
    case.in_order(&["alpha", "bravo", "charlie"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_death_of_host_and_agent_the_history_says_what_arrived() {
    let Some(mut case) = Case::new(BusyMode::Queue).await else { return };
    let conversation = case.tool_turn().await;
    case.say(&conversation, "bravo").await;
    until("it waits", async || case.status().pending == 1).await;
    case.kill_receiver().await;
    case.open();
    case.receive(BusyMode::Queue).await;
    case.settled(2).await;
    case.shown("bravo").await;
    for part in ["alpha", "bravo"] {
        assert_eq!(case.model.times_shown(part), 1, "{part}");
    }
}
