use serde_json::json;

use super::{golden, reads_like, same, writes};
use crate::model::*;

golden! {
    an_executors_part: Request = {
        "id": "req_1", "kind": "approval", "title": "Deploy", "state": "resolved", "version": 2,
        "action": {
            "name": "deploy", "executor_id": "agt_1", "resource": "staging", "resource_version": "", "arguments": {},
            "operation_key": "op-1",
        },
        "expires_at": "2026-12-07T09:00:00Z", "response": {"outcome": "approved", "version": 1},
    };
    supersede: SupersedeInput = {"version": 3};
    blocking: BlockingInput = {"blocking": false};
    redeem: RedeemInput = {
        "action": {
            "name": "deploy", "executor_id": "agt_1", "resource": "staging", "resource_version": "7", "arguments": {"n": 1.0},
            "operation_key": "op-1",
        },
    };
    report: ReportInput = {"state": "succeeded", "result": {"fixture": true}};
    execution: Execution = {
        "id": "exe_1", "request_id": "req_1", "executor_id": "agt_1", "operation_key": "op-1",
        "action": {
            "name": "deploy", "executor_id": "agt_1", "resource": "staging", "resource_version": "7", "arguments": {"n": 1},
            "operation_key": "op-1",
        },
        "state": "authorized", "result": null, "created_at": "2026-11-30T09:00:00Z", "updated_at": "2026-11-30T09:00:01Z",
    };
    trace: RequestTrace = {
        "request": {"id": "req_1", "state": "open", "version": 1},
        "deliveries": [{
            "id": "dlv_1", "recipient_id": "agt_1", "instance_id": "ins_1", "kind": "request", "state": "parked",
            "reason": "attempts", "attempt": 20, "at": "2026-11-30T09:00:00Z",
        }],
        "next_cursor": "abc", "executions": [], "answers": [],
    };
    publication: AnswerInput = {
        "request_id": "req_1", "key": "region", "audience": ["agt_1"], "valid_until": "2026-12-01T09:00:00Z",
    };
    answer_and_share: AnswerAndShareInput = {
        "version": 1, "outcome": "answered", "answer": "EU", "key": "region", "audience": ["agt_1", "per_1"],
    };
    answered_and_shared: AnswerAndShareResult = {
        "request": {"id": "req_1", "state": "resolved", "version": 2},
        "answer": {
            "id": "ans_1", "request_id": "req_1", "publisher_id": "per_1", "responder_id": "per_1", "key": "region", "title": "",
            "body": "Which region?", "choices": ["EU", "US"], "answer": "EU", "audience": ["agt_1"],
            "valid_until": "2026-12-01T09:00:00Z", "invalidated": true, "invalidated_at": "2026-11-30T10:00:00Z",
            "created_at": "2026-11-30T09:00:00Z",
        },
    };
    action: Action = {
        "name": "deploy", "executor_id": "agt_1", "resource": "staging", "resource_version": "7",
        "arguments": {"count": 3, "deep": {"list": [1, null, "x"]}}, "operation_key": "op-1",
    };
    ask: AskInput = {
        "attachment_ids": ["att_1"],
        "mentions": [{"principal_id": "per_1", "start": 0, "end": 4}],
        "blocking": true,
        "reuse_direct": true,
        "preview_token": "pt",
        "target": {"kind": "person", "id": "per_1"},
        "kind": "approval",
        "title": "Deploy",
        "body": "May I?",
        "choices": ["yes", "no"],
        "expires_at": "2026-12-01T00:00:00Z",
        "action": {
            "name": "deploy", "executor_id": "agt_1", "resource": "staging", "resource_version": "7", "arguments": {},
            "operation_key": "op-1",
        },
        "shared_key": "k",
    };
    ask_in_a_conversation: AskInput = {"conversation_id": "cnv_1", "body": "May I?"};
    response_input: ResponseInput = {"outcome": "answered", "answer": {"any": ["json", 1.5, null]}, "version": 2};
    response: Response = {
        "responder_id": "per_1",
        "responder_instance_id": "ins_1",
        "source_answer_id": "ans_1",
        "reuse_method": "shared_key",
        "reuse_reason": "same question",
        "source_invalidated": true,
        "outcome": "answered",
        "answer": "yes",
        "version": 1,
    };
    response_as_small_as_it_gets: Response = {"outcome": "denied", "version": 1};
    request: Request = {
        "attachments": [{
            "id": "att_1", "conversation_id": "cnv_1", "request_id": "req_1", "file_name": "a", "media_type": "b", "size": 1,
            "sha256": "00", "created_at": "2026-11-30T09:00:00Z",
        }],
        "mentions": [{"principal_id": "per_1", "start": 0, "end": 4}],
        "blocking": true,
        "requester_instance_id": "ins_1",
        "id": "req_1",
        "conversation_id": "cnv_1",
        "requester_id": "agt_1",
        "kind": "question",
        "title": "Deploy",
        "body": "@Ann ok?",
        "choices": ["yes", "no"],
        "state": "resolved",
        "version": 2,
        "response": {"responder_id": "per_1", "outcome": "answered", "answer": "yes", "version": 1},
        "action": {
            "name": "deploy", "executor_id": "agt_1", "resource": "staging", "resource_version": "", "arguments": {},
            "operation_key": "op-1",
        },
        "expires_at": "9999-01-01T00:00:00Z",
        "created_at": "2026-11-30T09:00:00Z",
        "closed_at": "2026-11-30T09:00:01.5Z",
        "closed_by": "per_1",
        "recipient_ids": ["per_1"],
        "recipients": [{"principal_id": "per_1", "conversation_id": "cnv_1"}],
    };
    open_request: Request = {
        "id": "req_1", "conversation_id": "cnv_1", "requester_id": "agt_1", "kind": "task", "title": "", "body": "x",
        "choices": [], "state": "open", "version": 1, "expires_at": "2026-12-01T00:00:00Z", "created_at": "2026-11-30T09:00:00Z",
    };
    request_recipient: RequestRecipient = {"principal_id": "per_1", "conversation_id": "cnv_1"};
    ask_batch: AskBatchInput = {
        "targets": [{"kind": "person", "id": "per_1"}],
        "request": {"kind": "task", "body": "do it"},
        "preview_token": "pt",
    };
    ask_batch_item: AskBatchItem = {
        "target": {"kind": "person", "id": "per_1"},
        "request": {
            "id": "req_1", "conversation_id": "cnv_1", "requester_id": "agt_1", "kind": "task", "title": "", "body": "x",
            "choices": [], "state": "open", "version": 1, "expires_at": "9999-01-01T00:00:00Z",
            "created_at": "2026-11-30T09:00:00Z",
        },
    };
    replace: ReplaceRequestInput = {
        "version": 1, "body": "anew", "mentions": [{"principal_id": "per_1", "start": 0, "end": 4}],
    };
    replaced: ReplacedRequest = {
        "previous": {
            "id": "req_1", "conversation_id": "cnv_1", "requester_id": "agt_1", "kind": "question", "title": "", "body": "x",
            "choices": [], "state": "superseded", "version": 2, "expires_at": "9999-01-01T00:00:00Z",
            "created_at": "2026-11-30T09:00:00Z", "closed_at": "2026-11-30T09:00:01Z", "closed_by": "agt_1",
        },
        "replacement": {
            "id": "req_2", "conversation_id": "cnv_1", "requester_id": "agt_1", "kind": "question", "title": "", "body": "y",
            "choices": [], "state": "open", "version": 1, "expires_at": "9999-01-01T00:00:00Z",
            "created_at": "2026-11-30T09:00:01Z",
        },
    };
    cancel: CancelInput = {"version": 3};
}

