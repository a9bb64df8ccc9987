//! Histories that a test plays as they should be, and once more with a fault planted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use beepgrid_receiver::inbox::memory::MemoryInbox;
use beepgrid_receiver::{
    Capabilities, Evidence, Handover, InboxStore, InputBinding, InputState, LiveInput, Receiver, Reconciled, Reporter,
    Resolution, StoredInput, Submission,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::engine::FakeEngine;
use super::{about, message, until};

/// Answers when it is told to.
#[derive(Default)]
struct Slow {
    /// Takes everything into memory; otherwise the first answer gets lost and the others say accepted.
    takes: bool,
    submits: AtomicU32,
    questions: AtomicU32,
    answer_question: Notify,
    answer_submit: Notify,
    line: std::sync::OnceLock<Reporter>,
}

impl InputBinding for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn attach(&self, reporter: Reporter) -> Capabilities {
        let _ = self.line.set(reporter);
        let mut able = Capabilities::new();
        (able.reconcile, able.reports_idle) = (true, true);
        able
    }

    async fn submit(&self, _input: &LiveInput, _to: Handover) -> Submission {
        if self.submits.fetch_add(1, Ordering::SeqCst) == 0 && !self.takes {
            return Submission::Unknown("lost".to_owned());
        }
        self.answer_submit.notified().await;
        if self.takes { Submission::Taken(Evidence::none()) } else { Submission::Accepted }
    }

    async fn reconcile(&self, _stored: &StoredInput) -> Reconciled {
        if self.questions.fetch_add(1, Ordering::SeqCst) == 0 {
            return Reconciled::Unknown;
        }
        self.answer_question.notified().await;
        Reconciled::Retry
    }
}

/// A person decides on a held result while the binding is asked about it again, and it is handed over again before that answer comes.
/// Whether it is handed over once more only.
pub(crate) async fn a_person_overtakes_an_answer_of_reconcile() -> bool {
    let (engine, inbox, slow) = (FakeEngine::new(), MemoryInbox::new(), Arc::new(Slow::default()));
    let receiver = Receiver::builder(engine.clone(), inbox.clone(), Arc::clone(&slow)).build().unwrap();
    let handle = receiver.handle();
    let run = tokio::spawn(receiver.run(CancellationToken::new()));
    engine.deliver(about("r1", "request_result", "req_1"));
    until("it is held", async || !handle.held(1).await.unwrap().is_empty()).await;
    let line = slow.line.get().unwrap();
    line.busy(true);
    line.idle();
    until("it is asked about again", async || slow.questions.load(Ordering::SeqCst) == 2).await;
    handle.resolve(&"r1".into(), Resolution::Retry).await.unwrap();
    until("it is handed over again", async || slow.submits.load(Ordering::SeqCst) == 2).await;
    slow.answer_question.notify_one();
    tokio::time::sleep(Duration::from_millis(100)).await;
    // Whoever starts after a crash at this point must not take it for one that was never handed over.
    let in_doubt = inbox.open().await.unwrap().first().is_some_and(|row| row.state == InputState::Submitting);
    slow.answer_submit.notify_one();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let done = inbox.open().await.unwrap().is_empty() && slow.submits.load(Ordering::SeqCst) == 2;
    run.abort();
    in_doubt && done
}

/// A turn is interrupted while the answer is on its way that an input was taken into it. Whether the binding is asked if it still is there.
pub(crate) async fn an_interruption_overtakes_an_answer() -> bool {
    let slow = Arc::new(Slow { takes: true, ..Slow::default() });
    let (engine, inbox) = (FakeEngine::new(), MemoryInbox::new());
    let receiver = Receiver::builder(engine.clone(), inbox.clone(), Arc::clone(&slow)).build().unwrap();
    let run = tokio::spawn(receiver.run(CancellationToken::new()));
    engine.deliver(message("m1", "a"));
    until("it is handed over", async || slow.submits.load(Ordering::SeqCst) == 1).await;
    slow.line.get().unwrap().interrupted();
    tokio::time::sleep(Duration::from_millis(100)).await;
    slow.answer_submit.notify_one();
    tokio::time::sleep(Duration::from_secs(10)).await;
    run.abort();
    slow.questions.load(Ordering::SeqCst) == 1
}
