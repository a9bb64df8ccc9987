//! What a binding reports: whether the host is idle or busy, who waits for a result, and what became of what it took.
//!
//! One board behind one lock, so that the dispatcher always sees a state and the verdicts that belong before it together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use beepgrid::{DeliveryId, RequestId};
use tokio::sync::watch;

use super::Refusal;

/// Whether the host works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Takes the start of a turn.
    Idle,
    /// Works.
    Busy {
        /// Whether input can join the work at this moment.
        joinable: bool,
    },
}

/// Whose results `resume` can deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiters {
    /// The binding finds out when it is asked.
    Any,
    /// Only of these requests. Other results wait until somebody asks for them or the host is idle.
    Only(Arc<BTreeSet<RequestId>>),
}

/// The host as its binding last reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostState {
    /// Idle or busy.
    pub work: Work,
    /// Who waits for results.
    pub waiters: Waiters,
    /// Whether results that nobody waits for may join running work.
    pub results_join: bool,
    /// How many turns have ended.
    pub turn: u64,
    /// The runtime's session.
    pub session: Option<String>,
    /// The runtime's process.
    pub process: Option<String>,
    /// The runtime's name for the running turn.
    pub turn_id: Option<String>,
    /// Why the runtime can't take anything at all. While it is set, nothing is handed over and nothing is asked.
    pub trouble: Option<String>,
}

/// What the host says about an input that it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    Refused(Refusal),
    Lost,
}

struct Board {
    host: HostState,
    verdicts: BTreeMap<DeliveryId, Verdict>,
    interruptions: u64,
    /// The epoch of the last report that something taken is on its way back, or may be.
    returned: u64,
    on_stop: Option<Box<dyn FnOnce() + Send>>,
}

struct Shared {
    board: Mutex<Board>,
    /// Grows with every report; wakes the dispatcher.
    epoch: watch::Sender<u64>,
    /// The epoch up to which the dispatcher has nothing more to hand over.
    settled: watch::Sender<Settled>,
}

/// How far the dispatcher has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// `run` has not begun.
    NotRunning,
    /// Nothing more to hand over at this epoch.
    Up(u64),
    /// `run` has ended.
    Ended,
}

/// The line from a binding to its receiver. Cheap to clone; every call is short and never blocks.
#[derive(Clone)]
pub struct Reporter(Arc<Shared>);

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("host", &self.board().host).finish_non_exhaustive()
    }
}

/// One consistent look at the board.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) host: HostState,
    pub(crate) verdicts: Vec<(DeliveryId, Verdict)>,
    pub(crate) interruptions: u64,
    pub(crate) epoch: u64,
}

impl Reporter {
    pub(crate) fn new() -> Self {
        let host = HostState {
            work: Work::Idle,
            waiters: Waiters::Any,
            results_join: true,
            turn: 0,
            session: None,
            process: None,
            turn_id: None,
            trouble: None,
        };
        Self(Arc::new(Shared {
            board: Mutex::new(Board { host, verdicts: BTreeMap::new(), interruptions: 0, returned: 0, on_stop: None }),
            epoch: watch::Sender::new(0),
            settled: watch::Sender::new(Settled::NotRunning),
        }))
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        // A panic while the board was locked left it whole: every change is a plain assignment.
        self.0.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, change: impl FnOnce(&mut Board)) -> u64 {
        let mut board = self.board();
        change(&mut board);
        // Still under the lock: a snapshot never sees a report without its epoch.
        self.0.epoch.send_modify(|epoch| *epoch += 1);
        *self.0.epoch.borrow()
    }

    /// The host takes the start of a turn. Coming out of work this also ends the turn.
    pub fn idle(&self) {
        self.report(|board| {
            if board.host.work != Work::Idle {
                board.host.turn += 1;
            }
            board.host.work = Work::Idle;
            board.host.turn_id = None;
        });
    }

    /// The host works; `joinable` says whether input can join right now.
    pub fn busy(&self, joinable: bool) {
        self.busy_epoch(joinable);
    }

    pub(crate) fn busy_epoch(&self, joinable: bool) -> u64 {
        self.report(|board| board.host.work = Work::Busy { joinable })
    }

    /// A turn ended, and the host takes no new one yet.
    pub fn turn_ended(&self) {
        self.report(|board| {
            board.host.turn += 1;
            board.host.work = Work::Busy { joinable: false };
            board.host.turn_id = None;
        });
    }

    /// The runtime's name for the running turn; stored with each attempt.
    pub fn turn_id(&self, turn: impl Into<String>) {
        let turn = turn.into();
        self.report(|board| board.host.turn_id = Some(turn));
    }

    /// The runtime's session and process; stored with each attempt, so that `reconcile` can tell whether the process is still the same.
    pub fn session(&self, session: impl Into<String>, process: impl Into<String>) {
        let (session, process) = (session.into(), process.into());
        self.report(|board| {
            board.host.session = Some(session);
            board.host.process = Some(process);
        });
    }

    /// The runtime can't be reached, or can't work, for this reason: shown to people; until [`Self::reachable`] nothing is handed over, no
    /// attempt is counted and nothing is held for it.
    pub fn unreachable(&self, reason: impl Into<String>) {
        let reason = reason.into();
        if self.board().host.trouble.as_deref() != Some(&reason) {
            self.report(|board| board.host.trouble = Some(reason));
        }
    }

    /// The runtime can be reached again.
    pub fn reachable(&self) {
        if self.board().host.trouble.is_some() {
            self.report(|board| board.host.trouble = None);
        }
    }

    /// Who waits for results.
    pub fn waiters(&self, waiters: Waiters) {
        self.report(|board| board.host.waiters = waiters);
    }

