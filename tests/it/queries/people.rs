//! Identities, groups, roles, credentials, runtime connections.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::{World, allow, deny, target};
use serde_json::json;

use super::{ask, delegate, ids, walk};

on_both_stores!(
    each_reader_finds_whom_it_may_view,
    identities_are_filtered,
    presence_is_of_live_runtimes,
    groups_show_no_hidden_membership,
    roles_are_for_managers_and_those_they_reach,
    credentials_are_ones_own,
    connections_are_for_their_managers,
);

async fn each_reader_finds_whom_it_may_view(w: World) {
    let names = |list: Vec<serde_json::Value>| list.iter().map(|item| item.s("name")).collect::<Vec<_>>();
    assert_eq!(names(walk(&w.owner.api, "agents", json!({})).await), ["Builder 7", "Billing 2", "Hidden 9"]);
    assert_eq!(names(walk(&w.ann.api, "agents", json!({})).await), ["Builder 7", "Billing 2"]);
    assert_eq!(names(walk(&w.ann.api, "people", json!({})).await), ["Ann"]);
    assert!(walk(&w.bob.api, "agents", json!({})).await.is_empty());
    assert!(walk(&w.ann.api, "agents", json!({"id": w.hidden.id})).await.is_empty());
    // A rule for all of a kind, less one.
    w.policy(&w.bob.target(), vec![allow("view", target("agent", "*")), deny("view", w.billing.target())]).await;
    assert_eq!(names(walk(&w.bob.api, "agents", json!({})).await), ["Builder 7", "Hidden 9"]);
    // Who manages identities sees them, and what only managers see.
    w.policy(&w.bob.target(), vec![]).await;
    delegate(&w, &w.bob.id, "identity").await;
    let seen = walk(&w.bob.api, "agents", json!({"enrolled_by": w.owner.id})).await;
    assert_eq!(seen.len(), 3);
    assert!(walk(&w.ann.api, "agents", json!({"enrolled_by": w.owner.id})).await.is_empty());
    assert!(walk(&w.bob.api, "instances", json!({})).await.is_empty(), "presence needs a view of the agent");
}

async fn identities_are_filtered(w: World) {
    let metadata = json!({"project": "x", "type": "dev", "department": "R&D", "manager_id": w.ann.id, "n": 1});
    let body = json!({"name": "Meta", "external_id": "meta", "metadata": metadata});
    let made = w.owner.api.post("/services", body).await.created().id();
    w.owner.api.post("/services", json!({"name": "Plain", "external_id": "plain"})).await.created();
    for (name, value) in [("project", "x"), ("type", "dev"), ("department", "R&D"), ("manager_id", w.ann.id.as_str())] {
        assert_eq!(ids(&w.owner.api, "services", json!({ name: value })).await, [made.clone()]);
        assert!(ids(&w.owner.api, "services", json!({ name: "other" })).await.is_empty());
    }
    assert_eq!(ids(&w.owner.api, "services", json!({"project": "x", "type": "dev", "disabled": "false"})).await, [made.clone()]);
    assert!(ids(&w.owner.api, "services", json!({"project": "x", "type": "ops"})).await.is_empty());
    w.set_disabled("services", &made, true).await;
    assert_eq!(ids(&w.owner.api, "services", json!({"disabled": "true"})).await, [made]);
    assert_eq!(ids(&w.owner.api, "services", json!({"disabled": "false"})).await.len(), 1);
    let child = json!({"agent": "team/child", "name": "Child", "parent_id": w.builder.id, "never_expires": true});
    let child = w.owner.api.post("/enroll", child).await.created()["agent"].id();
    assert_eq!(ids(&w.owner.api, "agents", json!({"parent_id": w.builder.id})).await, [child]);
}

async fn presence_is_of_live_runtimes(w: World) {
    let there = |word: &'static str| ids(&w.owner.api, "agents", json!({ "presence": word }));
    assert_eq!(there("connected").await.len(), 3);
    w.advance(46);
    assert_eq!((there("connected").await.len(), there("stale").await.len()), (0, 3));
    let beat = json!({"progress": {"step": 3}, "capabilities": ["rust"]});
    w.builder.api.post("/heartbeat", beat).await.ok();
    assert_eq!(there("connected").await, [w.builder.id.clone()]);
    let shown = walk(&w.ann.api, "instances", json!({"agent_id": w.builder.id})).await;
    assert_eq!((shown.len(), shown[0].id()), (1, w.builder.instance.clone()));
    assert_eq!(
        (&shown[0]["presence"], &shown[0]["progress"], &shown[0]["capabilities"]),
        (&json!("connected"), &json!({"step": 3}), &json!(["rust"]))
    );
    assert_eq!(walk(&w.ann.api, "instances", json!({})).await.len(), 2);
    assert!(walk(&w.bob.api, "instances", json!({"agent_id": w.builder.id})).await.is_empty());
    assert!(walk(&w.bob.api, "instances", json!({"id": w.builder.instance})).await.is_empty());
    let credential = walk(&w.owner.api, "credentials", json!({"principal_id": w.builder.id})).await[0].id();
    w.owner.api.post(&format!("/credentials/{credential}/revoke"), json!({})).await.ok();
    assert!(there("connected").await.is_empty());
    assert!(there("offline").await.contains(&w.builder.id));
    assert_eq!(walk(&w.ann.api, "instances", json!({"id": w.builder.instance})).await[0]["presence"], "offline");
    w.advance(301);
    assert_eq!(there("offline").await.len(), 3);
}

