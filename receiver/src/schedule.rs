//! What may happen next: rows, host and time in, one action out. Pure; `dispatch` carries it out.
//!
//! # The rules
//!
//! 1. What may or may not have arrived (`submitting` after a restart, a lost answer) is reconciled before anything else of its conversation.
//! 2. Results of the agent's own requests go to `resume` in either mode; each stands alone and waits behind nothing. Where nobody takes them that
//!    way they go in as input, marked as results, before ordinary rows. Withdrawals go in as input the same way.
//! 3. Ordinary rows keep the order of creation within their conversation. A conversation whose first open row can't go (waits for a retry, is
//!    with the runtime, is undecided) blocks itself and no other. A row held after too many attempts lets its conversation go on.
//! 4. Steer: a row goes as soon as the host can take it, idle or at work. Queue: only when the host is idle, one at a time, in order of
//!    creation over all conversations.
//! 5. One `submit` at a time, so that never two turns are started at once.
//! 6. A runtime that can't be reached is left alone until its binding says that it can.

use std::collections::BTreeSet;

use beepgrid::{ConversationId, DeliveryId, DeliveryKind, RequestId, Timestamp};

use crate::binding::{Capabilities, HostState, Waiters, Work};
use crate::config::RetryPolicy;
use crate::input::BusyMode;
use crate::mutants::{self, Mutant};

/// Which queue a row stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// A message, a request, or a kind that this version does not know.
    Ordinary,
    /// The result of a request of one's own.
    Result,
    /// The withdrawal of a request that was put to the agent.
    Notice,
}

impl Lane {
    pub(crate) fn of(kind: &DeliveryKind) -> Self {
        match kind {
            DeliveryKind::RequestResult if mutants::on(Mutant::ResultsInLine) => Self::Ordinary,
            DeliveryKind::RequestResult => Self::Result,
            DeliveryKind::RequestWithdrawn => Self::Notice,
            _ => Self::Ordinary,
        }
    }
}

/// How far a row has come, as this process knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waits to be handed over.
    Pending,
    /// Held without being in doubt; waits for a person and blocks nothing.
    Parked,
    /// A call of the binding is under way.
    Calling,
    /// The runtime took it when so many turns had ended; proof is outstanding.
    Taken { turn: u64 },
    /// May or may not have arrived. `asked` says how many turns had ended when reconcile last couldn't tell.
    Undecided { asked: Option<u64> },
}

/// A row that is not accepted.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: DeliveryId,
    pub(crate) conversation: ConversationId,
    pub(crate) lane: Lane,
    pub(crate) is_request: bool,
    pub(crate) request: Option<RequestId>,
    pub(crate) created_at: Timestamp,
    pub(crate) phase: Phase,
    pub(crate) next_attempt_at: Option<Timestamp>,
    /// A result that nobody waits for: goes in as input.
    pub(crate) as_input: bool,
    /// "Not now" was said at this epoch of the host's reports.
    pub(crate) refused_at: Option<u64>,
}

/// Everything that a decision looks at. `rows` are in order of creation.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) rows: &'a [Row],
    pub(crate) host: &'a HostState,
    /// Whether an idle host is known to be idle, rather than one that never says.
    pub(crate) idle_is_known: bool,
    pub(crate) epoch: u64,
    pub(crate) capabilities: Capabilities,
    pub(crate) mode: BusyMode,
    pub(crate) retry: &'a RetryPolicy,
    pub(crate) now: Timestamp,
    /// A `submit`, or a reconcile for such a row, is under way.
    pub(crate) input_call: bool,
    /// A `resume`, or a reconcile for a result, is under way.
    pub(crate) result_call: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask the binding whether this row arrived.
    Reconcile(DeliveryId),
    /// Hand this row over as input.
    Submit(DeliveryId, BusyMode),
    /// Give this row to the waiter of its request.
    Resume(DeliveryId),
    /// Nothing before this time, unless something changes.
    WaitUntil(Timestamp),
    /// Nothing unless something changes.
    Nothing,
}

/// How a row can go in as input at this moment.
enum Door {
    Open(BusyMode),
    Shut,
}

/// Decides.
pub(crate) fn next(view: &View<'_>) -> Action {
    if view.host.trouble.is_some() {
        return Action::Nothing;
    }
    let mut wake: Option<Timestamp> = None;
    undecided(view)
        .or_else(|| results(view, &mut wake))
        .or_else(|| ordinary(view, &mut wake))
        .unwrap_or_else(|| wake.map_or(Action::Nothing, Action::WaitUntil))
}

fn undecided(view: &View<'_>) -> Option<Action> {
    let free = |lane| if lane == Lane::Result { !view.result_call } else { !view.input_call };
    let due = |row: &&Row| match row.phase {
        Phase::Undecided { asked: None } => true,
        Phase::Undecided { asked: Some(turn) } | Phase::Taken { turn } => view.host.turn > turn,
        _ => false,
    };
    view.rows.iter().filter(due).find(|row| free(row.lane)).map(|row| Action::Reconcile(row.id.clone()))
}

