//! Between receiver and host: what is handed over and not fetched yet, what was fetched and not accepted yet, who waits for results.
//!
//! One lock, never held across an await or code of the host. Reports to the receiver are made under it, so that they are in the order of what
//! happened.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use beepgrid::{DeliveryId, RequestId};
use tokio::sync::watch;

use crate::binding::{Handover, Refusal, Reporter, Settled, Verdict, Waiters};
use crate::input::{BusyMode, LiveInput};

/// Results of which the host may ask again although it got them as ordinary input.
const REMEMBERED: usize = 256;

/// What the host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not in a turn, not asking for one.
    Away,
    /// Inside `next`.
    Asking,
    /// In a turn, between boundaries.
    Working,
    /// In a turn, at a boundary: input can join.
    Boundary,
}

#[derive(Default)]
struct Waiter {
    hosts: usize,
    answer: Option<LiveInput>,
}

struct State {
    line: Option<Reporter>,
    stage: Stage,
    turn: u64,
    /// Handed over, and not fetched by the host.
    arrived: Vec<LiveInput>,
    /// Fetched, and neither accepted nor given back.
    outstanding: BTreeSet<DeliveryId>,
    waiters: BTreeMap<RequestId, Waiter>,
    remembered: VecDeque<LiveInput>,
}

pub(super) struct Desk {
    state: Mutex<State>,
    max_batch: usize,
    accept_on_take: bool,
    /// Grows with every change that a host may wait for.
    version: watch::Sender<u64>,
    attached: watch::Sender<u64>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("stage", &self.state().stage).finish_non_exhaustive()
    }
}

impl State {
    fn report(&self, report: impl FnOnce(&Reporter)) {
        if let Some(line) = &self.line {
            report(line);
        }
    }

    /// Ends the stay at a boundary or in `next`; what was not fetched goes back, unseen.
    fn leave(&mut self, stage: Stage) {
        self.stage = stage;
        let back: Vec<(DeliveryId, Verdict)> =
            std::mem::take(&mut self.arrived).into_iter().map(|input| (input.id, Verdict::Refused(Refusal::NotNow))).collect();
        if !back.is_empty() {
            self.report(|line| line.verdicts(back));
        }
        self.report(|line| line.busy(false));
    }

    fn publish_waiters(&self) {
        let requests: BTreeSet<RequestId> =
            self.waiters.iter().filter(|(_, waiter)| waiter.answer.is_none()).map(|(id, _)| id.clone()).collect();
        self.report(|line| line.waiters(Waiters::Only(Arc::new(requests))));
    }
}

