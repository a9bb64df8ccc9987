use serde_json::json;

use super::{golden, reads_like, same, writes};
use crate::model::*;

golden! {
    target: Target = {"kind": "agent", "id": "agt_1"};
    mention: Mention = {"principal_id": "agt_1", "start": 2, "end": 12};
    send_to_a_target: SendInput = {
        "attachment_ids": ["att_1", "att_2"],
        "mentions": [{"principal_id": "agt_1", "start": 0, "end": 5}],
        "reuse_direct": true,
        "preview_token": "pt",
        "target": {"kind": "group", "id": "grp_1"},
        "body": "hello",
        "title": "A title",
    };
    send_into_a_conversation: SendInput = {"conversation_id": "cnv_1", "body": "hello"};
    message: Message = {
        "received_by": ["agt_2"],
        "attachments": [{
            "id": "att_1", "conversation_id": "cnv_1", "message_id": "msg_1", "file_name": "a.pdf",
            "media_type": "application/pdf", "size": 12, "sha256": "ab", "created_at": "2026-11-30T09:00:00Z",
        }],
        "mentions": [{"principal_id": "agt_2", "start": 0, "end": 5}],
        "id": "msg_1",
        "conversation_id": "cnv_1",
        "body": "@Bill hello",
        "sender_id": "agt_1",
        "instance_id": "ins_1",
        "created_at": "2026-11-30T09:00:00.000001Z",
        "sequence": 9_007_199_254_740_993_i64,
    };
    send_result: SendResult = {
        "conversation_id": "cnv_1",
        "messages": [{
            "id": "msg_1", "conversation_id": "cnv_1", "body": "", "sender_id": "per_1",
            "created_at": "2026-11-30T09:00:00Z", "sequence": 1,
        }],
    };
    send_receipt: SendReceipt = {"conversation_id": "cnv_1", "message_count": 3};
    send_batch: SendBatchInput = {
        "attachment_ids": ["att_1"],
        "targets": [{"kind": "person", "id": "per_1"}, {"kind": "instance", "id": "ins_1"}],
        "body": "hello",
        "title": "A title",
        "preview_token": "pt",
    };
    send_batch_item: SendBatchItem = {
        "target": {"kind": "service", "id": "svc_1"},
        "result": {"conversation_id": "cnv_1", "messages": []},
    };
    start_chat: StartChatInput = {
        "attachment_ids": ["att_1"],
        "targets": [{"kind": "person", "id": "per_1"}],
        "body": "hello",
        "title": "Deploy",
        "approval": true,
        "choices": ["yes", "no"],
        "mentions": [{"principal_id": "per_1", "start": 0, "end": 3}],
    };
    membership: ChatMembershipInput = {
        "operation": "add",
        "version": 3,
        "title": "New title",
        "members": ["per_1", "agt_1"],
        "share_history": true,
        "next_manager": "per_2",
    };
    membership_result: ChatMembershipResult = {"conversation_id": "cnv_1", "version": 4, "left": true};
    participant: Participant = {"id": "per_1", "kind": "person", "name": "Ann"};
    conversation: Conversation = {
        "id": "cnv_1",
        "title": "Deploy",
        "shared": true,
        "version": 4,
        "manager_id": "per_1",
        "history_start": 17,
        "participants": [{"id": "per_1", "kind": "person", "name": "Ann"}],
        "past_participants": [{"id": "agt_1", "kind": "agent", "name": "Builder 7"}],
        "messages": [],
        "more_before": true,
        "created_at": "2026-11-30T09:00:00Z",
    };
    attachment_draft: Attachment = {
        "id": "att_1", "conversation_id": "", "file_name": "a.txt", "media_type": "text/plain", "size": 5_242_880,
        "sha256": "00", "created_at": "2026-11-30T09:00:00Z",
    };
    attachment_of_a_request: Attachment = {
        "id": "att_1", "conversation_id": "cnv_1", "request_id": "req_1", "file_name": "a.txt", "media_type": "text/plain",
        "size": 1, "sha256": "00", "created_at": "2026-11-30T09:00:00Z",
    };
}

#[test]
fn the_smallest_inputs_carry_only_what_is_required() {
    let target = json!({"kind": "agent", "id": "agt_1"});
    writes(&SendInput::to(Target::agent("agt_1"), "hi"), &json!({"target": target, "body": "hi"}));
    writes(&SendInput::reply(&"cnv_1".into(), "hi"), &json!({"conversation_id": "cnv_1", "body": "hi"}));
    writes(&SendBatchInput::new(vec![Target::agent("agt_1")], "hi"), &json!({"targets": [target], "body": "hi"}));
    writes(&StartChatInput::new(vec![Target::agent("agt_1")], "hi"), &json!({"targets": [target], "body": "hi"}));
    writes(&ChatMembershipInput::rename(1, "T"), &json!({"operation": "rename", "version": 1, "title": "T"}));
    writes(&ChatMembershipInput::leave(2), &json!({"operation": "leave", "version": 2}));
    writes(&ChatMembershipInput::add(3, vec!["per_1".into()]), &json!({"operation": "add", "version": 3, "members": ["per_1"]}));
    writes(
        &ChatMembershipInput::remove(4, vec!["per_1".into()]).next_manager("per_2".into()),
        &json!({"operation": "remove", "version": 4, "members": ["per_1"], "next_manager": "per_2"}),
    );
}

