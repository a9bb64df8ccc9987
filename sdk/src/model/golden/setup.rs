use serde_json::json;

use super::{golden, reads_like, writes};
use crate::model::*;

golden! {
    enroll: EnrollInput = {
        "connection_name": "laptop",
        "renewable": true,
        "expires_at": "2026-12-30T00:00:00Z",
        "parent_id": "agt_0",
        "agent": "team/builder-7",
        "name": "Builder 7",
        "capabilities": ["go", "rust"],
        "metadata": {"project": "x"},
    };
    enroll_for_ever: EnrollInput = {"never_expires": true, "agent": "a", "name": "A", "capabilities": []};
    session: Session = {
        "token": "secret",
        "agent": {
            "id": "agt_1", "name": "Builder 7", "external_id": "team/builder-7", "metadata": {}, "version": 1, "disabled": false,
            "created_at": "2026-11-30T09:00:00Z",
        },
        "instance_id": "ins_1",
        "expires_at": null,
    };
    credential: Credential = {
        "id": "crd_1",
        "principal_id": "agt_1",
        "name": "laptop",
        "owner_name": "Builder 7",
        "kind": "worker",
        "prefix": "",
        "token_hint": "abcd",
        "created_at": "2026-11-30T09:00:00Z",
        "last_used_at": "2026-11-30T09:10:00Z",
        "expires_at": "2026-12-01T09:00:00Z",
        "renewable_until": "2026-12-30T00:00:00Z",
        "previous_until": "2026-11-30T10:00:00Z",
        "permissions": ["read", "message", "request", "respond", "execute", "manage"],
        "version": 2,
        "revoked": true,
        "parent_credential_id": "crd_0",
    };
    credential_with_nothing_set: Credential = {
        "id": "crd_1", "principal_id": "per_1", "name": "", "owner_name": "Ann", "kind": "api", "prefix": "", "token_hint": "abcd",
        "created_at": "2026-11-30T09:00:00Z", "last_used_at": null, "expires_at": null, "renewable_until": null,
        "previous_until": null, "permissions": null, "version": 1, "revoked": false,
    };
    credential_input: CredentialInput = {
        "principal_id": "svc_1", "kind": "enrollment", "name": "launcher", "prefix": "team/", "expires_at": "2026-12-30T00:00:00Z",
    };
    credential_input_with_a_ceiling: CredentialInput = {
        "never_expires": true, "principal_id": "per_1", "kind": "api", "permissions": ["read"],
    };
    issued: IssuedCredential = {"token": "secret", "id": "crd_1", "kind": "api", "expires_at": "2026-12-30T00:00:00Z"};
    revoke: RevokeInput = {"revoke_workers": true};
    revoked: RevokeResult = {"revoked": true};
}

#[test]
fn the_smallest_inputs_carry_only_what_is_required() {
    writes(&EnrollInput::new("a", "A"), &json!({"agent": "a", "name": "A", "capabilities": []}));
    writes(&CredentialInput::api(&"per_1".into()), &json!({"principal_id": "per_1", "kind": "api"}));
    writes(
        &CredentialInput::enrollment(&"svc_1".into(), "team/"),
        &json!({"principal_id": "svc_1", "kind": "enrollment", "prefix": "team/"}),
    );
    writes(&RevokeInput::new(false), &json!({}));
}

#[test]
fn every_setter_writes_its_field() {
    let at: Timestamp = "2026-12-30T00:00:00Z".parse().unwrap();
    writes(
        &EnrollInput::new("a", "A").connection_name("c").renewable(true).expires_at(at).parent_id("agt_0".into()),
        &json!({
            "agent": "a", "name": "A", "capabilities": [], "connection_name": "c", "renewable": true,
            "expires_at": "2026-12-30T00:00:00Z", "parent_id": "agt_0",
        }),
    );
    writes(
        &CredentialInput::api(&"per_1".into()).name("n").permissions(vec![Permission::Read, Permission::Manage]).expires_at(at),
        &json!({
            "principal_id": "per_1", "kind": "api", "name": "n", "permissions": ["read", "manage"],
            "expires_at": "2026-12-30T00:00:00Z",
        }),
    );
}

#[test]
fn go_writes_nil_maps_and_slices_as_null() {
    reads_like::<Session>(
        &json!({
            "token": "t", "agent": {"id": "agt_1", "name": "A", "external_id": "a", "metadata": null}, "instance_id": "ins_1",
            "expires_at": "2026-12-30T00:00:00Z",
        }),
        &json!({
            "token": "t",
            "agent": {
                "id": "agt_1", "name": "A", "external_id": "a", "metadata": {}, "version": 0, "disabled": false,
                "created_at": "1970-01-01T00:00:00Z",
            },
            "instance_id": "ins_1",
            "expires_at": "2026-12-30T00:00:00Z",
        }),
    );
}

#[test]
fn debug_shows_no_token() {
    let session: Session = serde_json::from_value(json!({
        "token": "hush-hush", "agent": {"id": "agt_1", "name": "A"}, "instance_id": "ins_1", "expires_at": null,
    }))
    .unwrap();
    assert!(!format!("{session:?}").contains("hush"));
    let issued: IssuedCredential =
        serde_json::from_value(json!({"token": "hush-hush", "id": "crd_1", "kind": "api", "expires_at": null})).unwrap();
    assert!(!format!("{issued:?}").contains("hush"));
}
