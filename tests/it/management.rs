//! Section 2: groups, roles, policies and delegated management.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::{Caller, World, allow, contacts, target};
use serde_json::{Value, json};

on_both_stores!(
    groups_are_versioned_and_deleted,
    group_members_are_shown_as_far_as_visible,
    roles_are_versioned_and_bounded,
    policies_are_replaced_whole_and_versioned,
    a_delegate_manages_its_kind_alone,
    a_delegate_grants_no_more_than_it_holds,
    managing_everything_is_not_operating,
    a_delegate_does_not_touch_operators_credentials,
);

fn manage(kind: &str) -> Value {
    json!({"action": "manage", "target_kind": kind, "target_id": "*"})
}

/// A person who manages these kinds of things, by a role.
async fn delegate(w: &World, kinds: &[&str]) -> Caller {
    let name = format!("Delegate {}", kinds.join(" "));
    let caller = w.person(&name, &name).await;
    let rules: Vec<_> = kinds.iter().map(|kind| manage(kind)).collect();
    let role = w.owner.api.post("/roles", json!({"name": name, "rules": rules})).await.created().id();
    let bind = json!({"role_id": role, "subject_kind": "principal", "subject_id": caller.id});
    w.owner.api.post("/role-bindings", bind).await.created();
    caller
}

async fn groups_are_versioned_and_deleted(w: World) {
    let made =
        w.owner.api.post("/groups", json!({"name": "G", "purpose": "contacts", "members": [w.ann.id, w.bob.id]})).await.created();
    assert!(made.id().starts_with("grp_"));
    assert_eq!((made.n("version"), made["purpose"].as_str(), made.list("members").len()), (1, Some("contacts"), 2));
    let path = format!("/groups/{}", made.id());
    let edited = w.owner.api.patch(&path, json!({"version": 1, "name": "H"})).await.ok();
    assert_eq!((edited.n("version"), edited["name"].as_str(), edited.list("members").len()), (2, Some("H"), 2));
    w.owner.api.patch(&path, json!({"version": 1, "name": "I"})).await.refused(409, "version_conflict");
    let emptied = w.owner.api.patch(&path, json!({"version": 2, "members": []})).await.ok();
    assert_eq!((emptied["name"].as_str(), emptied.list("members")), (Some("H"), vec![]));
    assert_eq!(w.owner.api.delete(&path).await.ok(), json!({"deleted": true}));
    w.owner.api.delete(&path).await.not_found();
    w.owner.api.patch(&path, json!({"version": 3, "name": "J"})).await.not_found();
    let unknown = w.owner.api.post("/groups", json!({"name": "G", "purpose": "contacts", "members": ["per_none"]})).await;
    assert!(matches!(unknown.status, 400 | 404), "{}", unknown.text);
}

async fn group_members_are_shown_as_far_as_visible(w: World) {
    let manager = delegate(&w, &["group"]).await;
    w.policy(&manager.target(), vec![allow("view", w.ann.target())]).await;
    let group = w.group("G", &[&w.ann.id, &w.bob.id]).await;
    let shown = manager.api.patch(&format!("/groups/{group}"), json!({"version": 1, "name": "H"})).await;
    // A manager of groups sees its members, or at least how many there are.
    let shown = shown.ok();
    assert_eq!(shown["name"], "H");
    assert!(shown.list("members").contains(&json!(w.ann.id)), "{shown}");
    assert_eq!(
        w.owner.api.patch(&format!("/groups/{group}"), json!({"version": 2, "name": "I"})).await.ok().list("members").len(),
        2
    );
}

async fn roles_are_versioned_and_bounded(w: World) {
    let rules = |count: usize| vec![allow("view", target("agent", "*")); count];
    let made = w.owner.api.post("/roles", json!({"name": "R", "rules": []})).await.created();
    assert!(made.id().starts_with("rol_"));
    assert_eq!((made.n("version"), made.list("rules")), (1, vec![]));
    let path = format!("/roles/{}", made.id());
    let edited = w.owner.api.patch(&path, json!({"version": 1, "rules": rules(1)})).await.ok();
    assert_eq!((edited.n("version"), edited.list("rules").len(), edited["name"].as_str()), (2, 1, Some("R")));
    w.owner.api.patch(&path, json!({"version": 1, "rules": []})).await.refused(409, "version_conflict");
    let distinct: Vec<_> = (0..101).map(|at| allow("view", target("agent", &format!("external-{at}")))).collect();
    for at in 0..101 {
        let body = json!({"name": "A", "external_id": format!("external-{at}")});
        w.owner.api.post("/agents", body).await.created();
    }
    w.owner.api.patch(&path, json!({"version": 2, "rules": distinct[..100]})).await.ok();
    w.owner.api.patch(&path, json!({"version": 3, "rules": distinct})).await.invalid("rules");
    w.owner.api.post("/roles", json!({"name": "S", "rules": distinct})).await.invalid("rules");
    w.owner.api.post("/roles", json!({"name": "S"})).await.invalid("rules");
    let emptied = w.owner.api.patch(&path, json!({"version": 3, "rules": []})).await.ok();
    assert_eq!(emptied.list("rules"), Vec::<Value>::new());
    assert_eq!(w.owner.api.delete(&path).await.ok(), json!({"deleted": true}));
    w.owner.api.delete(&path).await.not_found();
    let bind = json!({"role_id": made.id(), "subject_kind": "principal", "subject_id": w.ann.id});
    w.owner.api.post("/role-bindings", bind).await.not_found();
    w.owner.api.delete("/role-bindings/rbd_none").await.not_found();
}

