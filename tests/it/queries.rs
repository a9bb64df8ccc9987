//! Section 9 and the reader table of section 2: pages of every collection, and what each reader finds in them.

mod disclosure;
mod people;

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Answer, Api, Members};
use beepgrid_tests::world::{World, target};
use serde_json::{Value, json};

on_both_stores!(
    unknown_words_are_refused,
    limits_are_one_to_two_hundred,
    a_history_is_walked_in_order,
    cursors_are_bound_to_what_was_asked,
    search_is_by_words_without_case,
    requests_are_filtered_by_what_the_reader_sees,
    requests_of_many_sources_come_in_order,
    conversations_come_by_recent_activity,
    deliveries_are_listed_and_set_aside,
    executions_and_answers_are_found,
    order_follows_the_instant,
    account_and_providers_are_data,
);

pub(crate) async fn ask(api: &Api, collection: &str, filters: Value) -> Answer {
    api.post("/query", json!({"collection": collection, "filters": filters})).await
}

/// Everything on all pages, each of at most two records.
pub(crate) async fn walk(api: &Api, collection: &str, filters: Value) -> Vec<Value> {
    let mut body = json!({"collection": collection, "filters": filters, "limit": 2});
    let mut items = Vec::new();
    loop {
        let page = api.post("/query", body.clone()).await.ok();
        assert!(page.list("items").len() <= 2);
        items.extend(page.list("items"));
        match page.get("next_cursor") {
            Some(cursor) => body["cursor"] = cursor.clone(),
            None => return items,
        }
    }
}

/// The ids of everything on all pages.
pub(crate) async fn ids(api: &Api, collection: &str, filters: Value) -> Vec<String> {
    walk(api, collection, filters).await.iter().map(Members::id).collect()
}

/// Lets a principal manage a kind of resource.
pub(crate) async fn delegate(w: &World, subject: &str, kind: &str) {
    let rule = json!({"action": "manage", "target_kind": kind, "target_id": "*"});
    let role = w.owner.api.post("/roles", json!({"name": "Delegate", "rules": [rule]})).await.created().id();
    let body = json!({"role_id": role, "subject_kind": "principal", "subject_id": subject});
    w.owner.api.post("/role-bindings", body).await.created();
}

const COLLECTIONS: &[&str] = &[
    "people",
    "agents",
    "services",
    "groups",
    "roles",
    "connections",
    "destinations",
    "credentials",
    "instances",
    "requests",
    "conversations",
    "messages",
    "answers",
    "executions",
    "deliveries",
    "attachments",
];

async fn unknown_words_are_refused(w: World) {
    let owner = &w.owner.api;
    let (conversation, _) = w.send(&w.ann.api, &w.builder.target(), "x").await;
    for collection in COLLECTIONS {
        let required = match *collection {
            "messages" | "attachments" => json!({"conversation_id": conversation}),
            _ => json!({}),
        };
        let page = ask(owner, collection, required.clone()).await.ok();
        assert!(page["order"].is_string() && page["items"].is_array(), "{page}");
        let mut with = required.clone();
        with["id"] = json!("nothing_1");
        assert_eq!(ask(owner, collection, with.clone()).await.ok()["items"], json!([]), "{collection}");
        with["colour"] = json!("red");
        ask(owner, collection, with).await.invalid("filters.colour");
        let mut number = required;
        number["id"] = json!(7);
        ask(owner, collection, number).await.refused(400, "invalid_request");
    }
    ask(owner, "everything", json!({})).await.invalid("collection");
    owner.post("/query", json!({})).await.refused(400, "invalid_request");
    owner.post("/query", json!({"collection": "people", "order": "name"})).await.invalid("order");
    for collection in ["messages", "attachments"] {
        ask(owner, collection, json!({})).await.invalid("filters.conversation_id");
        ask(owner, collection, json!({"conversation_id": ""})).await.invalid("filters.conversation_id");
        ask(owner, collection, json!({"conversation_id": "cnv_none"})).await.not_found();
    }
    for (collection, filter) in [("people", "presence"), ("roles", "name"), ("answers", "key"), ("conversations", "shared")] {
        ask(owner, collection, json!({ filter: "connected" })).await.invalid(filter);
    }
    for (collection, filter) in
        [("agents", "disabled"), ("agents", "presence"), ("groups", "purpose"), ("requests", "state"), ("credentials", "kind")]
    {
        ask(owner, collection, json!({ filter: "sideways" })).await.invalid(filter);
        // An empty one is absent.
        ask(owner, collection, json!({ filter: "" })).await.ok();
    }
    w.owner.api.nobody().post("/query", json!({"collection": "people"})).await.refused(401, "unauthorized");
}

