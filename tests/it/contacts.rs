//! Section 2: who may view, message and ask whom; replies; denies.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Answer, Api, Members};
use beepgrid_tests::world::{World, allow, contacts, deny, target};
use serde_json::{Value, json};

on_both_stores!(
    without_a_rule_there_is_no_contact,
    each_action_allows_itself_alone,
    message_and_ask_imply_view_of_a_principal,
    a_wildcard_means_all_of_that_kind,
    a_matching_deny_wins_wherever_it_comes_from,
    a_deny_on_view_takes_the_rest_with_it,
    denies_are_exact_and_plain,
    group_rules_follow_the_present_members,
    roles_reach_through_groups,
    agent_rules_cover_instances_not_the_reverse,
    operators_need_no_rule,
    a_reply_needs_no_rule_of_ones_own,
    a_reply_ends_with_the_others_right,
    asking_back_needs_ones_own_right,
    a_deny_on_message_from_the_other_stops_the_reply,
    a_hidden_author_is_hidden_in_history,
    unbinding_takes_effect_at_once,
    nobody_writes_to_itself,
    unknown_rules_are_refused,
);

async fn send(from: &Api, to: &Value) -> Answer {
    from.post("/messages", json!({"target": to, "body": "x"})).await
}

async fn ask(from: &Api, to: &Value) -> Answer {
    from.post("/requests", json!({"target": to, "body": "x"})).await
}

async fn without_a_rule_there_is_no_contact(w: World) {
    for to in [w.builder.target(), w.ann.target(), w.builder.exact()] {
        send(&w.bob.api, &to).await.not_found();
        ask(&w.bob.api, &to).await.not_found();
    }
    send(&w.builder.api, &w.hidden.target()).await.not_found();
    assert!(w.builder.lease(10).await.is_empty());
}

async fn each_action_allows_itself_alone(w: World) {
    let to = w.hidden.target();
    w.policy(&w.bob.target(), vec![allow("view", to.clone())]).await;
    send(&w.bob.api, &to).await.forbidden();
    ask(&w.bob.api, &to).await.forbidden();
    w.policy(&w.bob.target(), vec![allow("message", to.clone())]).await;
    send(&w.bob.api, &to).await.created();
    ask(&w.bob.api, &to).await.forbidden();
    w.policy(&w.bob.target(), vec![allow("ask", to.clone())]).await;
    send(&w.bob.api, &to).await.forbidden();
    ask(&w.bob.api, &to).await.created();
    // The direction matters.
    send(&w.hidden.api, &w.bob.target()).await.not_found();
}

async fn message_and_ask_imply_view_of_a_principal(w: World) {
    for action in ["message", "ask", "view"] {
        w.policy(&w.bob.target(), vec![allow(action, w.hidden.target())]).await;
        let seen = w.bob.api.get("/directory?kind=agent").await.ok()["items"].each("id");
        assert_eq!(seen, std::slice::from_ref(&w.hidden.id), "{action}");
    }
}

async fn a_wildcard_means_all_of_that_kind(w: World) {
    w.policy(&w.bob.target(), vec![allow("message", target("agent", "*"))]).await;
    for to in [w.hidden.target(), w.builder.target(), w.billing.exact()] {
        send(&w.bob.api, &to).await.created();
    }
    send(&w.bob.api, &w.ann.target()).await.not_found();
    ask(&w.bob.api, &w.hidden.target()).await.forbidden();
    let later = w.enroll("team/later", "Later").await;
    send(&w.bob.api, &later.target()).await.created();
}

