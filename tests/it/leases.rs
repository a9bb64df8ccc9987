//! Section 7: leases, generations, acknowledgements, extensions, releases; field report B12.

use std::time::Duration;

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Answer, Members};
use beepgrid_tests::world::{Worker, World};
use serde_json::{Value, json};

on_both_stores!(
    a_delivery_has_its_fields,
    a_lease_ends_after_thirty_seconds,
    an_overrun_lease_that_somebody_took_is_stale,
    an_overrun_lease_that_nobody_took_is_good,
    ack_and_lease_in_the_same_instant,
    a_repeated_ack_is_fine,
    only_the_leaseholder_reports,
    acks_need_the_right_generation,
    an_extension_moves_the_end,
    no_lease_outlasts_twelve_hours,
    a_release_gives_it_back_at_once,
    a_delayed_release_waits,
    releases_do_not_count_as_attempts,
    redeliveries_back_off,
    twenty_attempts_and_a_day_park_it,
    a_parked_delivery_is_requeued,
    ack_many_answers_for_each,
    a_heartbeat_is_ok,
    workers_alone_have_an_inbox,
);

async fn ack(worker: &Worker, delivery: &Value, generation: i64) -> Answer {
    worker.api.post(&format!("/inbox/{}/ack", delivery.id()), json!({"generation": generation})).await
}

async fn extend(worker: &Worker, delivery: &Value, generation: i64, seconds: i64) -> Answer {
    let body = json!({"generation": generation, "seconds": seconds});
    worker.api.post(&format!("/inbox/{}/extend", delivery.id()), body).await
}

async fn release(worker: &Worker, delivery: &Value, generation: i64, delay: Option<i64>) -> Answer {
    let body = json!({"generation": generation, "delay_seconds": delay});
    worker.api.post(&format!("/inbox/{}/release", delivery.id()), body).await
}

/// A message for Billing, leased by its first instance.
async fn leased(w: &World) -> Value {
    w.send(&w.builder.api, &w.billing.target(), "m").await;
    w.billing.lease_one().await
}

async fn a_delivery_has_its_fields(w: World) {
    let (conversation, message) = w.send(&w.builder.api, &w.billing.target(), "hello").await;
    let created = w.site.now();
    w.advance(3);
    let delivery = w.billing.lease_one().await;
    assert!(delivery.id().starts_with("dlv_"));
    assert_eq!((delivery.n("generation"), delivery.n("attempt"), delivery["kind"].as_str()), (1, 1, Some("message")));
    assert_eq!(delivery["leased_until"], json!(w.after(30).to_string()));
    assert_eq!(delivery["created_at"], json!(created.to_string()));
    let payload = &delivery["payload"];
    assert_eq!((payload["type"].as_str(), payload.s("conversation_id")), (Some("message"), conversation));
    assert_eq!((payload["message"].id(), payload["message"]["body"].as_str()), (message, Some("hello")));
    assert!(payload.get("request").is_none());
}

async fn a_lease_ends_after_thirty_seconds(w: World) {
    let first = leased(&w).await;
    w.advance(29);
    assert!(w.billing.lease(10).await.is_empty());
    w.advance(1);
    let again = w.billing.lease_one().await;
    assert_eq!((again.id(), again.n("generation"), again.n("attempt")), (first.id(), 2, 2));
    assert_eq!(again["payload"], first["payload"]);
    assert_eq!(again["created_at"], first["created_at"]);
}

async fn an_overrun_lease_that_somebody_took_is_stale(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    let mine = leased(&w).await;
    w.advance(31);
    let theirs = second.lease_one().await;
    assert_eq!((theirs.id(), theirs.n("generation")), (mine.id(), 2));
    for answer in
        [ack(&w.billing, &mine, 1).await, extend(&w.billing, &mine, 1, 30).await, release(&w.billing, &mine, 1, None).await]
    {
        answer.refused(409, "stale_generation");
    }
    // Knowing the new number does not make it one's own.
    for answer in
        [ack(&w.billing, &mine, 2).await, extend(&w.billing, &mine, 2, 30).await, release(&w.billing, &mine, 2, None).await]
    {
        answer.refused(409, "stale_generation");
    }
    assert!(w.billing.lease(10).await.is_empty() && second.lease(10).await.is_empty());
    second.ack(&theirs).await;
    second.ack(&theirs).await;
    w.advance(3_600);
    assert!(w.billing.lease(10).await.is_empty() && second.lease(10).await.is_empty());
}

