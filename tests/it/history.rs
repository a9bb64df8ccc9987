//! Field report B48: what a member sees of what came before it, and of the time away.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::World;
use serde_json::{Value, json};

use crate::chats::{change, chat};

on_both_stores!(
    a_newcomer_sees_nothing_from_before,
    shared_history_is_the_adders_own,
    rejoining_starts_a_new_window,
    adding_one_does_not_widen_anothers_view,
    a_newcomer_decides_no_older_request,
    a_later_result_of_an_older_request_stays_hidden,
    removal_ends_access_at_once,
    past_participants_are_those_since_ones_start,
    a_key_of_another_member_opens_nothing,
    an_operator_who_joins_later_sees_everything_on_every_path,
);

async fn say_ten(w: &World, chat: &str) {
    for at in 0..10 {
        w.say(&w.ann.api, chat, &format!("old {at}")).await;
    }
}

async fn add(w: &World, chat: &str, version: i64, member: &str, share: bool) {
    let body = json!({"operation": "add", "version": version, "members": [member], "share_history": share});
    change(&w.ann.api, chat, body).await.ok();
}

async fn remove(w: &World, chat: &str, version: i64, member: &str) {
    change(&w.ann.api, chat, json!({"operation": "remove", "version": version, "members": [member]})).await.ok();
}

async fn a_newcomer_sees_nothing_from_before(w: World) {
    let chat = chat(&w).await;
    say_ten(&w, &chat).await;
    let newest = w.conversation(&w.ann.api, &chat).await["messages"].list_of("sequence").into_iter().max().unwrap();
    add(&w, &chat, 1, &w.hidden.id, false).await;
    let seen = w.conversation(&w.hidden.api, &chat).await;
    assert_eq!(seen["messages"], json!([]));
    assert!(seen.n("history_start") > newest, "{seen}");
    assert!(seen.get("more_before").is_none_or(|v| v == false));
    w.say(&w.ann.api, &chat, "new").await;
    assert_eq!(w.bodies(&w.hidden.api, &chat).await, ["new"]);
    assert_eq!(w.hidden.drain().await.len(), 1);
}

async fn shared_history_is_the_adders_own(w: World) {
    let chat = chat(&w).await;
    say_ten(&w, &chat).await;
    add(&w, &chat, 1, &w.hidden.id, true).await;
    assert_eq!(w.bodies(&w.hidden.api, &chat).await.len(), 11);
    assert_eq!(w.conversation(&w.hidden.api, &chat).await["history_start"], 0);
    // Bob joins without, becomes manager, and can disclose no more than he sees himself.
    add(&w, &chat, 2, &w.bob.id, false).await;
    w.say(&w.ann.api, &chat, "since bob").await;
    change(&w.ann.api, &chat, json!({"operation": "leave", "version": 3, "next_manager": w.bob.id})).await.ok();
    let carl = w.person("Carl", "carl").await;
    w.acquaint(&[&carl.id]).await;
    let body = json!({"operation": "add", "version": 4, "members": [carl.id], "share_history": true});
    change(&w.bob.api, &chat, body).await.ok();
    assert_eq!(w.bodies(&carl.api, &chat).await, ["since bob"]);
    assert_eq!(w.conversation(&carl.api, &chat).await["history_start"], w.conversation(&w.bob.api, &chat).await["history_start"]);
    // An operator's own start is 0.
    let dora = w.person("Dora", "dora").await;
    w.acquaint(&[&dora.id]).await;
    let body = json!({"operation": "add", "version": 5, "members": [dora.id], "share_history": true});
    change(&w.owner.api, &chat, body).await.ok();
    assert_eq!(w.bodies(&dora.api, &chat).await.len(), 12);
}

