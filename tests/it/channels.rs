//! Section 10: connections, destinations, links, preferences and routes as data; assistance settings. Nothing is sent.

use beepgrid::Timestamp;
use beepgrid::webhook::{self, WebhookSecret};
use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Answer, Members};
use beepgrid_tests::world::{World, credential};
use serde_json::{Value, json};

on_both_stores!(
    a_connection_never_shows_its_secret,
    connections_are_for_their_managers_alone,
    diagnostics_and_setup_send_nothing,
    destinations_and_links_belong_to_a_person,
    preferences_are_versioned_and_take_own_destinations_only,
    a_route_preview_follows_preferences,
    assistance_is_switched_by_its_managers,
    a_test_is_queued_once_per_key,
    a_test_needs_a_connection_in_use_and_one_of_its_destinations,
    deliveries_over_connections_stand_beside_those_to_agents,
    what_waits_for_something_that_is_gone_fails,
    a_callback_is_taken_with_its_signature_over_the_raw_body,
    who_cannot_sign_learns_nothing_of_connections,
);

const SECRET: &str = "xoxb-a-very-secret-token";

async fn connect(w: &World) -> Value {
    let input = json!({"kind": "slack", "name": "Team Slack", "config": {"team": "T1"}, "secret": SECRET, "enabled": true});
    w.owner.api.post("/connections", input).await.created()
}

async fn a_connection_never_shows_its_secret(w: World) {
    let made = connect(&w).await;
    assert!(made.id().starts_with("con_"));
    assert_eq!((made["has_secret"].clone(), made.n("version"), made["config"].clone()), (json!(true), 1, json!({"team": "T1"})));
    let path = format!("/connections/{}", made.id());
    let edited = w.owner.api.patch(&path, json!({"version": 1, "enabled": false})).await.ok();
    assert_eq!((edited["enabled"].clone(), edited["has_secret"].clone(), edited.n("version")), (json!(false), json!(true), 2));
    for text in [made.to_string(), edited.to_string(), w.owner.api.get(&format!("{path}/diagnostics")).await.text] {
        assert!(!text.contains("secret-token"), "{text}");
    }
    w.owner.api.patch(&path, json!({"version": 1, "name": "x"})).await.refused(409, "version_conflict");
    let short = json!({"kind": "slack", "name": "S", "secret": "1234567"});
    w.owner.api.post("/connections", short).await.invalid("secret");
    w.owner.api.post("/connections", json!({"kind": "pigeon", "name": "P"})).await.invalid("kind");
    let hook = json!({"kind": "webhook", "name": "W", "secret": "whsec_not base64 at all"});
    w.owner.api.post("/connections", hook).await.invalid("secret");
    w.owner.api.post("/connections", json!({"kind": "webhook", "name": "W", "secret": "whsec_MTIzNDU2Nzg5MA=="})).await.created();
}

async fn connections_are_for_their_managers_alone(w: World) {
    let made = connect(&w).await;
    let path = format!("/connections/{}", made.id());
    w.builder.api.post("/connections", json!({"kind": "slack", "name": "S"})).await.forbidden();
    w.builder.api.patch(&path, json!({"version": 1, "name": "x"})).await.not_found();
    w.ann.api.get(&format!("{path}/setup")).await.not_found();
    w.ann.api.delete(&path).await.not_found();
    let open = w.owner.api.post("/capabilities", json!({"connection_id": made.id()})).await.ok();
    assert_eq!(open["operations"], json!({"manage": true, "test": true, "view": true}));
    let closed = w.ann.api.post("/capabilities", json!({"connection_id": made.id()})).await.ok();
    assert_eq!(closed["operations"], json!({"manage": false, "test": false, "view": false}));
    assert_eq!(w.owner.api.delete(&path).await.ok(), json!({"deleted": true}));
    w.owner.api.delete(&path).await.not_found();
}

async fn diagnostics_and_setup_send_nothing(w: World) {
    let made = connect(&w).await;
    let diagnostics = w.owner.api.get(&format!("/connections/{}/diagnostics", made.id())).await.ok();
    assert_eq!(diagnostics["ok"], true);
    let bare = w.owner.api.post("/connections", json!({"kind": "smtp", "name": "Mail"})).await.created();
    let diagnostics = w.owner.api.get(&format!("/connections/{}/diagnostics", bare.id())).await.ok();
    assert_eq!(diagnostics["ok"], false);
    let setup = w.owner.api.get(&format!("/connections/{}/setup", made.id())).await.ok();
    assert!(setup.s("callback_url").ends_with(&format!("/api/v1/callbacks/{}", made.id())));
    assert!(!setup.list("steps").is_empty());
}

