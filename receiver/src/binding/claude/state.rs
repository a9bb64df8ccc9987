//! What the binding knows about its session: the process, the turn, what is on its way, who waits.
//!
//! One lock, never held across an await. Reports to the receiver are made under it, so that they are in the order of what happened.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use beepgrid::{DeliveryId, RequestId};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use super::mcp;
use super::transcript::Wanted;
use super::wire::{self, Life, Priority, Record, Working};
use crate::binding::{Refusal, Reporter, Waiters};
use crate::input::{BusyMode, LiveInput};

/// Results of which the agent may ask again although it got them as ordinary input.
const REMEMBERED: usize = 256;
/// How long after the end of its turn an input may be missing in the transcript before that means something.
const SETTLE: Duration = Duration::from_secs(3);
/// New ids for an input that Claude cancelled so often.
const ROUNDS: u32 = 64;

/// How far an input has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Written,
    Queued,
    Echoed,
    Started,
    Completed,
}

struct Sent {
    id: DeliveryId,
    priority: Priority,
    stage: Stage,
    at: Instant,
}

/// A result given to a waiting tool call.
struct Answered {
    id: DeliveryId,
    tool_call: String,
    heard: bool,
}

/// A tool call that waits for a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// The question of Claude's that carries it.
    pub(super) ask: String,
    /// The call's number inside.
    pub(super) rpc: Value,
    /// The call's name in the session.
    pub(super) tool_call: String,
}

impl Waiting {
    /// The line that lets the call return.
    fn answer(&self, text: &str) -> Vec<u8> {
        wire::reply(&self.ask, &Ok(mcp::said(&self.rpc, text, false)))
    }
}

/// Where an input is that is not proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// In Claude's queue.
    Waiting,
    /// Taken in, and about to be in the transcript.
    Moving,
    /// Not with this process, or not any more.
    Nowhere,
}

/// What became of an input that is to go out.
pub(super) enum Going {
    /// This is to be written.
    Out(Uuid, Vec<u8>),
    /// It is on its way already.
    Already(Uuid),
    Not(Refusal),
}

#[derive(Default)]
pub(super) struct State {
    pub(super) line: Option<Reporter>,
    pub(super) session: String,
    /// The process that takes input, while there is one.
    pub(super) process: Option<String>,
    pub(super) outbox: Option<mpsc::Sender<Vec<u8>>>,
    /// Why there is no process.
    trouble: Option<String>,
    busy: bool,
    turn: Option<String>,
    turns: u64,
    /// This version of Claude says by itself when it is idle.
    reports_idle: bool,
    idle_since: Option<Instant>,
    sent: BTreeMap<Uuid, Sent>,
    /// Ids that this process will only echo.
    spent: BTreeSet<Uuid>,
    answered: Vec<Answered>,
    waiting: BTreeMap<RequestId, Vec<Waiting>>,
    remembered: VecDeque<(RequestId, String)>,
}

impl State {
    fn report(&self, report: impl FnOnce(&Reporter)) {
        if let Some(line) = &self.line {
            report(line);
        }
    }

    /// Nothing known yet.
    pub(super) fn new(session: String) -> Self {
        Self { session, ..Self::default() }
    }

    /// A receiver takes over; it hears how things stand.
    pub(super) fn attach(&mut self, line: Reporter) {
        self.line = Some(line);
        if let Some(process) = &self.process {
            self.report(|line| line.session(&self.session, process));
        }
        self.report_work();
        self.report_waiters();
    }

    fn report_work(&self) {
        match (&self.process, self.busy) {
            (None, _) => {
                self.report(|line| line.unreachable(self.trouble.as_deref().unwrap_or("Claude is being started")));
                self.report(|line| line.busy(false));
            }
            (Some(_), false) => self.report(Reporter::idle),
            (Some(_), true) => {
                self.report(|line| line.busy(true));
                if let Some(turn) = &self.turn {
                    self.report(|line| line.turn_id(turn));
                }
            }
        }
    }

    fn report_waiters(&self) {
        let requests: BTreeSet<RequestId> = self.waiting.keys().cloned().collect();
        self.report(|line| line.waiters(Waiters::Only(Arc::new(requests))));
    }

    /// A process is ready for input.
    pub(super) fn up(&mut self, process: String, outbox: mpsc::Sender<Vec<u8>>, working: Working) {
        self.report(|line| line.session(&self.session, &process));
        self.process = Some(process);
        self.outbox = Some(outbox);
        self.busy = working == Working::Running;
        self.idle_since = (!self.busy).then(Instant::now);
        self.report_work();
        self.report(Reporter::reachable);
    }

    /// The process is gone, and with it all that it had in memory.
    pub(super) fn down(&mut self, why: Option<String>) {
        self.trouble = why.map(|why| format!("Claude is down: {why}"));
        (self.process, self.outbox, self.turn) = (None, None, None);
        (self.busy, self.reports_idle, self.idle_since) = (false, false, None);
        self.sent.clear();
        self.spent.clear();
        self.answered.clear();
        self.waiting.clear();
        self.report_work();
        self.report_waiters();
        self.report(Reporter::interrupted);
    }

