//! Section 4: one message, its audience, its fields and its limits.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::{World, allow, contacts, target};
use serde_json::{Value, json};

on_both_stores!(
    a_message_has_its_fields,
    exactly_one_of_target_and_conversation,
    bodies_are_counted_in_bytes_and_titles_in_code_points,
    a_message_needs_a_body,
    each_send_opens_a_conversation_unless_reused,
    reuse_never_takes_a_shared_chat,
    a_group_fans_out_to_private_histories,
    a_group_can_be_larger_than_a_batch,
    a_group_message_shows_no_members_in_the_directory,
    a_minimal_receipt_counts_messages,
    instance_targets_reach_that_one_alone,
    a_gone_instance_is_403,
    people_and_services_have_no_inbox,
    received_by_is_for_the_sender,
    sequences_and_ids_ascend,
    a_conversation_shows_the_newest_200,
    strangers_get_404,
    drafts_and_previews_of_nobody_are_refused,
);

async fn a_message_has_its_fields(w: World) {
    let body = json!({"target": w.billing.target(), "body": "hello", "title": "Invoices"});
    let sent = w.builder.api.post("/messages", body).await.created();
    let message = &sent["messages"][0];
    assert_eq!(sent.list("messages").len(), 1);
    assert!(sent.s("conversation_id").starts_with("cnv_") && message.id().starts_with("msg_"));
    assert_eq!(message["conversation_id"], sent["conversation_id"]);
    assert_eq!((message["body"].as_str(), message["sender_id"].as_str()), (Some("hello"), Some(w.builder.id.as_str())));
    assert_eq!(message["instance_id"], json!(w.builder.instance));
    assert_eq!(message["created_at"], json!(w.site.now().to_string()));
    assert!(message.n("sequence") > 0);
    for absent in ["received_by", "attachments", "mentions"] {
        assert!(message.get(absent).is_none(), "{message}");
    }
    let conversation = w.conversation(&w.billing.api, &sent.s("conversation_id")).await;
    assert_eq!(conversation["title"], "Invoices");
    assert_eq!(conversation["messages"], json!([message]));
    assert_eq!(conversation["history_start"], 0);
    assert!(conversation.get("more_before").is_none_or(|v| v == false));
    let mut participants = conversation.list("participants");
    participants.sort_by_key(|p| p.s("name"));
    assert_eq!(
        participants,
        [
            json!({"id": w.billing.id, "kind": "agent", "name": "Billing 2"}),
            json!({"id": w.builder.id, "kind": "agent", "name": "Builder 7"})
        ]
    );
    // A person's message names no instance.
    let sent = w.ann.api.post("/messages", json!({"target": w.billing.target(), "body": "x"})).await.created();
    assert!(sent["messages"][0].get("instance_id").is_none());
}

async fn exactly_one_of_target_and_conversation(w: World) {
    let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "x").await;
    for path in ["/messages", "/requests"] {
        let both = json!({"target": w.billing.target(), "conversation_id": conversation, "body": "x"});
        w.builder.api.post(path, both).await.refused(400, "invalid_request");
        w.builder.api.post(path, json!({"body": "x"})).await.refused(400, "invalid_request");
    }
    assert_eq!(w.billing.drain().await.len(), 1);
}

async fn bodies_are_counted_in_bytes_and_titles_in_code_points(w: World) {
    let limit = 32 * 1024;
    let send = |body: String| w.builder.api.post("/messages", json!({"target": w.billing.target(), "body": body}));
    send("x".repeat(limit)).await.created();
    send("x".repeat(limit + 1)).await.invalid("body");
    send("é".repeat(limit / 2)).await.created();
    send(format!("{}x", "é".repeat(limit / 2))).await.invalid("body");
    send("👋".repeat(limit / 4)).await.created();
    send(format!("{}x", "👋".repeat(limit / 4))).await.invalid("body");
    let titled =
        |title: String| w.builder.api.post("/messages", json!({"target": w.billing.target(), "body": "x", "title": title}));
    titled("👋".repeat(200)).await.created();
    titled("👋".repeat(201)).await.invalid("title");
    titled("x".repeat(201)).await.invalid("title");
    // A long body is not echoed.
    let answer = send("secret ".repeat(limit)).await;
    assert!(answer.text.len() < 1_000 && !answer.text.contains("secret secret"));
}

async fn a_message_needs_a_body(w: World) {
    for body in [json!(""), json!(null)] {
        w.builder
            .api
            .post("/messages", json!({"target": w.billing.target(), "body": body}))
            .await
            .refused(400, "invalid_request");
    }
    w.builder.api.post("/messages", json!({"target": w.billing.target()})).await.refused(400, "invalid_request");
}

