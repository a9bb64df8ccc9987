//! Bound actions: an approval is redeemed once, by its executor, for exactly the action that was approved; the executor then
//! reports what it saw. The engine carries nothing out.

use beepgrid::{
    Action, ErrorCode, Execution, ExecutionId, ExecutionState, Outcome, PrincipalId, RedeemInput, ReportInput, RequestId,
    RequestState, Response, RuleAction,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::actor::Actor;
use super::conversations::Reader;
use super::events::{self, Event};
use super::limits::MAX_ANSWER_BYTES;
use super::requests::project::{self, View};
use super::requests::state::is_due;
use super::{Refusal, checks, new_id};
use crate::store::executions::{self, ExecutionRow};
use crate::store::requests::RequestRow;
use crate::store::{ReadTx, WriteTx, principals, requests};

/// What an executor may say.
const REPORTS: &[&str] = &["running", "succeeded", "failed", "unknown"];

/// Which execution a redeem ended with, and whether it made it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Redeemed {
    execution_id: ExecutionId,
    made: bool,
}

/// What an approval may be redeemed for.
#[derive(Debug)]
pub(crate) struct Authority {
    action: Action,
    /// There already, if this request was redeemed before.
    execution: Option<ExecutionRow>,
}

impl Authority {
    /// Refuses a business operation that was redeemed through another request.
    pub(crate) fn must_be_unused(&self, tx: &ReadTx<'_>, actor: &Actor) -> Result<(), Refusal> {
        if self.execution.is_some() || executions::request_of_operation(tx, &actor.id, &self.action.operation_key)?.is_none() {
            return Ok(());
        }
        let message = "this operation_key was redeemed already, through another request";
        Err(Refusal::conflict(ErrorCode::AlreadyExists, message))
    }
}

/// Whether a report has the right form.
pub(crate) fn check_report(input: &ReportInput) -> Result<(), Refusal> {
    if !REPORTS.contains(&input.state.as_str()) {
        return Err(checks::one_of("state", input.state.as_str(), REPORTS));
    }
    checks::json("result", &input.result, MAX_ANSWER_BYTES)
}

/// What the actor may redeem a request for: it is the executor, the request is approved and not expired, who asked and who decided
/// are in good standing, and the business operation was not redeemed through another request.
///
/// What was redeemed stays redeemed, whatever changed since.
pub(crate) fn authorize(tx: &ReadTx<'_>, actor: &Actor, view: &View) -> Result<Authority, Refusal> {
    let row = &view.row;
    if row.executor_id.as_ref() != Some(&actor.id) {
        return Err(Refusal::forbidden("only the executor of a bound action redeems its approval"));
    }
    let Some(action) = row.action.clone() else { return Err(Refusal::forbidden("this request binds no action")) };
    if let Some(execution) = executions::of_request(tx, &row.id)? {
        return Ok(Authority { action, execution: Some(execution) });
    }
    let approval = row.response.as_ref().filter(|response| response.outcome == Outcome::Approved);
    let Some(approval) = approval.filter(|_| row.state == RequestState::Resolved) else {
        return Err(not_approved(&format!("the request is {}, not approved", standing(row))));
    };
    must_stand(tx, actor, row, approval)?;
    if is_due(row.expires_at, tx.now()) {
        return Err(not_approved("the approval has expired"));
    }
    Ok(Authority { action, execution: None })
}

fn standing(row: &RequestRow) -> &str {
    row.response.as_ref().map_or(row.state.as_str(), |response| response.outcome.as_str())
}

fn not_approved(message: &str) -> Refusal {
    Refusal::conflict(ErrorCode::NotApproved, message)
}

/// Refuses when who asked or who decided is disabled, or may not decide for the other any more.
fn must_stand(tx: &ReadTx<'_>, actor: &Actor, row: &RequestRow, approval: &Response) -> Result<(), Refusal> {
    let gone = || Refusal::forbidden("who asked or who approved this is no longer in good standing");
    let requester = principals::party_by_id(tx, &row.requester_id)?.ok_or_else(gone)?;
    let decider = approval.responder_id.as_ref().map(|id| principals::party_by_id(tx, id)).transpose()?.flatten();
    let decider = decider.ok_or_else(gone)?;
    if requester.disabled || decider.disabled {
        return Err(gone());
    }
    let itself = requester.id == decider.id;
    if !itself && !decider.operator && actor.rules.denied(tx, &decider.id, &RuleAction::Decide, &requester)? {
        return Err(gone());
    }
    Ok(())
}

