//! Section 8 and field report B48: who sees which event, and with how much in it. Pages and streams are one code; pages are asked here.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Api, Members};
use beepgrid_tests::stream;
use beepgrid_tests::world::{World, allow, contacts, deny, target};
use serde_json::{Value, json};

use crate::chats::{change, chat};
use crate::events::{all, of_kind, page};

on_both_stores!(
    a_newcomer_sees_nothing_from_before,
    shared_history_is_there_from_its_start,
    rejoining_without_history_leaves_out_the_time_away,
    a_removed_member_gets_its_removal_and_nothing_else,
    a_result_of_an_older_request_is_no_event_for_a_newcomer,
    a_denied_author_is_hidden_at_the_read,
    other_conversations_are_not_there,
    an_operator_sees_everything,
    members_of_a_group_ask_see_their_own_part,
    an_executor_sees_its_part,
    a_responder_is_not_named_to_who_may_not_see_the_response,
    identities_are_seen_by_their_viewers,
    a_parked_delivery_is_for_its_agent_and_who_asked,
    a_requester_that_left_sees_its_own_request,
);

async fn add(w: &World, chat: &str, version: i64, member: &str, share: bool) {
    let body = json!({"operation": "add", "version": version, "members": [member], "share_history": share});
    change(&w.ann.api, chat, body).await.ok();
}

async fn remove(w: &World, chat: &str, version: i64, member: &str) {
    change(&w.ann.api, chat, json!({"operation": "remove", "version": version, "members": [member]})).await.ok();
}

/// The events of one conversation, asked for both ways: with the filter and without.
async fn of_chat(api: &Api, chat: &str) -> Vec<Value> {
    let mut found = all(api, "").await;
    found.retain(|event| event["conversation_id"] == json!(chat));
    assert_eq!(found, all(api, &format!("conversation_id={chat}")).await);
    // A stream shows the same.
    let mut stream = stream::open(api, &format!("stream=1&conversation_id={chat}")).await.unwrap();
    for event in &found {
        assert_eq!(stream.event().await.as_ref(), Some(event));
    }
    found
}

fn kinds(events: &[Value]) -> Vec<String> {
    json!(events).each("kind")
}

fn bodies(events: &[Value]) -> Vec<String> {
    of_kind(events, "message.created").iter().map(|event| event["data"].s("body")).collect()
}

async fn a_newcomer_sees_nothing_from_before(w: World) {
    let chat = chat(&w).await;
    w.say(&w.ann.api, &chat, "old").await;
    w.builder.api.post("/requests", json!({"conversation_id": chat, "body": "old"})).await.created();
    add(&w, &chat, 1, &w.hidden.id, false).await;
    assert_eq!(kinds(&of_chat(&w.hidden.api, &chat).await), ["conversation.member_added"]);
    w.say(&w.ann.api, &chat, "new").await;
    let seen = of_chat(&w.hidden.api, &chat).await;
    assert_eq!(kinds(&seen), ["conversation.member_added", "message.created"]);
    assert_eq!((seen[0].s("recipient_id"), seen[0].s("actor_id")), (w.hidden.id.clone(), w.ann.id.clone()));
    assert_eq!(
        seen[0]["data"],
        json!({
            "id": chat, "principal_id": w.hidden.id, "participant": {"id": w.hidden.id, "kind": "agent", "name": w.hidden.name},
        })
    );
    assert!(!json!(all(&w.hidden.api, "").await).to_string().contains("old"));
    // The others' view is as wide as before.
    assert_eq!(bodies(&of_chat(&w.builder.api, &chat).await), ["first", "old", "new"]);
}

