//! What the other families do with deliveries: make one, take it back, tell agents that a request has closed. And what happens
//! to one beside its leases: parking, requeueing, an instance that is gone. Leases themselves stand in `inbox`.

use std::time::Duration;

use beepgrid::{
    ConversationId, DeliveryId, DeliveryKind, InstanceId, MessageId, PrincipalId, PrincipalKind, RequestId, RequeueResult,
    Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::actor::Actor;
use super::events::{self, Event};
use super::limits::{MAX_BACKLOG, MAX_LIST, PARK_AFTER, PARK_ATTEMPTS};
use super::{Refusal, new_id};
use crate::signals::Signal;
use crate::store::deliveries::{self, DeliveryRow, Lane, PinKind, State};
use crate::store::{ReadTx, WriteTx, instances, principals};

/// How long an instance may be silent before what is only preferably its own goes to any other of the agent.
pub(crate) const SOFT_PIN: Duration = Duration::from_secs(24 * 60 * 60);
/// When a sender over the limit of undelivered messages may look again.
const BACKLOG_RETRY: Duration = Duration::from_secs(30);

/// Why a delivery is parked.
pub(crate) const REASON_ATTEMPTS: &str = "attempts";
/// Why a delivery is parked whose only possible recipient can't connect any more.
pub(crate) const REASON_INSTANCE_GONE: &str = "instance_gone";
/// Why a `request` delivery is withdrawn.
pub(crate) const REASON_CLOSED: &str = "closed";
/// Why a delivery is withdrawn whose payload the agent may no longer see.
pub(crate) const REASON_NO_ACCESS: &str = "no_access";

/// Which instance of the agent a delivery is for, when it is not for any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pin<'a> {
    /// This one alone: the target was the instance itself.
    Hard(&'a InstanceId),
    /// This one while it lives, then any.
    Soft(&'a InstanceId),
}

/// A delivery to be made.
#[derive(Debug)]
pub(crate) struct New<'a> {
    pub(crate) agent: &'a PrincipalId,
    pub(crate) pin: Option<Pin<'a>>,
    pub(crate) kind: DeliveryKind,
    pub(crate) conversation_id: &'a ConversationId,
    pub(crate) message_id: Option<&'a MessageId>,
    pub(crate) request_id: Option<&'a RequestId>,
    pub(crate) sender_id: &'a PrincipalId,
    /// The sequence of the event that tells of its cause: its place in the agent's order.
    pub(crate) position: i64,
}

/// Makes a delivery, due at once, and wakes the agent's polls after the commit.
///
/// # Errors
/// 429 for a message or request whose sender has too many undelivered ones at this agent ([`check_backlog`]).
pub(crate) fn create(tx: &WriteTx<'_>, new: &New<'_>) -> Result<DeliveryId, Refusal> {
    if matches!(new.kind, DeliveryKind::Message | DeliveryKind::Request) {
        check_backlog(tx, new.sender_id, new.agent)?;
    }
    let (pin, instance) = match new.pin {
        None => (None, None),
        Some(Pin::Hard(instance)) => (Some(PinKind::Hard), Some(instance)),
        Some(Pin::Soft(instance)) => (Some(PinKind::Soft), Some(instance)),
    };
    let lane = match new.kind {
        DeliveryKind::RequestResult | DeliveryKind::RequestWithdrawn => Lane::Results,
        _ if pin == Some(PinKind::Hard) => Lane::Instance,
        _ => Lane::Ordered,
    };
    let now = tx.now();
    let row = DeliveryRow {
        id: new_id(DeliveryId::PREFIX),
        position: new.position,
        agent_id: new.agent.clone(),
        instance_id: instance.cloned(),
        pin,
        lane,
        kind: new.kind.clone(),
        conversation_id: new.conversation_id.clone(),
        message_id: new.message_id.cloned(),
        request_id: new.request_id.cloned(),
        sender_id: new.sender_id.clone(),
        state: State::Ready,
        reason: None,
        generation: 0,
        attempts: 0,
        leased_by: None,
        leased_at: None,
        leased_until: None,
        first_leased_at: None,
        due_at: now,
        created_at: now,
        acked_at: None,
    };
    deliveries::insert(tx, &row)?;
    tx.signal(Signal::Work { agent: row.agent_id });
    Ok(row.id)
}

/// Refuses a message or request from `sender` while the agent has 10,000 undelivered ones of it.
fn check_backlog(tx: &ReadTx<'_>, sender: &PrincipalId, agent: &PrincipalId) -> Result<(), Refusal> {
    if deliveries::backlog(tx, sender, agent)? < MAX_BACKLOG {
        return Ok(());
    }
    let message =
        format!("this agent has {MAX_BACKLOG} undelivered messages and requests of yours; wait until it has taken some");
    Err(Refusal::RateLimited { message, retry_after: BACKLOG_RETRY })
}

/// A request that has just left `open`.
#[derive(Debug)]
pub(crate) struct Closed<'a> {
    pub(crate) request_id: &'a RequestId,
    pub(crate) requester_id: &'a PrincipalId,
    pub(crate) requester_instance_id: Option<&'a InstanceId>,
    /// Where the requester reads it.
    pub(crate) conversation_id: &'a ConversationId,
    /// Who decided it; nobody when it was cancelled, superseded or ran out.
    pub(crate) decider: Option<&'a PrincipalId>,
    /// The sequence of the event that tells of the end.
    pub(crate) position: i64,
}

