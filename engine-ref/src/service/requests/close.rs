//! The ends of a request besides the decision, and what every end has in common.

use beepgrid::{
    CancelInput, InstanceId, PrincipalId, ReplaceRequestInput, ReplacedRequest, RequestId, RequestState, Response,
    SupersedeInput, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::ask::{Made, check_blocking, may_ask, present};
use super::for_author;
use super::open::{New, Seat, store};
use super::project::{self, Access, View};
use super::state::{Operation, Standing};
use crate::service::Refusal;
use crate::service::actor::Actor;
use crate::service::audience::must_be_reachable;
use crate::service::deliveries::{self, Closed};
use crate::service::events::{self, Event};
use crate::service::files::Claim;
use crate::service::messages::{self, Content};
use crate::signals::Signal;
use crate::store::requests::{self, Closing, RequestRow};
use crate::store::{ReadTx, WriteTx, principals};

/// How a request ends.
#[derive(Debug)]
pub(super) struct End<'e> {
    pub(super) after: Standing,
    pub(super) at: Timestamp,
    /// Nobody when its deadline came.
    pub(super) by: Option<&'e PrincipalId>,
    pub(super) response: Option<&'e Response>,
}

/// What a replacement made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MadeReplacement {
    previous_id: RequestId,
    replacement_id: RequestId,
}

/// Stores the end, with its event, and tells agents and waiting readers.
pub(super) fn close(tx: &WriteTx<'_>, row: &RequestRow, end: &End<'_>) -> Result<(), Refusal> {
    let Standing { state, version } = &end.after;
    let closing = Closing { id: &row.id, state, version: *version, closed_at: end.at, closed_by: end.by, response: end.response };
    if !requests::close(tx, &closing)? {
        // Writes are serial and the row was read in this transaction.
        return Err(Refusal::internal("a request that was open a moment ago could not be closed"));
    }
    let nobody = PrincipalId::default();
    let position = events::record(
        tx,
        &Event {
            kind: event_kind(state),
            actor_id: end.by.unwrap_or(&nobody),
            conversation_id: row.conversation_id.as_str(),
            recipient_id: row.requester_id.as_str(),
            subject_id: row.id.as_str(),
            data: json!({ "state": state, "version": version }),
        },
    )?;
    tx.signal(Signal::RequestClosed { request: row.id.clone() });
    deliveries::on_request_closed(
        tx,
        &Closed {
            request_id: &row.id,
            requester_id: &row.requester_id,
            requester_instance_id: row.requester_instance_id.as_ref(),
            conversation_id: &row.conversation_id,
            decider: end.response.and(end.by),
            position,
        },
    )
}

fn event_kind(state: &RequestState) -> &'static str {
    match state {
        RequestState::Resolved => "request.resolved",
        RequestState::Cancelled => "request.cancelled",
        RequestState::Expired => "request.expired",
        RequestState::Superseded => "request.superseded",
        _ => "request.updated",
    }
}

/// Withdraws an open request: its requester, or an operator.
pub(crate) fn cancel(tx: &WriteTx<'_>, actor: &Actor, (id, input): &(RequestId, CancelInput)) -> Result<Made, Refusal> {
    let view = project::find(tx, &actor.reader(), id)?.ok_or_else(Refusal::not_found)?;
    if !matches!(view.access, Access::Requester | Access::Operator) {
        return Err(Refusal::forbidden("only who asked, or an operator, withdraws a request"));
    }
    let after = view.standing().after(Operation::Cancel { version: input.version })?;
    close(tx, &view.row, &End { after, at: tx.now(), by: Some(&actor.id), response: None })?;
    Ok(Made { request_id: id.clone() })
}

/// Retires one's own open request, and asks nobody anew.
pub(crate) fn supersede(tx: &WriteTx<'_>, actor: &Actor, (id, input): &(RequestId, SupersedeInput)) -> Result<Made, Refusal> {
    let view = project::find(tx, &actor.reader(), id)?.ok_or_else(Refusal::not_found)?;
    if view.access != Access::Requester {
        return Err(Refusal::forbidden("only who asked supersedes a request"));
    }
    let after = view.standing().after(Operation::Supersede { version: input.version })?;
    close(tx, &view.row, &End { after, at: tx.now(), by: Some(&actor.id), response: None })?;
    Ok(Made { request_id: id.clone() })
}

