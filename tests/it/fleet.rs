//! Section 9, fleet status; field report B47 (a): rings of agents that wait for each other.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::{Worker, World, allow, target};
use serde_json::{Value, json};

on_both_stores!(
    a_status_shows_what_the_caller_may_see,
    two_that_wait_for_each_other_are_a_ring,
    three_in_a_ring_and_one_outside,
    every_request_of_a_ring_can_still_end,
);

async fn wait_for(from: &Worker, on: &Worker) -> Value {
    from.api.post("/requests", json!({"target": on.target(), "body": "needed", "blocking": true})).await.created()
}

fn ring(ids: &[&str]) -> Vec<String> {
    let smallest = (0..ids.len()).min_by_key(|at| ids[*at]).unwrap();
    (0..ids.len()).map(|at| ids[(smallest + at) % ids.len()].to_owned()).collect()
}

async fn everybody_knows(w: &World) {
    w.acquaint(&[&w.ann.id, &w.builder.id, &w.billing.id, &w.hidden.id]).await;
}

async fn a_status_shows_what_the_caller_may_see(w: World) {
    let status = w.owner.api.get("/fleet/status").await.ok();
    assert_eq!((status["mode"].as_str(), &status["commands_supported"]), (Some("read_only"), &json!(false)));
    assert_eq!(status["observed_at"], json!(w.site.now().to_string()));
    assert_eq!(status.list("agents").len(), 3);
    assert!(status.get("truncated").is_none_or(|v| v == false));
    let first = &status["agents"][0];
    assert_eq!((first["agent"].id(), &first["fresh"]), (w.builder.id.clone(), &json!(true)));
    assert_eq!(first["instances"].each("id"), [w.builder.instance.clone()]);
    let seen = |status: Value| status.list("agents").iter().map(|agent| agent["agent"].s("name")).collect::<Vec<_>>();
    assert_eq!(seen(w.ann.api.get("/fleet/status").await.ok()), ["Builder 7", "Billing 2"]);
    assert_eq!(seen(w.bob.api.get("/fleet/status").await.ok()), Vec::<String>::new());
    assert_eq!(seen(w.hidden.api.get("/fleet/status").await.ok()), ["Hidden 9"]);
    w.advance(46);
    assert_eq!(w.owner.api.get("/fleet/status").await.ok()["agents"][0]["fresh"], false);
    // An ordinary question, or a blocking one that has ended, is no dependency.
    w.ask(&w.builder.api, &w.billing.target(), "when you can").await;
    let ended = wait_for(&w.builder, &w.billing).await;
    let wait = w.owner.api.get("/fleet/status").await.ok();
    let expected = json!({
        "request_id": ended["id"], "agent_id": w.builder.id, "waits_for_agent_id": w.billing.id, "since": ended["created_at"],
    });
    assert_eq!((&wait["dependencies"], &wait["cycles"]), (&json!([expected]), &json!([])));
    w.builder.api.post(&format!("/requests/{}/cancel", ended.id()), json!({"version": 1})).await.ok();
    assert_eq!(w.owner.api.get("/fleet/status").await.ok()["dependencies"], json!([]));
}

async fn two_that_wait_for_each_other_are_a_ring(w: World) {
    wait_for(&w.builder, &w.billing).await;
    assert_eq!(w.ann.api.get("/fleet/status").await.ok()["cycles"], json!([]));
    let back = wait_for(&w.billing, &w.builder).await;
    let expected = json!([ring(&[&w.builder.id, &w.billing.id])]);
    for reader in [&w.owner.api, &w.ann.api, &w.builder.api] {
        let status = reader.get("/fleet/status").await.ok();
        assert_eq!((&status["cycles"], status.list("dependencies").len()), (&expected, 2));
    }
    // Who sees only one of the two learns of neither.
    w.policy(&w.bob.target(), vec![allow("view", w.builder.target())]).await;
    let part = w.bob.api.get("/fleet/status").await.ok();
    assert_eq!((&part["cycles"], &part["dependencies"]), (&json!([]), &json!([])));
    // What no longer blocks is no ring.
    let path = format!("/requests/{}/blocking", back.id());
    w.billing.api.post(&path, json!({"blocking": false})).await.ok();
    assert_eq!(w.owner.api.get("/fleet/status").await.ok()["cycles"], json!([]));
}

async fn three_in_a_ring_and_one_outside(w: World) {
    everybody_knows(&w).await;
    let outside = w.enroll("team/outside-1", "Outside 1").await;
    w.policy(&outside.target(), vec![allow("ask", target("agent", "*"))]).await;
    for (from, on) in [(&w.builder, &w.billing), (&w.billing, &w.hidden), (&w.hidden, &w.builder), (&outside, &w.builder)] {
        wait_for(from, on).await;
    }
    let status = w.owner.api.get("/fleet/status").await.ok();
    assert_eq!(status["cycles"], json!([ring(&[&w.builder.id, &w.billing.id, &w.hidden.id])]));
    assert_eq!(status.list("dependencies").len(), 4);
    // A shortcut makes the ring of two the shortest of the knot.
    wait_for(&w.billing, &w.builder).await;
    let status = w.owner.api.get("/fleet/status").await.ok();
    assert_eq!(status["cycles"], json!([ring(&[&w.builder.id, &w.billing.id])]));
}

async fn every_request_of_a_ring_can_still_end(w: World) {
    everybody_knows(&w).await;
    let answered = wait_for(&w.builder, &w.billing).await.id();
    let cancelled = wait_for(&w.billing, &w.hidden).await.id();
    let expires = json!({"target": w.builder.target(), "body": "x", "blocking": true, "expires_at": w.after(60).to_string()});
    let expired = w.hidden.api.post("/requests", expires).await.created().id();
    let rings = || async { w.owner.api.get("/fleet/status").await.ok()["cycles"].as_array().unwrap().len() };
    assert_eq!(rings().await, 1);
    w.advance(60);
    assert_eq!(rings().await, 0);
    assert_eq!(w.hidden.api.get(&format!("/requests/{expired}")).await.ok()["state"], "expired");
    let decision = json!({"outcome": "answered", "answer": "done", "version": 1});
    w.billing.api.post(&format!("/requests/{answered}/respond"), decision).await.ok();
    w.billing.api.post(&format!("/requests/{cancelled}/cancel"), json!({"version": 1})).await.ok();
    assert_eq!(w.owner.api.get("/fleet/status").await.ok()["dependencies"], json!([]));
}