fn results(view: &View<'_>, wake: &mut Option<Timestamp>) -> Option<Action> {
    for row in view.rows.iter().filter(|row| row.lane != Lane::Ordinary && row.phase == Phase::Pending) {
        if !is_ready(view, row, wake) {
            continue;
        }
        if row.lane == Lane::Result && !row.as_input && view.capabilities.resume && is_awaited(view, row) {
            if !view.result_call {
                return Some(Action::Resume(row.id.clone()));
            }
            continue;
        }
        if view.input_call || (row.lane == Lane::Notice && request_is_open(view, row)) {
            continue;
        }
        if let Door::Open(mode) = door_for_results(view, row) {
            return Some(Action::Submit(row.id.clone(), mode));
        }
    }
    None
}

fn ordinary(view: &View<'_>, wake: &mut Option<Timestamp>) -> Option<Action> {
    if view.input_call {
        return None;
    }
    let mut blocked: BTreeSet<&ConversationId> = BTreeSet::new();
    for row in view.rows.iter().filter(|row| row.lane == Lane::Ordinary) {
        if blocked.contains(&row.conversation) {
            continue;
        }
        let goes = match row.phase {
            Phase::Parked => continue,
            Phase::Undecided { asked: Some(_) } if mutants::on(Mutant::UndecidedBlocksNothing) => continue,
            Phase::Taken { .. } if view.capabilities.ordered => continue,
            Phase::Pending => is_ready(view, row, wake),
            Phase::Taken { .. } | Phase::Calling | Phase::Undecided { .. } => false,
        };
        if !goes {
            blocked.insert(&row.conversation);
            continue;
        }
        // The host is the same for every further row: if this one can't go in, none can.
        return match door_for_ordinary(view) {
            Door::Open(mode) => Some(Action::Submit(row.id.clone(), mode)),
            Door::Shut => None,
        };
    }
    None
}

/// Whether a pending row may be tried at this time; notes when it may, if that is a matter of time.
fn is_ready(view: &View<'_>, row: &Row, wake: &mut Option<Timestamp>) -> bool {
    if row.refused_at == Some(view.epoch) {
        return false;
    }
    if view.retry.is_due(row.next_attempt_at, view.now) {
        return true;
    }
    if let Some(at) = row.next_attempt_at {
        *wake = Some(wake.map_or(at, |earliest| earliest.min(at)));
    }
    false
}

fn is_awaited(view: &View<'_>, row: &Row) -> bool {
    match (&view.host.waiters, &row.request) {
        (Waiters::Any, _) => true,
        (Waiters::Only(requests), Some(request)) => requests.contains(request),
        (Waiters::Only(_), None) => false,
    }
}

/// A withdrawal never overtakes the request that it is about.
fn request_is_open(view: &View<'_>, notice: &Row) -> bool {
    let ignored = mutants::on(Mutant::WithdrawalOvertakes);
    !ignored && view.rows.iter().any(|row| row.is_request && row.request == notice.request && row.phase != Phase::Parked)
}

fn door_for_results(view: &View<'_>, row: &Row) -> Door {
    let may_join = row.lane == Lane::Notice || row.as_input || !view.capabilities.resume || view.host.results_join;
    match view.host.work {
        Work::Idle => Door::Open(start(view)),
        Work::Busy { joinable: true } if view.capabilities.steer && may_join => Door::Open(BusyMode::Steer),
        Work::Busy { .. } if view.capabilities.durable_queue && may_join => Door::Open(BusyMode::Queue),
        Work::Busy { .. } => Door::Shut,
    }
}

fn door_for_ordinary(view: &View<'_>) -> Door {
    match (view.host.work, view.mode) {
        (Work::Idle, _) => Door::Open(start(view)),
        (Work::Busy { joinable: true }, BusyMode::Steer) => Door::Open(BusyMode::Steer),
        (Work::Busy { .. }, BusyMode::Queue) if view.capabilities.durable_queue => Door::Open(BusyMode::Queue),
        (Work::Busy { .. }, _) => Door::Shut,
    }
}

/// How to begin a turn: plainly where the host is known to be idle, else in the way that also joins a running one. Where steering starts
/// turns too, a steering receiver knows one way only, so that nothing waits in the runtime's queue while later input overtakes it.
fn start(view: &View<'_>) -> BusyMode {
    let either = view.capabilities.steer_starts || !view.idle_is_known;
    let join = view.mode == BusyMode::Steer && view.capabilities.steer && either;
    if join { BusyMode::Steer } else { BusyMode::Queue }
}

#[cfg(test)]
mod tests;
