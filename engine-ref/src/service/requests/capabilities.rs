//! What is open to an actor on one request at this moment. The writes themselves check anew.

use std::collections::BTreeMap;

use beepgrid::{CapabilityResult, Outcome, Permission, RequestId, RequestKind};

use super::project::{self, Access, View};
use super::{blocking, close, form, respond};
use crate::service::actor::{Actor, Need};
use crate::service::{Refusal, executions};
use crate::store::ReadTx;

const OPERATIONS: [&str; 8] = ["read", "respond", "cancel", "replace", "supersede", "blocking", "redeem", "trace"];

/// Fills in what the actor may do with a request, at which version, and the outcomes that it may decide with. Of one that it may
/// not see all is false.
pub(crate) fn of_request(tx: &ReadTx<'_>, actor: &Actor, id: &RequestId, result: &mut CapabilityResult) -> Result<(), Refusal> {
    result.operations = OPERATIONS.iter().map(|name| ((*name).to_owned(), false)).collect::<BTreeMap<_, _>>();
    let Some(view) = project::find(tx, &actor.reader(), id)? else { return Ok(()) };
    let open = view.standing().is_open();
    let asked_it = view.access == Access::Requester;
    let oversees = matches!(view.access, Access::Requester | Access::Operator);
    let decides = open && passes(respond::must_decide(tx, actor, &view))?;
    let allowed = |part: Permission, holds: bool| holds && actor.need(&Need::Ceiling(part)).is_ok();
    let asks = |holds: bool| allowed(Permission::Request, open && holds);
    let found = [
        ("read", allowed(Permission::Read, true)),
        ("respond", allowed(Permission::Respond, decides)),
        ("cancel", asks(oversees)),
        ("supersede", asks(asked_it)),
        ("replace", asks(asked_it && passes(close::remaining(tx, actor, &view))?)),
        ("blocking", asks(passes(blocking::check(tx, actor, &view))?)),
        ("redeem", allowed(Permission::Execute, passes(redeemable(tx, actor, &view))?)),
        ("trace", allowed(Permission::Read, oversees || actor.manages(tx, "connection")?)),
    ];
    result.operations.extend(found.map(|(name, open)| (name.to_owned(), open)));
    result.request_version = Some(view.row.version);
    if result.operations.get("respond") == Some(&true) {
        result.outcomes = outcomes(&view.row.kind);
    }
    Ok(())
}

fn outcomes(kind: &RequestKind) -> Vec<Outcome> {
    form::outcomes(kind).to_vec()
}

fn redeemable(tx: &ReadTx<'_>, actor: &Actor, view: &View) -> Result<(), Refusal> {
    executions::authorize(tx, actor, view)?.must_be_unused(tx, actor)
}

/// Whether a check lets the actor through; faults of the engine stay faults.
fn passes<T>(outcome: Result<T, Refusal>) -> Result<bool, Refusal> {
    match outcome {
        Ok(_) => Ok(true),
        Err(fault @ (Refusal::Internal { .. } | Refusal::Unavailable { .. } | Refusal::OutcomeUnknown)) => Err(fault),
        Err(_) => Ok(false),
    }
}
