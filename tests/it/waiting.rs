//! Long polls and waits on the system's clock: they end at once when there is something, and in time when there is not.

use std::time::{Duration, Instant};

use beepgrid_tests::raw::{Answer, Api, Members};
use beepgrid_tests::stores::Kind;
use beepgrid_tests::world::World;
use serde_json::json;
use tokio::task::JoinHandle;

macro_rules! on_real_time {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(super::World::real(super::Kind::Sqlite).await).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if beepgrid_tests::stores::is_missing(super::Kind::Postgres).await {
                    return;
                }
                super::$case(super::World::real(super::Kind::Postgres).await).await;
            })+
        }
    };
}

on_real_time!(
    a_poll_ends_with_the_first_delivery,
    a_quiet_poll_ends_in_time_with_an_empty_list,
    a_poll_for_results_sleeps_through_messages,
    a_poll_wakes_when_a_lease_runs_out_or_is_released,
    a_wait_ends_with_the_answer,
    a_wait_ends_with_any_final_state,
    a_quiet_wait_ends_in_time_with_the_open_request,
    a_due_request_ends_its_wait,
    a_dropped_poll_leaves_the_message_there,
    revocation_ends_a_poll,
);

fn poll(api: &Api, ms: u64) -> JoinHandle<(Answer, Instant)> {
    let call = api.post("/inbox/lease", json!({"wait_ms": ms}));
    tokio::spawn(async move { (call.await, Instant::now()) })
}

fn wait(api: &Api, id: &str, ms: u64) -> JoinHandle<(Answer, Instant)> {
    let call = api.get(&format!("/requests/{id}?wait_ms={ms}"));
    tokio::spawn(async move { (call.await, Instant::now()) })
}

/// Long enough for a call to be waiting in the engine. Nothing depends on it but what the test is worth: a wait that begins
/// late finds what it waits for at once.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(150)).await;
}

fn soon(since: Instant, ended: Instant, what: &str) {
    let took = ended.saturating_duration_since(since);
    assert!(took < Duration::from_secs(1), "{what} took {took:?}");
}

async fn a_poll_ends_with_the_first_delivery(w: World) {
    let mut times = Vec::new();
    for _ in 0..5 {
        let polling = poll(&w.billing.api, 15_000);
        settle().await;
        w.send(&w.builder.api, &w.billing.target(), "wake up").await;
        let sent = Instant::now();
        let (answer, ended) = polling.await.unwrap();
        let leased = answer.ok();
        assert_eq!(leased[0]["payload"]["message"]["body"], "wake up");
        soon(sent, ended, "waking a poll");
        times.push(ended.saturating_duration_since(sent));
        w.billing.ack(&leased[0]).await;
    }
    println!("woken after {times:?}");
}

async fn a_quiet_poll_ends_in_time_with_an_empty_list(w: World) {
    let began = Instant::now();
    let (answer, ended) = poll(&w.billing.api, 700).await.unwrap();
    assert_eq!(answer.ok(), json!([]));
    let took = ended - began;
    assert!(took >= Duration::from_millis(700) && took < Duration::from_millis(2_500), "{took:?}");
    let (answer, ended) = poll(&w.billing.api, 0).await.unwrap();
    assert_eq!(answer.ok(), json!([]));
    soon(began + took, ended, "no wait");
}

async fn a_poll_for_results_sleeps_through_messages(w: World) {
    let asked = w.ask(&w.billing.api, &w.ann.target(), "q").await.id();
    let call = w.billing.api.post("/inbox/lease", json!({"wait_ms": 15_000, "kinds": ["request_result"]}));
    let polling = tokio::spawn(async move { call.await });
    settle().await;
    w.send(&w.builder.api, &w.billing.target(), "not that").await;
    settle().await;
    assert!(!polling.is_finished());
    w.ann.api.post(&format!("/requests/{asked}/respond"), json!({"outcome": "answered", "version": 1})).await.ok();
    assert_eq!(polling.await.unwrap().ok()[0]["kind"], "request_result");
}

