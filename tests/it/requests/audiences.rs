//! Section 5: whom a request reaches, and what each of them sees of it.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::{World, allow, contacts, deny, target};
use serde_json::{Value, json};

use super::*;

on_both_stores!(
    a_group_ask_is_decided_once,
    a_group_ask_shows_others_the_state_alone,
    groups_take_no_blocking_and_no_action,
    blocking_is_for_agents_asking_one_agent,
    a_person_may_ask_itself,
    asking_in_a_conversation_reaches_whom_one_may_ask,
    a_deny_on_decide_stops_the_decision,
    a_disabled_requesters_requests_wait,
    a_response_is_shown_to_whom_it_concerns,
    a_conversation_shows_its_requests,
);

/// A group of Ann, Billing and Hidden whom Builder may ask, and a request to it.
async fn group_ask(w: &World) -> Value {
    let group = w.group("Deciders", &[&w.ann.id, &w.billing.id, &w.hidden.id, &w.builder.id]).await;
    let mut rules = contacts(&[w.ann.target(), w.billing.target(), w.hidden.target()]);
    rules.extend(["view", "message", "ask"].map(|action| allow(action, target("group", &group))));
    w.policy(&w.builder.target(), rules).await;
    w.builder.api.post("/requests", json!({"target": target("group", &group), "body": "go?", "kind": "approval"})).await.created()
}

async fn a_group_ask_is_decided_once(w: World) {
    let asked = group_ask(&w).await;
    let mut recipients = asked.list("recipients");
    assert_eq!(recipients.len(), 3, "the asker is not asked");
    assert_eq!(recipients[0]["conversation_id"], asked["conversation_id"]);
    recipients.sort_by_key(|r| r.s("principal_id"));
    let mut expected = vec![w.ann.id.clone(), w.billing.id.clone(), w.hidden.id.clone()];
    expected.sort();
    assert_eq!(json!(recipients).each("principal_id"), expected);
    let own = |id: &str| recipients.iter().find(|r| r["principal_id"] == json!(id)).unwrap().s("conversation_id");
    assert_ne!(own(&w.ann.id), own(&w.billing.id));
    let delivered = w.billing.lease_one().await;
    assert_eq!(delivered["payload"]["request"].id(), asked.id());
    assert_eq!(delivered["payload"].s("conversation_id"), own(&w.billing.id));
    w.billing.ack(&delivered).await;
    assert_eq!(get(&w.ann.api, &asked.id()).await.s("conversation_id"), own(&w.ann.id));
    respond(&w.ann.api, &asked.id(), "approved", 1).await.ok();
    respond(&w.billing.api, &asked.id(), "denied", 1).await.refused(409, "request_closed");
    // Who had taken it hears that it is gone; for who had not, it never was.
    let withdrawn = w.billing.lease_one().await;
    assert_eq!(
        (withdrawn["kind"].as_str(), withdrawn["payload"]["type"].as_str()),
        (Some("request_withdrawn"), Some("request_withdrawn"))
    );
    assert!(w.hidden.lease(10).await.is_empty());
    let result = w.builder.lease_one().await;
    assert_eq!(
        (result["kind"].as_str(), result["payload"]["request"]["response"]["outcome"].as_str()),
        (Some("request_result"), Some("approved"))
    );
}

async fn a_group_ask_shows_others_the_state_alone(w: World) {
    let asked = group_ask(&w).await;
    w.billing.drain().await;
    let decision = json!({"outcome": "approved", "answer": "the secret reason", "version": 1});
    w.ann.api.post(&format!("/requests/{}/respond", asked.id()), decision).await.ok();
    let seen = w.billing.api.get(&format!("/requests/{}", asked.id())).await;
    assert!(!seen.text.contains("secret") && !seen.text.contains(&w.ann.id), "{}", seen.text);
    assert_eq!(seen.ok()["state"], "resolved");
    let withdrawn = w.billing.lease_one().await["payload"]["request"].clone();
    assert_eq!((withdrawn.id(), withdrawn["state"].as_str(), withdrawn.n("version")), (asked.id(), Some("resolved"), 2));
    assert!(!withdrawn.to_string().contains("secret") && !withdrawn.to_string().contains("go?"), "{withdrawn}");
    assert_eq!(get(&w.builder.api, &asked.id()).await["response"]["answer"], "the secret reason");
    assert_eq!(get(&w.ann.api, &asked.id()).await["response"]["answer"], "the secret reason");
}

async fn groups_take_no_blocking_and_no_action(w: World) {
    let group = w.group("G", &[&w.ann.id, &w.billing.id]).await;
    w.policy(&w.builder.target(), vec![allow("ask", target("group", &group))]).await;
    let to = target("group", &group);
    w.builder.api.post("/requests", json!({"target": to, "body": "q", "blocking": true})).await.refused(400, "invalid_request");
    let bound = json!({"target": to, "body": "q", "kind": "approval", "action": action(&w.builder.id)});
    w.builder.api.post("/requests", bound).await.refused(400, "invalid_request");
    w.builder.api.post("/requests", json!({"target": to, "body": "q"})).await.created();
}