    /// Whether results that nobody waits for may join running work; they may unless this says otherwise.
    pub fn results_join(&self, join: bool) {
        self.report(|board| board.host.results_join = join);
    }

    /// The runtime has this input for good.
    pub fn accepted(&self, id: &DeliveryId) {
        self.verdicts([(id.clone(), Verdict::Accepted)]);
    }

    /// The runtime took this input and certainly does not have it any more.
    pub fn refused(&self, id: &DeliveryId, refusal: Refusal) {
        self.verdicts([(id.clone(), Verdict::Refused(refusal))]);
    }

    /// The runtime took this input, and nobody knows whether it still has it: ask `reconcile`.
    pub fn lost(&self, id: &DeliveryId) {
        self.verdicts([(id.clone(), Verdict::Lost)]);
    }

    /// A turn was interrupted, or the runtime died: everything taken and not proven goes to `reconcile`.
    pub fn interrupted(&self) {
        self.report_return(|board| board.interruptions += 1);
    }

    /// A report after which what was decided before may be out of order.
    fn report_return(&self, change: impl FnOnce(&mut Board)) {
        self.report(|board| {
            change(board);
            board.returned = *self.0.epoch.borrow() + 1;
        });
    }

    /// Whether nothing was reported to come back since the report of this epoch.
    pub(crate) fn nothing_returned_since(&self, epoch: u64) -> bool {
        self.board().returned <= epoch
    }

    pub(crate) fn verdicts(&self, verdicts: impl IntoIterator<Item = (DeliveryId, Verdict)>) {
        let verdicts: Vec<(DeliveryId, Verdict)> = verdicts.into_iter().collect();
        let all_kept = verdicts.iter().all(|(_, verdict)| *verdict == Verdict::Accepted);
        let note = |board: &mut Board| {
            for (id, verdict) in verdicts {
                // Acceptance is final, whatever is said later.
                if board.verdicts.get(&id) != Some(&Verdict::Accepted) {
                    board.verdicts.insert(id, verdict);
                }
            }
        };
        if all_kept {
            self.report(note);
        } else {
            self.report_return(note);
        }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.0.epoch.subscribe()
    }

    #[cfg(feature = "checkpoint")]
    pub(crate) fn settled(&self) -> watch::Receiver<Settled> {
        self.0.settled.subscribe()
    }

    pub(crate) fn settle(&self, settled: Settled) {
        self.0.settled.send_if_modified(|now| {
            let changed = *now != settled;
            *now = settled;
            changed
        });
    }

    /// The state, and the verdicts on all inputs but those that `in_call` names: a verdict on an input whose call has not come back yet
    /// stays on the board.
    pub(crate) fn snapshot(&self, in_call: impl Fn(&DeliveryId) -> bool) -> Snapshot {
        let mut board = self.board();
        let (kept, taken) = std::mem::take(&mut board.verdicts).into_iter().partition(|(id, _)| in_call(id));
        board.verdicts = kept;
        let taken: BTreeMap<DeliveryId, Verdict> = taken;
        Snapshot {
            host: board.host.clone(),
            verdicts: taken.into_iter().collect(),
            interruptions: board.interruptions,
            epoch: *self.0.epoch.borrow(),
        }
    }

    /// Takes the verdict on an input off the board: it was about an earlier attempt, because the next one has not begun yet.
    pub(crate) fn take_verdict(&self, id: &DeliveryId) -> Option<Verdict> {
        self.board().verdicts.remove(id)
    }

    /// What the binding does when `run` ends: give back what the host has not fetched. Called once, before the last verdicts are read.
    pub fn on_stop(&self, give_back: impl FnOnce() + Send + 'static) {
        self.board().on_stop = Some(Box::new(give_back));
    }

    pub(crate) fn stop(&self) {
        let give_back = self.board().on_stop.take();
        if let Some(give_back) = give_back {
            give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acceptance_is_not_taken_back() {
        let line = Reporter::new();
        let id = DeliveryId::new("dlv_1");
        line.accepted(&id);
        line.refused(&id, Refusal::HandedBack);
        assert_eq!(line.snapshot(|_| false).verdicts, vec![(id.clone(), Verdict::Accepted)]);
        assert_eq!(line.snapshot(|_| false).verdicts, vec![]);
    }

    #[test]
    fn a_verdict_on_a_call_in_flight_waits_for_the_call() {
        let line = Reporter::new();
        let id = DeliveryId::new("dlv_1");
        line.accepted(&id);
        assert_eq!(line.snapshot(|_| true).verdicts, vec![]);
        assert_eq!(line.snapshot(|_| false).verdicts.len(), 1);
    }

    #[test]
    fn only_what_comes_back_makes_a_handover_outdated() {
        let line = Reporter::new();
        let decided = |line: &Reporter| line.snapshot(|_| true).epoch;
        let before = decided(&line);
        line.busy(true);
        line.accepted(&DeliveryId::new("dlv_1"));
        assert!(line.nothing_returned_since(before));
        for back in
            [|line: &Reporter| line.refused(&DeliveryId::new("dlv_2"), Refusal::NotNow), |line: &Reporter| line.interrupted()]
        {
            let before = decided(&line);
            back(&line);
            assert!(!line.nothing_returned_since(before));
            assert!(line.nothing_returned_since(decided(&line)));
        }
    }

    #[test]
    fn a_turn_ends_once_when_the_host_becomes_idle() {
        let line = Reporter::new();
        line.busy(true);
        line.idle();
        line.idle();
        assert_eq!(line.snapshot(|_| false).host.turn, 1);
    }
}
