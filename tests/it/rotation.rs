//! Section 2: editing and rotating credentials.

use std::time::Duration;

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::World;
use serde_json::{Value, json};

on_both_stores!(
    a_rotation_keeps_the_id_and_the_old_token_for_the_overlap,
    a_rotation_during_an_overlap_ends_the_older_token_at_once,
    of_rotations_at_once_one_takes_effect,
    after_a_revocation_neither_token_works,
    an_edit_is_versioned_and_never_widens_beyond_the_editor,
);

/// An api credential of Ann's.
async fn issue(w: &World) -> Value {
    let input = json!({"principal_id": w.ann.id, "kind": "api", "name": "Key", "never_expires": true});
    w.owner.api.post("/credentials", input).await.created()
}

async fn rotate(w: &World, id: &str, version: i64, overlap: i64) -> Value {
    let input = json!({"version": version, "overlap_seconds": overlap});
    w.owner.api.post(&format!("/credentials/{id}/rotate"), input).await.ok()
}

async fn a_rotation_keeps_the_id_and_the_old_token_for_the_overlap(w: World) {
    let old = issue(&w).await;
    let fresh = rotate(&w, &old.id(), 1, 60).await;
    assert_eq!((fresh["credential"].id(), fresh["credential"].n("version")), (old.id(), 2));
    assert_ne!(fresh["token"], old["token"]);
    assert!(fresh["token"].as_str().unwrap().ends_with(fresh["credential"]["token_hint"].as_str().unwrap()));
    let (before, after) = (w.owner.api.with(&old.s("token")), w.owner.api.with(&fresh.s("token")));
    before.get("/me").await.ok();
    assert_eq!(after.get("/me").await.ok()["credential"].id(), old.id());
    w.site.advance(Duration::from_secs(61));
    before.get("/me").await.refused(401, "unauthorized");
    after.get("/me").await.ok();
    let path = format!("/credentials/{}/rotate", old.id());
    w.owner.api.post(&path, json!({"version": 2, "overlap_seconds": 86_401})).await.invalid("overlap_seconds");
    w.owner.api.post(&path, json!({"version": 1})).await.refused(409, "version_conflict");
    w.owner.api.post(&path, json!({"version": 2})).key("k").await.invalid("Idempotency-Key");
    w.builder.api.post(&path, json!({"version": 2})).await.not_found();
}

async fn a_rotation_during_an_overlap_ends_the_older_token_at_once(w: World) {
    let first = issue(&w).await;
    let second = rotate(&w, &first.id(), 1, 3_600).await;
    let third = rotate(&w, &first.id(), 2, 0).await;
    for (token, works) in [(first.s("token"), false), (second.s("token"), false), (third.s("token"), true)] {
        assert_eq!(w.owner.api.with(&token).get("/me").await.status == 200, works);
    }
}

async fn of_rotations_at_once_one_takes_effect(w: World) {
    let old = issue(&w).await;
    let path = format!("/credentials/{}/rotate", old.id());
    let (a, b, c) = tokio::join!(
        w.owner.api.post(&path, json!({"version": 1})),
        w.owner.api.post(&path, json!({"version": 1})),
        w.owner.api.post(&path, json!({"version": 1})),
    );
    let mut statuses = [a.status, b.status, c.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409]);
    w.owner.api.with(&old.s("token")).get("/me").await.ok();
}

async fn after_a_revocation_neither_token_works(w: World) {
    let old = issue(&w).await;
    let fresh = rotate(&w, &old.id(), 1, 3_600).await;
    w.owner.api.post(&format!("/credentials/{}/revoke", old.id()), json!({})).await.ok();
    w.owner.api.with(&old.s("token")).get("/me").await.refused(401, "unauthorized");
    w.owner.api.with(&fresh.s("token")).get("/me").await.refused(401, "unauthorized");
    w.owner.api.post(&format!("/credentials/{}/rotate", old.id()), json!({"version": 3})).await.forbidden();
}

async fn an_edit_is_versioned_and_never_widens_beyond_the_editor(w: World) {
    let old = issue(&w).await;
    let path = format!("/credentials/{}", old.id());
    let edited = w.owner.api.patch(&path, json!({"version": 1, "name": "Nightly", "permissions": ["read"]})).await.ok();
    assert_eq!(
        (edited.n("version"), edited.s("name"), edited["permissions"].clone()),
        (2, "Nightly".to_owned(), json!(["read"]))
    );
    let narrow = w.owner.api.with(&old.s("token"));
    narrow.get("/me").await.ok();
    narrow.post("/messages", json!({"target": w.builder.target(), "body": "x"})).await.forbidden();
    w.owner.api.patch(&path, json!({"version": 2, "permissions": []})).await.invalid("permissions");
    let both = json!({"version": 2, "permissions": ["read"], "clear_permissions": true});
    w.owner.api.patch(&path, both).await.invalid("clear_permissions");
    let ends = json!({"version": 2, "never_expires": true, "expires_at": "2100-01-01T00:00:00Z"});
    w.owner.api.patch(&path, ends).await.invalid("never_expires");
    let cleared = w.owner.api.patch(&path, json!({"version": 2, "clear_permissions": true})).await.ok();
    assert_eq!(cleared["permissions"], Value::Null);
    w.owner.api.patch(&path, json!({"version": 2, "name": "x"})).await.refused(409, "version_conflict");

    // An operator's api credential under a ceiling widens nothing beyond it.
    let under = json!({"principal_id": w.owner.id, "kind": "api", "permissions": ["read", "manage"], "never_expires": true});
    let under = w.owner.api.with(&w.owner.api.post("/credentials", under).await.created().s("token"));
    under.patch(&path, json!({"version": 3, "name": "x"})).await.forbidden();
    w.owner.api.patch(&path, json!({"version": 3, "permissions": ["read"]})).await.ok();
    under.patch(&path, json!({"version": 4, "permissions": ["read", "message"]})).await.forbidden();
    assert_eq!(under.patch(&path, json!({"version": 4, "name": "Named"})).await.ok().s("name"), "Named");
}
