//! Section 1, the order of refusals: token, form, ceiling, key, visibility, right, final state, version.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::{World, credential};
use reqwest::Method;
use serde_json::json;

on_both_stores!(
    token_comes_before_form,
    form_comes_before_the_ceiling,
    the_ceiling_comes_before_the_key,
    the_key_comes_before_visibility,
    form_comes_before_visibility,
    visibility_comes_before_the_right,
    the_right_comes_before_the_version,
    the_final_state_comes_before_the_version,
    the_invisible_is_like_the_missing,
);

async fn token_comes_before_form(w: World) {
    let nobody = w.owner.api.nobody();
    nobody.post("/people", json!({})).await.refused(401, "unauthorized");
    // The connection may end before all of it is written.
    if let Ok(answer) = nobody.call(Method::POST, "/people").text(vec![b'x'; 5 * 1024 * 1024]).attempt().await {
        answer.refused(401, "unauthorized");
    }
}

async fn form_comes_before_the_ceiling(w: World) {
    let (_, reader) = credential(&w.owner.api, &w.ann.id, Some(&["read"])).await;
    reader.post("/messages", json!({"target": w.builder.target(), "body": 1})).await.invalid("body");
    reader.post("/messages", json!({"target": w.builder.target(), "body": "x"})).await.forbidden();
}

async fn the_ceiling_comes_before_the_key(w: World) {
    let (_, reader) = credential(&w.owner.api, &w.ann.id, Some(&["read"])).await;
    let body = json!({"target": w.builder.target(), "body": "x"});
    w.ann.api.post("/messages", body.clone()).key("k").await.created();
    reader.post("/messages", body.clone()).key("k").await.forbidden();
    w.ann.api.post("/messages", body).key("k").await.ok();
}

async fn the_key_comes_before_visibility(w: World) {
    let group = w.group("G", &[]).await;
    let path = format!("/groups/{group}");
    assert_eq!(w.owner.api.delete(&path).key("gone").await.ok(), json!({"deleted": true}));
    w.owner.api.delete(&path).await.not_found();
    assert_eq!(w.owner.api.delete(&path).key("gone").await.ok(), json!({"deleted": true}));
}

async fn form_comes_before_visibility(w: World) {
    w.ann.api.post("/requests/req_none/respond", json!({"outcome": 1, "version": 1})).await.invalid("outcome");
    w.ann.api.post("/requests/req_none/respond", json!({"outcome": "answered", "version": 1})).await.not_found();
    w.ann.api.post("/conversations/cnv_none/membership", json!({"operation": "dance", "version": 1})).await.invalid("operation");
}

async fn visibility_comes_before_the_right(w: World) {
    // Bob may do nothing, but first of all he sees nothing.
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await;
    let path = format!("/requests/{}", asked.id());
    w.bob.api.get(&path).await.not_found();
    w.bob.api.post(&format!("{path}/respond"), json!({"outcome": "answered", "version": 1})).await.not_found();
    w.bob.api.post(&format!("{path}/cancel"), json!({"version": 1})).await.not_found();
    w.bob.api.patch(&format!("/people/{}", w.ann.id), json!({"version": 1, "name": "X"})).await.not_found();
    w.bob.api.post("/messages", json!({"target": w.ann.target(), "body": "x"})).await.not_found();
}

async fn the_right_comes_before_the_version(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await;
    let path = format!("/requests/{}", asked.id());
    w.ann.api.post(&format!("{path}/cancel"), json!({"version": 7})).await.forbidden();
    w.builder.api.post(&format!("{path}/respond"), json!({"outcome": "answered", "version": 7})).await.forbidden();
    // Ann views Builder, but does not manage identities.
    w.ann.api.patch(&format!("/agents/{}", w.builder.id), json!({"version": 7, "name": "X"})).await.forbidden();
}

async fn the_final_state_comes_before_the_version(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await;
    let path = format!("/requests/{}", asked.id());
    w.builder.api.post(&format!("{path}/cancel"), json!({"version": 1})).await.ok();
    for version in [1, 2, 9] {
        w.builder.api.post(&format!("{path}/cancel"), json!({"version": version})).await.refused(409, "request_closed");
        let decision = json!({"outcome": "answered", "version": version});
        w.ann.api.post(&format!("{path}/respond"), decision).await.refused(409, "request_closed");
    }
}

async fn the_invisible_is_like_the_missing(w: World) {
    let (conversation, _) = w.send(&w.builder.api, &w.ann.target(), "private").await;
    let request = w.ask(&w.builder.api, &w.ann.target(), "private").await.id();
    for (there, missing) in [
        (format!("/conversations/{conversation}"), "/conversations/cnv_none".to_owned()),
        (format!("/requests/{request}"), "/requests/req_none".to_owned()),
    ] {
        assert_eq!(w.bob.api.get(&there).await.not_found(), w.bob.api.get(&missing).await.not_found());
    }
    let there = w.bob.api.post("/messages", json!({"target": w.ann.target(), "body": "x"})).await.not_found();
    let missing = json!({"target": {"kind": "person", "id": "per_none"}, "body": "x"});
    assert_eq!(there, w.bob.api.post("/messages", missing).await.not_found());
}
