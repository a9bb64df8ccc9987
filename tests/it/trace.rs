//! Superseding, blocking and the trace of a request.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Api, Members};
use beepgrid_tests::world::{World, allow, contacts, target};
use serde_json::{Value, json};

on_both_stores!(
    superseding_marks_and_asks_nobody,
    blocking_is_declared_and_taken_back,
    blocking_belongs_to_the_asking_agent,
    at_most_a_hundred_block,
    a_trace_tells_what_became_of_a_request,
    a_trace_goes_on_page_by_page,
    a_trace_is_its_requesters,
    who_manages_connections_sees_transport_alone,
    agents_in_a_ring_can_still_be_answered,
);

async fn trace(api: &Api, id: &str) -> Value {
    api.get(&format!("/requests/{id}/trace")).await.ok()
}

async fn block(api: &Api, id: &str, blocking: bool) -> beepgrid_tests::raw::Answer {
    api.post(&format!("/requests/{id}/blocking"), json!({"blocking": blocking})).await
}

async fn superseding_marks_and_asks_nobody(w: World) {
    let id = w.ask(&w.builder.api, &w.billing.target(), "q").await.id();
    let path = format!("/requests/{id}/supersede");
    w.billing.lease_one().await;
    for api in [&w.billing.api, &w.owner.api] {
        api.post(&path, json!({"version": 1})).await.forbidden();
    }
    w.bob.api.post(&path, json!({"version": 1})).await.not_found();
    w.builder.api.post(&path, json!({})).await.refused(400, "invalid_request");
    w.builder.api.post(&path, json!({"version": 2})).await.refused(409, "version_conflict");
    let end = w.builder.api.post(&path, json!({"version": 1})).key("k").await.ok();
    assert_eq!(
        (end["state"].as_str(), end.n("version"), end["closed_by"].as_str()),
        (Some("superseded"), 2, Some(w.builder.id.as_str()))
    );
    assert_eq!(w.builder.api.post(&path, json!({"version": 1})).key("k").await.ok(), end);
    w.builder.api.post(&path, json!({"version": 2})).await.refused(409, "request_closed");
    assert_eq!(w.builder.lease_one().await["kind"], "request_result");
    assert_eq!(w.billing.lease_one().await["kind"], "request_withdrawn");
}

async fn blocking_is_declared_and_taken_back(w: World) {
    let id = w.ask(&w.builder.api, &w.billing.target(), "q").await.id();
    let now = block(&w.builder.api, &id, true).await.ok();
    assert_eq!((now["blocking"].as_bool(), now.n("version"), now["state"].as_str()), (Some(true), 1, Some("open")));
    assert_eq!(block(&w.builder.api, &id, true).await.ok(), now);
    assert_eq!(w.billing.api.get(&format!("/requests/{id}")).await.ok()["blocking"], true);
    let events = w.builder.api.get("/events?limit=500").await.ok();
    let updated = events["items"].as_array().unwrap().iter().filter(|event| event["kind"] == "request.updated").count();
    assert_eq!(updated, 1, "saying it twice changes nothing");
    assert!(block(&w.builder.api, &id, false).await.ok().get("blocking").is_none());
    let body = json!({"outcome": "answered", "answer": "a", "version": 1});
    w.billing.api.post(&format!("/requests/{id}/respond"), body).await.ok();
    block(&w.builder.api, &id, true).await.refused(409, "request_closed");
}

async fn blocking_belongs_to_the_asking_agent(w: World) {
    let id = w.ask(&w.builder.api, &w.billing.target(), "q").await.id();
    for api in [&w.billing.api, &w.owner.api] {
        block(api, &id, true).await.forbidden();
    }
    block(&w.bob.api, &id, true).await.not_found();
    w.builder.api.post(&format!("/requests/{id}/blocking"), json!({})).await.refused(400, "invalid_request");
    let of_person = w.ask(&w.ann.api, &w.billing.target(), "q").await.id();
    block(&w.ann.api, &of_person, true).await.forbidden();
    let to_person = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    block(&w.builder.api, &to_person, true).await.forbidden();
    w.policy(&w.builder.target(), contacts(&[w.billing.target(), w.hidden.target()])).await;
    let group = w.group("Both", &[&w.billing.id, &w.hidden.id]).await;
    w.policy(&w.builder.target(), vec![allow("ask", target("group", &group))]).await;
    let of_group = w.ask(&w.builder.api, &target("group", &group), "q").await.id();
    block(&w.builder.api, &of_group, true).await.forbidden();
}

async fn at_most_a_hundred_block(w: World) {
    let mut last = String::new();
    for _ in 0..100 {
        let body = json!({"target": w.billing.target(), "body": "q", "blocking": true});
        last = w.builder.api.post("/requests", body).await.created().id();
    }
    let more = w.ask(&w.builder.api, &w.billing.target(), "q").await.id();
    block(&w.builder.api, &more, true).await.refused(429, "rate_limited");
    block(&w.builder.api, &last, false).await.ok();
    block(&w.builder.api, &more, true).await.ok();
}

