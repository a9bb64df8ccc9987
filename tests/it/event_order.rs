//! Field reports B09 and B10: every event once and in order, between replay and live, across rotations, engines and kills.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use beepgrid::{Event, EventOptions};
use beepgrid_engine_ref::Engine;
use beepgrid_tests::raw::{Api, Members};
use beepgrid_tests::stores::{Kind, OWNER_TOKEN, Place};
use beepgrid_tests::world::World;
use beepgrid_tests::{on_both_stores, stream};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::events::{all, newest, page, sequences};

on_both_stores!(fifty_readers_see_a_thousand_events_once_and_in_order, readers_of_pages_never_miss_one_among_many_writers);

/// Where a reader begins, from a simple sequence of numbers that is the same in every run.
fn somewhere(number: usize, newest: i64) -> i64 {
    let number = i64::try_from(number).unwrap();
    (number * 7_919) % (newest + 1)
}

/// Reads until `stop` has been seen, and gives every sequence.
fn read(client: beepgrid::Client, after: i64, stop: &str) -> JoinHandle<Vec<i64>> {
    let stop = stop.to_owned();
    tokio::spawn(async move {
        let (mut events, mut seen) = (client.events(EventOptions::new().after(after)), Vec::new());
        loop {
            let next = tokio::time::timeout(Duration::from_secs(120), events.next()).await.expect("something comes");
            let event: Event = next.unwrap().unwrap();
            seen.push(event.sequence);
            if event.message().is_some_and(|message| message.body == stop) {
                return seen;
            }
        }
    })
}

async fn fifty_readers_see_a_thousand_events_once_and_in_order(w: World) {
    let mut people = Vec::new();
    for number in 0..7 {
        people.push(w.person(&format!("Reader {number}"), &format!("reader-{number}")).await);
    }
    let mut everybody: Vec<&str> = people.iter().map(|person| person.id.as_str()).collect();
    everybody.push(&w.ann.id);
    w.acquaint(&everybody).await;
    let targets: Vec<Value> = people.iter().map(beepgrid_tests::world::Caller::target).collect();
    let chat = w.ann.api.post("/chats", json!({"targets": targets, "body": "first"})).await.created().s("conversation_id");

    let mut readers = Vec::new();
    for number in 0..1_000 {
        w.say(&w.ann.api, &chat, &format!("message {number}")).await;
        if number % 20 == 10 {
            let at = readers.len() % people.len();
            let after = somewhere(readers.len(), page(&people[at].api, "limit=500").await.n("next_after"));
            readers.push((at, after, read(w.client(&people[at].api), after, "the last")));
        }
        if number % 100 == 99 {
            w.advance(15 * 60);
        }
    }
    assert_eq!(readers.len(), 50);
    w.say(&w.ann.api, &chat, "the last").await;
    let mut visible = Vec::new();
    for person in &people {
        visible.push(sequences(&all(&person.api, "summary=1").await));
    }
    for (at, after, reader) in readers {
        let expected: Vec<i64> = visible[at].iter().copied().filter(|sequence| *sequence > after).collect();
        assert_eq!(reader.await.unwrap(), expected, "after {after}");
    }
}

/// Pages on and on; the same position never shows anything new behind it.
fn page_on(api: Api, stop: Arc<AtomicBool>) -> JoinHandle<Vec<i64>> {
    tokio::spawn(async move {
        let (mut seen, mut after) = (Vec::new(), 0);
        loop {
            let ends = stop.load(Ordering::SeqCst);
            let page = page(&api, &format!("after={after}&limit=50&summary=1")).await;
            for sequence in sequences(&page.list("items")) {
                assert!(sequence > after, "{sequence} behind {after}");
                seen.push(sequence);
            }
            after = page.n("next_after");
            if ends && page["more"] == false {
                return seen;
            }
        }
    })
}

async fn write_on(api: &Api, to: &Value, count: usize) {
    for number in 0..count {
        let sent = api.post("/messages", json!({"target": to, "body": format!("message {number}")})).await;
        assert_eq!(sent.status, 201, "{}", sent.text);
    }
}