#[test]
fn the_smallest_inputs_carry_only_what_is_required() {
    let target = json!({"kind": "agent", "id": "agt_1"});
    writes(&AskInput::to(Target::agent("agt_1"), "q"), &json!({"target": target, "body": "q"}));
    writes(&AskInput::within(&"cnv_1".into(), "q"), &json!({"conversation_id": "cnv_1", "body": "q"}));
    writes(&ResponseInput::new(Outcome::Denied, 1), &json!({"outcome": "denied", "version": 1}));
    writes(&ResponseInput::answered(1, "yes"), &json!({"outcome": "answered", "answer": "yes", "version": 1}));
    writes(&ReplaceRequestInput::new(1, "b"), &json!({"version": 1, "body": "b"}));
    writes(&CancelInput::new(1), &json!({"version": 1}));
    writes(
        &AskBatchInput::new(vec![Target::agent("agt_1")], AskInput::new("q")),
        &json!({"targets": [target], "request": {"body": "q"}}),
    );
}

#[test]
fn every_setter_writes_its_field() {
    let at: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
    let action: Action = serde_json::from_value(json!({
        "name": "n", "executor_id": "agt_1", "resource": "r", "operation_key": "k", "arguments": null,
    }))
    .unwrap();
    writes(
        &AskInput::to(Target::person("per_1"), "b")
            .kind(RequestKind::Approval)
            .title("t")
            .choices(["a", "b"])
            .expires_at(at)
            .action(action)
            .shared_key("s")
            .blocking(true)
            .reuse_direct(true)
            .preview_token("p"),
        &json!({
            "target": {"kind": "person", "id": "per_1"}, "body": "b", "kind": "approval", "title": "t", "choices": ["a", "b"],
            "expires_at": "2026-12-01T00:00:00Z", "shared_key": "s", "blocking": true, "reuse_direct": true, "preview_token": "p",
            "action": {
                "name": "n", "executor_id": "agt_1", "resource": "r", "resource_version": "", "arguments": {}, "operation_key": "k",
            },
        }),
    );
}

