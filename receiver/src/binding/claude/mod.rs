#![doc = include_str!("README.md")]

mod mcp;
mod options;
mod state;
mod supervisor;
mod transcript;
mod wire;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

pub use self::options::{Launch, Options, Permission, PermissionAsk};
use self::state::{Going, State, Whereabouts};
use self::transcript::Wanted;
pub use super::link::Link;
use super::{Capabilities, Evidence, Handover, InputBinding, Reconciled, Refusal, Reporter, Submission, link};
use crate::input::{LiveInput, Route, StoredInput};

/// How long a question to Claude may stay unanswered.
const ANSWER: Duration = Duration::from_secs(10);
/// How long `reconcile` waits for a process that is being started; shorter than the receiver's own deadline.
const SETTLED: Duration = Duration::from_secs(20);
/// How long `reconcile` waits for a living process to write down what it took in.
const WRITTEN: Duration = Duration::from_secs(5);
/// How long it is looked for what a living process should not have any more.
const GONE: Duration = Duration::from_secs(1);
/// Between two looks; doubles.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LAST_LOOK: Duration = Duration::from_millis(500);
/// Ids under which an input may have gone out before.
const ROUNDS_BACK: u32 = 8;

/// What the binding's process does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Starting,
    Ready,
    Down(String),
    Stopped,
}

/// Why something that the host asked of Claude was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaudeError {
    /// There is no process at the moment.
    #[error("Claude does not run: {0}")]
    Down(String),
    /// The session's id is no UUID, as Claude wants it.
    #[error("a session of Claude's is named by a UUID")]
    Session,
    /// No tokio runtime to run in.
    #[error("the binding has to be started inside a tokio runtime")]
    Runtime,
    /// Claude said no.
    #[error("Claude refused: {0}")]
    Refused(String),
    /// No answer came in time.
    #[error("Claude did not answer in time")]
    NoAnswer,
}

/// What an interrupt left: ids of inputs as Claude knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interrupted {
    /// Still in the queue; they run next.
    pub still_queued: Vec<String>,
    /// Taken out of the queue. Inputs of the receiver among them come again.
    pub cancelled: Vec<String>,
}

type Question = oneshot::Sender<Result<Value, String>>;

/// What the binding and its supervisor share.
pub(crate) struct Inner {
    options: Options,
    state: Mutex<State>,
    /// Rings when the transcript is worth a look.
    look: Notify,
    phase: watch::Sender<Phase>,
    questions: Mutex<HashMap<String, Question>>,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was locked left it whole: every change is a plain assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn questions(&self) -> MutexGuard<'_, HashMap<String, Question>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self) -> String {
        self.state().session.clone()
    }

    fn answered(&self, id: &str, answer: Result<Value, String>) {
        if let Some(question) = self.questions().remove(id) {
            let _ = question.send(answer);
        }
    }

    fn fail_questions(&self) {
        self.questions().clear();
    }

    async fn transcript_of(&self, session: &str) -> Option<PathBuf> {
        let (folder, session) = (self.options.transcripts()?, session.to_owned());
        tokio::task::spawn_blocking(move || transcript::find(&folder, &session)).await.ok().flatten()
    }

    /// Asks Claude something and waits for the answer.
    async fn ask(&self, subtype: &str, more: Value) -> Result<Value, ClaudeError> {
        let down = || ClaudeError::Down("it is being started".to_owned());
        let outbox = self.state().outbox.clone().ok_or_else(down)?;
        let id = Uuid::new_v4().to_string();
        let (question, answer) = oneshot::channel();
        self.questions().insert(id.clone(), question);
        let asked = async {
            outbox.send(wire::ask(&id, subtype, more)).await.map_err(|_| down())?;
            answer.await.map_err(|_| down())?.map_err(ClaudeError::Refused)
        };
        let answer = tokio::time::timeout(ANSWER, asked).await;
        self.questions().remove(&id);
        answer.unwrap_or(Err(ClaudeError::NoAnswer))
    }
}

/// The way into one session of Claude's. Cheap to clone; the process ends with the last clone.
#[derive(Clone)]
pub struct ClaudeBinding {
    inner: Arc<Inner>,
    _stop: Arc<DropGuard>,
    stop: CancellationToken,
}

