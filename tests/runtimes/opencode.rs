//! opencode, where `BEEPGRID_TEST_OPENCODE` names its program (`npm install opencode-ai`, then
//! `node_modules/opencode-linux-x64/bin/opencode`): the real server with a scripted model, a real engine in front of the receiver.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use beepgrid_receiver::opencode::{NewSession, Server};
use beepgrid_receiver::{BusyMode, Receiver, RunError, SqliteInbox, Status};
use beepgrid_tests::model::{Item, Model, NAME};
use beepgrid_tests::stores::Kind;
use beepgrid_tests::world::World;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const PROGRAM: &str = "BEEPGRID_TEST_OPENCODE";
const PASSWORD: &str = "a-password-of-the-test";

/// Waits for a state of a program that may take its time on a small machine.
async fn until(what: &str, reached: impl AsyncFn() -> bool) {
    let waiting = async {
        while !reached().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(120), waiting).await.is_ok(), "not reached: {what}");
}

struct Program {
    path: PathBuf,
    folder: TempDir,
    port: u16,
    child: Option<Child>,
}

impl Program {
    async fn start(path: PathBuf, model: &Model) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        std::fs::create_dir(folder.path().join("project")).unwrap();
        std::fs::write(folder.path().join("catalog.json"), catalog(model).to_string()).unwrap();
        let mut program = Self { path, folder, port, child: None };
        program.restart();
        program
    }

    fn restart(&mut self) {
        let at = |name: &str| self.folder.path().join(name);
        let log = std::fs::File::options().create(true).append(true).open(at("log")).unwrap();
        let child = Command::new(&self.path)
            .args(["serve", "--port", &self.port.to_string(), "--print-logs"])
            .current_dir(at("project"))
            .env("HOME", at("home"))
            .env("XDG_DATA_HOME", at("data"))
            .env("XDG_CONFIG_HOME", at("config"))
            .env("XDG_CACHE_HOME", at("cache"))
            .env("XDG_STATE_HOME", at("state"))
            .env("OPENCODE_MODELS_PATH", at("catalog.json"))
            .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
            .env("OPENCODE_SERVER_PASSWORD", PASSWORD)
            .env("FAKE_KEY", "no secret")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// With SIGKILL.
    async fn kill(&mut self) {
        self.child.take().unwrap().kill().await.unwrap();
    }

    fn server(&self) -> Server {
        Server::at(format!("http://127.0.0.1:{}", self.port)).password(PASSWORD.to_owned())
    }
}

/// The list of models in the form that opencode otherwise fetches.
fn catalog(model: &Model) -> serde_json::Value {
    let entry = json!({ "id": NAME, "name": NAME, "attachment": false, "reasoning": false, "temperature": true, "tool_call": true,
        "release_date": "2026-01-01", "last_updated": "2026-01-01", "open_weights": true, "cost": { "input": 0, "output": 0 },
        "modalities": { "input": ["text"], "output": ["text"] }, "limit": { "context": 200_000, "output": 8_000 } });
    json!({ "fake": { "id": "fake", "name": "fake", "env": ["FAKE_KEY"], "npm": "@ai-sdk/openai-compatible", "api": model.url(),
        "models": { NAME: entry } } })
}

struct Running {
    status: watch::Receiver<Status>,
    task: JoinHandle<Result<(), RunError>>,
}

struct Case {
    model: Model,
    program: Program,
    world: World,
    session: String,
    inbox: PathBuf,
    running: Option<Running>,
}

