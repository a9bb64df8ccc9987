//! Section 5: requests, their states, audiences and limits.

mod audiences;

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Answer, Api, Members};
use beepgrid_tests::world::{World, contacts};
use serde_json::{Value, json};

on_both_stores!(
    a_request_has_its_fields,
    a_response_has_its_fields,
    outcomes_belong_to_kinds,
    choices_bind_the_answer,
    limits_of_a_request,
    expiry_is_in_the_future_and_within_ninety_days,
    what_is_due_is_closed_for_every_reader,
    an_answer_after_expiry_changes_nothing,
    an_action_is_bounded_and_expires_in_a_week,
    an_executor_never_decides_its_action,
    only_the_audience_decides,
    an_operator_cancels_but_does_not_decide,
    a_version_guards_the_decision,
    two_deciders_at_once_and_one_wins,
    the_same_answer_twice,
    nothing_follows_a_final_state,
    a_replacement_needs_its_own_answer,
    replacing_keeps_the_audience_that_is_left,
    only_the_requester_replaces,
);

async fn get(api: &Api, id: &str) -> Value {
    api.get(&format!("/requests/{id}")).await.ok()
}

async fn respond(api: &Api, id: &str, outcome: &str, version: i64) -> Answer {
    api.post(&format!("/requests/{id}/respond"), json!({"outcome": outcome, "version": version})).await
}

async fn answer(api: &Api, id: &str, answer: Value) -> Answer {
    api.post(&format!("/requests/{id}/respond"), json!({"outcome": "answered", "answer": answer, "version": 1})).await
}

async fn cancel(api: &Api, id: &str, version: i64) -> Answer {
    api.post(&format!("/requests/{id}/cancel"), json!({"version": version})).await
}

fn action(executor: &str) -> Value {
    json!({
        "name": "deploy", "executor_id": executor, "resource": "staging", "resource_version": "7", "arguments": {"n": 1},
        "operation_key": "op-1",
    })
}

async fn a_request_has_its_fields(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "May I?").await;
    assert!(asked.id().starts_with("req_") && asked.s("conversation_id").starts_with("cnv_"));
    assert_eq!((asked["kind"].as_str(), asked["state"].as_str(), asked.n("version")), (Some("question"), Some("open"), 1));
    assert_eq!((asked["title"].as_str(), asked["body"].as_str(), &asked["choices"]), (Some(""), Some("May I?"), &json!([])));
    assert_eq!(asked["expires_at"], "9999-01-01T00:00:00Z");
    assert_eq!(asked["created_at"], json!(w.site.now().to_string()));
    assert_eq!((asked.s("requester_id"), asked.s("requester_instance_id")), (w.builder.id.clone(), w.builder.instance.clone()));
    assert_eq!(asked["recipient_ids"], json!([w.ann.id]));
    for absent in ["response", "action", "blocking", "closed_at", "closed_by", "recipients", "attachments", "mentions"] {
        assert!(asked.get(absent).is_none(), "{absent}: {asked}");
    }
    assert_eq!(get(&w.builder.api, &asked.id()).await, asked);
    let hers = get(&w.ann.api, &asked.id()).await;
    assert!(hers.get("recipient_ids").is_none(), "only the requester sees who was asked");
    assert_eq!(hers["body"], "May I?");
    let full = json!({"target": w.billing.target(), "body": "b", "kind": "task", "title": "T", "choices": ["x"]});
    let task = w.ann.api.post("/requests", full).await.created();
    assert_eq!((task["kind"].as_str(), task["title"].as_str(), &task["choices"]), (Some("task"), Some("T"), &json!(["x"])));
    assert!(task.get("requester_instance_id").is_none());
    let delivery = w.billing.lease_one().await;
    assert_eq!((delivery["kind"].as_str(), delivery["payload"]["request"].id()), (Some("request"), task.id()));
}

async fn a_response_has_its_fields(w: World) {
    let asked = w.ask(&w.ann.api, &w.billing.target(), "q").await.id();
    w.advance(5);
    let closed = answer(&w.billing.api, &asked, json!({"deep": [1, null, "x"]})).await.ok();
    assert_eq!((closed["state"].as_str(), closed.n("version")), (Some("resolved"), 2));
    let response = &closed["response"];
    assert_eq!((response["outcome"].as_str(), &response["answer"]), (Some("answered"), &json!({"deep": [1, null, "x"]})));
    assert_eq!(
        (response.s("responder_id"), response.s("responder_instance_id")),
        (w.billing.id.clone(), w.billing.instance.clone())
    );
    let seen = get(&w.ann.api, &asked).await;
    assert_eq!(seen["response"], *response);
    assert_eq!(seen["closed_at"], json!(w.site.now().to_string()));
    assert_eq!(seen["closed_by"], json!(w.billing.id));
    for emptied in [json!(""), json!(false), json!(0), json!([]), json!({})] {
        let asked = w.ask(&w.ann.api, &w.billing.target(), "q").await.id();
        assert_eq!(answer(&w.billing.api, &asked, emptied.clone()).await.ok()["response"]["answer"], emptied);
    }
}