async fn each_send_opens_a_conversation_unless_reused(w: World) {
    let to = w.billing.target();
    let (first, _) = w.send(&w.builder.api, &to, "1").await;
    let (second, _) = w.send(&w.builder.api, &to, "2").await;
    assert_ne!(first, second);
    let reuse = |from: &beepgrid_tests::raw::Api, to: &Value| {
        from.post("/messages", json!({"target": to, "body": "r", "reuse_direct": true}))
    };
    let reused = reuse(&w.builder.api, &to).await.created().s("conversation_id");
    assert!(reused == first || reused == second);
    // It is the history of the two, whoever began it.
    let back = reuse(&w.billing.api, &w.builder.target()).await.created().s("conversation_id");
    assert!(back == first || back == second);
    let asked = w.builder.api.post("/requests", json!({"target": to, "body": "q", "reuse_direct": true})).await.created();
    assert!(asked.s("conversation_id") == first || asked.s("conversation_id") == second);
    let fresh = reuse(&w.builder.api, &w.ann.target()).await.created().s("conversation_id");
    assert!(fresh != first && fresh != second);
    assert_eq!(reuse(&w.builder.api, &w.ann.target()).await.created().s("conversation_id"), fresh);
}

async fn reuse_never_takes_a_shared_chat(w: World) {
    let chat =
        w.builder.api.post("/chats", json!({"targets": [w.billing.target()], "body": "x"})).await.created().s("conversation_id");
    let body = json!({"target": w.billing.target(), "body": "r", "reuse_direct": true});
    assert_ne!(w.builder.api.post("/messages", body).await.created().s("conversation_id"), chat);
}

async fn a_group_fans_out_to_private_histories(w: World) {
    let group = w.group("All", &[&w.ann.id, &w.billing.id, &w.builder.id, &w.hidden.id]).await;
    let mut rules = contacts(&[w.ann.target(), w.billing.target()]);
    rules.push(allow("message", target("group", &group)));
    w.policy(&w.builder.target(), rules).await;
    let sent = w.builder.api.post("/messages", json!({"target": target("group", &group), "body": "all"})).await.created();
    // Everybody in it but the sender.
    let messages = sent.list("messages");
    assert_eq!(messages.len(), 3, "{sent}");
    assert_eq!(messages[0]["conversation_id"], sent["conversation_id"]);
    let conversations: std::collections::BTreeSet<_> = messages.iter().map(|m| m.s("conversation_id")).collect();
    assert_eq!(conversations.len(), 3);
    assert!(messages.iter().all(|m| m["body"] == "all" && m["sender_id"] == json!(w.builder.id)));
    for id in &conversations {
        assert_eq!(w.conversation(&w.owner.api, id).await.list("participants").len(), 2);
    }
    for worker in [&w.billing, &w.hidden] {
        let received = worker.lease_one().await;
        assert_eq!(received["payload"]["message"]["body"], "all");
        let own = received["payload"].s("conversation_id");
        let others = conversations.iter().filter(|id| **id != own);
        for other in others {
            worker.api.get(&format!("/conversations/{other}")).await.not_found();
        }
    }
    assert!(w.builder.lease(10).await.is_empty());
}

