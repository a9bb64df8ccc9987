//! Carries out what `schedule` decides: marks, calls the binding, records what came of it.
//!
//! One task does all of it, so two wake-ups can't hand a row over twice. A row is marked `submitting` on disk before the binding is called, and a
//! result that can't be recorded (disk full) is kept and recorded before anything else is started.

mod call;
mod outcome;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use beepgrid::{DeliveryId, Timestamp};
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use self::call::{Call, Outcome};
use self::table::Table;
use crate::binding::{Capabilities, Handover, HostState, InputBinding, Reporter, Settled, Snapshot, Work};
use crate::clock::Clock;
use crate::config::Config;
use crate::hooks;
use crate::inbox::{Applied, InboxError, InboxStore, NextState, OpenInput, StateChange};
use crate::input::{Attempt, BusyMode, Content, HeldReason, InputState, Route, StoredInput};
use crate::schedule::{self, Action, Lane, Phase, View};
use crate::status::{Part, StatusBoard};

/// How long a conclusion about the host holds against silence: after that the last report counts again.
const PRESUMPTION: Duration = Duration::from_secs(30);

/// Who wakes whom. Held by every part, so that no side of it closes while another waits.
#[derive(Debug)]
pub(crate) struct Signals {
    /// Somebody other than the dispatcher changed the inbox.
    pub(crate) changed: watch::Sender<u64>,
    /// There may be room in the inbox.
    pub(crate) freed: watch::Sender<u64>,
}

impl Signals {
    pub(crate) fn new() -> Self {
        Self { changed: watch::Sender::new(0), freed: watch::Sender::new(0) }
    }

    pub(crate) fn raise(signal: &watch::Sender<u64>) {
        signal.send_modify(|count| *count += 1);
    }
}

/// What all parts of a receiver have in common.
pub(crate) struct Shared<I> {
    pub(crate) inbox: Arc<I>,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) status: Arc<StatusBoard>,
    pub(crate) signals: Arc<Signals>,
    /// Names this run in the evidence of attempts.
    pub(crate) run: String,
}

impl<I> Clone for Shared<I> {
    fn clone(&self) -> Self {
        Self {
            inbox: Arc::clone(&self.inbox),
            config: self.config.clone(),
            clock: self.clock.clone(),
            status: Arc::clone(&self.status),
            signals: Arc::clone(&self.signals),
            run: self.run.clone(),
        }
    }
}

/// The runtime's end of a dispatcher.
pub(crate) struct Parts<B> {
    pub(crate) binding: Arc<B>,
    pub(crate) line: Reporter,
    pub(crate) capabilities: Capabilities,
    /// Whose conversations it hands over; `None` is all.
    pub(crate) session: Option<String>,
}

pub(crate) struct Dispatcher<I, B> {
    shared: Shared<I>,
    parts: Parts<B>,
    table: Table,
    calls: JoinSet<Outcome>,
    under_way: HashMap<Id, Call>,
    /// Results that are not on disk yet; the newest for each row.
    backlog: BTreeMap<DeliveryId, NextState>,
    presumed: Option<Presumed>,
    interruptions: u64,
    /// Why the runtime can't be reached, as it was last shown.
    trouble: Option<String>,
    stale: bool,
    count: bool,
    failures: u32,
}

/// What a binding said about a runtime that it can't reach.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Trouble(String);

/// A conclusion about the host from a binding's answer, until the binding reports something.
struct Presumed {
    work: Work,
    epoch: u64,
    until: Timestamp,
}

/// What to do after a step.
enum Step {
    Again,
    /// Until something changes, or this time.
    Wait(Option<Timestamp>),
}

impl<I: InboxStore, B: InputBinding> Dispatcher<I, B> {
    pub(crate) fn new(shared: Shared<I>, parts: Parts<B>) -> Self {
        Self {
            shared,
            parts,
            table: Table::default(),
            calls: JoinSet::new(),
            under_way: HashMap::new(),
            backlog: BTreeMap::new(),
            presumed: None,
            interruptions: 0,
            trouble: None,
            stale: true,
            count: true,
            failures: 0,
        }
    }

