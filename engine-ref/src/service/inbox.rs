//! The leases of a worker inbox: what an instance may be given now, and what it says about it afterwards.
//!
//! All of it runs inside the serial write, so of two instances that lease at once one comes first and the other sees its lease.
//! The wait for work stands in `http/workers`, who may be told of a closed request in `deliveries`.

#[cfg(test)]
pub(crate) mod bed;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
mod walk;

use std::time::Duration;

use beepgrid::{
    AckInput, AckItem, AckManyItem, Delivery, DeliveryId, DeliveryKind, DeliveryPayload, ErrorCode, ExtendInput, InboxInput,
    ReleaseInput, RequestState, Timestamp,
};

use self::walk::Walk;
use super::actor::Actor;
use super::limits::{
    DEFAULT_LEASE_ITEMS, LEASE, LONGEST_BACKOFF, LONGEST_LEASE, MAX_DELAY, MAX_EXTENSION, MAX_LEASE, MAX_WAIT_MS,
};
use super::{Refusal, checks, deliveries as rules, messages, requests};
use crate::signals::Signal;
use crate::store::deliveries::{self, DeliveryRow, Kinds, Lane, Place, State, Worker, line};
use crate::store::{ReadTx, WriteTx};

/// What a worker asks for, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) wait: Duration,
    pub(crate) limit: usize,
    pub(crate) kinds: Kinds,
}

impl Want {
    /// # Errors
    /// 400 for a wait, limit or kind outside the contract's.
    pub(crate) fn from_input(input: &InboxInput) -> Result<Self, Refusal> {
        let wait = input.wait_ms.unwrap_or(0);
        let limit = input.limit.unwrap_or(DEFAULT_LEASE_ITEMS);
        checks::range("wait_ms", wait, 0, MAX_WAIT_MS)?;
        checks::range("limit", limit, 1, MAX_LEASE)?;
        if let Some(unknown) = input.kinds.iter().find(|kind| !kind.is_known()) {
            return Err(checks::one_of("kinds", unknown.as_str(), DeliveryKind::KNOWN));
        }
        let wants = |kind| input.kinds.is_empty() || input.kinds.contains(&kind);
        Ok(Self {
            wait: Duration::from_millis(u64::try_from(wait).unwrap_or(0)),
            limit: usize::try_from(limit).unwrap_or(1),
            kinds: Kinds {
                messages: wants(DeliveryKind::Message),
                requests: wants(DeliveryKind::Request),
                results: wants(DeliveryKind::RequestResult),
                withdrawals: wants(DeliveryKind::RequestWithdrawn),
            },
        })
    }
}

/// How long after the end of a lease the delivery may be leased again, if it was leased `attempts` times: at once after the
/// first, then 2, 4, 8 … up to 300 seconds.
pub(crate) fn backoff(attempts: i64) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1).max(0)).unwrap_or(u32::MAX);
    if doublings == 0 {
        return Duration::ZERO;
    }
    Duration::from_secs(1_u64.checked_shl(doublings).unwrap_or(u64::MAX)).min(LONGEST_BACKOFF)
}

/// Whether there is something to lease, and if not, when there may be without anything new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Glimpse {
    pub(crate) ready: bool,
    pub(crate) next_due: Option<Timestamp>,
}

/// A look without a write: what an idle poll does when it is woken.
pub(crate) fn glimpse(tx: &ReadTx<'_>, worker: &Worker<'_>, kinds: Kinds) -> Result<Glimpse, Refusal> {
    let lately = tx.now().minus(rules::SOFT_PIN);
    let mut ready = false;
    for lane in [Lane::Results, Lane::Instance] {
        ready = ready || !deliveries::unordered(tx, worker, (lane, kinds, lately), &Place::START, 1)?.is_empty();
    }
    ready = ready || Walk::new(worker, kinds, 1).next(tx)?.is_some();
    // Looked up even when something is ready: it may be gone when the lease comes to it.
    Ok(Glimpse { ready, next_due: deliveries::next_due(tx, worker.agent)? })
}

/// What a delivery shows its agent now; `None` when the agent may no longer see it.
pub(crate) type Projection<'p> = dyn Fn(&WriteTx<'_>, &DeliveryRow) -> Result<Option<DeliveryPayload>, Refusal> + 'p;

