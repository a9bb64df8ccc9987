//! Sections 2 and 9: access, bindings, explanations, capabilities and previews. They say what a write would do, and grant nothing.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::{World, allow, contacts, deny, target};
use serde_json::json;

on_both_stores!(
    capabilities_of_a_target_stay_under_the_ceiling,
    access_names_roles_their_way_and_the_policy,
    access_of_others_is_for_managers_of_identities,
    an_explanation_names_the_rules_that_decide,
    an_explanation_of_something_unseen_is_not_found,
    capabilities_for_a_target_match_the_writes,
    capabilities_for_a_request_match_the_writes,
    a_policy_preview_saves_nothing_and_says_whether_it_could_be,
    a_role_preview_shows_its_subjects,
);

async fn access_names_roles_their_way_and_the_policy(w: World) {
    let rules = vec![allow("view", w.bob.target())];
    let role = w.owner.api.post("/roles", json!({"name": "Seers", "rules": rules})).await.created().id();
    let group = w.group("Friends", &[&w.builder.id]).await;
    let direct = json!({"role_id": role, "subject_kind": "principal", "subject_id": w.builder.id});
    let direct = w.owner.api.post("/role-bindings", direct).await.created().id();
    let through = json!({"role_id": role, "subject_kind": "group", "subject_id": group});
    let through = w.owner.api.post("/role-bindings", through).await.created().id();
    let access = w.builder.api.get("/access").await.ok();
    assert_eq!(access["subject"], w.builder.target());
    assert_eq!(access["operator"], false);
    let seers = json!({"id": role, "name": "Seers"});
    assert_eq!(
        access["roles"],
        json!([
            {"role": seers, "binding_id": direct, "via": "direct"},
            {"role": seers, "binding_id": through, "via": group},
        ])
    );
    assert_eq!(access["policy"]["version"], 1);
    assert_eq!(access["policy"]["rules"].as_array().unwrap().len(), 6);
    let own = w.builder.api.get(&format!("/role-bindings?subject_id={}", w.builder.id)).await.ok();
    assert_eq!(own.as_array().unwrap().iter().map(Members::id).collect::<Vec<_>>(), [direct]);
    let of_group = w.builder.api.get(&format!("/role-bindings?subject_id={group}")).await.ok();
    assert_eq!(of_group[0].id(), through);
    w.billing.api.get(&format!("/role-bindings?subject_id={group}")).await.not_found();
    w.builder.api.get("/role-bindings").await.invalid("subject_id");
}

async fn access_of_others_is_for_managers_of_identities(w: World) {
    let of_bob = format!("/access?subject_id={}", w.bob.id);
    let never = w.owner.api.get(&of_bob).await.ok();
    assert_eq!((never["policy"].clone(), never["roles"].clone()), (json!({"version": 0, "rules": []}), json!([])));
    assert_eq!(w.owner.api.get("/access").await.ok()["operator"], true);
    w.builder.api.get(&of_bob).await.not_found();
    w.ann.api.get(&format!("/access?subject_id={}", w.builder.id)).await.not_found();
    w.owner.api.get("/access?subject_id=per_none").await.not_found();
}

async fn an_explanation_names_the_rules_that_decide(w: World) {
    let explain = |action: &str| json!({"action": action, "target": w.billing.target(), "subject_id": w.builder.id});
    let allowed = w.owner.api.post("/permissions/explain", explain("message")).await.ok();
    assert_eq!(allowed["allowed"], true);
    assert_eq!(allowed["sources"][0]["kind"], "policy");
    assert_eq!(allowed["sources"][0]["rule"]["action"], "message");

    let mut rules = contacts(&[w.ann.target(), w.billing.target()]);
    rules.push(deny("message", w.billing.target()));
    w.policy(&w.builder.target(), rules).await;
    let denied =
        w.builder.api.post("/permissions/explain", json!({"action": "message", "target": w.billing.target()})).await.ok();
    assert_eq!(denied["allowed"], false);
    assert_eq!(denied["sources"][0]["rule"]["effect"], "deny");
    assert_eq!(w.owner.api.post("/permissions/explain", explain("ask")).await.ok()["allowed"], true);

    let operator = w.owner.api.post("/permissions/explain", json!({"action": "ask", "target": w.hidden.target()})).await.ok();
    assert_eq!(operator["allowed"], true);
    let manage = json!({"action": "manage", "target": {"kind": "role", "id": "*"}, "subject_id": w.builder.id});
    assert_eq!(w.owner.api.post("/permissions/explain", manage).await.ok()["allowed"], false);
    w.owner.api.post("/permissions/explain", json!({"action": "own", "target": w.hidden.target()})).await.invalid("action");
}

async fn an_explanation_of_something_unseen_is_not_found(w: World) {
    w.builder.api.post("/permissions/explain", json!({"action": "view", "target": w.hidden.target()})).await.not_found();
    let of_bob = json!({"action": "view", "target": w.billing.target(), "subject_id": w.bob.id});
    w.builder.api.post("/permissions/explain", of_bob).await.not_found();
}

