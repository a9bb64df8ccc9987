//! Section 2: how workers come to be.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Api, Members};
use beepgrid_tests::world::World;
use serde_json::{Value, json};

on_both_stores!(
    a_session_has_its_fields,
    a_launcher_enrolls_under_its_prefix_alone,
    a_prefix_ends_with_a_slash,
    a_launcher_may_do_nothing_else,
    a_further_instance_changes_nothing,
    a_disabled_agent_is_the_same_403,
    contradictory_expiry_is_refused,
    expiry_is_what_was_asked_for,
    a_renewable_lease_moves_up_to_its_deadline,
    only_a_renewable_lease_renews,
    capabilities_are_bounded,
    a_parent_grants_nothing,
    workers_outlive_their_launcher_unless_revoked_with_it,
);

async fn launcher(w: &World, prefix: &str) -> (String, Api) {
    let service =
        w.owner.api.post("/services", json!({"name": "Launcher", "external_id": format!("l {prefix}")})).await.created();
    let body = json!({"principal_id": service.id(), "kind": "enrollment", "prefix": prefix});
    let issued = w.owner.api.post("/credentials", body).await.created();
    (issued.id(), w.owner.api.with(&issued.s("token")))
}

async fn a_session_has_its_fields(w: World) {
    let body =
        json!({"agent": "team/new", "name": " New ", "connection_name": "laptop", "capabilities": ["go"], "metadata": {"a": 1}});
    let session = w.owner.api.post("/enroll", body).await.created();
    assert!(session["agent"].id().starts_with("agt_") && session.s("instance_id").starts_with("ins_"));
    assert_eq!((session["agent"]["name"].as_str(), session["agent"]["external_id"].as_str()), (Some("New"), Some("team/new")));
    assert_eq!(session["agent"]["metadata"], json!({"a": 1}));
    assert_eq!(session["expires_at"], json!(w.after(30 * 86_400).to_string()));
    let worker = w.owner.api.with(&session.s("token"));
    assert_eq!(worker.get("/me").await.ok()["instance_id"], session["instance_id"]);
    // 256 bits, not guessable from another.
    assert!(session.s("token").len() >= 43, "short token");
    w.advance(30 * 86_400 - 1);
    worker.get("/me").await.ok();
    w.advance(1);
    worker.get("/me").await.refused(401, "unauthorized");
}

async fn a_launcher_enrolls_under_its_prefix_alone(w: World) {
    let (_, launcher) = launcher(&w, "team/").await;
    launcher.post("/enroll", json!({"agent": "team/one", "name": "One"})).await.created();
    let outside = launcher.post("/enroll", json!({"agent": "other/new", "name": "X"})).await.forbidden();
    let existing = launcher.post("/enroll", json!({"agent": "other/hidden-9", "name": "X"})).await.forbidden();
    assert_eq!(outside, existing);
    for agent in ["team", "team-two/x", "TEAM/x", "teammate/x", "xteam/x"] {
        launcher.post("/enroll", json!({"agent": agent, "name": "X"})).await.forbidden();
    }
}

async fn a_prefix_ends_with_a_slash(w: World) {
    let issue = |prefix: Value| {
        w.owner.api.post("/credentials", json!({"principal_id": w.ann.id, "kind": "enrollment", "prefix": prefix}))
    };
    for prefix in [json!(""), json!(null), json!("team"), json!("team/x")] {
        issue(prefix).await.invalid("prefix");
    }
    issue(json!("team/")).await.created();
    let api = json!({"principal_id": w.ann.id, "kind": "api", "prefix": "team/"});
    w.owner.api.post("/credentials", api).await.invalid("prefix");
}

