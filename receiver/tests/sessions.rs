//! One inbox, several native sessions: each with its own order, its own idle and busy, remembered over restarts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use beepgrid::{ConversationId, Timestamp};
use beepgrid_receiver::inbox::memory::MemoryInbox;
use beepgrid_receiver::{
    BusyMode, Clock, Handle, HeldReason, InboxStore, InputState, Receiver, Reconciled, RouteError, RunError, SessionRoute,
};
use support::engine::FakeEngine;
use support::runtime::{Reply, Runtime};
use support::{about, message, until};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Conversation `a` belongs to session `prefix-a`, and so on; each session has a scripted runtime of its own.
#[derive(Clone)]
struct Threads {
    prefix: &'static str,
    runtimes: Arc<Mutex<BTreeMap<String, Runtime>>>,
    asked: Arc<Mutex<Vec<String>>>,
    refusals: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Threads {
    fn new(prefix: &'static str) -> Self {
        Self { prefix, runtimes: Arc::default(), asked: Arc::default(), refusals: Arc::default() }
    }

    fn with(self, session: &str, runtime: &Runtime) -> Self {
        self.runtimes.lock().unwrap().insert(session.to_owned(), runtime.clone());
        self
    }

    fn runtime(&self, session: &str) -> Runtime {
        self.runtimes.lock().unwrap().entry(session.to_owned()).or_insert_with(Runtime::new).clone()
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn refuse(&self, what: &str, times: u32) {
        self.refusals.lock().unwrap().insert(what.to_owned(), times);
    }

    fn check(&self, what: &str) -> Result<(), RouteError> {
        match self.refusals.lock().unwrap().get_mut(what) {
            Some(left) if *left > 0 => {
                *left -= 1;
                Err("not now".into())
            }
            _ => Ok(()),
        }
    }
}

impl SessionRoute for Threads {
    type Binding = Runtime;

    async fn session(&self, conversation: &ConversationId) -> Result<String, RouteError> {
        self.asked.lock().unwrap().push(conversation.to_string());
        self.check(conversation.as_str())?;
        Ok(format!("{}-{conversation}", self.prefix))
    }

    async fn open(&self, session: &str) -> Result<Runtime, RouteError> {
        self.check(session)?;
        Ok(self.runtime(session))
    }
}

struct Running {
    engine: FakeEngine,
    inbox: MemoryInbox,
    handle: Handle<MemoryInbox>,
    status: tokio::sync::watch::Receiver<beepgrid_receiver::Status>,
    cancel: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

fn run_on(threads: &Threads, engine: &FakeEngine, inbox: &MemoryInbox, mode: BusyMode) -> Running {
    let receiver = Receiver::by_session(engine.clone(), inbox.clone(), threads.clone())
        .mode(mode)
        .clock(Clock::following_tokio(Timestamp::from_micros(1_000_000_000_000)))
        .call_deadline(Duration::from_secs(5))
        .build()
        .unwrap();
    let cancel = CancellationToken::new();
    Running {
        engine: engine.clone(),
        inbox: inbox.clone(),
        handle: receiver.handle(),
        status: receiver.status(),
        cancel: cancel.clone(),
        task: tokio::spawn(receiver.run(cancel)),
    }
}

fn run(threads: &Threads) -> Running {
    run_on(threads, &FakeEngine::new(), &MemoryInbox::new(), BusyMode::Queue)
}

impl Running {
    fn deliver(&self, inputs: impl IntoIterator<Item = beepgrid_receiver::LiveInput>) {
        inputs.into_iter().for_each(|input| self.engine.deliver(input));
    }

    async fn accepted(&self, id: &str) {
        let state = async || self.inbox.get(id.into()).await.unwrap().map(|stored| stored.state);
        until(&format!("{id} is accepted"), async || state().await == Some(InputState::Accepted)).await;
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn each_conversation_reaches_its_own_session_in_order_and_is_routed_once() {
    let threads = Threads::new("thread");
    let run = run(&threads);
    run.deliver([message("m1", "a"), message("m2", "b"), message("m3", "a"), message("m4", "b")]);
    for (first, session) in [("m1", "thread-a"), ("m2", "thread-b")] {
        run.accepted(first).await;
        threads.runtime(session).line().idle();
    }
    run.accepted("m3").await;
    run.accepted("m4").await;
    assert_eq!(threads.runtime("thread-a").history(), ["m1", "m3"]);
    assert_eq!(threads.runtime("thread-b").history(), ["m2", "m4"]);
    assert_eq!(threads.asked(), ["a", "b"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_busy_session_holds_back_no_other() {
    let threads = Threads::new("thread").with("thread-a", &Runtime::new().busy());
    let run = run(&threads);
    run.deliver([message("m1", "a"), message("m2", "b")]);
    run.accepted("m2").await;
    assert_eq!(threads.runtime("thread-a").calls(), Vec::<String>::new());
    threads.runtime("thread-a").line().idle();
    run.accepted("m1").await;
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_conversation_stays_with_its_session_after_a_restart_whatever_the_route_says_then() {
    let (engine, inbox, old) = (FakeEngine::new(), MemoryInbox::new(), Threads::new("old"));
    let first = run_on(&old, &engine, &inbox, BusyMode::Queue);
    first.deliver([message("m1", "a")]);
    first.accepted("m1").await;
    first.stop().await;
    let new = Threads::new("new");
    let second = run_on(&new, &engine, &inbox, BusyMode::Queue);
    second.deliver([message("m2", "a"), message("m3", "b")]);
    second.accepted("m2").await;
    second.accepted("m3").await;
    assert_eq!(new.runtime("old-a").history(), ["m2"]);
    assert_eq!(new.runtime("new-b").history(), ["m3"]);
    assert_eq!(new.asked(), ["b"]);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_in_flight_at_a_crash_is_reconciled_by_the_session_that_had_it() {
    let (engine, inbox) = (FakeEngine::new(), MemoryInbox::new());
    let threads = Threads::new("thread");
    threads.runtime("thread-a").reply([Reply::AcceptSilently]);
    let first = run_on(&threads, &engine, &inbox, BusyMode::Queue);
    first.deliver([message("m1", "a"), message("m2", "b")]);
    first.accepted("m2").await;
    until("m1 is with its runtime", async || threads.runtime("thread-a").history() == ["m1"]).await;
    first.task.abort();
    let _ = first.task.await;
    let second = run_on(&threads, &engine, &inbox, BusyMode::Queue);
    second.accepted("m1").await;
    assert_eq!(threads.runtime("thread-a").reconciled(), ["m1"]);
    assert_eq!(threads.runtime("thread-a").history(), ["m1"]);
    assert_eq!(threads.runtime("thread-b").reconciled(), Vec::<String>::new());
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_cannot_be_named_or_opened_is_shown_tried_again_and_delays_no_other() {
    let threads = Threads::new("thread");
    threads.refuse("a", 2);
    threads.refuse("thread-b", 3);
    let mut run = run(&threads);
    run.deliver([message("m1", "a"), message("m2", "b"), message("m3", "c")]);
    run.accepted("m3").await;
    run.status.wait_for(|status| status.last_error.as_deref().is_some_and(|error| error.contains("not now"))).await.unwrap();
    run.accepted("m1").await;
    run.accepted("m2").await;
    run.status.wait_for(|status| status.last_error.is_none()).await.unwrap();
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_cannot_steer_is_shown_when_steering_is_asked_for_and_its_input_waits() {
    let threads = Threads::new("thread").with("thread-a", &Runtime::new().able(|able| able.steer = false));
    let mut run = run_on(&threads, &FakeEngine::new(), &MemoryInbox::new(), BusyMode::Steer);
    run.deliver([message("m1", "a"), message("m2", "b")]);
    run.accepted("m2").await;
    run.status.wait_for(|status| status.last_error.as_deref().is_some_and(|error| error.contains("use queue"))).await.unwrap();
    assert_eq!(run.handle.pending(10).await.unwrap().len(), 1);
    assert_eq!(threads.runtime("thread-a").calls(), Vec::<String>::new());
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_request_goes_to_the_session_that_was_named_for_it() {
    let threads = Threads::new("thread");
    let run = run(&threads);
    run.deliver([message("m1", "a")]);
    run.accepted("m1").await;
    let result = about("r2", "request_result", "req_1");
    assert_eq!(run.handle.remember_session(&result.conversation_id, "thread-a").await.unwrap(), "thread-a");
    run.deliver([result]);
    run.accepted("r2").await;
    assert_eq!(threads.runtime("thread-a").calls(), ["m1 queue", "r2 resume"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_undecided_input_blocks_its_session_and_a_person_settles_it() {
    let threads = Threads::new("thread");
    threads.runtime("thread-a").reply([Reply::LoseSilently]);
    threads.runtime("thread-a").reconcile_says([Reconciled::Unknown]);
    let run = run(&threads);
    run.deliver([message("m1", "a"), message("m2", "b")]);
    run.accepted("m2").await;
    until("m1 is held", async || !run.handle.held(10).await.unwrap().is_empty()).await;
    let held = run.handle.held(10).await.unwrap();
    assert_eq!(held.first().and_then(|stored| stored.held.as_ref()).map(|held| held.reason), Some(HeldReason::Undecided));
    run.handle.resolve(&"m1".into(), beepgrid_receiver::Resolution::Retry).await.unwrap();
    run.accepted("m1").await;
    run.stop().await;
}