async fn capabilities_for_a_target_match_the_writes(w: World) {
    let of = |target: serde_json::Value| json!({"target": target});
    let open = w.builder.api.post("/capabilities", of(w.billing.target())).await.ok();
    assert_eq!(open["operations"], json!({"ask": true, "message": true, "view": true}));
    assert!(open["observed_at"].as_str().unwrap().ends_with('Z'));
    let unseen = w.builder.api.post("/capabilities", of(w.hidden.target())).await.ok();
    assert_eq!(unseen["operations"], json!({"ask": false, "message": false, "view": false}));
    let nobody = w.builder.api.post("/capabilities", of(target("agent", "agt_none"))).await.ok();
    assert_eq!(nobody["operations"], unseen["operations"]);
    w.policy(&w.builder.target(), vec![allow("view", w.billing.target())]).await;
    let seen = w.builder.api.post("/capabilities", of(w.billing.target())).await.ok();
    assert_eq!(seen["operations"], json!({"ask": false, "message": false, "view": true}));
    w.builder.api.post("/capabilities", json!({})).await.invalid("target");
    let both = json!({"target": w.billing.target(), "request_id": "req_1"});
    w.builder.api.post("/capabilities", both).await.invalid("target");
}

async fn capabilities_for_a_request_match_the_writes(w: World) {
    let ask = json!({"target": w.billing.target(), "kind": "approval", "body": "Deploy?"});
    let request = w.builder.api.post("/requests", ask).await.created().id();
    let of = json!({"request_id": request});
    let asker = w.builder.api.post("/capabilities", of.clone()).await.ok();
    let operation = |value: &serde_json::Value, name: &str| value["operations"][name].as_bool().unwrap();
    assert_eq!(asker["request_version"], 1);
    assert!(operation(&asker, "read") && operation(&asker, "cancel") && operation(&asker, "replace"));
    assert!(!operation(&asker, "respond"));
    let decider = w.billing.api.post("/capabilities", of.clone()).await.ok();
    assert!(operation(&decider, "read") && operation(&decider, "respond"));
    assert!(!operation(&decider, "cancel") && !operation(&decider, "trace"));
    assert_eq!(decider["outcomes"], json!(["approved", "denied"]));
    let outsider = w.hidden.api.post("/capabilities", of.clone()).await.ok();
    assert!(outsider["operations"].as_object().unwrap().values().all(|open| open == false));
    w.billing.api.post(&format!("/requests/{request}/respond"), json!({"outcome": "denied", "version": 1})).await.ok();
    let closed = w.billing.api.post("/capabilities", of).await.ok();
    assert!(!operation(&closed, "respond"));
    assert_eq!(closed["outcomes"], json!([]));
}

async fn a_policy_preview_saves_nothing_and_says_whether_it_could_be(w: World) {
    let rules = json!([
        {"action": "message", "target_kind": "agent", "target_id": "*"},
        {"effect": "deny", "action": "message", "target_kind": "agent", "target_id": w.billing.id},
    ]);
    let input =
        json!({"subject": w.bob.target(), "rules": rules, "version": 0, "targets": [w.billing.target(), w.hidden.target()]});
    let preview = w.owner.api.post("/contact-permissions/preview", input.clone()).await.ok();
    assert_eq!((preview["can_save"].clone(), preview["policy"]["version"].clone()), (json!(true), json!(0)));
    assert_eq!(preview["effective"][0]["operations"]["message"], false);
    assert_eq!(preview["effective"][1]["operations"]["message"], true);
    assert_eq!(preview["effective"][0]["sources"][0]["rule"]["effect"], "deny");
    assert!(!preview["warnings"].as_array().unwrap().is_empty());
    assert_eq!(w.owner.api.get(&format!("/access?subject_id={}", w.bob.id)).await.ok()["policy"]["version"], 0);
    // The subject sees what it has, and that it can't save it itself.
    let own = w.ann.api.post("/contact-permissions/preview", json!({"subject": w.ann.target(), "version": 1})).await.ok();
    assert_eq!(own["can_save"], false);
    assert_eq!(own["effective"].as_array().unwrap().len(), 2);
    w.builder.api.post("/contact-permissions/preview", input).await.not_found();
    let stale = json!({"subject": w.ann.target(), "version": 7});
    assert_eq!(w.owner.api.post("/contact-permissions/preview", stale).await.ok()["can_save"], false);
}

async fn a_role_preview_shows_its_subjects(w: World) {
    let role = w.owner.api.post("/roles", json!({"name": "R", "rules": []})).await.created().id();
    let bind = json!({"role_id": role, "subject_kind": "principal", "subject_id": w.bob.id});
    w.owner.api.post("/role-bindings", bind).await.created();
    let input = json!({"role_id": role, "rules": [{"action": "ask", "target_kind": "agent", "target_id": w.hidden.id}]});
    let preview = w.owner.api.post("/roles/preview", input.clone()).await.ok();
    let effective = &preview["effective"][0];
    assert_eq!((effective["subject"].clone(), effective["target"].clone()), (w.bob.target(), w.hidden.target()));
    assert_eq!(effective["operations"], json!({"ask": true, "decide": true, "message": false, "view": true}));
    w.bob.api.post("/messages", json!({"target": w.hidden.target(), "body": "x"})).await.not_found();
    w.builder.api.post("/roles/preview", input).await.forbidden();
}

async fn capabilities_of_a_target_stay_under_the_ceiling(w: World) {
    let (_, reader) = beepgrid_tests::world::credential(&w.owner.api, &w.ann.id, Some(&["read", "request"])).await;
    let body = json!({"target": w.builder.target()});
    let own = w.ann.api.post("/capabilities", body.clone()).await.ok();
    assert_eq!(own["operations"], json!({"view": true, "message": true, "ask": true}));
    let under = reader.post("/capabilities", body).await.ok();
    assert_eq!(under["operations"], json!({"view": true, "message": false, "ask": true}));
}
