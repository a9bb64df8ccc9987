use serde_json::json;

use super::{golden, reads_like, writes};
use crate::model::*;

golden! {
    query: QueryInput = {
        "collection": "requests",
        "search": "build red",
        "filters": {"kind": "approval", "state": "open"},
        "limit": 20,
        "cursor": "c1",
    };
    page: QueryPage = {"items": [{"id": "agt_1"}], "next_cursor": "c2", "order": "id ascending"};
    last_page: QueryPage = {"items": [], "order": "id ascending"};
    delivery: DeliveryRecord = {
        "id": "dlv_1",
        "recipient_id": "agt_1",
        "instance_id": "ins_1",
        "kind": "request",
        "state": "parked",
        "reason": "attempts",
        "attempt": 20,
        "at": "2026-11-30T09:10:00Z",
        "request_id": "req_1",
        "message_id": "msg_1",
        "conversation_id": "cnv_1",
        "created_at": "2026-11-30T09:00:00Z",
    };
    connection_test: DeliveryRecord = {
        "id": "dlv_2",
        "recipient_id": "per_1",
        "kind": "test",
        "state": "queued",
        "attempt": 1,
        "at": "2026-11-30T09:00:00Z",
        "connection_id": "con_1",
        "destination_id": "dst_1",
        "operation_id": "dlv_2",
        "created_at": "2026-11-30T09:00:00Z",
    };
    attempt: DeliveryAttempt = {
        "id": "dlv_2.1",
        "delivery_id": "dlv_2",
        "connection_id": "con_1",
        "destination_id": "dst_1",
        "number": 1,
        "state": "failed",
        "reason": "connection_gone",
        "at": "2026-11-30T09:10:00Z",
        "created_at": "2026-11-30T09:00:00Z",
    };
    test_input: ConnectionTestInput = {"destination_id": "dst_1"};
    account: Account = {"applied": true, "limits": {"body_bytes": 32768, "chat_members": 100}};
    provider: Provider = {
        "kind": "webhook",
        "name": "Webhook",
        "capabilities": ["messages"],
        "setup_modes": ["manual"],
        "fields": [{
            "name": "url", "label": "Address", "kind": "url", "place": "config", "required": true, "help": "Where it goes.",
        }],
    };
    fleet: FleetStatus = {
        "mode": "read_only",
        "commands_supported": false,
        "observed_at": "2026-11-30T09:10:00Z",
        "agents": [{
            "agent": {
                "id": "agt_1", "name": "Builder 7", "external_id": "team/builder-7", "metadata": {}, "version": 1, "disabled": false,
                "created_at": "2026-11-30T09:00:00Z",
            },
            "instances": [{
                "id": "ins_1", "agent_id": "agt_1", "presence": "connected", "last_seen": "2026-11-30T09:09:59Z",
                "capabilities": ["rust"], "progress": {"step": 3},
            }],
            "fresh": true,
        }],
        "dependencies": [{
            "request_id": "req_1", "agent_id": "agt_1", "waits_for_agent_id": "agt_2", "since": "2026-11-30T09:05:00Z",
        }],
        "cycles": [["agt_1", "agt_2"]],
        "truncated": true,
    };
}

#[test]
fn a_query_carries_only_what_was_set() {
    writes(&QueryInput::new("people"), &json!({"collection": "people"}));
    writes(
        &QueryInput::new("messages").filter("conversation_id", ConversationId::new("cnv_1")).search("x").limit(1).cursor("c"),
        &json!({"collection": "messages", "filters": {"conversation_id": "cnv_1"}, "search": "x", "limit": 1, "cursor": "c"}),
    );
}

#[test]
fn go_writes_nil_slices_as_null() {
    reads_like::<FleetStatus>(
        &json!({"mode": "read_only", "observed_at": "2026-11-30T09:10:00Z", "agents": null, "dependencies": null, "cycles": null}),
        &json!({
            "mode": "read_only", "commands_supported": false, "observed_at": "2026-11-30T09:10:00Z", "agents": [],
            "dependencies": [], "cycles": [],
        }),
    );
}
