//! One caller's piece of work on its way to a store thread and back.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use super::{ReadTx, StoreError, WriteTx};
use crate::service::refusal::Refusal;

/// Work that changes something. It runs once, may lose its outcome to a failed commit, and answers last.
pub(super) trait WritePiece: Send {
    /// Whether the caller went away before the work began.
    fn is_abandoned(&self) -> bool;
    /// Runs the work; false means that nothing of it may be kept.
    fn run(&mut self, tx: &WriteTx<'_>) -> bool;
    /// Replaces the outcome: what the work did was not kept.
    fn refuse(&mut self, refusal: Refusal);
    fn answer(self: Box<Self>);
}

/// Work that only reads. It answers by itself.
pub(super) type ReadPiece = Box<dyn FnOnce(Result<&ReadTx<'_>, StoreError>) + Send>;

/// What a store thread is asked to do.
pub(super) enum Command {
    Write(Box<dyn WritePiece>),
    Read(ReadPiece),
    /// Finish what is queued and end.
    Close,
}

struct Piece<F, T> {
    work: Option<F>,
    outcome: Option<Result<T, Refusal>>,
    answer: Option<oneshot::Sender<Result<T, Refusal>>>,
}

/// Packs a write; its outcome comes by the receiver. A dropped sender means that the outcome is unknown.
pub(super) fn write<T, F>(work: F) -> (Box<dyn WritePiece>, oneshot::Receiver<Result<T, Refusal>>)
where
    T: Send + 'static,
    F: FnOnce(&WriteTx<'_>) -> Result<T, Refusal> + Send + 'static,
{
    let (answer, outcome) = oneshot::channel();
    (Box::new(Piece { work: Some(work), outcome: None, answer: Some(answer) }), outcome)
}

/// Packs a read; a dropped sender means that it did not run.
pub(super) fn read<T, F>(work: F) -> (ReadPiece, oneshot::Receiver<Result<T, Refusal>>)
where
    T: Send + 'static,
    F: FnOnce(&ReadTx<'_>) -> Result<T, Refusal> + Send + 'static,
{
    let (answer, outcome) = oneshot::channel();
    let piece: ReadPiece = Box::new(move |tx: Result<&ReadTx<'_>, StoreError>| {
        if answer.is_closed() {
            return;
        }
        let result = match tx {
            Ok(tx) => caught(tx, || work(tx)),
            Err(error) => Err(error.into()),
        };
        // The caller may have gone meanwhile; nothing depends on its hearing of it.
        drop(answer.send(result));
    });
    (piece, outcome)
}

impl<T, F> WritePiece for Piece<F, T>
where
    T: Send,
    F: FnOnce(&WriteTx<'_>) -> Result<T, Refusal> + Send,
{
    fn is_abandoned(&self) -> bool {
        self.answer.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    fn run(&mut self, tx: &WriteTx<'_>) -> bool {
        let Some(work) = self.work.take() else { return false };
        let outcome = caught(tx, || work(tx));
        let kept = outcome.is_ok();
        self.outcome = Some(outcome);
        kept
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.work = None;
        self.outcome = Some(Err(refusal));
    }

    fn answer(mut self: Box<Self>) {
        if let (Some(answer), Some(outcome)) = (self.answer.take(), self.outcome.take()) {
            // The caller may have gone meanwhile; what was kept stays kept.
            drop(answer.send(outcome));
        }
    }
}

impl<F, T> Drop for Piece<F, T> {
    fn drop(&mut self) {
        // Dropped before it began (the thread ended): nothing was stored, and the caller may know. Dropped later without an
        // answer, the closed channel tells the caller that the outcome is unknown.
        if self.work.is_some()
            && let Some(answer) = self.answer.take()
        {
            drop(answer.send(Err(StoreError::Closed.into())));
        }
    }
}

/// Runs work of a caller: a panic is its own fault and ends nothing else; a failed statement can't be ignored.
fn caught<T>(tx: &ReadTx<'_>, work: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(_)) if tx.has_failed() => Err(Refusal::internal("a statement failed, but the work went on as if it had not")),
        Ok(outcome) => outcome,
        Err(panic) => Err(Refusal::internal(format!("panic in the store: {}", panic_text(&*panic)))),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
