//! Field reports B16 and B20: many at once, through one engine process and through two.

use std::collections::BTreeMap;
use std::sync::Arc;

use beepgrid_tests::raw::{Api, Members};
use beepgrid_tests::stores::{Kind, Site, is_missing};
use beepgrid_tests::world::World;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::idempotency::{at_once, one_effect};

/// The same world through a further engine process on the same database.
async fn other_door(w: &World) -> (beepgrid_engine_ref::Engine, String) {
    let engine = w.site.another().await;
    let url = engine.url().to_owned();
    (engine, url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_at_once_through_two_engines_have_one_effect() {
    if is_missing(Kind::Postgres).await {
        return;
    }
    let w = World::real(Kind::Postgres).await;
    let (engine, url) = other_door(&w).await;
    let callers = [w.builder.api.clone(), w.builder.api.at(&url)];
    let body = json!({"target": w.billing.target(), "body": "once"});
    one_effect(&at_once(&callers, &body).await);
    assert_eq!(w.billing.drain().await.len(), 1);
    engine.stop().await;
}

/// One instance leases and acknowledges as fast as it can until `rounds` barriers have passed.
async fn compete(api: Api, start: Arc<Barrier>, rounds: usize) -> Vec<Value> {
    let mut taken = Vec::new();
    for _ in 0..rounds {
        start.wait().await;
        let leased = api.post("/inbox/lease", json!({"limit": 5})).await.ok();
        for delivery in leased.as_array().unwrap() {
            let body = json!({"generation": delivery["generation"]});
            api.post(&format!("/inbox/{}/ack", delivery.id()), body).await.ok();
            taken.push(delivery.clone());
        }
    }
    taken
}

/// Two instances lease in the same instant, again and again, while somebody sends.
async fn race(w: &World, second_url: &str, rounds: usize) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    let mut conversations = Vec::new();
    for at in 0..4 {
        conversations.push(w.send(&w.builder.api, &w.billing.target(), &format!("{at} first")).await.0);
    }
    let start = Arc::new(Barrier::new(3));
    let workers =
        [w.billing.api.clone(), second.api.at(second_url)].map(|api| tokio::spawn(compete(api, Arc::clone(&start), rounds)));
    for at in 0..rounds {
        start.wait().await;
        w.say(&w.builder.api, &conversations[at % 4], &at.to_string()).await;
    }
    let mut taken = Vec::new();
    for worker in workers {
        taken.extend(worker.await.unwrap());
    }
    taken.extend(w.billing.drain().await);
    taken.extend(second.drain().await);
    let mut seen = BTreeMap::new();
    for delivery in &taken {
        *seen.entry(delivery.id()).or_insert(0) += 1;
        assert_eq!(delivery["generation"], 1, "handed out twice: {delivery}");
    }
    assert!(seen.values().all(|times| *times == 1));
    assert_eq!(seen.len(), rounds + 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_lease_at_once_a_thousand_times_on_sqlite() {
    let w = World::real(Kind::Sqlite).await;
    let url = w.site.url.clone();
    race(&w, &url, 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_lease_at_once_a_thousand_times_through_two_engines() {
    if is_missing(Kind::Postgres).await {
        return;
    }
    let w = World::real(Kind::Postgres).await;
    let (engine, url) = other_door(&w).await;
    race(&w, &url, 1_000).await;
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_senders_lose_nothing() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        if is_missing(kind).await {
            continue;
        }
        let w = World::real(kind).await;
        let senders: Vec<_> = (0..64)
            .map(|at| {
                let (api, to) = (w.builder.api.clone(), w.billing.target());
                tokio::spawn(async move {
                    for round in 0..5 {
                        api.post("/messages", json!({"target": to, "body": format!("{at}/{round}")})).await.created();
                    }
                })
            })
            .collect();
        for sender in senders {
            sender.await.unwrap();
        }
        let mut bodies: Vec<_> = w.billing.drain().await.iter().map(|d| d["payload"]["message"].s("body")).collect();
        bodies.sort();
        bodies.dedup();
        assert_eq!(bodies.len(), 320);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_engine_changes_the_other_sees_at_once() {
    if is_missing(Kind::Postgres).await {
        return;
    }
    let w = World::real(Kind::Postgres).await;
    let (engine, url) = other_door(&w).await;
    let there = w.bob.api.at(&url);
    let body = json!({"target": w.hidden.target(), "body": "x"});
    there.post("/messages", body.clone()).await.not_found();
    w.policy(&w.bob.target(), beepgrid_tests::world::contacts(&[w.hidden.target()])).await;
    there.post("/messages", body.clone()).await.created();
    w.policy(&w.bob.target(), vec![]).await;
    there.post("/messages", body).await.not_found();
    w.set_disabled("people", &w.bob.id, true).await;
    there.get("/me").await.refused(401, "unauthorized");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_engine_on_one_sqlite_file_is_refused() {
    let site = Site::real(Kind::SqliteFile).await;
    let second = beepgrid_engine_ref::Engine::builder().sqlite(site.place.path()).start().await;
    assert!(second.is_err(), "two engines on one file");
    Api::new(&site.url, beepgrid_tests::stores::OWNER_TOKEN).get("/me").await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_there_after_a_restart() {
    for kind in [Kind::SqliteFile, Kind::Postgres] {
        if is_missing(kind).await {
            continue;
        }
        let mut w = World::open(kind).await;
        let body = json!({"target": w.billing.target(), "body": "kept"});
        let sent = w.builder.api.post("/messages", body.clone()).key("k").await.created();
        let leased = w.billing.lease_one().await;
        let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await;
        w.site.restart().await;
        let url = w.site.url.clone();
        let (builder, billing, ann) = (w.builder.api.at(&url), w.billing.api.at(&url), w.ann.api.at(&url));
        assert_eq!(builder.post("/messages", body).key("k").await.ok(), sent);
        assert_eq!(ann.get(&format!("/requests/{}", asked.id())).await.ok()["body"], "q");
        assert_eq!(billing.post("/inbox/lease", json!({})).await.ok(), json!([]), "the lease stands");
        let body = json!({"generation": 1});
        billing.post(&format!("/inbox/{}/ack", leased.id()), body).await.ok();
    }
}
