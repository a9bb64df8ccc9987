//! Section 7: what is delivered to whom, in which order, to which instance.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::{Worker, World};
use serde_json::{Value, json};

on_both_stores!(
    deliveries_come_in_order_of_creation,
    a_conversation_stays_with_its_leaseholder,
    a_held_delivery_holds_back_its_conversation_alone,
    a_redelivery_keeps_its_place,
    the_limit_is_kept,
    kinds_filter,
    results_come_first_and_past_a_held_conversation,
    a_result_is_kept_for_the_instance_that_asked,
    a_result_goes_to_another_instance_after_a_day,
    a_result_goes_to_another_instance_when_the_asker_is_revoked,
    what_is_pinned_to_a_gone_instance_is_parked,
    an_instance_message_ignores_its_conversation,
    a_request_closed_before_it_was_leased_is_never_delivered,
    a_request_closed_after_it_was_leased_is_withdrawn,
    every_final_state_of_ones_own_request_is_a_result,
    a_message_to_an_agent_goes_to_one_instance,
    what_may_no_longer_be_seen_is_withdrawn,
);

fn bodies(deliveries: &[Value]) -> Vec<String> {
    deliveries.iter().map(|d| d["payload"]["message"].s("body")).collect()
}

async fn lease_kinds(worker: &Worker, kinds: &[&str]) -> Vec<Value> {
    worker.api.post("/inbox/lease", json!({"kinds": kinds})).await.ok().as_array().unwrap().clone()
}

async fn release(worker: &Worker, delivery: &Value, delay: i64) {
    let body = json!({"generation": delivery["generation"], "delay_seconds": delay});
    worker.api.post(&format!("/inbox/{}/release", delivery.id()), body).await.ok();
}

async fn deliveries_come_in_order_of_creation(w: World) {
    let mut expected = Vec::new();
    let (one, _) = w.send(&w.builder.api, &w.billing.target(), "one 0").await;
    let (two, _) = w.send(&w.ann.api, &w.billing.target(), "two 0").await;
    expected.extend(["one 0".to_owned(), "two 0".to_owned()]);
    for at in 1..5 {
        w.say(&w.builder.api, &one, &format!("one {at}")).await;
        w.say(&w.ann.api, &two, &format!("two {at}")).await;
        expected.extend([format!("one {at}"), format!("two {at}")]);
    }
    // One call may return several of one conversation, in order.
    let leased = w.billing.lease(100).await;
    assert_eq!(bodies(&leased), expected);
    let mut ids: Vec<_> = leased.iter().map(Members::id).collect();
    let given = ids.clone();
    ids.sort();
    assert_eq!(ids, given);
}

async fn a_conversation_stays_with_its_leaseholder(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    let (one, _) = w.send(&w.builder.api, &w.billing.target(), "one 0").await;
    w.say(&w.builder.api, &one, "one 1").await;
    let (two, _) = w.send(&w.builder.api, &w.billing.target(), "two 0").await;
    let first = w.billing.lease(1).await;
    assert_eq!(bodies(&first), ["one 0"]);
    // The second instance gets nothing of it, but the other conversation.
    assert_eq!(bodies(&second.lease(10).await), ["two 0"]);
    w.say(&w.builder.api, &two, "two 1").await;
    // Neither does its holder get more of it: the answer to an earlier lease may have been lost.
    assert!(w.billing.lease(10).await.is_empty());
    assert!(second.lease(10).await.is_empty());
    w.billing.ack(&first[0]).await;
    w.say(&w.builder.api, &one, "one 2").await;
    assert_eq!(bodies(&w.billing.lease(10).await), ["one 1", "one 2"]);
    assert!(second.lease(10).await.is_empty());
    // With all acknowledged it is free.
    let third = w.enroll("team/billing-2", "Billing 2").await;
    w.advance(31);
    w.billing.drain().await;
    second.drain().await;
    w.say(&w.builder.api, &one, "one 3").await;
    assert_eq!(bodies(&third.lease(10).await), ["one 3"]);
}

async fn a_held_delivery_holds_back_its_conversation_alone(w: World) {
    let (one, _) = w.send(&w.builder.api, &w.billing.target(), "one 0").await;
    w.say(&w.builder.api, &one, "one 1").await;
    w.send(&w.ann.api, &w.billing.target(), "two 0").await;
    let first = w.billing.lease(1).await.remove(0);
    release(&w.billing, &first, 600).await;
    assert_eq!(bodies(&w.billing.lease(10).await), ["two 0"]);
    w.advance(599);
    assert_eq!(bodies(&w.billing.drain().await), ["two 0"]);
    w.advance(1);
    assert_eq!(bodies(&w.billing.lease(10).await), ["one 0", "one 1"]);
}