    /// Works until `cancel` fires, then records what is still to be had and ends.
    pub(crate) async fn run(mut self, cancel: &CancellationToken) {
        let mut epochs = self.parts.line.watch();
        let mut changes = self.shared.signals.changed.subscribe();
        self.interruptions = self.parts.line.snapshot(|_| true).interruptions;
        while !cancel.is_cancelled() {
            epochs.mark_unchanged();
            if changes.has_changed().unwrap_or(false) {
                changes.mark_unchanged();
                self.stale = true;
            }
            let until = match self.step(cancel).await {
                Step::Again => continue,
                Step::Wait(until) => until,
            };
            let sleep = self.sleep_until(until);
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                Some(done) = self.calls.join_next_with_id() => self.finished(done),
                _ = epochs.changed() => {}
                _ = changes.changed() => self.stale = true,
                () = sleep => {}
            }
        }
        self.wind_down().await;
    }

    fn sleep_until(&self, until: Option<Timestamp>) -> impl Future<Output = ()> + use<I, B> {
        let wait = until.map(|at| at.since(self.shared.clock.now()));
        async move {
            match wait {
                // A little more than asked for, so that the wall clock has surely arrived too.
                Some(wait) => tokio::time::sleep(wait + Duration::from_millis(1)).await,
                None => std::future::pending().await,
            }
        }
    }

    /// One look at everything, and at most one call started.
    async fn step(&mut self, cancel: &CancellationToken) -> Step {
        while let Some(done) = self.calls.try_join_next_with_id() {
            self.finished(done);
        }
        if self.stale {
            match self.shared.inbox.open().await {
                Ok(rows) => self.table.load(self.mine(rows)),
                Err(error) => return self.failed("reading the inbox", &error),
            }
            self.stale = false;
            self.count = true;
        }
        let snapshot = self.parts.line.snapshot(|id| self.table.is_calling(id));
        self.hear(&snapshot);
        self.show_trouble(&snapshot);
        if let Err(error) = self.flush().await {
            self.settle(snapshot.epoch);
            return self.failed("recording what became of inputs", &error);
        }
        if self.stale {
            return Step::Again;
        }
        let host = self.presume(&snapshot);
        match self.decide(&host, snapshot.epoch) {
            Action::Submit(id, mode) => self.start(id, Some(mode), &host, snapshot.epoch, cancel).await,
            Action::Resume(id) => self.start(id, None, &host, snapshot.epoch, cancel).await,
            Action::Reconcile(id) => self.reconcile(id, &host, snapshot.epoch, cancel).await,
            Action::WaitUntil(at) => self.wait(snapshot.epoch, Some(at)).await,
            Action::Nothing => self.wait(snapshot.epoch, None).await,
        }
    }

    /// The rows that this dispatcher hands over.
    fn mine(&self, mut rows: Vec<OpenInput>) -> Vec<OpenInput> {
        if self.parts.session.is_some() {
            rows.retain(|row| row.session == self.parts.session);
        }
        rows
    }

    fn decide(&self, host: &HostState, epoch: u64) -> Action {
        let (results, inputs): (Vec<&Call>, Vec<&Call>) = self.under_way.values().partition(|call| call.for_result);
        schedule::next(&View {
            rows: self.table.rows(),
            host,
            idle_is_known: self.parts.capabilities.reports_idle || self.presumed.is_some(),
            epoch,
            capabilities: self.parts.capabilities,
            mode: self.shared.config.mode,
            retry: &self.shared.config.retry,
            now: self.shared.clock.now(),
            input_call: !inputs.is_empty(),
            result_call: !results.is_empty(),
        })
    }

    fn show_trouble(&mut self, snapshot: &Snapshot) {
        let trouble = &snapshot.host.trouble;
        if self.trouble == *trouble {
            return;
        }
        self.trouble.clone_from(trouble);
        match trouble {
            Some(reason) => {
                self.shared.status.failed(Part::Binding, "reaching the runtime", &Trouble(reason.clone()));
            }
            None => self.shared.status.works(Part::Binding),
        }
    }

    /// The host as reported, or as the binding's last answer lets conclude while nothing was reported since.
    fn presume(&mut self, snapshot: &Snapshot) -> HostState {
        let mut host = snapshot.host.clone();
        let now = self.shared.clock.now();
        self.presumed = self.presumed.take().filter(|presumed| presumed.epoch == snapshot.epoch && now < presumed.until);
        if let Some(presumed) = &self.presumed {
            host.work = presumed.work;
        }
        host
    }

    async fn wait(&mut self, epoch: u64, until: Option<Timestamp>) -> Step {
        if std::mem::take(&mut self.count) {
            match self.shared.inbox.counts().await {
                Ok(counts) => self.shared.status.counts(counts),
                Err(error) => self.shared.status.failed(Part::Inbox, "counting", &error),
            }
        }
        self.settle(epoch);
        let until = until.into_iter().chain(self.presumed.as_ref().map(|presumed| presumed.until)).min();
        Step::Wait(until)
    }

    /// Tells a host at a boundary that nothing more comes for it now.
    fn settle(&self, epoch: u64) {
        if self.under_way.values().all(|call| call.for_result) {
            self.parts.line.settle(Settled::Up(epoch));
        }
    }

    /// Marks a row on disk and calls the binding with it; `mode` is `None` for `resume`.
    async fn start(
        &mut self,
        id: DeliveryId,
        mode: Option<BusyMode>,
        host: &HostState,
        epoch: u64,
        cancel: &CancellationToken,
    ) -> Step {
        hooks::reached(hooks::PICKED);
        let Some(stored) = (match self.shared.inbox.get(id.clone()).await {
            Ok(stored) => stored,
            Err(error) => return self.failed("reading an input", &error),
        }) else {
            self.stale = true;
            return Step::Again;
        };
        if stored.content != Content::Present {
            self.unreadable(&stored);
            return Step::Again;
        }
        let route = match (mode, host.work) {
            (None, _) => Route::Resume,
            (Some(BusyMode::Steer), Work::Busy { .. }) => Route::Steer,
            (Some(_), _) => Route::Start,
        };
        let attempt = self.attempt(&stored, route, host);
        let to = NextState::Submitting(attempt.clone());
        let change = StateChange { id: id.clone(), revision: stored.revision, to };
        let applied = match self.shared.inbox.set_state(vec![change], self.shared.clock.now()).await {
            Ok(applied) => applied,
            Err(error) => return self.failed("marking an input", &error),
        };
        self.count = true;
        let Some(Applied::Done { revision, attempts }) = applied.first().copied() else {
            self.stale = true;
            return Step::Again;
        };
        self.works();
        self.table.calling(&id, revision, attempts);
        hooks::reached(hooks::MARKED);
        let call = Call { id, route: Some(route), attempt: Some(attempt), for_result: mode.is_none(), epoch, turn: host.turn };
        let cancel = cancel.child_token();
        // Only running work can be the wrong turn: an idle host has none.
        let expected = host.turn_id.clone().filter(|_| route == Route::Steer);
        let to = mode.map(|mode| Handover::new(mode, cancel.clone()).expected_turn(expected));
        let work = call::submit(Arc::clone(&self.parts.binding), stored.input, to, self.deadline(), cancel);
        let task = self.calls.spawn(work);
        self.under_way.insert(task.id(), call);
        Step::Again
    }

    async fn reconcile(&mut self, id: DeliveryId, host: &HostState, epoch: u64, cancel: &CancellationToken) -> Step {
        let stored = match self.shared.inbox.get(id.clone()).await {
            Ok(Some(stored)) => stored,
            Ok(None) => {
                self.stale = true;
                return Step::Again;
            }
            Err(error) => return self.failed("reading an input", &error),
        };
        let for_result = self.table.get(&id).is_some_and(|row| row.lane == Lane::Result);
        self.table.asking(&id);
        let call = Call { id, route: None, attempt: None, for_result, epoch, turn: host.turn };
        let work = call::reconcile(Arc::clone(&self.parts.binding), stored, self.deadline(), cancel.child_token());
        let task = self.calls.spawn(work);
        self.under_way.insert(task.id(), call);
        Step::Again
    }

    fn attempt(&self, stored: &StoredInput, route: Route, host: &HostState) -> Attempt {
        let number = stored.attempts.saturating_add(1);
        let mut attempt = Attempt::new(number, self.shared.run.clone(), self.shared.clock.now(), route);
        attempt.session.clone_from(&host.session);
        attempt.process.clone_from(&host.process);
        attempt.turn.clone_from(&host.turn_id);
        attempt
    }

    /// A row that can't be read must not stand in the way of others, nor be tried for ever.
    fn unreadable(&mut self, stored: &StoredInput) {
        self.backlog.insert(
            stored.id.clone(),
            NextState::Held {
                state: InputState::Pending,
                reason: HeldReason::Unreadable,
                detail: "the stored content can't be read".to_owned(),
            },
        );
    }

    fn deadline(&self) -> Duration {
        self.shared.config.call_deadline
    }

    /// Writes the backlog, in one transaction.
    async fn flush(&mut self) -> Result<(), InboxError> {
        if self.backlog.is_empty() {
            return Ok(());
        }
        let changes: Vec<StateChange> = self
            .backlog
            .iter()
            .map(|(id, to)| StateChange { id: id.clone(), revision: self.table.revision(id), to: to.clone() })
            .collect();
        let applied = self.shared.inbox.set_state(changes.clone(), self.shared.clock.now()).await?;
        self.backlog.clear();
        self.works();
        self.count = true;
        for (change, applied) in changes.into_iter().zip(applied) {
            match applied {
                Applied::Done { revision, attempts } => self.table.applied(&change, revision, attempts),
                Applied::Withdrawn | Applied::Superseded => self.stale = true,
            }
        }
        Signals::raise(&self.shared.signals.freed);
        Ok(())
    }

    fn works(&mut self) {
        self.failures = 0;
        self.shared.status.works(Part::Inbox);
    }

    /// The inbox can't be used: shown, and tried again after a while. Nothing is handed over meanwhile.
    fn failed(&mut self, doing: &str, error: &InboxError) -> Step {
        self.failures = self.failures.saturating_add(1);
        self.shared.status.failed(Part::Inbox, doing, error);
        let wait = self.shared.config.reconnect.delay(self.failures);
        Step::Wait(Some(self.shared.clock.now().plus(wait)))
    }

    /// Gives calls in flight a moment, lets the binding give back what was not fetched, and records all of it.
    async fn wind_down(&mut self) {
        let end = tokio::time::Instant::now() + self.shared.config.shutdown_grace;
        while let Ok(Some(done)) = tokio::time::timeout_at(end, self.calls.join_next_with_id()).await {
            self.finished(done);
        }
        self.parts.line.settle(Settled::Ended);
        self.parts.line.stop();
        let snapshot = self.parts.line.snapshot(|_| false);
        self.hear(&snapshot);
        if let Err(error) = self.flush().await {
            self.shared.status.failed(Part::Inbox, "recording at the end", &error);
        }
        if let Ok(counts) = self.shared.inbox.counts().await {
            self.shared.status.counts(counts);
        }
    }

    fn is_in_doubt(phase: Phase) -> bool {
        matches!(phase, Phase::Taken { .. } | Phase::Undecided { .. })
    }
}
