//! Section 3, and the field reports B15 and B16.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Answer, Api, Members};
use beepgrid_tests::stores::Kind;
use beepgrid_tests::world::{World, contacts, credential};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reqwest::Method;
use serde_json::{Value, json};

on_both_stores!(
    keys_are_1_to_200_printable_bytes,
    the_same_request_replays,
    order_spacing_and_defaults_do_not_matter,
    prefer_does_not_matter,
    another_body_conflicts_and_shows_nothing,
    another_path_conflicts,
    other_operations_and_principals_have_their_own_keys,
    another_credential_of_the_same_principal_replays,
    twenty_at_once_have_one_effect,
    a_refused_request_consumes_no_key,
    keys_are_refused_where_they_mean_nothing,
    every_keyed_write_replays,
    replace_needs_a_key,
    a_replay_shows_only_what_present_access_allows,
    keys_outlive_months,
    without_a_key_every_call_counts,
);

fn message(w: &World) -> Value {
    json!({"target": w.billing.target(), "body": "once"})
}

async fn stored(w: &World) -> usize {
    w.billing.drain().await.len()
}

async fn keys_are_1_to_200_printable_bytes(w: World) {
    let send = |key: &str| w.builder.api.post("/messages", message(&w)).key(key);
    for key in ["", " ", "two words", "tab\tbed", "grün", "\u{7f}", &"k".repeat(201)] {
        if key.bytes().any(|b| b == 0x7f) {
            continue; // no header can carry it
        }
        let answer = send(key).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{key:?}");
    }
    for key in ["k", "!~\"'(){}[]", &"k".repeat(200)] {
        send(key).await.created();
        send(key).await.ok();
    }
    assert_eq!(stored(&w).await, 3);
}

async fn the_same_request_replays(w: World) {
    let first = w.builder.api.post("/messages", message(&w)).key("k").await.created();
    let again = w.builder.api.post("/messages", message(&w)).key("k").await.ok();
    assert_eq!(first, again);
    assert_eq!(stored(&w).await, 1);
    let asked = w.builder.api.post("/requests", message(&w)).key("k").await.created();
    assert_eq!(w.builder.api.post("/requests", message(&w)).key("k").await.ok().id(), asked.id());
    assert_eq!(stored(&w).await, 1);
}

async fn order_spacing_and_defaults_do_not_matter(w: World) {
    let id = &w.billing.id;
    let first = w.builder.api.post("/messages", message(&w)).key("k").await.created();
    let send = |text: String| w.builder.api.call(Method::POST, "/messages").text(text).key("k");
    for text in [
        format!("{{\"body\":\"once\",\"target\":{{\"id\":\"{id}\",\"kind\":\"agent\"}}}}"),
        format!("{{\n  \"target\" : {{\"kind\" : \"agent\", \"id\" : \"{id}\"}} ,\n  \"body\" : \"\\u006fnce\"\n}}\n"),
        format!(
            "{{\"target\":{{\"kind\":\"agent\",\"id\":\"{id}\"}},\"body\":\"once\",\"title\":\"\",\"mentions\":[],\"reuse_direct\":false}}"
        ),
        format!("{{\"target\":{{\"kind\":\"agent\",\"id\":\"{id}\"}},\"body\":\"once\",\"title\":null,\"attachment_ids\":null}}"),
    ] {
        assert_eq!(send(text).await.ok(), first);
    }
    assert_eq!(stored(&w).await, 1);
}

async fn prefer_does_not_matter(w: World) {
    let minimal = |key: &str| w.builder.api.post("/messages", message(&w)).key(key).header("prefer", "return=minimal");
    let receipt = minimal("a").await.created();
    assert_eq!(receipt, json!({"conversation_id": receipt["conversation_id"], "message_count": 1}));
    assert_eq!(minimal("a").await.ok(), receipt);
    let full = w.builder.api.post("/messages", message(&w)).key("a").await.ok();
    assert_eq!(full["conversation_id"], receipt["conversation_id"]);
    assert_eq!(full["messages"][0]["body"], "once");
    let full = w.builder.api.post("/messages", message(&w)).key("b").await.created();
    assert_eq!(minimal("b").await.ok(), json!({"conversation_id": full["conversation_id"], "message_count": 1}));
    assert_eq!(stored(&w).await, 2);
}

