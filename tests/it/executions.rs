//! Bound actions: field reports B41 (an approval is for exactly what was shown) and B42 (a decision serves once).

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Answer, Api, Members};
use beepgrid_tests::world::{Caller, World, allow, credential, deny};
use serde_json::{Value, json};

on_both_stores!(
    an_approval_is_redeemed_for_its_execution,
    a_replaced_action_is_never_approved_by_the_old_answer,
    any_difference_in_value_is_another_action,
    numbers_survive_as_they_were_approved,
    sixty_four_at_once_make_one_execution,
    sixty_four_with_keys_make_one_execution,
    an_operation_is_redeemed_through_one_request,
    only_the_executor_redeems_and_reports,
    only_what_is_approved_and_unexpired_is_redeemed,
    both_sides_have_to_be_in_good_standing,
    a_restarted_executor_finds_its_execution,
    final_reports_stay,
    reports_are_checked,
    the_executor_alone_sees_its_part,
    those_concerned_hear_of_an_execution,
    two_deciders_with_yes_and_no_leave_one_answer,
    nothing_is_decided_after_the_end,
    capabilities_say_what_may_be_done,
);

fn action(w: &World, operation: &str) -> Value {
    json!({
        "name": "reconcile-orders", "executor_id": w.builder.id, "resource": "orders", "resource_version": "v2",
        "arguments": {"ids": [241, 242], "deep": {"a": null, "b": "x"}, "n": 1}, "operation_key": operation,
    })
}

/// An approval that the owner asks of Ann for Builder's action.
async fn approval(w: &World, action: &Value) -> Value {
    let body = json!({"target": w.ann.target(), "body": "Apply it?", "title": "Orders", "kind": "approval", "action": action});
    w.owner.api.post("/requests", body).await.created()
}

async fn decide(api: &Api, id: &str, outcome: &str, version: i64) -> Answer {
    api.post(&format!("/requests/{id}/respond"), json!({"outcome": outcome, "version": version})).await
}

/// An approved request for the action.
async fn approved(w: &World, action: &Value) -> String {
    let id = approval(w, action).await.id();
    decide(&w.ann.api, &id, "approved", 1).await.ok();
    id
}

async fn redeem(api: &Api, id: &str, action: &Value) -> Answer {
    api.post(&format!("/requests/{id}/redeem"), json!({"action": action})).await
}

async fn report(api: &Api, id: &str, state: &str, result: Value) -> Answer {
    api.post(&format!("/executions/{id}/report"), json!({"state": state, "result": result})).await
}

async fn an_approval_is_redeemed_for_its_execution(w: World) {
    let action = action(&w, "run/1");
    let id = approved(&w, &action).await;
    let made = redeem(&w.builder.api, &id, &action).await.created();
    assert!(made.id().starts_with("exe_"));
    assert_eq!(
        (made.s("request_id"), made.s("executor_id"), made.s("operation_key")),
        (id.clone(), w.builder.id.clone(), "run/1".into())
    );
    assert_eq!((&made["action"], made["state"].as_str(), &made["result"]), (&action, Some("authorized"), &Value::Null));
    assert_eq!(redeem(&w.builder.api, &id, &action).await.ok(), made);
    let done = report(&w.builder.api, &made.id(), "succeeded", json!({"fixture": true})).await.ok();
    assert_eq!((done.id(), done["state"].as_str(), &done["result"]), (made.id(), Some("succeeded"), &json!({"fixture": true})));
    assert_eq!(redeem(&w.builder.api, &id, &action).await.ok(), done);
}

async fn a_replaced_action_is_never_approved_by_the_old_answer(w: World) {
    let (x, y) = (action(&w, "run/x"), action(&w, "run/y"));
    let first = approval(&w, &x).await.id();
    w.owner.api.post(&format!("/requests/{first}/supersede"), json!({"version": 1})).await.ok();
    let second = approval(&w, &y).await.id();
    decide(&w.ann.api, &first, "approved", 1).await.refused(409, "request_closed");
    redeem(&w.builder.api, &first, &x).await.refused(409, "not_approved");
    redeem(&w.builder.api, &second, &y).await.refused(409, "not_approved");
    let third = approval(&w, &action(&w, "run/z")).await.id();
    let body = json!({"version": 1, "body": "Really apply it?"});
    let replaced = w.owner.api.post(&format!("/requests/{third}/replace"), body).key("k").await.created();
    decide(&w.ann.api, &third, "approved", 1).await.refused(409, "request_closed");
    let replacement = replaced["replacement"].id();
    redeem(&w.builder.api, &replacement, &action(&w, "run/z")).await.refused(409, "not_approved");
    decide(&w.ann.api, &replacement, "approved", 1).await.ok();
    redeem(&w.builder.api, &replacement, &action(&w, "run/z")).await.created();
}