    // Inputs.

    pub(super) fn send(&mut self, input: &LiveInput, mode: BusyMode, expected: Option<&str>, waits_yield: bool) -> Going {
        if let Some((uuid, _)) = self.sent.iter().find(|(_, sent)| sent.id == input.id) {
            return Going::Already(*uuid);
        }
        let Some(uuid) = (0..ROUNDS).map(|round| wire::input_uuid(&input.id, round)).find(|uuid| !self.spent.contains(uuid))
        else {
            return Going::Not(Refusal::Rejected("Claude cancelled it again and again".to_owned()));
        };
        let priority = match mode {
            BusyMode::Queue if self.busy => return Going::Not(Refusal::NotNow),
            BusyMode::Queue => Priority::Later,
            BusyMode::Steer => {
                if expected.is_some() && expected != self.turn.as_deref() {
                    return Going::Not(Refusal::TurnEnded);
                }
                // What joins the turn would overtake it.
                if self.sent.values().any(|sent| sent.priority == Priority::Later && sent.stage < Stage::Started) {
                    return Going::Not(Refusal::NotNow);
                }
                Priority::Next
            }
        };
        let text = crate::frame::frame(input, None);
        let mut line = wire::user(&self.session, uuid, &text, Some(priority));
        self.sent.insert(uuid, Sent { id: input.id.clone(), priority, stage: Stage::Written, at: Instant::now() });
        self.remember(input, text);
        if !self.busy {
            self.set_busy();
        }
        if waits_yield && mode == BusyMode::Steer {
            // After the input, so that it is there when the calls return.
            line.extend(self.call_back());
        }
        Going::Out(uuid, line)
    }

    /// Lets all waiting calls return without a result.
    fn call_back(&mut self) -> Vec<u8> {
        let mut lines = Vec::new();
        let waiting = std::mem::take(&mut self.waiting);
        for (request, calls) in &waiting {
            lines.extend(calls.iter().flat_map(|call| call.answer(&mcp::come_back(request))));
        }
        if !waiting.is_empty() {
            self.report_waiters();
        }
        lines
    }

    fn remember(&mut self, input: &LiveInput, text: String) {
        if let (true, Some(request)) = (input.is_result(), input.request_id()) {
            self.remembered.push_back((request.clone(), text));
            if self.remembered.len() > REMEMBERED {
                self.remembered.pop_front();
            }
        }
    }

    fn set_busy(&mut self) {
        (self.busy, self.idle_since) = (true, None);
        if self.turn.is_none() {
            self.turns += 1;
            self.turn = Some(format!("{}.{}", self.process.as_deref().unwrap_or_default(), self.turns));
        }
        self.report_work();
    }

    // Waiting calls.

    /// A tool call wants a result: the result, if it has come already.
    pub(super) fn wait(&mut self, request: RequestId, call: Waiting) -> Option<String> {
        if let Some((_, text)) = self.remembered.iter().rev().find(|(known, _)| *known == request) {
            return Some(text.clone());
        }
        self.waiting.entry(request).or_default().push(call);
        self.report_waiters();
        None
    }

    /// Claude no longer waits for the answer to this question, or to the call with this number.
    pub(super) fn stop_waiting(&mut self, gone: impl Fn(&Waiting) -> bool) {
        let before = self.waiting.len();
        for calls in self.waiting.values_mut() {
            calls.retain(|call| !gone(call));
        }
        self.waiting.retain(|_, calls| !calls.is_empty());
        if self.waiting.len() != before {
            self.report_waiters();
        }
    }

    /// Takes out who waits for this result: the call that will prove it, and what is to be written.
    pub(super) fn answer(&mut self, input: &LiveInput) -> Option<(String, Vec<u8>)> {
        let calls = self.waiting.remove(input.request_id()?)?;
        let tool_call = calls.first()?.tool_call.clone();
        let text = crate::frame::frame(input, None);
        let lines = calls.iter().flat_map(|call| call.answer(&text)).collect();
        self.answered.push(Answered { id: input.id.clone(), tool_call: tool_call.clone(), heard: false });
        self.remember(input, text);
        self.report_waiters();
        Some((tool_call, lines))
    }

    // What Claude says.

    /// Takes in a record. Returns whether the transcript is worth a look.
    pub(super) fn hear(&mut self, record: &Record) -> bool {
        match record {
            Record::Init { session } => {
                if let Some(session) = session.as_ref().filter(|session| **session != self.session) {
                    self.session.clone_from(session);
                    if let Some(process) = &self.process {
                        self.report(|line| line.session(&self.session, process));
                    }
                }
                self.work(Working::Running)
            }
            Record::State(working) => {
                self.reports_idle = true;
                self.work(*working)
            }
            Record::Assistant if !self.busy && !self.reports_idle => self.work(Working::Running),
            Record::TurnOver => {
                self.turn = None;
                let waits = self.sent.values().any(|sent| sent.stage <= Stage::Queued);
                if !self.reports_idle && !waits { self.work(Working::Idle) } else { true }
            }
            Record::Life(uuid, Life::Ended) => self.ended(uuid),
            Record::Life(uuid, Life::Queued) => self.stage(uuid, Stage::Queued),
            Record::Life(uuid, Life::Started) => self.stage(uuid, Stage::Started),
            Record::Life(uuid, Life::Completed) => self.stage(uuid, Stage::Completed),
            Record::Replay(uuid) => self.stage(uuid, Stage::Echoed),
            Record::ToolResults(calls) => {
                let mut any = false;
                for answered in self.answered.iter_mut().filter(|answered| calls.contains(&answered.tool_call)) {
                    (answered.heard, any) = (true, true);
                }
                any
            }
            _ => false,
        }
    }