async fn readers_of_pages_never_miss_one_among_many_writers(w: World) {
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = [&w.ann.api, &w.owner.api].map(|api| page_on(api.clone(), Arc::clone(&stop))).into();
    let writers: Vec<_> = (0..8)
        .map(|number| {
            let (api, to) = (if number % 2 == 0 { w.builder.api.clone() } else { w.billing.api.clone() }, w.ann.target());
            tokio::spawn(async move { write_on(&api, &to, 40).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    for (reader, api) in readers.into_iter().zip([&w.ann.api, &w.owner.api]) {
        assert_eq!(reader.await.unwrap(), sequences(&all(api, "").await));
    }
}

const WHERE: &str = "BEEPGRID_TEST_PAUSING_STORE";
const ANNOUNCED: &str = "the child listens at ";
const PAUSED: &str = "the child stands before its commit";

/// An engine process that, once it was told so, stops between its next write and the commit, for ever. Does nothing unless a test
/// started it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the child process of the tests below"]
async fn pausing_engine() {
    let Ok(place) = std::env::var(WHERE) else { return };
    let place: Value = serde_json::from_str(&place).unwrap();
    let armed = Arc::new(AtomicBool::new(false));
    let builder = match place["path"].as_str() {
        Some(path) => Engine::builder().sqlite(path),
        None => Engine::builder().postgres(place.s("url"), place.s("schema")),
    };
    let at_hook = Arc::clone(&armed);
    let engine = builder
        .owner_token(OWNER_TOKEN)
        .before_commit(move || {
            if at_hook.load(Ordering::SeqCst) {
                println!("\n{PAUSED}");
                loop {
                    std::thread::park();
                }
            }
        })
        .start()
        .await
        .unwrap();
    println!("\n{ANNOUNCED}{}", engine.url());
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(_)) = lines.next_line().await {
        armed.store(true, Ordering::SeqCst);
    }
}

struct Pausing {
    child: Child,
    url: String,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Pausing {
    async fn start(place: &Place) -> Self {
        let (url, schema) = place.schema();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["event_order::pausing_engine", "--exact", "--ignored", "--nocapture"])
            .env(WHERE, json!({"url": url, "schema": schema}).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = Self::said(&mut lines, ANNOUNCED).await;
        Self { child, url, lines }
    }

    async fn said(lines: &mut tokio::io::Lines<BufReader<tokio::process::ChildStdout>>, what: &str) -> String {
        let line = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("the child lives");
                if let Some(rest) = line.strip_prefix(what) {
                    return rest.to_owned();
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), line).await.expect("the child says it")
    }

    /// Lets the next write stop before its commit.
    async fn arm(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"now\n").await.unwrap();
    }

    async fn paused(&mut self) {
        Self::said(&mut self.lines, PAUSED).await;
    }

    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Two engines in two processes over one PostgreSQL; one of them is stopped between a write and its commit, and killed there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_dies_before_its_commit_hides_nothing_from_readers() {
    if beepgrid_tests::stores::is_missing(Kind::Postgres).await {
        return;
    }
    let w = World::real(Kind::Postgres).await;
    let mut other = Pausing::start(&w.site.place).await;
    let there = w.builder.api.at(&other.url);
    let stop = Arc::new(AtomicBool::new(false));
    let mut pagers = vec![page_on(w.ann.api.clone(), Arc::clone(&stop)), page_on(w.owner.api.clone(), Arc::clone(&stop))];
    // Through the other process, too, as long as it lives.
    let (left, right) = (page_on(w.ann.api.at(&other.url), Arc::clone(&stop)), read(w.client(&w.ann.api), 0, "the last"));
    let far = read(beepgrid::Client::new(&other.url, w.ann.api.token()).unwrap(), 0, "before the pause");

    let (here_api, to) = (w.billing.api.clone(), w.ann.target());
    let (there_to, there_api) = (to.clone(), there.clone());
    let (here, over_there) = tokio::join!(
        tokio::spawn(async move { write_on(&here_api, &to, 60).await }),
        tokio::spawn(async move { write_on(&there_api, &there_to, 60).await }),
    );
    here.unwrap();
    over_there.unwrap();
    w.send(&there, &w.ann.target(), "before the pause").await;
    let far = far.await.unwrap();

    other.arm().await;
    let pausing = {
        let (to, api) = (w.ann.target(), there.clone());
        tokio::spawn(async move { api.post("/messages", json!({"target": to, "body": "never"})).attempt().await })
    };
    other.paused().await;
    // A sequence is chosen there and not committed. Nothing of it shows, and whoever writes here waits for its turn.
    let before = newest(&w).await;
    let waiting = {
        let (api, to) = (w.billing.api.clone(), w.ann.target());
        tokio::spawn(async move { write_on(&api, &to, 1).await })
    };
    let mut live = stream::open(&w.ann.api, &format!("stream=1&after={before}")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(newest(&w).await, before);
    assert!(!waiting.is_finished());
    left.abort();
    other.kill().await;
    // The database notices, and the writes here go on.
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("writes go on").unwrap();
    assert!(pausing.await.unwrap().is_err(), "nobody was told that it is stored");
    assert!(live.event().await.unwrap().n("sequence") > before);
    w.send(&w.billing.api, &w.ann.target(), "the last").await;
    stop.store(true, Ordering::SeqCst);
    let everything = sequences(&all(&w.ann.api, "").await);
    assert_eq!(pagers.remove(0).await.unwrap(), everything);
    assert_eq!(pagers.remove(0).await.unwrap(), sequences(&all(&w.owner.api, "").await));
    assert_eq!(right.await.unwrap(), everything);
    assert_eq!(far, everything[..far.len()]);
    assert!(!json!(all(&w.ann.api, "").await).to_string().contains("never"));
}

/// A stream at one engine shows what another commits, at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_woken_by_another_engine() {
    if beepgrid_tests::stores::is_missing(Kind::Postgres).await {
        return;
    }
    // Clocks that stand still: nothing but the signal can wake it.
    let w = World::open(Kind::Postgres).await;
    let other = w.site.another().await;
    let mut live = stream::open(&w.ann.api, &format!("stream=1&after={}", newest(&w).await)).await.unwrap();
    let mut operators = stream::open(&w.owner.api, &format!("stream=1&after={}", newest(&w).await)).await.unwrap();
    for number in 0..5 {
        let sent = std::time::Instant::now();
        let (conversation, _) = w.send(&w.builder.api.at(other.url()), &w.ann.target(), &format!("message {number}")).await;
        for stream in [&mut live, &mut operators] {
            assert_eq!(stream.event().await.unwrap()["conversation_id"], json!(conversation));
            assert_eq!(stream.event().await.unwrap()["data"]["body"], json!(format!("message {number}")));
        }
        println!("seen after {:?}", sent.elapsed());
    }
    // An identity concerns whoever may see it.
    let version = w.builder.api.get("/me").await.ok()["agent"].n("version");
    let rename = json!({"name": "Renamed", "version": version});
    w.owner.api.at(other.url()).patch(&format!("/agents/{}", w.builder.id), rename).await.ok();
    assert_eq!(live.event().await.unwrap()["data"]["name"], "Renamed");
    // The end of a credential is heard as well.
    let credential = w.ann.api.get("/me").await.ok()["credential"].id();
    w.owner.api.at(other.url()).post(&format!("/credentials/{credential}/revoke"), json!({})).await.ok();
    live.rest().await;
    other.stop().await;
}
