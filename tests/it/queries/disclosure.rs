//! Field report B48 over queries: newcomers, removed members, denied authors, outsiders.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::{World, contacts, credential, deny, target};
use serde_json::json;

use super::{ask, delegate, ids, walk};
use crate::chats::{change, chat};

on_both_stores!(
    a_newcomer_finds_nothing_from_before,
    removal_ends_access_in_mid_walk,
    a_denied_author_is_found_nowhere,
    an_outsider_and_a_delegate_read_no_conversation,
    a_ceiling_without_read_asks_nothing,
);

async fn a_newcomer_finds_nothing_from_before(w: World) {
    let chat = chat(&w).await;
    for at in 0..5 {
        w.say(&w.ann.api, &chat, &format!("old {at}")).await;
    }
    w.ann.api.post("/requests", json!({"conversation_id": chat, "body": "old question"})).await.created();
    let body = json!({"operation": "add", "version": 1, "members": [w.bob.id]});
    change(&w.ann.api, &chat, body).await.ok();
    let of = json!({"conversation_id": chat});
    for collection in ["messages", "requests", "attachments"] {
        let page = w.bob.api.post("/query", json!({"collection": collection, "filters": of, "limit": 1})).await.ok();
        assert_eq!(page["items"], json!([]), "{collection}");
        assert!(page.get("next_cursor").is_none(), "{collection}");
    }
    let search = json!({"collection": "messages", "filters": of, "search": "old"});
    assert_eq!(w.bob.api.post("/query", search).await.ok()["items"], json!([]));
    let new = w.say(&w.ann.api, &chat, "new").await;
    assert_eq!(ids(&w.bob.api, "messages", of.clone()).await, [new]);
    let asked = w.ann.api.post("/requests", json!({"conversation_id": chat, "body": "new"})).await.created().id();
    assert_eq!(ids(&w.bob.api, "requests", json!({})).await, [asked.clone()]);
    assert_eq!(ids(&w.bob.api, "conversations", json!({})).await, [chat]);
    // A chat shows who asked, and whom it was put to only to the requester.
    assert!(ids(&w.bob.api, "requests", json!({"recipient_id": w.builder.id})).await.is_empty());
    assert!(ids(&w.ann.api, "requests", json!({"recipient_id": w.builder.id})).await.contains(&asked));
}

async fn removal_ends_access_in_mid_walk(w: World) {
    let chat = chat(&w).await;
    for at in 0..5 {
        w.say(&w.ann.api, &chat, &format!("m{at}")).await;
    }
    let asked = json!({"collection": "messages", "filters": {"conversation_id": chat}, "limit": 2});
    let mut next = asked.clone();
    next["cursor"] = w.billing.api.post("/query", asked).await.ok()["next_cursor"].clone();
    change(&w.ann.api, &chat, json!({"operation": "remove", "version": 1, "members": [w.billing.id]})).await.ok();
    w.billing.api.post("/query", next).await.not_found();
    for collection in ["messages", "requests", "attachments"] {
        let gone = ask(&w.billing.api, collection, json!({"conversation_id": chat})).await.not_found();
        assert_eq!(gone, ask(&w.billing.api, collection, json!({"conversation_id": "cnv_none"})).await.not_found());
    }
    assert!(ids(&w.billing.api, "conversations", json!({})).await.is_empty());
    assert!(ids(&w.billing.api, "requests", json!({})).await.is_empty());
}

async fn a_denied_author_is_found_nowhere(w: World) {
    let chat = chat(&w).await;
    let own = w.say(&w.ann.api, &chat, "mine").await;
    for at in 0..3 {
        w.say(&w.billing.api, &chat, &format!("from billing {at}")).await;
    }
    w.billing.api.post("/requests", json!({"conversation_id": chat, "body": "billing asks"})).await.created();
    let mut rules = contacts(&[target("person", "*"), target("agent", "*")]);
    rules.push(deny("view", w.billing.target()));
    w.policy(&w.builder.target(), rules).await;
    let of = json!({"conversation_id": chat});
    let seen = ids(&w.builder.api, "messages", of.clone()).await;
    assert_eq!((seen.len(), seen.last()), (2, Some(&own)));
    let page = w.builder.api.post("/query", json!({"collection": "messages", "filters": of, "limit": 2})).await.ok();
    assert!(page.get("next_cursor").is_none(), "what is hidden leaves no cursor behind");
    let search = json!({"collection": "messages", "filters": of, "search": "billing"});
    assert_eq!(w.builder.api.post("/query", search).await.ok()["items"], json!([]));
    assert!(ids(&w.builder.api, "requests", json!({})).await.is_empty());
    assert!(!ids(&w.builder.api, "agents", json!({})).await.contains(&w.billing.id));
    assert_eq!(walk(&w.ann.api, "messages", of).await.len(), 5);
}

async fn an_outsider_and_a_delegate_read_no_conversation(w: World) {
    let (conversation, message) = w.send(&w.ann.api, &w.builder.target(), "private").await;
    let request = w.ask(&w.ann.api, &w.builder.target(), "private too").await.id();
    for delegated in [false, true] {
        if delegated {
            delegate(&w, &w.bob.id, "*").await;
        }
        ask(&w.bob.api, "messages", json!({"conversation_id": conversation})).await.not_found();
        ask(&w.bob.api, "messages", json!({"conversation_id": conversation, "id": message})).await.not_found();
        for (collection, id) in [("requests", &request), ("conversations", &conversation)] {
            assert!(ids(&w.bob.api, collection, json!({})).await.is_empty());
            assert!(ids(&w.bob.api, collection, json!({"id": id})).await.is_empty());
        }
        assert!(ids(&w.bob.api, "executions", json!({})).await.is_empty());
    }
    // Who manages connections sees how things travelled and nothing of what they were.
    let travelled = walk(&w.bob.api, "deliveries", json!({})).await;
    assert_eq!(travelled.len(), 2);
    assert!(travelled.iter().all(|item| item.get("conversation_id").is_none() && item.get("message_id").is_none()));
    assert_eq!(ids(&w.owner.api, "messages", json!({"conversation_id": conversation})).await, [message]);
}

async fn a_ceiling_without_read_asks_nothing(w: World) {
    let (_, narrow) = credential(&w.owner.api, &w.ann.id, Some(&["message"])).await;
    narrow.post("/query", json!({"collection": "agents"})).await.forbidden();
    for path in ["/account", "/providers", "/fleet/status"] {
        narrow.get(path).await.forbidden();
    }
}
