//! The agent's runtime: a process with a memory that dies with it and a history that does not. It may answer late, never or with a refusal,
//! take and lose, be interrupted, die and come back; but it never lies to `reconcile`.

use std::collections::BTreeSet;

use beepgrid::RequestId;
use beepgrid_receiver::binding::Waiters;
use beepgrid_receiver::{BusyMode, Evidence, Refusal, Reporter, Submission};

use crate::engine::Kind;
use crate::world::World;

/// How an input comes in.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    Input(BusyMode, Option<String>),
    Resume,
}

/// What comes back over the wire.
#[derive(Debug)]
pub(crate) enum Reply {
    Say(Submission),
    /// The process took it or not, and says nothing.
    Never,
    /// The process is gone.
    Gone,
}

/// Written to the process and not read by it yet.
#[derive(Debug)]
pub(crate) struct OnWire {
    pub(crate) ticket: u64,
    pub(crate) row: u16,
    /// Something earlier came back since it was written.
    outdated: bool,
}

impl OnWire {
    pub(crate) fn new(ticket: u64, row: u16) -> Self {
        Self { ticket, row, outdated: false }
    }
}

pub(crate) struct Runtime {
    pub(crate) alive: bool,
    pub(crate) process: u32,
    pub(crate) busy: bool,
    pub(crate) joinable: bool,
    turn: u32,
    /// Taken, and gone if the process dies.
    pub(crate) memory: Vec<u16>,
    /// In the model's context for good, in order.
    pub(crate) history: Vec<u16>,
    /// Written to the process and not read by it yet.
    pub(crate) wire: Vec<OnWire>,
    pub(crate) tickets: u64,
    /// Requests of its own whose results the running turn waits for.
    pub(crate) awaiting: BTreeSet<u64>,
    line: Option<(u32, Reporter)>,
    /// Calls of `submit` under way in this life.
    pub(crate) submits: u32,
}

impl Runtime {
    pub(crate) fn new() -> Self {
        Self {
            alive: true,
            process: 1,
            busy: false,
            joinable: true,
            turn: 0,
            memory: Vec::new(),
            history: Vec::new(),
            wire: Vec::new(),
            tickets: 0,
            awaiting: BTreeSet::new(),
            line: None,
            submits: 0,
        }
    }

    /// Whether an input is in the process, in its history, or on its way there.
    pub(crate) fn may_have(&self, row: u16) -> bool {
        self.has(row) || self.wire.iter().any(|written| written.row == row)
    }

    fn has(&self, row: u16) -> bool {
        self.history.contains(&row) || self.memory.contains(&row)
    }
}

impl World {
    /// Tells the receiver that runs, if one does.
    fn report(&self, report: impl FnOnce(&Reporter)) {
        if let Some((life, line)) = &self.runtime.line
            && !self.is_dead(*life)
        {
            report(line);
        }
    }

    fn report_work(&self) {
        if !self.profile.able.reports_idle {
            return;
        }
        if !self.runtime.busy {
            return self.report(Reporter::idle);
        }
        self.report(|line| line.busy(self.runtime.joinable));
        if self.profile.able.turn_identity {
            self.report(|line| line.turn_id(self.turn_name()));
        }
    }

    fn report_waiters(&self) {
        if self.profile.names_waiters {
            let requests: BTreeSet<RequestId> =
                self.runtime.awaiting.iter().map(|request| RequestId::new(format!("own_{request}"))).collect();
            self.report(|line| line.waiters(Waiters::Only(requests.into())));
        }
    }

    fn turn_name(&self) -> String {
        format!("turn-{}", self.runtime.turn)
    }

    /// A new receiver connects.
    pub(crate) fn attach(&mut self, life: u32, reporter: Reporter) {
        self.runtime.line = Some((life, reporter));
        self.runtime.submits = 0;
        self.report_process();
    }

    fn report_process(&mut self) {
        if self.runtime.alive {
            let process = format!("process-{}", self.runtime.process);
            self.report(|line| {
                line.session("session", process);
                line.reachable();
            });
            if self.runtime.busy {
                self.report_work();
            }
            self.report_waiters();
        } else if self.profile.says_unreachable {
            self.report(|line| line.unreachable("it does not run"));
        } else if self.profile.able.reports_idle {
            self.report(|line| line.busy(false));
        }
    }