async fn limits_are_one_to_two_hundred(w: World) {
    let with = |limit: Value| w.owner.api.post("/query", json!({"collection": "people", "limit": limit}));
    for limit in [json!(0), json!(201), json!(-1), json!(1.0), json!("1")] {
        with(limit).await.refused(400, "invalid_request");
    }
    assert_eq!(with(json!(1)).await.ok().list("items").len(), 1);
    let all = with(json!(200)).await.ok();
    assert!(all.list("items").len() > 1 && all.get("next_cursor").is_none());
    let search = "ä".repeat(200);
    w.owner.api.post("/query", json!({"collection": "people", "search": search})).await.ok();
    w.owner.api.post("/query", json!({"collection": "people", "search": format!("{search}b")})).await.invalid("search");
}

async fn a_history_is_walked_in_order(w: World) {
    let (conversation, first) = w.send(&w.ann.api, &w.builder.target(), "m0").await;
    let mut sent = vec![first];
    for at in 1..7 {
        let from = if at % 2 == 0 { &w.ann.api } else { &w.builder.api };
        sent.push(w.say(from, &conversation, &format!("m{at}")).await);
    }
    let of = json!({"conversation_id": conversation});
    assert_eq!(ids(&w.builder.api, "messages", of.clone()).await, sent);
    // A record is what the conversation shows.
    let shown = w.conversation(&w.ann.api, &conversation).await;
    assert_eq!(json!(walk(&w.ann.api, "messages", of.clone()).await), shown["messages"]);
    // What comes between two pages is neither lost nor seen twice.
    let page = w.ann.api.post("/query", json!({"collection": "messages", "filters": of, "limit": 5})).await.ok();
    sent.push(w.say(&w.builder.api, &conversation, "m7").await);
    let next = json!({"collection": "messages", "filters": of, "limit": 5, "cursor": page["next_cursor"]});
    let rest = w.ann.api.post("/query", next).await.ok();
    assert_eq!([page["items"].each("id"), rest["items"].each("id")].concat(), sent);
    assert!(rest.get("next_cursor").is_none());
}

async fn cursors_are_bound_to_what_was_asked(w: World) {
    let asked = json!({"collection": "agents", "limit": 1});
    let cursor = w.owner.api.post("/query", asked.clone()).await.ok().s("next_cursor");
    let mut again = asked.clone();
    again["cursor"] = json!(cursor);
    w.owner.api.post("/query", again.clone()).await.ok();
    w.ann.api.post("/query", again.clone()).await.refused(400, "invalid_cursor");
    for (member, value) in
        [("limit", json!(2)), ("search", json!("b")), ("filters", json!({"disabled": "false"})), ("collection", json!("people"))]
    {
        let mut other = again.clone();
        other[member] = value;
        w.owner.api.post("/query", other).await.refused(400, "invalid_cursor");
    }
    let last = if cursor.ends_with('0') { "1" } else { "0" };
    for bad in ["x".to_owned(), "00".to_owned(), format!("{}{last}", &cursor[..cursor.len() - 1]), format!("{cursor}00")] {
        let mut other = asked.clone();
        other["cursor"] = json!(bad);
        w.owner.api.post("/query", other).await.refused(400, "invalid_cursor");
    }
    w.advance(24 * 3600 + 1);
    w.owner.api.post("/query", again).await.refused(410, "cursor_expired");
}