async fn an_overrun_lease_that_nobody_took_is_good(w: World) {
    let _second = w.enroll("team/billing-2", "Billing 2").await;
    let mine = leased(&w).await;
    w.advance(3_600);
    w.billing.ack(&mine).await;
    assert!(w.billing.lease(10).await.is_empty());
}

async fn ack_and_lease_in_the_same_instant(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    for _ in 0..20 {
        let mine = leased(&w).await;
        w.advance(31);
        let (acked, theirs) = tokio::join!(ack(&w.billing, &mine, 1), second.lease(10));
        if acked.status == 200 {
            assert!(theirs.is_empty(), "both won: {theirs:?}");
        } else {
            acked.refused(409, "stale_generation");
            assert_eq!((theirs.len(), theirs[0].n("generation")), (1, 2));
            second.ack(&theirs[0]).await;
        }
        w.advance(31);
        assert!(second.lease(10).await.is_empty());
    }
}

async fn a_repeated_ack_is_fine(w: World) {
    let delivery = leased(&w).await;
    for _ in 0..3 {
        w.billing.ack(&delivery).await;
    }
    w.advance(86_400);
    w.billing.ack(&delivery).await;
    // What is acknowledged is done with.
    for answer in [extend(&w.billing, &delivery, 1, 30).await, release(&w.billing, &delivery, 1, None).await] {
        answer.refused(409, "stale_generation");
    }
    assert!(w.billing.lease(10).await.is_empty());
}

async fn only_the_leaseholder_reports(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    let delivery = leased(&w).await;
    for answer in
        [ack(&second, &delivery, 1).await, extend(&second, &delivery, 1, 30).await, release(&second, &delivery, 1, None).await]
    {
        answer.refused(409, "stale_generation");
    }
    for answer in [
        ack(&w.builder, &delivery, 1).await,
        extend(&w.builder, &delivery, 1, 30).await,
        release(&w.builder, &delivery, 1, None).await,
    ] {
        answer.not_found();
    }
    w.billing.api.post("/inbox/dlv_none/ack", json!({"generation": 1})).await.not_found();
    w.billing.ack(&delivery).await;
}

async fn acks_need_the_right_generation(w: World) {
    let delivery = leased(&w).await;
    for generation in [2, 99, i64::MAX] {
        ack(&w.billing, &delivery, generation).await.refused(409, "stale_generation");
        extend(&w.billing, &delivery, generation, 30).await.refused(409, "stale_generation");
        release(&w.billing, &delivery, generation, None).await.refused(409, "stale_generation");
    }
    for generation in [0, -1] {
        assert!(matches!(ack(&w.billing, &delivery, generation).await.status, 400 | 409));
    }
    w.billing.ack(&delivery).await;
}

async fn an_extension_moves_the_end(w: World) {
    let delivery = leased(&w).await;
    for seconds in [0, 301, -1] {
        extend(&w.billing, &delivery, 1, seconds).await.invalid("seconds");
    }
    w.advance(20);
    let until = w.after(300).to_string();
    assert_eq!(extend(&w.billing, &delivery, 1, 300).await.ok(), json!({"leased_until": until}));
    w.advance(299);
    assert!(w.billing.lease(10).await.is_empty());
    // It can be brought forward, and its end is the end.
    assert_eq!(extend(&w.billing, &delivery, 1, 1).await.ok(), json!({"leased_until": w.after(1).to_string()}));
    w.advance(1);
    assert_eq!(w.billing.lease_one().await.n("generation"), 2);
}