async fn destinations_and_links_belong_to_a_person(w: World) {
    let connection = connect(&w).await.id();
    let input = json!({"connection_id": connection, "principal_id": w.ann.id, "address": "D1", "mode": "primary", "priority": 1});
    let made = w.owner.api.post("/destinations", input.clone()).await.created();
    assert!(made.id().starts_with("dst_"));
    let path = format!("/destinations/{}", made.id());
    w.ann.api.post("/destinations", input).await.not_found();
    assert_eq!(w.ann.api.patch(&path, json!({"version": 1, "priority": 3})).await.ok().n("priority"), 3);
    w.ann.api.patch(&path, json!({"version": 2, "address": "D2"})).await.forbidden();
    w.bob.api.patch(&path, json!({"version": 2, "priority": 1})).await.not_found();
    let wrong = json!({"connection_id": connection, "principal_id": w.ann.id, "address": "D1", "mode": "loud"});
    w.owner.api.post("/destinations", wrong).await.invalid("mode");
    let to_agent = json!({"connection_id": connection, "principal_id": w.builder.id, "address": "D1", "mode": "copy"});
    w.owner.api.post("/destinations", to_agent).await.not_found();
    assert_eq!(w.ann.api.delete(&path).await.ok(), json!({"deleted": true}));

    let link = json!({"connection_id": connection, "principal_id": w.ann.id, "provider_account": "U1"});
    let made = w.owner.api.post("/account-links", link.clone()).await.created();
    assert!(made.id().starts_with("lnk_"));
    w.owner.api.post("/account-links", link).await.refused(409, "already_exists");
    w.bob.api.delete(&format!("/account-links/{}", made.id())).await.not_found();
    w.ann.api.delete(&format!("/account-links/{}", made.id())).await.ok();
}

async fn destination(w: &World, connection: &str, address: &str, mode: &str, priority: i64) -> String {
    let input = json!({
        "connection_id": connection, "principal_id": w.ann.id, "address": address, "mode": mode, "priority": priority,
    });
    w.owner.api.post("/destinations", input).await.created().id()
}

async fn preferences_are_versioned_and_take_own_destinations_only(w: World) {
    let connection = connect(&w).await.id();
    let own = destination(&w, &connection, "D1", "primary", 0).await;
    let path = format!("/people/{}/delivery-preferences", w.ann.id);
    let never = w.ann.api.get(&path).await.ok();
    assert_eq!(never, json!({"person_id": w.ann.id, "version": 0, "default": null, "overrides": []}));
    let policy = |id: &str| json!({"mode": "preferred", "destinations": [id], "followup_seconds": 0});
    let saved = w.ann.api.put(&path, json!({"version": 0, "default": policy(&own), "overrides": []})).await.ok();
    assert_eq!((saved.n("version"), saved["default"].clone()), (1, policy(&own)));
    w.ann.api.put(&path, json!({"version": 0, "overrides": []})).await.refused(409, "version_conflict");
    w.ann.api.put(&path, json!({"version": 1, "default": policy("dst_none")})).await.not_found();
    let soon = json!({"version": 1, "default": {"mode": "all", "destinations": [], "followup_seconds": 4}});
    w.ann.api.put(&path, soon).await.invalid("default.followup_seconds");
    w.ann.api.put(&path, json!({"version": 1, "person_id": w.bob.id})).await.invalid("person_id");
    w.bob.api.get(&path).await.not_found();
    w.bob.api.put(&path, json!({"version": 1})).await.not_found();
    assert_eq!(w.owner.api.get(&path).await.ok().n("version"), 1);
}

async fn a_route_preview_follows_preferences(w: World) {
    let connection = connect(&w).await.id();
    let second = destination(&w, &connection, "D2", "fallback", 0).await;
    let first = destination(&w, &connection, "D1", "primary", 5).await;
    let input = json!({"target": w.ann.target(), "operation": "message"});
    let ids = |preview: &Value| preview.list("routes").iter().map(|route| route.s("destination_id")).collect::<Vec<_>>();
    let usual = w.builder.api.post("/routes/preview", input.clone()).await.ok();
    assert_eq!(usual["workspace"], true);
    assert_eq!(ids(&usual), [first.clone(), second.clone()]);
    let policy = |destinations: Value| json!({"mode": "all", "destinations": destinations, "followup_seconds": 0});
    let overrides = json!([{"source": w.builder.target(), "policy": policy(json!([second]))}]);
    let path = format!("/people/{}/delivery-preferences", w.ann.id);
    w.ann.api.put(&path, json!({"version": 0, "default": policy(json!([])), "overrides": overrides})).await.ok();
    assert_eq!(ids(&w.builder.api.post("/routes/preview", input.clone()).await.ok()), [second]);
    assert!(ids(&w.billing.api.post("/routes/preview", input.clone()).await.ok()).is_empty());
    w.hidden.api.post("/routes/preview", input).await.not_found();
}