async fn a_matching_deny_wins_wherever_it_comes_from(w: World) {
    let to = w.hidden.target();
    // Allowed by the policy, denied by a role.
    let any = target("agent", "*");
    w.policy(&w.bob.target(), vec![allow("view", any.clone()), allow("message", any)]).await;
    let role = w.owner.api.post("/roles", json!({"name": "No", "rules": [deny("message", to.clone())]})).await.created();
    let bind = json!({"role_id": role.id(), "subject_kind": "principal", "subject_id": w.bob.id});
    let binding = w.owner.api.post("/role-bindings", bind).await.created();
    send(&w.bob.api, &to).await.forbidden();
    send(&w.bob.api, &w.hidden.exact()).await.forbidden();
    send(&w.bob.api, &w.builder.target()).await.created();
    w.owner.api.delete(&format!("/role-bindings/{}", binding.id())).await.ok();
    send(&w.bob.api, &to).await.created();
    // Allowed one by one, denied by a group that the target is in.
    let group = w.group("Quiet", &[&w.hidden.id]).await;
    let rules = vec![allow("view", to.clone()), allow("message", to.clone()), deny("message", target("group", &group))];
    w.policy(&w.bob.target(), rules).await;
    send(&w.bob.api, &to).await.forbidden();
}

async fn a_deny_on_view_takes_the_rest_with_it(w: World) {
    let to = w.hidden.target();
    let mut rules = contacts(std::slice::from_ref(&to));
    rules.push(deny("view", to.clone()));
    w.policy(&w.bob.target(), rules).await;
    send(&w.bob.api, &to).await.not_found();
    ask(&w.bob.api, &to).await.not_found();
    assert!(w.bob.api.get("/directory?kind=agent").await.ok().list("items").is_empty());
}

async fn denies_are_exact_and_plain(w: World) {
    let save =
        |rule: Value| w.owner.api.put("/contact-permissions", json!({"subject": w.bob.target(), "rules": [rule], "version": 0}));
    save(deny("message", target("agent", "*"))).await.refused(400, "invalid_request");
    save(json!({"effect": "deny", "action": "manage", "target_kind": "identity", "target_id": "*"}))
        .await
        .refused(400, "invalid_request");
    let mut conditional = deny("ask", w.hidden.target());
    conditional["conditions"] = json!({"action_name": "deploy"});
    save(conditional).await.refused(400, "invalid_request");
    for action in ["view", "message", "ask", "decide"] {
        w.policy(&w.bob.target(), vec![deny(action, w.hidden.target())]).await;
    }
}

async fn group_rules_follow_the_present_members(w: World) {
    let group = w.group("G", &[&w.hidden.id]).await;
    let path = format!("/groups/{group}");
    w.policy(&w.bob.target(), vec![allow("message", target("group", &group))]).await;
    send(&w.bob.api, &w.hidden.target()).await.created();
    let sent = send(&w.bob.api, &target("group", &group)).await.created();
    assert_eq!(sent.list("messages").len(), 1);
    w.owner.api.patch(&path, json!({"version": 1, "members": [w.builder.id]})).await.ok();
    assert!(matches!(send(&w.bob.api, &w.hidden.target()).await.status, 403 | 404));
    send(&w.bob.api, &w.builder.target()).await.created();
    w.owner.api.patch(&path, json!({"version": 2, "members": []})).await.ok();
    assert!(matches!(send(&w.bob.api, &w.builder.target()).await.status, 403 | 404));
    // A group that one may not reach is not there.
    send(&w.ann.api, &target("group", &group)).await.not_found();
}

async fn roles_reach_through_groups(w: World) {
    let group = w.group("Testers", &[&w.bob.id]).await;
    let role = json!({"name": "Test", "rules": contacts(&[w.hidden.target()])});
    let role = w.owner.api.post("/roles", role).await.created().id();
    let bind = json!({"role_id": role, "subject_kind": "group", "subject_id": group});
    w.owner.api.post("/role-bindings", bind).await.created();
    send(&w.bob.api, &w.hidden.target()).await.created();
    w.owner.api.patch(&format!("/roles/{role}"), json!({"version": 1, "rules": []})).await.ok();
    send(&w.bob.api, &w.hidden.target()).await.not_found();
    let rules = contacts(&[w.hidden.target()]);
    w.owner.api.patch(&format!("/roles/{role}"), json!({"version": 2, "rules": rules})).await.ok();
    send(&w.bob.api, &w.hidden.target()).await.created();
    w.owner.api.patch(&format!("/groups/{group}"), json!({"version": 1, "members": []})).await.ok();
    send(&w.bob.api, &w.hidden.target()).await.not_found();
}

