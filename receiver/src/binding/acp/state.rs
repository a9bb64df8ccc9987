//! What the binding knows about its session: the process, the turn, what is on its way, what the history holds.
//!
//! One lock, never held across an await. Reports to the receiver are made under it, so that they are in the order of what happened.

use std::collections::{BTreeSet, VecDeque};

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::{self as acp};
use beepgrid::DeliveryId;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::options::Steering;
use super::wire::{Agent, Ends, Steered, Update};
use crate::binding::link;
use crate::binding::{Reconciled, Refusal, Reporter};
use crate::input::StoredInput;

/// Inputs that are remembered as proven.
const REMEMBERED: usize = 1_024;
/// JSON-RPC's and the protocol's codes that mean that nothing was done.
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const INVALID_REQUEST: i32 = -32600;
const AUTH_REQUIRED: i32 = -32000;

pub(super) type Connection = ConnectionTo<acp::Agent>;

/// Our own outstanding `session/prompt`: while there is one, the agent is at work.
pub(super) struct Turn {
    name: String,
    /// The input that began it, unless the host's user did.
    input: Option<DeliveryId>,
    /// The agent was seen at work on it.
    worked: bool,
    /// Fires when the host cancels the turn.
    pub(super) cancelled: CancellationToken,
}

/// A steer in the agent's memory, as far as we know.
struct OnTheWay {
    id: DeliveryId,
    /// The agent's own id for it.
    message: Option<String>,
    /// The agent said that it has it.
    injected: bool,
    /// It began a turn of its own.
    alone: bool,
}

/// What the history that the agent replayed says.
#[derive(Debug, Default)]
pub(super) enum History {
    /// Nothing is known: it can't be replayed.
    #[default]
    Unknown,
    /// These deliveries are in it.
    Holds(BTreeSet<String>),
}

/// What `reconcile` can say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Known(Reconciled),
    /// Only a fresh replay can tell.
    ReadBack,
}

#[derive(Default)]
pub(super) struct State {
    line: Option<Reporter>,
    pub(super) session: Option<String>,
    process: Option<String>,
    pub(super) connection: Option<Connection>,
    trouble: Option<String>,
    agent: Option<Agent>,
    turn: Option<Turn>,
    turns: u64,
    /// goose: the run that takes steers.
    run: Option<String>,
    steers: Vec<OnTheWay>,
    /// This process may have them, and their turn is over.
    doubtful: BTreeSet<DeliveryId>,
    /// What this process was last found to have for good.
    proven: VecDeque<DeliveryId>,
    ends: Ends,
    /// A replay is under way.
    replaying: Option<BTreeSet<String>>,
    history: History,
    /// Processes that are surely gone.
    gone: BTreeSet<String>,
    /// Those of them that were gone before the replay began.
    gone_before: BTreeSet<String>,
}

impl State {
    pub(super) fn new(session: Option<String>) -> Self {
        Self { session, ..Self::default() }
    }

    fn report(&self, report: impl FnOnce(&Reporter)) {
        if let Some(line) = &self.line {
            report(line);
        }
    }

    pub(super) fn attach(&mut self, line: Reporter) {
        self.line = Some(line);
        self.report_process();
        self.report_work();
    }

    fn report_process(&self) {
        if let (Some(session), Some(process)) = (&self.session, &self.process) {
            self.report(|line| line.session(session, process));
        }
    }

    fn report_work(&self) {
        if self.connection.is_none() {
            self.report(|line| line.unreachable(self.trouble.as_deref().unwrap_or("the agent is being started")));
            self.report(|line| line.busy(false));
        } else if self.turn.is_some() {
            self.report(|line| line.busy(self.is_joinable()));
            if let Some(name) = self.turn_name() {
                self.report(|line| line.turn_id(name));
            }
        } else {
            self.report(Reporter::idle);
        }
    }

    fn is_joinable(&self) -> bool {
        match self.steering() {
            Steering::None => false,
            Steering::Standard => true,
            Steering::Goose => self.run.is_some(),
        }
    }

    pub(super) fn steering(&self) -> Steering {
        self.agent.map_or(Steering::None, |agent| agent.steering)
    }

    pub(super) fn agent(&self) -> Option<Agent> {
        self.agent
    }

    /// goose names its runs; other agents' turns are named here.
    fn turn_name(&self) -> Option<String> {
        let turn = self.turn.as_ref()?;
        Some(self.run.clone().unwrap_or_else(|| turn.name.clone()))
    }

    // The life of the process.

    pub(super) fn said(&mut self, agent: Agent) {
        self.agent = Some(agent);
    }

    /// A replay of the history begins.
    pub(super) fn replay(&mut self) {
        self.gone_before = self.gone.clone();
        self.ends.cut();
        self.replaying = Some(BTreeSet::new());
    }

    /// The session is there: with its history, or without any, or with one that can't be seen.
    pub(super) fn opened(&mut self, session: String, history: Option<History>) {
        let replayed = self.replaying.take();
        self.history = history.unwrap_or_else(|| replayed.map_or(History::Unknown, History::Holds));
        self.ends.cut();
        self.session = Some(session);
    }