async fn assistance_is_switched_by_its_managers(w: World) {
    let now = w.ann.api.get("/assistance").await.ok();
    assert_eq!(now, json!({"overseer": false, "version": 1, "overseer_configured": false}));
    w.ann.api.patch("/assistance", json!({"overseer": true})).await.forbidden();
    let on = w.owner.api.patch("/assistance", json!({"overseer": true, "version": 1})).await.ok();
    assert_eq!((on["overseer"].clone(), on.n("version")), (json!(true), 2));
    w.owner.api.patch("/assistance", json!({"overseer": false, "version": 1})).await.refused(409, "version_conflict");
}

async fn query(w: &World, collection: &str, filters: Value) -> Vec<Value> {
    let page = w.owner.api.post("/query", json!({"collection": collection, "filters": filters})).await.ok();
    page.list("items")
}

async fn a_test_is_queued_once_per_key(w: World) {
    let connection = connect(&w).await.id();
    let to = destination(&w, &connection, "D1", "primary", 0).await;
    let path = format!("/connections/{connection}/test");
    let body = json!({"destination_id": to});
    let test = w.owner.api.post(&path, body.clone()).key("t").await.created();
    let now = w.after(0).to_string();
    let expected = json!({
        "id": test.id(), "recipient_id": w.ann.id, "kind": "test", "state": "queued", "attempt": 1, "at": now,
        "connection_id": connection, "destination_id": to, "operation_id": test.id(), "created_at": now,
    });
    assert_eq!(test, expected);
    assert_eq!(w.owner.api.post(&path, body.clone()).key("t").await.ok(), test);
    let other = json!({"destination_id": destination(&w, &connection, "D2", "copy", 1).await});
    w.owner.api.post(&path, other).key("t").await.refused(409, "idempotency_conflict");
    assert_eq!(query(&w, "deliveries", json!({"connection_id": connection})).await, [test.clone()]);
    let attempt = json!({
        "id": format!("{}.1", test.id()), "delivery_id": test.id(), "connection_id": connection, "destination_id": to, "number": 1,
        "state": "queued", "at": now, "created_at": now,
    });
    assert_eq!(query(&w, "delivery_attempts", json!({"delivery_id": test.id()})).await, [attempt.clone()]);
    let exact = json!({"delivery_id": test.id(), "id": attempt.id()});
    assert_eq!(query(&w, "delivery_attempts", exact).await, [attempt]);
    for none in ["", ".0", ".01", ".2", "1"] {
        let exact = json!({"delivery_id": test.id(), "id": format!("{}{none}", test.id())});
        assert!(query(&w, "delivery_attempts", exact).await.is_empty(), "{none}");
    }
    // The person that it goes to, and whoever manages nothing, hears nothing of it.
    for api in [&w.ann.api, &w.builder.api] {
        let page = api.post("/query", json!({"collection": "deliveries"})).await.ok();
        assert!(page.list("items").is_empty());
        let attempts = json!({"collection": "delivery_attempts", "filters": {"delivery_id": test.id()}});
        api.post("/query", attempts).await.not_found();
    }
    w.owner.api.post("/query", json!({"collection": "delivery_attempts"})).await.invalid("filters.delivery_id");
    let unknown = json!({"collection": "delivery_attempts", "filters": {"delivery_id": "dlv_none"}});
    w.owner.api.post("/query", unknown).await.not_found();
}

