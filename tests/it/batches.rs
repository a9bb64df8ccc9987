//! Section 4: private batches, all or nothing.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::{World, allow, contacts, target};
use serde_json::{Value, json};

on_both_stores!(
    each_target_gets_a_history_of_its_own,
    one_to_a_hundred_targets,
    duplicates_are_merged,
    groups_and_doubled_agents_are_refused,
    one_refused_target_refuses_all_and_is_named,
    an_ask_batch_is_independent_requests,
    an_ask_batch_checks_its_request,
);

async fn each_target_gets_a_history_of_its_own(w: World) {
    let body = json!({"targets": [w.ann.target(), w.billing.target()], "body": "b", "title": "T"});
    let items = w.builder.api.post("/messages/batch", body).await.created();
    let items = items.as_array().unwrap();
    assert_eq!(items.iter().map(|i| i["target"].clone()).collect::<Vec<_>>(), [w.ann.target(), w.billing.target()]);
    assert_ne!(items[0]["result"]["conversation_id"], items[1]["result"]["conversation_id"]);
    for item in items {
        assert_eq!(item["result"].list("messages").len(), 1);
        let conversation = w.conversation(&w.builder.api, &item["result"].s("conversation_id")).await;
        assert_eq!((conversation["title"].as_str(), conversation.list("participants").len()), (Some("T"), 2));
    }
    w.billing.api.get(&format!("/conversations/{}", items[0]["result"].s("conversation_id"))).await.not_found();
    assert_eq!(w.billing.lease_one().await["payload"]["conversation_id"], items[1]["result"]["conversation_id"]);
}

async fn people(w: &World, count: usize) -> Vec<Value> {
    let mut targets = Vec::new();
    for at in 0..count {
        let body = json!({"name": format!("S{at}"), "external_id": format!("s{at}")});
        targets.push(target("service", &w.owner.api.post("/services", body).await.created().id()));
    }
    targets
}

async fn one_to_a_hundred_targets(w: World) {
    let targets = people(&w, 101).await;
    let send = |targets: &[Value]| w.owner.api.post("/messages/batch", json!({"targets": targets, "body": "b"}));
    let ask = |targets: &[Value]| w.owner.api.post("/requests/batch", json!({"targets": targets, "request": {"body": "b"}}));
    send(&[]).await.invalid("targets");
    ask(&[]).await.invalid("targets");
    send(&targets).await.invalid("targets");
    ask(&targets).await.invalid("targets");
    assert_eq!(send(&targets[..100]).await.created().as_array().unwrap().len(), 100);
    assert_eq!(ask(&targets[..100]).await.created().as_array().unwrap().len(), 100);
    w.owner.api.post("/messages/batch", json!({"targets": targets[..1], "body": ""})).await.refused(400, "invalid_request");
}

async fn duplicates_are_merged(w: World) {
    let by_name = target("agent", "team/billing-2");
    let targets = [w.billing.target(), by_name, w.ann.target(), w.billing.target()];
    let items = w.builder.api.post("/messages/batch", json!({"targets": targets, "body": "b"})).await.created();
    assert_eq!(items.as_array().unwrap().len(), 2);
    assert_eq!(w.billing.drain().await.len(), 1);
    let items = w.builder.api.post("/requests/batch", json!({"targets": targets, "request": {"body": "b"}})).await.created();
    assert_eq!(items.as_array().unwrap().len(), 2);
    assert_eq!(w.billing.drain().await.len(), 1);
}

async fn groups_and_doubled_agents_are_refused(w: World) {
    let group = w.group("G", &[&w.ann.id]).await;
    for (second, request) in [(target("group", &group), 400), (w.billing.exact(), 400)] {
        let targets = json!([w.billing.target(), second]);
        let message = w.owner.api.post("/messages/batch", json!({"targets": targets, "body": "b"})).await;
        assert_eq!((message.status, message.code().as_str()), (request, "invalid_request"), "{}", message.text);
        let asked = w.owner.api.post("/requests/batch", json!({"targets": targets, "request": {"body": "b"}})).await;
        assert_eq!((asked.status, asked.code().as_str()), (request, "invalid_request"), "{}", asked.text);
    }
    assert!(w.billing.lease(10).await.is_empty());
}

async fn one_refused_target_refuses_all_and_is_named(w: World) {
    let mut rules = contacts(&[w.ann.target(), w.billing.target()]);
    rules.push(allow("view", w.hidden.target()));
    w.policy(&w.builder.target(), rules).await;
    for (bad, status, code) in [
        (w.bob.target(), 404, "not_found"),
        (w.hidden.target(), 403, "forbidden"),
        (target("agent", "agt_none"), 404, "not_found"),
        (w.builder.target(), 400, "invalid_request"),
    ] {
        for at in 0..3 {
            let mut targets = vec![w.ann.target(), w.billing.target()];
            targets.insert(at, bad.clone());
            let name = format!("targets[{at}]");
            let sent = w.builder.api.post("/messages/batch", json!({"targets": targets, "body": "b"})).await;
            assert!(sent.text.contains(&name), "{name}: {}", sent.text);
            sent.refused(status, code);
            let asked = w.builder.api.post("/requests/batch", json!({"targets": targets, "request": {"body": "b"}})).await;
            assert!(asked.text.contains(&name), "{name}: {}", asked.text);
            asked.refused(status, code);
        }
    }
    assert!(w.billing.lease(10).await.is_empty(), "a refused batch stored something");
}

async fn an_ask_batch_is_independent_requests(w: World) {
    let request = json!({"body": "ready?", "choices": ["yes", "no"], "title": "T"});
    let body = json!({"targets": [w.ann.target(), w.billing.target()], "request": request});
    let items = w.builder.api.post("/requests/batch", body).await.created();
    let ids = [items[0]["request"].id(), items[1]["request"].id()];
    assert_ne!(ids[0], ids[1]);
    assert_eq!(items[0]["request"]["recipient_ids"], json!([w.ann.id]));
    assert_eq!(items[1]["request"]["recipient_ids"], json!([w.billing.id]));
    let decision = json!({"outcome": "answered", "answer": "yes", "version": 1});
    w.ann.api.post(&format!("/requests/{}/respond", ids[0]), decision.clone()).await.ok();
    assert_eq!(w.builder.api.get(&format!("/requests/{}", ids[1])).await.ok()["state"], "open");
    w.ann.api.get(&format!("/requests/{}", ids[1])).await.not_found();
    w.billing.api.post(&format!("/requests/{}/respond", ids[1]), decision).await.ok();
}

async fn an_ask_batch_checks_its_request(w: World) {
    let ask = |request: Value| w.builder.api.post("/requests/batch", json!({"targets": [w.ann.target()], "request": request}));
    ask(json!({"body": "x", "target": w.ann.target()})).await.refused(400, "invalid_request");
    let (conversation, _) = w.send(&w.builder.api, &w.ann.target(), "x").await;
    ask(json!({"body": "x", "conversation_id": conversation})).await.refused(400, "invalid_request");
    ask(json!({"body": "x", "kind": "riddle"})).await.invalid("kind");
    ask(json!({"body": "x".repeat(32 * 1024 + 1)})).await.invalid("body");
    w.builder.api.post("/requests/batch", json!({"targets": [w.ann.target()]})).await.invalid("request");
}
