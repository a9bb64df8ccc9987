//! The Coordinator.

use serde_json::json;

use super::{golden, reads_like, writes};
use crate::model::*;

golden! {
    plan: OverseerPlan = {
        "automatic": true,
        "instructions": [{"agent_id": "agt_1", "operation": "question", "body": "Is staging ready?"}],
        "summary_error": "the model failed",
        "previous_plan_id": "pln_0",
        "target": {"kind": "group", "id": "grp_1"},
        "id": "pln_1",
        "prompt": "Get ready.",
        "context_agent_ids": ["agt_1"],
        "operation": "question",
        "summary": "Because.",
        "body": "Is staging ready?",
        "sources": [],
        "requires_confirmation": false,
        "created_at": "2026-11-30T10:00:00Z",
        "expires_at": "2026-11-30T10:15:00Z",
        "dispatches": [{"agent_id": "agt_1", "conversation_id": "cnv_1", "request_id": "req_1"}, {"agent_id": "agt_2", "conversation_id": "cnv_2"}],
        "replies": [],
        "reply_summary": "It is.",
        "reply_digest": "00ff",
    };
}

#[test]
fn inputs_leave_out_what_is_not_set() {
    writes(&OverseerInput::new("Go."), &json!({"prompt": "Go."}));
    let whole = OverseerInput::new("Go.").target(Target::agent("agt_1")).previous_plan_id(PlanId::new("pln_1"));
    writes(&whole, &json!({"prompt": "Go.", "target": {"kind": "agent", "id": "agt_1"}, "previous_plan_id": "pln_1"}));
    writes(&OverseerConfirmation::new(PlanId::new("pln_1")), &json!({"plan_id": "pln_1"}));
}

#[test]
fn lists_that_are_null_are_empty() {
    let short = json!({
        "id": "pln_1", "prompt": "Go.", "context_agent_ids": null, "operation": "status", "summary": "x", "sources": null,
        "requires_confirmation": false, "created_at": "2026-11-30T10:00:00Z", "expires_at": "2026-11-30T10:15:00Z",
        "dispatches": null, "replies": null,
    });
    let mut full = short.clone();
    for name in ["context_agent_ids", "sources", "dispatches", "replies"] {
        full[name] = json!([]);
    }
    reads_like::<OverseerPlan>(&short, &full);
}