/// Tells agents that a request has closed: the requester gets a `request_result`; who had the `request` and did not decide it
/// gets a `request_withdrawn`; who never had it never will.
pub(crate) fn on_request_closed(tx: &WriteTx<'_>, closed: &Closed<'_>) -> Result<(), Refusal> {
    for row in deliveries::requests_of(tx, closed.request_id)? {
        withdraw_request(tx, &row, closed)?;
    }
    if !closed.requester_id.as_str().starts_with(PrincipalId::PREFIX) {
        return Ok(()); // people and services have no inbox
    }
    create(
        tx,
        &New {
            agent: closed.requester_id,
            pin: closed.requester_instance_id.map(Pin::Soft),
            kind: DeliveryKind::RequestResult,
            conversation_id: closed.conversation_id,
            message_id: None,
            request_id: Some(closed.request_id),
            sender_id: closed.decider.unwrap_or(closed.requester_id),
            position: closed.position,
        },
    )?;
    Ok(())
}

fn withdraw_request(tx: &WriteTx<'_>, row: &DeliveryRow, closed: &Closed<'_>) -> Result<(), Refusal> {
    // A lease that still runs is left to its holder: its ack says that it had it.
    if row.is_live() && !row.is_held(tx.now()) {
        withdraw(tx, row, REASON_CLOSED)?;
    }
    if row.generation == 0 || closed.decider == Some(&row.agent_id) {
        return Ok(());
    }
    // The instance that took it is the one that works on it, as long as it lives.
    let holder = row.leased_by.as_ref().or(row.instance_id.as_ref());
    create(
        tx,
        &New {
            agent: &row.agent_id,
            pin: holder.map(Pin::Soft),
            kind: DeliveryKind::RequestWithdrawn,
            conversation_id: &row.conversation_id,
            message_id: None,
            request_id: Some(closed.request_id),
            sender_id: closed.requester_id,
            position: closed.position,
        },
    )?;
    Ok(())
}

/// Takes back a delivery that shall not be leased any more. It stays visible in the trace and holds nothing back.
pub(crate) fn withdraw(tx: &WriteTx<'_>, row: &DeliveryRow, reason: &'static str) -> Result<(), Refusal> {
    deliveries::end(tx, row, State::Withdrawn, reason)?;
    wake_the_rest(tx, row)
}

/// Whether a delivery has been tried often and long enough to be parked once its lease is over.
pub(crate) fn is_exhausted(row: &DeliveryRow, now: Timestamp) -> bool {
    row.attempts >= PARK_ATTEMPTS && row.first_leased_at.is_some_and(|first| first.plus(PARK_AFTER) <= now)
}

/// Sets a delivery aside until somebody requeues it.
pub(crate) fn park(tx: &WriteTx<'_>, row: &DeliveryRow, reason: &'static str) -> Result<(), Refusal> {
    deliveries::end(tx, row, State::Parked, reason)?;
    record_update(tx, row, &row.agent_id, State::Parked, Some(reason))?;
    wake_the_rest(tx, row)
}

/// After a delivery stopped holding back its conversation: wakes polls if there is something left in it that is due.
pub(crate) fn wake_the_rest(tx: &WriteTx<'_>, row: &DeliveryRow) -> Result<(), Refusal> {
    if row.lane == Lane::Ordered && deliveries::line::has_due(tx, &row.agent_id, &row.conversation_id)? {
        tx.signal(Signal::Work { agent: row.agent_id.clone() });
    }
    Ok(())
}

fn record_update(
    tx: &WriteTx<'_>,
    row: &DeliveryRow,
    actor: &PrincipalId,
    state: State,
    reason: Option<&'static str>,
) -> Result<(), Refusal> {
    let attempt = if state == State::Ready { 0 } else { row.attempts };
    events::record(
        tx,
        &Event {
            kind: "delivery.updated",
            actor_id: actor,
            conversation_id: row.conversation_id.as_str(),
            recipient_id: row.agent_id.as_str(),
            subject_id: row.id.as_str(),
            data: json!({ "state": state.as_str(), "reason": reason, "attempt": attempt, "request_id": row.request_id }),
        },
    )?;
    Ok(())
}

/// A delivery as operators, its requester and its own agent see it: one row of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeliveryState {
    pub(crate) id: DeliveryId,
    pub(crate) recipient_id: PrincipalId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instance_id: Option<InstanceId>,
    pub(crate) state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) attempt: i64,
    pub(crate) at: Timestamp,
}