async fn groups_show_no_hidden_membership(w: World) {
    let team = w.group("Team", &[&w.ann.id, &w.hidden.id, &w.builder.id]).await;
    let other = w.group("Other", &[&w.bob.id]).await;
    assert_eq!(ids(&w.owner.api, "groups", json!({})).await, [team.clone(), other.clone()]);
    assert_eq!(ids(&w.owner.api, "groups", json!({"member_id": w.bob.id, "purpose": "contacts"})).await, [other.clone()]);
    assert!(ids(&w.owner.api, "groups", json!({"purpose": "team"})).await.is_empty());
    let seen = walk(&w.ann.api, "groups", json!({})).await;
    assert_eq!((seen.len(), seen[0].id(), seen[0].n("member_count")), (1, team.clone(), 3));
    let mut members = vec![w.ann.id.clone(), w.builder.id.clone()];
    members.sort();
    assert_eq!(seen[0]["members"], json!(members));
    assert_eq!(ids(&w.ann.api, "groups", json!({"member_id": w.builder.id})).await, [team.clone()]);
    assert!(ids(&w.ann.api, "groups", json!({"member_id": w.hidden.id})).await.is_empty());
    // As a filter of identities: only what is visible, of a group that is.
    assert_eq!(ids(&w.ann.api, "agents", json!({"group_id": team})).await, [w.builder.id.clone()]);
    let mut all = vec![w.builder.id.clone(), w.hidden.id.clone()];
    all.sort();
    assert_eq!(ids(&w.owner.api, "agents", json!({"group_id": team})).await, all);
    let unseen = ask(&w.ann.api, "people", json!({"group_id": other})).await.not_found();
    assert_eq!(unseen, ask(&w.ann.api, "people", json!({"group_id": "grp_none"})).await.not_found());
}

async fn roles_are_for_managers_and_those_they_reach(w: World) {
    let role = |name: &'static str| w.owner.api.post("/roles", json!({"name": name, "rules": []}));
    let (direct, grouped, unbound) =
        (role("Direct").await.created().id(), role("Grouped").await.created().id(), role("Unbound").await.created().id());
    let team = w.group("Team", &[&w.ann.id, &w.builder.id]).await;
    for (role, kind, subject) in
        [(&direct, "principal", &w.ann.id), (&direct, "principal", &w.billing.id), (&grouped, "group", &team)]
    {
        let body = json!({"role_id": role, "subject_kind": kind, "subject_id": subject});
        w.owner.api.post("/role-bindings", body).await.created();
    }
    assert_eq!(ids(&w.owner.api, "roles", json!({})).await, [direct.clone(), grouped.clone(), unbound.clone()]);
    assert_eq!(ids(&w.ann.api, "roles", json!({})).await, [direct.clone(), grouped.clone()]);
    assert!(ids(&w.ann.api, "roles", json!({"id": unbound})).await.is_empty());
    assert!(ids(&w.bob.api, "roles", json!({})).await.is_empty());
    assert_eq!(ids(&w.owner.api, "agents", json!({"role_id": direct})).await, [w.billing.id.clone()]);
    assert_eq!(ids(&w.owner.api, "agents", json!({"role_id": grouped})).await, [w.builder.id.clone()]);
    // Ann knows Billing and has the role herself, but another's binding is not hers to read; her team's is.
    assert!(ids(&w.ann.api, "agents", json!({"role_id": direct})).await.is_empty());
    assert_eq!(ids(&w.ann.api, "people", json!({"role_id": direct})).await, [w.ann.id.clone()]);
    assert_eq!(ids(&w.ann.api, "agents", json!({"role_id": grouped})).await, [w.builder.id.clone()]);
    ask(&w.ann.api, "agents", json!({"role_id": unbound})).await.not_found();
}

async fn credentials_are_ones_own(w: World) {
    let all = walk(&w.owner.api, "credentials", json!({})).await;
    assert_eq!(all.len(), 6);
    assert!(all.windows(2).all(|pair| pair[0].id() < pair[1].id()));
    assert!(all.iter().all(|item| item.get("token").is_none()));
    let own = walk(&w.ann.api, "credentials", json!({})).await;
    assert_eq!((own.len(), own[0].s("principal_id")), (1, w.ann.id.clone()));
    assert!(own[0]["last_used_at"].is_string());
    assert!(walk(&w.ann.api, "credentials", json!({"principal_id": w.bob.id})).await.is_empty());
    assert!(walk(&w.ann.api, "credentials", json!({"id": all[0].id()})).await.is_empty());
    assert_eq!(walk(&w.owner.api, "credentials", json!({"kind": "worker"})).await.len(), 3);
}

async fn connections_are_for_their_managers(w: World) {
    let body = json!({"kind": "webhook", "name": "Hook", "config": {"url": "https://example.com/x"}, "secret": "0123456789abcdef", "enabled": false});
    let made = w.owner.api.post("/connections", body).await.created().id();
    let shown = ask(&w.owner.api, "connections", json!({"kind": "webhook"})).await;
    assert!(!shown.text.contains("0123456789abcdef"));
    assert_eq!(shown.ok()["items"].each("id"), [made.clone()]);
    assert!(ids(&w.owner.api, "connections", json!({"kind": "smtp"})).await.is_empty());
    assert!(ids(&w.ann.api, "connections", json!({})).await.is_empty());
    let to = json!({"connection_id": made, "principal_id": w.ann.id, "address": "a", "mode": "primary", "priority": 1});
    let destination = w.owner.api.post("/destinations", to).await.created().id();
    for reader in [&w.owner.api, &w.ann.api] {
        assert_eq!(ids(reader, "destinations", json!({"connection_id": made})).await, [destination.clone()]);
    }
    assert!(ids(&w.bob.api, "destinations", json!({"principal_id": w.ann.id})).await.is_empty());
    delegate(&w, &w.bob.id, "connection").await;
    assert_eq!(ids(&w.bob.api, "connections", json!({})).await, [made]);
}