async fn agent_rules_cover_instances_not_the_reverse(w: World) {
    let second = w.enroll("other/hidden-9", "Hidden 9").await;
    w.policy(&w.bob.target(), contacts(&[w.hidden.target()])).await;
    send(&w.bob.api, &second.exact()).await.created();
    w.policy(&w.bob.target(), contacts(&[w.hidden.exact()])).await;
    send(&w.bob.api, &w.hidden.exact()).await.created();
    send(&w.bob.api, &w.hidden.target()).await.forbidden();
    assert!(matches!(send(&w.bob.api, &second.exact()).await.status, 403 | 404));
}

async fn operators_need_no_rule(w: World) {
    for to in [w.hidden.target(), w.hidden.exact(), w.bob.target()] {
        send(&w.owner.api, &to).await.created();
        ask(&w.owner.api, &to).await.created();
    }
    let (conversation, _) = w.send(&w.builder.api, &w.ann.target(), "x").await;
    assert_eq!(w.bodies(&w.owner.api, &conversation).await, ["x"]);
}

async fn a_reply_needs_no_rule_of_ones_own(w: World) {
    w.policy(&w.bob.target(), vec![allow("message", w.hidden.target())]).await;
    let (conversation, _) = w.send(&w.bob.api, &w.hidden.target(), "hello").await;
    w.say(&w.hidden.api, &conversation, "hello yourself").await;
    assert_eq!(w.bodies(&w.bob.api, &conversation).await, ["hello", "hello yourself"]);
    assert!(matches!(send(&w.hidden.api, &w.bob.target()).await.status, 403 | 404));
    // An operator's message can be answered as well.
    let (conversation, _) = w.send(&w.owner.api, &w.hidden.target(), "report").await;
    w.say(&w.hidden.api, &conversation, "all well").await;
}

async fn a_reply_ends_with_the_others_right(w: World) {
    w.policy(&w.bob.target(), vec![allow("message", w.hidden.target())]).await;
    let (conversation, _) = w.send(&w.bob.api, &w.hidden.target(), "hello").await;
    w.policy(&w.bob.target(), vec![]).await;
    for api in [&w.bob.api, &w.hidden.api] {
        api.post("/messages", json!({"conversation_id": conversation, "body": "x"})).await.forbidden();
        assert_eq!(w.bodies(api, &conversation).await, ["hello"]);
    }
    // While either may message the other, both may post.
    w.policy(&w.hidden.target(), vec![allow("message", w.bob.target())]).await;
    w.say(&w.bob.api, &conversation, "again").await;
    w.say(&w.hidden.api, &conversation, "again").await;
}

async fn asking_back_needs_ones_own_right(w: World) {
    w.policy(&w.bob.target(), contacts(&[w.hidden.target()])).await;
    let (conversation, _) = w.send(&w.bob.api, &w.hidden.target(), "hello").await;
    w.hidden.api.post("/requests", json!({"conversation_id": conversation, "body": "q"})).await.forbidden();
    let asked = w.bob.api.post("/requests", json!({"conversation_id": conversation, "body": "q"})).await.created();
    assert_eq!(asked["conversation_id"], json!(conversation));
    // Deciding needs no right to message or ask.
    let decided = json!({"outcome": "answered", "answer": 1, "version": 1});
    w.hidden.api.post(&format!("/requests/{}/respond", asked.id()), decided).await.ok();
}

async fn a_deny_on_message_from_the_other_stops_the_reply(w: World) {
    w.policy(&w.bob.target(), vec![allow("message", w.hidden.target())]).await;
    let (conversation, _) = w.send(&w.bob.api, &w.hidden.target(), "hello").await;
    w.policy(&w.hidden.target(), vec![deny("message", w.bob.target())]).await;
    w.hidden.api.post("/messages", json!({"conversation_id": conversation, "body": "x"})).await.forbidden();
    w.say(&w.bob.api, &conversation, "still here").await;
}