async fn any_difference_in_value_is_another_action(w: World) {
    let right = action(&w, "run/1");
    let id = approved(&w, &right).await;
    let other = |field: &str, value: Value| {
        let mut action = right.clone();
        action[field] = value;
        action
    };
    let argument = |name: &str, value: Value| {
        let mut action = right.clone();
        action["arguments"][name] = value;
        action
    };
    let wrong = [
        other("name", json!("reconcile-order")),
        other("executor_id", json!(w.billing.id)),
        other("resource", json!("orders ")),
        other("resource_version", json!("V2")),
        other("operation_key", json!("run/1 ")),
        argument("n", json!(1.0)),
        argument("n", json!("1")),
        argument("n", json!(2)),
        argument("ids", json!([242, 241])),
        argument("ids", json!([241])),
        argument("deep", json!({"a": null})),
        argument("deep", json!({"a": null, "b": "x", "c": null})),
        argument("more", Value::Null),
        other("arguments", json!({})),
    ];
    for action in wrong {
        redeem(&w.builder.api, &id, &action).await.refused(409, "action_mismatch");
    }
    let path = format!("/requests/{id}/redeem");
    let text = format!(
        r#"{{"action": {{"operation_key":"run/1","resource_version":"v2","arguments":{{"n":1,"deep":{{"b":"x","a":null}},
            "ids":[ 241, 242 ]}}, "resource":"orders","executor_id":"{}","name":"reconcile\u002dorders"}}}}"#,
        w.builder.id
    );
    let made = w.builder.api.call(reqwest::Method::POST, &path).text(text).await.created();
    assert_eq!(made["action"], right);
    let changed = argument("n", json!(1.0));
    redeem(&w.builder.api, &id, &changed).await.refused(409, "action_mismatch");
    // The name by which Builder is known elsewhere is the same executor.
    let named = other("executor_id", json!(w.builder.external_id));
    assert_eq!(redeem(&w.builder.api, &id, &named).await.ok(), made);
}

async fn numbers_survive_as_they_were_approved(w: World) {
    for (at, number) in [0.1, 1e-7, 123_456.789_012, 5e-324, 1.797_693_134_862_315_7e308, -2.5].into_iter().enumerate() {
        let mut action = action(&w, &format!("run/{at}"));
        action["arguments"] = json!({"n": number});
        let id = approved(&w, &action).await;
        assert_eq!(redeem(&w.builder.api, &id, &action).await.created()["action"]["arguments"]["n"], json!(number));
    }
}

/// Sixty-four redeems in one instant, each under the key that `key` makes for it.
async fn storm(w: &World, id: &str, action: &Value, key: impl Fn(usize) -> Option<String>) -> Vec<Answer> {
    let calls = (0..64).map(|at| {
        let (api, key) = (w.builder.api.clone(), key(at));
        let (path, body) = (format!("/requests/{id}/redeem"), json!({"action": action}));
        tokio::spawn(async move {
            let call = api.post(&path, body);
            match key {
                Some(key) => call.key(&key).await,
                None => call.await,
            }
        })
    });
    let mut answers = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        answers.push(call.await.unwrap());
    }
    answers
}

fn assert_one_execution(answers: &[Answer]) {
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1, "made once");
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 201)), "{answers:?}");
    let first = answers[0].json().id();
    assert!(answers.iter().all(|answer| answer.json().id() == first));
}

async fn sixty_four_at_once_make_one_execution(w: World) {
    let action = action(&w, "run/1");
    let id = approved(&w, &action).await;
    assert_one_execution(&storm(&w, &id, &action, |_| None).await);
    // A second approval of the same operation gives nothing, to nobody.
    let second = approved(&w, &action).await;
    for answer in storm(&w, &second, &action, |_| None).await {
        answer.refused(409, "already_exists");
    }
}

async fn sixty_four_with_keys_make_one_execution(w: World) {
    let first = action(&w, "run/1");
    let id = approved(&w, &first).await;
    assert_one_execution(&storm(&w, &id, &first, |_| Some("one".to_owned())).await);
    let second = action(&w, "run/2");
    let id = approved(&w, &second).await;
    assert_one_execution(&storm(&w, &id, &second, |at| Some(format!("own-{at}"))).await);
}