#[test]
fn an_answer_of_false_zero_or_an_empty_text_is_an_answer() {
    for answer in [json!(false), json!(0), json!(""), json!([]), json!({})] {
        writes(&ResponseInput::answered(1, answer.clone()), &json!({"outcome": "answered", "answer": answer, "version": 1}));
    }
}

#[test]
fn what_a_projection_leaves_out_reads_as_empty() {
    let withdrawn = json!({"id": "req_1", "state": "cancelled", "version": 2});
    same::<Request>(&withdrawn);
    let read: Request = serde_json::from_value(withdrawn).unwrap();
    assert!(read.is_partial() && read.title.is_empty() && read.choices.is_empty());
    assert_eq!(read.expires_at, Timestamp::NEVER);
    // Go writes a nil slice as null.
    reads_like::<Request>(
        &json!({
            "id": "req_1", "conversation_id": "cnv_1", "requester_id": "agt_1", "kind": "task", "title": "", "body": "x",
            "choices": null, "state": "open", "version": 1, "expires_at": "9999-01-01T00:00:00Z",
            "created_at": "2026-11-30T09:00:00Z",
        }),
        &json!({
            "id": "req_1", "conversation_id": "cnv_1", "requester_id": "agt_1", "kind": "task", "title": "", "body": "x",
            "choices": [], "state": "open", "version": 1, "expires_at": "9999-01-01T00:00:00Z",
            "created_at": "2026-11-30T09:00:00Z",
        }),
    );
}

#[test]
fn whole_numbers_are_whole() {
    for version in ["1.0", "1e3", "\"1\"", "9223372036854775808", "true", "null"] {
        let text = format!("{{\"version\": {version}}}");
        assert!(serde_json::from_str::<CancelInput>(&text).is_err(), "{version}");
    }
    for version in [i64::MAX, (1 << 53) - 1, 1 << 53, (1 << 53) + 1] {
        writes(&CancelInput::new(version), &json!({"version": version}));
    }
}
