//! Reusable answers: publish, find, reuse, take back.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Answer, Members};
use beepgrid_tests::world::{World, credential};
use serde_json::{Value, json};

on_both_stores!(
    a_published_answer_has_its_fields,
    the_same_question_is_answered_at_once,
    approvals_and_tasks_are_never_reused,
    a_publication_is_checked,
    an_answer_expires,
    publisher_audience_and_managers_see_an_answer,
    an_invalidated_answer_is_reused_no_longer,
    answering_and_sharing_is_one_step,
    a_publishers_lost_right_ends_reuse,
    those_concerned_hear_of_an_answer,
);

fn question(w: &World) -> Value {
    json!({
        "target": w.billing.target(), "title": "Region", "body": "Which region?", "choices": ["EU", "US"], "shared_key": "region",
    })
}

/// Ann's question, answered by Billing.
async fn answered(w: &World) -> String {
    let id = w.ann.api.post("/requests", question(w)).await.created().id();
    let body = json!({"outcome": "answered", "answer": "EU", "version": 1});
    w.billing.api.post(&format!("/requests/{id}/respond"), body).await.ok();
    w.billing.drain().await;
    id
}

async fn publish(w: &World, id: &str, audience: &[&str]) -> Answer {
    w.owner.api.post("/answers", json!({"request_id": id, "key": "region", "audience": audience})).await
}

async fn a_published_answer_has_its_fields(w: World) {
    let id = answered(&w).await;
    let made = publish(&w, &id, &[&w.builder.id, &w.billing.external_id, &w.builder.id]).await.created();
    assert!(made.id().starts_with("ans_"));
    assert_eq!(
        (made.s("request_id"), made.s("publisher_id"), made.s("responder_id")),
        (id, w.owner.id.clone(), w.billing.id.clone())
    );
    assert_eq!(
        (made["key"].as_str(), made["title"].as_str(), made["body"].as_str()),
        (Some("region"), Some("Region"), Some("Which region?"))
    );
    assert_eq!((&made["choices"], &made["answer"], &made["invalidated"]), (&json!(["EU", "US"]), &json!("EU"), &json!(false)));
    let mut audience = vec![w.builder.id.clone(), w.billing.id.clone()];
    audience.sort();
    assert_eq!(made["audience"], json!(audience));
    assert_eq!(made["valid_until"], json!(w.after(24 * 3600).to_string()));
    assert_eq!(made["created_at"], json!(w.site.now().to_string()));
    assert_eq!(w.owner.api.get("/answers").await.ok(), json!([made]));
}

async fn the_same_question_is_answered_at_once(w: World) {
    let id = answered(&w).await;
    let published = publish(&w, &id, &[&w.builder.id]).await.created();
    let reused = w.builder.api.post("/requests", question(&w)).key("k").await.created();
    assert_eq!((reused["state"].as_str(), reused.n("version")), (Some("resolved"), 2));
    let response = &reused["response"];
    assert_eq!((response["outcome"].as_str(), response["answer"].as_str()), (Some("answered"), Some("EU")));
    assert_eq!((response.s("source_answer_id"), response.s("reuse_method")), (published.id(), "shared_key".to_owned()));
    assert!(!response.s("reuse_reason").is_empty() && response.get("source_invalidated").is_none());
    assert_eq!(response.s("responder_id"), w.billing.id);
    assert_eq!(w.builder.api.post("/requests", question(&w)).key("k").await.ok(), reused);
    let result = w.builder.lease_one().await;
    assert_eq!((result["kind"].as_str(), result["payload"]["request"].id()), (Some("request_result"), reused.id()));
    assert_eq!(result["payload"]["request"]["response"], *response);
    assert!(w.billing.lease(10).await.is_empty(), "nobody is asked again");
    let respond = json!({"outcome": "answered", "answer": "US", "version": 1});
    w.billing.api.post(&format!("/requests/{}/respond", reused.id()), respond).await.refused(409, "request_closed");
    for (field, other) in [
        ("title", json!("region")),
        ("body", json!("Which region ?")),
        ("choices", json!(["EU", "US", "Asia"])),
        ("shared_key", json!("Region")),
    ] {
        let mut body = question(&w);
        body[field] = other;
        assert_eq!(w.builder.api.post("/requests", body).await.created()["state"], "open", "{field}");
    }
    assert_eq!(w.ann.api.post("/requests", question(&w)).await.created()["state"], "open", "not in the audience");
}

