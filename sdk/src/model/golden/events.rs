use serde_json::json;

use super::{golden, reads_like, writes};
use crate::model::*;

golden! {
    event: Event = {
        "sequence": 42,
        "id": "evt_1",
        "kind": "message.created",
        "actor_id": "agt_1",
        "conversation_id": "cnv_1",
        "recipient_id": "",
        "data": {
            "id": "msg_1", "conversation_id": "cnv_1", "body": "Hello", "sender_id": "agt_1", "sequence": 42,
            "created_at": "2026-11-30T09:00:00.000001Z",
        },
        "created_at": "2026-11-30T09:00:00.000001Z",
    };
    event_with_the_largest_sequence: Event = {
        "sequence": 9_223_372_036_854_775_807_i64, "kind": "request.resolved", "actor_id": "", "conversation_id": "", "recipient_id": "per_1",
        "data": {"id": "req_1"}, "created_at": "2026-11-30T09:00:00Z",
    };
    event_of_a_newer_kind: Event = {
        "sequence": 1, "kind": "weather.changed", "actor_id": "", "conversation_id": "", "recipient_id": "", "data": [1, "x", null],
        "created_at": "2026-11-30T09:00:00Z",
    };
    page: EventPage = {"items": [], "next_after": 42, "more": true};
    options: EventOptions = {"after": 7, "limit": 500, "conversation_id": "cnv_1", "summary": true};
}

#[test]
fn options_carry_only_what_was_set() {
    writes(&EventOptions::new(), &json!({}));
    writes(&EventOptions::new().after(7).limit(5).summary(true), &json!({"after": 7, "limit": 5, "summary": true}));
    writes(&EventOptions::new().conversation_id(&"cnv_1".into()), &json!({"conversation_id": "cnv_1"}));
}

#[test]
fn an_event_without_its_optional_members_is_read() {
    reads_like::<Event>(
        &json!({"sequence": 1, "kind": "message.created"}),
        &json!({
            "sequence": 1, "kind": "message.created", "actor_id": "", "conversation_id": "", "recipient_id": "", "data": null,
            "created_at": "1970-01-01T00:00:00Z",
        }),
    );
    reads_like::<EventPage>(&json!({"items": null, "next_after": 0}), &json!({"items": [], "next_after": 0, "more": false}));
}

fn of_kind(kind: &str, data: &serde_json::Value) -> Event {
    serde_json::from_value(json!({"sequence": 1, "kind": kind, "data": data})).unwrap()
}

#[test]
fn data_is_read_by_kind() {
    let message = json!({"id": "msg_1", "conversation_id": "cnv_1", "body": "Hello", "sender_id": "agt_1"});
    let created = of_kind("message.created", &message);
    assert_eq!(created.message().unwrap().body, "Hello");
    assert_eq!((created.request(), created.conversation(), created.subject_id()), (None, None, Some("msg_1")));
    assert_eq!(of_kind("request.created", &message).message(), None);
    let resolved = of_kind("request.resolved", &json!({"id": "req_1", "state": "resolved", "version": 2}));
    assert_eq!(resolved.request().unwrap().state, RequestState::Resolved);
    let opened = of_kind("conversation.created", &json!({"id": "cnv_1", "title": "Deploy", "shared": true, "participants": []}));
    assert_eq!(opened.conversation().unwrap().title, "Deploy");
    let agent = of_kind("identity.updated", &json!({"id": "agt_1", "name": "Builder 7"}));
    assert_eq!(agent.data_as::<Agent>().unwrap().name, "Builder 7");
}

#[test]
fn a_summary_has_ids_only() {
    for kind in ["message.created", "request.created", "conversation.created"] {
        let event = of_kind(kind, &json!({"id": "x"}));
        assert_eq!((event.message(), event.conversation(), event.subject_id()), (None, None, Some("x")));
    }
    assert!(of_kind("message.created", &json!({"id": "x"})).data_as::<Message>().is_err());
}

#[test]
fn sequences_are_whole_numbers() {
    for wrong in [json!(1.0), json!("1"), json!(null), json!(1e3)] {
        assert!(serde_json::from_value::<Event>(json!({"sequence": wrong, "kind": "x"})).is_err());
    }
}
