#![doc = include_str!("README.md")]

mod options;
mod state;
mod supervisor;
mod wire;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_client_protocol::UntypedMessage;
use serde_json::json;
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::options::{Choice, Options, Permission, PermissionAsk, Steering};
use self::state::{Judgement, State};
pub use super::link::Link;
use super::{Capabilities, Evidence, Handover, InputBinding, Reconciled, Refusal, Reporter, Submission};
use crate::input::{BusyMode, LiveInput, StoredInput};

/// How long `reconcile` waits for an agent that is being started; shorter than the receiver's own deadline.
const SETTLED: Duration = Duration::from_secs(20);

/// What the binding's process does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Ready,
    Down(String),
    Stopped,
}

/// Why something that the host asked for was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcpError {
    /// There is no agent at the moment.
    #[error("the agent can't be used: {0}")]
    Down(String),
    /// The session's folder is not an absolute path.
    #[error("the folder of the session must be an absolute path")]
    Folder,
    /// A turn runs.
    #[error("the agent is at work")]
    Busy,
}

/// What the binding and its supervisor share.
struct Inner {
    options: Options,
    state: Mutex<State>,
    phase: watch::Sender<Phase>,
    /// Rings when the process is to be started anew.
    restart: Notify,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was locked left it whole: every change is a plain assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way into one session of an agent. Cheap to clone; the process ends with the last clone.
#[derive(Clone)]
pub struct AcpBinding {
    inner: Arc<Inner>,
    _stop: Arc<DropGuard>,
    stop: CancellationToken,
}

impl std::fmt::Debug for AcpBinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let phase = self.inner.phase.borrow();
        f.debug_struct("AcpBinding").field("options", &self.inner.options).field("phase", &*phase).finish_non_exhaustive()
    }
}

impl AcpBinding {
    /// Starts the agent and opens the session, so that what the agent can do is known; from then on it is started again whenever it dies.
    ///
    /// # Errors
    /// The agent can't be started, does not speak version 1, or gives no session.
    pub async fn start(options: Options) -> Result<Self, AcpError> {
        if !options.folder.is_absolute() {
            return Err(AcpError::Folder);
        }
        let inner = Arc::new(Inner {
            state: Mutex::new(State::new(options.session.clone())),
            options,
            phase: watch::Sender::new(Phase::Starting),
            restart: Notify::new(),
        });
        let stop = CancellationToken::new();
        let mut phase = inner.phase.subscribe();
        tokio::spawn(supervisor::run(Arc::clone(&inner), stop.clone()));
        let binding = Self { inner, _stop: Arc::new(stop.clone().drop_guard()), stop };
        let settled = phase.wait_for(|phase| *phase != Phase::Starting).await.map(|phase| phase.clone());
        match settled {
            Ok(Phase::Ready) => Ok(binding),
            Ok(Phase::Down(reason)) => Err(AcpError::Down(reason)),
            _ => Err(AcpError::Down("it was stopped".to_owned())),
        }
    }

    /// The session's id, to be given back through [`Options::session`] after a restart of the host. It changes when the agent has lost the
    /// session.
    pub fn session(&self) -> Option<String> {
        self.inner.state().session.clone()
    }

    /// How this agent takes input while it works.
    pub fn steering(&self) -> Steering {
        self.inner.state().steering()
    }

    /// Begins a turn with something that the host's own user says, past the receiver: neither stored nor repeated.
    ///
    /// # Errors
    /// A turn runs, or there is no agent.
    pub fn say(&self, text: &str) -> Result<(), AcpError> {
        if self.prompt(None, text).is_some() {
            return Ok(());
        }
        let phase = self.inner.phase.borrow().clone();
        match phase {
            Phase::Ready => Err(AcpError::Busy),
            Phase::Down(reason) => Err(AcpError::Down(reason)),
            Phase::Starting | Phase::Stopped => Err(AcpError::Down("it is not ready".to_owned())),
        }
    }

    /// Asks the agent to end the running turn. What it had taken in stays taken; what was in its memory is read back.
    ///
    /// # Errors
    /// There is no agent.
    pub fn cancel(&self) -> Result<(), AcpError> {
        let down = || AcpError::Down("it is not ready".to_owned());
        let (connection, session, token) = {
            let state = self.inner.state();
            (state.connection.clone().ok_or_else(down)?, state.session.clone().ok_or_else(down)?, state.turn_token())
        };
        // Open questions of this turn are answered with `cancelled`, as the protocol wants.
        if let Some(token) = token {
            token.cancel();
        }
        let message = UntypedMessage::new("session/cancel", json!({ "sessionId": session })).map_err(|_| down())?;
        connection.send_notification(message).map_err(|_| down())
    }