async fn a_launcher_may_do_nothing_else(w: World) {
    let (_, launcher) = launcher(&w, "team/").await;
    assert_eq!(launcher.get("/me").await.ok()["credential"]["kind"], "enrollment");
    launcher.get("/directory?kind=agent").await.forbidden();
    launcher.get("/credentials").await.forbidden();
    launcher.get("/workspace").await.forbidden();
    launcher.post("/messages", json!({"target": w.billing.target(), "body": "x"})).await.forbidden();
    launcher.post("/people", json!({"name": "X", "external_id": "x"})).await.forbidden();
    launcher.post("/inbox/lease", json!({})).await.forbidden();
}

async fn a_further_instance_changes_nothing(w: World) {
    let body = json!({"agent": "team/builder-7", "name": "Another name", "metadata": {"new": true}, "parent_id": w.billing.id});
    let session = w.owner.api.post("/enroll", body).await.created();
    assert_eq!(session["agent"].id(), w.builder.id);
    assert_eq!(session["agent"]["name"], "Builder 7");
    assert_eq!(session["agent"]["metadata"], json!({}));
    assert!(session["agent"].get("parent_id").is_none_or(Value::is_null));
    assert_ne!(session.s("instance_id"), w.builder.instance);
    w.builder.api.get("/me").await.ok();
}

async fn a_disabled_agent_is_the_same_403(w: World) {
    let (_, launcher) = launcher(&w, "team/").await;
    w.set_disabled("agents", &w.builder.id, true).await;
    let disabled = launcher.post("/enroll", json!({"agent": "team/builder-7", "name": "X"})).await.forbidden();
    let outside = launcher.post("/enroll", json!({"agent": "other/x", "name": "X"})).await.forbidden();
    assert_eq!(disabled, outside);
    w.owner.api.post("/enroll", json!({"agent": "team/builder-7", "name": "X"})).await.forbidden();
}