async fn a_poll_wakes_when_a_lease_runs_out_or_is_released(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    w.send(&w.builder.api, &w.billing.target(), "m").await;
    let held = w.billing.lease_one().await;
    let polling = poll(&second.api, 15_000);
    settle().await;
    assert!(!polling.is_finished());
    w.billing.api.post(&format!("/inbox/{}/release", held.id()), json!({"generation": 1})).await.ok();
    let released = Instant::now();
    let (answer, ended) = polling.await.unwrap();
    let leased = answer.ok();
    assert_eq!(leased[0]["generation"], 2);
    soon(released, ended, "waking after a release");
    // A second long lease is cut to one second and left to run out.
    second.api.post(&format!("/inbox/{}/extend", held.id()), json!({"generation": 2, "seconds": 1})).await.ok();
    let began = Instant::now();
    let (answer, ended) = poll(&w.billing.api, 15_000).await.unwrap();
    assert_eq!(answer.ok()[0]["generation"], 3);
    assert!(ended - began < Duration::from_secs(5), "{:?}", ended - began);
    // An ack frees the conversation for whoever waits.
    w.send(&w.builder.api, &w.billing.target(), "other").await;
}

async fn a_wait_ends_with_the_answer(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    let waiting = wait(&w.builder.api, &asked, 15_000);
    settle().await;
    let body = json!({"outcome": "answered", "answer": "yes", "version": 1});
    w.ann.api.post(&format!("/requests/{asked}/respond"), body).await.ok();
    let answered = Instant::now();
    let (answer, ended) = waiting.await.unwrap();
    assert_eq!(answer.ok()["response"]["answer"], "yes");
    soon(answered, ended, "waking a wait");
    let (answer, _) = wait(&w.builder.api, &asked, 15_000).await.unwrap();
    assert_eq!(answer.ok()["state"], "resolved");
}

async fn a_wait_ends_with_any_final_state(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    let waits = [wait(&w.builder.api, &asked, 15_000), wait(&w.ann.api, &asked, 15_000)];
    settle().await;
    w.builder.api.post(&format!("/requests/{asked}/cancel"), json!({"version": 1})).await.ok();
    for waiting in waits {
        assert_eq!(waiting.await.unwrap().0.ok()["state"], "cancelled");
    }
}

async fn a_quiet_wait_ends_in_time_with_the_open_request(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    let began = Instant::now();
    let (answer, ended) = wait(&w.builder.api, &asked, 500).await.unwrap();
    assert_eq!(answer.ok()["state"], "open");
    let took = ended - began;
    assert!(took >= Duration::from_millis(500) && took < Duration::from_millis(2_500), "{took:?}");
}

async fn a_due_request_ends_its_wait(w: World) {
    let at = w.site.now().plus(Duration::from_millis(700)).to_string();
    let body = json!({"target": w.ann.target(), "body": "q", "expires_at": at});
    let asked = w.builder.api.post("/requests", body).await.created().id();
    let began = Instant::now();
    let (answer, ended) = wait(&w.builder.api, &asked, 15_000).await.unwrap();
    assert_eq!(answer.ok()["state"], "expired");
    assert!(ended - began < Duration::from_secs(3), "{:?}", ended - began);
    // The sweeper closes it within a second without anybody asking: the result is there.
    let (answer, _) = poll(&w.builder.api, 3_000).await.unwrap();
    assert_eq!(answer.ok()[0]["payload"]["request"]["state"], "expired");
}

async fn a_dropped_poll_leaves_the_message_there(w: World) {
    let polling = poll(&w.billing.api, 15_000);
    settle().await;
    polling.abort();
    let _ = polling.await;
    settle().await;
    w.send(&w.builder.api, &w.billing.target(), "for the next").await;
    let (answer, _) = poll(&w.billing.api, 5_000).await.unwrap();
    let leased = answer.ok();
    assert_eq!((leased[0]["payload"]["message"]["body"].as_str(), leased[0].n("generation")), (Some("for the next"), 1));
}

async fn revocation_ends_a_poll(w: World) {
    let credential = w.billing.api.get("/me").await.ok()["credential"].id();
    let polling = poll(&w.billing.api, 15_000);
    settle().await;
    w.owner.api.post(&format!("/credentials/{credential}/revoke"), json!({})).await.ok();
    let revoked = Instant::now();
    let (answer, ended) = polling.await.unwrap();
    soon(revoked, ended, "ending a poll");
    assert!(answer.status == 401 || answer.text == "[]", "{}", answer.text);
}