async fn another_body_conflicts_and_shows_nothing(w: World) {
    let first = w.builder.api.post("/messages", message(&w)).key("k").await.created();
    let mut others =
        vec![json!({"target": w.billing.target(), "body": "twice"}), json!({"target": w.ann.target(), "body": "once"})];
    for (member, value) in [("title", json!("T")), ("reuse_direct", json!(true))] {
        let mut other = message(&w);
        other[member] = value;
        others.push(other);
    }
    for other in others {
        let answer = w.builder.api.post("/messages", other).key("k").await;
        for secret in ["once", &first.s("conversation_id"), &first["messages"][0].id()] {
            assert!(!answer.text.contains(secret), "{}", answer.text);
        }
        answer.refused(409, "idempotency_conflict");
    }
    assert_eq!(stored(&w).await, 1);
    w.builder.api.post("/messages", message(&w)).key("k").await.ok();
}

async fn another_path_conflicts(w: World) {
    let one = w.ask(&w.builder.api, &w.billing.target(), "one").await.id();
    let two = w.ask(&w.builder.api, &w.billing.target(), "two").await.id();
    let cancel = |id: &str| w.builder.api.post(&format!("/requests/{id}/cancel"), json!({"version": 1})).key("k");
    cancel(&one).await.ok();
    cancel(&two).await.refused(409, "idempotency_conflict");
    assert_eq!(w.builder.api.get(&format!("/requests/{two}")).await.ok()["state"], "open");
}

async fn other_operations_and_principals_have_their_own_keys(w: World) {
    let body = message(&w);
    let mine = w.builder.api.post("/messages", body.clone()).key("k").await.created();
    let asked = w.builder.api.post("/requests", body.clone()).key("k").await.created();
    assert!(asked.id().starts_with("req_"));
    let batch = json!({"targets": [w.billing.target()], "body": "once"});
    w.builder.api.post("/messages/batch", batch).key("k").await.created();
    let hers = w.ann.api.post("/messages", body.clone()).key("k").await.created();
    assert_ne!(mine["messages"][0]["id"], hers["messages"][0]["id"]);
    assert_eq!(stored(&w).await, 4);
}

async fn another_credential_of_the_same_principal_replays(w: World) {
    let (_, second) = credential(&w.owner.api, &w.ann.id, None).await;
    let first = w.ann.api.post("/messages", message(&w)).key("k").await.created();
    assert_eq!(second.post("/messages", message(&w)).key("k").await.ok(), first);
    assert_eq!(stored(&w).await, 1);
}

/// Sends the same keyed call from all `callers` at once, twenty times in all.
pub(crate) async fn at_once(callers: &[Api], body: &Value) -> Vec<Answer> {
    let calls = (0..20).map(|at| {
        let call = callers[at % callers.len()].post("/messages", body.clone()).key("race");
        tokio::spawn(async move { call.await })
    });
    let mut answers = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        answers.push(call.await.unwrap());
    }
    answers
}

pub(crate) fn one_effect(answers: &[Answer]) -> String {
    let created = answers.iter().filter(|a| a.status == 201).count();
    let replayed = answers.iter().filter(|a| a.status == 200).count();
    assert_eq!((created, replayed), (1, 19), "{answers:?}");
    let ids: std::collections::BTreeSet<_> = answers.iter().map(|a| a.json()["messages"][0].id()).collect();
    assert_eq!(ids.len(), 1);
    ids.into_iter().next().unwrap()
}

