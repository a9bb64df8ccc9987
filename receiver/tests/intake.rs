//! From the engine into the inbox: custody, room, failures (field reports B04 a without a process, B08 for the poll, B14, B21, B45).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use beepgrid::{ConversationId, DeliveryId, DeliveryKind, Timestamp};
use beepgrid_receiver::engine::{CredentialLife, Leases, SourceError, SourceErrorKind};
use beepgrid_receiver::inbox::memory::MemoryInbox;
use beepgrid_receiver::inbox::{Applied, Counts, InboxErrorKind, OpenInput, PutReport, StateChange};
use beepgrid_receiver::{
    Clock, InboxError, InboxStore, IntakeState, LiveInput, Receiver, ReceiverBuilder, Resolution, RunError, Status, StoredInput,
};
use support::engine::{FakeEngine, START};
use support::runtime::Runtime;
use support::{about, message, until};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

struct Running {
    status: watch::Receiver<Status>,
    cancel: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

fn run<I: InboxStore + Clone>(
    engine: &FakeEngine,
    inbox: &I,
    runtime: &Runtime,
    set: impl FnOnce(ReceiverBuilder<FakeEngine, I, Runtime>) -> ReceiverBuilder<FakeEngine, I, Runtime>,
) -> Running {
    let builder = Receiver::builder(engine.clone(), inbox.clone(), runtime.clone())
        .clock(Clock::following_tokio(Timestamp::from_micros(START)));
    let receiver = set(builder).build().unwrap();
    let cancel = CancellationToken::new();
    Running { status: receiver.status(), cancel: cancel.clone(), task: tokio::spawn(receiver.run(cancel)) }
}

impl Running {
    fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap().unwrap();
    }
}

fn passing() -> SourceError {
    SourceError::new(SourceErrorKind::Passing, "connection refused")
}