async fn policies_are_replaced_whole_and_versioned(w: World) {
    let save = |version: i64, rules: Vec<Value>| {
        w.owner.api.put("/contact-permissions", json!({"subject": w.bob.target(), "rules": rules, "version": version}))
    };
    save(1, vec![]).await.refused(409, "version_conflict");
    let rules = contacts(&[w.hidden.target(), w.builder.target()]);
    let saved = save(0, rules).await.ok();
    assert_eq!(saved["subject"], w.bob.target());
    assert_eq!((saved.n("version"), saved.list("rules").len()), (1, 6));
    save(0, vec![]).await.refused(409, "version_conflict");
    let replaced = save(1, vec![allow("view", w.hidden.target())]).await.ok();
    assert_eq!((replaced.n("version"), replaced.list("rules").len()), (2, 1));
    // Saving always raises it, also when nothing changes.
    assert_eq!(save(2, vec![allow("view", w.hidden.target())]).await.ok().n("version"), 3);
    assert_eq!(save(3, vec![]).await.ok()["rules"], json!([]));
    let missing = json!({"subject": target("person", "per_none"), "rules": [], "version": 0});
    w.owner.api.put("/contact-permissions", missing).await.not_found();
    let without = json!({"subject": w.bob.target(), "version": 4});
    w.owner.api.put("/contact-permissions", without).await.invalid("rules");
}

async fn a_delegate_manages_its_kind_alone(w: World) {
    let calls = [
        ("identity", "/people", json!({"name": "X", "external_id": "x"})),
        ("group", "/groups", json!({"name": "X", "purpose": "team"})),
        ("role", "/roles", json!({"name": "X", "rules": []})),
    ];
    for (kind, _, _) in &calls {
        let delegate = delegate(&w, &[kind]).await;
        for (needs, path, body) in &calls {
            let answer = delegate.api.post(path, body.clone()).await;
            assert_eq!(answer.status, if needs == kind { 201 } else { 403 }, "{kind} at {path}: {}", answer.text);
        }
        assert_eq!(delegate.api.get("/me").await.ok()["operator"], false);
    }
}

async fn a_delegate_grants_no_more_than_it_holds(w: World) {
    let delegate = delegate(&w, &["identity", "role"]).await;
    let api = &delegate.api;
    let held = allow("message", w.hidden.target());
    w.policy(&delegate.target(), vec![held.clone()]).await;
    let save =
        |rules: Vec<Value>| api.put("/contact-permissions", json!({"subject": w.bob.target(), "rules": rules, "version": 0}));
    for wider in [allow("ask", w.hidden.target()), allow("message", w.builder.target()), allow("message", target("agent", "*"))] {
        let answer = save(vec![held.clone(), wider.clone()]).await;
        assert!(matches!(answer.status, 403 | 404), "{wider}: {}", answer.text);
    }
    // Management is never given by a contact policy.
    for wider in [manage("identity"), manage("*")] {
        let answer = save(vec![held.clone(), wider.clone()]).await;
        assert!(matches!(answer.status, 400 | 403), "{wider}: {}", answer.text);
    }
    assert_eq!(save(vec![held.clone()]).await.ok().n("version"), 1);
    // Nor through a role.
    let group = w.owner.api.post("/roles", json!({"name": "Groups", "rules": [manage("group")]})).await.created();
    let wide =
        w.owner.api.post("/roles", json!({"name": "Wide", "rules": [allow("message", target("agent", "*"))]})).await.created();
    let bind = |role: &str, subject: &str| {
        api.post("/role-bindings", json!({"role_id": role, "subject_kind": "principal", "subject_id": subject}))
    };
    bind(&wide.id(), &w.bob.id).await.forbidden();
    bind(&group.id(), &w.bob.id).await.forbidden();
    bind(&wide.id(), &delegate.id).await.forbidden();
    let narrow = w.owner.api.post("/roles", json!({"name": "Narrow", "rules": [held]})).await.created();
    bind(&narrow.id(), &w.bob.id).await.created();
    // Nor by widening a role that is bound already.
    let wider = json!({"version": 1, "rules": [allow("message", target("agent", "*"))]});
    api.patch(&format!("/roles/{}", narrow.id()), wider).await.forbidden();
}

async fn managing_everything_is_not_operating(w: World) {
    let delegate = delegate(&w, &["*"]).await;
    assert_eq!(delegate.api.get("/me").await.ok()["operator"], false);
    delegate.api.post("/people", json!({"name": "X", "external_id": "x"})).await.created();
    let (conversation, _) = w.send(&w.builder.api, &w.ann.target(), "private").await;
    delegate.api.get(&format!("/conversations/{conversation}")).await.not_found();
    let answer = delegate.api.post("/messages", json!({"target": w.builder.target(), "body": "x"})).await;
    assert!(matches!(answer.status, 403 | 404), "{}", answer.text);
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    let answer = delegate.api.post(&format!("/requests/{asked}/cancel"), json!({"version": 1})).await;
    assert!(matches!(answer.status, 403 | 404), "{}", answer.text);
}

async fn a_delegate_does_not_touch_operators_credentials(w: World) {
    let delegate = delegate(&w, &["*"]).await;
    let owner = w.owner.api.get("/me").await.ok()["credential"].id();
    let issue = json!({"principal_id": w.owner.id, "kind": "api"});
    delegate.api.post("/credentials", issue).await.forbidden();
    let answer = delegate.api.post(&format!("/credentials/{owner}/revoke"), json!({})).await;
    assert!(matches!(answer.status, 403 | 404), "{}", answer.text);
    // Only those of principals whose whole authority it holds.
    let more = json!({"principal_id": w.builder.id, "kind": "api"});
    delegate.api.post("/credentials", more).await.forbidden();
    delegate.api.post("/credentials", json!({"principal_id": w.bob.id, "kind": "api"})).await.created();
    w.owner.api.get("/me").await.ok();
}
