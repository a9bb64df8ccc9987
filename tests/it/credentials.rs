//! Section 2: credentials and their ceilings.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Api, Members};
use beepgrid_tests::world::{World, credential};
use reqwest::Method;
use serde_json::{Value, json};

on_both_stores!(
    a_credential_shows_everything_but_its_token,
    only_api_and_enrollment_are_issued,
    a_ceiling_restricts,
    me_needs_no_ceiling,
    an_empty_or_unknown_ceiling_is_refused,
    a_ceiling_is_passed_on_or_narrowed,
    none_outlives_its_maker,
    a_principal_lists_and_revokes_its_own,
    revocation_is_immediate,
    last_use_is_recorded,
    an_owner_under_a_ceiling_has_only_that_part,
);

async fn listed(api: &Api) -> Vec<Value> {
    api.get("/credentials").await.ok().as_array().expect("a bare list").clone()
}

async fn a_credential_shows_everything_but_its_token(w: World) {
    let body = json!({"principal_id": w.ann.id, "kind": "api", "name": "laptop", "permissions": ["read", "message"]});
    let issued = w.owner.api.post("/credentials", body).await.created();
    let token = issued.s("token");
    assert!(issued.id().starts_with("crd_"));
    assert_eq!(issued["kind"], "api");
    let answer = w.owner.api.get("/credentials").await;
    assert!(!answer.text.contains(&token));
    let all = answer.ok();
    let shown = all.as_array().unwrap().iter().find(|c| c["id"] == issued["id"]).expect("listed").clone();
    assert_eq!(shown["token_hint"], json!(token[token.len() - 4..]));
    assert_eq!(shown["permissions"], json!(["read", "message"]));
    assert_eq!((shown["name"].as_str(), shown["owner_name"].as_str()), (Some("laptop"), Some("Ann")));
    assert_eq!((shown.n("version"), shown["revoked"].as_bool()), (1, Some(false)));
    assert_eq!(shown["created_at"], json!(w.site.now().to_string()));
    assert_eq!(shown["expires_at"], json!(w.after(30 * 86_400).to_string()));
    for member in ["renewable_until", "previous_until"] {
        assert_eq!(shown.get(member), Some(&json!(null)), "{member}");
    }
    // Newest first.
    let ids = all.each("id");
    let mut sorted = ids.clone();
    sorted.sort_by(|a, b| b.cmp(a));
    assert_eq!(ids, sorted);
}

async fn only_api_and_enrollment_are_issued(w: World) {
    for kind in ["owner", "worker", "session", ""] {
        w.owner.api.post("/credentials", json!({"principal_id": w.ann.id, "kind": kind})).await.invalid("kind");
    }
    let nobody = json!({"principal_id": "per_none", "kind": "api"});
    let answer = w.owner.api.post("/credentials", nobody).await;
    assert!(matches!(answer.status, 400 | 404), "{}", answer.text);
}

async fn a_ceiling_restricts(w: World) {
    let builder = w.builder.target();
    let (conversation, _) = w.send(&w.ann.api, &builder, "x").await;
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    let own = w.ask(&w.ann.api, &builder, "q").await.id();
    let calls: Vec<(&str, Method, String, Value)> = vec![
        ("read", Method::GET, "/directory?kind=agent".into(), json!({})),
        ("read", Method::GET, format!("/conversations/{conversation}"), json!({})),
        ("read", Method::GET, format!("/requests/{own}"), json!({})),
        ("read", Method::GET, "/credentials".into(), json!({})),
        ("message", Method::POST, "/messages".into(), json!({"target": builder, "body": "x"})),
        ("message", Method::POST, "/messages/batch".into(), json!({"targets": [builder], "body": "x"})),
        ("message", Method::POST, "/chats".into(), json!({"targets": [builder], "body": "x"})),
        ("message", Method::POST, "/conversations/cnv_x/membership".into(), json!({"operation": "leave", "version": 1})),
        ("request", Method::POST, "/requests".into(), json!({"target": builder, "body": "x"})),
        ("request", Method::POST, "/requests/batch".into(), json!({"targets": [builder], "request": {"body": "x"}})),
        ("request", Method::POST, format!("/requests/{own}/replace"), json!({"version": 9, "body": "x"})),
        ("request", Method::POST, format!("/requests/{own}/cancel"), json!({"version": 9})),
        ("respond", Method::POST, format!("/requests/{asked}/respond"), json!({"outcome": "answered", "version": 9})),
        ("manage", Method::POST, "/groups".into(), json!({"name": "G", "purpose": "team"})),
        ("manage", Method::POST, "/people".into(), json!({"name": "G", "external_id": "g"})),
    ];
    for ceiling in ["read", "message", "request", "respond", "execute", "manage"] {
        let (_, api) = credential(&w.owner.api, &w.ann.id, Some(&[ceiling])).await;
        for (needs, method, path, body) in &calls {
            if *needs == "manage" && ceiling == "manage" {
                continue; // within the ceiling, but Ann herself manages nothing
            }
            let mut call = api.call(method.clone(), path);
            if *method != Method::GET {
                call = call.json(body);
            }
            if path.ends_with("/replace") {
                call = call.key("k");
            }
            let answer = call.await;
            if *needs == ceiling {
                assert_ne!(answer.status, 403, "{ceiling} at {path}: {}", answer.text);
            } else {
                assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden"), "{ceiling} at {path}: {}", answer.text);
            }
        }
    }
}

