//! Section 6: files. Field report B48 for them, and what happens to a draft.

mod client;
mod forms;

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Answer, Api, Members};
use beepgrid_tests::world::{World, contacts, credential, deny, target};
use reqwest::Method;
use serde_json::{Value, json};

use crate::chats::{change, chat};

on_both_stores!(
    a_draft_is_its_uploaders_alone,
    a_file_comes_with_its_message,
    each_operation_claims,
    a_replacement_keeps_the_files,
    a_refused_operation_claims_nothing,
    one_of_two_sends_claims_a_draft,
    a_send_finds_a_draft_or_fails_whole,
    drafts_are_bounded,
    an_upload_needs_the_right_to_post,
    newcomers_see_no_older_files,
    a_denied_author_has_no_files,
    a_file_of_a_request_is_seen_with_it,
    odd_ids_are_refused,
);

/// A form with one file. The boundary is in none of the tests' contents.
pub(crate) fn form(name: &str, content: &str) -> Vec<u8> {
    format!(
        "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: text/plain\r\n\r\n\
         {content}\r\n--XX--\r\n"
    )
    .into_bytes()
}

pub(crate) async fn upload(api: &Api, path: &str, name: &str, content: &str) -> Answer {
    let call = api.call(Method::POST, path).header("content-type", "multipart/form-data; boundary=XX");
    call.bytes(form(name, content)).await
}

pub(crate) async fn stage(api: &Api, content: &str) -> String {
    upload(api, "/attachments", "a.txt", content).await.created().id()
}

async fn send_with(api: &Api, to: &Value, drafts: &[&str]) -> Answer {
    api.post("/messages", json!({"target": to, "body": "see file", "attachment_ids": drafts})).await
}

/// Whether a file is there for this caller, on each of its paths alike.
async fn sees(api: &Api, id: &str) -> bool {
    let metadata = api.get(&format!("/attachments/{id}")).await;
    let content = api.get(&format!("/attachments/{id}/content")).await;
    assert_eq!(metadata.status, content.status);
    if metadata.status == 200 {
        return true;
    }
    let missing = api.get("/attachments/att_never").await.not_found();
    assert_eq!(metadata.not_found(), missing);
    assert_eq!(content.not_found(), missing);
    false
}

async fn listed(api: &Api, conversation: &str) -> Vec<String> {
    api.get(&format!("/conversations/{conversation}/attachments")).await.ok().each("id")
}