async fn blocking_is_for_agents_asking_one_agent(w: World) {
    let ask = |api: &Api, to: Value| api.post("/requests", json!({"target": to, "body": "q", "blocking": true}));
    let asked = ask(&w.builder.api, w.billing.target()).await.created();
    assert_eq!((asked["blocking"].as_bool(), asked.n("version")), (Some(true), 1));
    for answer in [ask(&w.ann.api, w.billing.target()).await, ask(&w.builder.api, w.ann.target()).await] {
        assert!(matches!(answer.status, 400 | 403), "{}", answer.text);
    }
}

async fn a_person_may_ask_itself(w: World) {
    let asked = w.ask(&w.bob.api, &w.bob.target(), "remember?").await;
    assert_eq!(asked["recipient_ids"], json!([w.bob.id]));
    assert_eq!(w.conversation(&w.bob.api, &asked.s("conversation_id")).await.list("participants").len(), 1);
    answer(&w.bob.api, &asked.id(), json!("yes")).await.ok();
    assert_eq!(get(&w.bob.api, &asked.id()).await["response"]["answer"], "yes");
}

async fn asking_in_a_conversation_reaches_whom_one_may_ask(w: World) {
    w.acquaint(&[&w.ann.id, &w.billing.id, &w.hidden.id]).await;
    // Builder sees all three, but may ask Billing alone.
    let view = ["person", "agent"].map(|kind| allow("view", target(kind, "*")));
    w.policy(&w.builder.target(), [view.to_vec(), vec![allow("ask", w.billing.target())]].concat()).await;
    let start = json!({"targets": [w.builder.target(), w.billing.target(), w.hidden.target()], "body": "x"});
    let chat = w.ann.api.post("/chats", start).await.created().s("conversation_id");
    let asked = w.builder.api.post("/requests", json!({"conversation_id": chat, "body": "q"})).await.created();
    assert_eq!(asked["recipient_ids"], json!([w.billing.id]));
    respond(&w.ann.api, &asked.id(), "answered", 1).await.forbidden();
    respond(&w.hidden.api, &asked.id(), "answered", 1).await.forbidden();
    w.policy(&w.builder.target(), view.to_vec()).await;
    w.builder.api.post("/requests", json!({"conversation_id": chat, "body": "q"})).await.forbidden();
    respond(&w.billing.api, &asked.id(), "answered", 1).await.ok();
}

async fn a_deny_on_decide_stops_the_decision(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    let mut rules = contacts(&[w.builder.target()]);
    rules.push(deny("decide", w.builder.target()));
    w.policy(&w.ann.target(), rules).await;
    respond(&w.ann.api, &asked, "answered", 1).await.forbidden();
    assert_eq!(get(&w.ann.api, &asked).await["state"], "open");
    w.policy(&w.ann.target(), vec![]).await;
    respond(&w.ann.api, &asked, "answered", 1).await.ok();
}

async fn a_disabled_requesters_requests_wait(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    w.set_disabled("agents", &w.builder.id, true).await;
    let answer = respond(&w.ann.api, &asked, "answered", 1).await;
    assert!(matches!(answer.status, 403 | 409), "{}", answer.text);
    w.set_disabled("agents", &w.builder.id, false).await;
    respond(&w.ann.api, &asked, "answered", 1).await.ok();
}

async fn a_response_is_shown_to_whom_it_concerns(w: World) {
    w.acquaint(&[&w.ann.id, &w.builder.id, &w.billing.id]).await;
    let start = json!({"targets": [w.builder.target(), w.billing.target()], "body": "x"});
    let chat = w.ann.api.post("/chats", start).await.created().s("conversation_id");
    let asked = w.ann.api.post("/requests", json!({"conversation_id": chat, "body": "q"})).await.created().id();
    answer(&w.builder.api, &asked, json!("for all")).await.ok();
    for api in [&w.ann.api, &w.builder.api, &w.billing.api, &w.owner.api] {
        assert_eq!(get(api, &asked).await["response"]["answer"], "for all");
    }
    w.bob.api.get(&format!("/requests/{asked}")).await.not_found();
}

async fn a_conversation_shows_its_requests(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await;
    let conversation = asked.s("conversation_id");
    w.say(&w.builder.api, &conversation, "more on that").await;
    let shown = w.conversation(&w.ann.api, &conversation).await;
    assert_eq!(shown["requests"].each("id"), [asked.id()]);
    assert_eq!(shown["messages"].each("body"), ["more on that"]);
    // A message leaves the decision open.
    w.say(&w.ann.api, &conversation, "yes, approved").await;
    assert_eq!(get(&w.builder.api, &asked.id()).await["state"], "open");
}
