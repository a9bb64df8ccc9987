//! Random histories: arrivals, idle and busy, refusals, interrupts, lost answers, crashes of either side. Whatever happens, every message reaches the
//! runtime's durable history exactly once, and each conversation in order.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use beepgrid::Timestamp;
use beepgrid_receiver::inbox::memory::MemoryInbox;
use beepgrid_receiver::{
    BusyMode, Capabilities, Clock, Evidence, Handover, InboxStore, InputBinding, LiveInput, Receiver, Reconciled, Refusal,
    Reporter, RetryPolicy, StoredInput, Submission,
};
use proptest::prelude::*;
use support::engine::FakeEngine;
use support::message;
use tokio_util::sync::CancellationToken;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    Arrive(u8),
    /// The engine hands an earlier delivery out again.
    Redeliver(prop::sample::Index),
    /// The user gives the host work of its own.
    HostBegins,
    /// The host reaches a point where it writes down what it took.
    HostKeeps,
    TurnEnds,
    /// An interrupt: the turn ends and what was only in memory is gone.
    Interrupt,
    /// The next answers of the runtime.
    Answers(Vec<Answer>),
    ReceiverDies,
    BothDie,
    TimePasses(u16),
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Reject,
    /// Takes it, and the answer gets lost.
    TakeSilently,
    /// Loses it, and the answer gets lost.
    LoseSilently,
    /// Takes it and writes it down at once.
    Keep,
}

#[derive(Default)]
struct Runtime {
    busy: bool,
    memory: Vec<String>,
    history: Vec<String>,
    answers: Vec<Answer>,
    line: Option<Reporter>,
    /// Inputs that were handed over although they were in memory or in the history.
    doubled: Vec<String>,
}

#[derive(Clone, Default)]
struct ModelHost(Arc<Mutex<Runtime>>);

impl ModelHost {
    fn lock(&self) -> MutexGuard<'_, Runtime> {
        self.0.lock().unwrap()
    }

    fn begin(&self) {
        let mut runtime = self.lock();
        runtime.busy = true;
        runtime.report(|line| line.busy(true));
    }

    fn keep(&self) {
        let mut runtime = self.lock();
        let kept = std::mem::take(&mut runtime.memory);
        for id in kept {
            runtime.report(|line| line.accepted(&id.as_str().into()));
            runtime.history.push(id);
        }
    }

    fn end_turn(&self) {
        self.keep();
        let mut runtime = self.lock();
        runtime.busy = false;
        runtime.report(Reporter::idle);
    }

    fn interrupt(&self) {
        let mut runtime = self.lock();
        runtime.memory.clear();
        runtime.busy = false;
        runtime.report(Reporter::interrupted);
        runtime.report(Reporter::idle);
    }

    fn die(&self) {
        let mut runtime = self.lock();
        runtime.memory.clear();
        runtime.busy = false;
        runtime.line = None;
    }
}

impl Runtime {
    fn report(&self, report: impl FnOnce(&Reporter)) {
        if let Some(line) = &self.line {
            report(line);
        }
    }

    fn take(&mut self, id: &str) {
        if self.memory.iter().chain(&self.history).any(|known| known == id) {
            self.doubled.push(id.to_owned());
        }
    }
}

impl InputBinding for ModelHost {
    fn name(&self) -> &'static str {
        "model"
    }

    fn attach(&self, reporter: Reporter) -> Capabilities {
        let mut runtime = self.lock();
        if runtime.busy {
            reporter.busy(true);
        }
        runtime.line = Some(reporter);
        let mut capabilities = Capabilities::new();
        (capabilities.steer, capabilities.reconcile, capabilities.reports_idle) = (true, true, true);
        capabilities
    }

    async fn submit(&self, input: &LiveInput, to: Handover) -> Submission {
        let mode = to.mode;
        // A little time, so that crashes and reports fall into the call.
        tokio::time::sleep(Duration::from_millis(7)).await;
        let answer = {
            let mut runtime = self.lock();
            match (mode, runtime.busy) {
                (BusyMode::Queue, true) => return Submission::Refused(Refusal::NotNow),
                (BusyMode::Steer, false) => return Submission::Refused(Refusal::TurnEnded),
                _ => {}
            }
            let answer = runtime.answers.pop();
            let id = input.id.to_string();
            if matches!(answer, None | Some(Answer::Keep | Answer::TakeSilently)) {
                runtime.take(&id);
                if mode == BusyMode::Queue {
                    runtime.busy = true;
                    runtime.report(|line| line.busy(true));
                }
                if matches!(answer, Some(Answer::Keep)) { runtime.history.push(id) } else { runtime.memory.push(id) }
            }
            answer
        };
        match answer {
            None => Submission::Taken(Evidence::none()),
            Some(Answer::Keep) => Submission::Accepted,
            Some(Answer::Reject) => Submission::Refused(Refusal::Rejected("not today".to_owned())),
            Some(Answer::TakeSilently | Answer::LoseSilently) => std::future::pending().await,
        }
    }

    async fn reconcile(&self, stored: &StoredInput) -> Reconciled {
        let runtime = self.lock();
        let id = stored.id.to_string();
        if runtime.history.contains(&id) {
            Reconciled::Accepted
        } else if runtime.memory.contains(&id) {
            Reconciled::Unknown
        } else {
            Reconciled::Retry
        }
    }
}

