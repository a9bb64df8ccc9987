//! Sections 1 and 4: limits that take many rows or many callers to reach.

use std::future::IntoFuture;
use std::time::Duration;

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Call, Members};
use beepgrid_tests::stores::Kind;
use beepgrid_tests::world::World;
use serde_json::json;

on_both_stores!(a_hundred_blocking_requests_an_agent);

/// On SQLite alone: ten thousand rows take most of a minute on PostgreSQL, and the engine's own suite counts there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_undelivered_from_one_sender() {
    let w = World::open(Kind::Sqlite).await;
    // A hundred instances, so that one batch makes a hundred deliveries to one agent.
    let first = w.enroll("team/billing-2", "Billing 2").await;
    let mut targets = vec![first.exact()];
    for _ in 1..100 {
        targets.push(w.enroll("team/billing-2", "Billing 2").await.exact());
    }
    for _ in 0..100 {
        let batch = json!({"targets": targets, "body": "x"});
        w.builder.api.post("/messages/batch", batch).await.created();
    }
    let one = json!({"target": w.billing.target(), "body": "x"});
    let answer = w.builder.api.post("/messages", one.clone()).await;
    assert!(!answer.header("retry-after").is_empty());
    answer.refused(429, "rate_limited");
    w.builder.api.post("/requests", one.clone()).await.refused(429, "rate_limited");
    // Another sender, and another recipient, are not concerned.
    w.ann.api.post("/messages", one.clone()).await.created();
    w.send(&w.builder.api, &w.ann.target(), "x").await;
    // What is taken makes room.
    first.drain().await;
    w.builder.api.post("/messages", one).await.created();
}

async fn a_hundred_blocking_requests_an_agent(w: World) {
    let ask = || w.builder.api.post("/requests", json!({"target": w.billing.target(), "body": "x", "blocking": true}));
    let first = ask().await.created();
    assert_eq!(first["blocking"], true);
    for _ in 1..100 {
        ask().await.created();
    }
    let beyond = ask().await;
    assert!(
        matches!((beyond.status, beyond.code().as_str()), (429, "rate_limited") | (400, "invalid_request")),
        "{}",
        beyond.text
    );
    w.builder.api.post(&format!("/requests/{}/cancel", first.id()), json!({"version": 1})).await.ok();
    ask().await.created();
    w.builder.api.post("/requests", json!({"target": w.billing.target(), "body": "x"})).await.created();
}

/// Sends all at once; how many were answered in the end and how many refused for being too many.
async fn outcomes(calls: Vec<Call>) -> (usize, usize) {
    let held: Vec<_> = calls.into_iter().map(|call| tokio::spawn(call.into_future())).collect();
    let (mut answered, mut refused) = (0, 0);
    for call in held {
        let answer = call.await.unwrap();
        if answer.status == 429 {
            answer.refused(429, "rate_limited");
            refused += 1;
        } else {
            answer.ok();
            answered += 1;
        }
    }
    (answered, refused)
}

async fn held_calls_are_bounded(kind: Kind) {
    let w = World::real(kind).await;
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    // Four polls an instance: of six at once two are refused, and the others go on.
    let poll = || w.billing.api.post("/inbox/lease", json!({"wait_ms": 2_000}));
    assert_eq!(outcomes((0..6).map(|_| poll()).collect()).await, (4, 2));
    // Sixteen waiting reads a principal.
    let wait = |ms: u64| w.builder.api.get(&format!("/requests/{asked}?wait_ms={ms}"));
    assert_eq!(outcomes((0..19).map(|_| wait(2_000)).collect()).await, (16, 3));
    // They are given back.
    w.billing.api.post("/inbox/lease", json!({"wait_ms": 1})).await.ok();
    wait(1).await.ok();
    tokio::time::timeout(Duration::from_secs(1), wait(0).into_future()).await.unwrap().ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_calls_are_bounded_on_sqlite() {
    held_calls_are_bounded(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_calls_are_bounded_on_postgres() {
    if beepgrid_tests::stores::is_missing(Kind::Postgres).await {
        return;
    }
    held_calls_are_bounded(Kind::Postgres).await;
}