async fn a_group_can_be_larger_than_a_batch(w: World) {
    let mut members = Vec::new();
    for at in 0..130 {
        let body = json!({"name": format!("S{at}"), "external_id": format!("s{at}")});
        members.push(w.owner.api.post("/services", body).await.created().id());
    }
    let group = w.group("Many", &members.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let body = json!({"target": target("group", &group), "body": "all"});
    assert_eq!(w.owner.api.post("/messages", body).await.created().list("messages").len(), 130);
}

async fn a_group_message_shows_no_members_in_the_directory(w: World) {
    let group = w.group("Hidden", &[&w.hidden.id, &w.builder.id]).await;
    w.policy(&w.bob.target(), vec![allow("message", target("group", &group))]).await;
    let send = || w.bob.api.post("/messages", json!({"target": target("group", &group), "body": "all"}));
    assert_eq!(send().header("prefer", "return=minimal").await.created()["message_count"], 2);
    assert_eq!(send().await.created().list("messages").len(), 2);
    assert!(w.bob.api.get("/directory?kind=agent").await.ok().list("items").is_empty());
    // The group is reached for messages alone.
    w.bob.api.post("/requests", json!({"target": target("group", &group), "body": "q"})).await.forbidden();
}

async fn a_minimal_receipt_counts_messages(w: World) {
    let group = w.group("Two", &[&w.ann.id, &w.billing.id]).await;
    let body = json!({"target": target("group", &group), "body": "all"});
    let receipt = w.owner.api.post("/messages", body).header("prefer", "return=minimal").await.created();
    assert_eq!(receipt, json!({"conversation_id": receipt["conversation_id"], "message_count": 2}));
}

async fn instance_targets_reach_that_one_alone(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    w.send(&w.builder.api, &second.exact(), "for the second").await;
    assert!(w.billing.lease(10).await.is_empty());
    assert_eq!(second.lease_one().await["payload"]["message"]["body"], "for the second");
    w.send(&w.builder.api, &w.billing.target(), "for either").await;
    let taken = [w.billing.lease(10).await, second.lease(10).await].concat();
    assert_eq!(taken.len(), 1);
}

async fn a_gone_instance_is_403(w: World) {
    let second = w.enroll("team/billing-2", "Billing 2").await;
    let credential = second.api.get("/me").await.ok()["credential"].id();
    w.owner.api.post(&format!("/credentials/{credential}/revoke"), json!({})).await.ok();
    w.builder.api.post("/messages", json!({"target": second.exact(), "body": "x"})).await.forbidden();
    w.builder.api.post("/messages", json!({"target": target("instance", "ins_none"), "body": "x"})).await.not_found();
    w.send(&w.builder.api, &w.billing.target(), "x").await;
}

async fn people_and_services_have_no_inbox(w: World) {
    w.send(&w.builder.api, &w.ann.target(), "x").await;
    w.ann.api.post("/inbox/lease", json!({})).await.forbidden();
    w.owner.api.post("/inbox/lease", json!({})).await.forbidden();
    w.ann.api.post("/heartbeat", json!({})).await.forbidden();
}

async fn received_by_is_for_the_sender(w: World) {
    let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "x").await;
    let shown = || async { w.conversation(&w.builder.api, &conversation).await["messages"][0].get("received_by").cloned() };
    assert_eq!(shown().await, None);
    let delivery = w.billing.lease_one().await;
    assert_eq!(shown().await, None);
    w.billing.ack(&delivery).await;
    assert_eq!(shown().await, Some(json!([w.billing.id])));
    let theirs = w.conversation(&w.billing.api, &conversation).await;
    assert!(theirs["messages"][0].get("received_by").is_none());
    assert!(delivery["payload"]["message"].get("received_by").is_none());
}

async fn sequences_and_ids_ascend(w: World) {
    let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "0").await;
    for at in 1..20 {
        let from = if at % 2 == 0 { &w.builder.api } else { &w.billing.api };
        w.say(from, &conversation, &at.to_string()).await;
    }
    let messages = w.conversation(&w.owner.api, &conversation).await.list("messages");
    assert_eq!(messages.iter().map(|m| m.s("body")).collect::<Vec<_>>(), (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(messages.windows(2).all(|pair| pair[0].n("sequence") < pair[1].n("sequence") && pair[0].id() < pair[1].id()));
}

async fn a_conversation_shows_the_newest_200(w: World) {
    let (conversation, _) = w.send(&w.builder.api, &w.ann.target(), "0").await;
    for at in 1..200 {
        w.say(&w.builder.api, &conversation, &at.to_string()).await;
    }
    let full = w.conversation(&w.ann.api, &conversation).await;
    assert_eq!(full.list("messages").len(), 200);
    assert!(full.get("more_before").is_none_or(|v| v == false));
    w.say(&w.builder.api, &conversation, "200").await;
    let cut = w.conversation(&w.ann.api, &conversation).await;
    let bodies = cut["messages"].each("body");
    assert_eq!((bodies.len(), bodies[0].as_str(), bodies[199].as_str()), (200, "1", "200"));
    assert_eq!(cut["more_before"], true);
}

async fn strangers_get_404(w: World) {
    let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "x").await;
    for api in [&w.ann.api, &w.bob.api, &w.hidden.api] {
        api.get(&format!("/conversations/{conversation}")).await.not_found();
        api.post("/messages", json!({"conversation_id": conversation, "body": "x"})).await.not_found();
        api.post("/requests", json!({"conversation_id": conversation, "body": "x"})).await.not_found();
        let leave = json!({"operation": "leave", "version": 1});
        api.post(&format!("/conversations/{conversation}/membership"), leave).await.not_found();
    }
    assert_eq!(w.billing.drain().await.len(), 1);
}

async fn drafts_and_previews_of_nobody_are_refused(w: World) {
    let draft = json!({"target": w.billing.target(), "body": "x", "attachment_ids": ["att_none"]});
    w.builder.api.post("/messages", draft).await.not_found();
    let preview = json!({"target": w.billing.target(), "body": "x", "preview_token": "made up"});
    let answer = w.builder.api.post("/messages", preview).await;
    assert!(matches!((answer.status, answer.code().as_str()), (409, "preview_stale") | (404, "not_found")), "{}", answer.text);
    assert!(w.billing.lease(10).await.is_empty());
}