async fn a_test_needs_a_connection_in_use_and_one_of_its_destinations(w: World) {
    let connection = connect(&w).await.id();
    let to = destination(&w, &connection, "D1", "primary", 0).await;
    let path = format!("/connections/{connection}/test");
    let body = json!({"destination_id": to});
    w.owner.api.post("/connections/con_none/test", body.clone()).await.not_found();
    w.owner.api.post(&path, json!({})).await.invalid("destination_id");
    w.owner.api.post(&path, json!({"destination_id": "dst_none"})).await.not_found();
    let elsewhere = destination(&w, &connect(&w).await.id(), "D1", "primary", 0).await;
    w.owner.api.post(&path, json!({"destination_id": elsewhere})).await.not_found();
    w.ann.api.post(&path, body.clone()).await.not_found();
    let (_, reader) = credential(&w.owner.api, &w.owner.id, Some(&["read"])).await;
    reader.post(&path, body.clone()).await.forbidden();
    w.delegate("connection", &w.bob.id).await;
    w.bob.api.post(&path, body.clone()).await.created();
    w.set_disabled("people", &w.ann.id, true).await;
    w.owner.api.post(&path, body.clone()).await.forbidden();
    w.set_disabled("people", &w.ann.id, false).await;
    w.owner.api.patch(&format!("/connections/{connection}"), json!({"version": 1, "enabled": false})).await.ok();
    w.owner.api.post(&path, body).await.forbidden();
    let open = w.owner.api.post("/capabilities", json!({"connection_id": connection})).await.ok();
    assert_eq!(open["operations"], json!({"manage": true, "test": false, "view": true}));
}

