//! A scripted agent runtime: takes, refuses, stays silent or loses what it is told to, and remembers in a history that outlives it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use beepgrid_receiver::{
    Capabilities, Evidence, Handover, InputBinding, LiveInput, Reconciled, Refusal, Reporter, StoredInput, Submission,
};
use tokio_util::sync::CancellationToken;

/// What the runtime does with one call.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Writes it down and says so.
    Accept,
    /// Takes it into memory and says so; [`Runtime::keep`] writes it down.
    Take,
    /// Writes it down and never answers.
    AcceptSilently,
    /// Neither writes it down nor answers.
    LoseSilently,
    /// Says no.
    Refuse(Refusal),
    /// Panics after writing it down.
    Panic,
}

#[derive(Default)]
struct State {
    replies: VecDeque<Reply>,
    calls: Vec<(String, &'static str)>,
    expected: Vec<Option<String>>,
    memory: Vec<String>,
    history: Vec<String>,
    reconciled: Vec<String>,
    answers: VecDeque<Reconciled>,
    line: Option<Reporter>,
}

#[derive(Clone)]
pub(crate) struct Runtime {
    state: Arc<Mutex<State>>,
    capabilities: Capabilities,
    /// Reported when the receiver is built; `None` reports nothing.
    busy_at_first: Option<bool>,
}

impl Runtime {
    /// One that can do everything and is idle.
    pub(crate) fn new() -> Self {
        let mut capabilities = Capabilities::new();
        capabilities.steer = true;
        capabilities.resume = true;
        capabilities.reconcile = true;
        capabilities.reports_idle = true;
        Self { state: Arc::default(), capabilities, busy_at_first: None }
    }

    pub(crate) fn able(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        change(&mut self.capabilities);
        self
    }

    pub(crate) fn busy(mut self) -> Self {
        self.busy_at_first = Some(true);
        self
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn reply(&self, replies: impl IntoIterator<Item = Reply>) {
        self.state().replies.extend(replies);
    }

    /// The next answers of `reconcile`; afterwards it looks into the history.
    pub(crate) fn reconcile_says(&self, answers: impl IntoIterator<Item = Reconciled>) {
        self.state().answers.extend(answers);
    }

    pub(crate) fn line(&self) -> Reporter {
        self.state().line.clone().unwrap()
    }

    /// Every call so far: `m1 queue`, `m2 steer`, `r3 resume`.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.state().calls.iter().map(|(id, how)| format!("{id} {how}")).collect()
    }

    /// The turn that each submission was meant for.
    pub(crate) fn expected_turns(&self) -> Vec<Option<String>> {
        self.state().expected.clone()
    }

    pub(crate) fn history(&self) -> Vec<String> {
        self.state().history.clone()
    }

    pub(crate) fn memory(&self) -> Vec<String> {
        self.state().memory.clone()
    }

    pub(crate) fn reconciled(&self) -> Vec<String> {
        self.state().reconciled.clone()
    }

    /// Writes down what is in memory and reports it.
    pub(crate) fn keep(&self) {
        let mut state = self.state();
        let kept = std::mem::take(&mut state.memory);
        state.history.extend(kept.clone());
        let line = state.line.clone().unwrap();
        drop(state);
        for id in kept {
            line.accepted(&id.as_str().into());
        }
    }

    /// The process dies and comes back: its memory is gone, its history is not.
    pub(crate) fn die(&self) {
        self.state().memory.clear();
    }

    async fn call(&self, input: &LiveInput, how: &'static str) -> Submission {
        let reply = {
            let mut state = self.state();
            let id = input.id.to_string();
            state.calls.push((id.clone(), how));
            let reply = state.replies.pop_front().unwrap_or(Reply::Accept);
            match reply {
                Reply::Accept | Reply::AcceptSilently | Reply::Panic => state.history.push(id),
                Reply::Take => state.memory.push(id),
                Reply::LoseSilently | Reply::Refuse(_) => {}
            }
            reply
        };
        match reply {
            Reply::Accept => Submission::Accepted,
            Reply::Take => Submission::Taken(Evidence::none().native_id("native-1")),
            Reply::Refuse(refusal) => Submission::Refused(refusal),
            Reply::AcceptSilently | Reply::LoseSilently => std::future::pending().await,
            Reply::Panic => panic!("as the test wants"),
        }
    }
}

impl InputBinding for Runtime {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn attach(&self, reporter: Reporter) -> Capabilities {
        reporter.session("session-1", "process-1");
        if self.busy_at_first == Some(true) {
            reporter.busy(true);
        }
        self.state().line = Some(reporter);
        self.capabilities
    }

    async fn submit(&self, input: &LiveInput, to: Handover) -> Submission {
        self.state().expected.push(to.expected_turn);
        self.call(input, to.mode.as_str()).await
    }

    async fn resume(&self, input: &LiveInput, _cancel: &CancellationToken) -> Submission {
        self.call(input, "resume").await
    }

    async fn reconcile(&self, stored: &StoredInput) -> Reconciled {
        let mut state = self.state();
        let id = stored.id.to_string();
        state.reconciled.push(id.clone());
        let found = if state.history.contains(&id) { Reconciled::Accepted } else { Reconciled::Retry };
        state.answers.pop_front().unwrap_or(found)
    }
}