    pub(super) fn up(&mut self, process: String, connection: Connection) {
        self.process = Some(process);
        self.connection = Some(connection);
        self.report_process();
        self.report_work();
        self.report(Reporter::reachable);
    }

    /// The process is gone, and with it all that it had in memory.
    pub(super) fn down(&mut self, process: Option<&str>, why: String) {
        self.gone.extend(process.map(str::to_owned));
        self.trouble = Some(why);
        if let Some(turn) = self.turn.take() {
            turn.cancelled.cancel();
        }
        (self.process, self.connection, self.run, self.replaying) = (None, None, None, None);
        self.steers.clear();
        self.doubtful.clear();
        self.proven.clear();
        self.report_work();
        self.report(Reporter::interrupted);
    }

    // Turns.

    /// A turn begins; returns where to send the prompt. `None` while one runs or nobody is there.
    pub(super) fn begin(&mut self, input: Option<DeliveryId>) -> Option<(Connection, String, String)> {
        let (connection, session) = (self.connection.clone()?, self.session.clone()?);
        if self.turn.is_some() {
            return None;
        }
        self.turns += 1;
        let name = format!("{}.{}", self.process.as_deref().unwrap_or_default(), self.turns);
        self.turn = Some(Turn { name: name.clone(), input, worked: false, cancelled: CancellationToken::new() });
        self.report_work();
        Some((connection, session, name))
    }

    /// The token that fires when the running turn is cancelled.
    pub(super) fn turn_token(&self) -> Option<CancellationToken> {
        self.turn.as_ref().map(|turn| turn.cancelled.clone())
    }

    /// The prompt was answered: the turn is over, and with it the fate of what it took in is decided or in doubt.
    pub(super) fn end(&mut self, name: &str, answer: &Result<Value, acp::Error>) {
        if self.turn.as_ref().is_none_or(|turn| turn.name != name) {
            return;
        }
        if answer.as_ref().is_err_and(|error| acp::is_incoming_transport_closed(error) || acp::is_connection_terminated(error)) {
            // No answer at all: the process is dead, and its history decides.
            return;
        }
        let Some(turn) = self.turn.take() else { return };
        turn.cancelled.cancel();
        self.run = None;
        let stop = answer.as_ref().ok().and_then(|answer| answer.get("stopReason")).and_then(Value::as_str).unwrap_or_default();
        let regular = matches!(stop, "end_turn" | "max_tokens" | "max_turn_requests" | "refusal");
        if let Some(id) = &turn.input {
            match answer {
                // Answered, in whatever way, or seen at work: the agent has it.
                Ok(_) => self.prove(id),
                Err(_) if turn.worked => self.prove(id),
                Err(error) => match self.clean_refusal(error) {
                    Some(refusal) => self.report(|line| line.refused(id, refusal)),
                    None => self.doubt(id.clone()),
                },
            }
        }
        for steer in std::mem::take(&mut self.steers) {
            // An agent that says `injected` and ends the turn regularly has shown it to the model; goose says so itself.
            if steer.alone {
                self.steers.push(steer);
            } else if regular && steer.injected && self.steering() == Steering::Standard {
                self.prove(&steer.id);
            } else if steer.injected {
                self.doubt(steer.id);
            } else {
                // Its own call is still to come back, and says what there is to say.
                self.doubtful.insert(steer.id);
            }
        }
        self.report_work();
    }

    fn prove(&mut self, id: &DeliveryId) {
        self.report(|line| line.accepted(id));
        self.proven.push_back(id.clone());
        if self.proven.len() > REMEMBERED {
            self.proven.pop_front();
        }
    }

    fn doubt(&mut self, id: DeliveryId) {
        self.report(|line| line.lost(&id));
        self.doubtful.insert(id);
    }

    /// What an error to a prompt means, if it means that nothing was done.
    fn clean_refusal(&self, error: &acp::Error) -> Option<Refusal> {
        match i32::from(error.code) {
            // goose has a run of its own; its parameters are never wrong otherwise.
            INVALID_PARAMS if self.steering() == Steering::Goose => Some(Refusal::NotNow),
            METHOD_NOT_FOUND | INVALID_PARAMS | INVALID_REQUEST | AUTH_REQUIRED => Some(Refusal::Rejected(error.message.clone())),
            _ => None,
        }
    }

    // Steers.

    /// A steer is about to go into the running turn; returns where to send it and for which run.
    pub(super) fn steer(&mut self, id: &DeliveryId, expected: Option<&str>) -> Result<(Connection, String, String), Refusal> {
        let (Some(connection), Some(session)) = (self.connection.clone(), self.session.clone()) else {
            return Err(Refusal::NotNow);
        };
        let Some(name) = self.turn_name() else { return Err(Refusal::TurnEnded) };
        if expected.is_some_and(|expected| expected != name) {
            return Err(Refusal::TurnEnded);
        }
        if !self.is_joinable() {
            return Err(Refusal::NotNow);
        }
        if !self.steers.iter().any(|steer| steer.id == *id) {
            self.steers.push(OnTheWay { id: id.clone(), message: None, injected: false, alone: false });
        }
        Ok((connection, session, name))
    }