async fn shared_history_is_there_from_its_start(w: World) {
    let chat = chat(&w).await;
    w.say(&w.ann.api, &chat, "old").await;
    w.builder.api.post("/requests", json!({"conversation_id": chat, "body": "old"})).await.created();
    add(&w, &chat, 1, &w.hidden.id, true).await;
    add(&w, &chat, 2, &w.bob.id, false).await;
    w.say(&w.ann.api, &chat, "new").await;
    let seen = of_chat(&w.hidden.api, &chat).await;
    let without_history = ["conversation.member_added", "message.created"];
    assert_eq!(
        kinds(&seen),
        [
            &["conversation.created", "message.created", "message.created", "request.created", "conversation.member_added"][..],
            &without_history
        ]
        .concat()
    );
    assert_eq!(
        seen.iter().map(|event| &event["sequence"]).collect::<Vec<_>>(),
        of_chat(&w.ann.api, &chat).await.iter().map(|event| &event["sequence"]).collect::<Vec<_>>()
    );
    assert_eq!(kinds(&of_chat(&w.bob.api, &chat).await), without_history);
}

async fn rejoining_without_history_leaves_out_the_time_away(w: World) {
    let chat = chat(&w).await;
    add(&w, &chat, 1, &w.bob.id, false).await;
    w.say(&w.ann.api, &chat, "first stay").await;
    remove(&w, &chat, 2, &w.bob.id).await;
    w.say(&w.ann.api, &chat, "away").await;
    add(&w, &chat, 3, &w.bob.id, false).await;
    w.say(&w.ann.api, &chat, "second stay").await;
    let seen = of_chat(&w.bob.api, &chat).await;
    assert_eq!(bodies(&seen), ["second stay"]);
    // Its own removal says what it knows already, and no more.
    assert_eq!(kinds(&seen), ["conversation.member_removed", "conversation.member_added", "message.created"]);
    assert_eq!(seen[0]["data"], json!({"id": chat, "principal_id": w.bob.id}));
    remove(&w, &chat, 4, &w.bob.id).await;
    change(&w.ann.api, &chat, json!({"operation": "add", "version": 5, "members": [w.bob.id], "share_history": true})).await.ok();
    assert_eq!(bodies(&of_chat(&w.bob.api, &chat).await), ["first", "first stay", "away", "second stay"]);
}

async fn a_removed_member_gets_its_removal_and_nothing_else(w: World) {
    let chat = chat(&w).await;
    let before = page(&w.billing.api, "limit=500").await.n("next_after");
    w.say(&w.ann.api, &chat, "not yet read").await;
    remove(&w, &chat, 1, &w.billing.id).await;
    w.say(&w.ann.api, &chat, "without billing").await;
    let seen = page(&w.billing.api, &format!("after={before}")).await.list("items");
    let [last] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!((last["kind"].as_str(), last.s("conversation_id")), (Some("conversation.member_removed"), chat.clone()));
    assert_eq!(last["data"], json!({"id": chat, "principal_id": w.billing.id}));
    // From the beginning it is the same: what was seen once is not to be seen again.
    let whole: Vec<Value> =
        all(&w.billing.api, "").await.into_iter().filter(|event| event["conversation_id"] == json!(chat)).collect();
    assert_eq!(whole, seen);
    w.billing.api.get(&format!("/events?conversation_id={chat}")).await.not_found();
    // Those who stay see who went.
    let removed = of_kind(&of_chat(&w.builder.api, &chat).await, "conversation.member_removed");
    assert_eq!(removed[0]["data"]["participant"]["name"], json!(w.billing.name));
}