async fn a_redelivery_keeps_its_place(w: World) {
    for at in 0..3 {
        w.send(&w.builder.api, &w.billing.target(), &format!("{at}")).await;
    }
    w.billing.lease(2).await;
    w.send(&w.builder.api, &w.billing.target(), "3").await;
    w.advance(30);
    assert_eq!(bodies(&w.billing.lease(10).await), ["0", "1", "2", "3"]);
}

async fn the_limit_is_kept(w: World) {
    for at in 0..15 {
        w.send(&w.builder.api, &w.billing.target(), &at.to_string()).await;
    }
    assert_eq!(w.billing.api.post("/inbox/lease", json!({})).await.ok().as_array().unwrap().len(), 10);
    assert_eq!(w.billing.lease(3).await.len(), 3);
    assert_eq!(w.billing.lease(100).await.len(), 2);
}

async fn kinds_filter(w: World) {
    w.send(&w.builder.api, &w.billing.target(), "m").await;
    let asked = w.ask(&w.billing.api, &w.ann.target(), "q").await.id();
    w.ask(&w.builder.api, &w.billing.target(), "q").await;
    w.ann.api.post(&format!("/requests/{asked}/respond"), json!({"outcome": "answered", "version": 1})).await.ok();
    assert!(lease_kinds(&w.billing, &["request_withdrawn"]).await.is_empty());
    assert_eq!(json!(lease_kinds(&w.billing, &["request_result"]).await).each("kind"), ["request_result"]);
    assert_eq!(json!(lease_kinds(&w.billing, &["request", "request_result"]).await).each("kind"), ["request"]);
    assert_eq!(json!(lease_kinds(&w.billing, &[]).await).each("kind"), ["message"]);
}

async fn results_come_first_and_past_a_held_conversation(w: World) {
    let asked = w.ask(&w.billing.api, &w.ann.target(), "q").await;
    let conversation = asked.s("conversation_id");
    w.say(&w.ann.api, &conversation, "thinking").await;
    w.send(&w.builder.api, &w.billing.target(), "other").await;
    let held = w.billing.lease(1).await.remove(0);
    release(&w.billing, &held, 600).await;
    let decision = json!({"outcome": "answered", "answer": "yes", "version": 1});
    w.ann.api.post(&format!("/requests/{}/respond", asked.id()), decision).await.ok();
    let both = w.billing.lease(10).await;
    assert_eq!(json!(both).each("kind"), ["request_result", "message"]);
    let result = &both[0]["payload"];
    assert_eq!(result.s("conversation_id"), conversation);
    assert_eq!((result["request"].id(), result["request"]["response"]["answer"].as_str()), (asked.id(), Some("yes")));
    assert!(result.get("message").is_none());
}

async fn answered(w: &World, from: &Worker) -> String {
    let asked = w.ask(&from.api, &w.ann.target(), "q").await.id();
    w.ann.api.post(&format!("/requests/{asked}/respond"), json!({"outcome": "answered", "version": 1})).await.ok();
    asked
}

async fn a_result_is_kept_for_the_instance_that_asked(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    answered(&w, &second).await;
    assert!(w.billing.lease(10).await.is_empty());
    assert_eq!(second.lease_one().await["kind"], "request_result");
}

async fn a_result_goes_to_another_instance_after_a_day(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    answered(&w, &second).await;
    w.advance(86_400 - 60);
    assert!(w.billing.lease(10).await.is_empty());
    w.advance(120);
    let result = beepgrid_tests::wait::until("the result is anybody's", || async { w.billing.lease(10).await.pop() }).await;
    assert_eq!(result["kind"], "request_result");
}

async fn a_result_goes_to_another_instance_when_the_asker_is_revoked(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    let asked = w.ask(&second.api, &w.ann.target(), "q").await.id();
    let credential = second.api.get("/me").await.ok()["credential"].id();
    w.owner.api.post(&format!("/credentials/{credential}/revoke"), json!({})).await.ok();
    w.ann.api.post(&format!("/requests/{asked}/respond"), json!({"outcome": "answered", "version": 1})).await.ok();
    assert_eq!(w.billing.lease_one().await["payload"]["request"].id(), asked);
}

async fn what_is_pinned_to_a_gone_instance_is_parked(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    w.send(&w.builder.api, &second.exact(), "pinned").await;
    let credential = second.api.get("/me").await.ok()["credential"].id();
    w.owner.api.post(&format!("/credentials/{credential}/revoke"), json!({})).await.ok();
    assert!(w.billing.lease(10).await.is_empty());
    w.builder.api.post("/messages", json!({"target": second.exact(), "body": "x"})).await.forbidden();
    // Nothing else of the agent is held back by it.
    w.send(&w.builder.api, &w.billing.target(), "free").await;
    assert_eq!(bodies(&w.billing.lease(10).await), ["free"]);
}

