//! Section 4: shared chats, their members and their mentions.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Answer, Api, Members};
use beepgrid_tests::world::{World, allow, contacts, target};
use serde_json::{Value, json};

on_both_stores!(
    a_chat_has_its_fields,
    everybody_but_the_sender_gets_it,
    founders_view_each_other,
    a_chat_can_open_a_request,
    a_chat_holds_a_hundred,
    the_manager_renames_adds_and_removes,
    an_operator_manages_too,
    anybody_leaves,
    the_manager_names_a_successor,
    versions_guard_every_change,
    only_chats_have_membership,
    newcomers_view_the_members,
    odd_member_lists_are_refused,
    membership_makes_no_deliveries,
    what_a_removed_agent_had_not_taken_is_withdrawn,
    every_member_posts_without_a_rule,
    mentions_count_code_points,
    mentions_name_a_participant_exactly,
    a_chat_with_an_agent_beside_its_instance_conflicts,
);

/// A chat of Ann (who starts it), Builder and Billing, who all know each other; Hidden and Bob know them too.
pub(crate) async fn chat(w: &World) -> String {
    w.acquaint(&[&w.ann.id, &w.bob.id, &w.builder.id, &w.billing.id, &w.hidden.id]).await;
    let body = json!({"targets": [w.builder.target(), w.billing.target()], "body": "first", "title": "Deploy"});
    let started = w.ann.api.post("/chats", body).await.created();
    for worker in [&w.builder, &w.billing] {
        assert_eq!(worker.drain().await.len(), 1);
    }
    started.s("conversation_id")
}

pub(crate) async fn change(api: &Api, chat: &str, body: Value) -> Answer {
    api.post(&format!("/conversations/{chat}/membership"), body).await
}

fn names(list: &Value) -> Vec<String> {
    let mut names = list.each("name");
    names.sort();
    names
}

async fn a_chat_has_its_fields(w: World) {
    let chat = chat(&w).await;
    for api in [&w.ann.api, &w.builder.api, &w.owner.api] {
        let shown = w.conversation(api, &chat).await;
        assert_eq!((shown["title"].as_str(), shown["shared"].as_bool(), shown.n("version")), (Some("Deploy"), Some(true), 1));
        assert_eq!(shown["manager_id"], json!(w.ann.id));
        assert_eq!(shown["history_start"], 0);
        assert_eq!(names(&shown["participants"]), ["Ann", "Billing 2", "Builder 7"]);
        assert_eq!(shown["messages"].each("body"), ["first"]);
    }
    w.bob.api.get(&format!("/conversations/{chat}")).await.not_found();
}

async fn everybody_but_the_sender_gets_it(w: World) {
    let chat = chat(&w).await;
    w.say(&w.builder.api, &chat, "from builder").await;
    assert!(w.builder.lease(10).await.is_empty());
    let delivery = w.billing.lease_one().await;
    assert_eq!(delivery["payload"]["conversation_id"], json!(chat));
    w.say(&w.ann.api, &chat, "from ann").await;
    assert_eq!(w.builder.lease_one().await["payload"]["message"]["body"], "from ann");
    assert_eq!(w.bodies(&w.ann.api, &chat).await, ["first", "from builder", "from ann"]);
}

async fn founders_view_each_other(w: World) {
    let start = |from: &Api, targets: Vec<Value>| from.post("/chats", json!({"targets": targets, "body": "x"}));
    // Not seen at all.
    start(&w.builder.api, vec![w.hidden.target()]).await.not_found();
    // Seen, but not seeing back.
    w.policy(&w.builder.target(), contacts(&[w.ann.target(), w.billing.target(), w.hidden.target()])).await;
    start(&w.builder.api, vec![w.hidden.target()]).await.forbidden();
    // Each sees the starter, but not each other.
    w.policy(&w.hidden.target(), vec![allow("view", w.builder.target())]).await;
    start(&w.builder.api, vec![w.hidden.target()]).await.created();
    let refused = start(&w.builder.api, vec![w.ann.target(), w.hidden.target()]).await;
    for name in ["Ann", "Hidden 9", &w.ann.id, &w.hidden.id] {
        assert!(!refused.text.contains(name), "{}", refused.text);
    }
    refused.forbidden();
    assert_eq!(w.hidden.drain().await.len(), 1);
}