async fn no_lease_outlasts_twelve_hours(w: World) {
    let delivery = leased(&w).await;
    let end = w.after(12 * 3_600);
    let mut extended = 0;
    while w.after(290) < end {
        w.advance(290);
        extend(&w.billing, &delivery, 1, 300).await.ok();
        extended += 1;
    }
    assert!(extended > 140);
    assert_eq!(extend(&w.billing, &delivery, 1, 300).await.ok(), json!({"leased_until": end.to_string()}));
    let left = end.since(w.site.now());
    w.site.advance(left);
    assert_eq!(w.billing.lease_one().await.n("generation"), 2);
}

async fn a_release_gives_it_back_at_once(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    let delivery = leased(&w).await;
    assert_eq!(release(&w.billing, &delivery, 1, None).await.status, 200);
    let again = second.lease_one().await;
    assert_eq!((again.id(), again.n("generation")), (delivery.id(), 2));
    ack(&w.billing, &delivery, 1).await.refused(409, "stale_generation");
    second.ack(&again).await;
}

async fn a_delayed_release_waits(w: World) {
    let delivery = leased(&w).await;
    for delay in [-1, 3_601] {
        release(&w.billing, &delivery, 1, Some(delay)).await.invalid("delay_seconds");
    }
    release(&w.billing, &delivery, 1, Some(3_600)).await.ok();
    w.advance(3_599);
    assert!(w.billing.lease(10).await.is_empty());
    w.advance(1);
    assert_eq!(w.billing.lease_one().await.n("generation"), 2);
}

async fn releases_do_not_count_as_attempts(w: World) {
    let first = leased(&w).await;
    let mut delivery = first.clone();
    for _ in 0..30 {
        release(&w.billing, &delivery, delivery.n("generation"), Some(0)).await.ok();
        delivery = w.billing.lease_one().await;
    }
    assert_eq!((delivery.id(), delivery.n("generation"), delivery.n("attempt")), (first.id(), 31, 1));
    w.advance(30);
    assert_eq!(w.billing.lease_one().await.n("attempt"), 2);
}

async fn redeliveries_back_off(w: World) {
    leased(&w).await;
    // Seconds between the end of a lease and the next one: at once, then doubling up to 300.
    for (at, wait) in [0, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].into_iter().enumerate() {
        w.advance(29 + wait);
        assert!(w.billing.lease(10).await.is_empty(), "a second too early: redelivery {at} after {wait} s");
        w.advance(1);
        let delivery = w.billing.lease_one().await;
        let attempt = i64::try_from(at).unwrap() + 2;
        assert_eq!((delivery.n("attempt"), delivery.n("generation")), (attempt, attempt));
    }
}

/// Lets every lease run out until nothing comes any more; gives the last attempt.
async fn exhaust(w: &World) -> i64 {
    let (mut last, mut quiet) = (0, 0);
    while quiet < 3 {
        w.advance(3_600);
        match w.billing.lease(1).await.pop() {
            Some(delivery) => (last, quiet) = (delivery.n("attempt"), 0),
            None => quiet += 1,
        }
        assert!(last < 500, "never parked");
    }
    last
}

async fn twenty_attempts_and_a_day_park_it(w: World) {
    let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "poison").await;
    w.say(&w.builder.api, &conversation, "behind").await;
    let first = w.billing.lease(1).await.remove(0);
    for _ in 2..=20 {
        w.advance(331);
        assert_eq!(w.billing.lease(1).await[0].id(), first.id());
    }
    // Twenty attempts, but not a day yet: it still comes.
    w.advance(331);
    assert_eq!(w.billing.lease(1).await[0].id(), first.id());
    w.advance(86_400);
    // Then it is parked and no longer holds back the rest of its conversation.
    let next = beepgrid_tests::wait::until("the delivery is parked", || async {
        w.advance(331);
        w.billing.lease(1).await.pop().filter(|d| d.id() != first.id())
    })
    .await;
    assert_eq!(next["payload"]["message"]["body"], "behind");
    w.billing.ack(&next).await;
    w.advance(3_600);
    assert!(w.billing.lease(10).await.is_empty());
}

