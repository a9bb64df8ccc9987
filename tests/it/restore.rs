//! Section 14, restore: on hold, operators read and manage; everything else waits until the hold is taken off. On every store that outlives
//! its engine.

use std::time::Duration;

use beepgrid::{ErrorCode, EventOptions, ExposeSecret};
use beepgrid_engine_ref::{Engine, EngineError, restore};
use beepgrid_receiver::{Receiver, RunError, SqliteInbox, checkpoint};
use beepgrid_tests::raw::{Answer, Api, Members};
use beepgrid_tests::stores::{Kind, OWNER_TOKEN, is_missing};
use beepgrid_tests::wait;
use beepgrid_tests::world::{Worker, World};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const LASTING: [Kind; 2] = [Kind::SqliteFile, Kind::Postgres];

/// Stops the engine, begins a restore, starts an engine over the same rows; gives calls with the owner's new token.
async fn restored(w: &mut World) -> Api {
    w.site.stop().await;
    let token = restore::begin(w.site.place.builder().clock(w.site.clock.clone())).await.unwrap();
    assert!(restore::is_on_hold(w.site.place.builder()).await.unwrap());
    w.site.restart().await;
    Api::new(&w.site.url, token.expose_secret())
}

async fn resumed(w: &mut World) {
    w.site.stop().await;
    assert!(restore::resume(w.site.place.builder().clock(w.site.clock.clone())).await.unwrap());
    w.site.restart().await;
}

fn assert_on_hold(answer: Answer) {
    assert_eq!(answer.header("retry-after"), "10");
    answer.refused(503, "unavailable");
}

async fn enroll(owner: &Api, external_id: &str) -> Worker {
    let session = owner.post("/enroll", json!({"agent": external_id, "name": "Again", "never_expires": true})).await.created();
    Worker {
        id: session["agent"].id(),
        name: session["agent"].s("name"),
        external_id: external_id.to_owned(),
        instance: session.s("instance_id"),
        api: owner.with(&session.s("token")),
    }
}

#[tokio::test]
async fn on_hold_operators_read_and_manage_and_nothing_else_happens() {
    for kind in LASTING {
        if is_missing(kind).await {
            continue;
        }
        let mut w = World::open(kind).await;
        let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "before").await;
        assert_eq!(w.billing.lease_one().await["generation"], 1);
        let ask = json!({"target": w.ann.target(), "body": "q", "expires_at": w.after(60).to_string()});
        let asked = w.builder.api.post("/requests", ask).await.created().id();

        let owner = restored(&mut w).await;
        let url = w.site.url.clone();
        for old in [&w.owner.api, &w.ann.api, &w.builder.api, &w.billing.api] {
            old.at(&url).get("/me").await.refused(401, "unauthorized");
            old.at(&url).post("/inbox/lease", json!({})).await.refused(401, "unauthorized");
        }
        assert_eq!(owner.get("/workspace").await.ok()["on_hold"], true);
        assert_eq!(w.bodies(&owner, &conversation).await, ["before"]);
        assert!(!owner.get("/events?limit=500").await.ok().list("items").is_empty());
        let body = json!({"target": w.billing.target(), "body": "x"});
        assert_on_hold(owner.post("/messages", body.clone()).await);
        assert_on_hold(owner.post("/requests", body).await);
        assert_on_hold(owner.post(&format!("/requests/{asked}/cancel"), json!({"version": 1})).await);
        assert_on_hold(owner.post("/inbox/lease", json!({})).await);
        assert_on_hold(owner.post("/fleet/plan", json!({"prompt": "?"})).await);
        assert_on_hold(crate::files::upload(&owner, "/attachments", "a.txt", "x").await);
        assert_on_hold(owner.nobody().post("/callbacks/con_1", json!({})).await);
        let open = owner.post("/capabilities", json!({"target": w.billing.target()})).await.ok();
        assert_eq!(open["operations"], json!({"view": true, "message": false, "ask": false}));

        let worker = enroll(&owner, &w.billing.external_id).await;
        assert_eq!(worker.id, w.billing.id);
        for path in ["/me", "/events", "/directory?kind=agent"] {
            assert_on_hold(worker.api.get(path).await);
        }
        assert_on_hold(worker.api.post("/inbox/lease", json!({"wait_ms": 15_000})).await);
        assert_on_hold(worker.api.post("/heartbeat", json!({})).await);

        // The deadline comes and goes; nobody closes it.
        for _ in 0..70 {
            w.advance(1);
            owner.get("/healthz").await.not_found();
        }
        let carl = owner.post("/people", json!({"name": "Carl", "external_id": "carl"})).await.created().id();

        resumed(&mut w).await;
        let (owner, mut worker) = (owner.at(&w.site.url), worker);
        worker.api = worker.api.at(&w.site.url);
        assert!(owner.get("/workspace").await.ok().get("on_hold").is_none());
        let again = worker.lease_one().await;
        assert_eq!((again["payload"]["message"].s("body"), again.n("generation")), ("before".to_owned(), 1_000_002));
        worker.ack(&again).await;
        let place = |events: &Value, kind: &str, subject: &str| {
            events.list("items").iter().position(|event| event["kind"] == kind && event["data"]["id"] == subject)
        };
        let events = wait::until("the request is closed", || async {
            let events = owner.get("/events?limit=500&summary=true").await.ok();
            place(&events, "request.expired", &asked).map(|_| events)
        })
        .await;
        assert!(place(&events, "identity.updated", &carl) < place(&events, "request.expired", &asked), "closed on hold");
        owner.post("/messages", json!({"target": w.billing.target(), "body": "after"})).await.created();
        assert_eq!(worker.lease_one().await["payload"]["message"]["body"], "after");
    }
}