    pub(crate) fn die(&mut self) {
        let runtime = &mut self.runtime;
        if !runtime.alive {
            return;
        }
        runtime.alive = false;
        runtime.process += 1;
        runtime.busy = false;
        runtime.joinable = true;
        runtime.memory.clear();
        runtime.wire.clear();
        runtime.awaiting.clear();
        self.note("the runtime dies", 0, 0);
        self.report(Reporter::interrupted);
        self.report_process();
    }

    pub(crate) fn revive(&mut self) {
        if !self.runtime.alive {
            self.runtime.alive = true;
            self.note("the runtime runs again", 0, 0);
            self.report_process();
            self.report_work();
        }
    }

    /// What a row is, also if a restored engine has forgotten it.
    fn kind(&self, row: u16) -> Option<Kind> {
        self.kinds.get(usize::from(row) - 1).copied()
    }

    /// The user gives it work of its own.
    pub(crate) fn begin(&mut self) {
        if self.runtime.alive && !self.runtime.busy {
            self.start_turn();
        }
    }

    fn start_turn(&mut self) {
        self.runtime.busy = true;
        self.runtime.joinable = true;
        self.runtime.turn += 1;
        self.note("a turn begins", 0, i64::from(self.runtime.turn));
        self.report_work();
    }

    /// Lets input join, or not at the moment.
    pub(crate) fn set_joinable(&mut self, joinable: bool) {
        if self.runtime.busy {
            self.runtime.joinable = joinable;
            self.report_work();
        }
    }

    /// The running turn asks somebody and waits for the result.
    pub(crate) fn wait_for(&mut self, request: u64) {
        self.runtime.awaiting.insert(request);
        self.note("the turn waits", 0, i64::try_from(request).unwrap());
        self.report_waiters();
    }

    /// The person who discards a result tells the turn that waits for it.
    pub(crate) fn stop_waiting_for(&mut self, row: u16) {
        if let Some(Kind::Result(request)) = self.kind(row) {
            self.runtime.awaiting.remove(&request);
            self.report_waiters();
        }
    }

    /// Whether the turn waits for a result that a restored engine has forgotten.
    pub(crate) fn waits_for_nothing(&self) -> bool {
        let comes = |request| {
            let places = (1_u16..).zip(&self.kinds).filter(|(_, kind)| **kind == Kind::Result(request));
            places.into_iter().any(|(place, _)| self.item(place).is_some() || self.stored.contains(&place))
        };
        self.runtime.awaiting.iter().any(|request| !comes(*request))
    }

    /// Writes down what it took, and proves it. The proof of some may get lost; the ids come back.
    pub(crate) fn keep(&mut self) {
        for row in std::mem::take(&mut self.runtime.memory) {
            self.runtime.history.push(row);
            self.note("kept", row, 0);
            let rate = self.profile.runtime_faults;
            if self.fault(rate) {
                self.note("the proof is lost", row, 0);
            } else {
                self.report(|line| line.accepted(&format!("d{row:04}").into()));
            }
        }
    }

    /// Ends the turn, unless it waits for a result.
    pub(crate) fn end_turn(&mut self) {
        if !self.runtime.alive || !self.runtime.busy || !self.runtime.awaiting.is_empty() {
            return;
        }
        let early = self.numbers.percent(50);
        if early {
            self.keep();
        }
        self.runtime.busy = false;
        self.note("the turn ends", 0, i64::from(self.runtime.turn));
        self.report_work();
        self.keep();
    }

    fn something_returns(&mut self) {
        for written in &mut self.runtime.wire {
            written.outdated = true;
        }
    }

    /// A person stops the turn: what was only in memory is gone.
    pub(crate) fn interrupt(&mut self) {
        if self.runtime.alive && self.runtime.busy {
            self.something_returns();
            self.runtime.memory.clear();
            self.runtime.awaiting.clear();
            self.runtime.busy = false;
            self.note("interrupted", 0, 0);
            self.report_waiters();
            self.report(Reporter::interrupted);
            self.report_work();
        }
    }