async fn outcomes_belong_to_kinds(w: World) {
    let allowed = [
        ("question", vec!["answered"]),
        ("approval", vec!["approved", "denied"]),
        ("task", vec!["completed", "failed", "rejected"]),
    ];
    for (kind, good) in &allowed {
        for outcome in ["answered", "approved", "denied", "completed", "failed", "rejected", "open", ""] {
            let body = json!({"target": w.billing.target(), "body": "q", "kind": kind});
            let asked = w.ann.api.post("/requests", body).await.created().id();
            let given = respond(&w.billing.api, &asked, outcome, 1).await;
            if good.contains(&outcome) {
                assert_eq!(given.ok()["response"]["outcome"], outcome);
            } else {
                given.invalid("outcome");
                assert_eq!(get(&w.ann.api, &asked).await["state"], "open");
            }
        }
    }
}

async fn choices_bind_the_answer(w: World) {
    let ask = |kind: &str| {
        w.ann.api.post("/requests", json!({"target": w.billing.target(), "body": "q", "kind": kind, "choices": ["Yes", "No"]}))
    };
    let question = ask("question").await.created().id();
    for wrong in [json!("yes"), json!("Maybe"), json!(["Yes"]), json!({"Yes": true}), json!(true), json!("Yes "), json!("")] {
        answer(&w.billing.api, &question, wrong).await.invalid("answer");
    }
    respond(&w.billing.api, &question, "answered", 1).await.invalid("answer");
    answer(&w.billing.api, &question, json!("Yes")).await.ok();
    let approve = |id: String, body: Value| {
        let api = w.billing.api.clone();
        async move { api.post(&format!("/requests/{id}/respond"), body).await }
    };
    let approval = ask("approval").await.created().id();
    approve(approval.clone(), json!({"outcome": "approved", "answer": "Sure", "version": 1})).await.invalid("answer");
    approve(approval, json!({"outcome": "approved", "answer": "No", "version": 1})).await.ok();
    let approval = ask("approval").await.created().id();
    approve(approval, json!({"outcome": "approved", "version": 1})).await.ok();
    let approval = ask("approval").await.created().id();
    approve(approval, json!({"outcome": "denied", "answer": "because", "version": 1})).await.ok();
}