/// The numbers of the time after the backup are not given out again.
#[tokio::test]
async fn a_reader_with_an_old_position_goes_on_there() {
    for kind in LASTING {
        if is_missing(kind).await {
            continue;
        }
        let mut w = World::open(kind).await;
        let newest = w.owner.api.get("/events?limit=500").await.ok().n("next_after");
        // As of a time that the backup knows nothing of.
        let seen = newest + 5_000;
        let early = w.owner_client().list_events(EventOptions::new().after(seen)).await.unwrap_err();
        assert_eq!(early.code(), Some(&ErrorCode::InvalidCursor));
        let owner = restored(&mut w).await;
        resumed(&mut w).await;
        let client = w.client(&owner.at(&w.site.url));
        let at = |after: i64| EventOptions::new().after(after);
        assert!(client.list_events(at(seen)).await.unwrap().items.is_empty());
        owner.at(&w.site.url).post("/people", json!({"name": "Carl", "external_id": "carl"})).await.created();
        let page = client.list_events(at(seen)).await.unwrap();
        let sequences: Vec<_> = page.items.iter().map(|event| event.sequence).collect();
        assert_eq!(sequences, [newest + 1_000_001]);
        let mut stream = client.events(at(seen));
        assert_eq!(stream.next().await.unwrap().unwrap().sequence, newest + 1_000_001);
        // Nobody can have come further than that.
        let beyond = client.list_events(at(newest + 1_000_002)).await.unwrap_err();
        assert_eq!(beyond.code(), Some(&ErrorCode::InvalidCursor));
        let old = w.client(&w.owner.api.at(&w.site.url)).events(at(seen)).next().await.unwrap().unwrap_err();
        assert_eq!(old.code(), Some(&ErrorCode::Unauthorized));
    }
}

#[tokio::test]
async fn workers_and_receivers_with_an_old_token_stop() {
    for kind in LASTING {
        if is_missing(kind).await {
            continue;
        }
        let mut w = World::open(kind).await;
        restored(&mut w).await;
        let client = w.client(&w.billing.api.at(&w.site.url));
        let ended = client.run(CancellationToken::new(), |_| async { Ok::<(), beepgrid::Error>(()) }).await.unwrap_err();
        assert_eq!(ended.code(), Some(&ErrorCode::Unauthorized));
        let (binding, _host) = checkpoint::channel(checkpoint::Options::default());
        let folder = tempfile::tempdir().unwrap();
        let inbox = SqliteInbox::open(folder.path().join("inbox")).await.unwrap();
        let receiver = Receiver::builder(client, inbox, binding).build().unwrap();
        let ended = receiver.run(CancellationToken::new()).await.unwrap_err();
        assert!(matches!(ended, RunError::Refused(_)), "{ended:?}");
    }
}

