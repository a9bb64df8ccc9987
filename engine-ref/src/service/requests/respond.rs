//! The decision on a request: by somebody who was asked, may still see it, and has no deny in the way.

use beepgrid::{RequestId, Response, ResponseInput, RuleAction};

use super::close::{End, close};
use super::project::{self, View};
use super::state::Operation;
use super::{Made, form};
use crate::service::Refusal;
use crate::service::actor::Actor;
use crate::store::{ReadTx, WriteTx, principals};

/// Records the decision. It is final; the request must be open and at the version that was read.
pub(crate) fn respond(tx: &WriteTx<'_>, actor: &Actor, (id, input): &(RequestId, ResponseInput)) -> Result<Made, Refusal> {
    let view = project::find(tx, &actor.reader(), id)?.ok_or_else(Refusal::not_found)?;
    must_decide(tx, actor, &view)?;
    let after = view.standing().after(Operation::Respond { version: input.version })?;
    form::fits(input, &view.row.kind, &view.row.choices)?;
    let response = Response {
        responder_id: Some(actor.id.clone()),
        responder_instance_id: actor.instance_id.clone(),
        source_answer_id: None,
        reuse_method: String::new(),
        reuse_reason: String::new(),
        source_invalidated: false,
        outcome: input.outcome.clone(),
        answer: input.answer.clone(),
        version: input.version,
    };
    let end = End { after, at: tx.now(), by: Some(&actor.id), response: Some(&response) };
    close(tx, &view.row, &end)?;
    Ok(Made { request_id: id.clone() })
}

/// Refuses whoever may see the request but not decide it.
pub(crate) fn must_decide(tx: &ReadTx<'_>, actor: &Actor, view: &View) -> Result<(), Refusal> {
    let row = &view.row;
    if row.executor_id.as_ref() == Some(&actor.id) {
        return Err(Refusal::forbidden("the executor of an action never decides it"));
    }
    if view.seat.is_none() {
        return Err(Refusal::forbidden("only somebody who was asked, and still is a participant, decides a request"));
    }
    if row.requester_id == actor.id {
        return Ok(()); // asked by itself
    }
    let requester = principals::party_by_id(tx, &row.requester_id)?.ok_or_else(Refusal::not_found)?;
    if requester.disabled {
        return Err(Refusal::forbidden("who asked is disabled"));
    }
    if !actor.operator && actor.rules.denied(tx, &actor.id, &RuleAction::Decide, &requester)? {
        return Err(Refusal::forbidden("a rule denies you to decide what this requester asks"));
    }
    Ok(())
}
