//! Section 4: dispatch previews. A token holds only while caller, operation, audience and routes stay as they were.

use std::time::Duration;

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::{World, allow};
use serde_json::json;

on_both_stores!(
    a_preview_sends_nothing_and_its_token_lets_the_matching_send_through,
    a_token_is_stale_for_another_caller_operation_or_target_list,
    a_token_is_stale_after_ten_minutes_and_when_the_audience_changed,
    members_of_a_group_that_can_not_be_seen_are_counted_not_named,
);

async fn a_preview_sends_nothing_and_its_token_lets_the_matching_send_through(w: World) {
    let targets = json!([w.billing.target(), w.ann.target()]);
    let preview = w.builder.api.post("/dispatch/preview", json!({"targets": targets, "operation": "message"})).await.ok();
    assert_eq!(
        (preview["sends"].clone(), preview["count"].clone(), preview["hidden_recipients"].clone()),
        (json!(false), json!(2), json!(0))
    );
    assert_eq!(preview["recipients"][0], json!({"target": w.billing.target(), "name": "Billing 2", "routes": []}));
    assert!(w.billing.lease(10).await.is_empty());
    let batch = json!({"targets": targets, "body": "x", "preview_token": preview["token"]});
    assert_eq!(w.builder.api.post("/messages/batch", batch).await.created().as_array().unwrap().len(), 2);
    let ask = json!({"targets": [w.billing.target()], "operation": "ask"});
    let token = w.builder.api.post("/dispatch/preview", ask).await.ok()["token"].clone();
    let body = json!({"target": w.billing.target(), "body": "Ready?", "preview_token": token});
    w.builder.api.post("/requests", body).await.created();
    w.builder.api.post("/dispatch/preview", json!({"targets": [], "operation": "ask"})).await.invalid("targets");
    w.builder.api.post("/dispatch/preview", json!({"targets": targets, "operation": "shout"})).await.invalid("operation");
    w.builder.api.post("/dispatch/preview", json!({"targets": [w.hidden.target()], "operation": "ask"})).await.not_found();
}

async fn a_token_is_stale_for_another_caller_operation_or_target_list(w: World) {
    let input = json!({"targets": [w.billing.target()], "operation": "message"});
    let token = w.builder.api.post("/dispatch/preview", input).await.ok()["token"].clone();
    let send = |target: serde_json::Value| json!({"target": target, "body": "x", "preview_token": token});
    w.ann.api.post("/messages", send(w.billing.target())).await.refused(409, "preview_stale");
    w.builder.api.post("/messages", send(w.ann.target())).await.refused(409, "preview_stale");
    w.builder.api.post("/messages", send(w.billing.exact())).await.refused(409, "preview_stale");
    w.builder.api.post("/requests", send(w.billing.target())).await.refused(409, "preview_stale");
    let more = json!({"targets": [w.billing.target(), w.ann.target()], "body": "x", "preview_token": token});
    w.builder.api.post("/messages/batch", more).await.refused(409, "preview_stale");
    let junk = json!({"target": w.billing.target(), "body": "x", "preview_token": "00ff"});
    w.builder.api.post("/messages", junk).await.refused(409, "preview_stale");
    assert!(w.billing.lease(10).await.is_empty());
    w.builder.api.post("/messages", send(w.billing.target())).await.created();
}

async fn a_token_is_stale_after_ten_minutes_and_when_the_audience_changed(w: World) {
    let group = w.group("G", &[&w.billing.id, &w.ann.id]).await;
    let target = json!({"kind": "group", "id": group});
    let preview = async || {
        let input = json!({"targets": [target], "operation": "message"});
        w.owner.api.post("/dispatch/preview", input).await.ok()["token"].clone()
    };
    let send = |token: &serde_json::Value| json!({"target": target, "body": "x", "preview_token": token});
    let token = preview().await;
    w.owner.api.patch(&format!("/groups/{group}"), json!({"version": 1, "members": [w.billing.id]})).await.ok();
    w.owner.api.post("/messages", send(&token)).await.refused(409, "preview_stale");
    let token = preview().await;
    w.site.advance(Duration::from_secs(601));
    w.owner.api.post("/messages", send(&token)).await.refused(409, "preview_stale");
    let token = preview().await;
    w.site.advance(Duration::from_secs(599));
    assert_eq!(w.owner.api.post("/messages", send(&token)).await.created().list("messages").len(), 1);
}

async fn members_of_a_group_that_can_not_be_seen_are_counted_not_named(w: World) {
    let group = w.group("G", &[&w.billing.id, &w.hidden.id]).await;
    let target = json!({"kind": "group", "id": group});
    w.policy(&w.bob.target(), vec![allow("message", target.clone()), allow("view", w.billing.target())]).await;
    let preview = w.bob.api.post("/dispatch/preview", json!({"targets": [target], "operation": "message"})).await.ok();
    assert_eq!((preview["count"].clone(), preview["hidden_recipients"].clone()), (json!(2), json!(1)));
    assert_eq!(preview["recipients"].as_array().unwrap().len(), 1);
    assert_eq!(preview["recipients"][0]["target"], w.billing.target());
    assert!(!preview.to_string().contains(&w.hidden.id));
}
