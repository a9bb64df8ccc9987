//! The real receiver on a real inbox against a real engine, killed two hundred times under load: every message reaches the runtime's
//! history exactly once and in order.
//!
//! The child is this very test program, started again with one test: [`child_receiver`].

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use beepgrid::Client;
use beepgrid_receiver::{
    BusyMode, Capabilities, Evidence, Handover, InboxStore, InputBinding, LiveInput, Receiver, Reconciled, Reporter, SqliteInbox,
    StoredInput, Submission,
};
use beepgrid_tests::stores::Kind;
use beepgrid_tests::world::World;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const WHERE: &str = "BEEPGRID_TEST_CHILD_RECEIVER";
const RUNS: &str = "the receiver runs";
/// How often the child is killed; `BEEPGRID_TEST_KILLS` sets another number.
const KILLS: u32 = 200;
const CONVERSATIONS: usize = 5;

/// A runtime whose history is a file. What it takes into memory it writes down a little later, unless it is killed before.
#[derive(Clone)]
struct FileRuntime {
    history: PathBuf,
    line: Arc<OnceLock<Reporter>>,
}

impl FileRuntime {
    /// One line, written in one go: a kill leaves all of it or nothing.
    fn keep(&self, input: &LiveInput) {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.history).unwrap();
        let line = format!("{} {} {}\n", input.id, input.conversation_id, input.body());
        file.write_all(line.as_bytes()).unwrap();
    }
}

impl InputBinding for FileRuntime {
    fn name(&self) -> &'static str {
        "file"
    }

    fn attach(&self, reporter: Reporter) -> Capabilities {
        let _ = self.line.set(reporter);
        let mut able = Capabilities::new();
        (able.steer, able.steer_starts, able.reconcile) = (true, true, true);
        able
    }

    async fn submit(&self, input: &LiveInput, _to: Handover) -> Submission {
        // About half of them each way.
        if input.body().ends_with(['0', '2', '4', '6', '8']) {
            self.keep(input);
            sleep(Duration::from_millis(1)).await;
            return Submission::Accepted;
        }
        let (this, input) = (self.clone(), input.clone());
        tokio::spawn(async move {
            sleep(Duration::from_millis(3)).await;
            this.keep(&input);
            this.line.get().unwrap().accepted(&input.id);
        });
        Submission::Taken(Evidence::none().turn("turn"))
    }

    async fn reconcile(&self, stored: &StoredInput) -> Reconciled {
        // Its memory died with the process that took the input.
        let found = lines(&self.history).iter().any(|line| line.starts_with(&format!("{} ", stored.id)));
        if found { Reconciled::Accepted } else { Reconciled::Retry }
    }
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Receives until it is killed. Does nothing unless a test started it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the child process of the test below"]
async fn child_receiver() {
    let Ok(place) = std::env::var(WHERE) else { return };
    let place: Value = serde_json::from_str(&place).unwrap();
    let text = |name: &str| place[name].as_str().unwrap();
    let folder = PathBuf::from(text("folder"));
    let client = Client::new(text("url"), text("token")).unwrap();
    let runtime = FileRuntime { history: folder.join("history"), line: Arc::default() };
    println!("\n{RUNS}");
    let receiver = Receiver::builder(client, SqliteInbox::open(folder.join("inbox")).await.unwrap(), runtime)
        .mode(BusyMode::Steer)
        .batch(7)
        .reconnect(Duration::from_millis(20), Duration::from_millis(200))
        .build()
        .unwrap();
    receiver.run(CancellationToken::new()).await.unwrap();
}

fn start(place: &Value) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["receiver_kill::child_receiver", "--exact", "--ignored", "--nocapture"])
        .env(WHERE, place.to_string())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Returns once the child's own code runs.
async fn runs(child: &mut Child) {
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let announced = async {
        while let Some(line) = out.next_line().await.unwrap() {
            if line == RUNS {
                return;
            }
        }
        panic!("the child ended before it ran");
    };
    tokio::time::timeout(Duration::from_secs(60), announced).await.expect("the child runs");
}