async fn a_parked_delivery_is_requeued(w: World) {
    let first = leased(&w).await;
    assert!(exhaust(&w).await >= 20);
    let path = format!("/deliveries/{}/requeue", first.id());
    w.bob.api.post(&path, json!({})).await.not_found();
    let answer = w.builder.api.post(&path, json!({})).await;
    assert!(matches!(answer.status, 403 | 404), "{}", answer.text);
    w.owner.api.post("/deliveries/dlv_none/requeue", json!({})).await.not_found();
    w.owner.api.post(&path, json!({})).await.ok();
    let again = w.billing.lease_one().await;
    assert_eq!(again.id(), first.id());
    assert!(again.n("generation") > first.n("generation"));
    // All of an agent at once, by its own worker.
    exhaust(&w).await;
    let all = json!({"agent_id": w.billing.id});
    let refused = w.builder.api.post("/deliveries/requeue", all.clone()).await;
    assert!(matches!(refused.status, 403 | 404), "{}", refused.text);
    w.billing.api.post("/deliveries/requeue", all).await.ok();
    w.billing.ack(&w.billing.lease_one().await).await;
}

async fn ack_many_answers_for_each(w: World) {
    for _ in 0..3 {
        w.send(&w.builder.api, &w.billing.target(), "m").await;
    }
    w.send(&w.billing.api, &w.builder.target(), "m").await;
    let mine = w.billing.lease(10).await;
    let theirs = w.builder.lease_one().await;
    let items = json!([
        {"id": mine[0].id(), "generation": 1},
        {"id": mine[1].id(), "generation": 9},
        {"id": "dlv_none", "generation": 1},
        {"id": theirs.id(), "generation": 1},
        {"id": mine[2].id(), "generation": 1},
        {"id": mine[0].id(), "generation": 1},
    ]);
    let results = w.billing.api.post("/inbox/ack", json!({"items": items})).await.ok();
    assert_eq!(
        results,
        json!({"results": [
            {"id": mine[0].id(), "received": true},
            {"id": mine[1].id(), "code": "stale_generation"},
            {"id": "dlv_none", "code": "not_found"},
            {"id": theirs.id(), "code": "not_found"},
            {"id": mine[2].id(), "received": true},
            {"id": mine[0].id(), "received": true},
        ]})
    );
    w.advance(31);
    assert_eq!(w.billing.lease_one().await.id(), mine[1].id());
    w.billing.api.post("/inbox/ack", json!({"items": []})).await.invalid("items");
    w.billing.api.post("/inbox/ack", json!({"items": [{"id": mine[0].id()}]})).await.invalid("generation");
}

async fn a_heartbeat_is_ok(w: World) {
    for body in [
        json!({}),
        json!({"progress": {"step": 1}}),
        json!({"progress": {}}),
        json!({"capabilities": []}),
        json!({"progress": null}),
    ] {
        assert_eq!(w.builder.api.post("/heartbeat", body).await.ok(), json!({"ok": true}));
    }
    w.builder.api.post("/heartbeat", json!({"progress": "half"})).await.invalid("progress");
    w.builder.api.post("/heartbeat", json!({"mood": "good"})).await.invalid("mood");
}

async fn workers_alone_have_an_inbox(w: World) {
    let (_, api) = beepgrid_tests::world::credential(&w.owner.api, &w.builder.id, None).await;
    for caller in [&w.ann.api, &w.owner.api, &api] {
        caller.post("/inbox/lease", json!({})).await.forbidden();
        caller.post("/heartbeat", json!({})).await.forbidden();
        caller.post("/inbox/ack", json!({"items": [{"id": "dlv_x", "generation": 1}]})).await.forbidden();
    }
    tokio::time::timeout(Duration::from_secs(5), async { w.builder.lease(1).await }).await.unwrap();
}