async fn approvals_and_tasks_are_never_reused(w: World) {
    for kind in ["approval", "task"] {
        let mut body = question(&w);
        body["kind"] = json!(kind);
        w.ann.api.post("/requests", body.clone()).await.invalid("shared_key");
        body.as_object_mut().unwrap().remove("shared_key");
        let id = w.ann.api.post("/requests", body).await.created().id();
        let outcome = if kind == "approval" { "approved" } else { "completed" };
        w.billing.api.post(&format!("/requests/{id}/respond"), json!({"outcome": outcome, "version": 1})).await.ok();
        publish(&w, &id, &[&w.builder.id]).await.invalid("request_id");
    }
}

async fn a_publication_is_checked(w: World) {
    let id = answered(&w).await;
    let right = json!({"request_id": id, "key": "region", "audience": [w.builder.id]});
    let with = |field: &str, value: Value| {
        let mut body = right.clone();
        body[field] = value;
        w.owner.api.post("/answers", body)
    };
    for field in ["request_id", "key", "audience"] {
        with(field, Value::Null).await.refused(400, "invalid_request");
    }
    with("key", json!("x".repeat(201))).await.invalid("key");
    with("audience", json!([])).await.refused(400, "invalid_request");
    with("audience", json!(vec!["agt_x"; 1_001])).await.invalid("audience");
    with("audience", json!([w.builder.id, "agt_none"])).await.not_found();
    with("valid_until", json!(w.site.now().to_string())).await.invalid("valid_until");
    with("valid_until", json!(w.after(90 * 24 * 3600 + 1).to_string())).await.invalid("valid_until");
    with("valid_until", json!("9999-01-01T00:00:00Z")).await.invalid("valid_until");
    with("request_id", json!("req_none")).await.not_found();
    with("confidence", json!(1)).await.invalid("confidence");
    let open = w.ann.api.post("/requests", question(&w)).await.created().id();
    with("request_id", json!(open)).await.invalid("request_id");
    w.ann.api.post("/answers", right.clone()).await.forbidden();
    w.bob.api.post("/answers", right.clone()).await.not_found();
    let (_, reads) = credential(&w.owner.api, &w.owner.id, Some(&["read"])).await;
    reads.post("/answers", right.clone()).await.forbidden();
    let first = w.owner.api.post("/answers", right.clone()).key("k").await.created();
    assert_eq!(w.owner.api.post("/answers", right.clone()).key("k").await.ok(), first);
    with("key", json!("other")).key("k").await.refused(409, "idempotency_conflict");
    w.set_disabled("agents", &w.builder.id, true).await;
    w.owner.api.post("/answers", right).await.forbidden();
}

async fn an_answer_expires(w: World) {
    let id = answered(&w).await;
    let body = json!({"request_id": id, "key": "region", "audience": [w.builder.id], "valid_until": w.after(60).to_string()});
    w.owner.api.post("/answers", body).await.created();
    w.advance(59);
    assert_eq!(w.builder.api.post("/requests", question(&w)).await.created()["state"], "resolved");
    w.advance(1);
    assert_eq!(w.builder.api.post("/requests", question(&w)).await.created()["state"], "open");
}

async fn publisher_audience_and_managers_see_an_answer(w: World) {
    let id = answered(&w).await;
    let made = publish(&w, &id, &[&w.builder.id, &w.ann.id]).await.created();
    let hers = w.builder.api.get("/answers").await.ok();
    assert_eq!(hers[0].id(), made.id());
    assert_eq!(hers[0]["audience"], json!([w.builder.id]), "whom else it is for is the publisher's");
    for api in [&w.billing.api, &w.bob.api, &w.hidden.api] {
        assert_eq!(api.get("/answers").await.ok(), json!([]));
    }
    w.delegate("answers", &w.bob.id).await;
    assert_eq!(w.bob.api.get("/answers").await.ok(), json!([made]));
    let second = publish(&w, &id, &[&w.builder.id]).await.created();
    assert_eq!(w.builder.api.get("/answers").await.ok().each("id"), [second.id(), made.id()], "newest first");
    let deny = json!({"effect": "deny", "action": "view", "target_kind": "agent", "target_id": w.billing.id});
    w.policy(&w.builder.target(), vec![deny]).await;
    assert_eq!(w.builder.api.get("/answers").await.ok(), json!([]));
    w.owner.api.get("/answers?key=region").await.invalid("key");
}