async fn a_result_of_an_older_request_is_no_event_for_a_newcomer(w: World) {
    let chat = chat(&w).await;
    let asked = w.builder.api.post("/requests", json!({"conversation_id": chat, "body": "old"})).await.created();
    add(&w, &chat, 1, &w.hidden.id, false).await;
    let body = json!({"outcome": "answered", "answer": "secret", "version": 1});
    w.ann.api.post(&format!("/requests/{}/respond", asked.id()), body).await.ok();
    assert_eq!(kinds(&of_chat(&w.hidden.api, &chat).await), ["conversation.member_added"]);
    assert!(kinds(&of_chat(&w.billing.api, &chat).await).contains(&"request.resolved".to_owned()));
    // One from within its window it sees to the end.
    let asked = w.builder.api.post("/requests", json!({"conversation_id": chat, "body": "new"})).await.created();
    w.builder.api.post(&format!("/requests/{}/cancel", asked.id()), json!({"version": 1})).await.ok();
    let seen = of_chat(&w.hidden.api, &chat).await;
    assert_eq!(kinds(&seen), ["conversation.member_added", "request.created", "request.cancelled"]);
    assert_eq!(seen[2]["data"]["state"], "cancelled");
}

async fn a_denied_author_is_hidden_at_the_read(w: World) {
    let chat = chat(&w).await;
    w.say(&w.builder.api, &chat, "from builder").await;
    w.say(&w.ann.api, &chat, "from ann").await;
    w.builder.api.post("/requests", json!({"conversation_id": chat, "body": "from builder"})).await.created();
    assert_eq!(bodies(&of_chat(&w.billing.api, &chat).await), ["first", "from builder", "from ann"]);
    w.policy(&w.billing.target(), vec![deny("view", w.builder.target())]).await;
    let seen = of_chat(&w.billing.api, &chat).await;
    assert_eq!(bodies(&seen), ["first", "from ann"]);
    assert!(!json!(seen).to_string().contains("from builder"));
    assert!(of_kind(&seen, "request.created").is_empty());
    // A page says nothing of them either.
    let first = page(&w.billing.api, &format!("conversation_id={chat}&limit={}", seen.len())).await;
    assert_eq!(first["more"], false);
    w.policy(&w.billing.target(), contacts(&[w.ann.target(), w.builder.target()])).await;
    assert_eq!(bodies(&of_chat(&w.billing.api, &chat).await), ["first", "from builder", "from ann"]);
}

async fn other_conversations_are_not_there(w: World) {
    w.send(&w.builder.api, &w.ann.target(), "private").await;
    w.ask(&w.builder.api, &w.ann.target(), "private").await;
    for outsider in [&w.bob.api, &w.billing.api, &w.hidden.api] {
        let seen = all(outsider, "").await;
        assert!(kinds(&seen).iter().all(|kind| kind == "identity.updated"), "{seen:?}");
        assert!(!json!(seen).to_string().contains("private"));
    }
}

async fn an_operator_sees_everything(w: World) {
    let chat = chat(&w).await;
    w.send(&w.builder.api, &w.ann.target(), "private").await;
    remove(&w, &chat, 1, &w.billing.id).await;
    let seen = all(&w.owner.api, "").await;
    for kind in ["identity.updated", "conversation.created", "message.created", "conversation.member_removed"] {
        assert!(!of_kind(&seen, kind).is_empty(), "{kind}");
    }
    assert_eq!(bodies(&seen), ["first", "private"]);
    // Also of a chat that it joined late.
    w.acquaint(&[&w.owner.id]).await;
    change(&w.owner.api, &chat, json!({"operation": "add", "version": 2, "members": [w.owner.id]})).await.ok();
    assert_eq!(bodies(&all(&w.owner.api, &format!("conversation_id={chat}")).await), ["first"]);
}

