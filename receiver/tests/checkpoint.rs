//! The checkpoint binding: boundaries, idle starts, results, acceptance (field reports B02, B03, B04 without a process).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod support;

use std::time::Duration;

use beepgrid::{RequestId, Timestamp};
use beepgrid_receiver::checkpoint::{self, Host, Options, UnclaimedResults};
use beepgrid_receiver::inbox::memory::MemoryInbox;
use beepgrid_receiver::{
    BusyMode, Clock, Handle, HeldReason, InboxStore, InputState, LiveInput, Receiver, Reconciled, RetryPolicy, RunError,
};
use support::engine::FakeEngine;
use support::{about, message, until};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Running {
    engine: FakeEngine,
    inbox: MemoryInbox,
    host: Host,
    handle: Handle<MemoryInbox>,
    cancel: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

fn run(mode: BusyMode, options: Options) -> Running {
    run_on(mode, options, &FakeEngine::new(), &MemoryInbox::new())
}

fn run_on(mode: BusyMode, options: Options, engine: &FakeEngine, inbox: &MemoryInbox) -> Running {
    let (binding, host) = checkpoint::channel(options);
    let receiver = Receiver::builder(engine.clone(), inbox.clone(), binding)
        .mode(mode)
        .clock(Clock::following_tokio(Timestamp::from_micros(1_000_000_000_000)))
        .retry(RetryPolicy { attempts: 3, ..RetryPolicy::default() })
        .build()
        .unwrap();
    let cancel = CancellationToken::new();
    Running {
        engine: engine.clone(),
        inbox: inbox.clone(),
        host,
        handle: receiver.handle(),
        cancel: cancel.clone(),
        task: tokio::spawn(receiver.run(cancel)),
    }
}

impl Running {
    async fn deliver(&self, input: LiveInput) {
        let id = input.id.clone();
        self.engine.deliver(input);
        until(&format!("{id} is stored"), async || self.engine.acked(id.as_str())).await;
    }

    async fn state(&self, id: &str) -> InputState {
        self.inbox.get(id.into()).await.unwrap().unwrap().state
    }

    async fn accepted(&self, id: &str) {
        until(&format!("{id} is accepted"), async || self.state(id).await == InputState::Accepted).await;
    }

    /// The input that opens the next turn, accepted; the turn goes on.
    async fn turn(&self, id: &str) -> checkpoint::Turn {
        let mut turn = self.host.next().await.unwrap();
        assert_eq!(turn.input().id.as_str(), id);
        turn.accept();
        turn
    }

    async fn joins(&self) -> Vec<String> {
        let batch = self.host.checkpoint().await;
        let ids = ids(batch.inputs());
        batch.accept();
        ids
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap().unwrap();
    }

    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

fn ids(inputs: &[LiveInput]) -> Vec<String> {
    inputs.iter().map(|input| input.id.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn steered_messages_join_at_the_next_boundary_together_and_in_order() {
    let run = run(BusyMode::Steer, Options::new());
    run.deliver(message("m1", "a")).await;
    let turn = run.turn("m1").await;
    run.deliver(message("m2", "a")).await;
    run.deliver(message("m3", "b")).await;
    run.deliver(message("m4", "a")).await;
    assert_eq!(run.joins().await, ["m2", "m3", "m4"]);
    assert_eq!(run.joins().await, Vec::<String>::new());
    turn.finish();
    run.accepted("m4").await;
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn queued_messages_wait_for_the_end_of_the_turn_in_order() {
    let run = run(BusyMode::Queue, Options::new());
    run.deliver(message("m1", "a")).await;
    let turn = run.turn("m1").await;
    run.deliver(message("m2", "b")).await;
    run.deliver(message("m3", "a")).await;
    assert_eq!(run.joins().await, Vec::<String>::new());
    turn.finish();
    run.turn("m2").await.finish();
    run.turn("m3").await.finish();
    run.stop().await;
}

// B02: a late message opens the next turn, with no further input from anybody.

#[tokio::test(start_paused = true)]
async fn a_message_after_the_last_boundary_is_the_first_thing_of_a_new_turn() {
    for mode in [BusyMode::Steer, BusyMode::Queue] {
        let run = run(mode, Options::new());
        run.deliver(message("m1", "a")).await;
        let turn = run.turn("m1").await;
        assert_eq!(run.joins().await, Vec::<String>::new());
        run.deliver(message("m2", "a")).await;
        turn.finish();
        let next = tokio::time::timeout(Duration::from_secs(1), run.turn("m2")).await.unwrap();
        next.finish();
        run.accepted("m2").await;
        run.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_between_turn_end_and_idle_is_not_forgotten() {
    for mode in [BusyMode::Steer, BusyMode::Queue] {
        let run = run(mode, Options::new());
        run.deliver(message("m1", "a")).await;
        run.turn("m1").await.finish();
        run.deliver(message("m2", "a")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        run.turn("m2").await.finish();
        assert_eq!(run.inbox.open().await.unwrap().len() + usize::from(run.state("m2").await == InputState::Accepted), 1);
        run.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_already_waits_is_woken() {
    let run = run(BusyMode::Queue, Options::new());
    let host = run.host.clone();
    let waiting = tokio::spawn(async move { host.next().await.unwrap().input().id.to_string() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.deliver(message("m1", "a")).await;
    assert_eq!(waiting.await.unwrap(), "m1");
    run.stop().await;
}

// Acceptance.

#[tokio::test(start_paused = true)]
async fn what_is_taken_is_accepted_only_when_the_host_says_so() {
    let run = run(BusyMode::Steer, Options::new());
    run.deliver(message("m1", "a")).await;
    let mut turn = run.host.next().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(run.state("m1").await, InputState::Submitting);
    turn.accept();
    run.accepted("m1").await;
    turn.finish();
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_batch_comes_again_at_the_next_boundary_and_is_held_after_too_often() {
    let run = run(BusyMode::Steer, Options::new());
    run.deliver(message("m1", "a")).await;
    let turn = run.turn("m1").await;
    run.deliver(message("m2", "a")).await;
    run.deliver(message("m3", "a")).await;
    for _ in 0..3 {
        let batch = run.host.checkpoint().await;
        assert_eq!(ids(batch.inputs()), ["m2", "m3"]);
        drop(batch);
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    let held = run.handle.held(10).await.unwrap();
    assert_eq!(held.len(), 2);
    assert!(held.iter().all(|input| input.held.as_ref().unwrap().reason == HeldReason::TooManyAttempts));
    turn.finish();
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_dropped_without_acceptance_comes_again() {
    let run = run(BusyMode::Queue, Options::new());
    run.deliver(message("m1", "a")).await;
    drop(run.host.next().await.unwrap());
    run.turn("m1").await.finish();
    run.accepted("m1").await;
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_without_history_accepts_by_taking() {
    let run = run(BusyMode::Steer, Options::new().accept_on_take());
    run.deliver(message("m1", "a")).await;
    let turn = run.host.next().await.unwrap();
    run.accepted("m1").await;
    run.deliver(message("m2", "a")).await;
    drop(run.host.checkpoint().await);
    run.accepted("m2").await;
    drop(turn);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_next_that_is_cancelled_leaves_its_message_with_the_receiver() {
    let run = run(BusyMode::Queue, Options::new());
    for n in 1..=20_u64 {
        let id = format!("m{n}");
        run.engine.deliver(message(&id, "a"));
        let mut accepted = false;
        // Cancelled at every stage of the hand-over.
        for yields in 0..n {
            tokio::select! {
                biased;
                turn = run.host.next(), if !accepted => {
                    turn.unwrap().accept();
                    accepted = true;
                }
                () = async { for _ in 0..yields { tokio::task::yield_now().await; } } => {}
            }
        }
        if !accepted {
            run.turn(&id).await.finish();
        }
        run.accepted(&id).await;
    }
    assert_eq!(run.handle.held(10).await.unwrap(), []);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_turn_ends_the_one_before_it() {
    let run = run(BusyMode::Queue, Options::new());
    run.deliver(message("m1", "a")).await;
    run.deliver(message("m2", "a")).await;
    let mut turn = run.turn("m1").await;
    assert!(turn.input().id.as_str() == "m1");
    turn = run.turn("m2").await;
    turn.finish();
    run.accepted("m2").await;
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_bounded_and_the_rest_joins_next_time() {
    let run = run(BusyMode::Steer, Options::new().max_batch(2));
    run.deliver(message("m1", "a")).await;
    let turn = run.turn("m1").await;
    for n in 2..=6 {
        run.deliver(message(&format!("m{n}"), "a")).await;
    }
    assert_eq!(run.joins().await, ["m2", "m3"]);
    assert_eq!(run.joins().await, ["m4", "m5"]);
    assert_eq!(run.joins().await, ["m6"]);
    turn.finish();
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_without_async_takes_what_came_since_the_last_one() {
    let run = run(BusyMode::Steer, Options::new());
    run.deliver(message("m1", "a")).await;
    let turn = run.turn("m1").await;
    assert!(run.host.try_checkpoint().is_empty());
    run.deliver(message("m2", "a")).await;
    until("m2 was taken ahead", async || run.state("m2").await == InputState::Submitting).await;
    let batch = run.host.try_checkpoint();
    assert_eq!(ids(batch.inputs()), ["m2"]);
    batch.accept();
    run.deliver(message("m3", "a")).await;
    until("m3 was taken ahead", async || run.state("m3").await == InputState::Submitting).await;
    turn.finish();
    run.turn("m3").await.finish();
    run.accepted("m3").await;
    let attempts = run.inbox.get("m3".into()).await.unwrap().unwrap().attempts;
    assert_eq!(attempts, 1, "what the host never saw is no attempt");
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_without_a_receiver_returns_at_once() {
    let (binding, host) = checkpoint::channel(Options::new());
    assert!(host.checkpoint().await.is_empty());
    assert!(host.try_checkpoint().is_empty());
    let receiver = Receiver::builder(FakeEngine::new(), MemoryInbox::new(), binding).build().unwrap();
    assert!(host.checkpoint().await.is_empty());
    drop(receiver);
    assert!(host.next().await.is_none());
    assert!(host.result(&RequestId::new("req_1")).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_host_that_waits_learns_that_the_receiver_has_ended() {
    let run = run(BusyMode::Queue, Options::new());
    let host = run.host.clone();
    let waiting = tokio::spawn(async move { host.next().await.is_none() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.stop().await;
    assert!(waiting.await.unwrap());
}

// Results.

#[tokio::test(start_paused = true)]
async fn a_result_resumes_its_waiter_past_queued_messages() {
    let run = run(BusyMode::Queue, Options::new());
    run.deliver(message("m1", "a")).await;
    let turn = run.turn("m1").await;
    run.deliver(message("m2", "a")).await;
    let host = run.host.clone();
    let tool = tokio::spawn(async move {
        let answer = host.result(&RequestId::new("req_1")).await.unwrap();
        let id = answer.input().id.to_string();
        answer.accept();
        id
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.deliver(about("r3", "request_result", "req_1")).await;
    assert_eq!(tool.await.unwrap(), "r3");
    run.accepted("r3").await;
    assert_eq!(run.state("m2").await, InputState::Pending);
    turn.finish();
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_result_that_came_before_its_waiter_waits_for_it_while_the_host_works() {
    for mode in [BusyMode::Steer, BusyMode::Queue] {
        let run = run(mode, Options::new());
        run.deliver(message("m1", "a")).await;
        let turn = run.turn("m1").await;
        run.deliver(about("r2", "request_result", "req_1")).await;
        assert_eq!(run.joins().await, Vec::<String>::new());
        let answer = run.host.result(&RequestId::new("req_1")).await.unwrap();
        assert_eq!(answer.input().id.as_str(), "r2");
        drop(answer);
        let again = run.host.result(&RequestId::new("req_1")).await.unwrap();
        again.accept();
        run.accepted("r2").await;
        turn.finish();
        run.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_nobody_waits_for_opens_a_turn_and_can_still_be_asked_for() {
    let run = run(BusyMode::Queue, Options::new());
    run.deliver(message("m1", "a")).await;
    let turn = run.turn("m1").await;
    run.deliver(message("m2", "a")).await;
    run.deliver(about("r3", "request_result", "req_1")).await;
    turn.finish();
    let turn = run.turn("r3").await;
    let again = run.host.result(&RequestId::new("req_1")).await.unwrap();
    assert_eq!(again.input().id.as_str(), "r3");
    turn.finish();
    run.turn("m2").await.finish();
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_can_have_unclaimed_results_join_its_work() {
    let run = run(BusyMode::Queue, Options::new().unclaimed_results(UnclaimedResults::Join));
    run.deliver(message("m1", "a")).await;
    let turn = run.turn("m1").await;
    run.deliver(message("m2", "a")).await;
    run.deliver(about("r3", "request_result", "req_1")).await;
    assert_eq!(run.joins().await, ["r3"]);
    turn.finish();
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_gives_up_loses_no_result() {
    let run = run(BusyMode::Queue, Options::new());
    run.deliver(message("m1", "a")).await;
    let turn = run.turn("m1").await;
    let request = RequestId::new("req_1");
    run.engine.deliver(about("r2", "request_result", "req_1"));
    for yields in 0..60 {
        tokio::select! {
            biased;
            answer = run.host.result(&request) => drop(answer),
            () = async { for _ in 0..yields { tokio::task::yield_now().await; } } => {}
        }
        if run.handle.get(&"r2".into()).await.unwrap().is_some_and(|stored| stored.attempts > 1) {
            break;
        }
    }
    run.host.result(&request).await.unwrap().accept();
    run.accepted("r2").await;
    turn.finish();
    run.stop().await;
}

// A new process: the channel of the old one is gone.

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_history_decides() {
    for (found, state) in [(Reconciled::Accepted, InputState::Accepted), (Reconciled::Retry, InputState::Submitting)] {
        let (engine, inbox) = (FakeEngine::new(), MemoryInbox::new());
        let first = run_on(BusyMode::Queue, Options::new(), &engine, &inbox);
        first.deliver(message("m1", "a")).await;
        let turn = first.host.next().await.unwrap();
        first.kill().await;
        let second = run_on(BusyMode::Queue, Options::new().history(move |_| async move { found }), &engine, &inbox);
        if found == Reconciled::Retry {
            second.turn("m1").await.finish();
        }
        second.accepted("m1").await;
        drop(turn);
        assert_ne!((state, InputState::Submitting), (second.state("m1").await, InputState::Pending));
        second.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_without_a_history_nobody_replays_blindly() {
    let (engine, inbox) = (FakeEngine::new(), MemoryInbox::new());
    let first = run_on(BusyMode::Queue, Options::new(), &engine, &inbox);
    first.deliver(message("m1", "a")).await;
    first.deliver(message("m2", "a")).await;
    first.deliver(message("m3", "b")).await;
    let _turn = first.host.next().await.unwrap();
    first.kill().await;
    let second = run_on(BusyMode::Queue, Options::new(), &engine, &inbox);
    second.turn("m3").await.finish();
    let held = second.handle.held(10).await.unwrap();
    assert_eq!((held.len(), held[0].held.as_ref().unwrap().reason), (1, HeldReason::Undecided));
    assert_eq!(second.state("m2").await, InputState::Pending, "order within its conversation is kept");
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_not_fetched_is_given_back_when_the_receiver_stops() {
    let (engine, inbox) = (FakeEngine::new(), MemoryInbox::new());
    let first = run_on(BusyMode::Steer, Options::new(), &engine, &inbox);
    first.deliver(message("m1", "a")).await;
    let turn = first.turn("m1").await;
    drop(first.host.try_checkpoint());
    first.deliver(message("m2", "a")).await;
    until("m2 is ahead of the host", async || first.state("m2").await == InputState::Submitting).await;
    first.stop().await;
    drop(turn);
    let stored = inbox.get("m2".into()).await.unwrap().unwrap();
    assert_eq!((stored.state, stored.attempts), (InputState::Pending, 0));
}

#[tokio::test(start_paused = true)]
async fn everything_of_the_host_can_cross_threads() {
    fn crosses<T: Send + 'static>(_: &T) {}
    let (_binding, host) = checkpoint::channel(Options::new());
    crosses(&host);
    let used = async move {
        let turn = host.next().await;
        host.checkpoint().await.accept();
        if let Some(answer) = host.result(&RequestId::new("req_1")).await {
            answer.accept();
        }
        drop(turn);
    };
    crosses(&used);
}