impl std::fmt::Debug for ClaudeBinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let phase = self.inner.phase.borrow();
        f.debug_struct("ClaudeBinding").field("options", &self.inner.options).field("phase", &*phase).finish_non_exhaustive()
    }
}

impl ClaudeBinding {
    /// Starts Claude, and starts it again whenever it dies. Returns at once; inputs wait in the inbox until it is ready.
    pub fn start(options: Options) -> Result<Self, ClaudeError> {
        let session: Uuid = options.session.parse().map_err(|_| ClaudeError::Session)?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| ClaudeError::Runtime)?;
        let inner = Arc::new(Inner {
            options,
            state: Mutex::new(State::new(session.to_string())),
            look: Notify::new(),
            phase: watch::Sender::new(Phase::Starting),
            questions: Mutex::default(),
        });
        let stop = CancellationToken::new();
        runtime.spawn(supervisor::run(Arc::clone(&inner), stop.clone()));
        Ok(Self { inner, _stop: Arc::new(stop.clone().drop_guard()), stop })
    }

    /// The session's id, to be given back through [`Options::session`] after a restart of the host.
    pub fn session(&self) -> String {
        self.inner.session()
    }

    /// Waits until Claude takes input. An error says why it could not be started (it is tried again all the same).
    pub async fn ready(&self) -> Result<(), ClaudeError> {
        let mut phase = self.inner.phase.subscribe();
        let phase = phase.wait_for(|phase| *phase != Phase::Starting).await.map(|phase| phase.clone());
        match phase {
            Ok(Phase::Ready) => Ok(()),
            Ok(Phase::Down(reason)) => Err(ClaudeError::Down(reason)),
            _ => Err(ClaudeError::Down("it was stopped".to_owned())),
        }
    }

    /// Something that the host's own user says, past the receiver: neither stored nor repeated.
    pub async fn say(&self, text: &str) -> Result<(), ClaudeError> {
        let down = || ClaudeError::Down("it is being started".to_owned());
        let (outbox, session) = {
            let state = self.inner.state();
            (state.outbox.clone().ok_or_else(down)?, state.session.clone())
        };
        outbox.send(wire::user(&session, Uuid::new_v4(), text, None)).await.map_err(|_| down())
    }

    /// Stops the running turn. What waits in Claude's queue runs next, unless `cancel_queued`: then inputs of the receiver come again from
    /// the inbox. An input that the turn had taken in stays taken.
    pub async fn interrupt(&self, cancel_queued: bool) -> Result<Interrupted, ClaudeError> {
        let more = if cancel_queued { json!({ "cancel_queued": true }) } else { json!({}) };
        let receipt = self.inner.ask("interrupt", more).await?;
        let ids = |key: &str| -> Vec<String> {
            let ids = receipt.get(key).and_then(Value::as_array).into_iter().flatten();
            ids.filter_map(|id| id.as_str().map(str::to_owned)).collect()
        };
        Ok(Interrupted { still_queued: ids("still_queued"), cancelled: ids("cancelled") })
    }

    /// Ends the process and waits for its end; it may finish what it is at for a few seconds.
    pub async fn stop(&self) {
        self.stop.cancel();
        let mut phase = self.inner.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase == Phase::Stopped).await;
    }

    /// A place in the outbox. What is put there is written in that order; until then nothing has gone out, so giving up is safe.
    async fn place(&self, cancel: &CancellationToken) -> Option<mpsc::OwnedPermit<Vec<u8>>> {
        let outbox = self.inner.state().outbox.clone()?;
        tokio::select! {
            place = outbox.reserve_owned() => place.ok(),
            () = cancel.cancelled() => None,
        }
    }

    /// Whether the input is in the transcript; `None` when there is no place to look.
    async fn is_in_transcript(&self, stored: &StoredInput, session: &str) -> Option<bool> {
        let folder = self.inner.options.transcripts()?;
        let attempt = stored.attempt.as_ref();
        let tool_call = attempt.filter(|attempt| attempt.route == Route::Resume).and_then(|attempt| attempt.native_id.clone());
        let wanted = Wanted {
            id: stored.id.clone(),
            uuids: (0..ROUNDS_BACK).map(|round| wire::input_uuid(&stored.id, round)).collect(),
            tool_call,
        };
        let session = session.to_owned();
        let look = move || {
            if !folder.join("projects").is_dir() {
                return None;
            }
            let Some(path) = transcript::find(&folder, &session) else { return Some(false) };
            transcript::look(&path, 0, &[wanted]).map(|(found, _)| !found.is_empty()).ok()
        };
        tokio::task::spawn_blocking(look).await.ok().flatten()
    }
}