    fn work(&mut self, working: Working) -> bool {
        match working {
            Working::Running if !self.busy || self.turn.is_none() => {
                self.set_busy();
                false
            }
            Working::Running => false,
            Working::Idle => {
                // An input written a moment ago makes it busy again at once; what Claude says then is about the time before.
                let on_its_way = self.sent.values().any(|sent| sent.stage == Stage::Written);
                if self.busy && !on_its_way {
                    (self.busy, self.turn) = (false, None);
                    self.idle_since = Some(Instant::now());
                    self.report_work();
                }
                true
            }
        }
    }

    fn stage(&mut self, uuid: &Uuid, stage: Stage) -> bool {
        let Some(sent) = self.sent.get_mut(uuid) else { return false };
        sent.stage = sent.stage.max(stage);
        sent.at = Instant::now();
        let opens = stage == Stage::Started && sent.priority == Priority::Later;
        if stage == Stage::Started && self.turn.is_none() {
            self.set_busy();
        } else if opens {
            // What was refused because it would have overtaken this one may go now.
            self.report_work();
        }
        stage != Stage::Queued
    }

    /// Claude will not run it. Whether it took it before, the transcript says.
    fn ended(&mut self, uuid: &Uuid) -> bool {
        let Some(sent) = self.sent.remove(uuid) else { return false };
        self.spent.insert(*uuid);
        self.report(|line| line.lost(&sent.id));
        true
    }

    // Proof.

    /// What to look for in the transcript, if there is a reason to look.
    pub(super) fn wanted(&self) -> Vec<Wanted> {
        let idle = self.idle_since.is_some();
        let moved = self.sent.values().any(|sent| sent.stage > Stage::Queued)
            || self.answered.iter().any(|answered| answered.heard || idle);
        if !moved {
            return Vec::new();
        }
        let inputs = self.sent.iter().map(|(uuid, sent)| Wanted { id: sent.id.clone(), uuids: vec![*uuid], tool_call: None });
        let results = self.answered.iter().map(|answered| Wanted {
            id: answered.id.clone(),
            uuids: Vec::new(),
            tool_call: Some(answered.tool_call.clone()),
        });
        inputs.chain(results).collect()
    }

    pub(super) fn proven(&mut self, found: &BTreeSet<DeliveryId>) {
        self.sent.retain(|_, sent| !found.contains(&sent.id));
        self.answered.retain(|answered| !found.contains(&answered.id));
        for id in found {
            self.report(|line| line.accepted(id));
        }
    }

    /// Settles what should be in the transcript by now and is not.
    pub(super) fn settle(&mut self) {
        if self.idle_since.is_none_or(|since| since.elapsed() < SETTLE) {
            return;
        }
        let (over, sent) = std::mem::take(&mut self.sent)
            .into_iter()
            .partition(|(_, sent)| sent.stage > Stage::Queued && sent.at.elapsed() >= SETTLE);
        self.sent = sent;
        let over: BTreeMap<Uuid, Sent> = over;
        for (uuid, sent) in over {
            if sent.stage == Stage::Completed {
                // The model has answered it: it was taken, whatever is on disk.
                tracing::warn!(input = %sent.id, "answered, but not in the transcript; is the folder of the transcripts right?");
                self.report(|line| line.accepted(&sent.id));
            } else {
                self.spent.insert(uuid);
                self.report(|line| line.lost(&sent.id));
            }
        }
        for answered in std::mem::take(&mut self.answered) {
            self.report(|line| line.lost(&answered.id));
        }
    }

    /// Where the present process has an input that is not proven.
    pub(super) fn whereabouts(&self, id: &DeliveryId) -> Whereabouts {
        let idle = self.idle_since.is_some();
        if let Some(sent) = self.sent.values().find(|sent| sent.id == *id) {
            return if idle || sent.stage > Stage::Queued { Whereabouts::Moving } else { Whereabouts::Waiting };
        }
        match self.answered.iter().find(|answered| answered.id == *id) {
            Some(answered) if idle || answered.heard => Whereabouts::Moving,
            Some(_) => Whereabouts::Waiting,
            None => Whereabouts::Nowhere,
        }
    }

    /// Since when an input was written without any sign that Claude has read it.
    pub(super) fn unheard_since(&self) -> Option<Instant> {
        // Older versions of Claude say nothing until they take an input in.
        if !self.reports_idle {
            return None;
        }
        self.sent.values().filter(|sent| sent.stage == Stage::Written).map(|sent| sent.at).min()
    }
}