    /// Ends the process and waits for its end.
    pub async fn stop(&self) {
        self.stop.cancel();
        let mut phase = self.inner.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase == Phase::Stopped).await;
    }

    /// Begins a turn; `None` while one runs or nobody is there. Returns the turn's name.
    fn prompt(&self, input: Option<&LiveInput>, text: &str) -> Option<String> {
        let mut state = self.inner.state();
        let (connection, session, name) = state.begin(input.map(|input| input.id.clone()))?;
        let inner = Arc::downgrade(&self.inner);
        let turn = name.clone();
        // Sent under the lock, so that the order on the wire is that of the state; it only goes into a queue.
        let sent = UntypedMessage::new(wire::PROMPT, wire::prompt(&session, text)).and_then(|request| {
            connection.prepare_request(request).on_receiving_result(async move |answer| {
                if let Some(inner) = inner.upgrade() {
                    inner.state().end(&turn, &answer);
                }
                Ok(())
            })
        });
        if let Err(error) = sent {
            state.end(&name, &Err(acp_closed(&error)));
            return None;
        }
        Some(name)
    }

    async fn steer(&self, input: &LiveInput, to: &Handover) -> Submission {
        let text = wire::text(input);
        let (answered, answer) = oneshot::channel();
        let turn = {
            let mut state = self.inner.state();
            let (connection, session, turn) = match state.steer(&input.id, to.expected_turn.as_deref()) {
                Ok(way) => way,
                Err(refusal) => return Submission::Refused(refusal),
            };
            let kind = state.steering();
            let (method, params) = supervisor::steering(kind, &session, &turn, &text);
            let (inner, id) = (Arc::downgrade(&self.inner), input.id.clone());
            let sent = UntypedMessage::new(method, params).and_then(|request| {
                connection.prepare_request(request).on_receiving_result(async move |answer| {
                    if let Some(inner) = inner.upgrade() {
                        let outcome = answer.map(|answer| wire::steered(kind, &answer));
                        let mut state = inner.state();
                        let refusal = state.steered(&id, &outcome);
                        let unclear = matches!(outcome, Ok(None) | Err(_)) && refusal.is_none();
                        let message = match outcome {
                            Ok(Some(wire::Steered::Injected { message })) => message,
                            _ => None,
                        };
                        if let Err((Some(refusal), ..)) = answered.send((refusal, unclear, message)) {
                            state.late_refusal(&id, refusal);
                        }
                    }
                    Ok(())
                })
            });
            if sent.is_err() {
                // The connection is closed; what it did with the message is for the next process's history to say.
                return Submission::Unknown("the connection to the agent is closed".to_owned());
            }
            turn
        };
        let evidence = Evidence::none().turn(turn);
        tokio::select! {
            answer = answer => match answer {
                Ok((Some(refusal), ..)) => Submission::Refused(refusal),
                Ok((None, true, _)) => Submission::Unknown("the agent's answer says neither yes nor no".to_owned()),
                Ok((None, false, Some(message))) => Submission::Taken(evidence.native_id(message)),
                Ok((None, false, None)) => Submission::Taken(evidence),
                Err(_) => Submission::Unknown("the agent died before it answered".to_owned()),
            },
            () = to.cancel.cancelled() => Submission::Unknown("the receiver stopped waiting".to_owned()),
        }
    }

    /// Starts the idle agent anew, so that its history can be read.
    fn read_back(&self) {
        // Starting at once, so that whoever waits for the new one does not see the old.
        self.inner.phase.send_replace(Phase::Starting);
        self.inner.restart.notify_one();
    }
}

fn acp_closed(error: &agent_client_protocol::Error) -> agent_client_protocol::Error {
    // Not even sent: a clean refusal.
    agent_client_protocol::Error::invalid_request().data(error.to_string())
}

impl InputBinding for AcpBinding {
    fn name(&self) -> &'static str {
        "acp"
    }

    fn attach(&self, reporter: Reporter) -> Capabilities {
        let mut state = self.inner.state();
        state.attach(reporter);
        let steering = state.steering();
        Capabilities {
            steer: steering != Steering::None,
            durable_queue: false,
            resume: false,
            reconcile: state.agent().is_some_and(|agent| agent.loads),
            deduplicates: false,
            reports_idle: true,
            ordered: true,
            turn_identity: steering == Steering::Goose,
            steer_starts: false,
            waiters_survive: false,
        }
    }

    async fn submit(&self, input: &LiveInput, to: Handover) -> Submission {
        if to.mode == BusyMode::Steer {
            return self.steer(input, &to).await;
        }
        match self.prompt(Some(input), &wire::text(input)) {
            Some(turn) => Submission::Taken(Evidence::none().turn(turn)),
            None => Submission::Refused(Refusal::NotNow),
        }
    }

    async fn reconcile(&self, stored: &StoredInput) -> Reconciled {
        let mut looked = false;
        loop {
            let mut phase = self.inner.phase.subscribe();
            let settled = phase.wait_for(|phase| *phase != Phase::Starting);
            if tokio::time::timeout(SETTLED, settled).await.is_err() {
                return Reconciled::Unknown;
            }
            let judgement = self.inner.state().judge(stored);
            match judgement {
                Judgement::Known(answer) => return answer,
                Judgement::ReadBack if looked || !self.inner.options.read_back => return Reconciled::Unknown,
                Judgement::ReadBack => {
                    looked = true;
                    self.read_back();
                }
            }
        }
    }
}