/// What the worker's agent may see of a delivery now. Others of a group ask hear of its end with state and version alone.
pub(crate) fn payload(tx: &ReadTx<'_>, actor: &Actor, row: &DeliveryRow) -> Result<Option<DeliveryPayload>, Refusal> {
    let reader = actor.reader();
    let mut payload =
        DeliveryPayload { r#type: row.kind.clone(), conversation_id: row.conversation_id.clone(), message: None, request: None };
    match (&row.kind, &row.message_id, &row.request_id) {
        (DeliveryKind::Message, Some(id), _) => payload.message = messages::project(tx, &reader, id)?,
        (DeliveryKind::RequestWithdrawn, _, Some(id)) => {
            let bare = |view: requests::View| {
                if view.row.group_ask { Ok(requests::withdrawn(&view.row)) } else { requests::show(tx, reader.id, view) }
            };
            payload.request = requests::find(tx, &reader, id)?.map(bare).transpose()?;
        }
        (_, _, Some(id)) => payload.request = requests::project(tx, &reader, id)?,
        _ => {}
    }
    let shown = payload.message.is_some() || payload.request.is_some();
    Ok(shown.then_some(payload))
}

/// Leases up to `want.limit` deliveries: results first, then what is addressed to the instance, then conversations in order.
pub(crate) fn lease(
    tx: &WriteTx<'_>,
    worker: &Worker<'_>,
    want: &Want,
    project: &Projection<'_>,
) -> Result<Vec<Delivery>, Refusal> {
    let lately = tx.now().minus(rules::SOFT_PIN);
    let mut leased = Vec::new();
    for lane in [Lane::Results, Lane::Instance] {
        let mut after = Place::START;
        while leased.len() < want.limit {
            let page = deliveries::unordered(tx, worker, (lane, want.kinds, lately), &after, missing(want, &leased))?;
            let Some(last) = page.last() else { break };
            after = last.place();
            for row in page {
                leased.extend(lease_one(tx, worker, row, project)?);
            }
        }
    }
    let mut walk = Walk::new(worker, want.kinds, missing(want, &leased));
    while leased.len() < want.limit
        && let Some(row) = walk.next(tx)?
    {
        leased.extend(lease_one(tx, worker, row, project)?);
    }
    Ok(leased)
}

fn missing(want: &Want, leased: &[Delivery]) -> i64 {
    i64::try_from(want.limit.saturating_sub(leased.len())).unwrap_or(MAX_LEASE)
}

/// Leases one delivery, or ends it where it should go to nobody any more.
fn lease_one(
    tx: &WriteTx<'_>,
    worker: &Worker<'_>,
    mut row: DeliveryRow,
    project: &Projection<'_>,
) -> Result<Option<Delivery>, Refusal> {
    let now = tx.now();
    if rules::is_exhausted(&row, now) {
        rules::park(tx, &row, rules::REASON_ATTEMPTS)?;
        return Ok(None);
    }
    let Some(payload) = project(tx, &row)? else {
        rules::withdraw(tx, &row, rules::REASON_NO_ACCESS)?;
        return Ok(None);
    };
    let closed = payload.request.as_ref().is_some_and(|request| request.state != RequestState::Open);
    if row.kind == DeliveryKind::Request && closed {
        rules::withdraw(tx, &row, rules::REASON_CLOSED)?;
        return Ok(None);
    }
    let until = now.plus(LEASE);
    row.state = State::Leased;
    row.generation += 1;
    row.attempts += 1;
    row.leased_by = Some(worker.instance.clone());
    row.leased_at = Some(now);
    row.leased_until = Some(until);
    row.first_leased_at = row.first_leased_at.or(Some(now));
    row.due_at = until.plus(backoff(row.attempts));
    deliveries::save_lease(tx, &row)?;
    Ok(Some(Delivery {
        id: row.id,
        generation: row.generation,
        kind: row.kind,
        attempt: row.attempts,
        leased_until: until,
        created_at: row.created_at,
        payload,
    }))
}

fn stale() -> Refusal {
    Refusal::conflict(ErrorCode::StaleGeneration, "this is not the delivery's present lease: it ended, or another was given")
}

/// The delivery, if the worker is the last that leased it and `generation` is that lease's.
fn held(tx: &ReadTx<'_>, worker: &Worker<'_>, id: &DeliveryId, generation: i64) -> Result<DeliveryRow, Refusal> {
    let row = deliveries::by_id(tx, id)?.filter(|row| row.agent_id == *worker.agent).ok_or_else(Refusal::not_found)?;
    if row.generation != generation || row.leased_by.as_ref() != Some(worker.instance) {
        return Err(stale());
    }
    Ok(row)
}

/// Confirms a delivery. The present lease is enough, even when its time has run out; a repetition changes nothing.
///
/// # Errors
/// 409 `stale_generation` when it was given back or to somebody else since, 404 when it is not this agent's.
pub(crate) fn ack(tx: &WriteTx<'_>, worker: &Worker<'_>, id: &DeliveryId, input: &AckInput) -> Result<(), Refusal> {
    let row = held(tx, worker, id, input.generation)?;
    if row.state == State::Acked {
        return Ok(());
    }
    deliveries::ack(tx, &row)?;
    if row.is_live() { rules::wake_the_rest(tx, &row) } else { Ok(()) }
}

/// Confirms several deliveries, each by itself.
///
/// # Errors
/// 400 for an empty list or more than 100; what single items are refused with stands in the results.
pub(crate) fn ack_many(tx: &WriteTx<'_>, worker: &Worker<'_>, items: &[AckItem]) -> Result<Vec<AckManyItem>, Refusal> {
    let mut results = Vec::with_capacity(items.len());
    for item in items {
        let code = match ack(tx, worker, &item.id, &AckInput::new(item.generation)) {
            Ok(()) => None,
            Err(Refusal::NotFound { .. }) => Some(ErrorCode::NotFound),
            Err(Refusal::Conflict { code, .. }) => Some(code),
            Err(fault) => return Err(fault),
        };
        results.push(AckManyItem { id: item.id.clone(), received: code.is_none(), code });
    }
    Ok(results)
}

/// Checks the form of a list to confirm.
pub(crate) fn check_items(items: &[AckItem]) -> Result<(), Refusal> {
    if items.is_empty() {
        return Err(Refusal::invalid("items", format!("required, 1 to {MAX_LEASE} items")));
    }
    checks::count("items", items.len(), usize::try_from(MAX_LEASE).unwrap_or(usize::MAX))?;
    for (i, item) in items.iter().enumerate() {
        checks::id(&format!("items[{i}].id"), item.id.as_str())?;
    }
    Ok(())
}

/// Moves the end of a lease to `seconds` from now, at most 12 hours after its beginning. A lease that ran out and was given to
/// nobody since is taken up again.
///
/// # Errors
/// 409 `stale_generation` like [`ack`], after the 12 hours, when it is settled, and when another instance has got a later lease
/// in the conversation meanwhile.
pub(crate) fn extend(tx: &WriteTx<'_>, worker: &Worker<'_>, id: &DeliveryId, input: &ExtendInput) -> Result<Timestamp, Refusal> {
    let now = tx.now();
    let mut row = held(tx, worker, id, input.generation)?;
    let end = row.leased_at.map(|start| start.plus(LONGEST_LEASE)).filter(|end| *end > now);
    let (State::Leased, Some(end)) = (row.state, end) else { return Err(stale()) };
    let lapsed = !row.is_held(now) && row.lane == Lane::Ordered;
    if lapsed && line::is_held_by_other(tx, worker, &row.conversation_id)? {
        return Err(stale());
    }
    let until = now.plus(seconds(input.seconds)).min(end);
    let due = until.plus(backoff(row.attempts));
    if due < row.due_at {
        // Polls that wait for the old end would sleep too long.
        tx.signal(Signal::Work { agent: row.agent_id.clone() });
    }
    row.leased_until = Some(until);
    row.due_at = due;
    deliveries::save_lease(tx, &row)?;
    Ok(until)
}

/// Checks the form of an extension.
pub(crate) fn check_extension(input: &ExtendInput) -> Result<(), Refusal> {
    checks::range("seconds", input.seconds, 1, MAX_EXTENSION)
}

/// Gives a delivery back unhandled, to be leased again after a delay; this lease counts as no attempt.
///
/// # Errors
/// 409 `stale_generation` like [`ack`], and when it is settled.
pub(crate) fn release(tx: &WriteTx<'_>, worker: &Worker<'_>, id: &DeliveryId, input: &ReleaseInput) -> Result<(), Refusal> {
    let mut row = held(tx, worker, id, input.generation)?;
    if row.state != State::Leased {
        return Err(stale());
    }
    row.state = State::Ready;
    row.attempts = row.attempts.saturating_sub(1).max(0);
    if row.attempts == 0 {
        row.first_leased_at = None;
    }
    row.leased_by = None;
    row.leased_until = None;
    row.due_at = tx.now().plus(seconds(input.delay_seconds.unwrap_or(0)));
    deliveries::save_lease(tx, &row)?;
    tx.signal(Signal::Work { agent: row.agent_id });
    Ok(())
}

/// Checks the form of a release.
pub(crate) fn check_release(input: &ReleaseInput) -> Result<(), Refusal> {
    checks::range("delay_seconds", input.delay_seconds.unwrap_or(0), 0, MAX_DELAY)
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
