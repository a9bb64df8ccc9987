//! The real receiver when something outside of it goes wrong: a credential that is revoked, an engine that is restored to an older state.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use beepgrid::Client;
use beepgrid_receiver::{
    BusyMode, Capabilities, Handover, InboxStore, InputBinding, LiveInput, Receiver, Reconciled, Refusal, Reporter, RunError,
    SqliteInbox, Status, StoredInput, Submission,
};
use beepgrid_tests::raw::Members;
use beepgrid_tests::stores::Kind;
use beepgrid_tests::world::World;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Remembers the bodies of what it took; takes nothing while it is shut.
#[derive(Clone, Default)]
struct Recorder {
    history: Arc<Mutex<Vec<(String, String)>>>,
    shut: Arc<AtomicBool>,
}

impl Recorder {
    fn bodies(&self) -> Vec<String> {
        self.history.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }
}

impl InputBinding for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn attach(&self, _reporter: Reporter) -> Capabilities {
        let mut able = Capabilities::new();
        (able.steer, able.steer_starts, able.reconcile) = (true, true, true);
        able
    }

    async fn submit(&self, input: &LiveInput, _to: Handover) -> Submission {
        if self.shut.load(Ordering::SeqCst) {
            return Submission::Refused(Refusal::NotNow);
        }
        self.history.lock().unwrap().push((input.id.to_string(), input.body().to_owned()));
        Submission::Accepted
    }

    async fn reconcile(&self, stored: &StoredInput) -> Reconciled {
        let known = self.history.lock().unwrap().iter().any(|(id, _)| *id == stored.id.as_str());
        if known { Reconciled::Accepted } else { Reconciled::Retry }
    }
}

struct Running {
    status: watch::Receiver<Status>,
    cancel: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

async fn run(client: Client, folder: &Path, recorder: &Recorder) -> Running {
    let inbox = SqliteInbox::open(folder.join("inbox")).await.unwrap();
    let receiver = Receiver::builder(client, inbox, recorder.clone())
        .mode(BusyMode::Steer)
        .reconnect(Duration::from_millis(20), Duration::from_millis(200))
        .build()
        .unwrap();
    let cancel = CancellationToken::new();
    Running { status: receiver.status(), cancel: cancel.clone(), task: tokio::spawn(receiver.run(cancel)) }
}

impl Running {
    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap().unwrap();
    }
}

async fn until(what: &str, reached: impl AsyncFn() -> bool) {
    let waiting = async {
        while !reached().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(40), waiting).await.is_ok(), "not reached: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_credential_ends_the_run_and_the_next_one_goes_on_with_what_is_stored() {
    let w = World::open(Kind::Sqlite).await;
    let (folder, recorder) = (tempfile::tempdir().unwrap(), Recorder::default());
    let first = run(w.client(&w.billing.api), folder.path(), &recorder).await;
    w.send(&w.builder.api, &w.billing.target(), "one").await;
    until("the first arrives", async || recorder.bodies() == ["one"]).await;
    recorder.shut.store(true, Ordering::SeqCst);
    w.send(&w.builder.api, &w.billing.target(), "two").await;
    until("the second waits in the inbox", async || first.status.borrow().pending == 1).await;
    let me = w.billing.api.get("/me").await.ok();
    let credential = me["credential"].id();
    w.owner.api.post(&format!("/credentials/{credential}/revoke"), json!({})).await.ok();
    let ended = tokio::time::timeout(Duration::from_secs(40), first.task).await.expect("the run ends").unwrap();
    assert!(matches!(ended, Err(RunError::Refused(_))), "{ended:?}");
    recorder.shut.store(false, Ordering::SeqCst);
    let again = w.enroll(&w.billing.external_id, &w.billing.name).await;
    let second = run(w.client(&again.api), folder.path(), &recorder).await;
    until("the second arrives", async || recorder.bodies() == ["one", "two"]).await;
    second.stop().await;
}

fn copy(from: &Path, to: &Path) {
    let name = from.file_name().unwrap().to_str().unwrap();
    for entry in std::fs::read_dir(to.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && path.file_name().unwrap().to_str().unwrap().starts_with(name) {
            std::fs::remove_file(path).unwrap();
        }
    }
    std::fs::copy(from, to).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_restored_to_an_older_state_makes_nothing_arrive_twice() {
    let mut w = World::open(Kind::SqliteFile).await;
    let (folder, recorder) = (tempfile::tempdir().unwrap(), Recorder::default());
    let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "one").await;
    let (database, backup) = (w.site.place.path(), folder.path().join("beepgrid.db"));
    w.site.stop().await;
    copy(&database, &backup);
    w.site.restart().await;

    let builder = w.builder.api.at(&w.site.url);
    let first = run(w.client(&w.billing.api), folder.path(), &recorder).await;
    w.say(&builder, &conversation, "two").await;
    until("both arrive", async || recorder.bodies() == ["one", "two"]).await;
    first.stop().await;

    w.site.stop().await;
    copy(&backup, &database);
    w.site.restart().await;
    let (builder, billing) = (w.builder.api.at(&w.site.url), w.billing.api.at(&w.site.url));
    let second = run(w.client(&billing), folder.path(), &recorder).await;
    w.say(&builder, &conversation, "three").await;
    until("the third arrives", async || recorder.bodies().len() == 3).await;
    assert_eq!(recorder.bodies(), ["one", "two", "three"]);
    second.stop().await;
    let inbox = SqliteInbox::open(folder.path().join("inbox")).await.unwrap();
    assert_eq!((inbox.unacked(10).await.unwrap(), inbox.counts().await.unwrap().rows), (Vec::new(), 3));
    w.advance(301);
    let left = billing.post("/inbox/lease", json!({"limit": 100})).await.ok();
    assert_eq!(left, Value::Array(Vec::new()));
}