impl InputBinding for ClaudeBinding {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn attach(&self, reporter: Reporter) -> Capabilities {
        self.inner.state().attach(reporter);
        CAPABILITIES
    }

    async fn submit(&self, input: &LiveInput, to: Handover) -> Submission {
        let Some(place) = self.place(&to.cancel).await else { return Submission::Refused(Refusal::NotNow) };
        let mut state = self.inner.state();
        if !state.outbox.as_ref().is_some_and(|outbox| place.same_channel_as_sender(outbox)) {
            return Submission::Refused(Refusal::NotNow);
        }
        let uuid = match state.send(input, to.mode, to.expected_turn.as_deref(), self.inner.options.waits_yield) {
            Going::Not(refusal) => return Submission::Refused(refusal),
            Going::Already(uuid) => uuid,
            Going::Out(uuid, lines) => {
                place.send(lines);
                uuid
            }
        };
        Submission::Taken(Evidence::none().native_id(uuid))
    }

    async fn resume(&self, input: &LiveInput, cancel: &CancellationToken) -> Submission {
        let Some(place) = self.place(cancel).await else { return Submission::Refused(Refusal::NoWaiter) };
        let mut state = self.inner.state();
        if !state.outbox.as_ref().is_some_and(|outbox| place.same_channel_as_sender(outbox)) {
            return Submission::Refused(Refusal::NoWaiter);
        }
        let Some((tool_call, lines)) = state.answer(input) else { return Submission::Refused(Refusal::NoWaiter) };
        place.send(lines);
        Submission::Taken(Evidence::none().native_id(tool_call))
    }

    async fn reconcile(&self, stored: &StoredInput) -> Reconciled {
        let mut phase = self.inner.phase.subscribe();
        let settled = phase.wait_for(|phase| *phase != Phase::Starting);
        let settled = tokio::time::timeout(SETTLED, settled).await.is_ok();
        let attempt = stored.attempt.as_ref();
        let session = attempt.and_then(|attempt| attempt.session.clone()).unwrap_or_else(|| self.inner.session());
        let then = attempt.and_then(|attempt| attempt.process.clone());
        let began = Instant::now();
        let mut wait = FIRST_LOOK;
        loop {
            let process = self.inner.state().process.clone();
            let same = then.is_some() && then == process;
            match self.is_in_transcript(stored, &session).await {
                Some(true) => return Reconciled::Accepted,
                None => return Reconciled::Unknown,
                // It lives on without us, and works off its queue.
                Some(false) if !settled || (!same && then.as_deref().is_some_and(link::is_alive)) => return Reconciled::Unknown,
                Some(false) if !same => return Reconciled::Retry,
                Some(false) => {}
            }
            // The same process writes its transcript a moment after it says anything.
            let whereabouts = self.inner.state().whereabouts(&stored.id);
            match whereabouts {
                Whereabouts::Waiting => return Reconciled::Taken,
                Whereabouts::Nowhere if began.elapsed() >= GONE => return Reconciled::Retry,
                Whereabouts::Moving if began.elapsed() >= WRITTEN => return Reconciled::Taken,
                Whereabouts::Nowhere | Whereabouts::Moving => tokio::time::sleep(wait).await,
            }
            wait = (wait * 2).min(LAST_LOOK);
        }
    }
}

/// What this binding can do; see the table at the head.
const CAPABILITIES: Capabilities = Capabilities {
    steer: true,
    durable_queue: false,
    resume: true,
    reconcile: true,
    deduplicates: false,
    reports_idle: true,
    ordered: true,
    turn_identity: false,
    steer_starts: true,
    waiters_survive: false,
};