async fn an_instance_message_ignores_its_conversation(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    let (one, _) = w.send(&w.builder.api, &w.billing.target(), "one").await;
    let held = w.billing.lease_one().await;
    let body = json!({"target": second.exact(), "body": "pinned", "reuse_direct": true});
    let pinned = w.builder.api.post("/messages", body).await.created().s("conversation_id");
    assert_eq!(pinned, one, "the two-person history is that of the agent");
    assert_eq!(bodies(&second.lease(10).await), ["pinned"]);
    w.billing.ack(&held).await;
}

async fn a_request_closed_before_it_was_leased_is_never_delivered(w: World) {
    let asked = w.ask(&w.builder.api, &w.billing.target(), "q").await;
    w.say(&w.builder.api, &asked.s("conversation_id"), "never mind").await;
    w.builder.api.post(&format!("/requests/{}/cancel", asked.id()), json!({"version": 1})).await.ok();
    // It does not hold back the rest of its conversation either.
    assert_eq!(bodies(&w.billing.drain().await), ["never mind"]);
}

async fn a_request_closed_after_it_was_leased_is_withdrawn(w: World) {
    for acked in [true, false] {
        let asked = w.ask(&w.builder.api, &w.billing.target(), "q").await.id();
        let leased = w.billing.lease_one().await;
        if acked {
            w.billing.ack(&leased).await;
        }
        w.builder.api.post(&format!("/requests/{asked}/cancel"), json!({"version": 1})).await.ok();
        let withdrawn = w.billing.lease_one().await;
        assert_eq!(
            (withdrawn["kind"].as_str(), withdrawn["payload"]["type"].as_str()),
            (Some("request_withdrawn"), Some("request_withdrawn"))
        );
        let request = &withdrawn["payload"]["request"];
        assert_eq!((request.id(), request["state"].as_str(), request.n("version")), (asked, Some("cancelled"), 2));
        w.billing.ack(&withdrawn).await;
        w.advance(3_600);
        assert!(w.billing.lease(10).await.is_empty(), "acked: {acked}");
        // An ack of what was withdrawn under its lease is no fault of the worker's.
        if !acked {
            let late = w.billing.api.post(&format!("/inbox/{}/ack", leased.id()), json!({"generation": 1})).await;
            assert!(matches!(late.status, 200 | 409), "{}", late.text);
        }
        w.builder.drain().await;
    }
    // Whoever decides itself hears nothing of a withdrawal.
    let asked = w.ask(&w.builder.api, &w.billing.target(), "q").await.id();
    w.billing.drain().await;
    w.billing.api.post(&format!("/requests/{asked}/respond"), json!({"outcome": "answered", "version": 1})).await.ok();
    assert!(w.billing.lease(10).await.is_empty());
}

async fn every_final_state_of_ones_own_request_is_a_result(w: World) {
    let ask = |extra: Value| {
        let mut body = json!({"target": w.ann.target(), "body": "q"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        w.builder.api.post("/requests", body)
    };
    let asked = ask(json!({})).await.created().id();
    w.ann.api.post(&format!("/requests/{asked}/respond"), json!({"outcome": "answered", "version": 1})).await.ok();
    assert_eq!(w.builder.drain().await[0]["payload"]["request"]["state"], "resolved");
    let asked = ask(json!({})).await.created().id();
    w.owner.api.post(&format!("/requests/{asked}/cancel"), json!({"version": 1})).await.ok();
    assert_eq!(w.builder.drain().await[0]["payload"]["request"]["state"], "cancelled");
    ask(json!({"expires_at": w.after(5).to_string()})).await.created();
    w.advance(6);
    let expired = beepgrid_tests::wait::until("the sweeper", || async { w.builder.lease(10).await.pop() }).await;
    assert_eq!(expired["payload"]["request"]["state"], "expired");
}

async fn a_message_to_an_agent_goes_to_one_instance(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    for at in 0..10 {
        w.send(&w.builder.api, &w.billing.target(), &at.to_string()).await;
    }
    let first = w.billing.lease(4).await;
    let rest = second.lease(100).await;
    assert_eq!((first.len(), rest.len()), (4, 6));
    let mut all: Vec<_> = first.iter().chain(&rest).map(Members::id).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 10);
}

async fn what_may_no_longer_be_seen_is_withdrawn(w: World) {
    w.send(&w.ann.api, &w.billing.target(), "from ann").await;
    w.send(&w.builder.api, &w.billing.target(), "from builder").await;
    let leased = w.billing.lease(10).await;
    assert_eq!(leased.len(), 2);
    w.policy(&w.billing.target(), vec![beepgrid_tests::world::deny("view", w.ann.target())]).await;
    w.advance(31);
    assert_eq!(bodies(&w.billing.lease(10).await), ["from builder"]);
}
