//! Section 1: tokens, paths, methods, content types, request ids.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Api, Members};
use beepgrid_tests::world::{World, credential};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

on_both_stores!(
    the_probes_need_no_token,
    every_401_has_the_same_body,
    a_call_without_a_token_is_refused_before_its_body_is_read,
    unknown_paths_have_our_shape,
    another_method_is_405,
    a_body_that_is_not_json_by_its_type_is_415,
    request_ids_are_echoed_when_sane,
    the_workspace_says_what_it_is,
    me_says_who_calls,
    wrong_query_values_are_refused,
    odd_ids_are_not_found,
    answers_are_json,
);

async fn the_probes_need_no_token(w: World) {
    for path in ["//healthz", "//readyz"] {
        assert_eq!(w.owner.api.nobody().get(path).await.status, 200, "{path}");
    }
}

async fn every_401_has_the_same_body(w: World) {
    let nobody = w.owner.api.nobody();
    let (id, revoked) = credential(&w.owner.api, &w.ann.id, None).await;
    w.owner.api.post(&format!("/credentials/{id}/revoke"), json!({})).await.ok();
    let soon = json!({"principal_id": w.ann.id, "kind": "api", "expires_at": w.after(60).to_string()});
    let expiring = w.owner.api.with(&w.owner.api.post("/credentials", soon).await.created().s("token"));
    expiring.get("/me").await.ok();
    w.advance(61);

    let mut bodies = vec![nobody.get("/me").await, revoked.get("/me").await, expiring.get("/me").await];
    bodies.push(w.owner.api.with("no-such-token").get("/me").await);
    for header in ["Basic dXNlcjpwdw==", "Bearer", "Bearer ", "bearer", "Token abc", w.owner.api.token()] {
        bodies.push(nobody.get("/me").header("authorization", header).await);
    }
    bodies.push(nobody.post("/messages", json!({"body": "x"})).await);
    let first = bodies[0].text.clone();
    for answer in bodies {
        assert_eq!(answer.text, first);
        answer.refused(401, "unauthorized");
    }
}

async fn a_call_without_a_token_is_refused_before_its_body_is_read(w: World) {
    let address = w.owner.api.url().trim_start_matches("http://").to_owned();
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = "POST /api/v1/messages HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    tokio::time::timeout(std::time::Duration::from_secs(5), socket.read_exact(&mut answer)).await.expect("an answer").unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
    // What is wrong with the body does not matter either.
    let nobody = w.owner.api.nobody();
    nobody.call(Method::POST, "/messages").text("{").await.refused(401, "unauthorized");
    nobody.call(Method::POST, "/messages").bytes("x").await.refused(401, "unauthorized");
    nobody.post("/messages", json!({"nope": 1})).key("").await.refused(401, "unauthorized");
}

async fn unknown_paths_have_our_shape(w: World) {
    for path in ["/nothing-here", "/messages/x/y/z", "//nothing-here"] {
        w.owner.api.get(path).await.not_found();
    }
}

async fn another_method_is_405(w: World) {
    for (method, path) in
        [(Method::DELETE, "/me"), (Method::GET, "/messages"), (Method::PUT, "/requests"), (Method::GET, "/inbox/lease")]
    {
        w.owner.api.call(method, path).await.refused(405, "method_not_allowed");
    }
}

async fn a_body_that_is_not_json_by_its_type_is_415(w: World) {
    let body = json!({"target": w.billing.target(), "body": "x"}).to_string();
    let call = || w.builder.api.call(Method::POST, "/messages").bytes(body.clone());
    for kind in ["text/plain", "application/x-www-form-urlencoded", "text/json"] {
        call().header("content-type", kind).await.refused(415, "unsupported_media_type");
    }
    call().await.refused(415, "unsupported_media_type");
    call().header("content-type", "application/json; charset=utf-8").await.created();
    call().header("content-type", "Application/JSON").await.created();
    assert_eq!(w.billing.lease(10).await.len(), 2);
}