async fn twenty_at_once_have_one_effect(w: World) {
    let answers = at_once(std::slice::from_ref(&w.builder.api), &message(&w)).await;
    one_effect(&answers);
    assert_eq!(stored(&w).await, 1);
}

async fn a_refused_request_consumes_no_key(w: World) {
    let api = &w.builder.api;
    // Validation.
    api.post("/messages", json!({"target": w.billing.target(), "body": ""})).key("a").await.refused(400, "invalid_request");
    api.post("/messages", message(&w)).key("a").await.created();
    // Authorisation.
    let to_bob = json!({"target": w.bob.target(), "body": "once"});
    api.post("/messages", to_bob.clone()).key("b").await.not_found();
    w.policy(&w.builder.target(), contacts(&[w.bob.target()])).await;
    api.post("/messages", to_bob).key("b").await.created();
    // A version.
    let rename =
        |version: i64| w.owner.api.patch(&format!("/people/{}", w.bob.id), json!({"version": version, "name": "Rob"})).key("c");
    rename(9).await.refused(409, "version_conflict");
    assert_eq!(rename(1).await.ok()["name"], "Rob");
}

async fn keys_are_refused_where_they_mean_nothing(w: World) {
    let enroll = json!({"agent": "team/x", "name": "X"});
    w.owner.api.post("/enroll", enroll).key("k").await.refused(400, "invalid_request");
    let issue = json!({"principal_id": w.ann.id, "kind": "api"});
    w.owner.api.post("/credentials", issue).key("k").await.refused(400, "invalid_request");
    let agents = w.owner.api.get("/directory?kind=agent").await.ok();
    assert!(!agents.to_string().contains("team/x"));
    w.send(&w.ann.api, &w.builder.target(), "x").await;
    for (path, body) in [
        ("/heartbeat", json!({})),
        ("/credentials/renew", json!({})),
        ("/inbox/lease", json!({})),
        ("/inbox/dlv_x/ack", json!({"generation": 1})),
        ("/inbox/dlv_x/extend", json!({"generation": 1, "seconds": 1})),
        ("/inbox/dlv_x/release", json!({"generation": 1})),
        ("/inbox/ack", json!({"items": [{"id": "dlv_x", "generation": 1}]})),
    ] {
        let answer = w.builder.api.post(path, body).key("k").await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{path}");
    }
    assert_eq!(w.builder.lease_one().await["generation"], 1);
}