async fn members_of_a_group_ask_see_their_own_part(w: World) {
    let group = w.group("Both", &[&w.billing.id, &w.ann.id]).await;
    w.policy(&w.builder.target(), vec![allow("ask", target("group", &group))]).await;
    let body = json!({"target": target("group", &group), "body": "Who is free?"});
    let asked = w.builder.api.post("/requests", body).await.created();
    let own = |api: Api| async move { all(&api, "").await };
    let (at_billing, at_ann) = (own(w.billing.api.clone()).await, own(w.ann.api.clone()).await);
    let place = |events: &[Value]| of_kind(events, "request.created")[0].s("conversation_id");
    let (billing, ann) = (place(&at_billing), place(&at_ann));
    assert_ne!(billing, ann);
    for (api, id) in [(&w.billing.api, &billing), (&w.ann.api, &ann)] {
        let seen = of_chat(api, id).await;
        assert_eq!(kinds(&seen), ["conversation.created", "request.created"]);
        assert_eq!(seen[1]["data"].s("conversation_id"), *id);
        assert!(seen[1]["data"].get("recipient_ids").is_none());
    }
    let body = json!({"outcome": "answered", "answer": "secret", "version": 1});
    w.ann.api.post(&format!("/requests/{}/respond", asked.id()), body).await.ok();
    let resolved = of_kind(&of_chat(&w.billing.api, &billing).await, "request.resolved");
    assert_eq!((resolved[0]["actor_id"].as_str(), resolved[0]["data"]["state"].as_str()), (Some(""), Some("resolved")));
    assert!(!resolved[0].to_string().contains("secret") && !resolved[0].to_string().contains(&w.ann.id));
    let resolved = of_kind(&all(&w.builder.api, "").await, "request.resolved");
    assert_eq!(
        (resolved[0].s("actor_id"), resolved[0]["data"]["response"]["answer"].as_str()),
        (w.ann.id.clone(), Some("secret"))
    );
}

async fn an_executor_sees_its_part(w: World) {
    let action = json!({
        "name": "deploy", "executor_id": w.hidden.id, "resource": "web", "resource_version": "1", "arguments": {"to": "prod"},
        "operation_key": "deploy-1",
    });
    w.policy(&w.builder.target(), [contacts(&[w.ann.target()]), vec![allow("view", w.hidden.target())]].concat()).await;
    let body =
        json!({"target": w.ann.target(), "kind": "approval", "title": "Deploy", "body": "secret reasons", "action": action});
    let asked = w.builder.api.post("/requests", body).await.created();
    w.ann.api.post(&format!("/requests/{}/respond", asked.id()), json!({"outcome": "approved", "version": 1})).await.ok();
    let seen: Vec<Value> = all(&w.hidden.api, "").await.into_iter().filter(|event| event["kind"] != "identity.updated").collect();
    assert_eq!(kinds(&seen), ["request.created", "request.resolved"]);
    for event in &seen {
        assert_eq!(
            (event["actor_id"].as_str(), event["conversation_id"].as_str(), event["recipient_id"].as_str()),
            (Some(""), Some(""), Some(""))
        );
        assert_eq!((event["data"].id(), event["data"].s("title")), (asked.id(), "Deploy".to_owned()));
        let text = event.to_string();
        assert!(!text.contains("secret") && !text.contains(&w.builder.id) && !text.contains(&w.ann.id), "{text}");
    }
    w.hidden.api.get(&format!("/events?conversation_id={}", asked.s("conversation_id"))).await.not_found();
}

async fn a_responder_is_not_named_to_who_may_not_see_the_response(w: World) {
    // In a shared chat everybody sees the response, and so who gave it.
    let chat = chat(&w).await;
    let asked = w.builder.api.post("/requests", json!({"conversation_id": chat, "body": "Ready?"})).await.created();
    let body = json!({"outcome": "answered", "answer": "yes", "version": 1});
    w.ann.api.post(&format!("/requests/{}/respond", asked.id()), body).await.ok();
    let resolved = of_kind(&of_chat(&w.billing.api, &chat).await, "request.resolved");
    assert_eq!((resolved[0].s("actor_id"), resolved[0]["data"]["response"]["answer"].as_str()), (w.ann.id.clone(), Some("yes")));
}