/// The database as it was before: what came after the backup is gone, and what is given out again can't be taken for it.
#[tokio::test]
async fn a_file_put_back_from_a_backup_goes_on_with_numbers_that_nobody_has_seen() {
    let mut w = World::open(Kind::SqliteFile).await;
    let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "kept").await;
    w.site.stop().await;
    let path = w.site.place.path();
    let backup = path.with_extension("backup");
    std::fs::copy(&path, &backup).unwrap();
    w.site.restart().await;
    let url = w.site.url.clone();
    w.say(&w.builder.api.at(&url), &conversation, "lost").await;
    let mut billing = w.billing.clone();
    billing.api = billing.api.at(&url);
    let leased = billing.lease(10).await;
    assert_eq!(leased.len(), 2);
    for delivery in &leased {
        billing.ack(delivery).await;
    }
    let seen = w.owner.api.at(&url).get("/events?limit=500").await.ok().n("next_after");

    w.site.stop().await;
    for end in ["-wal", "-shm"] {
        let mut beside = path.clone().into_os_string();
        beside.push(end);
        let _ = std::fs::remove_file(beside);
    }
    std::fs::copy(&backup, &path).unwrap();
    let owner = restored(&mut w).await;
    let (sender, mut again) = (enroll(&owner, &w.builder.external_id).await, enroll(&owner, &w.billing.external_id).await);
    resumed(&mut w).await;
    let (owner, sender) = (owner.at(&w.site.url), sender.api.at(&w.site.url));
    again.api = again.api.at(&w.site.url);
    assert_eq!(w.bodies(&owner, &conversation).await, ["kept"]);
    let delivery = again.lease_one().await;
    assert_eq!((delivery.id(), delivery.n("generation")), (leased[0].id(), 1_000_001));
    again.ack(&delivery).await;
    w.say(&sender, &conversation, "new").await;
    let page = owner.get(&format!("/events?limit=500&after={seen}")).await.ok();
    let bodies: Vec<_> =
        page.list("items").iter().filter(|e| e["kind"] == "message.created").map(|e| e["data"].s("body")).collect();
    assert_eq!(bodies, ["new"]);
    assert!(page.list("items").iter().all(|event| event.n("sequence") > seen));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_that_run_follow_the_hold_at_once() {
    if is_missing(Kind::Postgres).await {
        return;
    }
    let w = World::real(Kind::Postgres).await;
    let other = w.site.another().await;
    let there = w.billing.api.at(other.url());
    let poll = tokio::spawn(async move { there.post("/inbox/lease", json!({"wait_ms": 15_000})).await });
    let mut stream = w.client(&w.ann.api.at(other.url())).events(EventOptions::new());
    let reading = tokio::spawn(async move { while let Some(Ok(_)) = stream.next().await {} });
    // A poll's first look is a sign of life.
    wait::until("the poll waits", || async {
        let look = w.owner.api.at(other.url()).get("/fleet/status").await.ok();
        look.list("agents").iter().any(|agent| agent["agent"]["id"] == w.billing.id && agent["fresh"] == true).then_some(())
    })
    .await;
    let token = restore::begin(w.site.place.builder()).await.unwrap();
    let polled = tokio::time::timeout(Duration::from_secs(5), poll).await.expect("the poll ends at once").unwrap();
    polled.refused(401, "unauthorized");
    tokio::time::timeout(Duration::from_secs(5), reading).await.expect("the stream ends at once").unwrap();
    let owner = Api::new(&w.site.url, token.expose_secret());
    let body = json!({"target": w.billing.target(), "body": "x"});
    for url in [w.site.url.as_str(), other.url()] {
        assert_eq!(owner.at(url).get("/workspace").await.ok()["on_hold"], true);
        assert_on_hold(owner.at(url).post("/messages", body.clone()).await);
    }
    assert!(restore::resume(w.site.place.builder()).await.unwrap());
    for url in [w.site.url.as_str(), other.url()] {
        owner.at(url).post("/messages", body.clone()).await.created();
    }
    assert!(!restore::resume(w.site.place.builder()).await.unwrap());
    other.stop().await;
}

#[tokio::test]
async fn a_restore_takes_a_database_that_is_kept_free_and_owned() {
    let memory = restore::begin(Engine::builder().in_memory()).await;
    assert!(matches!(memory, Err(EngineError::Setting(_))), "{memory:?}");
    let mut w = World::open(Kind::SqliteFile).await;
    let used = restore::begin(w.site.place.builder()).await;
    assert!(matches!(used, Err(EngineError::Store(_))), "{used:?}");
    w.owner.api.get("/me").await.ok();
    w.site.stop().await;
    let short = restore::begin(w.site.place.builder().owner_token("short")).await;
    assert!(matches!(short, Err(EngineError::Setting(_))), "{short:?}");
    // The same token again would be two credentials with one.
    let same = restore::begin(w.site.place.builder().owner_token(OWNER_TOKEN)).await;
    assert!(matches!(same, Err(EngineError::Store(_))), "{same:?}");
    assert!(!restore::is_on_hold(w.site.place.builder()).await.unwrap(), "nothing was changed");
    let given = "a token that was written to a file first";
    assert!(restore::begin(w.site.place.builder().owner_token(given)).await.is_err(), "with spaces");
    let given = given.replace(' ', "-");
    let token = restore::begin(w.site.place.builder().owner_token(given.clone())).await.unwrap();
    assert_eq!(token.expose_secret(), given);
    let second = restore::begin(w.site.place.builder()).await.unwrap();
    w.site.restart().await;
    let api = Api::new(&w.site.url, token.expose_secret());
    api.get("/me").await.refused(401, "unauthorized");
    api.with(second.expose_secret()).get("/me").await.ok();
    let folder = tempfile::tempdir().unwrap();
    let nobodys = restore::begin(Engine::builder().sqlite(folder.path().join("new.db"))).await;
    assert!(matches!(nobodys, Err(EngineError::NoOwner)), "{nobodys:?}");
}