    /// While an answer is on its way.
    pub(crate) fn something_happens_meanwhile(&mut self) {
        let rate = self.profile.runtime_faults;
        if !self.fault(rate / 2) {
            return;
        }
        match self.numbers.below(3) {
            0 => self.interrupt(),
            1 => self.give_back(),
            _ => self.end_turn(),
        }
    }

    /// What was taken last is given back, or forgotten in a way that the binding notices.
    pub(crate) fn give_back(&mut self) {
        let Some(row) = self.runtime.memory.pop() else { return };
        self.something_returns();
        let how = self.numbers.below(3);
        self.note("given back", row, i64::try_from(how).unwrap());
        self.report(|line| {
            let id = format!("d{row:04}").into();
            match how {
                0 => line.refused(&id, Refusal::HandedBack),
                1 => line.refused(&id, Refusal::NotNow),
                _ => line.lost(&id),
            }
        });
    }

    /// Something that was written to the process is read by it.
    pub(crate) fn arrive(&mut self, ticket: u64, row: u16, way: &Way) -> Reply {
        let Some(place) = self.runtime.wire.iter().position(|written| written.ticket == ticket) else { return Reply::Gone };
        let written = self.runtime.wire.remove(place);
        if written.outdated && self.profile.able.ordered && !matches!(way, Way::Resume) {
            self.note("refused, what came back goes first", row, 0);
            return Reply::Say(Submission::Refused(Refusal::NotNow));
        }
        let rate = self.profile.runtime_faults;
        if self.kind(row) == Some(Kind::Poison) || self.fault(rate / 2) {
            self.note("rejected", row, 0);
            return Reply::Say(Submission::Refused(Refusal::Rejected("not today".to_owned())));
        }
        if self.fault(rate / 3) {
            self.note("swallowed", row, 0);
            return Reply::Never;
        }
        let refusal = match way {
            Way::Resume => self.refuses_result(row),
            Way::Input(mode, expected) => self.refuses_input(*mode, expected.as_deref()),
        };
        if let Some(refusal) = refusal {
            self.note("refused", row, 0);
            return Reply::Say(Submission::Refused(refusal));
        }
        let taken = self.take(row, way);
        if self.fault(rate) { Reply::Never } else { Reply::Say(taken) }
    }

    fn refuses_result(&mut self, row: u16) -> Option<Refusal> {
        let Some(Kind::Result(request)) = self.kind(row) else { return Some(Refusal::NoWaiter) };
        if self.runtime.awaiting.remove(&request) {
            self.report_waiters();
            return None;
        }
        Some(Refusal::NoWaiter)
    }

    fn refuses_input(&self, mode: BusyMode, expected: Option<&str>) -> Option<Refusal> {
        let able = self.profile.able;
        match (mode, self.runtime.busy) {
            (BusyMode::Queue, true) if !able.durable_queue => Some(Refusal::NotNow),
            (BusyMode::Steer, false) if !able.steer_starts => Some(Refusal::TurnEnded),
            (BusyMode::Steer, true) if able.reports_idle && !self.runtime.joinable => Some(Refusal::NotNow),
            (BusyMode::Steer, true) if expected.is_some_and(|turn| turn != self.turn_name()) => Some(Refusal::TurnEnded),
            _ => None,
        }
    }

    fn take(&mut self, row: u16, way: &Way) -> Submission {
        if self.runtime.has(row) {
            if self.profile.able.deduplicates {
                self.note("recognised", row, 0);
                let kept = self.runtime.history.contains(&row);
                return if kept { Submission::Accepted } else { Submission::Taken(Evidence::none()) };
            }
            self.wrong(format!("d{row:04} reached the runtime twice"));
        }
        if self.discarded.contains(&row) {
            self.wrong(format!("d{row:04} was discarded by a person and handed over all the same"));
        }
        let resumed = matches!(way, Way::Resume);
        if !self.runtime.busy && !resumed {
            self.start_turn();
        }
        if self.profile.writes_first {
            self.runtime.history.push(row);
            self.note("written down", row, 0);
            return Submission::Accepted;
        }
        self.runtime.memory.push(row);
        self.note("taken", row, 0);
        let native = format!("native-{row}-{}", self.runtime.tickets);
        Submission::Taken(if self.numbers.percent(80) { Evidence::none().native_id(native) } else { Evidence::none() })
    }
}