/// Retires one's own open request and asks those who still are participants anew, with a new text and all else as it was.
pub(crate) fn replace(
    tx: &WriteTx<'_>,
    actor: &Actor,
    (id, input): &(RequestId, ReplaceRequestInput),
) -> Result<MadeReplacement, Refusal> {
    let view = project::find(tx, &actor.reader(), id)?.ok_or_else(Refusal::not_found)?;
    if view.access != Access::Requester {
        return Err(Refusal::forbidden("only who asked replaces a request"));
    }
    let seats = remaining(tx, actor, &view)?;
    let after = view.standing().after(Operation::Supersede { version: input.version })?;
    let old = view.row;
    let files = Claim::of_replaced(tx, &old)?;
    close(tx, &old, &End { after, at: tx.now(), by: Some(&actor.id), response: None })?;
    if old.blocking {
        let parties: Vec<_> = seats.iter().map(|seat| seat.party.clone()).collect();
        check_blocking(tx, actor, &parties)?;
    }
    check_mentions(tx, actor, &seats, old.group_ask, input)?;
    let new = New {
        kind: old.kind,
        title: old.title,
        body: input.body.clone(),
        choices: old.choices,
        mentions: input.mentions.clone(),
        blocking: old.blocking,
        group_ask: old.group_ask,
        action: old.action,
        shared_key: old.shared_key,
        expires_at: old.expires_at,
        seats,
        replaces_id: Some(old.id),
        reused: None,
    };
    let replacement_id = store(tx, actor, new)?;
    files.bind_to_request(tx, actor, &replacement_id)?;
    Ok(MadeReplacement { previous_id: id.clone(), replacement_id })
}

/// Mentions of a replacement name participants of every conversation that it stands in.
fn check_mentions(
    tx: &ReadTx<'_>,
    actor: &Actor,
    seats: &[Seat],
    group_ask: bool,
    input: &ReplaceRequestInput,
) -> Result<(), Refusal> {
    if input.mentions.is_empty() {
        return Ok(());
    }
    let content = Content { body: &input.body, mentions: &input.mentions, files: &Claim::default() };
    for seat in seats {
        if group_ask {
            messages::names_participants(&content, &[actor.as_party(), seat.party.clone()])?;
        } else {
            return messages::names_participants(&content, &present(tx, &seat.conversation_id)?);
        }
    }
    Ok(())
}

/// The answer to a replacement: both sides.
pub(crate) fn replacement_answer(
    tx: &ReadTx<'_>,
    actor: &Actor,
    _: &(RequestId, ReplaceRequestInput),
    made: &MadeReplacement,
) -> Result<ReplacedRequest, Refusal> {
    Ok(ReplacedRequest {
        previous: for_author(tx, actor, &made.previous_id)?,
        replacement: for_author(tx, actor, &made.replacement_id)?,
    })
}

/// Those of the audience who still are participants and may be asked; in a chat the requester must be one too.
pub(super) fn remaining(tx: &ReadTx<'_>, actor: &Actor, view: &View) -> Result<Vec<Seat>, Refusal> {
    let row = &view.row;
    if !view.present {
        return Err(Refusal::forbidden("you are no longer a participant of this conversation"));
    }
    let pins = requests::pins(tx, &row.id)?;
    let pin = |agent: &PrincipalId| -> Option<InstanceId> {
        pins.iter().find(|(pinned, _)| pinned == agent).map(|(_, instance)| instance.clone())
    };
    let mut seats = Vec::new();
    let mut refused = None;
    for seat in requests::present_audience(tx, &row.id)? {
        let Some(mut party) = principals::party_by_id(tx, &seat.principal_id)? else { continue };
        party.instance_id = pin(&party.id);
        let allowed = party.id == actor.id || may_ask(tx, actor, &party, row.action.as_ref())?;
        match must_be_reachable(tx, &party) {
            Ok(()) if allowed => seats.push(Seat { party, conversation_id: seat.conversation_id }),
            Ok(()) => refused = Some(Refusal::forbidden("no rule lets you ask anybody of this audience")),
            Err(refusal @ Refusal::Forbidden { .. }) => refused = Some(refusal),
            Err(other) => return Err(other),
        }
    }
    if seats.is_empty() {
        return Err(refused.unwrap_or_else(|| Refusal::forbidden("nobody who was asked is a participant any more")));
    }
    if let (Some(executor), [only]) = (&row.executor_id, seats.as_slice())
        && *executor == only.party.id
    {
        return Err(Refusal::forbidden("only the executor would be left to decide, and it never does"));
    }
    Ok(seats)
}

/// Closes a request whose deadline has come; false if it is not due or closed already.
pub(crate) fn expire(tx: &WriteTx<'_>, id: &RequestId) -> Result<bool, Refusal> {
    let Some(row) = requests::find(tx, id)? else { return Ok(false) };
    if !project::is_overdue(&row, tx.now()) {
        return Ok(false);
    }
    let after = Standing { state: row.state.clone(), version: row.version }.after(Operation::Expire)?;
    close(tx, &row, &End { after, at: row.expires_at, by: None, response: None })?;
    Ok(true)
}