async fn a_trace_tells_what_became_of_a_request(w: World) {
    let id = w.ask(&w.builder.api, &w.billing.target(), "q").await.id();
    let before = trace(&w.builder.api, &id).await;
    let row = &before["deliveries"][0];
    assert_eq!((row.s("recipient_id"), row["state"].as_str(), row.n("attempt")), (w.billing.id.clone(), Some("ready"), 0));
    assert_eq!(row["at"], json!(w.site.now().to_string()));
    assert_eq!((&before["executions"], &before["answers"], before.get("next_cursor")), (&json!([]), &json!([]), None));
    w.advance(5);
    let delivery = w.billing.lease_one().await;
    let leased = trace(&w.builder.api, &id).await;
    let row = &leased["deliveries"][0];
    assert_eq!((row.id(), row["state"].as_str(), row.n("attempt")), (delivery.id(), Some("leased"), 1));
    assert_eq!((row.s("instance_id"), &row["at"]), (w.billing.instance.clone(), &json!(w.site.now().to_string())));
    w.billing.ack(&delivery).await;
    let body = json!({"outcome": "answered", "answer": "a", "version": 1});
    w.billing.api.post(&format!("/requests/{id}/respond"), body).await.ok();
    let after = trace(&w.builder.api, &id).await;
    let rows: Vec<(String, String)> =
        after["deliveries"].as_array().unwrap().iter().map(|row| (row.s("kind"), row.s("state"))).collect();
    assert_eq!(rows, [("request".into(), "acked".into()), ("request_result".into(), "ready".into())]);
    assert_eq!(after["request"], w.builder.api.get(&format!("/requests/{id}")).await.ok());
    assert_eq!(trace(&w.owner.api, &id).await["deliveries"], after["deliveries"]);
}

async fn a_trace_goes_on_page_by_page(w: World) {
    let mut members = Vec::new();
    for at in 0..150 {
        let body = json!({"name": format!("A {at}"), "external_id": format!("many/{at}")});
        members.push(w.owner.api.post("/agents", body).await.created().id());
    }
    let names: Vec<&str> = members.iter().map(String::as_str).collect();
    let group = w.group("Many", &names).await;
    let id = w.ask(&w.owner.api, &target("group", &group), "q").await.id();
    let path = format!("/requests/{id}/trace");
    let first = w.owner.api.get(&path).await.ok();
    let cursor = first.s("next_cursor");
    let second = w.owner.api.get(&format!("{path}?cursor={cursor}")).await.ok();
    assert!(second.get("next_cursor").is_none());
    let mut seen: Vec<String> = [&first, &second].iter().flat_map(|page| page["deliveries"].each("recipient_id")).collect();
    seen.sort();
    members.sort();
    assert_eq!(seen, members);
    let other = w.ask(&w.owner.api, &target("group", &group), "q").await.id();
    for wrong in
        [format!("/requests/{other}/trace?cursor={cursor}"), format!("{path}?cursor=zz"), format!("{path}?cursor={cursor}00")]
    {
        w.owner.api.get(&wrong).await.refused(400, "invalid_cursor");
    }
    w.owner.api.get(&format!("{path}?page=2")).await.invalid("page");
    w.advance(24 * 3600 + 1);
    w.owner.api.get(&format!("{path}?cursor={cursor}")).await.refused(410, "cursor_expired");
}

async fn a_trace_is_its_requesters(w: World) {
    let id = w.ask(&w.builder.api, &w.billing.target(), "q").await.id();
    w.billing.api.get(&format!("/requests/{id}/trace")).await.forbidden();
    w.bob.api.get(&format!("/requests/{id}/trace")).await.not_found();
    w.builder.api.get("/requests/req_none/trace").await.not_found();
    w.builder.api.nobody().get(&format!("/requests/{id}/trace")).await.refused(401, "unauthorized");
}

async fn who_manages_connections_sees_transport_alone(w: World) {
    let id = w.ask(&w.builder.api, &w.billing.target(), "secret words").await.id();
    w.billing.lease_one().await;
    w.delegate("connection", &w.bob.id).await;
    let seen = w.bob.api.get(&format!("/requests/{id}/trace")).await;
    assert!(!seen.text.contains("secret words"));
    let seen = seen.ok();
    assert_eq!(seen["request"], json!({"id": id, "state": "open", "version": 1}));
    assert_eq!(seen["deliveries"].as_array().unwrap().len(), 1);
    assert!(seen["deliveries"][0].get("instance_id").is_none(), "it may not view the agent");
    w.bob.api.get(&format!("/requests/{id}")).await.not_found();
    w.bob.api.get("/requests/req_none/trace").await.not_found();
}

async fn agents_in_a_ring_can_still_be_answered(w: World) {
    let cast = [w.builder.id.as_str(), w.billing.id.as_str(), w.hidden.id.as_str()];
    w.acquaint(&cast).await;
    let ring = [(&w.builder, &w.billing), (&w.billing, &w.hidden), (&w.hidden, &w.builder)];
    let mut ids = Vec::new();
    for (from, to) in ring {
        let body = json!({"target": to.target(), "body": "first you", "blocking": true, "expires_at": w.after(60).to_string()});
        ids.push(from.api.post("/requests", body).await.created().id());
    }
    let cycles = w.owner.api.get("/fleet/status").await.ok()["cycles"].clone();
    let mut named = cycles[0].as_array().unwrap().clone();
    named.sort_by_key(Value::to_string);
    let mut all = cast.map(|id| json!(id));
    all.sort_by_key(Value::to_string);
    assert_eq!((cycles.as_array().unwrap().len(), named), (1, all.to_vec()));
    assert_eq!(w.bob.api.get("/fleet/status").await.ok()["cycles"], json!([]), "to those who may see it");
    let body = json!({"outcome": "answered", "answer": "go", "version": 1});
    w.billing.api.post(&format!("/requests/{}/respond", ids[0]), body).await.ok();
    assert_eq!(w.owner.api.get("/fleet/status").await.ok()["cycles"], json!([]), "an answer opens the ring");
    w.billing.api.post(&format!("/requests/{}/cancel", ids[1]), json!({"version": 1})).await.ok();
    w.advance(60);
    assert_eq!(w.hidden.api.get(&format!("/requests/{}", ids[2])).await.ok()["state"], "expired");
}