async fn a_hidden_author_is_hidden_in_history(w: World) {
    let (conversation, message) = w.send(&w.builder.api, &w.ann.target(), "from builder").await;
    w.say(&w.ann.api, &conversation, "from ann").await;
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    let mut rules = contacts(&[w.builder.target(), w.billing.target()]);
    rules.push(deny("view", w.builder.target()));
    w.policy(&w.ann.target(), rules).await;
    let seen = w.ann.api.get(&format!("/conversations/{conversation}")).await;
    assert!(!seen.text.contains("from builder") && !seen.text.contains(&message), "{}", seen.text);
    w.ann.api.get(&format!("/requests/{asked}")).await.not_found();
    assert_eq!(w.bodies(&w.builder.api, &conversation).await, ["from builder", "from ann"]);
    w.policy(&w.ann.target(), contacts(&[w.builder.target(), w.billing.target()])).await;
    assert_eq!(w.bodies(&w.ann.api, &conversation).await, ["from builder", "from ann"]);
    // Neither does it reach an agent's inbox.
    w.send(&w.ann.api, &w.billing.target(), "hidden").await;
    let mut rules = contacts(&[w.builder.target()]);
    rules.push(deny("view", w.ann.target()));
    w.policy(&w.billing.target(), rules).await;
    assert!(w.billing.lease(10).await.is_empty());
}

async fn unbinding_takes_effect_at_once(w: World) {
    let role = json!({"name": "R", "rules": contacts(&[w.hidden.target()])});
    let role = w.owner.api.post("/roles", role).await.created().id();
    let bind = json!({"role_id": role, "subject_kind": "principal", "subject_id": w.bob.id});
    let binding = w.owner.api.post("/role-bindings", bind.clone()).await.created();
    assert!(binding.id().starts_with("rbd_"));
    send(&w.bob.api, &w.hidden.target()).await.created();
    assert_eq!(w.owner.api.delete(&format!("/role-bindings/{}", binding.id())).await.ok(), json!({"deleted": true}));
    send(&w.bob.api, &w.hidden.target()).await.not_found();
    w.owner.api.post("/role-bindings", bind).await.created();
    send(&w.bob.api, &w.hidden.target()).await.created();
    assert_eq!(w.owner.api.delete(&format!("/roles/{role}")).await.ok(), json!({"deleted": true}));
    send(&w.bob.api, &w.hidden.target()).await.not_found();
}

async fn nobody_writes_to_itself(w: World) {
    w.policy(&w.builder.target(), contacts(&[target("agent", "*")])).await;
    for to in [w.builder.target(), w.builder.exact(), target("agent", "team/builder-7")] {
        send(&w.builder.api, &to).await.refused(400, "invalid_request");
        ask(&w.builder.api, &to).await.refused(400, "invalid_request");
    }
    send(&w.ann.api, &w.ann.target()).await.refused(400, "invalid_request");
    send(&w.owner.api, &w.owner.target()).await.refused(400, "invalid_request");
}

async fn unknown_rules_are_refused(w: World) {
    let save =
        |rule: Value| w.owner.api.put("/contact-permissions", json!({"subject": w.bob.target(), "rules": [rule], "version": 0}));
    let good = allow("view", w.hidden.target());
    for (member, value) in
        [("action", json!("befriend")), ("effect", json!("maybe")), ("target_kind", json!("planet")), ("target_id", json!(""))]
    {
        let mut rule = good.clone();
        rule[member] = value;
        save(rule).await.invalid(member);
    }
    let many: Vec<_> = (0..1_001).map(|_| good.clone()).collect();
    let body = json!({"subject": w.bob.target(), "rules": many, "version": 0});
    w.owner.api.put("/contact-permissions", body).await.invalid("rules");
    let saved = save(good).await.ok();
    assert_eq!((saved.n("version"), saved.list("rules").len()), (1, 1));
}
