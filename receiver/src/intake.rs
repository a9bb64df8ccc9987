//! From the engine into the inbox: lease, commit, acknowledge. Never calls the runtime and never waits for it.

use std::sync::Arc;
use std::time::Duration;

use beepgrid::{Delivery, DeliveryId, DeliveryKind, ErrorCode, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::{Config, KEEP_ACCEPTED, LONG_POLL, NARROW_POLL, PRUNE_EVERY};
use crate::dispatch::Signals;
use crate::engine::{AckOutcome, Leases, Poll, Source, SourceError, SourceErrorKind};
use crate::hooks;
use crate::inbox::{Counts, InboxError, InboxErrorKind, InboxStore};
use crate::input::LiveInput;
use crate::mutants::{self, Mutant};
use crate::status::{IntakeState, Part, StatusBoard};

/// Acks that go into one call.
const ACKS: u32 = 100;
/// How many leases after an unreadable answer take one delivery each.
const SINGLES: u32 = 50;
/// How long to look again when there is no room and nothing says that there is.
const ROOM_CHECK: Duration = Duration::from_secs(15);

pub(crate) struct Intake<S, I> {
    pub(crate) source: Arc<S>,
    pub(crate) inbox: Arc<I>,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) status: Arc<StatusBoard>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) state: State,
}

/// What intake remembers between its rounds.
#[derive(Default)]
pub(crate) struct State {
    /// Stored, and the engine does not know yet.
    unacked: Vec<(DeliveryId, i64)>,
    /// An answer could not be read: this many more leases take one delivery each, so that the bad one hides no good ones.
    one_at_a_time: u32,
    /// Whether the last poll was answered. The first one after a failure asks for no wait, so that `connected` is known at once.
    answered: bool,
    failures: u32,
    pruned_at: Option<Instant>,
    /// The latest time that the engine spoke of.
    engine_time: Option<Timestamp>,
}

/// Why intake ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Cancelled,
    Refused(SourceError),
    Lost(InboxError),
}

/// What one round came to.
enum Round {
    Again,
    Wait(Duration),
    End(Ended),
}

impl<S: Source, I: InboxStore> Intake<S, I> {
    /// Works until `cancel` fires or the engine refuses for good.
    pub(crate) async fn run(mut self, cancel: &CancellationToken) -> Ended {
        let mut loaded = false;
        loop {
            let round = async {
                if !loaded {
                    match self.inbox.unacked(u32::MAX).await {
                        Ok(left) => self.state.unacked = left,
                        Err(error) => return self.cannot_store("reading leases", error),
                    }
                    loaded = true;
                }
                self.round().await
            };
            let round = tokio::select! {
                biased;
                () = cancel.cancelled() => return Ended::Cancelled,
                round = round => round,
            };
            match round {
                Round::Again => {}
                Round::End(ended) => return ended,
                Round::Wait(wait) => tokio::select! {
                    biased;
                    () = cancel.cancelled() => return Ended::Cancelled,
                    () = tokio::time::sleep(wait) => {}
                },
            }
        }
    }

    async fn round(&mut self) -> Round {
        if let Err(round) = self.acknowledge().await {
            return round;
        }
        if let Err(error) = self.prune().await {
            return self.cannot_store("forgetting old ids", error);
        }
        // Before the count, so that room made after it is not missed.
        let freed = self.signals.freed.subscribe();
        let counts = match self.inbox.counts().await {
            Ok(counts) => counts,
            Err(error) => return self.cannot_store("counting", error),
        };
        let (state, poll) = self.next_poll(&counts);
        self.status.intake(state);
        let Some(poll) = poll else { return wait_for_room(freed).await };
        match self.source.lease(poll).await {
            Ok(leases) => self.leased(leases).await,
            Err(error) => self.engine_failed("leasing", error),
        }
    }

    async fn leased(&mut self, leases: Leases) -> Round {
        let Leases { deliveries, unreadable } = leases;
        let left = self.state.one_at_a_time.saturating_sub(1);
        self.state.one_at_a_time = if deliveries.is_empty() && unreadable.is_empty() { 0 } else { left };
        self.status.polled(self.clock.now());
        self.state.engine_time = self.state.engine_time.max(deliveries.iter().map(|delivery| delivery.leased_until).max());
        self.state.answered = true;
        for error in &unreadable {
            self.status.failed(Part::Delivery, "reading a delivery", error);
        }
        if deliveries.is_empty() && !unreadable.is_empty() {
            // The engine brings it again, later and later; an engine that does so at once must not make this loop spin.
            self.state.failures = self.state.failures.saturating_add(1);
            return Round::Wait(self.config.reconnect.delay(self.state.failures));
        }
        self.state.failures = 0;
        if unreadable.is_empty() {
            self.status.works(Part::Delivery);
        }
        if deliveries.is_empty() {
            return Round::Again;
        }
        hooks::reached(hooks::LEASED);
        self.store(deliveries).await
    }

    /// What to ask for, given what is here.
    fn next_poll(&self, counts: &Counts) -> (IntakeState, Option<Poll>) {
        let config = &self.config;
        let batch = if self.state.one_at_a_time > 0 { 1 } else { config.batch };
        let rows_left = config.max_rows.saturating_sub(counts.rows);
        let results_left = config.reserve.saturating_sub(counts.open_results);
        let ordinary_left = config.max_pending.saturating_sub(counts.open_ordinary);
        let results = vec![DeliveryKind::RequestResult, DeliveryKind::RequestWithdrawn];
        let poll = |wait, limit: u32, kinds| {
            let wait = if self.state.answered { wait } else { Duration::ZERO };
            Some(Poll { wait, limit: limit.min(batch), kinds })
        };
        if rows_left == 0 {
            (IntakeState::OutOfRows, None)
        } else if results_left == 0 || ordinary_left == 0 && mutants::on(Mutant::ResultsWaitForRoom) {
            (IntakeState::Full, None)
        } else if ordinary_left == 0 {
            (IntakeState::ResultsOnly, poll(NARROW_POLL, results_left.min(rows_left), results))
        } else {
            (IntakeState::Open, poll(LONG_POLL, ordinary_left.min(results_left).min(rows_left), Vec::new()))
        }
    }