/// A number below `end` that nobody can foresee.
fn any_below(end: u64) -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::collections::hash_map::RandomState::new().build_hasher().finish() % end
}

/// What was said, by conversation, in order.
#[derive(Default)]
struct Said(BTreeMap<String, Vec<String>>);

impl Said {
    fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    async fn say(&mut self, w: &World) {
        let body = format!("message {:05}", self.count() + 1);
        let conversations: Vec<&String> = self.0.keys().collect();
        let conversation = if conversations.len() < CONVERSATIONS {
            w.send(&w.builder.api, &w.billing.target(), &body).await.0
        } else {
            let conversation = conversations[usize::try_from(any_below(CONVERSATIONS as u64)).unwrap()].clone();
            w.say(&w.builder.api, &conversation, &body).await;
            conversation
        };
        self.0.entry(conversation).or_default().push(body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_killed_again_and_again_loses_doubles_and_reorders_nothing() {
    let w = World::open(Kind::SqliteFile).await;
    let folder = tempfile::tempdir().unwrap();
    let place = json!({ "url": w.site.url, "token": w.billing.api.token(), "folder": folder.path() });
    let kills = std::env::var("BEEPGRID_TEST_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let mut said = Said::default();
    let mut kept_at_kills = Vec::new();
    for _ in 0..kills {
        let mut child = start(&place);
        // Some arrive while it starts, the rest while it runs.
        for _ in 0..any_below(4) {
            said.say(&w).await;
        }
        runs(&mut child).await;
        let end = Instant::now() + Duration::from_micros(any_below(80_000));
        // A send is never dropped half-way: the engine may have the message, and then it has to be among what was said.
        let saying = async {
            while Instant::now() < end {
                said.say(&w).await;
                tokio::time::sleep_until(end.min(Instant::now() + Duration::from_millis(5))).await;
            }
        };
        let killing = async {
            tokio::time::sleep_until(end).await;
            child.start_kill().unwrap();
        };
        tokio::join!(saying, killing);
        child.wait().await.unwrap();
        kept_at_kills.push(lines(&folder.path().join("history")).len());
        // What it had leased and not acknowledged comes back.
        w.advance(31);
    }
    assert!(kept_at_kills.windows(2).filter(|pair| pair[0] < pair[1]).count() > kills as usize / 4, "the children did work");

    let mut last = start(&place);
    let end = Instant::now() + Duration::from_secs(60);
    while lines(&folder.path().join("history")).len() < said.count() && Instant::now() < end {
        w.advance(31);
        sleep(Duration::from_millis(200)).await;
    }
    w.advance(301);
    // Long enough for a second copy to show.
    sleep(Duration::from_millis(700)).await;
    last.start_kill().unwrap();
    last.wait().await.unwrap();
    accounted_for(&w, &said, folder.path()).await;
}

/// Each message once, each conversation in order, nothing left anywhere.
async fn accounted_for(w: &World, said: &Said, folder: &Path) {
    let mut kept: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines(&folder.join("history")) {
        let mut words = line.splitn(3, ' ');
        let (Some(_), Some(conversation), Some(body)) = (words.next(), words.next(), words.next()) else { panic!("{line}") };
        kept.entry(conversation.to_owned()).or_default().push(body.to_owned());
    }
    for (conversation, bodies) in &said.0 {
        assert_eq!(kept.get(conversation), Some(bodies), "{conversation}");
    }
    assert_eq!(kept.len(), said.0.len());
    let inbox = SqliteInbox::open(folder.join("inbox")).await.unwrap();
    let counts = inbox.counts().await.unwrap();
    let open = counts.pending + counts.submitting + counts.held;
    assert_eq!((open, counts.rows as usize), (0, said.count()));
    assert_eq!(inbox.unacked(10).await.unwrap(), []);
    w.advance(301);
    assert_eq!(w.billing.lease(100).await, Vec::<Value>::new(), "the engine has nothing left");
}