impl Case {
    /// `None` where the program is not named.
    async fn new(mode: BusyMode) -> Option<Self> {
        let Some(program) = std::env::var_os(PROGRAM) else {
            eprintln!("skipped: {PROGRAM} names no program");
            return None;
        };
        let model = Model::start().await;
        let program = Program::start(program.into(), &model).await;
        let directory = program.folder.path().join("project").display().to_string();
        let new = NewSession::new().directory(directory).model("fake", NAME);
        let server = program.server();
        let mut session = None;
        for _ in 0..1_200 {
            session = server.create_session(&new).await.ok();
            if session.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let inbox = program.folder.path().join("inbox");
        let world = World::real(Kind::Sqlite).await;
        let mut case = Self { model, program, world, session: session.expect("opencode starts"), inbox, running: None };
        case.receive(mode).await;
        Some(case)
    }

    async fn receive(&mut self, mode: BusyMode) {
        let inbox = SqliteInbox::open(&self.inbox).await.unwrap();
        let binding = self.program.server().session(self.session.clone()).unwrap();
        let receiver = Receiver::builder(self.world.client(&self.world.builder.api), inbox, binding).mode(mode).build().unwrap();
        let status = receiver.status();
        self.running = Some(Running { status, task: tokio::spawn(receiver.run(CancellationToken::new())) });
    }

    /// As after a kill: nothing more is recorded.
    async fn kill_receiver(&mut self) {
        let running = self.running.take().unwrap();
        running.task.abort();
        let _ = running.task.await;
    }

    /// Ann sends a message to the agent; gives the conversation.
    async fn send(&self, body: &str) -> String {
        self.world.send(&self.world.ann.api, &self.world.builder.target(), body).await.0
    }

    async fn say(&self, conversation: &str, body: &str) {
        self.world.say(&self.world.ann.api, conversation, body).await;
    }

    fn status(&self) -> Status {
        self.running.as_ref().unwrap().status.borrow().clone()
    }

    /// Everything that was stored is with opencode.
    async fn settled(&self, rows: u32) {
        let settled = |status: &Status| status.rows == rows && status.pending == 0 && status.submitting == 0;
        until("everything is settled", async || settled(&self.status())).await;
        assert_eq!(self.status().held, 0);
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
        self.program.folder.path().join("gate")
    }

    fn open(&self) {
        std::fs::write(self.gate(), "").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_input_starts_an_idle_agent_and_a_steer_joins_after_the_running_tool() {
    let Some(case) = Case::new(BusyMode::Steer).await else { return };
    let conversation = case.tool_turn().await;
    case.say(&conversation, "bravo").await;
    case.say(&conversation, "charlie").await;
    case.settled(3).await;
    assert_eq!(case.model.times_shown("bravo"), 0);
    case.open();
    case.shown("charlie").await;
    assert_eq!(case.model.order(&["bravo", "charlie", "alpha"]), ["alpha", "bravo", "charlie"]);
    let asked = case.model.asked();
    assert_eq!(asked.len(), 2, "one turn");
    let items = &asked[1].items;
    let result = items.iter().position(|item| matches!(item, Item::Result(_))).unwrap();
    let bravo = items.iter().position(|item| matches!(item, Item::User(text) if text.contains("> bravo"))).unwrap();
    assert!(result < bravo && matches!(&items[bravo], Item::User(text) if text.starts_with("[beepgrid message ")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queued_inputs_wait_for_the_end_of_the_turn_and_each_gets_one_of_its_own() {
    let Some(case) = Case::new(BusyMode::Queue).await else { return };
    let conversation = case.tool_turn().await;
    case.say(&conversation, "bravo").await;
    case.say(&conversation, "charlie").await;
    case.settled(3).await;
    case.open();
    case.shown("charlie").await;
    let parts = ["alpha", "bravo", "charlie"];
    let shown: Vec<usize> = case
        .model
        .asked()
        .iter()
        .map(|asked| parts.iter().filter(|part| asked.users().join(" ").contains(**part)).count())
        .collect();
    assert_eq!(shown, [1, 1, 2, 3]);
    assert_eq!(case.model.order(&parts), parts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_opencode_admitted_before_it_was_killed_is_started_after_its_restart() {
    for mode in [BusyMode::Steer, BusyMode::Queue] {
        let Some(mut case) = Case::new(mode).await else { return };
        let conversation = case.tool_turn().await;
        case.say(&conversation, "bravo").await;
        case.say(&conversation, "charlie").await;
        case.settled(3).await;
        case.program.kill().await;
        case.open();
        if mode == BusyMode::Queue {
            // Both die.
            case.kill_receiver().await;
            case.receive(mode).await;
        }
        case.program.restart();
        case.shown("charlie").await;
        for part in ["alpha", "bravo", "charlie"] {
            assert_eq!(case.model.times_shown(part), 1, "{part}");
        }
        assert_eq!(case.model.order(&["charlie", "bravo", "alpha"]), ["alpha", "bravo", "charlie"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_opencode_is_shown_and_waited_for() {
    let Some(mut case) = Case::new(BusyMode::Steer).await else { return };
    let conversation = case.send("alpha").await;
    case.shown("alpha").await;
    case.program.kill().await;
    case.say(&conversation, "bravo").await;
    until("it is shown", async || case.status().last_error.is_some() && case.status().pending == 1).await;
    case.program.restart();
    case.shown("bravo").await;
    until("it is no longer shown", async || case.status().last_error.is_none()).await;
    assert_eq!(case.status().held, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deaths_on_both_sides_in_a_stream_of_messages_lose_and_double_nothing() {
    for mode in [BusyMode::Steer, BusyMode::Queue] {
        let Some(mut case) = Case::new(mode).await else { return };
        let conversation = case.send("number-00").await;
        case.shown("number-00").await;
        let mut names = vec!["number-00".to_owned()];
        for round in 0..4 {
            for _ in 0..6 {
                let name = format!("number-{:02}", names.len());
                case.say(&conversation, &name).await;
                names.push(name);
            }
            // At whatever point that is.
            tokio::time::sleep(Duration::from_millis(37 * round)).await;
            if round % 2 == 0 {
                case.kill_receiver().await;
            }
            case.program.kill().await;
            case.program.restart();
            if round % 2 == 0 {
                case.receive(mode).await;
            }
        }
        case.settled(u32::try_from(names.len()).unwrap()).await;
        case.say(&conversation, "the end").await;
        case.shown("the end").await;
        let parts: Vec<&str> = names.iter().map(String::as_str).collect();
        for name in &parts {
            assert_eq!(case.model.times_shown(name), 1, "{name}, {mode}; {}", log_of(&case.program.folder.path().join("log")));
        }
        assert_eq!(case.model.order(&parts), parts, "{mode}");
    }
}

/// What opencode last wrote, for a test that fails.
fn log_of(path: &Path) -> String {
    let log = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("level=ERROR")).collect();
    lines.iter().rev().take(20).rev().copied().collect::<Vec<_>>().join("\n")
}