    /// Stores the batch, however long that takes: letting go of it would only let leases run out one after another.
    async fn store(&mut self, deliveries: Vec<Delivery>) -> Round {
        let leases: Vec<(DeliveryId, i64)> = deliveries.iter().map(|d| (d.id.clone(), d.generation)).collect();
        let mut batch: Vec<LiveInput> = deliveries.into_iter().map(LiveInput::from).collect();
        let mut failures = 0;
        if mutants::on(Mutant::AckBeforeCommit) {
            let _ = self.source.ack(leases.clone()).await;
        }
        if mutants::on(Mutant::BatchCutShort) {
            batch.truncate(1);
        }
        loop {
            match self.inbox.put(batch.clone(), self.clock.now()).await {
                Ok(_) => break,
                Err(_) if mutants::on(Mutant::FailedStoreIgnored) => break,
                Err(error) => {
                    failures += 1;
                    match self.cannot_store("storing a batch", error) {
                        Round::End(ended) => return Round::End(ended),
                        _ => tokio::time::sleep(self.config.reconnect.delay(failures)).await,
                    }
                }
            }
        }
        self.status.works(Part::Inbox);
        hooks::reached(hooks::STORED);
        Signals::raise(&self.signals.changed);
        self.state.unacked.extend(leases);
        match self.acknowledge().await {
            Ok(()) => Round::Again,
            Err(round) => round,
        }
    }

    /// Acknowledges what is stored; what the engine does not confirm is tried again before the next lease.
    async fn acknowledge(&mut self) -> Result<(), Round> {
        while !self.state.unacked.is_empty() {
            let chunk: Vec<(DeliveryId, i64)> = self.state.unacked.iter().take(ACKS as usize).cloned().collect();
            let mut sent = chunk.clone();
            if mutants::on(Mutant::AckWithoutGeneration) {
                for (_, generation) in &mut sent {
                    *generation = 1;
                }
            }
            let outcomes = match self.source.ack(sent).await {
                Ok(outcomes) => outcomes,
                // The list is fixed and may be the trouble; repeating it for ever would stop the intake for good.
                Err(error) if error.kind() == SourceErrorKind::Undecodable => {
                    self.status.failed(Part::Engine, "acknowledging", &error);
                    Vec::new()
                }
                Err(error) => return Err(self.engine_failed("acknowledging", error)),
            };
            hooks::reached(hooks::ACKED);
            let settled: Vec<(DeliveryId, i64)> =
                chunk.iter().zip(outcomes).filter(|(_, outcome)| is_settled(outcome)).map(|(lease, _)| lease.clone()).collect();
            if let Err(error) = self.inbox.mark_acked(settled).await {
                return Err(self.cannot_store("noting acks", error));
            }
            self.state.unacked.drain(..chunk.len());
        }
        Ok(())
    }

    /// Forgets old ids; old by the engine's clock too, so that a local clock set far ahead makes nothing old that is not.
    async fn prune(&mut self) -> Result<(), InboxError> {
        let Some(engine_time) = self.state.engine_time else { return Ok(()) };
        if self.state.pruned_at.is_none_or(|at| at.elapsed() >= PRUNE_EVERY) {
            let now = self.clock.now();
            let now = if mutants::on(Mutant::ForgottenByLocalClock) { now } else { now.min(engine_time) };
            self.inbox.prune(now.minus(KEEP_ACCEPTED)).await?;
            self.state.pruned_at = Some(Instant::now());
        }
        Ok(())
    }

    fn engine_failed(&mut self, doing: &str, error: SourceError) -> Round {
        self.status.failed(Part::Engine, doing, &error);
        self.state.answered = false;
        match error.kind() {
            SourceErrorKind::Final => return Round::End(Ended::Refused(error)),
            SourceErrorKind::Undecodable => self.state.one_at_a_time = SINGLES,
            SourceErrorKind::Passing => {}
        }
        self.state.failures = self.state.failures.saturating_add(1);
        let backoff = self.config.reconnect.delay(self.state.failures);
        Round::Wait(error.asked_wait().map_or(backoff, |asked| asked.max(backoff)))
    }

    fn cannot_store(&mut self, doing: &str, error: InboxError) -> Round {
        self.status.failed(Part::Inbox, doing, &error);
        self.status.intake(IntakeState::CannotStore);
        match error.kind() {
            // Somebody else may own the files now, or nobody ever will again: going on would lose what is stored.
            InboxErrorKind::LockLost | InboxErrorKind::Closed | InboxErrorKind::Corrupt => Round::End(Ended::Lost(error)),
            _ => {
                self.state.failures = self.state.failures.saturating_add(1);
                Round::Wait(self.config.reconnect.delay(self.state.failures))
            }
        }
    }
}

async fn wait_for_room(mut freed: watch::Receiver<u64>) -> Round {
    tokio::select! {
        biased;
        _ = freed.changed() => Round::Again,
        () = tokio::time::sleep(ROOM_CHECK) => Round::Again,
    }
}

/// Whether nothing remains to be said about a lease. A stale one is ours in the inbox all the same; when the engine hands the delivery out again, the
/// higher generation is acknowledged.
fn is_settled(outcome: &AckOutcome) -> bool {
    match outcome {
        AckOutcome::Received => true,
        AckOutcome::Refused(code) => *code == ErrorCode::NotFound,
    }
}
