//! What the host holds: its end of the channel, and what it fetched.

use std::sync::Arc;
use std::time::Duration;

use beepgrid::RequestId;

use super::desk::Desk;
use crate::binding::Settled;
use crate::input::LiveInput;

/// The host's end. Cheap to clone: the loop and its tools can each hold one.
#[derive(Clone, Debug)]
pub struct Host {
    desk: Arc<Desk>,
    window: Duration,
}

impl Host {
    pub(super) fn new(desk: Arc<Desk>, window: Duration) -> Self {
        Self { desk, window }
    }

    /// Waits while idle for the first input of the next turn; the host counts as busy from its return until the [`Turn`] is dropped or
    /// finished. Calling it again ends the turn before.
    ///
    /// `None` when the receiver has ended. Before one runs it waits. Safe to use in `select!`: what was not fetched stays with the receiver.
    pub async fn next(&self) -> Option<Turn> {
        struct Asking<'a>(&'a Desk);
        impl Drop for Asking<'_> {
            fn drop(&mut self) {
                self.0.stop_asking();
            }
        }
        let mut versions = self.desk.versions();
        self.desk.ask();
        let _asking = Asking(&self.desk);
        let mut ended = Ending::of(&self.desk);
        loop {
            versions.mark_unchanged();
            if let Some((input, number)) = self.desk.begin() {
                let inputs = Fetched { inputs: vec![input], desk: Arc::clone(&self.desk), open: true };
                return Some(Turn { inputs, number });
            }
            tokio::select! {
                _ = versions.changed() => self.desk.ask(),
                () = ended.wait() => return None,
            }
        }
    }

    /// Stands at a boundary: returns what should join the running work now, most often nothing, and at once.
    ///
    /// In queue mode only withdrawals (and, with [`super::UnclaimedResults::Join`], results) join. Without a running receiver the batch is empty.
    pub async fn checkpoint(&self) -> Batch {
        struct Window<'a>(&'a Desk);
        impl Drop for Window<'_> {
            fn drop(&mut self) {
                self.0.close_window();
            }
        }
        let settled = self.desk.settled();
        let opened = self.desk.open_window();
        let _window = Window(&self.desk);
        if let (Some(mut settled), Some(epoch)) = (settled, opened) {
            let done = settled.wait_for(|now| !matches!(now, Settled::Up(up) if *up < epoch));
            // A receiver that can't answer in time (a slow disk) keeps its input for the next boundary.
            let _ = tokio::time::timeout(self.window, done).await;
        }
        self.batch(self.desk.fetch(false))
    }

    /// The same without waiting, for code that is not async: returns what has joined since the last call, and leaves the boundary open so that
    /// more can come ahead of the next one.
    ///
    /// Input that came ahead and was not fetched is in doubt if the process dies, and then needs [`super::Options::history`]; at the
    /// end of the turn it is given back.
    pub fn try_checkpoint(&self) -> Batch {
        let inputs = self.desk.fetch(true);
        self.desk.open_window();
        self.batch(inputs)
    }

    /// Waits for the result of a request of one's own, past everything that is queued; also when it came before. A result that reached the host
    /// as ordinary input is returned again.
    ///
    /// `None` when the receiver has ended. Safe to use in `select!`.
    pub async fn result(&self, request: &RequestId) -> Option<Answer> {
        struct Waiting<'a>(&'a Desk, &'a RequestId);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.stop_waiting(self.1);
            }
        }
        let mut versions = self.desk.versions();
        self.desk.wait_for(request);
        let _waiting = Waiting(&self.desk, request);
        let mut ended = Ending::of(&self.desk);
        loop {
            versions.mark_unchanged();
            if let Some((input, open)) = self.desk.take_answer(request) {
                return Some(Answer(Fetched { inputs: vec![input], desk: Arc::clone(&self.desk), open }));
            }
            tokio::select! {
                _ = versions.changed() => {}
                () = ended.wait() => return None,
            }
        }
    }

    fn batch(&self, inputs: Vec<LiveInput>) -> Batch {
        Batch(Fetched { inputs, desk: Arc::clone(&self.desk), open: true })
    }
}

/// Waits for the end of the receiver that is attached, and follows when another takes its place.
struct Ending<'a> {
    desk: &'a Desk,
}

impl<'a> Ending<'a> {
    fn of(desk: &'a Desk) -> Self {
        Self { desk }
    }

    async fn wait(&mut self) {
        let mut attached = self.desk.attachments();
        loop {
            attached.mark_unchanged();
            match self.desk.settled() {
                None => {
                    let _ = attached.changed().await;
                }
                Some(mut settled) => tokio::select! {
                    // An error means that the receiver is gone altogether.
                    _ = settled.wait_for(|now| *now == Settled::Ended) => return,
                    _ = attached.changed() => {}
                },
            }
        }
    }
}

/// Inputs that the host has in its hands. Dropped open, they go back.
#[derive(Debug)]
struct Fetched {
    inputs: Vec<LiveInput>,
    desk: Arc<Desk>,
    open: bool,
}

impl Fetched {
    fn accept(&mut self) {
        if std::mem::take(&mut self.open) && !self.inputs.is_empty() {
            self.desk.accept(&self.inputs);
        }
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        if self.open && !self.inputs.is_empty() {
            self.desk.hand_back(&self.inputs);
        }
    }
}

/// What joins the running work at a boundary, in order. Dropped without [`Batch::accept`] it comes again.
#[derive(Debug)]
#[must_use = "a batch that is dropped without accept() was not accepted and comes again"]
pub struct Batch(Fetched);

impl Batch {
    /// The inputs; often none.
    pub fn inputs(&self) -> &[LiveInput] {
        &self.0.inputs
    }

    /// Whether nothing joins.
    pub fn is_empty(&self) -> bool {
        self.0.inputs.is_empty()
    }

    /// The host has all of them in its own history: they never come again.
    pub fn accept(mut self) {
        self.0.accept();
    }
}

/// A turn that one input opened. The host counts as busy until it is dropped or finished.
#[derive(Debug)]
pub struct Turn {
    inputs: Fetched,
    number: u64,
}

impl Turn {
    /// The input that opens the turn.
    #[expect(clippy::indexing_slicing, reason = "a turn is only made with exactly one input")]
    pub fn input(&self) -> &LiveInput {
        &self.inputs.inputs[0]
    }

    /// The host has it in its own history: it never comes again. Without this it comes again after the turn.
    pub fn accept(&mut self) {
        self.inputs.accept();
    }

    /// Ends the turn; so does dropping it.
    pub fn finish(self) {}
}

impl Drop for Turn {
    fn drop(&mut self) {
        // The verdict goes before the end of the turn, which would otherwise put the input in doubt.
        if std::mem::take(&mut self.inputs.open) {
            self.inputs.desk.hand_back(&self.inputs.inputs);
        }
        self.inputs.desk.end(self.number);
    }
}

/// The result of a request of one's own. Dropped without [`Answer::accept`] it comes again.
#[derive(Debug)]
#[must_use = "a result that is dropped without accept() was not accepted and comes again"]
pub struct Answer(Fetched);

impl Answer {
    /// The result; its request carries the response.
    #[expect(clippy::indexing_slicing, reason = "an answer is only made with exactly one input")]
    pub fn input(&self) -> &LiveInput {
        &self.0.inputs[0]
    }

    /// The host has it in its own history: it never comes again.
    pub fn accept(mut self) {
        self.0.accept();
    }
}