async fn contradictory_expiry_is_refused(w: World) {
    let (soon, past) = (w.after(3_600).to_string(), "2020-01-01T00:00:00Z");
    for extra in [
        json!({"never_expires": true, "expires_at": soon}),
        json!({"never_expires": true, "renewable": true}),
        json!({"never_expires": true, "renewable": true, "expires_at": soon}),
        json!({"renewable": true}),
        json!({"expires_at": past}),
        json!({"renewable": true, "expires_at": past}),
    ] {
        let mut body = json!({"agent": "team/e", "name": "E"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let answer = w.owner.api.post("/enroll", body).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{extra}: {}", answer.text);
    }
    for extra in [json!({"never_expires": true, "expires_at": soon}), json!({"expires_at": past})] {
        let mut body = json!({"principal_id": w.ann.id, "kind": "api"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        w.owner.api.post("/credentials", body).await.refused(400, "invalid_request");
    }
    assert!(!w.owner.api.get("/directory?kind=agent").await.ok().to_string().contains("team/e"));
}

async fn expiry_is_what_was_asked_for(w: World) {
    let enroll = |extra: Value| {
        let mut body = json!({"agent": "team/e", "name": "E"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        w.owner.api.post("/enroll", body)
    };
    let at = w.after(3_600).to_string();
    assert_eq!(enroll(json!({"expires_at": at})).await.created()["expires_at"], json!(at));
    assert_eq!(enroll(json!({"never_expires": true})).await.created()["expires_at"], json!(null));
    assert_eq!(enroll(json!({"expires_at": "9999-01-01T00:00:00Z"})).await.created()["expires_at"], json!(null));
    let day = w.after(86_400).to_string();
    let far = w.after(10 * 86_400).to_string();
    assert_eq!(enroll(json!({"renewable": true, "expires_at": far})).await.created()["expires_at"], json!(day));
    assert_eq!(enroll(json!({"renewable": true, "expires_at": at})).await.created()["expires_at"], json!(at));
    let issued = w.owner.api.post("/credentials", json!({"principal_id": w.ann.id, "kind": "api"})).await.created();
    assert_eq!(issued["expires_at"], json!(w.after(30 * 86_400).to_string()));
    let issued = json!({"principal_id": w.ann.id, "kind": "api", "never_expires": true});
    assert_eq!(w.owner.api.post("/credentials", issued).await.created()["expires_at"], json!(null));
}

async fn a_renewable_lease_moves_up_to_its_deadline(w: World) {
    let deadline = w.after(60 * 3_600);
    let body = json!({"agent": "team/r", "name": "R", "renewable": true, "expires_at": deadline.to_string()});
    let worker = w.owner.api.with(&w.owner.api.post("/enroll", body).await.created().s("token"));
    w.advance(23 * 3_600);
    let renewed = worker.post("/credentials/renew", json!({})).await.ok();
    assert_eq!(renewed["expires_at"], json!(w.after(24 * 3_600).to_string()));
    assert_eq!(renewed["renewable_until"], json!(deadline.to_string()));
    w.advance(23 * 3_600);
    assert_eq!(worker.post("/credentials/renew", json!({})).await.ok()["expires_at"], json!(deadline.to_string()));
    assert_eq!(worker.get("/me").await.ok()["credential"]["expires_at"], json!(deadline.to_string()));
    w.advance(14 * 3_600);
    worker.post("/credentials/renew", json!({})).await.refused(401, "unauthorized");
}

async fn only_a_renewable_lease_renews(w: World) {
    for api in [&w.builder.api, &w.ann.api, &w.owner.api] {
        api.post("/credentials/renew", json!({})).await.refused(409, "not_renewable");
    }
    let body = json!({"agent": "team/r", "name": "R", "renewable": true, "expires_at": w.after(10 * 86_400).to_string()});
    let worker = w.owner.api.with(&w.owner.api.post("/enroll", body).await.created().s("token"));
    w.advance(24 * 3_600);
    worker.post("/credentials/renew", json!({})).await.refused(401, "unauthorized");
}

async fn capabilities_are_bounded(w: World) {
    let enroll =
        |capabilities: Value| w.owner.api.post("/enroll", json!({"agent": "team/c", "name": "C", "capabilities": capabilities}));
    enroll(json!(vec!["x"; 51])).await.invalid("capabilities");
    enroll(json!(["x".repeat(101)])).await.invalid("capabilities");
    enroll(json!([1])).await.invalid("capabilities");
    let many: Vec<_> = (0..50).map(|at| format!("{at:0>100}")).collect();
    enroll(json!(many)).await.created();
    w.builder.api.post("/heartbeat", json!({"capabilities": many})).await.ok();
    w.builder.api.post("/heartbeat", json!({"capabilities": vec!["x"; 51]})).await.invalid("capabilities");
}

async fn a_parent_grants_nothing(w: World) {
    let body = json!({"agent": "team/child", "name": "Child", "parent_id": w.builder.id});
    let session = w.owner.api.post("/enroll", body).await.created();
    assert_eq!(session["agent"]["parent_id"], json!(w.builder.id));
    let child = w.owner.api.with(&session.s("token"));
    child.post("/messages", json!({"target": w.billing.target(), "body": "x"})).await.not_found();
    let missing = json!({"agent": "team/orphan", "name": "O", "parent_id": "agt_none"});
    let answer = w.owner.api.post("/enroll", missing).await;
    assert!(matches!(answer.status, 400 | 404), "{}", answer.text);
}

async fn workers_outlive_their_launcher_unless_revoked_with_it(w: World) {
    for (prefix, with_workers) in [("a/", false), ("b/", true)] {
        let (id, launcher) = launcher(&w, prefix).await;
        let session =
            launcher.post("/enroll", json!({"agent": format!("{prefix}x"), "name": "X", "never_expires": true})).await.created();
        let worker = w.owner.api.with(&session.s("token"));
        let revoked = w.owner.api.post(&format!("/credentials/{id}/revoke"), json!({"revoke_workers": with_workers})).await.ok();
        assert_eq!(revoked, json!({"revoked": true}));
        launcher.post("/enroll", json!({"agent": format!("{prefix}y"), "name": "Y"})).await.refused(401, "unauthorized");
        assert_eq!(worker.get("/me").await.status, if with_workers { 401 } else { 200 });
    }
}