async fn every_keyed_write_replays(w: World) {
    let owner = &w.owner.api;
    let twice = |method: Method, path: String, body: Value| async move {
        let call = || owner.call(method.clone(), &path).json(&body).key("twice");
        let first = call().await;
        assert!(matches!(first.status, 200 | 201), "{path}: {}", first.text);
        let again = call().await;
        assert_eq!((again.status, again.json()), (200, first.json()), "{path}");
        first.json()
    };
    let person = twice(Method::POST, "/people".into(), json!({"name": "C", "external_id": "c"})).await;
    twice(Method::POST, "/agents".into(), json!({"name": "C", "external_id": "c"})).await;
    twice(Method::POST, "/services".into(), json!({"name": "C", "external_id": "c"})).await;
    let edited = twice(Method::PATCH, format!("/people/{}", person.id()), json!({"version": 1, "name": "D"})).await;
    let stopped = json!({"disabled": true, "version": edited["version"]});
    twice(Method::POST, format!("/people/{}/status", person.id()), stopped).await;
    let group = twice(Method::POST, "/groups".into(), json!({"name": "G", "purpose": "team", "members": [w.ann.id]})).await;
    twice(Method::PATCH, format!("/groups/{}", group.id()), json!({"version": 1, "members": []})).await;
    let role = twice(Method::POST, "/roles".into(), json!({"name": "R", "rules": []})).await;
    twice(Method::PATCH, format!("/roles/{}", role.id()), json!({"version": 1, "name": "S"})).await;
    let binding = json!({"role_id": role.id(), "subject_kind": "group", "subject_id": group.id()});
    let binding = twice(Method::POST, "/role-bindings".into(), binding).await;
    let policy = json!({"subject": w.bob.target(), "rules": [], "version": 0});
    assert_eq!(twice(Method::PUT, "/contact-permissions".into(), policy).await["version"], 1);
    w.acquaint(&[&w.builder.id, &w.billing.id]).await;
    let chat = json!({"targets": [w.builder.target(), w.billing.target()], "body": "hi"});
    let chat = twice(Method::POST, "/chats".into(), chat).await.s("conversation_id");
    let rename = json!({"operation": "rename", "version": 1, "title": "T"});
    assert_eq!(twice(Method::POST, format!("/conversations/{chat}/membership"), rename).await["version"], 2);
    let ask = json!({"target": w.ann.target(), "body": "q"});
    let asked = twice(Method::POST, "/requests".into(), ask).await.id();
    twice(Method::POST, format!("/requests/{asked}/replace"), json!({"version": 1, "body": "r"})).await;
    let batch = json!({"targets": [w.ann.target(), w.builder.target()], "request": {"body": "q"}});
    let batch = twice(Method::POST, "/requests/batch".into(), batch).await;
    twice(Method::POST, format!("/requests/{}/cancel", batch[0]["request"].id()), json!({"version": 1})).await;
    let batch = json!({"targets": [w.ann.target(), w.builder.target()], "body": "m"});
    twice(Method::POST, "/messages/batch".into(), batch).await;
    let revoked = owner.post("/credentials", json!({"principal_id": w.bob.id, "kind": "api"})).await.created().id();
    twice(Method::POST, format!("/credentials/{revoked}/revoke"), json!({})).await;
    twice(Method::DELETE, format!("/role-bindings/{}", binding.id()), json!({})).await;
    twice(Method::DELETE, format!("/roles/{}", role.id()), json!({})).await;
    twice(Method::DELETE, format!("/groups/{}", group.id()), json!({})).await;
    // A response, by who was asked.
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    let respond = || {
        let body = json!({"outcome": "answered", "answer": 1, "version": 1});
        w.ann.api.post(&format!("/requests/{asked}/respond"), body).key("r")
    };
    assert_eq!(respond().await.ok(), respond().await.ok());
}

async fn replace_needs_a_key(w: World) {
    let asked = w.ask(&w.builder.api, &w.billing.target(), "q").await.id();
    let path = format!("/requests/{asked}/replace");
    let body = json!({"version": 1, "body": "r"});
    w.builder.api.post(&path, body.clone()).await.refused(400, "invalid_request");
    assert_eq!(w.builder.api.get(&format!("/requests/{asked}")).await.ok()["state"], "open");
    let replaced = w.builder.api.post(&path, body).key("k").await.created();
    assert_eq!(replaced["previous"]["state"], "superseded");
}

async fn a_replay_shows_only_what_present_access_allows(w: World) {
    let start = json!({"targets": [w.ann.target(), w.billing.target()], "body": "once"});
    w.acquaint(&[&w.ann.id, &w.billing.id, &w.builder.id]).await;
    let first = w.builder.api.post("/chats", start.clone()).key("k").await.created();
    let conversation = first.s("conversation_id");
    w.billing.drain().await;
    let replayed = w.builder.api.post("/chats", start.clone()).key("k").await.ok();
    assert_eq!(replayed["messages"][0]["received_by"], json!([w.billing.id]));
    let remove = json!({"operation": "remove", "version": 1, "members": [w.builder.id], "next_manager": w.ann.id});
    w.owner.api.post(&format!("/conversations/{conversation}/membership"), remove).await.ok();
    w.builder.api.get(&format!("/conversations/{conversation}")).await.not_found();
    let replayed = w.builder.api.post("/chats", start).key("k").await.ok();
    assert_eq!(replayed["conversation_id"], first["conversation_id"]);
    assert_eq!(replayed["messages"][0]["id"], first["messages"][0]["id"]);
    assert_eq!(replayed["messages"][0]["body"], "once");
    assert!(replayed["messages"][0].get("received_by").is_none(), "{replayed}");
    // The same with the right to send gone.
    let body = message(&w);
    let sent = w.builder.api.post("/messages", body.clone()).key("k").await.created();
    w.policy(&w.builder.target(), vec![]).await;
    let again = w.builder.api.post("/messages", body).key("k").await.ok();
    assert_eq!(again["messages"][0]["id"], sent["messages"][0]["id"]);
}

