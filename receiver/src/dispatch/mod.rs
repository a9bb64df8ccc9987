//! Carries out what `schedule` decides: marks, calls the binding, records what came of it.
//!
//! One task does all of it, so two wake-ups can't hand a row over twice. A row is marked `submitting` on disk before the binding is called, and a
//! result that can't be recorded (disk full) is kept and recorded before anything else is started.

mod call;
mod handover;
mod outcome;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use beepgrid::{DeliveryId, Timestamp};
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::call::{Call, Outcome};
use self::table::Table;
use crate::binding::{Capabilities, HostState, InputBinding, Reporter, Settled, Snapshot, Work};
use crate::clock::Clock;
use crate::config::Config;
use crate::hooks;
use crate::inbox::{Applied, InboxError, InboxStore, NextState, OpenInput, StateChange};
use crate::mutants::{self, Mutant};
use crate::schedule::{self, Action, Phase, View};
use crate::status::{Part, StatusBoard};

/// How long a conclusion about the host holds against silence: after that the last report counts again.
const PRESUMPTION: Duration = Duration::from_secs(30);

/// How long proof may be outstanding before the binding is asked, where no end of a turn is ever reported.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

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
    /// Stand for the ends of turns that nobody reports: how many, and when the next one is.
    rounds: u64,
    round_ends: Option<Instant>,
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
    /// Not by the wall clock: one that is set back would keep the conclusion for as long.
    until: Instant,
}

/// What to do after a step.
enum Step {
    Again,
    /// Until something changes, or so long.
    Wait(Option<Duration>),
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
            rounds: 0,
            round_ends: None,
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
            let wait = match self.step(cancel).await {
                Step::Again => continue,
                Step::Wait(wait) => wait,
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                Some(done) = self.calls.join_next_with_id() => self.finished(done),
                _ = epochs.changed() => {}
                _ = changes.changed() => self.stale = true,
                () = sleep(wait) => {}
            }
        }
        self.wind_down().await;
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
            input_call: !inputs.is_empty() && !mutants::on(Mutant::TwoAtOnce),
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
        let now = Instant::now();
        self.count_rounds(now);
        host.turn += self.rounds;
        self.presumed = self.presumed.take().filter(|presumed| presumed.epoch == snapshot.epoch && now < presumed.until);
        if let Some(presumed) = &self.presumed {
            host.work = presumed.work;
        }
        host
    }

    /// A binding that never reports the end of a turn is asked about what is in doubt after a while, and again and again.
    fn count_rounds(&mut self, now: Instant) {
        let in_doubt = || self.table.rows().iter().any(|row| Self::is_in_doubt(row.phase));
        if self.parts.capabilities.reports_idle || !in_doubt() || mutants::on(Mutant::LostProofWaitedFor) {
            self.round_ends = None;
        } else if self.round_ends.get_or_insert(now + PATIENCE).saturating_duration_since(now).is_zero() {
            self.rounds += 1;
            self.round_ends = Some(now + PATIENCE);
        }
    }

    async fn wait(&mut self, epoch: u64, until: Option<Timestamp>) -> Step {
        let until = until.map(|at| at.since(self.shared.clock.now()));
        if std::mem::take(&mut self.count) {
            match self.shared.inbox.counts().await {
                Ok(counts) => self.shared.status.counts(counts),
                Err(error) => self.shared.status.failed(Part::Inbox, "counting", &error),
            }
        }
        self.settle(epoch);
        let ends = self.presumed.as_ref().map(|presumed| presumed.until).into_iter().chain(self.round_ends);
        let now = Instant::now();
        Step::Wait(until.into_iter().chain(ends.map(|end| end.saturating_duration_since(now))).min())
    }

    /// Tells a host at a boundary that nothing more comes for it now.
    fn settle(&self, epoch: u64) {
        if self.under_way.values().all(|call| call.for_result) {
            self.parts.line.settle(Settled::Up(epoch));
        }
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
        let applied = self.shared.inbox.set_state(changes.clone(), self.shared.clock.now()).await;
        if mutants::on(Mutant::FailedWriteForgotten) {
            self.backlog.clear();
        }
        let applied = applied?;
        self.backlog.clear();
        self.works();
        self.count = true;
        for (change, applied) in changes.into_iter().zip(applied) {
            hooks::recorded(&change.to);
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
        Step::Wait(Some(self.shared.config.reconnect.delay(self.failures)))
    }

    /// Gives calls in flight a moment, lets the binding give back what was not fetched, and records all of it.
    async fn wind_down(&mut self) {
        let end = Instant::now() + self.shared.config.shutdown_grace;
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

async fn sleep(wait: Option<Duration>) {
    match wait {
        // A little more than asked for, so that the wall clock has surely arrived too.
        Some(wait) => tokio::time::sleep(wait + Duration::from_millis(1)).await,
        None => std::future::pending().await,
    }
}