async fn an_operation_is_redeemed_through_one_request(w: World) {
    let shared = action(&w, "run/1");
    let (a, b) = (approved(&w, &shared).await, approved(&w, &shared).await);
    redeem(&w.builder.api, &a, &shared).await.created();
    redeem(&w.builder.api, &b, &shared).await.refused(409, "already_exists");
    let mut others = shared.clone();
    others["executor_id"] = json!(w.billing.id);
    let c = approved(&w, &others).await;
    redeem(&w.billing.api, &c, &others).await.created();
}

async fn only_the_executor_redeems_and_reports(w: World) {
    let action = action(&w, "run/1");
    let id = approved(&w, &action).await;
    for api in [&w.owner.api, &w.ann.api] {
        redeem(api, &id, &action).await.forbidden();
    }
    for api in [&w.billing.api, &w.bob.api] {
        redeem(api, &id, &action).await.not_found();
    }
    let made = redeem(&w.builder.api, &id, &action).await.created().id();
    for api in [&w.owner.api, &w.ann.api] {
        report(api, &made, "failed", json!(1)).await.forbidden();
    }
    for api in [&w.billing.api, &w.bob.api] {
        report(api, &made, "failed", json!(1)).await.not_found();
    }
    report(&w.builder.api, "exe_none", "failed", json!(1)).await.not_found();
    let (_, narrow) = credential(&w.owner.api, &w.builder.id, Some(&["read", "request"])).await;
    redeem(&narrow, &id, &action).await.forbidden();
    report(&narrow, &made, "running", json!(1)).await.forbidden();
    let (_, executes) = credential(&w.owner.api, &w.builder.id, Some(&["execute"])).await;
    redeem(&executes, &id, &action).await.ok();
    report(&executes, &made, "running", json!(1)).await.ok();
}

async fn only_what_is_approved_and_unexpired_is_redeemed(w: World) {
    let own = |at: usize| action(&w, &format!("run/{at}"));
    let open = approval(&w, &own(1)).await.id();
    redeem(&w.builder.api, &open, &own(1)).await.refused(409, "not_approved");
    decide(&w.ann.api, &open, "denied", 1).await.ok();
    redeem(&w.builder.api, &open, &own(1)).await.refused(409, "not_approved");
    let cancelled = approval(&w, &own(2)).await.id();
    w.owner.api.post(&format!("/requests/{cancelled}/cancel"), json!({"version": 1})).await.ok();
    redeem(&w.builder.api, &cancelled, &own(2)).await.refused(409, "not_approved");
    let (late, used) = (approved(&w, &own(3)).await, approved(&w, &own(4)).await);
    redeem(&w.builder.api, &used, &own(4)).await.created();
    w.advance(7 * 24 * 3600);
    redeem(&w.builder.api, &late, &own(3)).await.refused(409, "not_approved");
    redeem(&w.builder.api, &used, &own(4)).await.ok();
    let plain = json!({"target": w.ann.target(), "body": "May I?", "kind": "approval"});
    let plain = w.builder.api.post("/requests", plain).await.created().id();
    decide(&w.ann.api, &plain, "approved", 1).await.ok();
    redeem(&w.builder.api, &plain, &own(5)).await.forbidden();
}

async fn both_sides_have_to_be_in_good_standing(w: World) {
    let mut view = vec![allow("view", w.builder.target())];
    view.extend([allow("ask", w.ann.target()), allow("ask", w.billing.target())]);
    let asker: Caller = w.person("Asker", "asker").await;
    w.policy(&asker.target(), view).await;
    let ask = |at: usize| {
        let body = json!({"target": w.ann.target(), "body": "?", "kind": "approval", "action": action(&w, &format!("run/{at}"))});
        asker.api.post("/requests", body)
    };
    let mut ids = Vec::new();
    for at in 0..3 {
        let id = ask(at).await.created().id();
        decide(&w.ann.api, &id, "approved", 1).await.ok();
        ids.push(id);
    }
    w.set_disabled("people", &w.ann.id, true).await;
    redeem(&w.builder.api, &ids[0], &action(&w, "run/0")).await.forbidden();
    w.set_disabled("people", &w.ann.id, false).await;
    redeem(&w.builder.api, &ids[0], &action(&w, "run/0")).await.created();
    w.policy(&w.ann.target(), vec![deny("decide", asker.target())]).await;
    redeem(&w.builder.api, &ids[1], &action(&w, "run/1")).await.forbidden();
    w.policy(&w.ann.target(), Vec::new()).await;
    redeem(&w.builder.api, &ids[1], &action(&w, "run/1")).await.created();
    w.set_disabled("people", &asker.id, true).await;
    redeem(&w.builder.api, &ids[2], &action(&w, "run/2")).await.forbidden();
    redeem(&w.builder.api, &ids[1], &action(&w, "run/1")).await.ok();
}