/// Redeems an approval for exactly its action; the same again finds the same execution.
pub(crate) fn redeem(tx: &WriteTx<'_>, actor: &Actor, (id, input): &(RequestId, RedeemInput)) -> Result<Redeemed, Refusal> {
    let view = project::find(tx, &actor.reader(), id)?.ok_or_else(Refusal::not_found)?;
    let authority = authorize(tx, actor, &view)?;
    must_match(&authority.action, &settled(tx, actor, &input.action)?)?;
    authority.must_be_unused(tx, actor)?;
    let Authority { action, execution } = authority;
    if let Some(execution) = execution {
        return Ok(Redeemed { execution_id: execution.id, made: false });
    }
    let row = ExecutionRow {
        id: new_id(ExecutionId::PREFIX),
        request_id: id.clone(),
        executor_id: actor.id.clone(),
        operation_key: action.operation_key.clone(),
        action,
        state: ExecutionState::Authorized,
        result: Value::Null,
        created_at: tx.now(),
        updated_at: tx.now(),
    };
    executions::insert(tx, &row)?;
    record(tx, "execution.authorized", &row, &view.row)?;
    Ok(Redeemed { execution_id: row.id, made: true })
}

/// The action that is given, its executor by id and its JSON as the store writes and reads it, so that only values are compared.
fn settled(tx: &ReadTx<'_>, actor: &Actor, given: &Action) -> Result<Action, Refusal> {
    let unreadable = |error| Refusal::internal(format!("an action can't be written and read: {error}"));
    let text = serde_json::to_string(given).map_err(unreadable)?;
    let mut action: Action = serde_json::from_str(&text).map_err(unreadable)?;
    if action.executor_id != actor.id {
        let named = principals::party_by_any_id(tx, actor.kind.as_str(), action.executor_id.as_str())?;
        if named.is_some_and(|party| party.id == actor.id) {
            action.executor_id = actor.id.clone();
        }
    }
    Ok(action)
}

/// Refuses an action that differs from the approved one, saying where.
fn must_match(approved: &Action, given: &Action) -> Result<(), Refusal> {
    let fields = [
        ("name", approved.name == given.name),
        ("executor_id", approved.executor_id == given.executor_id),
        ("resource", approved.resource == given.resource),
        ("resource_version", approved.resource_version == given.resource_version),
        // Equality of JSON values: members in any order, and 1 is not 1.0.
        ("arguments", approved.arguments == given.arguments),
        ("operation_key", approved.operation_key == given.operation_key),
    ];
    match fields.iter().find(|(_, same)| !same) {
        None => Ok(()),
        Some((field, _)) => Err(Refusal::conflict(ErrorCode::ActionMismatch, format!("action.{field} is not what was approved"))),
    }
}

/// The answer to a redeem, and whether it made the execution.
pub(crate) fn redeemed(
    tx: &ReadTx<'_>,
    _: &Actor,
    _: &(RequestId, RedeemInput),
    redeemed: &Redeemed,
) -> Result<(Execution, bool), Refusal> {
    let row = executions::by_id(tx, &redeemed.execution_id)?.ok_or_else(Refusal::not_found)?;
    Ok((show(row), redeemed.made))
}

