//! Field report B16, second run: the engine is a process of its own and is killed in the middle of its work.
//!
//! The child is this very test program, started again with one test: [`child_engine`].

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use beepgrid_engine_ref::Engine;
use beepgrid_tests::raw::{Api, Members};
use beepgrid_tests::stores::{Kind, OWNER_TOKEN, Place, Site};
use beepgrid_tests::world::World;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

const WHERE: &str = "BEEPGRID_TEST_CHILD_STORE";
const ANNOUNCED: &str = "the child listens at ";

/// Serves until it is killed or its standard input ends. Does nothing unless a test started it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the child process of the tests below"]
async fn child_engine() {
    let Ok(place) = std::env::var(WHERE) else { return };
    let place: Value = serde_json::from_str(&place).unwrap();
    let builder = match place["path"].as_str() {
        Some(path) => Engine::builder().sqlite(path),
        None => Engine::builder().postgres(place.s("url"), place.s("schema")),
    };
    let engine = builder.owner_token(OWNER_TOKEN).start().await.unwrap();
    println!("\n{ANNOUNCED}{}", engine.url());
    let mut nothing = Vec::new();
    let _ = tokio::io::stdin().read_to_end(&mut nothing).await;
    engine.stop().await;
}

pub(crate) struct Running {
    child: Child,
    pub(crate) url: String,
}

pub(crate) async fn start(place: &Place) -> Running {
    let place = match place {
        Place::Schema(_) => {
            let (url, schema) = place.schema();
            json!({"url": url, "schema": schema})
        }
        _ => json!({"path": place.path()}),
    };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["kill::child_engine", "--exact", "--ignored", "--nocapture"])
        .env(WHERE, place.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let announced = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Some(url) = line.strip_prefix(ANNOUNCED) {
                return url.to_owned();
            }
        }
        panic!("the child ended without listening");
    };
    let url = tokio::time::timeout(Duration::from_secs(30), announced).await.expect("the child listens");
    Running { child, url }
}

impl Running {
    /// SIGKILL, and the process is gone.
    pub(crate) async fn kill(mut self) {
        self.child.start_kill().unwrap();
        self.child.wait().await.unwrap();
    }
}

/// A keyed call and what the engine said to it, if it said anything.
#[derive(Debug)]
struct Sent {
    body: Value,
    key: String,
    message: Option<String>,
}

async fn send_until(api: Api, to: Value, name: usize, stop: Arc<AtomicBool>) -> Vec<Sent> {
    let mut sent = Vec::new();
    for at in 0.. {
        let key = format!("{name}-{at}");
        let body = json!({"target": to, "body": key});
        let answer = api.post("/messages", body.clone()).key(&key).attempt().await;
        let message = answer.ok().map(|answer| answer.created()["messages"][0].id());
        let ended = message.is_none() || stop.load(Ordering::SeqCst);
        sent.push(Sent { body, key, message });
        if ended {
            break;
        }
    }
    sent
}

async fn answered_writes_survive_a_kill(kind: Kind) {
    let place = Place::fresh(kind).await;
    let running = start(&place).await;
    let w = World::populate(Site::remote(&running.url)).await;
    let decided = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    let decision = json!({"outcome": "answered", "answer": "kept", "version": 1});
    w.ann.api.post(&format!("/requests/{decided}/respond"), decision.clone()).key("r").await.ok();
    w.builder.drain().await;
    w.send(&w.ann.api, &w.builder.target(), "acked").await;
    w.builder.drain().await;

    let stop = Arc::new(AtomicBool::new(false));
    let senders: Vec<_> =
        (0..8).map(|name| tokio::spawn(send_until(w.builder.api.clone(), w.billing.target(), name, Arc::clone(&stop)))).collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    running.kill().await;
    stop.store(true, Ordering::SeqCst);
    let mut sent = Vec::new();
    for sender in senders {
        sent.extend(sender.await.unwrap());
    }
    let answered = sent.iter().filter(|s| s.message.is_some()).count();
    assert!(answered > 8, "only {answered} were answered before the kill");

    let running = start(&place).await;
    let (builder, ann) = (w.builder.api.at(&running.url), w.ann.api.at(&running.url));
    for one in &sent {
        let call = || async {
            let call = builder.post("/messages", one.body.clone()).key(&one.key);
            tokio::time::timeout(Duration::from_secs(10), call.attempt()).await.expect("nobody works on this key").unwrap()
        };
        let again = call().await;
        if let Some(message) = &one.message {
            assert_eq!(&again.ok()["messages"][0].id(), message, "{one:?}");
        } else {
            assert!(matches!(again.status, 200 | 201), "{}", again.text);
            let message = again.json()["messages"][0].id();
            assert_eq!(call().await.ok()["messages"][0].id(), message);
        }
    }
    // Each has had one effect, and the worker gets each once.
    let mut billing = w.billing.clone();
    billing.api = billing.api.at(&running.url);
    let mut bodies: Vec<_> = billing.drain().await.iter().map(|d| d["payload"]["message"].s("body")).collect();
    bodies.sort();
    let mut expected: Vec<_> = sent.iter().map(|s| s.key.clone()).collect();
    expected.sort();
    assert_eq!(bodies, expected);
    let path = format!("/requests/{decided}");
    assert_eq!(ann.get(&path).await.ok()["response"]["answer"], "kept");
    ann.post(&format!("{path}/respond"), decision).key("r").await.ok();
    assert_eq!(builder.post("/inbox/lease", json!({})).await.ok(), json!([]), "what was acknowledged does not come again");
    running.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answered_writes_survive_a_kill_on_sqlite() {
    answered_writes_survive_a_kill(Kind::SqliteFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answered_writes_survive_a_kill_on_postgres() {
    if beepgrid_tests::stores::is_missing(Kind::Postgres).await {
        return;
    }
    answered_writes_survive_a_kill(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_another_process_serves_is_refused_until_it_is_dead() {
    let place = Place::fresh(Kind::SqliteFile).await;
    let running = start(&place).await;
    let second = Engine::builder().sqlite(place.path()).owner_token(OWNER_TOKEN).start().await;
    assert!(second.is_err(), "two engines on one file");
    Api::new(&running.url, OWNER_TOKEN).get("/me").await.ok();
    running.kill().await;
    let engine = Engine::builder().sqlite(place.path()).owner_token(OWNER_TOKEN).start().await.unwrap();
    Api::new(engine.url(), OWNER_TOKEN).get("/me").await.ok();
    engine.stop().await;
}