struct World {
    mode: BusyMode,
    engine: FakeEngine,
    inbox: MemoryInbox,
    host: ModelHost,
    clock: Clock,
    run: Option<tokio::task::JoinHandle<()>>,
    sent: Vec<(String, String)>,
}

impl World {
    fn new(mode: BusyMode) -> Self {
        let clock = Clock::following_tokio(Timestamp::from_micros(1_000_000_000_000));
        let (engine, inbox, host) = (FakeEngine::new(), MemoryInbox::new(), ModelHost::default());
        let mut world = Self { mode, engine, inbox, host, clock, run: None, sent: Vec::new() };
        world.start();
        world
    }

    fn start(&mut self) {
        let receiver = Receiver::builder(self.engine.clone(), self.inbox.clone(), self.host.clone())
            .mode(self.mode)
            .clock(self.clock.clone())
            .retry(RetryPolicy { attempts: 10_000, first_delay: Duration::from_millis(50), max_delay: Duration::from_secs(1) })
            .call_deadline(Duration::from_millis(300))
            .max_pending(5)
            .build()
            .unwrap();
        self.run = Some(tokio::spawn(async move { receiver.run(CancellationToken::new()).await.unwrap() }));
    }

    async fn kill(&mut self) {
        if let Some(run) = self.run.take() {
            run.abort();
            let _ = run.await;
        }
    }

    async fn happen(&mut self, event: &Event) {
        match event {
            Event::Arrive(conversation) => {
                let id = format!("m{:04}", self.sent.len() + 1);
                let conversation = format!("c{}", conversation % 3);
                self.engine.deliver(message(&id, &conversation));
                self.sent.push((id, conversation));
            }
            Event::Redeliver(index) if !self.sent.is_empty() => {
                let id = index.get(&self.sent).0.clone();
                // Only what is stored here is acknowledged and can be handed out again out of order.
                if self.engine.acked(&id) {
                    self.engine.redeliver(&id);
                }
            }
            Event::Redeliver(_) => {}
            Event::HostBegins => self.host.begin(),
            Event::HostKeeps => self.host.keep(),
            Event::TurnEnds => self.host.end_turn(),
            Event::Interrupt => self.host.interrupt(),
            Event::Answers(answers) => self.host.lock().answers.clone_from(answers),
            Event::ReceiverDies => {
                self.kill().await;
                self.start();
            }
            Event::BothDie => {
                self.kill().await;
                self.host.die();
                self.start();
            }
            Event::TimePasses(millis) => tokio::time::sleep(Duration::from_millis(u64::from(*millis))).await,
        }
    }

    /// Lets everything come to its end: the runtime works normally from here on.
    async fn finish(&mut self) {
        self.host.lock().answers.clear();
        for _ in 0..4 * self.sent.len() + 20 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            self.host.end_turn();
            if self.inbox.open().await.unwrap().is_empty() && self.host.lock().history.len() >= self.sent.len() {
                break;
            }
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        self.kill().await;
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let runtime = self.host.lock();
        let mut by_conversation: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (id, conversation) in &self.sent {
            by_conversation.entry(conversation).or_default().push(id);
        }
        prop_assert!(runtime.doubled.is_empty(), "handed over twice: {:?}", runtime.doubled);
        for (conversation, expected) in by_conversation {
            let arrived: Vec<&str> = runtime.history.iter().map(String::as_str).filter(|id| expected.contains(id)).collect();
            prop_assert_eq!(arrived, expected, "conversation {}", conversation);
        }
        prop_assert_eq!(runtime.history.len(), self.sent.len());
        Ok(())
    }
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let answer = prop_oneof![Just(Answer::Reject), Just(Answer::TakeSilently), Just(Answer::LoseSilently), Just(Answer::Keep),];
    let event = prop_oneof![
        8 => any::<u8>().prop_map(Event::Arrive),
        1 => any::<prop::sample::Index>().prop_map(Event::Redeliver),
        2 => Just(Event::HostBegins),
        3 => Just(Event::HostKeeps),
        4 => Just(Event::TurnEnds),
        1 => Just(Event::Interrupt),
        2 => prop::collection::vec(answer, 0..4).prop_map(Event::Answers),
        2 => Just(Event::ReceiverDies),
        1 => Just(Event::BothDie),
        8 => (0_u16..700).prop_map(Event::TimePasses),
    ];
    prop::collection::vec(event, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_doubled_or_out_of_order(steer in any::<bool>(), events in events()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut world = World::new(if steer { BusyMode::Steer } else { BusyMode::Queue });
            for event in &events {
                world.happen(event).await;
            }
            world.finish().await;
            world.check()
        })?;
    }
}
