//! Section 10: connections, destinations, links, preferences and routes as data; assistance settings. Nothing is sent.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::World;
use serde_json::{Value, json};

on_both_stores!(
    a_connection_never_shows_its_secret,
    connections_are_for_their_managers_alone,
    diagnostics_and_setup_send_nothing,
    destinations_and_links_belong_to_a_person,
    preferences_are_versioned_and_take_own_destinations_only,
    a_route_preview_follows_preferences,
    assistance_is_switched_by_its_managers,
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