async fn a_restarted_executor_finds_its_execution(w: World) {
    let action = action(&w, "run/1");
    let id = approval(&w, &action).await.id();
    let before = w.enroll(&w.builder.external_id, "Builder 7").await;
    decide(&w.ann.api, &id, "approved", 1).await.ok();
    let after = w.enroll(&w.builder.external_id, "Builder 7").await;
    let made = redeem(&before.api, &id, &action).await.created();
    assert_eq!(redeem(&after.api, &id, &action).await.ok(), made);
    report(&after.api, &made.id(), "succeeded", json!(1)).await.ok();
    report(&before.api, &made.id(), "failed", json!(1)).await.refused(409, "execution_final");
}

async fn final_reports_stay(w: World) {
    for (at, last) in ["succeeded", "failed"].into_iter().enumerate() {
        let action = action(&w, &format!("run/{at}"));
        let id = approved(&w, &action).await;
        let made = redeem(&w.builder.api, &id, &action).await.created().id();
        for (state, result) in [("running", json!(1)), ("unknown", json!("cut off")), (last, json!({"n": 1}))] {
            let after = report(&w.builder.api, &made, state, result.clone()).await.ok();
            assert_eq!((after["state"].as_str(), &after["result"]), (Some(state), &result));
        }
        let end = report(&w.builder.api, &made, last, json!({"n": 1})).await.ok();
        for (state, result) in
            [(last, json!({"n": 2})), (last, Value::Null), ("running", json!(1)), ("unknown", json!(1)), ("failed", json!(3))]
        {
            report(&w.builder.api, &made, state, result).await.refused(409, "execution_final");
        }
        assert_eq!(redeem(&w.builder.api, &id, &action).await.ok(), end);
    }
}

async fn reports_are_checked(w: World) {
    let action = action(&w, "run/1");
    let id = approved(&w, &action).await;
    let made = redeem(&w.builder.api, &id, &action).await.created().id();
    let path = format!("/executions/{made}/report");
    for wrong in ["authorized", "done", "Running", ""] {
        w.builder.api.post(&path, json!({"state": wrong})).await.invalid("state");
    }
    w.builder.api.post(&path, json!({"state": "running", "progress": 1})).await.invalid("progress");
    let fits = "x".repeat(32 * 1024 - 2);
    report(&w.builder.api, &made, "running", json!(fits)).await.ok();
    report(&w.builder.api, &made, "running", json!(format!("{fits}x"))).await.invalid("result");
    let keyed = |result: Value| w.builder.api.post(&path, json!({"state": "running", "result": result})).key("k");
    keyed(json!(1)).await.ok();
    report(&w.builder.api, &made, "running", json!(2)).await.ok();
    assert_eq!(keyed(json!(1)).await.ok()["result"], 2, "a replay reports nothing anew");
    keyed(json!(3)).await.refused(409, "idempotency_conflict");
    let path = format!("/requests/{id}/redeem");
    w.builder.api.post(&path, json!({})).await.invalid("");
    w.builder.api.post(&path, json!({"action": {"name": "x"}})).await.refused(400, "invalid_request");
    let mut more = action.clone();
    more["approved"] = json!(true);
    w.builder.api.post(&path, json!({"action": more})).await.invalid("action.approved");
}

async fn the_executor_alone_sees_its_part(w: World) {
    let action = action(&w, "run/1");
    let id = approval(&w, &action).await.id();
    let part = w.builder.api.get(&format!("/requests/{id}")).await.ok();
    let mut members: Vec<&str> = part.as_object().unwrap().keys().map(String::as_str).collect();
    members.sort_unstable();
    assert_eq!(members, ["action", "expires_at", "id", "kind", "state", "title", "version"]);
    assert_eq!((part["kind"].as_str(), part["title"].as_str()), (Some("approval"), Some("Orders")));
    decide(&w.ann.api, &id, "approved", 1).await.ok();
    let part = w.builder.api.get(&format!("/requests/{id}")).await.ok();
    assert_eq!(part["response"], json!({"outcome": "approved", "version": 1}));
}