async fn an_invalidated_answer_is_reused_no_longer(w: World) {
    let id = answered(&w).await;
    let made = publish(&w, &id, &[&w.builder.id]).await.created();
    let reused = w.builder.api.post("/requests", question(&w)).await.created().id();
    let path = format!("/answers/{}/invalidate", made.id());
    w.builder.api.post(&path, json!({})).await.forbidden();
    w.hidden.api.post(&path, json!({})).await.not_found();
    w.owner.api.post("/answers/ans_none/invalidate", json!({})).await.not_found();
    w.owner.api.post(&path, json!({"why": "old"})).await.invalid("why");
    w.delegate("answers", &w.bob.id).await;
    w.advance(5);
    let gone = w.bob.api.post(&path, json!({})).key("k").await.ok();
    assert_eq!((&gone["invalidated"], &gone["invalidated_at"]), (&json!(true), &json!(w.site.now().to_string())));
    w.advance(5);
    assert_eq!(w.owner.api.post(&path, json!({})).await.ok()["invalidated_at"], gone["invalidated_at"]);
    let kept = w.builder.api.get(&format!("/requests/{reused}")).await.ok();
    assert_eq!((kept["state"].as_str(), &kept["response"]["source_invalidated"]), (Some("resolved"), &json!(true)));
    assert_eq!(w.builder.api.post("/requests", question(&w)).await.created()["state"], "open");
    let trace = w.ann.api.get(&format!("/requests/{id}/trace")).await.ok();
    assert_eq!(trace["answers"], json!([]), "who asked sees what was published only when it is for it");
    assert_eq!(w.owner.api.get(&format!("/requests/{id}/trace")).await.ok()["answers"].each("id"), [made.id()]);
}

async fn answering_and_sharing_is_one_step(w: World) {
    let mut body = question(&w);
    body["target"] = json!({"kind": "person", "id": w.owner.id});
    w.policy(&w.builder.target(), beepgrid_tests::world::contacts(&[w.owner.target(), w.billing.target(), w.ann.target()])).await;
    let id = w.builder.api.post("/requests", body.clone()).await.created().id();
    let path = format!("/requests/{id}/answer-and-share");
    let right = json!({"version": 1, "outcome": "answered", "answer": "EU", "key": "region", "audience": [w.builder.id]});
    let with = |field: &str, value: Value| {
        let mut body = right.clone();
        body[field] = value;
        w.owner.api.post(&path, body)
    };
    with("version", json!(2)).await.refused(409, "version_conflict");
    with("answer", json!("Asia")).await.invalid("answer");
    with("outcome", json!("approved")).await.invalid("outcome");
    with("audience", json!(["agt_none"])).await.not_found();
    assert_eq!(w.owner.api.get(&format!("/requests/{id}")).await.ok()["state"], "open", "both or neither");
    w.builder.api.post(&path, right.clone()).await.forbidden();
    w.hidden.api.post(&path, right.clone()).await.not_found();
    let (_, responds) = credential(&w.owner.api, &w.owner.id, Some(&["respond", "read"])).await;
    responds.post(&path, right.clone()).await.forbidden();
    let done = w.owner.api.post(&path, right.clone()).key("k").await.created();
    assert_eq!(
        (done["request"]["state"].as_str(), done["request"]["response"]["answer"].as_str()),
        (Some("resolved"), Some("EU"))
    );
    assert_eq!((done["answer"].s("request_id"), done["answer"]["answer"].as_str()), (id.clone(), Some("EU")));
    assert_eq!(w.owner.api.post(&path, right.clone()).key("k").await.ok(), done);
    responds.post(&path, right.clone()).key("k").await.forbidden();
    w.owner.api.post(&path, right).await.refused(409, "request_closed");
    let reused = w.builder.api.post("/requests", body).await.created();
    assert_eq!(reused["response"]["source_answer_id"], done["answer"]["id"]);
}

async fn a_publishers_lost_right_ends_reuse(w: World) {
    let id = answered(&w).await;
    let binding = w.delegate("answers", &w.ann.id).await;
    let body = json!({"request_id": id, "key": "region", "audience": [w.builder.id]});
    w.ann.api.post("/answers", body).await.created();
    assert_eq!(w.builder.api.post("/requests", question(&w)).await.created()["state"], "resolved");
    w.owner.api.delete(&format!("/role-bindings/{binding}")).await.ok();
    assert_eq!(w.builder.api.post("/requests", question(&w)).await.created()["state"], "open");
}

async fn those_concerned_hear_of_an_answer(w: World) {
    let id = answered(&w).await;
    w.delegate("answers", &w.bob.id).await;
    let made = publish(&w, &id, &[&w.builder.id]).await.created().id();
    w.owner.api.post(&format!("/answers/{made}/invalidate"), json!({})).await.ok();
    for (api, sees) in
        [(&w.owner.api, true), (&w.builder.api, true), (&w.bob.api, true), (&w.ann.api, false), (&w.hidden.api, false)]
    {
        let events = api.get("/events?limit=500").await.ok();
        let kinds: Vec<String> = events["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["kind"].as_str().is_some_and(|kind| kind.starts_with("answer.")))
            .map(|event| event.s("kind"))
            .collect();
        let heard: &[&str] = if sees { &["answer.published", "answer.invalidated"] } else { &[] };
        assert_eq!(kinds, heard);
    }
}