async fn a_draft_is_its_uploaders_alone(w: World) {
    let stored = upload(&w.builder.api, "/attachments", "orders.txt", "abc").await.created();
    assert!(stored.id().starts_with("att_"));
    assert_eq!((stored.s("file_name"), stored.s("media_type"), stored.n("size")), ("orders.txt".into(), "text/plain".into(), 3));
    assert_eq!(stored.s("sha256"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(stored["conversation_id"], "");
    assert_eq!(w.builder.api.get(&format!("/attachments/{}", stored.id())).await.ok(), stored);
    let content = w.builder.api.get(&format!("/attachments/{}/content", stored.id())).await;
    assert_eq!((content.status, content.text.as_str()), (200, "abc"));
    assert_eq!(content.header("etag"), format!("\"{}\"", stored.s("sha256")));
    assert_eq!(content.header("content-type"), "text/plain");
    assert_eq!(content.header("x-content-type-options"), "nosniff");
    assert!(content.header("content-disposition").starts_with("attachment; filename=\"orders.txt\""));
    for other in [&w.owner.api, &w.billing.api, &w.ann.api] {
        assert!(!sees(other, &stored.id()).await);
        send_with(other, &w.builder.target(), &[&stored.id()]).await.not_found();
    }
    // Another connection of the same agent is the same uploader.
    assert!(sees(&w.enroll("team/builder-7", "Builder 7").await.api, &stored.id()).await);
    w.advance(24 * 3_600);
    assert!(!sees(&w.builder.api, &stored.id()).await);
    send_with(&w.builder.api, &w.billing.target(), &[&stored.id()]).await.not_found();
}

async fn a_file_comes_with_its_message(w: World) {
    let drafts = [stage(&w.builder.api, "one").await, stage(&w.builder.api, "two").await];
    let both = [drafts[1].as_str(), drafts[0].as_str()];
    let with_key = || {
        let body = json!({"target": w.billing.target(), "body": "", "attachment_ids": both});
        w.builder.api.post("/messages", body).key("with-files")
    };
    let sent = with_key().await.created();
    let (conversation, message) = (sent.s("conversation_id"), &sent["messages"][0]);
    assert_eq!(message["attachments"].each("id"), both, "in the order in which they were given");
    assert_eq!(message["attachments"].each("conversation_id"), [conversation.as_str(); 2]);
    assert_eq!(message["attachments"].each("message_id"), [message.id(), message.id()]);
    assert_eq!(with_key().await.ok(), sent, "the same key shows the same files");
    send_with(&w.builder.api, &w.billing.target(), &[&drafts[0]]).await.refused(409, "attachment_claimed");
    send_with(&w.billing.api, &w.builder.target(), &[&drafts[0]]).await.refused(409, "attachment_claimed");

    assert_eq!(w.billing.lease_one().await["payload"]["message"]["attachments"].each("id"), both);
    for api in [&w.billing.api, &w.builder.api, &w.owner.api] {
        assert_eq!(w.conversation(api, &conversation).await["messages"][0]["attachments"].each("id"), both);
        assert_eq!(listed(api, &conversation).await, both);
        assert!(sees(api, &drafts[0]).await);
        let events = api.get(&format!("/events?conversation_id={conversation}")).await.ok().list("items");
        let created: Vec<_> = events.iter().filter(|event| event["kind"] == "attachment.created").collect();
        assert_eq!(created.iter().map(|event| event["data"].id()).collect::<Vec<_>>(), both);
        assert_eq!(created[0]["data"]["file_name"], "a.txt");
    }
    assert!(!sees(&w.ann.api, &drafts[0]).await);
    w.ann.api.get(&format!("/conversations/{conversation}/attachments")).await.not_found();
    w.advance(30 * 24 * 3_600);
    assert!(sees(&w.billing.api, &drafts[0]).await, "what was claimed stays");
}

async fn each_operation_claims(w: World) {
    let api = &w.builder.api;
    let targets = json!([w.billing.target(), w.ann.target()]);
    let content = |id: String| async move { api.get(&format!("/attachments/{id}/content")).await };

    let draft = stage(api, "batch").await;
    let body = json!({"targets": targets, "body": "x", "attachment_ids": [draft]});
    let sent = api.post("/messages/batch", body).await.created();
    let files: Vec<Value> =
        sent.as_array().unwrap().iter().map(|item| item["result"]["messages"][0]["attachments"][0].clone()).collect();
    assert_eq!(files[0].id(), draft);
    assert_ne!(files[1].id(), draft);
    assert_eq!(files[0]["sha256"], files[1]["sha256"]);
    assert_ne!(files[0]["conversation_id"], files[1]["conversation_id"]);
    assert_eq!(content(files[1].id()).await.text, "batch");
    assert!(sees(&w.ann.api, &files[1].id()).await && !sees(&w.ann.api, &draft).await);

    let group = w.group("Both", &[&w.ann.id, &w.billing.id]).await;
    let known = [w.ann.target(), w.billing.target(), target("group", &group)];
    w.policy(&w.builder.target(), contacts(&known)).await;
    let draft = stage(api, "group").await;
    let sent = send_with(api, &target("group", &group), &[&draft]).await.created();
    let ids: Vec<_> = sent.list("messages").iter().map(|message| message["attachments"][0].id()).collect();
    assert_eq!((ids.len(), &ids[0], ids[0] == ids[1]), (2, &draft, false));

    let draft = stage(api, "ask").await;
    let asked =
        api.post("/requests", json!({"target": w.ann.target(), "body": "ok?", "attachment_ids": [draft]})).await.created();
    assert_eq!(asked["attachments"].each("id"), [draft.as_str()]);
    assert_eq!(asked["attachments"][0]["request_id"], json!(asked.id()));
    assert_eq!(w.ann.api.get(&format!("/requests/{}", asked.id())).await.ok()["attachments"].each("id"), [draft.as_str()]);
    assert_eq!(listed(&w.ann.api, &asked.s("conversation_id")).await, [draft]);

    let draft = stage(api, "ask batch").await;
    let body = json!({"targets": targets, "request": {"body": "ok?", "attachment_ids": [draft]}});
    let asked = api.post("/requests/batch", body).await.created();
    let ids: Vec<_> = asked.as_array().unwrap().iter().map(|item| item["request"]["attachments"][0].id()).collect();
    assert_eq!((&ids[0], ids[0] == ids[1]), (&draft, false));

    let draft = stage(api, "group ask").await;
    let body = json!({"target": target("group", &group), "body": "ok?", "attachment_ids": [draft]});
    let asked = api.post("/requests", body).await.created();
    let mut seen = Vec::new();
    for member in [&w.ann.api, &w.billing.api] {
        let shown = member.get(&format!("/requests/{}", asked.id())).await.ok();
        assert_eq!(shown["attachments"][0]["conversation_id"], shown["conversation_id"], "each its own");
        assert_eq!(listed(member, &shown.s("conversation_id")).await, shown["attachments"].each("id"));
        seen.push(shown["attachments"][0].id());
    }
    assert_ne!(seen[0], seen[1]);
    assert!(!sees(&w.ann.api, &seen[1]).await && !sees(&w.billing.api, &seen[0]).await);

    w.acquaint(&[&w.ann.id, &w.billing.id, &w.builder.id]).await;
    let draft = stage(api, "chat").await;
    let started = api.post("/chats", json!({"targets": targets, "body": "x", "attachment_ids": [draft]})).await.created();
    assert_eq!(started["messages"][0]["attachments"].each("id"), [draft.as_str()]);
    assert_eq!(w.ann.api.get(&format!("/attachments/{draft}/content")).await.text, "chat");
}

async fn a_replacement_keeps_the_files(w: World) {
    let draft = stage(&w.builder.api, "plan").await;
    let body = json!({"target": w.ann.target(), "body": "ok?", "attachment_ids": [draft]});
    let asked = w.builder.api.post("/requests", body).await.created();
    let body = json!({"version": 1, "body": "better?"});
    let replaced = w.builder.api.post(&format!("/requests/{}/replace", asked.id()), body).key("k").await.created();
    assert_eq!(replaced["previous"]["attachments"].each("id"), [draft.as_str()]);
    let copy = replaced["replacement"]["attachments"][0].clone();
    assert_ne!(copy.id(), draft);
    assert_eq!((copy.s("file_name"), &copy["request_id"]), ("a.txt".into(), &replaced["replacement"]["id"]));
    assert_eq!(w.ann.api.get(&format!("/attachments/{}/content", copy.id())).await.text, "plan");
}

async fn a_refused_operation_claims_nothing(w: World) {
    let api = &w.builder.api;
    let draft = stage(api, "abc").await;
    let hidden = w.hidden.target();
    send_with(api, &hidden, &[&draft]).await.not_found();
    send_with(api, &w.billing.target(), &[&draft, "att_never"]).await.not_found();
    let batch = json!({"targets": [w.billing.target(), hidden], "body": "x", "attachment_ids": [draft]});
    api.post("/messages/batch", batch).await.not_found();
    let ask = json!({"targets": [w.billing.target(), hidden], "request": {"body": "x", "attachment_ids": [draft]}});
    api.post("/requests/batch", ask).await.not_found();
    api.post("/chats", json!({"targets": [hidden], "body": "x", "attachment_ids": [draft]})).await.not_found();
    let mentions = json!([{"principal_id": w.ann.id, "start": 0, "end": 1}]);
    let body = json!({"target": w.billing.target(), "body": "@x", "attachment_ids": [draft], "mentions": mentions});
    api.post("/messages", body).await.refused(400, "invalid_request");
    assert_eq!(w.billing.lease(10).await, [] as [Value; 0]);
    send_with(api, &w.billing.target(), &[&draft]).await.created();
}

async fn one_of_two_sends_claims_a_draft(w: World) {
    for round in 0..10 {
        let draft = stage(&w.builder.api, &format!("round {round}")).await;
        let (billing, ann) = (w.billing.target(), w.ann.target());
        let drafts = [draft.as_str()];
        let (a, b) = tokio::join!(send_with(&w.builder.api, &billing, &drafts), send_with(&w.builder.api, &ann, &drafts));
        let (won, lost) = if a.status == 201 { (a, b) } else { (b, a) };
        lost.refused(409, "attachment_claimed");
        assert_eq!(won.created()["messages"][0]["attachments"].each("id"), [draft]);
    }
}

async fn a_send_finds_a_draft_or_fails_whole(w: World) {
    for _ in 0..5 {
        let draft = stage(&w.builder.api, "abc").await;
        w.billing.drain().await;
        w.advance(24 * 3_600 - 1);
        // The sweeper wakes while the send is under way.
        let billing = w.billing.target();
        let drafts = [draft.as_str()];
        let (sent, ()) = tokio::join!(send_with(&w.builder.api, &billing, &drafts), async { w.advance(1) });
        let delivered = w.billing.drain().await;
        if sent.status == 201 {
            assert_eq!(delivered.len(), 1);
            w.advance(3 * 3_600);
            let content = w.billing.api.get(&format!("/attachments/{draft}/content")).await;
            assert_eq!((content.status, content.text.as_str()), (200, "abc"));
        } else {
            sent.not_found();
            assert_eq!(delivered, [] as [Value; 0]);
        }
    }
}

async fn drafts_are_bounded(w: World) {
    let mut drafts = Vec::new();
    for _ in 0..100 {
        drafts.push(stage(&w.builder.api, "x").await);
    }
    let beyond = upload(&w.builder.api, "/attachments", "a", "x").await;
    assert!(!beyond.header("retry-after").is_empty());
    beyond.refused(429, "rate_limited");
    stage(&w.billing.api, "x").await;
    // A claim makes room, and so does time.
    let sent = send_with(&w.builder.api, &w.billing.target(), &[&drafts[0]]).await.created();
    stage(&w.builder.api, "x").await;
    upload(&w.builder.api, "/attachments", "a", "x").await.refused(429, "rate_limited");
    let path = format!("/conversations/{}/attachments", sent.s("conversation_id"));
    upload(&w.builder.api, &path, "a", "x").await.created();
    w.advance(24 * 3_600);
    let large = "x".repeat(5 * 1024 * 1024);
    for _ in 0..20 {
        upload(&w.builder.api, "/attachments", "a", &large).await.created();
    }
    upload(&w.builder.api, "/attachments", "a", "x").await.refused(429, "rate_limited");
}

async fn an_upload_needs_the_right_to_post(w: World) {
    let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "hi").await;
    let path = format!("/conversations/{conversation}/attachments");
    let stored = upload(&w.billing.api, &path, "notes.txt", "abc").await.created();
    assert_eq!(stored["conversation_id"], json!(conversation));
    assert!(stored["message_id"].is_null());
    assert_eq!(listed(&w.builder.api, &conversation).await, [stored.id()]);
    send_with(&w.billing.api, &w.builder.target(), &[&stored.id()]).await.refused(409, "attachment_claimed");
    upload(&w.ann.api, &path, "a", "x").await.not_found();
    upload(&w.owner.api, &path, "a", "x").await.forbidden();
    upload(&w.builder.api, "/conversations/cnv_never/attachments", "a", "x").await.not_found();
    w.policy(&w.builder.target(), vec![deny("message", w.billing.target())]).await;
    w.policy(&w.billing.target(), vec![]).await;
    upload(&w.builder.api, &path, "a", "x").await.forbidden();

    let (_, reader) = credential(&w.owner.api, &w.ann.id, Some(&["read"])).await;
    upload(&reader, "/attachments", "a", "x").await.forbidden();
    let (_, writer) = credential(&w.owner.api, &w.ann.id, Some(&["message"])).await;
    let draft = stage(&writer, "x").await;
    writer.get(&format!("/attachments/{draft}/content")).await.forbidden();
    writer.get(&path).await.forbidden();
    assert!(sees(&reader, &draft).await);
}

async fn newcomers_see_no_older_files(w: World) {
    let chat = chat(&w).await;
    let path = format!("/conversations/{chat}/attachments");
    let mut ids = Vec::new();
    for at in 0..2 {
        let draft = stage(&w.ann.api, &format!("{at}")).await;
        let body = json!({"conversation_id": chat, "body": "x", "attachment_ids": [draft]});
        w.ann.api.post("/messages", body).await.created();
        ids.push(draft);
    }
    let add = |version: i64, who: String, share: bool| {
        let body = json!({"operation": "add", "version": version, "members": [who], "share_history": share});
        async { change(&w.ann.api, &chat, body).await.ok() }
    };
    add(1, w.bob.id.clone(), false).await;
    add(2, w.hidden.id.clone(), true).await;
    let boundary = upload(&w.ann.api, &path, "later.txt", "2").await.created().id();
    for old in &ids {
        assert!(!sees(&w.bob.api, old).await && sees(&w.hidden.api, old).await);
        send_with(&w.bob.api, &w.ann.target(), &[old]).await.not_found();
    }
    assert_eq!(listed(&w.bob.api, &chat).await, [boundary.as_str()]);
    assert_eq!(listed(&w.hidden.api, &chat).await.len(), 3);
    let events = w.bob.api.get("/events").await.ok().to_string();
    assert!(events.contains(&boundary) && !ids.iter().any(|id| events.contains(id.as_str())), "{events}");

    // Away, and back without and with the history.
    change(&w.ann.api, &chat, json!({"operation": "remove", "version": 3, "members": [w.bob.id]})).await.ok();
    assert!(!sees(&w.bob.api, &boundary).await);
    w.bob.api.get(&path).await.not_found();
    upload(&w.bob.api, &path, "a", "x").await.not_found();
    let away = upload(&w.ann.api, &path, "away.txt", "3").await.created().id();
    add(4, w.bob.id.clone(), false).await;
    for old in [&ids[0], &boundary, &away] {
        assert!(!sees(&w.bob.api, old).await);
    }
    assert_eq!(listed(&w.bob.api, &chat).await, [] as [String; 0]);
    change(&w.ann.api, &chat, json!({"operation": "remove", "version": 5, "members": [w.bob.id]})).await.ok();
    add(6, w.bob.id.clone(), true).await;
    assert_eq!(listed(&w.bob.api, &chat).await.len(), 4);
}

async fn a_denied_author_has_no_files(w: World) {
    let chat = chat(&w).await;
    let path = format!("/conversations/{chat}/attachments");
    let (by_ann, by_builder) =
        (upload(&w.ann.api, &path, "a", "x").await.created().id(), upload(&w.builder.api, &path, "b", "y").await.created().id());
    w.policy(&w.billing.target(), vec![deny("view", w.ann.target())]).await;
    assert!(!sees(&w.billing.api, &by_ann).await && sees(&w.billing.api, &by_builder).await);
    assert_eq!(listed(&w.billing.api, &chat).await, [by_builder.as_str()]);
    assert_eq!(listed(&w.ann.api, &chat).await, [by_ann, by_builder]);
}

async fn a_file_of_a_request_is_seen_with_it(w: World) {
    let draft = stage(&w.builder.api, "x").await;
    let action =
        json!({"name": "deploy", "executor_id": w.billing.id, "resource": "prod", "arguments": {}, "operation_key": "k"});
    let body = json!({"kind": "approval", "target": w.ann.target(), "body": "ok?", "attachment_ids": [draft], "action": action});
    let asked = w.builder.api.post("/requests", body).await.created();
    assert!(sees(&w.ann.api, &draft).await && sees(&w.builder.api, &draft).await && sees(&w.owner.api, &draft).await);
    // The executor sees a part of the request, without its files.
    let part = w.billing.api.get(&format!("/requests/{}", asked.id())).await.ok();
    assert!(part["attachments"].is_null());
    assert!(!sees(&w.billing.api, &draft).await);
}

async fn odd_ids_are_refused(w: World) {
    let draft = stage(&w.builder.api, "x").await;
    let six = ["att_0", "att_1", "att_2", "att_3", "att_4", "att_5"];
    send_with(&w.builder.api, &w.billing.target(), &six).await.invalid("attachment_ids");
    send_with(&w.builder.api, &w.billing.target(), &[&draft, &draft]).await.invalid("attachment_ids[1]");
    send_with(&w.builder.api, &w.billing.target(), &[""]).await.invalid("attachment_ids[0]");
    for odd in ["att_%00", "..", "att_1/../x", &"x".repeat(2_000)] {
        w.builder.api.get(&format!("/attachments/{odd}")).await.not_found();
    }
    w.builder.api.get("/conversations/cnv_never/attachments").await.not_found();
}