#[tokio::test(start_paused = true)]
async fn stored_before_acknowledged_and_a_lost_ack_is_repeated_without_a_second_delivery() {
    let (engine, inbox, runtime) = (FakeEngine::new(), MemoryInbox::new(), Runtime::new());
    engine.fail_next_ack(passing());
    engine.deliver(message("m1", "a"));
    let run = run(&engine, &inbox, &runtime, |builder| builder);
    until("acknowledged", async || engine.acked("m1")).await;
    until("accepted", async || runtime.history() == ["m1"]).await;
    assert_eq!(inbox.unacked(10).await.unwrap(), []);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_process_stored_is_acknowledged_by_the_next() {
    let (engine, inbox, runtime) = (FakeEngine::new(), MemoryInbox::new(), Runtime::new().busy());
    engine.deliver(message("m1", "a"));
    // The first process leased it under generation 1, stored it, and died.
    let first = run(&engine, &inbox, &runtime, |builder| builder);
    until("stored", async || engine.acked("m1")).await;
    first.task.abort();
    let mut row = message("m1", "a");
    row.delivery.generation = 2;
    inbox.put(vec![row], Timestamp::from_micros(1)).await.unwrap();
    engine.redeliver("m1");
    let second = run(&engine, &inbox, &runtime, |builder| builder);
    until("acknowledged under the number of the redelivery", async || inbox.unacked(10).await.unwrap().is_empty()).await;
    assert!(engine.acked("m1"));
    assert_eq!(inbox.counts().await.unwrap().rows, 1);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn at_max_pending_only_results_and_withdrawals_are_leased() {
    let (engine, inbox, runtime) = (FakeEngine::new(), MemoryInbox::new(), Runtime::new().busy());
    for n in 1..=5 {
        engine.deliver(message(&format!("m{n}"), "a"));
    }
    let run = run(&engine, &inbox, &runtime, |builder| builder.max_pending(2).reserve(2));
    until("the bound is reached", async || run.status().intake == IntakeState::ResultsOnly).await;
    assert!(engine.leased("m2") && !engine.leased("m3"));
    engine.deliver(about("r6", "request_result", "req_1"));
    until("the result got through", async || runtime.history() == ["r6"]).await;
    assert!(!engine.leased("m3"), "the rest stays with the engine");
    assert_eq!(engine.polls().last().unwrap().kinds, [DeliveryKind::RequestResult, DeliveryKind::RequestWithdrawn]);
    runtime.line().idle();
    until("there is room again", async || engine.leased("m3")).await;
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_the_reserve_used_up_nothing_is_leased_until_there_is_room() {
    let (engine, inbox) = (FakeEngine::new(), MemoryInbox::new());
    let runtime = Runtime::new().able(|able| able.resume = false).busy();
    let run = run(&engine, &inbox, &runtime, |builder| builder.max_pending(1).reserve(1));
    runtime.line().busy(false);
    for n in 1..=3 {
        engine.deliver(about(&format!("r{n}"), "request_result", &format!("req_{n}")));
    }
    until("full", async || run.status().intake == IntakeState::Full).await;
    let polls = engine.polls().len();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(engine.polls().len(), polls);
    runtime.line().busy(true);
    until("all through", async || runtime.history().len() == 3).await;
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn at_the_bound_of_rows_intake_stops_says_so_and_forgets_nothing() {
    let (engine, inbox, runtime) = (FakeEngine::new(), MemoryInbox::new(), Runtime::new());
    let run = run(&engine, &inbox, &runtime, |builder| builder.max_pending(2).reserve(1).max_rows(4));
    for n in 1..=6 {
        engine.deliver(message(&format!("m{n}"), &format!("c{n}")));
        runtime.line().busy(true);
        runtime.line().idle();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    until("out of rows", async || run.status().intake == IntakeState::OutOfRows).await;
    assert_eq!(inbox.counts().await.unwrap().rows, 4);
    run.stop().await;
}

/// Waits so many days and lets a delivery tell the engine's time; returns what is left of `m1`.
async fn days_later(days: u64, id: &str, engine: &FakeEngine, inbox: &MemoryInbox, runtime: &Runtime) -> bool {
    let days = Duration::from_secs(days * 86_400);
    engine.fail_next_lease(passing().retry_after(Some(days)));
    tokio::time::sleep(days + Duration::from_secs(60)).await;
    engine.deliver(message(id, "a"));
    until("the host takes it", async || {
        runtime.line().idle();
        runtime.history().iter().any(|taken| taken == id)
    })
    .await;
    // Old ids are looked for once an hour.
    tokio::time::sleep(Duration::from_secs(2 * 3_600)).await;
    inbox.get("m1".into()).await.unwrap().is_some()
}

#[tokio::test(start_paused = true)]
async fn accepted_ids_are_forgotten_after_ninety_days() {
    let (engine, inbox, runtime) = (FakeEngine::new(), MemoryInbox::new(), Runtime::new());
    let run = run(&engine, &inbox, &runtime, |builder| builder);
    engine.deliver(message("m1", "a"));
    until("accepted", async || runtime.history() == ["m1"]).await;
    assert!(days_later(89, "m2", &engine, &inbox, &runtime).await);
    assert!(!days_later(2, "m3", &engine, &inbox, &runtime).await);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_far_ahead_or_back_forgets_nothing_and_parks_nothing() {
    for jump in [400_i64, -400] {
        let (engine, inbox, runtime) = (FakeEngine::new(), MemoryInbox::new(), Runtime::new());
        let clock = Clock::following_tokio(Timestamp::from_micros(START));
        let run = run(&engine, &inbox, &runtime, |builder| builder.clock(clock.clone()));
        engine.deliver(message("m1", "a"));
        until("accepted", async || runtime.history() == ["m1"]).await;
        clock.jump(jump * 86_400_000_000);
        assert!(days_later(1, "m2", &engine, &inbox, &runtime).await);
        assert!(days_later(1, "m3", &engine, &inbox, &runtime).await);
        run.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn transport_failures_are_waited_out_with_growing_delays() {
    let (engine, inbox, runtime) = (FakeEngine::new(), MemoryInbox::new(), Runtime::new());
    for _ in 0..50 {
        engine.fail_next_lease(passing());
    }
    let began = Instant::now();
    let run = run(&engine, &inbox, &runtime, |builder| builder);
    until("a failure shows", async || run.status().last_error.is_some()).await;
    assert!(!run.status().connected);
    engine.deliver(message("m1", "a"));
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(runtime.history(), ["m1"]);
    assert!(began.elapsed() > Duration::from_secs(50 * 20), "fifty failures took {:?}", began.elapsed());
    assert!(run.status().connected && run.status().last_error.is_none());
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_engine_is_left_alone_as_long_as_it_asks() {
    let (engine, inbox, runtime) = (FakeEngine::new(), MemoryInbox::new(), Runtime::new());
    engine.fail_next_lease(passing().retry_after(Some(Duration::from_secs(120))));
    let run = run(&engine, &inbox, &runtime, |builder| builder);
    tokio::time::sleep(Duration::from_secs(119)).await;
    assert_eq!(engine.polls().len(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(engine.polls().len() > 1);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_credential_ends_the_run_with_its_error() {
    let (engine, inbox, runtime) = (FakeEngine::new(), MemoryInbox::new(), Runtime::new());
    engine.fail_next_lease(SourceError::new(SourceErrorKind::Final, "unauthorized"));
    let run = run(&engine, &inbox, &runtime, |builder| builder);
    let status = run.status.clone();
    let Err(RunError::Refused(error)) = run.task.await.unwrap() else { panic!("the run must end with the refusal") };
    assert_eq!(error.kind(), SourceErrorKind::Final);
    assert_eq!((engine.polls().len(), status.borrow().intake), (1, IntakeState::Stopped));
}

// B45: one delivery that can't be read.

#[tokio::test(start_paused = true)]
async fn an_unreadable_delivery_blocks_no_other_and_makes_no_loop_spin() {
    let (engine, inbox, runtime) = (FakeEngine::new(), MemoryInbox::new(), Runtime::new());
    let bad = || SourceError::new(SourceErrorKind::Undecodable, "lone surrogate");
    let good = message("m1", "a").delivery;
    engine.answer_next_lease(Leases { deliveries: vec![good], unreadable: vec![bad()] });
    for _ in 0..20 {
        engine.answer_next_lease(Leases { deliveries: Vec::new(), unreadable: vec![bad()] });
    }
    let began = Instant::now();
    let run = run(&engine, &inbox, &runtime, |builder| builder);
    until("the good one is through", async || runtime.history() == ["m1"]).await;
    assert!(run.status().last_error.is_some());
    until("the bad ones are over", async || engine.polls().len() > 21 || began.elapsed() > Duration::from_secs(1)).await;
    assert!(engine.polls().len() < 10, "{} polls in {:?}", engine.polls().len(), began.elapsed());
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_an_unreadable_answer_deliveries_are_taken_one_at_a_time() {
    let (engine, inbox, runtime) = (FakeEngine::new(), MemoryInbox::new(), Runtime::new());
    engine.fail_next_lease(SourceError::new(SourceErrorKind::Undecodable, "not JSON"));
    engine.deliver(message("m1", "a"));
    let run = run(&engine, &inbox, &runtime, |builder| builder);
    until("delivered", async || runtime.history() == ["m1"]).await;
    let limits: Vec<u32> = engine.polls().iter().map(|poll| poll.limit).collect();
    assert_eq!(limits[..2], [50, 1]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_renewable_credential_is_renewed_when_a_third_is_left() {
    let (engine, inbox, runtime) = (FakeEngine::new(), MemoryInbox::new(), Runtime::new());
    let hours = |hours: u64| Some(Timestamp::from_micros(START).plus(Duration::from_secs(hours * 3_600)));
    let life = |end| CredentialLife { expires_at: hours(end) };
    engine.credential_ends(life(24), vec![Some(life(40)), Some(life(50)), Some(life(50))]);
    let began = Instant::now();
    let run = run(&engine, &inbox, &runtime, |builder| builder);
    until("the end shows", async || run.status().expires_at == hours(24)).await;
    tokio::time::sleep(Duration::from_secs(200 * 3_600)).await;
    let renewed: Vec<u64> = engine.renewed_at().iter().map(|at| at.duration_since(began).as_secs() / 60).collect();
    // At 16 h (8 h before the end); then a third of 24 h before hour 40; then near hour 50, where the hard end shows.
    assert_eq!(renewed[..2], [16 * 60, 32 * 60]);
    assert_eq!(renewed.len(), 3);
    assert_eq!(run.status().expires_at, hours(50));
    run.stop().await;
}

// A disk that is full for a while.

#[derive(Clone)]
struct Full {
    inbox: MemoryInbox,
    refusals: Arc<AtomicU32>,
    calls: Arc<AtomicU32>,
}

impl Full {
    fn called(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
    }

    fn check(&self) -> Result<(), InboxError> {
        self.called();
        let left = self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_ok() { Err(InboxError::new(InboxErrorKind::Full, "writing")) } else { Ok(()) }
    }
}

impl InboxStore for Full {
    async fn put(&self, batch: Vec<LiveInput>, now: Timestamp) -> Result<PutReport, InboxError> {
        self.check()?;
        self.inbox.put(batch, now).await
    }

    async fn unacked(&self, limit: u32) -> Result<Vec<(DeliveryId, i64)>, InboxError> {
        self.called();
        self.inbox.unacked(limit).await
    }

    async fn mark_acked(&self, leases: Vec<(DeliveryId, i64)>) -> Result<(), InboxError> {
        self.check()?;
        self.inbox.mark_acked(leases).await
    }

    async fn pending(&self, limit: u32) -> Result<Vec<StoredInput>, InboxError> {
        self.called();
        self.inbox.pending(limit).await
    }

    async fn open(&self) -> Result<Vec<OpenInput>, InboxError> {
        self.called();
        self.inbox.open().await
    }

    async fn set_state(&self, changes: Vec<StateChange>, now: Timestamp) -> Result<Vec<Applied>, InboxError> {
        self.check()?;
        self.inbox.set_state(changes, now).await
    }

    async fn get(&self, id: DeliveryId) -> Result<Option<StoredInput>, InboxError> {
        self.called();
        self.inbox.get(id).await
    }

    async fn held(&self, limit: u32) -> Result<Vec<StoredInput>, InboxError> {
        self.called();
        self.inbox.held(limit).await
    }

    async fn resolve(&self, id: DeliveryId, resolution: Resolution, now: Timestamp) -> Result<(), InboxError> {
        self.called();
        self.inbox.resolve(id, resolution, now).await
    }

    async fn remember_session(
        &self,
        conversation: ConversationId,
        session: String,
        now: Timestamp,
    ) -> Result<String, InboxError> {
        self.called();
        self.inbox.remember_session(conversation, session, now).await
    }

    async fn counts(&self) -> Result<Counts, InboxError> {
        self.called();
        self.inbox.counts().await
    }

    async fn prune(&self, accepted_before: Timestamp) -> Result<u32, InboxError> {
        self.called();
        self.inbox.prune(accepted_before).await
    }

    async fn close(&self) -> Result<(), InboxError> {
        self.called();
        self.inbox.close().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_delays_everything_and_loses_and_doubles_nothing() {
    for refusals in 0..12 {
        let (engine, runtime) = (FakeEngine::new(), Runtime::new().able(|able| able.reports_idle = false));
        let inbox = Full { inbox: MemoryInbox::new(), refusals: Arc::new(AtomicU32::new(refusals)), calls: Arc::default() };
        for n in 1..=3 {
            engine.deliver(message(&format!("m{n}"), "a"));
        }
        let run = run(&engine, &inbox, &runtime, |builder| builder.mode(beepgrid_receiver::BusyMode::Steer));
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(runtime.history(), ["m1", "m2", "m3"], "after {refusals} refusals");
        assert_eq!(inbox.open().await.unwrap(), []);
        assert!(run.status().last_error.is_none());
        run.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_inbox_ends_the_run_with_its_error() {
    let (engine, inbox, runtime) = (FakeEngine::new(), MemoryInbox::new(), Runtime::new());
    let run = run(&engine, &inbox, &runtime, |builder| builder);
    until("it runs", async || run.status().connected).await;
    inbox.close().await.unwrap();
    engine.deliver(message("m1", "a"));
    let Err(RunError::Inbox(error)) = run.task.await.unwrap() else { panic!("the run must end") };
    assert_eq!(error.kind(), InboxErrorKind::Closed);
    assert!(!engine.acked("m1"));
}

// What waiting costs.

#[tokio::test(start_paused = true)]
async fn an_idle_receiver_wakes_for_its_polls_and_for_nothing_else() {
    let inbox = Full { inbox: MemoryInbox::new(), refusals: Arc::default(), calls: Arc::default() };
    let (engine, runtime) = (FakeEngine::new(), Runtime::new());
    let run = run(&engine, &inbox, &runtime, |builder| builder);
    engine.deliver(message("m1", "a"));
    until("m1 arrived", async || runtime.history() == ["m1"]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (polls, calls) = (engine.polls().len(), inbox.calls.load(Ordering::SeqCst));
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let (polls, calls) = (engine.polls().len() - polls, inbox.calls.load(Ordering::SeqCst) - calls);
    // A poll waits fifteen seconds; before each the room is looked at, and once an hour old ids are looked for.
    assert_eq!(polls, 240);
    assert!((240..=241).contains(&calls), "{calls} calls of the inbox");
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn input_that_waits_for_a_busy_host_costs_nothing_either() {
    let inbox = Full { inbox: MemoryInbox::new(), refusals: Arc::default(), calls: Arc::default() };
    let (engine, runtime) = (FakeEngine::new(), Runtime::new().busy());
    let run = run(&engine, &inbox, &runtime, |builder| builder.max_pending(100));
    for n in 1..=100 {
        engine.deliver(message(&format!("m{n}"), "a"));
    }
    until("all are stored", async || run.status().pending == 100).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (polls, calls) = (engine.polls().len(), inbox.calls.load(Ordering::SeqCst));
    tokio::time::sleep(Duration::from_secs(600)).await;
    // With the inbox full only results are polled for, two seconds each.
    assert_eq!(engine.polls().len() - polls, 300);
    assert!(inbox.calls.load(Ordering::SeqCst) - calls <= 301);
    assert_eq!(runtime.calls(), Vec::<String>::new());
    run.stop().await;
}