impl Desk {
    pub(super) fn new(max_batch: usize, accept_on_take: bool) -> Self {
        let state = State {
            line: None,
            stage: Stage::Away,
            turn: 0,
            arrived: Vec::new(),
            outstanding: BTreeSet::new(),
            waiters: BTreeMap::new(),
            remembered: VecDeque::new(),
        };
        Self {
            state: Mutex::new(state),
            max_batch,
            accept_on_take,
            version: watch::Sender::new(0),
            attached: watch::Sender::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was locked left it whole: nothing in here calls foreign code.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    pub(super) fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// A new receiver takes over. What an earlier one handed over stays with the host.
    pub(super) fn attach(&self, line: Reporter) {
        let mut state = self.state();
        state.line = Some(line);
        match state.stage {
            Stage::Asking => state.report(Reporter::idle),
            Stage::Boundary => state.report(|line| line.busy(true)),
            Stage::Away | Stage::Working => state.report(|line| line.busy(false)),
        }
        state.publish_waiters();
        drop(state);
        self.attached.send_modify(|count| *count += 1);
        self.changed();
    }

    pub(super) fn attachments(&self) -> watch::Receiver<u64> {
        self.attached.subscribe()
    }

    /// How far the receiver has come; `None` before there is one.
    pub(super) fn settled(&self) -> Option<watch::Receiver<Settled>> {
        self.state().line.as_ref().map(Reporter::settled)
    }

    // The receiver's side.

    /// Puts an input before the host, if it stands where it can take one.
    pub(super) fn hand_over(&self, input: &LiveInput, to: &Handover) -> bool {
        let mut state = self.state();
        let taken = match state.stage {
            // What the host gave back meanwhile goes first. Reports are made under the lock that is held here.
            _ if !to.is_current() => false,
            Stage::Asking if state.arrived.is_empty() => {
                state.arrived.push(input.clone());
                // From here on the host works; nothing else may open a turn.
                state.report(|line| line.busy(false));
                true
            }
            Stage::Boundary if to.mode == BusyMode::Steer && state.arrived.len() < self.max_batch => {
                state.arrived.push(input.clone());
                if state.arrived.len() == self.max_batch {
                    state.report(|line| line.busy(false));
                }
                true
            }
            _ => false,
        };
        drop(state);
        if taken {
            self.changed();
        }
        taken
    }

    /// Gives a result to whoever waits for it.
    pub(super) fn answer(&self, input: &LiveInput) -> bool {
        let mut state = self.state();
        let waiter = input.request_id().and_then(|request| state.waiters.get_mut(request));
        let Some(waiter) = waiter.filter(|waiter| waiter.answer.is_none()) else { return false };
        waiter.answer = Some(input.clone());
        state.publish_waiters();
        drop(state);
        self.changed();
        true
    }

    pub(super) fn is_outstanding(&self, id: &DeliveryId) -> bool {
        let state = self.state();
        state.outstanding.contains(id)
            || state.arrived.iter().any(|input| input.id == *id)
            || state.waiters.values().any(|waiter| waiter.answer.as_ref().is_some_and(|input| input.id == *id))
    }

    /// The receiver ends: what nobody fetched goes back.
    pub(super) fn give_back(&self) {
        let mut state = self.state();
        let answers: Vec<LiveInput> = state.waiters.values_mut().filter_map(|waiter| waiter.answer.take()).collect();
        let back = std::mem::take(&mut state.arrived).into_iter().chain(answers);
        let back: Vec<(DeliveryId, Verdict)> = back.map(|input| (input.id, Verdict::Refused(Refusal::NotNow))).collect();
        state.report(|line| line.verdicts(back));
        drop(state);
        self.changed();
    }

    // The host's side.

    /// Stands at a boundary from now on; returns the epoch of that report, by which the receiver's answer is known.
    pub(super) fn open_window(&self) -> Option<u64> {
        let mut state = self.state();
        state.stage = Stage::Boundary;
        state.line.as_ref().map(|line| line.busy_epoch(true))
    }

    /// What has been handed over at the boundary. Leaves it, or stays for more.
    pub(super) fn fetch(&self, stay: bool) -> Vec<LiveInput> {
        let mut state = self.state();
        let inputs = std::mem::take(&mut state.arrived);
        self.note_fetched(&mut state, &inputs);
        if stay {
            if inputs.len() == self.max_batch {
                state.report(|line| line.busy(true));
            }
        } else {
            state.leave(Stage::Working);
        }
        inputs
    }

    /// Goes away from the boundary without looking; what was handed over goes back.
    pub(super) fn close_window(&self) {
        let mut state = self.state();
        if state.stage == Stage::Boundary {
            state.leave(Stage::Working);
        }
    }

    /// Asks for the start of a turn. A turn that was not ended ends here.
    pub(super) fn ask(&self) {
        let mut state = self.state();
        if matches!(state.stage, Stage::Working | Stage::Boundary) {
            state.leave(Stage::Away);
        }
        if state.stage == Stage::Away {
            state.stage = Stage::Asking;
            state.report(Reporter::idle);
        }
    }

    /// The input that opens the turn, if one has come.
    pub(super) fn begin(&self) -> Option<(LiveInput, u64)> {
        let mut state = self.state();
        if state.stage != Stage::Asking {
            return None;
        }
        let input = state.arrived.pop()?;
        state.stage = Stage::Working;
        state.turn += 1;
        self.note_fetched(&mut state, std::slice::from_ref(&input));
        Some((input, state.turn))
    }

    /// The host no longer asks.
    pub(super) fn stop_asking(&self) {
        let mut state = self.state();
        if state.stage == Stage::Asking {
            state.leave(Stage::Away);
        }
    }

    /// Ends a turn, unless another began meanwhile.
    pub(super) fn end(&self, turn: u64) {
        let mut state = self.state();
        if state.turn == turn && matches!(state.stage, Stage::Working | Stage::Boundary) {
            state.leave(Stage::Away);
            state.report(Reporter::turn_ended);
        }
    }

    fn note_fetched(&self, state: &mut State, inputs: &[LiveInput]) {
        if inputs.is_empty() {
            return;
        }
        if self.accept_on_take {
            Self::note_accepted(state, inputs);
        } else {
            state.outstanding.extend(inputs.iter().map(|input| input.id.clone()));
        }
    }

    fn note_accepted(state: &mut State, inputs: &[LiveInput]) {
        for input in inputs {
            state.outstanding.remove(&input.id);
            if input.is_result() {
                state.remembered.push_back(input.clone());
            }
        }
        while state.remembered.len() > REMEMBERED {
            state.remembered.pop_front();
        }
        let verdicts: Vec<_> = inputs.iter().map(|input| (input.id.clone(), Verdict::Accepted)).collect();
        state.report(|line| line.verdicts(verdicts));
    }

    /// The host has these for good.
    pub(super) fn accept(&self, inputs: &[LiveInput]) {
        let mut state = self.state();
        Self::note_accepted(&mut state, inputs);
        drop(state);
        self.changed();
    }

    /// The host drops these without having kept them.
    pub(super) fn hand_back(&self, inputs: &[LiveInput]) {
        let mut state = self.state();
        let mut verdicts = Vec::new();
        for input in inputs {
            if state.outstanding.remove(&input.id) {
                verdicts.push((input.id.clone(), Verdict::Refused(Refusal::HandedBack)));
            }
        }
        if !verdicts.is_empty() {
            state.report(|line| line.verdicts(verdicts));
        }
    }

    pub(super) fn wait_for(&self, request: &RequestId) {
        let mut state = self.state();
        state.waiters.entry(request.clone()).or_default().hosts += 1;
        state.publish_waiters();
    }

    /// The result, if it has come: fresh, or one that the host has accepted before. The flag says whether it needs accepting.
    pub(super) fn take_answer(&self, request: &RequestId) -> Option<(LiveInput, bool)> {
        let mut state = self.state();
        if let Some(known) = state.remembered.iter().find(|input| input.request_id() == Some(request)) {
            return Some((known.clone(), false));
        }
        let input = state.waiters.get_mut(request)?.answer.take()?;
        self.note_fetched(&mut state, std::slice::from_ref(&input));
        Some((input, !self.accept_on_take))
    }

    /// The host no longer waits; a result that it did not fetch goes back.
    pub(super) fn stop_waiting(&self, request: &RequestId) {
        let mut state = self.state();
        let Some(waiter) = state.waiters.get_mut(request) else { return };
        waiter.hosts = waiter.hosts.saturating_sub(1);
        if waiter.hosts == 0 {
            let answer = state.waiters.remove(request).and_then(|waiter| waiter.answer);
            if let Some(input) = answer {
                state.report(|line| line.refused(&input.id, Refusal::NotNow));
            }
        }
        state.publish_waiters();
    }
}