async fn search_is_by_words_without_case(w: World) {
    let search = |collection: &'static str, words: &'static str| {
        let owner = &w.owner.api;
        async move { owner.post("/query", json!({"collection": collection, "search": words})).await.ok()["items"].each("name") }
    };
    assert_eq!(search("agents", "BUILDER").await, ["Builder 7"]);
    assert_eq!(search("agents", "  7  build ").await, ["Builder 7"]);
    assert_eq!(search("agents", "team/").await, ["Builder 7", "Billing 2"]);
    assert_eq!(search("agents", "builder billing").await, Vec::<String>::new());
    for wild in ["%", "_", "*", "'", "\\"] {
        assert_eq!(w.owner.api.post("/query", json!({"collection": "agents", "search": wild})).await.ok()["items"], json!([]));
    }
    let (conversation, message) = w.send(&w.ann.api, &w.builder.target(), "The ÜBERGANG is red").await;
    let found = json!({"collection": "messages", "filters": {"conversation_id": conversation}, "search": "red übergang"});
    assert_eq!(w.builder.api.post("/query", found).await.ok()["items"].each("id"), [message]);
    let body = json!({"target": w.builder.target(), "title": "Deploy now", "body": "Which host?"});
    let request = w.ann.api.post("/requests", body).await.created().id();
    for words in ["deploy HOST", "now"] {
        let found = w.builder.api.post("/query", json!({"collection": "requests", "search": words})).await.ok();
        assert_eq!(found["items"].each("id"), [request.clone()]);
    }
    w.owner.api.post("/query", json!({"collection": "executions", "search": "x"})).await.invalid("search");
}

async fn requests_are_filtered_by_what_the_reader_sees(w: World) {
    let one = w.ask(&w.ann.api, &w.builder.target(), "one").await;
    let two = w.ask(&w.builder.api, &w.billing.target(), "two").await;
    w.ann.api.post(&format!("/requests/{}/cancel", one.id()), json!({"version": 1})).await.ok();
    let of = |api: Api, filters: Value| async move { ids(&api, "requests", filters).await };
    let builder = &w.builder.api;
    assert_eq!(of(builder.clone(), json!({})).await, [one.id(), two.id()]);
    assert_eq!(of(builder.clone(), json!({"state": "open"})).await, [two.id()]);
    assert_eq!(of(builder.clone(), json!({"state": "cancelled", "kind": "question"})).await, [one.id()]);
    assert_eq!(of(builder.clone(), json!({"kind": "task"})).await, Vec::<String>::new());
    assert_eq!(of(builder.clone(), json!({"requester_id": w.ann.id})).await, [one.id()]);
    assert_eq!(of(builder.clone(), json!({"recipient_id": w.billing.id})).await, [two.id()]);
    assert_eq!(of(builder.clone(), json!({"recipient_id": w.builder.id})).await, [one.id()]);
    assert_eq!(of(builder.clone(), json!({"conversation_id": two["conversation_id"]})).await, [two.id()]);
    assert_eq!(
        of(builder.clone(), json!({"conversation_id": two["conversation_id"], "state": "cancelled"})).await,
        Vec::<String>::new()
    );
    assert_eq!(of(w.owner.api.clone(), json!({"recipient_id": w.builder.id, "requester_id": w.ann.id})).await, [one.id()]);
    assert_eq!(of(w.owner.api.clone(), json!({})).await, [one.id(), two.id()]);
    assert_eq!(of(w.bob.api.clone(), json!({})).await, Vec::<String>::new());
    assert_eq!(of(w.bob.api.clone(), json!({"requester_id": w.ann.id})).await, Vec::<String>::new());
    ask(&w.bob.api, "requests", json!({"conversation_id": two["conversation_id"]})).await.not_found();
    // An item is what the request itself shows, a deadline that has come included.
    let due = json!({"target": w.builder.target(), "body": "soon", "expires_at": w.after(5).to_string()});
    let due = w.ann.api.post("/requests", due).await.created().id();
    w.advance(6);
    let item = ask(builder, "requests", json!({"id": due, "state": "expired"})).await.ok();
    assert_eq!(item["items"][0], builder.get(&format!("/requests/{due}")).await.ok());
}