async fn limits_of_a_request(w: World) {
    let ask = |extra: Value| {
        let mut body = json!({"target": w.billing.target(), "body": "q"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        w.ann.api.post("/requests", body)
    };
    ask(json!({"body": "x".repeat(32 * 1024)})).await.created();
    ask(json!({"body": "x".repeat(32 * 1024 + 1)})).await.invalid("body");
    ask(json!({"title": "👋".repeat(200)})).await.created();
    ask(json!({"title": "x".repeat(201)})).await.invalid("title");
    let choices: Vec<_> = (0..21).map(|at| format!("choice {at}")).collect();
    ask(json!({"choices": choices[..20]})).await.created();
    ask(json!({"choices": choices})).await.invalid("choices");
    ask(json!({"choices": ["👋".repeat(200)]})).await.created();
    ask(json!({"choices": ["x".repeat(201)]})).await.invalid("choices");
    ask(json!({"choices": [1]})).await.invalid("choices");
    let asked = ask(json!({})).await.created().id();
    let of_size = |size: usize| json!("x".repeat(size - 2));
    answer(&w.billing.api, &asked, of_size(32 * 1024 + 1)).await.invalid("answer");
    answer(&w.billing.api, &asked, of_size(32 * 1024)).await.ok();
}

async fn expiry_is_in_the_future_and_within_ninety_days(w: World) {
    let ask = |at: String| w.ann.api.post("/requests", json!({"target": w.billing.target(), "body": "q", "expires_at": at}));
    ask(w.site.now().to_string()).await.invalid("expires_at");
    ask("2020-01-01T00:00:00Z".into()).await.invalid("expires_at");
    let day = 86_400;
    ask(w.after(90 * day + 1).to_string()).await.invalid("expires_at");
    for at in [w.after(90 * day), w.after(1)] {
        assert_eq!(ask(at.to_string()).await.created()["expires_at"], json!(at.to_string()));
    }
    let never = ask("9999-01-01T00:00:00Z".into()).await.created();
    assert_eq!(never["expires_at"], "9999-01-01T00:00:00Z");
    for odd in ["2026-12-02", "later", "1764504000"] {
        ask(odd.into()).await.invalid("expires_at");
    }
}

async fn what_is_due_is_closed_for_every_reader(w: World) {
    let at = w.after(60).to_string();
    let body = json!({"target": w.billing.target(), "body": "q", "expires_at": at});
    let asked = w.builder.api.post("/requests", body).await.created();
    w.advance(59);
    assert_eq!(get(&w.builder.api, &asked.id()).await["state"], "open");
    w.advance(1);
    // The very first read after the deadline sees it closed, whatever the sweeper does.
    let seen = get(&w.builder.api, &asked.id()).await;
    assert_eq!((seen["state"].as_str(), seen.n("version")), (Some("expired"), 2));
    assert_eq!(seen["closed_at"], json!(at));
    assert!(seen.get("closed_by").is_none() && seen.get("response").is_none(), "{seen}");
    assert_eq!(get(&w.billing.api, &asked.id()).await["state"], "expired");
    let shown = w.conversation(&w.billing.api, &asked.s("conversation_id")).await;
    assert_eq!(shown["requests"][0]["state"], "expired");
    cancel(&w.builder.api, &asked.id(), 1).await.refused(409, "request_closed");
    // The requester hears of it; nobody is asked any more.
    let result = beepgrid_tests::wait::until("the sweeper", || async { w.builder.lease(10).await.pop() }).await;
    assert_eq!(
        (result["kind"].as_str(), result["payload"]["request"]["state"].as_str()),
        (Some("request_result"), Some("expired"))
    );
    assert!(w.billing.lease(10).await.is_empty());
}

async fn an_answer_after_expiry_changes_nothing(w: World) {
    let body = json!({"target": w.billing.target(), "body": "q", "expires_at": w.after(60).to_string()});
    let asked = w.ann.api.post("/requests", body).await.created().id();
    w.site.advance(std::time::Duration::from_millis(60_001));
    answer(&w.billing.api, &asked, json!("late")).await.refused(409, "request_closed");
    let seen = get(&w.ann.api, &asked).await;
    assert_eq!(seen["state"], "expired");
    assert!(seen.get("response").is_none());
}

async fn an_action_is_bounded_and_expires_in_a_week(w: World) {
    let ask = |action: Value| {
        w.builder.api.post("/requests", json!({"target": w.ann.target(), "body": "go?", "kind": "approval", "action": action}))
    };
    let asked = ask(action(&w.builder.id)).await.created();
    assert_eq!(asked["expires_at"], json!(w.after(7 * 86_400).to_string()));
    assert_eq!(asked["action"], action(&w.builder.id));
    assert_eq!(get(&w.ann.api, &asked.id()).await["action"], action(&w.builder.id));
    for member in ["name", "executor_id", "resource", "operation_key"] {
        let mut without = action(&w.builder.id);
        without.as_object_mut().unwrap().remove(member);
        ask(without).await.invalid(member);
    }
    let mut big = action(&w.builder.id);
    big["arguments"] = json!({"k": "x".repeat(32 * 1024)});
    ask(big).await.invalid("arguments");
    // Only an approval binds an action.
    let question = json!({"target": w.ann.target(), "body": "go?", "action": action(&w.builder.id)});
    w.builder.api.post("/requests", question).await.refused(400, "invalid_request");
}

async fn an_executor_never_decides_its_action(w: World) {
    let alone = json!({"target": w.billing.target(), "body": "go?", "kind": "approval", "action": action(&w.billing.id)});
    w.builder.api.post("/requests", alone).await.refused(400, "invalid_request");
    // Among several it is asked, and still may not.
    let chat = json!({"targets": [w.ann.target(), w.billing.target()], "body": "x"});
    w.acquaint(&[&w.ann.id, &w.builder.id, &w.billing.id]).await;
    let chat = w.builder.api.post("/chats", chat).await.created().s("conversation_id");
    let body = json!({"conversation_id": chat, "body": "go?", "kind": "approval", "action": action(&w.billing.id)});
    let asked = w.builder.api.post("/requests", body).await.created().id();
    respond(&w.billing.api, &asked, "approved", 1).await.forbidden();
    respond(&w.ann.api, &asked, "approved", 1).await.ok();
}

async fn only_the_audience_decides(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    for api in [&w.bob.api, &w.billing.api, &w.hidden.api] {
        respond(api, &asked, "answered", 1).await.not_found();
    }
    respond(&w.builder.api, &asked, "answered", 1).await.forbidden();
    w.owner.api.post("/requests/req_none/respond", json!({"outcome": "answered", "version": 1})).await.not_found();
    assert_eq!(get(&w.ann.api, &asked).await["state"], "open");
    // Deciding needs neither `message` nor `ask`.
    w.policy(&w.ann.target(), vec![]).await;
    respond(&w.ann.api, &asked, "answered", 1).await.ok();
}

async fn an_operator_cancels_but_does_not_decide(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    respond(&w.owner.api, &asked, "answered", 1).await.forbidden();
    cancel(&w.ann.api, &asked, 1).await.forbidden();
    cancel(&w.bob.api, &asked, 1).await.not_found();
    cancel(&w.owner.api, &asked, 2).await.refused(409, "version_conflict");
    let closed = cancel(&w.owner.api, &asked, 1).await.ok();
    assert_eq!((closed["state"].as_str(), closed.n("version")), (Some("cancelled"), 2));
    assert_eq!(get(&w.builder.api, &asked).await["closed_by"], json!(w.owner.id));
    // What is put to the operator itself it does decide.
    w.policy(&w.builder.target(), contacts(&[w.owner.target()])).await;
    let own = w.ask(&w.builder.api, &w.owner.target(), "q").await.id();
    respond(&w.owner.api, &own, "answered", 1).await.ok();
}

async fn a_version_guards_the_decision(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    for version in [2, 99] {
        respond(&w.ann.api, &asked, "answered", version).await.refused(409, "version_conflict");
        cancel(&w.builder.api, &asked, version).await.refused(409, "version_conflict");
        let body = json!({"version": version, "body": "r"});
        w.builder.api.post(&format!("/requests/{asked}/replace"), body).key("k").await.refused(409, "version_conflict");
    }
    assert_eq!(get(&w.ann.api, &asked).await.n("version"), 1);
    respond(&w.ann.api, &asked, "answered", 1).await.ok();
}

async fn two_deciders_at_once_and_one_wins(w: World) {
    w.acquaint(&[&w.ann.id, &w.builder.id, &w.billing.id]).await;
    let start = json!({"targets": [w.builder.target(), w.billing.target()], "body": "x"});
    let chat = w.ann.api.post("/chats", start).await.created().s("conversation_id");
    for _ in 0..10 {
        let body = json!({"conversation_id": chat, "body": "go?", "kind": "approval"});
        let asked = w.ann.api.post("/requests", body).await.created().id();
        let (yes, no) =
            tokio::join!(respond(&w.builder.api, &asked, "approved", 1), respond(&w.billing.api, &asked, "denied", 1));
        let won = [&yes, &no].iter().filter(|a| a.status == 200).count();
        assert_eq!(won, 1, "{} / {}", yes.text, no.text);
        let lost = if yes.status == 200 { &no } else { &yes };
        assert_eq!(lost.status, 409);
        assert!(matches!(lost.code().as_str(), "version_conflict" | "request_closed"), "{}", lost.text);
        let outcome = if yes.status == 200 { "approved" } else { "denied" };
        let seen = get(&w.ann.api, &asked).await;
        assert_eq!((seen["response"]["outcome"].as_str(), seen.n("version")), (Some(outcome), 2));
    }
}

async fn the_same_answer_twice(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    answer(&w.ann.api, &asked, json!(1)).await.ok();
    answer(&w.ann.api, &asked, json!(1)).await.refused(409, "request_closed");
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    let keyed = |value: i64| {
        let body = json!({"outcome": "answered", "answer": value, "version": 1});
        w.ann.api.post(&format!("/requests/{asked}/respond"), body).key("k")
    };
    let first = keyed(1).await.ok();
    assert_eq!(keyed(1).await.ok(), first);
    keyed(2).await.refused(409, "idempotency_conflict");
}

async fn nothing_follows_a_final_state(w: World) {
    for how in ["answer", "cancel", "replace", "expire"] {
        let body = json!({"target": w.ann.target(), "body": "q", "expires_at": w.after(60).to_string()});
        let asked = w.builder.api.post("/requests", body).await.created().id();
        match how {
            "answer" => drop(answer(&w.ann.api, &asked, json!(1)).await.ok()),
            "cancel" => drop(cancel(&w.builder.api, &asked, 1).await.ok()),
            "replace" => {
                let body = json!({"version": 1, "body": "r"});
                w.builder.api.post(&format!("/requests/{asked}/replace"), body).key(how).await.created();
            }
            _ => w.advance(60),
        }
        let before = get(&w.builder.api, &asked).await;
        answer(&w.ann.api, &asked, json!(2)).await.refused(409, "request_closed");
        cancel(&w.builder.api, &asked, 1).await.refused(409, "request_closed");
        cancel(&w.owner.api, &asked, 2).await.refused(409, "request_closed");
        let body = json!({"version": 2, "body": "r"});
        w.builder.api.post(&format!("/requests/{asked}/replace"), body).key("again").await.refused(409, "request_closed");
        assert_eq!(get(&w.builder.api, &asked).await, before, "{how}");
    }
}

async fn a_replacement_needs_its_own_answer(w: World) {
    let body =
        json!({"target": w.billing.target(), "body": "delete X?", "kind": "approval", "choices": ["a", "b"], "title": "T"});
    let first = w.builder.api.post("/requests", body).await.created();
    let shown = w.billing.lease_one().await;
    w.billing.ack(&shown).await;
    let path = format!("/requests/{}/replace", first.id());
    let replaced = w.builder.api.post(&path, json!({"version": 1, "body": "delete Y?"})).key("k").await.created();
    let (previous, replacement) = (&replaced["previous"], &replaced["replacement"]);
    assert_eq!((previous.id(), previous["state"].as_str(), previous.n("version")), (first.id(), Some("superseded"), 2));
    assert_eq!(previous["closed_by"], json!(w.builder.id));
    assert_ne!(replacement.id(), first.id());
    assert_eq!(
        (replacement["state"].as_str(), replacement.n("version"), replacement["body"].as_str()),
        (Some("open"), 1, Some("delete Y?"))
    );
    for kept in ["kind", "title", "choices", "conversation_id", "recipient_ids", "requester_id"] {
        assert_eq!(replacement[kept], first[kept], "{kept}");
    }
    // The approver still looks at the first one.
    respond(&w.billing.api, &first.id(), "approved", 1).await.refused(409, "request_closed");
    assert_eq!(get(&w.builder.api, &replacement.id()).await["state"], "open");
    let mut kinds: Vec<_> = w.billing.drain().await.iter().map(|d| (d.s("kind"), d["payload"]["request"].id())).collect();
    kinds.sort();
    assert_eq!(kinds, [("request".to_owned(), replacement.id()), ("request_withdrawn".to_owned(), first.id())]);
    respond(&w.billing.api, &replacement.id(), "denied", 1).await.ok();
    assert_eq!(get(&w.builder.api, &first.id()).await["state"], "superseded");
}

async fn replacing_keeps_the_audience_that_is_left(w: World) {
    w.acquaint(&[&w.ann.id, &w.builder.id, &w.billing.id, &w.hidden.id]).await;
    let start = json!({"targets": [w.builder.target(), w.billing.target()], "body": "x"});
    let chat = w.ann.api.post("/chats", start).await.created().s("conversation_id");
    let asked = w.ann.api.post("/requests", json!({"conversation_id": chat, "body": "q"})).await.created();
    assert_eq!(asked.list("recipient_ids").len(), 2);
    let membership = format!("/conversations/{chat}/membership");
    w.ann.api.post(&membership, json!({"operation": "remove", "version": 1, "members": [w.billing.id]})).await.ok();
    w.ann
        .api
        .post(&membership, json!({"operation": "add", "version": 2, "members": [w.hidden.id], "share_history": true}))
        .await
        .ok();
    let path = format!("/requests/{}/replace", asked.id());
    let replaced = w.ann.api.post(&path, json!({"version": 1, "body": "r"})).key("k").await.created();
    assert_eq!(replaced["replacement"]["recipient_ids"], json!([w.builder.id]));
}

async fn only_the_requester_replaces(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    let replace =
        |api: &Api, key: &str| api.post(&format!("/requests/{asked}/replace"), json!({"version": 1, "body": "r"})).key(key);
    replace(&w.ann.api, "a").await.forbidden();
    replace(&w.owner.api, "b").await.forbidden();
    replace(&w.bob.api, "c").await.not_found();
    let empty = json!({"version": 1, "body": ""});
    w.builder.api.post(&format!("/requests/{asked}/replace"), empty).key("d").await.invalid("body");
    replace(&w.builder.api, "d").await.created();
    replace(&w.builder.api, "d").await.ok();
}