async fn keys_outlive_months(w: World) {
    let body = json!({"target": w.billing.target(), "body": "once"});
    let first = w.owner.api.post("/messages", body.clone()).key("k").await.created();
    w.advance(60 * 86_400);
    let again = w.owner.api.post("/messages", body.clone()).key("k").await.ok();
    assert_eq!(again["messages"][0]["id"], first["messages"][0]["id"]);
    w.owner
        .api
        .post("/messages", json!({"target": w.billing.target(), "body": "other"}))
        .key("k")
        .await
        .refused(409, "idempotency_conflict");
}

async fn without_a_key_every_call_counts(w: World) {
    for _ in 0..3 {
        w.builder.api.post("/messages", message(&w)).await.created();
    }
    assert_eq!(stored(&w).await, 3);
}

/// One way to write the same request, and whether something about it is different after all.
fn writings() -> impl Strategy<Value = (Vec<usize>, Vec<bool>, Option<usize>)> {
    let order = Just((0..6).collect::<Vec<usize>>()).prop_shuffle();
    (order, prop::collection::vec(any::<bool>(), 6), prop::option::of(0..3_usize))
}

/// The members of one send in some order, with or without those that say nothing, and with one changed if that is asked for.
fn write(w: &World, order: &[usize], spelled_out: &[bool], changed: Option<usize>) -> String {
    let body = if changed == Some(0) { "twice" } else { "once" };
    let title = if changed == Some(1) { "other" } else { "T" };
    let target = if changed == Some(2) { &w.ann.id } else { &w.billing.id };
    let kind = if changed == Some(2) { "person" } else { "agent" };
    let mut members = Vec::new();
    for at in order {
        members.push(match at {
            0 => format!("\"body\": \"{body}\""),
            1 => format!("\"title\":\"{title}\""),
            2 => format!("\"target\":{{\"id\":\"{target}\",\"kind\":\"{kind}\"}}"),
            3 if spelled_out[3] => "\"reuse_direct\": false".to_owned(),
            4 if spelled_out[4] => "\"mentions\" : [ ]".to_owned(),
            5 if spelled_out[5] => "\"conversation_id\": null".to_owned(),
            _ => continue,
        });
    }
    format!("{{{}}}", members.join(if spelled_out[0] { " ,\n" } else { "," }))
}

#[test]
fn whatever_is_written_alike_replays_and_nothing_else() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let w = runtime.block_on(World::open(Kind::Sqlite));
    let first = write(&w, &[0, 1, 2], &[false; 6], None);
    let call = |text: String| w.builder.api.call(Method::POST, "/messages").text(text).key("k");
    let first = runtime.block_on(async { call(first).await.created() });
    let mut runner = TestRunner::new(Config { cases: 100, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&writings(), |(order, spelled_out, changed)| {
        let answer = runtime.block_on(async { call(write(&w, &order, &spelled_out, changed)).await });
        if changed.is_some() {
            prop_assert_eq!(answer.code(), "idempotency_conflict");
        } else {
            prop_assert_eq!(answer.ok(), first.clone());
        }
        Ok(())
    });
    outcome.unwrap();
    assert_eq!(runtime.block_on(stored(&w)), 1);
}