async fn requests_of_many_sources_come_in_order(w: World) {
    let chat = crate::chats::chat(&w).await;
    let mut made = Vec::new();
    for at in 0..4 {
        // Asked of Billing in the chat (Builder sees it), by Builder, and of Builder.
        made.push(
            w.ann.api.post("/requests", json!({"conversation_id": chat, "body": format!("chat {at}")})).await.created().id(),
        );
        made.push(w.ask(&w.builder.api, &w.ann.target(), "mine").await.id());
        made.push(w.ask(&w.billing.api, &w.builder.target(), "yours").await.id());
    }
    assert_eq!(ids(&w.builder.api, "requests", json!({})).await, made);
    let in_chat: Vec<String> = made.iter().step_by(3).cloned().collect();
    assert_eq!(ids(&w.builder.api, "requests", json!({"conversation_id": chat})).await, in_chat);
    assert_eq!(ids(&w.owner.api, "requests", json!({"conversation_id": chat})).await, in_chat);
}

async fn conversations_come_by_recent_activity(w: World) {
    let (a, _) = w.send(&w.ann.api, &w.builder.target(), "a").await;
    let (b, _) = w.send(&w.ann.api, &w.billing.target(), "b").await;
    let (c, _) = w.send(&w.builder.api, &w.ann.target(), "c").await;
    assert_eq!(ids(&w.ann.api, "conversations", json!({})).await, [c.clone(), b.clone(), a.clone()]);
    w.say(&w.builder.api, &a, "again").await;
    assert_eq!(ids(&w.ann.api, "conversations", json!({})).await, [a.clone(), c.clone(), b.clone()]);
    assert_eq!(ids(&w.owner.api, "conversations", json!({})).await, [a.clone(), c.clone(), b.clone()]);
    assert_eq!(ids(&w.ann.api, "conversations", json!({"participant_id": w.billing.id})).await, [b.clone()]);
    assert_eq!(ids(&w.owner.api, "conversations", json!({"participant_id": w.builder.id})).await, [a.clone(), c]);
    let page = ask(&w.ann.api, "conversations", json!({"id": a})).await.ok();
    let (mut whole, summary) = (w.conversation(&w.ann.api, &a).await, page["items"][0].clone());
    whole.as_object_mut().unwrap().remove("messages");
    assert_eq!(summary, whole);
    assert_ne!(page["order"], ask(&w.ann.api, "agents", json!({})).await.ok()["order"]);
}

async fn deliveries_are_listed_and_set_aside(w: World) {
    let asked = w.ask(&w.builder.api, &w.billing.target(), "q").await.id();
    w.send(&w.ann.api, &w.billing.target(), "x").await;
    let of_request = json!({"request_id": asked});
    let mine = walk(&w.builder.api, "deliveries", of_request.clone()).await;
    assert_eq!(
        (mine.len(), mine[0]["recipient_id"].as_str(), mine[0]["state"].as_str()),
        (1, Some(w.billing.id.as_str()), Some("ready"))
    );
    assert_eq!(walk(&w.builder.api, "deliveries", json!({})).await, mine);
    assert_eq!(walk(&w.owner.api, "deliveries", json!({})).await.len(), 2);
    // Who was asked sees nothing of how it travelled, and a message's deliveries are the operator's.
    for reader in [&w.billing.api, &w.ann.api, &w.bob.api] {
        assert!(walk(reader, "deliveries", json!({})).await.is_empty());
        assert!(walk(reader, "deliveries", of_request.clone()).await.is_empty());
    }
    w.billing.lease(10).await;
    assert_eq!(walk(&w.builder.api, "deliveries", json!({"state": "leased"})).await.len(), 1);
    assert!(walk(&w.owner.api, "deliveries", json!({"state": "parked"})).await.is_empty());
    assert!(walk(&w.owner.api, "deliveries", json!({"connection_id": "con_1"})).await.is_empty());
}