async fn identities_are_seen_by_their_viewers(w: World) {
    let about = |events: Vec<Value>, id: &str| -> Vec<Value> {
        events.into_iter().filter(|event| event["data"]["id"] == json!(id)).collect()
    };
    let rename = |version: i64| json!({"name": "Builder Seven", "version": version});
    let version = w.builder.api.get("/me").await.ok()["agent"].n("version");
    w.owner.api.patch(&format!("/agents/{}", w.builder.id), rename(version)).await.ok();
    let seen = about(all(&w.ann.api, "").await, &w.builder.id);
    let last = seen.last().unwrap();
    assert_eq!((last["kind"].as_str(), last["data"].s("name")), (Some("identity.updated"), "Builder Seven".to_owned()));
    assert_eq!(
        (last.s("actor_id"), last.s("conversation_id")),
        (String::new(), String::new()),
        "the owner is not visible to Ann"
    );
    assert!(last["data"].get("enrolled_by").is_none());
    assert_eq!(about(all(&w.builder.api, "").await, &w.builder.id).len(), seen.len());
    assert!(about(all(&w.bob.api, "").await, &w.builder.id).is_empty());
    assert_eq!(about(all(&w.owner.api, "").await, &w.builder.id).last().unwrap().s("actor_id"), w.owner.id);
    // Whom a right reaches later sees it from then on, and whom it leaves no more.
    w.policy(&w.bob.target(), vec![allow("view", w.builder.target())]).await;
    assert_eq!(about(all(&w.bob.api, "").await, &w.builder.id).len(), seen.len());
    w.policy(&w.bob.target(), vec![]).await;
    assert!(about(all(&w.bob.api, "").await, &w.builder.id).is_empty());
    // A manager of identities sees whom it may manage, and who did it.
    let rules = json!([allow("manage", target("identity", "*"))]);
    let role = w.owner.api.post("/roles", json!({"name": "Managers", "rules": rules})).await.created().id();
    let body = json!({"role_id": role, "subject_kind": "principal", "subject_id": w.bob.id});
    w.owner.api.post("/role-bindings", body).await.created();
    assert_eq!(about(all(&w.bob.api, "").await, &w.builder.id).last().unwrap().s("actor_id"), w.owner.id);
}

async fn a_parked_delivery_is_for_its_agent_and_who_asked(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    let asked = w.ask(&w.builder.api, &second.exact(), "pinned").await;
    let (_, message) = w.send(&w.ann.api, &second.exact(), "pinned too").await;
    let credential = second.api.get("/me").await.ok()["credential"].id();
    w.owner.api.post(&format!("/credentials/{credential}/revoke"), json!({})).await.ok();
    w.advance(20);
    let parked = |api: Api| async move { of_kind(&all(&api, "").await, "delivery.updated") };
    let at_billing = beepgrid_tests::wait::until("both are parked", || async {
        let found = parked(w.billing.api.clone()).await;
        (found.len() == 2).then_some(found)
    })
    .await;
    for event in &at_billing {
        assert_eq!((event.s("recipient_id"), event["data"]["state"].as_str()), (w.billing.id.clone(), Some("parked")));
    }
    let at_builder = parked(w.builder.api.clone()).await;
    assert_eq!(at_builder.len(), 1, "its request's, and nobody else's");
    assert_eq!(at_builder[0].s("conversation_id"), asked.s("conversation_id"));
    assert!(parked(w.ann.api.clone()).await.is_empty(), "{message}");
    assert!(parked(w.bob.api.clone()).await.is_empty());
}

async fn a_requester_that_left_sees_its_own_request(w: World) {
    let chat = chat(&w).await;
    let asked = w.builder.api.post("/requests", json!({"conversation_id": chat, "body": "Ready?"})).await.created();
    change(&w.builder.api, &chat, json!({"operation": "leave", "version": 1})).await.ok();
    w.builder.api.post(&format!("/requests/{}/cancel", asked.id()), json!({"version": 1})).await.ok();
    let seen = all(&w.builder.api, "").await;
    assert_eq!((of_kind(&seen, "request.created").len(), of_kind(&seen, "request.cancelled").len()), (1, 1));
    assert!(bodies(&seen).is_empty());
}
