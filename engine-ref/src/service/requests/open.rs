//! Storing a request that is allowed already, and telling those who were asked.

use beepgrid::{
    Action, ConversationId, DeliveryKind, Mention, PrincipalId, PrincipalKind, RequestId, RequestKind, RequestState, Response,
    Timestamp,
};
use serde_json::json;

use super::close::{End, close};
use super::state::{Operation, Standing};
use crate::service::actor::Actor;
use crate::service::audience::Party;
use crate::service::deliveries::{self, Pin};
use crate::service::events::{self, Event};
use crate::service::{Refusal, new_id};
use crate::store::requests::{self, RequestRow, SeatRow};
use crate::store::{WriteTx, conversations};

/// Somebody who is asked, and where it reads the request.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) party: Party,
    pub(super) conversation_id: ConversationId,
}

/// A request to be opened. Form and rights are checked by whoever makes it.
#[derive(Clone, Debug)]
pub(super) struct New {
    pub(super) kind: RequestKind,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) choices: Vec<String>,
    pub(super) mentions: Vec<Mention>,
    pub(super) blocking: bool,
    /// One private history for each seat.
    pub(super) group_ask: bool,
    /// With the executor's id, not an external one.
    pub(super) action: Option<Action>,
    pub(super) shared_key: String,
    pub(super) expires_at: Timestamp,
    /// At least one; the first tells where the requester reads it.
    pub(super) seats: Vec<Seat>,
    pub(super) replaces_id: Option<RequestId>,
    /// The published answer that resolves it at once.
    pub(super) reused: Option<Response>,
}

/// Stores the request, with its event and a delivery to each agent that is asked.
pub(super) fn store(tx: &WriteTx<'_>, actor: &Actor, new: New) -> Result<RequestId, Refusal> {
    let Some(first) = new.seats.first() else { return Err(Refusal::internal("a request without an audience")) };
    let id: RequestId = new_id(RequestId::PREFIX);
    let conversation_id = first.conversation_id.clone();
    let sequence = record(tx, actor, &id, &new)?;
    let New { kind, title, body, choices, mentions, blocking, group_ask, action, shared_key, expires_at, replaces_id, .. } = new;
    let row = RequestRow {
        id: id.clone(),
        conversation_id,
        requester_id: actor.id.clone(),
        requester_instance_id: actor.instance_id.clone(),
        kind,
        title,
        body,
        choices,
        mentions,
        blocking,
        group_ask,
        state: RequestState::Open,
        version: 1,
        executor_id: action.as_ref().map(|action| action.executor_id.clone()),
        action,
        shared_key,
        expires_at,
        created_at: tx.now(),
        sequence,
        closed_at: None,
        closed_by: None,
        response: None,
        replaces_id,
    };
    requests::insert(tx, &row)?;
    seat_all(tx, &row, &new.seats, new.reused.is_none())?;
    if let Some(response) = &new.reused {
        let open = Standing { state: row.state.clone(), version: row.version };
        let after = open.after(Operation::Respond { version: response.version })?;
        // Nobody decided anything now.
        close(tx, &row, &End { after, at: tx.now(), by: None, response: Some(response) })?;
    }
    Ok(id)
}

fn record(tx: &WriteTx<'_>, actor: &Actor, id: &RequestId, new: &New) -> Result<i64, Refusal> {
    let (conversation_id, recipient_id) = match new.seats.as_slice() {
        [only] => (only.conversation_id.as_str(), only.party.id.as_str()),
        [first, ..] => (first.conversation_id.as_str(), ""),
        [] => ("", ""),
    };
    let data = json!({ "state": RequestState::Open, "version": 1 });
    let event =
        Event { kind: "request.created", actor_id: &actor.id, conversation_id, recipient_id, subject_id: id.as_str(), data };
    let asked = new.seats.iter().flat_map(|seat| [seat.party.id.as_str(), seat.conversation_id.as_str()]);
    let executor = new.action.as_ref().map(|action| action.executor_id.as_str());
    let concerned: Vec<&str> = asked.chain(executor).collect();
    events::record_for(tx, &event, &concerned)
}

/// Keeps who is asked and, while there is something to decide, tells the agents among them.
fn seat_all(tx: &WriteTx<'_>, request: &RequestRow, seats: &[Seat], undecided: bool) -> Result<(), Refusal> {
    let (id, position) = (&request.id, request.sequence);
    let mut last: Option<&ConversationId> = None;
    for seat in seats {
        let row = SeatRow { principal_id: seat.party.id.clone(), conversation_id: seat.conversation_id.clone() };
        requests::insert_seat(tx, id, &row)?;
        if last != Some(&seat.conversation_id) {
            conversations::touch(tx, &seat.conversation_id, position)?;
            last = Some(&seat.conversation_id);
        }
        if undecided && seat.party.kind == PrincipalKind::Agent {
            deliver(tx, &request.requester_id, id, seat, position)?;
        }
    }
    Ok(())
}

fn deliver(tx: &WriteTx<'_>, sender: &PrincipalId, id: &RequestId, seat: &Seat, position: i64) -> Result<(), Refusal> {
    deliveries::create(
        tx,
        &deliveries::New {
            agent: &seat.party.id,
            pin: seat.party.instance_id.as_ref().map(Pin::Hard),
            kind: DeliveryKind::Request,
            conversation_id: &seat.conversation_id,
            message_id: None,
            request_id: Some(id),
            sender_id: sender,
            position,
        },
    )?;
    Ok(())
}