async fn rejoining_starts_a_new_window(w: World) {
    let chat = chat(&w).await;
    add(&w, &chat, 1, &w.bob.id, false).await;
    w.say(&w.ann.api, &chat, "first stay").await;
    change(&w.bob.api, &chat, json!({"operation": "leave", "version": 2})).await.ok();
    w.say(&w.ann.api, &chat, "away").await;
    add(&w, &chat, 3, &w.bob.id, false).await;
    w.say(&w.ann.api, &chat, "second stay").await;
    assert_eq!(w.bodies(&w.bob.api, &chat).await, ["second stay"]);
    change(&w.bob.api, &chat, json!({"operation": "leave", "version": 4})).await.ok();
    add(&w, &chat, 5, &w.bob.id, true).await;
    assert_eq!(w.bodies(&w.bob.api, &chat).await, ["first", "first stay", "away", "second stay"]);
    // A founder who comes back has lost what was before, too.
    change(&w.builder.api, &chat, json!({"operation": "leave", "version": 6})).await.ok();
    add(&w, &chat, 7, &w.builder.id, false).await;
    assert!(w.bodies(&w.builder.api, &chat).await.is_empty());
}

async fn adding_one_does_not_widen_anothers_view(w: World) {
    let chat = chat(&w).await;
    say_ten(&w, &chat).await;
    add(&w, &chat, 1, &w.bob.id, false).await;
    add(&w, &chat, 2, &w.hidden.id, true).await;
    assert!(w.bodies(&w.bob.api, &chat).await.is_empty());
    assert_eq!(w.bodies(&w.hidden.api, &chat).await.len(), 11);
}

async fn a_newcomer_decides_no_older_request(w: World) {
    let chat = chat(&w).await;
    let asked = w.ann.api.post("/requests", json!({"conversation_id": chat, "body": "q"})).await.created().id();
    add(&w, &chat, 1, &w.bob.id, false).await;
    add(&w, &chat, 2, &w.hidden.id, true).await;
    let path = format!("/requests/{asked}");
    let decision = json!({"outcome": "answered", "answer": 1, "version": 1});
    w.bob.api.get(&path).await.not_found();
    w.bob.api.post(&format!("{path}/respond"), decision.clone()).await.not_found();
    // Whoever was shown the history sees the request, and still was not asked.
    assert_eq!(w.hidden.api.get(&path).await.ok()["body"], "q");
    w.hidden.api.post(&format!("{path}/respond"), decision.clone()).await.forbidden();
    assert!(w.hidden.lease(10).await.is_empty());
    w.billing.api.post(&format!("{path}/respond"), decision).await.ok();
}

async fn a_later_result_of_an_older_request_stays_hidden(w: World) {
    let chat = chat(&w).await;
    let asked = w.ann.api.post("/requests", json!({"conversation_id": chat, "body": "q"})).await.created().id();
    add(&w, &chat, 1, &w.bob.id, false).await;
    let decision = json!({"outcome": "answered", "answer": "the secret", "version": 1});
    w.builder.api.post(&format!("/requests/{asked}/respond"), decision).await.ok();
    w.bob.api.get(&format!("/requests/{asked}")).await.not_found();
    let shown = w.bob.api.get(&format!("/conversations/{chat}")).await;
    assert!(!shown.text.contains("the secret") && !shown.text.contains(&asked), "{}", shown.text);
    // Members from before see it.
    assert_eq!(w.billing.api.get(&format!("/requests/{asked}")).await.ok()["response"]["answer"], "the secret");
}

async fn removal_ends_access_at_once(w: World) {
    let chat = chat(&w).await;
    let asked = w.ann.api.post("/requests", json!({"conversation_id": chat, "body": "q"})).await.created().id();
    remove(&w, &chat, 1, &w.billing.id).await;
    let gone = w.billing.api.get(&format!("/conversations/{chat}")).await.not_found();
    assert_eq!(gone, w.billing.api.get("/conversations/cnv_none").await.not_found());
    w.billing.api.get(&format!("/requests/{asked}")).await.not_found();
    w.billing.api.post("/messages", json!({"conversation_id": chat, "body": "x"})).await.not_found();
    // A former member of the audience decides nothing.
    let decision = json!({"outcome": "answered", "answer": 1, "version": 1});
    w.billing.api.post(&format!("/requests/{asked}/respond"), decision.clone()).await.not_found();
    let open = w.ann.api.get(&format!("/requests/{asked}")).await.ok();
    assert_eq!(open["state"], "open");
    // Coming back does not make it one again: its window starts after the request.
    add(&w, &chat, 2, &w.billing.id, false).await;
    let back = w.billing.api.post(&format!("/requests/{asked}/respond"), decision).await;
    assert!(matches!(back.status, 403 | 404), "{}", back.text);
}