async fn those_concerned_hear_of_an_execution(w: World) {
    let action = action(&w, "run/1");
    let id = approved(&w, &action).await;
    let made = redeem(&w.builder.api, &id, &action).await.created().id();
    report(&w.builder.api, &made, "unknown", json!(1)).await.ok();
    for (api, sees) in [(&w.owner.api, true), (&w.ann.api, true), (&w.builder.api, true), (&w.billing.api, false)] {
        let events = api.get("/events?limit=500").await.ok();
        let heard: Vec<&Value> = events["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["kind"].as_str().is_some_and(|kind| kind.starts_with("execution.")))
            .collect();
        let kinds: Vec<&str> = heard.iter().filter_map(|event| event["kind"].as_str()).collect();
        if sees {
            assert_eq!(kinds, ["execution.authorized", "execution.updated"]);
            assert!(heard.iter().all(|event| event["data"].id() == made && event["data"]["state"] == "unknown"));
        } else {
            assert!(kinds.is_empty());
        }
    }
}

async fn two_deciders_with_yes_and_no_leave_one_answer(w: World) {
    w.policy(&w.builder.target(), vec![allow("ask", w.ann.target()), allow("ask", w.bob.target())]).await;
    let group = w.group("Deciders", &[&w.ann.id, &w.bob.id]).await;
    for _ in 0..16 {
        let body = json!({"target": {"kind": "group", "id": group}, "body": "Go?", "kind": "approval"});
        let id = w.owner.api.post("/requests", body).await.created().id();
        let (yes, no) = tokio::join!(decide(&w.ann.api, &id, "approved", 1), decide(&w.bob.api, &id, "denied", 1));
        let (won, lost) = if yes.status == 200 { ("approved", no) } else { ("denied", yes) };
        lost.refused(409, "request_closed");
        let end = w.owner.api.get(&format!("/requests/{id}")).await.ok();
        assert_eq!((end["response"]["outcome"].as_str(), end.n("version")), (Some(won), 2));
    }
}

async fn nothing_is_decided_after_the_end(w: World) {
    let body = |expires: Value| json!({"target": w.ann.target(), "body": "?", "kind": "approval", "expires_at": expires});
    let ask = |expires| w.owner.api.post("/requests", body(expires));
    let late = ask(json!(w.after(60).to_string())).await.created().id();
    w.advance(60);
    let cancelled = ask(Value::Null).await.created().id();
    w.owner.api.post(&format!("/requests/{cancelled}/cancel"), json!({"version": 1})).await.ok();
    let superseded = ask(Value::Null).await.created().id();
    w.owner.api.post(&format!("/requests/{superseded}/supersede"), json!({"version": 1})).await.ok();
    for (id, state) in [(late, "expired"), (cancelled, "cancelled"), (superseded, "superseded")] {
        decide(&w.ann.api, &id, "approved", 1).await.refused(409, "request_closed");
        assert_eq!(w.ann.api.get(&format!("/requests/{id}")).await.ok()["state"], state);
    }
    let twice = ask(Value::Null).await.created().id();
    let respond = || w.ann.api.post(&format!("/requests/{twice}/respond"), json!({"outcome": "approved", "version": 1}));
    let first = respond().key("k").await.ok();
    assert_eq!(respond().key("k").await.ok(), first);
    respond().await.refused(409, "request_closed");
}

async fn capabilities_say_what_may_be_done(w: World) {
    let action = action(&w, "run/1");
    let id = approval(&w, &action).await.id();
    let open = async |api: &Api| -> Vec<String> {
        let told = api.post("/capabilities", json!({"request_id": id})).await.ok();
        let operations = told["operations"].as_object().unwrap().clone();
        assert_eq!(operations.len(), 8);
        operations.into_iter().filter(|(_, open)| *open == true).map(|(name, _)| name).collect()
    };
    assert_eq!(open(&w.owner.api).await, ["cancel", "read", "replace", "supersede", "trace"]);
    assert_eq!(open(&w.ann.api).await, ["read", "respond"]);
    assert_eq!(open(&w.builder.api).await, ["read"]);
    assert!(open(&w.billing.api).await.is_empty());
    decide(&w.ann.api, &id, "approved", 1).await.ok();
    assert_eq!(open(&w.builder.api).await, ["read", "redeem"]);
    assert_eq!(open(&w.ann.api).await, ["read"]);
}