/// Records what the executor saw. Success and failure are final; the same report again changes nothing.
pub(crate) fn report(tx: &WriteTx<'_>, actor: &Actor, (id, input): &(ExecutionId, ReportInput)) -> Result<ExecutionId, Refusal> {
    let row = executions::by_id(tx, id)?.ok_or_else(Refusal::not_found)?;
    let request = requests::find(tx, &row.request_id)?.ok_or_else(Refusal::not_found)?;
    if row.executor_id != actor.id {
        return Err(if readable(tx, &actor.reader(), &row, &request)? {
            Refusal::forbidden("only the executor reports on an execution")
        } else {
            Refusal::not_found()
        });
    }
    if after(&row, input)? == Change::None {
        return Ok(row.id);
    }
    executions::report(tx, id, &input.state, &input.result)?;
    let row = ExecutionRow { state: input.state.clone(), ..row };
    record(tx, "execution.updated", &row, &request)?;
    Ok(row.id)
}

/// What a report does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    Stored,
}

fn after(row: &ExecutionRow, report: &ReportInput) -> Result<Change, Refusal> {
    if row.state == report.state && row.result == report.result {
        return Ok(Change::None);
    }
    if matches!(row.state, ExecutionState::Succeeded | ExecutionState::Failed) {
        let message = format!("it was reported as {}, which is final", row.state);
        return Err(Refusal::conflict(ErrorCode::ExecutionFinal, message));
    }
    Ok(Change::Stored)
}

/// The answer to a report.
pub(crate) fn reported(
    tx: &ReadTx<'_>,
    _: &Actor,
    _: &(ExecutionId, ReportInput),
    id: &ExecutionId,
) -> Result<Execution, Refusal> {
    executions::by_id(tx, id)?.map(show).ok_or_else(Refusal::not_found)
}

/// The execution, if the reader may see it: who asked, who executes, who decided, operators.
pub(crate) fn project(tx: &ReadTx<'_>, reader: &Reader<'_>, id: &ExecutionId) -> Result<Option<Execution>, Refusal> {
    let Some(row) = executions::by_id(tx, id)? else { return Ok(None) };
    visible(tx, reader, row)
}

/// What a request was redeemed for, if the reader may see it.
pub(crate) fn of_request(tx: &ReadTx<'_>, reader: &Reader<'_>, id: &RequestId) -> Result<Option<Execution>, Refusal> {
    let Some(row) = executions::of_request(tx, id)? else { return Ok(None) };
    visible(tx, reader, row)
}

/// The execution, if the reader may see it.
pub(crate) fn visible(tx: &ReadTx<'_>, reader: &Reader<'_>, row: ExecutionRow) -> Result<Option<Execution>, Refusal> {
    let Some(request) = requests::find(tx, &row.request_id)? else { return Ok(None) };
    Ok(if readable(tx, reader, &row, &request)? { Some(show(row)) } else { None })
}

fn readable(tx: &ReadTx<'_>, reader: &Reader<'_>, row: &ExecutionRow, request: &RequestRow) -> Result<bool, Refusal> {
    if reader.operator || row.executor_id == *reader.id || request.requester_id == *reader.id {
        return Ok(true);
    }
    if decider(request) != Some(reader.id) {
        return Ok(false);
    }
    // A decider sees what came of its decision as long as it sees the request.
    Ok(project::find(tx, reader, &request.id)?.is_some())
}

fn decider(request: &RequestRow) -> Option<&PrincipalId> {
    request.response.as_ref().and_then(|response| response.responder_id.as_ref())
}

fn show(row: ExecutionRow) -> Execution {
    let ExecutionRow { id, request_id, executor_id, operation_key, action, state, result, created_at, updated_at } = row;
    Execution { id, request_id, executor_id, operation_key, action, state, result, created_at, updated_at }
}

/// Tells who asked, who executes and who decided; it stands in no conversation, where others would see it.
fn record(tx: &WriteTx<'_>, kind: &'static str, row: &ExecutionRow, request: &RequestRow) -> Result<(), Refusal> {
    let event = Event {
        kind,
        actor_id: &row.executor_id,
        conversation_id: "",
        recipient_id: request.requester_id.as_str(),
        subject_id: row.id.as_str(),
        data: json!({ "request_id": row.request_id, "state": row.state }),
    };
    let decider: Vec<&str> = decider(request).map(PrincipalId::as_str).into_iter().collect();
    events::record_for(tx, &event, &decider)?;
    Ok(())
}

#[cfg(test)]
mod tests;