async fn executions_and_answers_are_found(w: World) {
    let action = json!({"name": "deploy", "executor_id": w.builder.id, "resource": "r", "operation_key": "op/1"});
    let body = json!({"target": w.ann.target(), "body": "May I?", "kind": "approval", "action": action});
    let request = w.owner.api.post("/requests", body).await.created().id();
    assert_eq!(ids(&w.builder.api, "requests", json!({})).await, [request.clone()], "the executor sees its part");
    assert_eq!(ids(&w.builder.api, "requests", json!({"requester_id": w.owner.id})).await, Vec::<String>::new());
    w.ann.api.post(&format!("/requests/{request}/respond"), json!({"outcome": "approved", "version": 1})).await.ok();
    let made = w.builder.api.post(&format!("/requests/{request}/redeem"), json!({"action": action})).await.created().id();
    for reader in [&w.owner.api, &w.ann.api, &w.builder.api] {
        assert_eq!(ids(reader, "executions", json!({})).await, [made.clone()]);
        assert_eq!(ids(reader, "executions", json!({"request_id": request, "state": "authorized"})).await, [made.clone()]);
        assert!(ids(reader, "executions", json!({"state": "succeeded"})).await.is_empty());
    }
    assert!(ids(&w.billing.api, "executions", json!({"request_id": request})).await.is_empty());
    let question = w.ask(&w.ann.api, &w.billing.target(), "Which region?").await.id();
    let response = json!({"outcome": "answered", "answer": "EU", "version": 1});
    w.billing.api.post(&format!("/requests/{question}/respond"), response).await.ok();
    let publication = json!({"request_id": question, "key": "region", "audience": [w.builder.id]});
    let answer = w.owner.api.post("/answers", publication).await.created().id();
    for reader in [&w.owner.api, &w.builder.api] {
        assert_eq!(ids(reader, "answers", json!({})).await, [answer.clone()]);
    }
    assert!(ids(&w.ann.api, "answers", json!({"id": answer})).await.is_empty());
}

/// Field report B43: instants in any writing are kept, ordered and compared as instants.
async fn order_follows_the_instant(w: World) {
    let (writings, same) =
        (["10:00:00Z", "13:00:00.5+03:00", "10:00:00.25+00:00", "10:00:00.250000Z", "13:00:00.123456789+03:00"], 5);
    let mut made = Vec::new();
    for writing in writings {
        let body = json!({"target": w.builder.target(), "body": "x", "expires_at": format!("2026-12-02T{writing}")});
        let asked = w.ann.api.post("/requests", body).await.created();
        assert!(asked.s("expires_at").ends_with('Z'));
        made.push((asked.s("expires_at").parse::<beepgrid::Timestamp>().unwrap(), asked.id()));
    }
    assert_eq!(made[2].0, made[3].0);
    // Listed by creation, whatever the deadline's text is; equal instants follow the id.
    let listed = ids(&w.builder.api, "requests", json!({})).await;
    assert_eq!(listed, made.iter().map(|(_, id)| id.clone()).collect::<Vec<_>>());
    // A deadline that is exactly now has come, the next microsecond's has not.
    let (quarter, half) = (made[2].0, made[1].0);
    let now = w.site.now();
    w.site.advance(quarter.since(now));
    let open = ids(&w.builder.api, "requests", json!({"state": "open"})).await;
    assert_eq!(open, [made[1].1.clone()]);
    assert_eq!(ids(&w.builder.api, "requests", json!({"state": "expired"})).await.len(), same - 1);
    w.site.advance(half.since(quarter));
    assert!(ids(&w.builder.api, "requests", json!({"state": "open"})).await.is_empty());
}

async fn account_and_providers_are_data(w: World) {
    let account = w.owner.api.get("/account").await.ok();
    assert_eq!(account["applied"], true);
    for (name, limit) in
        [("body_bytes", 32_768), ("chat_members", 100), ("page_scan_rows", 5_000), ("event_streams_per_principal", 8)]
    {
        assert_eq!(account["limits"].n(name), limit, "{account}");
    }
    for reader in [&w.ann.api, &w.builder.api] {
        reader.get("/account").await.forbidden();
    }
    let view = json!({"action": "view", "target_kind": "account", "target_id": "*"});
    w.policy(&w.ann.target(), vec![view.clone()]).await;
    w.policy(&w.builder.target(), vec![view]).await;
    assert_eq!(w.ann.api.get("/account").await.ok(), account);
    w.builder.api.get("/account").await.forbidden();
    let providers = w.ann.api.get("/providers").await.ok();
    assert_eq!(providers.each("kind"), ["slack", "telegram", "discord", "smtp", "webhook"]);
    let unknown = target("account", "*");
    w.owner
        .api
        .put(
            "/contact-permissions",
            json!({"subject": w.bob.target(), "version": 0, "rules": [
        {"action": "message", "target_kind": unknown["kind"], "target_id": "*"}]}),
        )
        .await
        .invalid("target_kind");
}
