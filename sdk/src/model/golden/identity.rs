use serde_json::json;

use super::{golden, reads_like, writes};
use crate::model::*;

golden! {
    person: Person = {
        "id": "per_1", "name": "Ann", "external_id": "ann@example", "metadata": {"department": "ops"}, "version": 1,
        "disabled": false, "created_at": "2026-11-30T09:00:00Z",
    };
    agent: Agent = {
        "id": "agt_1", "name": "Builder 7", "external_id": "team/builder-7", "metadata": {}, "version": 2, "disabled": true,
        "created_at": "2026-11-30T09:00:00Z", "parent_id": "agt_0", "enrolled_by": "per_1",
    };
    service: Service = {
        "id": "svc_1", "name": "Launcher", "external_id": "launcher", "metadata": {}, "version": 1, "disabled": false,
        "created_at": "2026-11-30T09:00:00Z",
    };
    principal_input: PrincipalInput = {"name": "Ann", "external_id": "ann", "metadata": {"a": [1, 2.5]}};
    principal_edit: PrincipalEdit = {"version": 2, "name": "Anne", "metadata": {}};
    status: StatusInput = {"disabled": true, "version": 2};
    group: Group = {
        "id": "grp_1", "name": "Builders", "purpose": "agent_role", "members": ["agt_1"], "member_count": 3, "version": 1,
        "created_at": "2026-11-30T09:00:00Z",
    };
    group_input: GroupInput = {"name": "Ops", "purpose": "team", "members": ["per_1"]};
    group_edit: GroupEdit = {"version": 1, "name": "Ops 2", "members": []};
    rule: PermissionRule = {"effect": "deny", "action": "message", "target_kind": "group", "target_id": "grp_1"};
    rule_with_conditions: PermissionRule = {
        "action": "ask", "target_kind": "person", "target_id": "*",
        "conditions": {"connection_id": "con_1", "action_name": "deploy", "resource": "staging"},
    };
    role: Role = {
        "id": "rol_1", "name": "Peers", "rules": [{"action": "view", "target_kind": "agent", "target_id": "*"}], "version": 1,
        "created_at": "2026-11-30T09:00:00Z",
    };
    role_input: RoleInput = {"name": "None", "rules": []};
    role_edit: RoleEdit = {"version": 1, "name": "Peers 2", "rules": []};
    binding: RoleBinding = {
        "id": "rbd_1", "role_id": "rol_1", "subject_kind": "principal", "subject_id": "agt_1", "created_at": "2026-11-30T09:00:00Z",
    };
    binding_input: RoleBindingInput = {"role_id": "rol_1", "subject_kind": "group", "subject_id": "grp_1"};
    policy_input: ContactPermissionsInput = {"subject": {"kind": "agent", "id": "agt_1"}, "rules": [], "version": 0};
    policy: ContactPermissions = {
        "subject": {"kind": "agent", "id": "agt_1"},
        "rules": [{"effect": "allow", "action": "decide", "target_kind": "instance", "target_id": "ins_1"}],
        "version": 1,
    };
    me: Me = {
        "identity_type": "agent",
        "agent": {
            "id": "agt_1", "name": "Builder 7", "external_id": "b7", "metadata": {}, "version": 1, "disabled": false,
            "created_at": "2026-11-30T09:00:00Z",
        },
        "instance_id": "ins_1",
        "operator": false,
        "credential": {"id": "crd_1", "kind": "worker", "name": "laptop", "expires_at": null},
    };
    me_credential: MeCredential = {
        "id": "crd_1", "kind": "api", "name": "", "permissions": ["read"], "expires_at": "2026-12-30T00:00:00Z",
    };
    workspace: Workspace = {
        "scope": "local", "company": "local", "environment": "development", "deployment": "self_hosted", "schema_version": 1,
        "version": "0.1.0",
    };
    page: QueryPage = {"items": [{"id": "per_1"}], "next_cursor": "c", "order": "id"};
    last_page: QueryPage = {"items": [], "order": "id"};
    deleted: Deleted = {"deleted": true};
}

#[test]
fn the_smallest_inputs_carry_only_what_is_required() {
    let target = Target::agent("agt_1");
    writes(&PrincipalInput::new("Ann", "ann"), &json!({"name": "Ann", "external_id": "ann"}));
    writes(&PrincipalEdit::new(1), &json!({"version": 1}));
    writes(&PrincipalEdit::new(1).name("B").metadata(JsonMap::new()), &json!({"version": 1, "name": "B", "metadata": {}}));
    writes(&StatusInput::new(false, 1), &json!({"disabled": false, "version": 1}));
    writes(&GroupInput::new("G", GroupPurpose::Contacts, vec![]), &json!({"name": "G", "purpose": "contacts"}));
    writes(&GroupEdit::new(1), &json!({"version": 1}));
    writes(&GroupEdit::new(1).members(vec![]), &json!({"version": 1, "members": []}));
    writes(&RoleInput::new("R", vec![]), &json!({"name": "R", "rules": []}));
    writes(&RoleEdit::new(1), &json!({"version": 1}));
    writes(&RoleEdit::new(1).rules(vec![]), &json!({"version": 1, "rules": []}));
    writes(
        &RoleBindingInput::principal(&"rol_1".into(), &"agt_1".into()),
        &json!({"role_id": "rol_1", "subject_kind": "principal", "subject_id": "agt_1"}),
    );
    writes(
        &PermissionRule::allow(RuleAction::View, &target),
        &json!({"action": "view", "target_kind": "agent", "target_id": "agt_1"}),
    );
    writes(
        &PermissionRule::deny(RuleAction::Message, &target),
        &json!({"effect": "deny", "action": "message", "target_kind": "agent", "target_id": "agt_1"}),
    );
    writes(
        &PermissionRule::allow_all(RuleAction::Ask, &TargetKind::Person),
        &json!({"action": "ask", "target_kind": "person", "target_id": "*"}),
    );
    writes(&PermissionRule::manage("identity"), &json!({"action": "manage", "target_kind": "identity", "target_id": "*"}));
    writes(
        &ContactPermissionsInput::new(target, vec![], 0),
        &json!({"subject": {"kind": "agent", "id": "agt_1"}, "rules": [], "version": 0}),
    );
}

#[test]
fn a_participant_projection_reads() {
    reads_like::<Person>(
        &json!({"id": "per_1", "name": "Ann", "kind": "person"}),
        &json!({
            "id": "per_1", "name": "Ann", "external_id": "", "metadata": {}, "version": 0, "disabled": false,
            "created_at": "1970-01-01T00:00:00Z",
        }),
    );
    reads_like::<QueryPage>(&json!({"items": null, "order": "id"}), &json!({"items": [], "order": "id"}));
}

#[test]
fn me_gives_the_callers_id_whatever_its_kind() {
    for (kind, id) in [("person", "per_1"), ("agent", "agt_1"), ("service", "svc_1")] {
        let me: Me = serde_json::from_value(json!({
            "identity_type": kind, kind: {"id": id, "name": "N"}, "credential": {"id": "crd_1", "kind": "api"},
        }))
        .unwrap();
        assert_eq!(me.id().map(PrincipalId::as_str), Some(id));
    }
}