async fn past_participants_are_those_since_ones_start(w: World) {
    let chat = chat(&w).await;
    let past = |shown: &Value| shown.get("past_participants").map(|list| list.each("name")).unwrap_or_default();
    remove(&w, &chat, 1, &w.billing.id).await;
    add(&w, &chat, 2, &w.bob.id, false).await;
    assert_eq!(past(&w.conversation(&w.ann.api, &chat).await), ["Billing 2"]);
    let bobs = w.conversation(&w.bob.api, &chat).await;
    assert_eq!(past(&bobs), Vec::<String>::new());
    assert!(!bobs.to_string().contains("Billing"));
    remove(&w, &chat, 3, &w.builder.id).await;
    assert_eq!(past(&w.conversation(&w.bob.api, &chat).await), ["Builder 7"]);
    // Who came back is not past.
    add(&w, &chat, 4, &w.builder.id, false).await;
    assert_eq!(past(&w.conversation(&w.ann.api, &chat).await), ["Billing 2"]);
}

async fn a_key_of_another_member_opens_nothing(w: World) {
    let chat = chat(&w).await;
    let body = json!({"conversation_id": chat, "body": "old secret"});
    let first = w.ann.api.post("/messages", body.clone()).key("shared").await.created();
    add(&w, &chat, 1, &w.bob.id, false).await;
    let own = w.bob.api.post("/messages", body).key("shared").await.created();
    assert_ne!(own["messages"][0]["id"], first["messages"][0]["id"]);
    assert_eq!(w.bodies(&w.bob.api, &chat).await, ["old secret"]);
    assert_eq!(w.conversation(&w.bob.api, &chat).await["messages"][0]["sender_id"], json!(w.bob.id));
}

trait Numbers {
    fn list_of(&self, name: &str) -> Vec<i64>;
}

impl Numbers for Value {
    /// The whole numbers of `name` in the list at hand.
    fn list_of(&self, name: &str) -> Vec<i64> {
        self.as_array().unwrap().iter().map(|item| item.n(name)).collect()
    }
}

async fn an_operator_who_joins_later_sees_everything_on_every_path(w: World) {
    let chat = chat(&w).await;
    say_ten(&w, &chat).await;
    let path = format!("/conversations/{chat}/attachments");
    let uploaded = crate::files::upload(&w.ann.api, &path, "old.txt", "old").await.created().id();
    let asked = w.ann.api.post("/requests", json!({"conversation_id": chat, "body": "q"})).await.created().id();
    let owner = &w.owner.api;
    let paths = [format!("/conversations/{chat}"), format!("/conversations/{chat}/attachments"), format!("/requests/{asked}")];
    let queries = ["messages", "attachments", "requests"]
        .map(|collection| json!({"collection": collection, "limit": 200, "filters": {"conversation_id": chat}}));
    let listing = json!({"collection": "conversations", "filters": {"participant_id": w.ann.id}});
    let seen = || async {
        let mut seen = Vec::new();
        for path in &paths {
            let mut answer = owner.get(path).await.ok();
            // What the joining itself changes.
            for member in ["participants", "version"] {
                answer.as_object_mut().map(|members| members.remove(member));
            }
            seen.push(answer);
        }
        for query in &queries {
            seen.push(owner.post("/query", query.clone()).await.ok());
        }
        seen.push(owner.post("/query", listing.clone()).await.ok()["items"][0]["history_start"].clone());
        let events = owner.get(&format!("/events?limit=500&conversation_id={chat}")).await.ok();
        seen.push(json!(events.list("items").iter().filter(|event| event["kind"] == "message.created").count()));
        seen
    };
    let before = seen().await;
    add(&w, &chat, 1, &w.owner.id, false).await;
    assert_eq!(seen().await, before);
    assert_eq!(owner.get(&format!("/attachments/{uploaded}")).await.ok().id(), uploaded);
    assert_eq!(w.bodies(owner, &chat).await.len(), 11);
}