    /// The agent answered a steer. A refusal is returned; `None` means that it has the input, or that nobody knows.
    pub(super) fn steered(&mut self, id: &DeliveryId, answer: &Result<Option<Steered>, acp::Error>) -> Option<Refusal> {
        let refusal = match answer {
            Ok(Some(Steered::Injected { message })) => {
                self.note(id, |steer| {
                    steer.injected = true;
                    steer.message.clone_from(message);
                });
                return None;
            }
            Ok(Some(Steered::Started)) => {
                self.note(id, |steer| (steer.injected, steer.alone) = (true, true));
                return None;
            }
            Ok(None) => return None,
            Ok(Some(Steered::NoTurn)) => Refusal::TurnEnded,
            Ok(Some(Steered::Failed(reason))) => Refusal::Rejected(reason.clone()),
            Err(error) => match i32::from(error.code) {
                METHOD_NOT_FOUND => {
                    tracing::warn!("the agent advertises steering and does not know it");
                    if let Some(agent) = &mut self.agent {
                        agent.steering = Steering::None;
                    }
                    self.report_work();
                    Refusal::NotNow
                }
                INVALID_PARAMS | INVALID_REQUEST => Refusal::TurnEnded,
                _ => return None,
            },
        };
        self.steers.retain(|steer| steer.id != *id);
        self.doubtful.remove(id);
        Some(refusal)
    }

    fn note(&mut self, id: &DeliveryId, note: impl FnOnce(&mut OnTheWay)) {
        if let Some(steer) = self.steers.iter_mut().find(|steer| steer.id == *id) {
            note(steer);
        }
    }

    /// Nobody waits for the answer to this steer any more; it says by report what the answer would have said.
    pub(super) fn late_refusal(&self, id: &DeliveryId, refusal: Refusal) {
        self.report(|line| line.refused(id, refusal));
    }

    // What the agent says.

    pub(super) fn hear(&mut self, update: Update) {
        match update {
            Update::UserSaid { text, message } => {
                let found = self.ends.take(&text);
                if let Some(replayed) = &mut self.replaying {
                    replayed.extend(found);
                    return;
                }
                let is_it = |id: &DeliveryId| found.iter().any(|found| found == id.as_str());
                let read = |steer: &OnTheWay| is_it(&steer.id) || (message.is_some() && steer.message == message);
                let (taken, rest) = std::mem::take(&mut self.steers).into_iter().partition(read);
                self.steers = rest;
                let taken: Vec<OnTheWay> = taken;
                for steer in taken {
                    self.prove(&steer.id);
                }
            }
            Update::Works => {
                self.ends.cut();
                if let Some(turn) = &mut self.turn {
                    turn.worked = true;
                }
                let (alone, rest) = std::mem::take(&mut self.steers).into_iter().partition(|steer| steer.alone);
                self.steers = rest;
                let alone: Vec<OnTheWay> = alone;
                for steer in alone {
                    self.prove(&steer.id);
                }
            }
            Update::Run(run) => {
                self.ends.cut();
                if self.turn.is_some() && self.run != run && self.steering() == Steering::Goose {
                    self.run = run;
                    self.report_work();
                }
            }
            Update::Other => self.ends.cut(),
        }
    }

    // Reconciling.

    pub(super) fn judge(&mut self, stored: &StoredInput) -> Judgement {
        let then = stored.attempt.as_ref().and_then(|attempt| attempt.process.clone());
        let loads = self.agent.is_some_and(|agent| agent.loads);
        if then.is_some() && then == self.process {
            let runs = self.turn.as_ref().is_some_and(|turn| turn.input.as_ref() == Some(&stored.id));
            let steer = self.steers.iter().find(|steer| steer.id == stored.id);
            return if self.proven.contains(&stored.id) {
                Judgement::Known(Reconciled::Accepted)
            } else if runs || steer.is_some_and(|steer| steer.injected) {
                Judgement::Known(Reconciled::Taken)
            } else if steer.is_some() {
                // Its answer is missing.
                Judgement::Known(Reconciled::Unknown)
            } else if !self.doubtful.contains(&stored.id) {
                // Never written, or refused since.
                Judgement::Known(Reconciled::Retry)
            } else if self.turn.is_some() || !loads {
                Judgement::Known(Reconciled::Unknown)
            } else {
                Judgement::ReadBack
            };
        }
        match &self.history {
            History::Unknown => Judgement::Known(Reconciled::Unknown),
            History::Holds(deliveries) if deliveries.contains(stored.id.as_str()) => Judgement::Known(Reconciled::Accepted),
            History::Holds(_) => {
                let Some(then) = then else { return Judgement::Known(Reconciled::Retry) };
                if self.gone_before.contains(&then) {
                    return Judgement::Known(Reconciled::Retry);
                }
                // A process from before the host's restart: it may have taken the input in after our replay.
                if self.connection.is_none() || self.turn.is_some() || link::is_alive(&then) {
                    return Judgement::Known(Reconciled::Unknown);
                }
                self.gone.insert(then);
                Judgement::ReadBack
            }
        }
    }
}