async fn me_needs_no_ceiling(w: World) {
    for ceiling in ["read", "message", "request", "respond", "execute", "manage"] {
        let (_, api) = credential(&w.owner.api, &w.ann.id, Some(&[ceiling])).await;
        assert_eq!(api.get("/me").await.ok()["credential"]["permissions"], json!([ceiling]));
    }
}

async fn an_empty_or_unknown_ceiling_is_refused(w: World) {
    for permissions in [json!([]), json!(["fly"]), json!(["read", "fly"]), json!("read"), json!([1])] {
        let body = json!({"principal_id": w.ann.id, "kind": "api", "permissions": permissions});
        w.owner.api.post("/credentials", body).await.invalid("permissions");
    }
}

async fn a_ceiling_is_passed_on_or_narrowed(w: World) {
    let (_, narrow) = credential(&w.owner.api, &w.owner.id, Some(&["manage", "read"])).await;
    let issue = |permissions: Value| {
        narrow.post("/credentials", json!({"principal_id": w.ann.id, "kind": "api", "permissions": permissions}))
    };
    issue(json!(null)).await.forbidden();
    issue(json!(["read", "message"])).await.forbidden();
    issue(json!(["read"])).await.created();
    issue(json!(["manage", "read"])).await.created();
}

async fn none_outlives_its_maker(w: World) {
    let body = json!({"principal_id": w.owner.id, "kind": "api", "expires_at": w.after(86_400).to_string()});
    let brief = w.owner.api.with(&w.owner.api.post("/credentials", body).await.created().s("token"));
    let issue = |extra: Value| {
        let mut body = json!({"principal_id": w.ann.id, "kind": "api"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        brief.post("/credentials", body)
    };
    issue(json!({"never_expires": true})).await.forbidden();
    issue(json!({"expires_at": w.after(86_401).to_string()})).await.forbidden();
    issue(json!({"expires_at": w.after(86_400).to_string()})).await.created();
    // Enrolled workers may outlast whoever enrolled them.
    brief.post("/enroll", json!({"agent": "team/long", "name": "L", "never_expires": true})).await.created();
}

async fn a_principal_lists_and_revokes_its_own(w: World) {
    let (second, api) = credential(&w.owner.api, &w.ann.id, None).await;
    let (foreign, _) = credential(&w.owner.api, &w.bob.id, None).await;
    let own = listed(&w.ann.api).await;
    assert_eq!(own.len(), 2);
    assert!(own.iter().all(|c| c["principal_id"] == json!(w.ann.id)));
    let revoke = |id: &str| w.ann.api.post(&format!("/credentials/{id}/revoke"), json!({}));
    revoke(&foreign).await.not_found();
    revoke("crd_none").await.not_found();
    assert_eq!(revoke(&second).await.ok(), json!({"revoked": true}));
    api.get("/me").await.refused(401, "unauthorized");
    w.ann.api.get("/me").await.ok();
    let body = json!({"principal_id": w.ann.id, "kind": "api"});
    w.ann.api.post("/credentials", body).await.forbidden();
    let shown = listed(&w.owner.api).await;
    assert_eq!(shown.iter().find(|c| c["id"] == json!(second)).unwrap()["revoked"], true);
}

async fn revocation_is_immediate(w: World) {
    let me = w.ann.api.get("/me").await.ok()["credential"].id();
    assert_eq!(w.ann.api.post(&format!("/credentials/{me}/revoke"), json!({})).await.ok(), json!({"revoked": true}));
    w.ann.api.get("/me").await.refused(401, "unauthorized");
    let worker = w.builder.api.get("/me").await.ok()["credential"].id();
    w.owner.api.post(&format!("/credentials/{worker}/revoke"), json!({})).await.ok();
    w.builder.api.post("/inbox/lease", json!({})).await.refused(401, "unauthorized");
    w.builder.api.post("/heartbeat", json!({})).await.refused(401, "unauthorized");
}

async fn last_use_is_recorded(w: World) {
    let (id, api) = credential(&w.owner.api, &w.ann.id, None).await;
    api.get("/me").await.ok();
    // Flushed every ten seconds of the engine's clock.
    beepgrid_tests::wait::until("last_used_at", || async {
        w.advance(10);
        let shown = listed(&w.owner.api).await;
        shown.iter().find(|c| c["id"] == json!(id)).filter(|c| c["last_used_at"].is_string()).map(|_| ())
    })
    .await;
}

async fn an_owner_under_a_ceiling_has_only_that_part(w: World) {
    let (_, reader) = credential(&w.owner.api, &w.owner.id, Some(&["read"])).await;
    let (conversation, _) = w.send(&w.builder.api, &w.ann.target(), "x").await;
    assert_eq!(w.bodies(&reader, &conversation).await, ["x"]);
    reader.post("/messages", json!({"target": w.ann.target(), "body": "x"})).await.forbidden();
    reader.post("/people", json!({"name": "X", "external_id": "x"})).await.forbidden();
    let (_, manager) = credential(&w.owner.api, &w.owner.id, Some(&["manage"])).await;
    manager.post("/people", json!({"name": "X", "external_id": "x"})).await.created();
    manager.get(&format!("/conversations/{conversation}")).await.forbidden();
}