impl DeliveryState {
    /// `at`: the acknowledgement, the last lease, or the creation, whichever is the latest there was.
    pub(crate) fn of(row: &DeliveryRow) -> Self {
        Self {
            id: row.id.clone(),
            recipient_id: row.agent_id.clone(),
            instance_id: row.leased_by.clone().or_else(|| row.instance_id.clone()),
            state: row.state.as_str().to_owned(),
            reason: row.reason.clone(),
            attempt: row.attempts,
            at: row.acked_at.or(row.leased_at).unwrap_or(row.created_at),
        }
    }
}

/// The delivery, if the actor may requeue it: an operator, or a worker of its agent.
pub(crate) fn requeueable(tx: &ReadTx<'_>, actor: &Actor, id: &DeliveryId) -> Result<DeliveryRow, Refusal> {
    let row = deliveries::by_id(tx, id)?.filter(|row| actor.operator || row.agent_id == actor.id);
    let row = row.ok_or_else(Refusal::not_found)?;
    must_requeue_for(actor, &row.agent_id)?;
    Ok(row)
}

fn must_requeue_for(actor: &Actor, agent: &PrincipalId) -> Result<(), Refusal> {
    if actor.operator || (actor.id == *agent && actor.instance_id.is_some()) {
        return Ok(());
    }
    Err(Refusal::forbidden("only an operator, or a worker of the agent itself, may requeue its deliveries"))
}

/// Undoes parking: ready and due at once in its old place, under its old id, with its attempts counted anew. What is not
/// parked is left as it is.
///
/// # Errors
/// 403 while the one instance that it is for is gone.
pub(crate) fn requeue(tx: &WriteTx<'_>, actor: &Actor, id: &DeliveryId) -> Result<(), Refusal> {
    let row = requeueable(tx, actor, id)?;
    if row.state != State::Parked {
        return Ok(());
    }
    if is_for_nobody(tx, &row)? {
        return Err(Refusal::forbidden("the runtime connection that this delivery is for is gone: its credential has ended"));
    }
    revive(tx, &row, &actor.id)
}

/// Undoes parking for all deliveries of an agent, oldest first, at most 1,000 a call. What is for an instance that is gone stays.
pub(crate) fn requeue_agent(tx: &WriteTx<'_>, actor: &Actor, agent: &PrincipalId) -> Result<RequeueResult, Refusal> {
    let found = principals::party_by_any_id(tx, PrincipalKind::Agent.as_str(), agent.as_str())?;
    let found = found.filter(|party| actor.operator || actor.id == party.id).ok_or_else(Refusal::not_found)?;
    let agent = &found.id;
    must_requeue_for(actor, agent)?;
    let mut done = RequeueResult { requeued: 0, more: false };
    let mut after = deliveries::Place::START;
    loop {
        let page = deliveries::parked(tx, agent, &after, MAX_LIST)?;
        let Some(last) = page.last() else { return Ok(done) };
        after = last.place();
        for row in &page {
            if is_for_nobody(tx, row)? {
                continue;
            }
            if done.requeued == MAX_LIST {
                return Ok(RequeueResult { more: true, ..done });
            }
            revive(tx, row, &actor.id)?;
            done.requeued += 1;
        }
    }
}

fn revive(tx: &WriteTx<'_>, row: &DeliveryRow, actor: &PrincipalId) -> Result<(), Refusal> {
    deliveries::revive(tx, row)?;
    record_update(tx, row, actor, State::Ready, None)?;
    tx.signal(Signal::Work { agent: row.agent_id.clone() });
    Ok(())
}

fn is_for_nobody(tx: &ReadTx<'_>, row: &DeliveryRow) -> Result<bool, Refusal> {
    match (&row.instance_id, row.pin) {
        (Some(instance), Some(PinKind::Hard)) => Ok(!instances::is_live(tx, instance)?),
        _ => Ok(false),
    }
}

/// Whether an instance still gets what is kept for it: its credential works and it was seen lately.
pub(crate) fn is_present(tx: &ReadTx<'_>, instance: &InstanceId) -> Result<bool, Refusal> {
    let lately = tx.now().minus(SOFT_PIN);
    let seen = instances::by_id(tx, instance)?.is_some_and(|row| row.last_seen >= lately);
    Ok(seen && instances::is_live(tx, instance)?)
}

/// Lets go of what waits for an instance: parks what is for it alone if it is gone, and gives the rest to any instance of the
/// agent if it is gone or was silent for a day. At most `limit`; returns how many.
pub(crate) fn let_go(tx: &WriteTx<'_>, instance: &InstanceId, limit: i64) -> Result<usize, Refusal> {
    let live = instances::is_live(tx, instance)?;
    let present = live && is_present(tx, instance)?;
    let mut done = 0;
    if !live {
        for row in deliveries::pinned_to(tx, instance, PinKind::Hard, limit)? {
            park(tx, &row, REASON_INSTANCE_GONE)?;
            done += 1;
        }
    }
    if !present {
        for row in deliveries::pinned_to(tx, instance, PinKind::Soft, limit)? {
            deliveries::unpin(tx, &row.id)?;
            tx.signal(Signal::Work { agent: row.agent_id });
            done += 1;
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests;