async fn request_ids_are_echoed_when_sane(w: World) {
    let ask = |id: &str| w.ann.api.get("/me").header("x-request-id", id);
    assert_eq!(ask("trace-1234.abc_D").await.header("x-request-id"), "trace-1234.abc_D");
    for insane in ["has space", &"x".repeat(2_000), "grün", "a\tb"] {
        let given = ask(insane).await.header("x-request-id");
        assert!(!given.is_empty() && given != insane, "{insane:?} → {given:?}");
    }
    let two = [w.ann.api.get("/me").await.header("x-request-id"), w.ann.api.get("/me").await.header("x-request-id")];
    assert_ne!(two[0], two[1]);
    let refused = w.ann.api.get("/conversations/cnv_x").header("x-request-id", "abc").await;
    assert_eq!(refused.header("x-request-id"), "abc");
    let refused = w.ann.api.nobody().get("/me").header("x-request-id", "abc").await;
    assert_eq!(refused.header("x-request-id"), "abc");
}

async fn the_workspace_says_what_it_is(w: World) {
    let workspace = w.builder.api.get("/workspace").await.ok();
    assert_eq!(workspace["deployment"], "self_hosted");
    for member in ["scope", "company", "environment", "version"] {
        assert!(workspace[member].is_string(), "{member} in {workspace}");
    }
    assert!(workspace.n("schema_version") >= 1);
}

async fn me_says_who_calls(w: World) {
    let owner = w.owner.api.get("/me").await.ok();
    assert_eq!((owner["identity_type"].as_str(), owner["operator"].as_bool()), (Some("person"), Some(true)));
    assert_eq!(owner["credential"]["kind"], "owner");
    let worker = w.builder.api.get("/me").await.ok();
    assert_eq!((worker["identity_type"].as_str(), worker["operator"].as_bool()), (Some("agent"), Some(false)));
    assert_eq!(worker["agent"].id(), w.builder.id);
    assert_eq!(worker["instance_id"], json!(w.builder.instance));
    assert_eq!(worker["credential"]["kind"], "worker");
    assert_eq!(worker["credential"]["expires_at"], json!(null));
    let ann = w.ann.api.get("/me").await.ok();
    assert_eq!((ann["person"].id(), ann["credential"]["kind"].as_str()), (w.ann.id.clone(), Some("api")));
    assert!(ann.get("instance_id").is_none_or(serde_json::Value::is_null));
}

async fn wrong_query_values_are_refused(w: World) {
    let request = w.ask(&w.builder.api, &w.billing.target(), "q").await.id();
    for wait in ["abc", "15001", "-1", "1.5", "1e3"] {
        w.builder.api.get(&format!("/requests/{request}?wait_ms={wait}")).await.invalid("wait_ms");
    }
    w.builder.api.get(&format!("/requests/{request}?wait_ms=0")).await.ok();
    for (query, field) in [
        ("kind=robot", "kind"),
        ("kind=agent&limit=0", "limit"),
        ("kind=agent&limit=201", "limit"),
        ("kind=agent&limit=x", "limit"),
    ] {
        w.builder.api.get(&format!("/directory?{query}")).await.invalid(field);
    }
    w.builder.api.get("/directory?kind=agent&cursor=nonsense").await.refused(400, "invalid_cursor");
}

async fn odd_ids_are_not_found(w: World) {
    let long = "x".repeat(300);
    for id in ["req_none", "per_1", "%20", "..%2f", "%F0%9F%92%A9", &long] {
        let answer = w.owner.api.get(&format!("/requests/{id}")).await;
        assert_eq!((answer.status, answer.code()), (404, "not_found".to_owned()), "{id}");
    }
    let nul = w.owner.api.get("/requests/%00").await;
    assert!(matches!(nul.status, 400 | 404), "{}", nul.text);
}

async fn answers_are_json(w: World) {
    let api: &Api = &w.ann.api;
    for answer in [api.get("/me").await, api.get("/conversations/cnv_x").await, api.nobody().get("/me").await] {
        assert!(answer.header("content-type").starts_with("application/json"), "{:?}", answer.headers);
    }
}