#[test]
fn a_file_without_a_text_still_writes_its_body() {
    let input = SendInput::to(Target::agent("agt_1"), "").attachment_ids(vec!["att_1".into()]);
    writes(&input, &json!({"target": {"kind": "agent", "id": "agt_1"}, "attachment_ids": ["att_1"], "body": ""}));
}

#[test]
fn every_setter_writes_its_field() {
    writes(
        &SendInput::to(Target::person("per_1"), "b").title("t").preview_token("p").reuse_direct(true),
        &json!({"target": {"kind": "person", "id": "per_1"}, "body": "b", "title": "t", "preview_token": "p", "reuse_direct": true}),
    );
    writes(
        &StartChatInput::new(vec![Target::service("svc_1")], "b").title("t").approval(true).choices(vec!["a".into()]),
        &json!({"targets": [{"kind": "service", "id": "svc_1"}], "body": "b", "title": "t", "approval": true, "choices": ["a"]}),
    );
    writes(&Target::instance(&"ins_1".into()), &json!({"kind": "instance", "id": "ins_1"}));
    writes(&Target::group(&"grp_1".into()), &json!({"kind": "group", "id": "grp_1"}));
}

#[test]
fn a_chat_that_opened_a_request_shows_it() {
    let result = json!({
        "conversation_id": "cnv_1",
        "messages": [],
        "request": {
            "id": "req_1", "conversation_id": "cnv_1", "requester_id": "per_1", "kind": "approval", "title": "", "body": "go?",
            "choices": [], "state": "open", "version": 1, "expires_at": "9999-01-01T00:00:00Z", "created_at": "2026-11-30T09:00:00Z",
        },
    });
    same::<SendResult>(&result);
}

#[test]
fn what_an_older_engine_leaves_out_reads_as_empty() {
    reads_like::<Message>(
        &json!({"id": "msg_1", "conversation_id": "cnv_1", "body": "x", "sender_id": "agt_1", "shade": "blue"}),
        &json!({
            "id": "msg_1", "conversation_id": "cnv_1", "body": "x", "sender_id": "agt_1", "created_at": "1970-01-01T00:00:00Z",
            "sequence": 0,
        }),
    );
    reads_like::<Conversation>(
        &json!({"id": "cnv_1", "title": "T", "messages": null, "participants": null, "past_participants": null}),
        &json!({
            "id": "cnv_1", "title": "T", "shared": false, "version": 0, "history_start": 0, "participants": [], "messages": [],
            "created_at": "1970-01-01T00:00:00Z",
        }),
    );
    reads_like::<SendResult>(
        &json!({"conversation_id": "cnv_1", "messages": null}),
        &json!({"conversation_id": "cnv_1", "messages": []}),
    );
}

#[test]
fn spans_count_code_points() {
    let id = PrincipalId::new("agt_1");
    for before in ["", "plain ", "e\u{301} ", "🇩🇪 ", "👨‍👩‍👧 ", "👋🏽 ", "日本 ", "a\r\nb "] {
        let body = format!("{before}@Billing 2 check.");
        let mention = Mention::find(&body, 0, &id, "Billing 2").unwrap();
        let span: String = body
            .chars()
            .skip(usize::try_from(mention.start).unwrap())
            .take(usize::try_from(mention.end - mention.start).unwrap())
            .collect();
        assert_eq!(span, "@Billing 2", "{before:?}");
    }
    assert_eq!(Mention::find("@Bob", 0, &id, "Billing 2"), None);
    assert_eq!(Mention::find("@Bob and @Bob", 1, &id, "Bob").map(|m| (m.start, m.end)), Some((9, 13)));
    assert_eq!(Mention::find("@Bob", 99, &id, "Bob"), None);
    // The decomposed form is another text: it finds nobody rather than somebody else.
    assert_eq!(Mention::find("@Zoe\u{308}", 0, &id, "Zo\u{eb}"), None);
}

#[test]
fn attention_goes_to_whom_is_mentioned_alone() {
    let message: Message = serde_json::from_value(json!({
        "id": "msg_1", "conversation_id": "cnv_1", "body": "@A hi", "sender_id": "per_1",
        "mentions": [{"principal_id": "agt_1", "start": 0, "end": 2}],
    }))
    .unwrap();
    assert!(message.attention_for(&"agt_1".into()).is_some());
    assert!(message.attention_for(&"agt_2".into()).is_none());
}