async fn a_chat_can_open_a_request(w: World) {
    let start = |extra: Value| {
        let mut body = json!({"targets": [w.builder.target(), w.billing.target()], "body": "go?"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        w.ann.api.post("/chats", body)
    };
    let plain = start(json!({})).await.created();
    assert!(plain.get("request").is_none_or(Value::is_null));
    let approval = start(json!({"approval": true})).await.created()["request"].clone();
    assert_eq!(
        (approval["kind"].as_str(), approval["state"].as_str(), approval["body"].as_str()),
        (Some("approval"), Some("open"), Some("go?"))
    );
    let mut asked: Vec<_> = approval.list("recipient_ids").iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    asked.sort();
    let mut members = vec![w.builder.id.clone(), w.billing.id.clone()];
    members.sort();
    assert_eq!(asked, members);
    let question = start(json!({"choices": ["a", "b"]})).await.created()["request"].clone();
    assert_eq!((question["kind"].as_str(), &question["choices"]), (Some("question"), &json!(["a", "b"])));
    let both = start(json!({"approval": true, "choices": ["a"]})).await.created()["request"].clone();
    assert_eq!((both["kind"].as_str(), &both["choices"]), (Some("approval"), &json!(["a"])));
    // Who starts it decides nothing; the first of the others decides.
    let path = format!("/requests/{}/respond", approval.id());
    w.ann.api.post(&path, json!({"outcome": "approved", "version": 1})).await.forbidden();
    w.billing.api.post(&path, json!({"outcome": "denied", "version": 1})).await.ok();
    w.builder.api.post(&path, json!({"outcome": "approved", "version": 1})).await.refused(409, "request_closed");
}

async fn a_chat_holds_a_hundred(w: World) {
    let mut targets = Vec::new();
    for at in 0..100 {
        let body = json!({"name": format!("S{at}"), "external_id": format!("s{at}")});
        targets.push(target("service", &w.owner.api.post("/services", body).await.created().id()));
    }
    let ids: Vec<_> = targets.iter().map(Members::id).collect();
    let group = w.group("Everybody", &ids.iter().map(String::as_str).chain([w.ann.id.as_str()]).collect::<Vec<_>>()).await;
    let role = json!({"name": "R", "rules": (["person", "service"].map(|kind| allow("view", target(kind, "*"))))});
    let role = w.owner.api.post("/roles", role).await.created().id();
    w.owner.api.post("/role-bindings", json!({"role_id": role, "subject_kind": "group", "subject_id": group})).await.created();
    w.ann.api.post("/chats", json!({"targets": targets, "body": "x"})).await.invalid("targets");
    w.ann.api.post("/chats", json!({"targets": [], "body": "x"})).await.invalid("targets");
    let full = w.ann.api.post("/chats", json!({"targets": targets[..99], "body": "x"})).await.created().s("conversation_id");
    assert_eq!(w.conversation(&w.ann.api, &full).await.list("participants").len(), 100);
    change(&w.ann.api, &full, json!({"operation": "add", "version": 1, "members": [ids[99]]})).await.invalid("members");
    change(&w.ann.api, &full, json!({"operation": "remove", "version": 1, "members": [ids[0]]})).await.ok();
    change(&w.ann.api, &full, json!({"operation": "add", "version": 2, "members": [ids[99]]})).await.ok();
}

async fn the_manager_renames_adds_and_removes(w: World) {
    let chat = chat(&w).await;
    let rename = json!({"operation": "rename", "version": 1, "title": "Ship"});
    for member in [&w.builder.api, &w.billing.api] {
        change(member, &chat, rename.clone()).await.forbidden();
        change(member, &chat, json!({"operation": "add", "version": 1, "members": [w.hidden.id]})).await.forbidden();
        change(member, &chat, json!({"operation": "remove", "version": 1, "members": [w.ann.id]})).await.forbidden();
    }
    change(&w.bob.api, &chat, rename.clone()).await.not_found();
    assert_eq!(change(&w.ann.api, &chat, rename).await.ok(), json!({"conversation_id": chat, "version": 2}));
    assert_eq!(w.conversation(&w.builder.api, &chat).await["title"], "Ship");
    let add = json!({"operation": "add", "version": 2, "members": [w.hidden.id]});
    assert_eq!(change(&w.ann.api, &chat, add).await.ok(), json!({"conversation_id": chat, "version": 3}));
    assert_eq!(names(&w.conversation(&w.ann.api, &chat).await["participants"]), ["Ann", "Billing 2", "Builder 7", "Hidden 9"]);
    let remove = json!({"operation": "remove", "version": 3, "members": [w.builder.id, w.hidden.id]});
    assert_eq!(change(&w.ann.api, &chat, remove).await.ok(), json!({"conversation_id": chat, "version": 4}));
    w.builder.api.get(&format!("/conversations/{chat}")).await.not_found();
    let shown = w.conversation(&w.ann.api, &chat).await;
    assert_eq!(
        (names(&shown["participants"]), names(&shown["past_participants"])),
        (vec!["Ann".into(), "Billing 2".into()], vec!["Builder 7".into(), "Hidden 9".into()])
    );
}

async fn an_operator_manages_too(w: World) {
    let chat = chat(&w).await;
    change(&w.owner.api, &chat, json!({"operation": "rename", "version": 1, "title": "T"})).await.ok();
    change(&w.owner.api, &chat, json!({"operation": "add", "version": 2, "members": [w.hidden.id]})).await.ok();
    change(&w.owner.api, &chat, json!({"operation": "remove", "version": 3, "members": [w.hidden.id]})).await.ok();
    // An operator is bound by versions like everybody.
    change(&w.owner.api, &chat, json!({"operation": "rename", "version": 3, "title": "U"}))
        .await
        .refused(409, "version_conflict");
    change(&w.owner.api, &chat, json!({"operation": "remove", "version": 4, "members": [w.ann.id]}))
        .await
        .refused(409, "manager_required");
}

async fn anybody_leaves(w: World) {
    let chat = chat(&w).await;
    let left = change(&w.builder.api, &chat, json!({"operation": "leave", "version": 1})).await.ok();
    assert_eq!(left, json!({"conversation_id": chat, "version": 2, "left": true}));
    w.builder.api.get(&format!("/conversations/{chat}")).await.not_found();
    w.builder.api.post("/messages", json!({"conversation_id": chat, "body": "x"})).await.not_found();
    w.say(&w.ann.api, &chat, "without builder").await;
    assert!(w.builder.lease(10).await.is_empty());
}

async fn the_manager_names_a_successor(w: World) {
    let chat = chat(&w).await;
    change(&w.ann.api, &chat, json!({"operation": "leave", "version": 1})).await.refused(409, "manager_required");
    change(&w.ann.api, &chat, json!({"operation": "remove", "version": 1, "members": [w.ann.id]}))
        .await
        .refused(409, "manager_required");
    let stranger = json!({"operation": "leave", "version": 1, "next_manager": w.bob.id});
    change(&w.ann.api, &chat, stranger).await.refused(400, "invalid_request");
    let own = json!({"operation": "leave", "version": 1, "next_manager": w.ann.id});
    change(&w.ann.api, &chat, own).await.refused(400, "invalid_request");
    assert_eq!(w.conversation(&w.ann.api, &chat).await.n("version"), 1);
    let leave = json!({"operation": "leave", "version": 1, "next_manager": w.builder.id});
    assert_eq!(change(&w.ann.api, &chat, leave).await.ok(), json!({"conversation_id": chat, "version": 2, "left": true}));
    assert_eq!(w.conversation(&w.billing.api, &chat).await["manager_id"], json!(w.builder.id));
    change(&w.builder.api, &chat, json!({"operation": "remove", "version": 2, "members": [w.billing.id]})).await.ok();
    // The last one needs no successor.
    change(&w.builder.api, &chat, json!({"operation": "leave", "version": 3})).await.ok();
}

async fn versions_guard_every_change(w: World) {
    let chat = chat(&w).await;
    for version in [0, 2, 99] {
        for mut body in [
            json!({"operation": "rename", "title": "T"}),
            json!({"operation": "add", "members": [w.hidden.id]}),
            json!({"operation": "remove", "members": [w.builder.id]}),
        ] {
            body["version"] = json!(version);
            let answer = change(&w.ann.api, &chat, body.clone()).await;
            assert!(version == 0 && answer.status == 400 || answer.code() == "version_conflict", "{body}: {}", answer.text);
        }
        let leave = json!({"operation": "leave", "version": version});
        assert!(matches!(change(&w.builder.api, &chat, leave).await.status, 400 | 409));
    }
    let shown = w.conversation(&w.ann.api, &chat).await;
    assert_eq!((shown.n("version"), shown.list("participants").len()), (1, 3));
}

async fn only_chats_have_membership(w: World) {
    let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "x").await;
    for body in [
        json!({"operation": "rename", "version": 1, "title": "T"}),
        json!({"operation": "add", "version": 1, "members": [w.ann.id]}),
        json!({"operation": "leave", "version": 1}),
    ] {
        let answer = change(&w.builder.api, &conversation, body).await;
        assert!(matches!(answer.status, 400 | 403), "{}", answer.text);
    }
    assert_eq!(w.conversation(&w.builder.api, &conversation).await.list("participants").len(), 2);
}

async fn newcomers_view_the_members(w: World) {
    let chat = chat(&w).await;
    let carl = w.person("Carl", "carl").await;
    let add = json!({"operation": "add", "version": 1, "members": [carl.id]});
    // Ann may see Carl, but Carl may not see them.
    let refused = change(&w.ann.api, &chat, add.clone()).await;
    for name in ["Carl", "Builder 7", "Billing 2", &carl.id, &w.builder.id] {
        assert!(!refused.text.contains(name), "{}", refused.text);
    }
    refused.forbidden();
    w.policy(&carl.target(), vec![allow("view", w.ann.target()), allow("view", w.builder.target())]).await;
    change(&w.ann.api, &chat, add.clone()).await.forbidden();
    let all = [w.ann.target(), w.builder.target(), w.billing.target()].map(|t| allow("view", t));
    w.policy(&carl.target(), all.to_vec()).await;
    change(&w.ann.api, &chat, add).await.ok();
}

async fn odd_member_lists_are_refused(w: World) {
    let chat = chat(&w).await;
    for (body, field) in [
        (json!({"operation": "add", "version": 1}), "members"),
        (json!({"operation": "add", "version": 1, "members": []}), "members"),
        (json!({"operation": "remove", "version": 1}), "members"),
        (json!({"operation": "rename", "version": 1}), "title"),
        (json!({"operation": "rename", "version": 1, "title": "x".repeat(201)}), "title"),
        (json!({"operation": "merge", "version": 1}), "operation"),
        (json!({"operation": "leave"}), "version"),
        (json!({"operation": "add", "version": 1, "members": "all"}), "members"),
    ] {
        change(&w.ann.api, &chat, body).await.invalid(field);
    }
    change(&w.ann.api, &chat, json!({"operation": "add", "version": 1, "members": ["per_none"]})).await.not_found();
    assert_eq!(w.conversation(&w.ann.api, &chat).await.n("version"), 1);
}

async fn membership_makes_no_deliveries(w: World) {
    let chat = chat(&w).await;
    change(&w.ann.api, &chat, json!({"operation": "rename", "version": 1, "title": "T"})).await.ok();
    change(&w.ann.api, &chat, json!({"operation": "add", "version": 2, "members": [w.hidden.id]})).await.ok();
    change(&w.ann.api, &chat, json!({"operation": "remove", "version": 3, "members": [w.builder.id]})).await.ok();
    change(&w.billing.api, &chat, json!({"operation": "leave", "version": 4})).await.ok();
    for worker in [&w.builder, &w.billing, &w.hidden] {
        assert!(worker.lease(10).await.is_empty());
    }
}

async fn what_a_removed_agent_had_not_taken_is_withdrawn(w: World) {
    let chat = chat(&w).await;
    w.say(&w.ann.api, &chat, "secret").await;
    change(&w.ann.api, &chat, json!({"operation": "remove", "version": 1, "members": [w.billing.id]})).await.ok();
    assert!(w.billing.lease(10).await.is_empty());
    assert_eq!(w.builder.lease_one().await["payload"]["message"]["body"], "secret");
    // Also when it comes back.
    change(&w.ann.api, &chat, json!({"operation": "add", "version": 2, "members": [w.billing.id]})).await.ok();
    assert!(w.billing.lease(10).await.is_empty());
    w.say(&w.ann.api, &chat, "welcome back").await;
    assert_eq!(w.billing.lease_one().await["payload"]["message"]["body"], "welcome back");
}

async fn every_member_posts_without_a_rule(w: World) {
    let chat = chat(&w).await;
    for role in [&w.builder, &w.billing] {
        w.policy(&role.target(), vec![]).await;
    }
    w.say(&w.builder.api, &chat, "still here").await;
    assert_eq!(w.bodies(&w.billing.api, &chat).await, ["first", "still here"]);
}

async fn mentions_count_code_points(w: World) {
    let chat = chat(&w).await;
    let mention = |body: &str, start: usize, end: usize| {
        let mention = json!({"principal_id": w.billing.id, "start": start, "end": end});
        w.ann.api.post("/messages", json!({"conversation_id": chat, "body": body, "mentions": [mention]}))
    };
    let token = "@Billing 2";
    for before in ["", "plain ", "e\u{301} ", "🇩🇪 ", "👨‍👩‍👧 ", "👋🏽 ", "日本 ", "a\r\nb ", "👋"] {
        let body = format!("{before}{token} check.");
        let start = before.chars().count();
        let end = start + token.chars().count();
        let sent = mention(&body, start, end).await.created();
        assert_eq!(sent["messages"][0]["mentions"], json!([{"principal_id": w.billing.id, "start": start, "end": end}]));
        assert_eq!(w.billing.drain().await[0]["payload"]["message"]["mentions"][0]["start"], json!(start));
        let (bytes, units) = (before.len(), before.encode_utf16().count());
        for wrong in [bytes, units].into_iter().filter(|at| *at != start) {
            mention(&body, wrong, wrong + 10).await.refused(400, "invalid_request");
        }
        let length = body.chars().count();
        for (from, to) in [
            (start, end - 1),
            (start + 1, end),
            (start, end + 1),
            (end, start),
            (start, start),
            (start, length + 1),
            (length, length + 10),
        ] {
            mention(&body, from, to).await.refused(400, "invalid_request");
        }
    }
    assert!(w.billing.lease(10).await.is_empty());
}

async fn mentions_name_a_participant_exactly(w: World) {
    let chat = chat(&w).await;
    let send = |body: &str, mentions: Value| {
        w.ann.api.post("/messages", json!({"conversation_id": chat, "body": body, "mentions": mentions}))
    };
    let at = |id: &str, start: i64, end: i64| json!({"principal_id": id, "start": start, "end": end});
    send("@Builder 7", json!([at(&w.billing.id, 0, 10)])).await.refused(400, "invalid_request");
    send("@Hidden 9", json!([at(&w.hidden.id, 0, 9)])).await.refused(400, "invalid_request");
    send("@Nobody", json!([at("agt_none", 0, 7)])).await.refused(400, "invalid_request");
    send("@billing 2", json!([at(&w.billing.id, 0, 10)])).await.refused(400, "invalid_request");
    send("＠Billing 2", json!([at(&w.billing.id, 0, 10)])).await.refused(400, "invalid_request");
    send("@Billing 2 @Builder 7", json!([at(&w.billing.id, 0, 10), at(&w.builder.id, 11, 21)])).await.created();
    // Negative, and not whole.
    send("@Billing 2", json!([at(&w.billing.id, -1, 10)])).await.refused(400, "invalid_request");
    // At most twenty.
    let body = "@Billing 2 ".repeat(21);
    let mentions: Vec<_> = (0..21).map(|n| at(&w.billing.id, n * 11, n * 11 + 10)).collect();
    send(&body, json!(mentions[..20])).await.created();
    send(&body, json!(mentions)).await.invalid("mentions");
    // In requests, and in the chat's first message.
    let ask = json!({"conversation_id": chat, "body": "@Billing 2?", "mentions": [at(&w.billing.id, 0, 10)]});
    assert_eq!(w.ann.api.post("/requests", ask).await.created()["mentions"][0]["end"], 10);
    let ask = json!({"conversation_id": chat, "body": "@Billing 2?", "mentions": [at(&w.billing.id, 0, 11)]});
    w.ann.api.post("/requests", ask).await.refused(400, "invalid_request");
    let start = json!({"targets": [w.billing.target()], "body": "@Billing 2", "mentions": [at(&w.billing.id, 0, 10)]});
    w.ann.api.post("/chats", start).await.created();
    // A name in decomposed form is another text.
    let zoe = w.person("Zo\u{eb}", "zoe").await;
    w.acquaint(&[&zoe.id]).await;
    change(&w.ann.api, &chat, json!({"operation": "add", "version": 1, "members": [zoe.id]})).await.ok();
    send("@Zo\u{eb}", json!([at(&zoe.id, 0, 4)])).await.created();
    send("@Zoe\u{308}", json!([at(&zoe.id, 0, 5)])).await.refused(400, "invalid_request");
}

async fn a_chat_with_an_agent_beside_its_instance_conflicts(w: World) {
    w.acquaint(&[&w.ann.id, &w.builder.id, &w.billing.id]).await;
    for targets in [
        json!([w.builder.exact()]),
        json!([w.builder.target(), w.builder.exact()]),
        json!([target("group", &w.group("G", &[&w.builder.id]).await)]),
    ] {
        let answer = w.ann.api.post("/chats", json!({"targets": targets, "body": "x"})).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{}", answer.text);
    }
    let twice = json!({"targets": [w.builder.target(), w.builder.target(), w.ann.target()], "body": "x"});
    let once = w.ann.api.post("/chats", twice).await;
    assert!(matches!(once.status, 201 | 400), "{}", once.text);
}
