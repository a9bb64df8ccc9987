use serde_json::json;

use super::{golden, reads_like, writes};
use crate::model::*;

golden! {
    instance: Instance = {
        "id": "ins_1", "agent_id": "agt_1", "presence": "connected", "last_seen": "2026-11-30T09:00:00Z",
        "capabilities": ["go"], "progress": {"step": 2},
    };
    message_delivery: Delivery = {
        "id": "dlv_1",
        "generation": 2,
        "kind": "message",
        "attempt": 2,
        "leased_until": "2026-11-30T09:00:30Z",
        "created_at": "2026-11-30T09:00:00Z",
        "payload": {
            "type": "message",
            "conversation_id": "cnv_1",
            "message": {
                "id": "msg_1", "conversation_id": "cnv_1", "body": "hi", "sender_id": "agt_1",
                "created_at": "2026-11-30T09:00:00Z", "sequence": 7,
            },
        },
    };
    result_delivery: Delivery = {
        "id": "dlv_1",
        "generation": 1,
        "kind": "request_result",
        "attempt": 1,
        "leased_until": "2026-11-30T09:00:30Z",
        "created_at": "2026-11-30T09:00:00Z",
        "payload": {
            "type": "request_result",
            "conversation_id": "cnv_1",
            "request": {
                "id": "req_1", "conversation_id": "cnv_1", "requester_id": "agt_1", "kind": "question", "title": "", "body": "x",
                "choices": [], "state": "resolved", "version": 2,
                "response": {"responder_id": "per_1", "outcome": "answered", "answer": "yes", "version": 1},
                "expires_at": "9999-01-01T00:00:00Z", "created_at": "2026-11-30T09:00:00Z",
            },
        },
    };
    inbox: InboxInput = {"wait_ms": 15000, "limit": 100, "kinds": ["message", "request", "request_result", "request_withdrawn"]};
    ack: AckInput = {"generation": 3};
    acked: AckResult = {"received": true};
    ack_many: AckManyInput = {"items": [{"id": "dlv_1", "generation": 3}]};
    acked_many: AckManyResult = {
        "results": [{"id": "dlv_1", "received": true}, {"id": "dlv_2", "code": "stale_generation"}],
    };
    extend: ExtendInput = {"generation": 3, "seconds": 300};
    extended: ExtendResult = {"leased_until": "2026-11-30T09:05:00.25Z"};
    release: ReleaseInput = {"generation": 3, "delay_seconds": 3600};
    heartbeat: HeartbeatInput = {"progress": {"step": 2}, "capabilities": ["go"]};
    beaten: HeartbeatResult = {"ok": true};
}

#[test]
fn the_smallest_inputs_carry_only_what_is_required() {
    writes(&InboxInput::new(), &json!({}));
    writes(&InboxInput::new().wait_ms(0).limit(1), &json!({"wait_ms": 0, "limit": 1}));
    writes(&InboxInput::new().kinds(vec![DeliveryKind::RequestResult]), &json!({"kinds": ["request_result"]}));
    writes(&AckInput::new(1), &json!({"generation": 1}));
    writes(&ReleaseInput::new(1), &json!({"generation": 1}));
    writes(&ReleaseInput::new(1).delay_seconds(0), &json!({"generation": 1, "delay_seconds": 0}));
    writes(&ExtendInput::new(1, 30), &json!({"generation": 1, "seconds": 30}));
    writes(&HeartbeatInput::new(), &json!({}));
    writes(&HeartbeatInput::new().progress(JsonMap::new()), &json!({"progress": {}}));
    writes(&HeartbeatInput::new().capabilities(vec![]), &json!({"capabilities": []}));
}

#[test]
fn the_published_delivery_has_fewer_fields() {
    let delivery: Delivery = serde_json::from_value(json!({
        "id": "dlv_1", "generation": 1,
        "payload": {"type": "message", "conversation_id": "cnv_1", "message": {
            "id": "msg_1", "conversation_id": "cnv_1", "body": "hi", "sender_id": "agt_1",
        }},
    }))
    .unwrap();
    assert_eq!(delivery.payload.r#type, DeliveryKind::Message);
    assert_eq!(AckItem::from(&delivery), AckItem { id: "dlv_1".into(), generation: 1 });
}

#[test]
fn a_silent_instance_reads_as_empty() {
    reads_like::<Instance>(
        &json!({
            "id": "ins_1", "agent_id": "agt_1", "presence": "offline", "last_seen": "2026-11-30T09:00:00+00:00",
            "capabilities": null, "progress": null,
        }),
        &json!({
            "id": "ins_1", "agent_id": "agt_1", "presence": "offline", "last_seen": "2026-11-30T09:00:00Z", "capabilities": [],
            "progress": {},
        }),
    );
}
