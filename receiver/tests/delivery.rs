//! From the inbox into the runtime: order, modes, lost answers, held rows (field reports B01, B03, B05, B20).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod support;

use std::time::Duration;

use beepgrid::Timestamp;
use beepgrid_receiver::inbox::memory::MemoryInbox;
use beepgrid_receiver::{
    BuildError, BusyMode, Clock, Handle, HeldReason, InboxStore, InputState, Receiver, Reconciled, Refusal, Resolution,
    RetryPolicy, RunError,
};
use support::engine::FakeEngine;
use support::runtime::{Reply, Runtime};
use support::{about, message, until};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Running {
    engine: FakeEngine,
    inbox: MemoryInbox,
    runtime: Runtime,
    handle: Handle<MemoryInbox>,
    cancel: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

fn run(mode: BusyMode, runtime: &Runtime) -> Running {
    run_on(mode, runtime, &FakeEngine::new(), &MemoryInbox::new())
}

fn run_on(mode: BusyMode, runtime: &Runtime, engine: &FakeEngine, inbox: &MemoryInbox) -> Running {
    let receiver = Receiver::builder(engine.clone(), inbox.clone(), runtime.clone())
        .mode(mode)
        .clock(Clock::following_tokio(Timestamp::from_micros(1_000_000_000_000)))
        .retry(RetryPolicy { attempts: 3, first_delay: Duration::from_secs(1), max_delay: Duration::from_secs(60) })
        .call_deadline(Duration::from_secs(5))
        .build()
        .unwrap();
    let cancel = CancellationToken::new();
    Running {
        engine: engine.clone(),
        inbox: inbox.clone(),
        runtime: runtime.clone(),
        handle: receiver.handle(),
        cancel: cancel.clone(),
        task: tokio::spawn(receiver.run(cancel)),
    }
}

impl Running {
    fn deliver(&self, inputs: impl IntoIterator<Item = beepgrid_receiver::LiveInput>) {
        inputs.into_iter().for_each(|input| self.engine.deliver(input));
    }

    async fn state(&self, id: &str) -> Option<InputState> {
        self.inbox.get(id.into()).await.unwrap().map(|stored| stored.state)
    }

    async fn accepted(&self, id: &str) {
        until(&format!("{id} is accepted"), async || self.state(id).await == Some(InputState::Accepted)).await;
    }

    async fn held(&self, id: &str) -> HeldReason {
        let held = async || self.inbox.get(id.into()).await.unwrap().and_then(|stored| stored.held.clone());
        until(&format!("{id} is held"), async || held().await.is_some()).await;
        held().await.unwrap().reason
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// As after a kill: nothing more is recorded.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

// B01: a lost answer is no refusal.

#[tokio::test(start_paused = true)]
async fn a_steer_that_answers_too_late_is_reconciled_and_seen_once() {
    let runtime = Runtime::new().busy();
    runtime.reply([Reply::AcceptSilently]);
    let run = run(BusyMode::Steer, &runtime);
    run.deliver([message("m1", "a")]);
    until("the runtime was asked", async || run.runtime.calls() == ["m1 steer"]).await;
    assert_eq!(run.state("m1").await, Some(InputState::Submitting));
    run.accepted("m1").await;
    assert_eq!(run.runtime.reconciled(), ["m1"]);
    assert_eq!(run.runtime.calls(), ["m1 steer"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_steer_is_delivered_once_after_reconcile_says_retry() {
    let runtime = Runtime::new().busy();
    runtime.reply([Reply::LoseSilently]);
    let run = run(BusyMode::Steer, &runtime);
    run.deliver([message("m1", "a")]);
    run.accepted("m1").await;
    assert_eq!(run.runtime.reconciled(), ["m1"]);
    assert_eq!(run.runtime.calls(), ["m1 steer", "m1 steer"]);
    assert_eq!(run.runtime.history(), ["m1"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_reconcile_cannot_tell_is_held_and_never_sent_again_by_itself() {
    let runtime = Runtime::new().busy();
    runtime.reply([Reply::LoseSilently]);
    runtime.reconcile_says([Reconciled::Unknown]);
    let run = run(BusyMode::Steer, &runtime);
    run.deliver([message("m1", "a"), message("m2", "a"), message("m3", "b")]);
    assert_eq!(run.held("m1").await, HeldReason::Undecided);
    run.accepted("m3").await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(run.runtime.calls(), ["m1 steer", "m3 steer"], "its conversation waits, the other went on");
    run.handle.resolve(&"m1".into(), Resolution::Retry).await.unwrap();
    run.accepted("m2").await;
    assert_eq!(run.runtime.history(), ["m3", "m1", "m2"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_reconcile_that_a_person_overtook_counts_for_nothing() {
    assert!(support::scenarios::a_person_overtakes_an_answer_of_reconcile().await);
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_into_an_interrupted_turn_is_asked_about_though_the_answer_comes_later() {
    assert!(support::scenarios::an_interruption_overtakes_an_answer().await);
}

#[tokio::test(start_paused = true)]
async fn proof_that_never_comes_is_asked_for_where_no_end_of_a_turn_is_reported() {
    let runtime = Runtime::new().able(|able| able.reports_idle = false);
    runtime.reply([Reply::Take]);
    let run = run(BusyMode::Steer, &runtime);
    run.deliver([message("m1", "a"), message("m2", "a")]);
    until("it is taken", async || run.runtime.memory() == ["m1"]).await;
    run.runtime.die();
    tokio::time::sleep(Duration::from_secs(600)).await;
    run.accepted("m2").await;
    assert_eq!(run.runtime.history(), ["m1", "m2"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_runtime_still_has_in_memory_is_waited_for_and_not_held() {
    let runtime = Runtime::new().busy();
    runtime.reply([Reply::Take]);
    runtime.reconcile_says([Reconciled::Taken]);
    let run = run(BusyMode::Steer, &runtime);
    run.deliver([message("m1", "a")]);
    until("it is taken", async || run.runtime.memory() == ["m1"]).await;
    run.runtime.line().turn_ended();
    until("it was asked about", async || run.runtime.reconciled() == ["m1"]).await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let row = run.inbox.get("m1".into()).await.unwrap().unwrap();
    assert_eq!((row.state, row.held), (InputState::Submitting, None));
    run.runtime.keep();
    run.accepted("m1").await;
    assert_eq!(run.runtime.calls(), ["m1 steer"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_live_host_is_asked_again_when_its_turn_ends() {
    let runtime = Runtime::new().busy();
    runtime.reply([Reply::AcceptSilently]);
    runtime.reconcile_says([Reconciled::Unknown]);
    let run = run(BusyMode::Steer, &runtime);
    run.deliver([message("m1", "a")]);
    run.held("m1").await;
    run.runtime.line().idle();
    run.accepted("m1").await;
    assert_eq!(run.runtime.calls(), ["m1 steer"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_steer_refused_because_the_turn_ended_starts_one() {
    let runtime = Runtime::new().busy();
    runtime.reply([Reply::Refuse(Refusal::TurnEnded)]);
    let run = run(BusyMode::Steer, &runtime);
    run.deliver([message("m1", "a")]);
    run.accepted("m1").await;
    assert_eq!(run.runtime.calls(), ["m1 steer", "m1 queue"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn steering_names_the_turn_it_was_decided_on_and_starting_names_none() {
    let runtime = Runtime::new().busy().able(|able| able.turn_identity = true);
    runtime.reply([Reply::Refuse(Refusal::TurnEnded)]);
    let run = run(BusyMode::Steer, &runtime);
    runtime.line().turn_id("turn-7");
    run.deliver([message("m1", "a")]);
    run.accepted("m1").await;
    assert_eq!(runtime.calls(), ["m1 steer", "m1 queue"]);
    assert_eq!(runtime.expected_turns(), [Some("turn-7".to_owned()), None]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn doubt_about_a_runtime_that_recognises_repeats_is_settled_by_a_repeat() {
    let runtime = Runtime::new().able(|able| able.deduplicates = true);
    runtime.reply([Reply::LoseSilently]);
    runtime.reconcile_says([Reconciled::Unknown]);
    let run = run(BusyMode::Queue, &runtime);
    run.deliver([message("m1", "a")]);
    run.accepted("m1").await;
    assert_eq!(runtime.history(), ["m1"]);
    assert_eq!(runtime.reconciled(), ["m1"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_panics_leaves_the_row_in_doubt() {
    let runtime = Runtime::new();
    runtime.reply([Reply::Panic]);
    let run = run(BusyMode::Queue, &runtime);
    run.deliver([message("m1", "a")]);
    run.accepted("m1").await;
    assert_eq!((run.runtime.calls(), run.runtime.reconciled()), (vec!["m1 queue".to_owned()], vec!["m1".to_owned()]));
    run.stop().await;
}

// B03: two modes, two paths.

#[tokio::test(start_paused = true)]
async fn queued_rows_wait_for_idle_and_open_one_turn_each_in_order() {
    let runtime = Runtime::new().busy();
    let run = run(BusyMode::Queue, &runtime);
    run.deliver([message("m1", "a"), message("m2", "b")]);
    until("both are stored", async || run.engine.acked("m2")).await;
    for _ in 0..3 {
        run.runtime.line().busy(true);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(run.runtime.calls(), Vec::<String>::new(), "three boundaries passed, nothing leaked into the turn");
    run.runtime.line().idle();
    run.accepted("m1").await;
    run.runtime.line().busy(true);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(run.runtime.calls(), ["m1 queue"]);
    run.runtime.line().idle();
    run.accepted("m2").await;
    assert_eq!(run.runtime.calls(), ["m1 queue", "m2 queue"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_turn_is_not_started_while_the_first_is_not_reported_yet() {
    let runtime = Runtime::new();
    let run = run(BusyMode::Queue, &runtime);
    run.deliver([message("m1", "a"), message("m2", "b")]);
    run.accepted("m1").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(run.runtime.calls(), ["m1 queue"]);
    run.runtime.line().busy(true);
    run.runtime.line().idle();
    run.accepted("m2").await;
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_decision_resumes_its_waiter_past_queued_rows() {
    let runtime = Runtime::new().busy();
    let run = run(BusyMode::Queue, &runtime);
    run.deliver([message("m1", "a"), message("m2", "a"), about("r3", "request_result", "req_1")]);
    run.accepted("r3").await;
    assert_eq!(run.runtime.calls(), ["r3 resume"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_result_without_a_waiter_goes_in_as_input() {
    let runtime = Runtime::new().busy();
    runtime.reply([Reply::Refuse(Refusal::NoWaiter)]);
    let run = run(BusyMode::Queue, &runtime);
    run.deliver([message("m1", "a"), about("r2", "request_result", "req_1")]);
    run.accepted("r2").await;
    assert_eq!(run.runtime.calls(), ["r2 resume", "r2 steer"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_withdrawal_closes_a_waiting_request_and_informs_about_a_taken_one() {
    let runtime = Runtime::new().busy();
    let run = run(BusyMode::Queue, &runtime);
    run.deliver([about("q1", "request", "req_1"), about("w2", "request_withdrawn", "req_1")]);
    run.accepted("w2").await;
    assert_eq!(run.state("q1").await, Some(InputState::Accepted));
    assert_eq!(run.runtime.calls(), Vec::<String>::new());
    run.runtime.line().idle();
    run.deliver([about("q3", "request", "req_3")]);
    run.accepted("q3").await;
    run.runtime.line().busy(true);
    run.deliver([about("w4", "request_withdrawn", "req_3")]);
    run.accepted("w4").await;
    assert_eq!(run.runtime.calls(), ["q3 queue", "w4 steer"]);
    run.stop().await;
}

#[test]
fn a_queue_only_binding_asked_to_steer_is_refused_when_built() {
    let build =
        |mode, runtime: Runtime| Receiver::builder(FakeEngine::new(), MemoryInbox::new(), runtime).mode(mode).build().err();
    let queue_only = Runtime::new().able(|able| able.steer = false);
    assert!(matches!(build(BusyMode::Steer, queue_only.clone()), Some(BuildError::CannotSteer { .. })));
    assert_eq!(build(BusyMode::Queue, queue_only), None);
    let never_idle = Runtime::new().able(|able| able.reports_idle = false);
    assert!(matches!(build(BusyMode::Queue, never_idle.clone()), Some(BuildError::CannotQueue { .. })));
    assert_eq!(build(BusyMode::Steer, never_idle), None);
}

// B05: delivered is remembered where nothing rebuilds it.

#[tokio::test(start_paused = true)]
async fn a_delivered_message_is_never_handed_over_again() {
    let runtime = Runtime::new();
    let (engine, inbox) = (FakeEngine::new(), MemoryInbox::new());
    let first = run_on(BusyMode::Queue, &runtime, &engine, &inbox);
    first.deliver([message("m1", "a")]);
    first.accepted("m1").await;
    first.runtime.line().interrupted();
    first.runtime.line().idle();
    first.stop().await;
    let second = run_on(BusyMode::Queue, &runtime, &engine, &inbox);
    engine.redeliver("m1");
    until("the redelivery is acknowledged", async || engine.acks("m1") == 2).await;
    second.deliver([message("m2", "a")]);
    second.accepted("m2").await;
    assert_eq!(runtime.calls(), ["m1 queue", "m2 queue"]);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_message_is_retried_alone_and_delays_no_other_conversation() {
    let runtime = Runtime::new().able(|able| able.reports_idle = false);
    runtime.reply([Reply::Refuse(Refusal::Rejected("no".to_owned()))]);
    let run = run(BusyMode::Steer, &runtime);
    run.deliver([message("m1", "x")]);
    until("m1 failed", async || run.runtime.calls().len() == 1).await;
    run.deliver([message("m2", "y")]);
    run.accepted("m2").await;
    run.accepted("m1").await;
    assert_eq!(run.runtime.calls(), ["m1 steer", "m2 steer", "m1 steer"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn poison_is_held_after_bounded_retries_and_its_conversation_goes_on() {
    let runtime = Runtime::new().able(|able| able.reports_idle = false);
    runtime.reply(vec![Reply::Refuse(Refusal::Rejected("too long".to_owned())); 3]);
    let run = run(BusyMode::Steer, &runtime);
    run.deliver([message("m1", "x"), message("m2", "x")]);
    assert_eq!(run.held("m1").await, HeldReason::TooManyAttempts);
    run.accepted("m2").await;
    let held = run.handle.held(10).await.unwrap();
    assert!(held[0].held.as_ref().unwrap().detail.contains("too long"));
    assert_eq!(run.runtime.calls(), ["m1 steer", "m1 steer", "m1 steer", "m2 steer"]);
    run.handle.resolve(&"m1".into(), Resolution::Retry).await.unwrap();
    run.accepted("m1").await;
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_person_can_give_up_a_held_message_while_the_receiver_runs_and_offline() {
    let runtime = Runtime::new().able(|able| able.reports_idle = false);
    runtime.reply(vec![Reply::Refuse(Refusal::Rejected("no".to_owned())); 6]);
    let run = run(BusyMode::Steer, &runtime);
    run.deliver([message("m1", "x"), message("m2", "y")]);
    run.held("m1").await;
    run.held("m2").await;
    run.handle.resolve(&"m1".into(), Resolution::Discard).await.unwrap();
    assert_eq!(run.state("m1").await, Some(InputState::Accepted));
    let inbox = run.inbox.clone();
    run.stop().await;
    inbox.resolve("m2".into(), Resolution::Accepted, Timestamp::from_micros(1)).await.unwrap();
    assert_eq!(inbox.open().await.unwrap(), []);
    assert_eq!(runtime.history(), Vec::<String>::new());
}

// Taken is not accepted.

#[tokio::test(start_paused = true)]
async fn what_was_taken_stays_submitting_until_the_proof_comes() {
    let runtime = Runtime::new().busy();
    runtime.reply([Reply::Take]);
    let run = run(BusyMode::Steer, &runtime);
    run.deliver([message("m1", "a")]);
    until("m1 is taken", async || run.runtime.memory() == ["m1"]).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let stored = run.inbox.get("m1".into()).await.unwrap().unwrap();
    assert_eq!(stored.state, InputState::Submitting);
    let attempt = stored.attempt.clone().unwrap();
    assert_eq!((attempt.session.as_deref(), attempt.native_id.as_deref()), (Some("session-1"), Some("native-1")));
    run.runtime.keep();
    run.accepted("m1").await;
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_sends_everything_taken_to_reconcile() {
    let runtime = Runtime::new().busy();
    runtime.reply([Reply::Take, Reply::Take]);
    let run = run(BusyMode::Steer, &runtime);
    run.deliver([message("m1", "a"), message("m2", "b")]);
    until("both are taken", async || run.runtime.memory().len() == 2).await;
    run.runtime.die();
    run.runtime.line().interrupted();
    run.accepted("m1").await;
    run.accepted("m2").await;
    assert_eq!(run.runtime.history(), ["m1", "m2"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn proof_that_comes_after_the_row_was_held_settles_it() {
    let runtime = Runtime::new().busy();
    runtime.reply([Reply::LoseSilently]);
    runtime.reconcile_says([Reconciled::Unknown]);
    let run = run(BusyMode::Steer, &runtime);
    run.deliver([message("m1", "a")]);
    run.held("m1").await;
    run.runtime.line().accepted(&"m1".into());
    run.accepted("m1").await;
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_doubt_is_settled_first_and_in_order() {
    let runtime = Runtime::new();
    runtime.reply([Reply::Take]);
    let (engine, inbox) = (FakeEngine::new(), MemoryInbox::new());
    let first = run_on(BusyMode::Queue, &runtime, &engine, &inbox);
    first.deliver([message("m1", "a"), message("m2", "a")]);
    until("m1 is taken", async || runtime.memory() == ["m1"]).await;
    first.kill().await;
    runtime.die();
    let second = run_on(BusyMode::Queue, &runtime, &engine, &inbox);
    second.accepted("m1").await;
    runtime.line().busy(true);
    runtime.line().idle();
    second.accepted("m2").await;
    assert_eq!(runtime.reconciled(), ["m1"]);
    assert_eq!(runtime.history(), ["m1", "m2"]);
    second.stop().await;
}

// B20: one dispatcher, however often it is woken.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wake_ups_at_the_same_instant_hand_a_row_over_once() {
    let runtime = Runtime::new().able(|able| able.reports_idle = false);
    let run = run(BusyMode::Steer, &runtime);
    let count = 300;
    for n in 1..=count {
        run.deliver([message(&format!("m{n}"), &format!("c{}", n % 7))]);
        let (line, other) = (run.runtime.line(), run.runtime.line());
        let wakes = [tokio::spawn(async move { line.busy(true) }), tokio::spawn(async move { other.idle() })];
        for wake in wakes {
            wake.await.unwrap();
        }
    }
    until("all arrived", async || run.runtime.history().len() >= count).await;
    let mut history = run.runtime.history();
    history.sort();
    history.dedup();
    assert_eq!((history.len(), run.runtime.calls().len()), (count, count));
    run.stop().await;
}