async fn deliveries_over_connections_stand_beside_those_to_agents(w: World) {
    let connection = connect(&w).await.id();
    let to = destination(&w, &connection, "D1", "primary", 0).await;
    w.send(&w.builder.api, &w.billing.target(), "to an agent").await;
    let path = format!("/connections/{connection}/test");
    let test = w.owner.api.post(&path, json!({"destination_id": to})).await.created();
    w.send(&w.builder.api, &w.billing.target(), "to an agent again").await;
    let kinds = |items: &[Value]| items.iter().map(|item| item.s("kind")).collect::<Vec<_>>();
    assert_eq!(kinds(&query(&w, "deliveries", json!({})).await), ["message", "test", "message"]);
    // Page by page the same.
    let (mut paged, mut cursor) = (Vec::new(), json!(null));
    loop {
        let body = json!({"collection": "deliveries", "limit": 1, "cursor": cursor});
        let page = w.owner.api.post("/query", body).await.ok();
        paged.extend(page.list("items"));
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(kinds(&paged), ["message", "test", "message"]);
    for (filters, expected) in [
        (json!({"state": "queued"}), vec!["test"]),
        (json!({"state": "ready"}), vec!["message", "message"]),
        (json!({"state": "accepted"}), vec![]),
        (json!({"connection_id": connection, "state": "queued"}), vec!["test"]),
        (json!({"connection_id": connection, "state": "ready"}), vec![]),
        (json!({"connection_id": "con_none"}), vec![]),
        (json!({"operation_id": test.id()}), vec!["test"]),
        (json!({"operation_id": test.id(), "connection_id": "con_none"}), vec![]),
        (json!({"operation_id": "msg_none"}), vec![]),
        (json!({"id": test.id()}), vec!["test"]),
        (json!({"request_id": "req_none"}), vec![]),
    ] {
        assert_eq!(kinds(&query(&w, "deliveries", filters.clone()).await), expected, "{filters}");
    }
    // Whoever manages connections sees how it travels.
    w.delegate("connection", &w.bob.id).await;
    let body = json!({"collection": "deliveries", "filters": {"connection_id": connection}});
    assert_eq!(w.bob.api.post("/query", body).await.ok().list("items"), [test]);
}

async fn what_waits_for_something_that_is_gone_fails(w: World) {
    let connection = connect(&w).await.id();
    let (one, two) =
        (destination(&w, &connection, "D1", "primary", 0).await, destination(&w, &connection, "D2", "copy", 1).await);
    let path = format!("/connections/{connection}/test");
    for to in [&one, &two] {
        w.owner.api.post(&path, json!({"destination_id": to})).await.created();
    }
    let states = || async {
        let found = query(&w, "deliveries", json!({"connection_id": connection})).await;
        found.iter().map(|item| (item.s("state"), item["reason"].clone())).collect::<Vec<_>>()
    };
    let queued = ("queued".to_owned(), json!(null));
    let failed = |reason: &str| ("failed".to_owned(), json!(reason));
    w.owner.api.delete(&format!("/destinations/{one}")).await.ok();
    assert_eq!(states().await, [failed("destination_gone"), queued]);
    w.owner.api.delete(&format!("/connections/{connection}")).await.ok();
    assert_eq!(states().await, [failed("destination_gone"), failed("connection_gone")]);
    let id = query(&w, "deliveries", json!({"connection_id": connection})).await[1].id();
    let attempts = query(&w, "delivery_attempts", json!({"delivery_id": id})).await;
    assert_eq!((attempts[0].s("state"), attempts[0].s("reason")), ("failed".into(), "connection_gone".into()));
}

const HOOK_SECRET: &str = "whsec_MTIzNDU2Nzg5MDEyMzQ1Ng==";

async fn call_back(w: &World, connection: &str, id: &str, body: &str, signed: &webhook::Signed) -> Answer {
    let call = w.owner.api.nobody().call(reqwest::Method::POST, &format!("/callbacks/{connection}"));
    let call = call.header(webhook::ID_HEADER, id).header(webhook::TIMESTAMP_HEADER, &signed.timestamp);
    call.header(webhook::SIGNATURE_HEADER, &signed.signature).header("content-type", "text/plain").bytes(body).await
}

async fn a_callback_is_taken_with_its_signature_over_the_raw_body(w: World) {
    let input = json!({"kind": "webhook", "name": "Hook", "secret": HOOK_SECRET, "enabled": true});
    let made = w.owner.api.post("/connections", input).await.created();
    let connection = made.id();
    let secret: WebhookSecret = HOOK_SECRET.parse().unwrap();
    let sign = |id: &str, body: &str, at: Timestamp| secret.sign(id, body.as_bytes(), at);
    let body = r#"{"b":1.0, "a":"\u00e9"}"#;
    let signed = sign("m1", body, w.after(0));
    assert_eq!(call_back(&w, &connection, "m1", body, &signed).await.ok(), json!({"received": true}));
    // A repetition is quiet, also with a fresh signature.
    let again = sign("m1", body, w.after(1));
    assert_eq!(call_back(&w, &connection, "m1", body, &again).await.ok(), json!({"received": true}));
    let rewritten = serde_json::from_str::<Value>(body).unwrap().to_string();
    let other: WebhookSecret = "another secret".parse().unwrap();
    for (id, body, signed) in [
        ("m2", rewritten.as_str(), sign("m2", body, w.after(0))),
        ("m3", body, sign("m2", body, w.after(0))),
        ("m2", body, sign("m2", body, w.after(301))),
        ("m2", body, other.sign("m2", body.as_bytes(), w.after(0))),
        ("m2", body, webhook::Signed { signature: String::new(), ..sign("m2", body, w.after(0)) }),
    ] {
        call_back(&w, &connection, id, body, &signed).await.refused(401, "unauthorized");
    }
    w.owner.api.nobody().post(&format!("/callbacks/{connection}"), json!({})).await.refused(401, "unauthorized");
    call_back(&w, &connection, "", body, &sign("", body, w.after(0))).await.refused(400, "invalid_request");
    let large = "x".repeat(256 * 1024 + 1);
    call_back(&w, &connection, "m4", &large, &sign("m4", &large, w.after(0))).await.refused(413, "too_large");
    let fits = "x".repeat(256 * 1024);
    call_back(&w, &connection, "m4", &fits, &sign("m4", &fits, w.after(0))).await.ok();
    // What is switched off takes nothing, and what is deleted leaves nothing behind that could stand in the way.
    let path = format!("/connections/{connection}");
    w.owner.api.patch(&path, json!({"version": 1, "enabled": false})).await.ok();
    call_back(&w, &connection, "m5", body, &sign("m5", body, w.after(0))).await.refused(401, "unauthorized");
    w.owner.api.delete(&path).await.ok();
    call_back(&w, &connection, "m5", body, &sign("m5", body, w.after(0))).await.refused(401, "unauthorized");
}

async fn who_cannot_sign_learns_nothing_of_connections(w: World) {
    let secret: WebhookSecret = HOOK_SECRET.parse().unwrap();
    let signed = secret.sign("m1", b"{}", w.after(0));
    let hook = async |input: Value| w.owner.api.post("/connections", input).await.created().id();
    let slack = hook(json!({"kind": "slack", "name": "Chat", "secret": HOOK_SECRET, "enabled": true})).await;
    let bare = hook(json!({"kind": "webhook", "name": "Hook", "enabled": true})).await;
    let off = hook(json!({"kind": "webhook", "name": "Hook", "secret": HOOK_SECRET, "enabled": false})).await;
    let other = hook(json!({"kind": "webhook", "name": "Hook", "secret": "another secret", "enabled": true})).await;
    let mut answers = Vec::new();
    for connection in ["con_none", &slack, &bare, &off, &other] {
        answers.push(call_back(&w, connection, "m1", "{}", &signed).await.refused(401, "unauthorized"));
        let unsigned = w.owner.api.nobody().post(&format!("/callbacks/{connection}"), json!({})).await;
        answers.push(unsigned.refused(401, "unauthorized"));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
}
