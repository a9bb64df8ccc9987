//! The binding for a host that owns its model loop: it asks for input at its own boundaries.
//!
//! ```no_run
//! # use beepgrid_receiver::checkpoint;
//! # async fn work_on(_: &str) {} fn remember(_: &str) {}
//! # async fn example() {
//! let (binding, host) = checkpoint::channel(checkpoint::Options::new());
//! // … give `binding` to Receiver::builder and run it …
//! # let _ = binding;
//! while let Some(mut turn) = host.next().await {
//!     remember(turn.input().body());       // into the host's own durable history
//!     turn.accept();                       // only now it is the host's
//!     for step in ["read", "think", "write"] {
//!         work_on(step).await;
//!         let joined = host.checkpoint().await;   // what should join the running work
//!         for input in joined.inputs() {
//!             remember(input.body());
//!         }
//!         joined.accept();
//!     }
//!     turn.finish();
//! }
//! # }
//! ```
//!
//! # When is an input the host's?
//!
//! What the host is handed is *taken*. It becomes *accepted*, and is never handed over again, when the host says so: [`Batch::accept`],
//! [`Turn::accept`], [`Answer::accept`], after it wrote the input into its own durable history. What is dropped without that was not accepted and comes
//! again at the next occasion; after too many times it is held. A host without a history of its own uses [`Options::accept_on_take`].
//!
//! After a crash between taking and accepting, the receiver asks [`Options::history`] whether the input is there. Without a history nobody can know:
//! the input is held and shown to a person.
//!
//! # When is it handed over?
//!
//! Nothing waits inside the binding: an input stays in the inbox until the host stands at a boundary ([`Host::checkpoint`]) or asks for its next
//! task ([`Host::next`]). What arrives after the last boundary of a turn opens the next turn. Only the open window of [`Host::try_checkpoint`]
//! lets input run ahead of the host.

mod desk;
mod host;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use beepgrid::DeliveryId;
use tokio_util::sync::CancellationToken;

use self::desk::Desk;
pub use self::host::{Answer, Batch, Host, Turn};
use super::{Capabilities, Evidence, Handover, InputBinding, Reconciled, Refusal, Reporter, Submission};
use crate::input::{LiveInput, StoredInput};

/// Inputs that one checkpoint hands over at most, unless set otherwise.
pub const DEFAULT_MAX_BATCH: usize = 32;
/// How long a checkpoint waits for the receiver at most, unless set otherwise.
pub const DEFAULT_WINDOW: Duration = Duration::from_secs(2);

type Lookup = Arc<dyn Fn(DeliveryId) -> Pin<Box<dyn Future<Output = Reconciled> + Send>> + Send + Sync>;

/// What results do that nobody waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnclaimedResults {
    /// Wait for [`Host::result`] while the host works; open a turn when it is idle.
    #[default]
    WaitForHost,
    /// Join the running work at the next checkpoint, in either mode.
    Join,
}

/// How the host wants its input.
#[derive(Clone)]
pub struct Options {
    accept_on_take: bool,
    max_batch: usize,
    window: Duration,
    unclaimed: UnclaimedResults,
    history: Option<Lookup>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            accept_on_take: false,
            max_batch: DEFAULT_MAX_BATCH,
            window: DEFAULT_WINDOW,
            unclaimed: UnclaimedResults::default(),
            history: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("accept_on_take", &self.accept_on_take)
            .field("max_batch", &self.max_batch)
            .field("window", &self.window)
            .field("unclaimed", &self.unclaimed)
            .field("history", &self.history.is_some())
            .finish()
    }
}

impl Options {
    /// The defaults: explicit acceptance, no history.
    pub fn new() -> Self {
        Self::default()
    }

    /// For a host without a durable history: what it fetches counts as accepted at once.
    #[must_use]
    pub fn accept_on_take(mut self) -> Self {
        self.accept_on_take = true;
        self
    }

    /// How many inputs one checkpoint hands over at most; 32 by default, at least 1.
    #[must_use]
    pub fn max_batch(mut self, inputs: usize) -> Self {
        self.max_batch = inputs.max(1);
        self
    }

    /// How long a checkpoint waits for the receiver at most (its disk may be slow); 2 seconds by default. With nothing to hand over it takes
    /// microseconds.
    #[must_use]
    pub fn window(mut self, wait: Duration) -> Self {
        self.window = wait;
        self
    }

    /// What results do that nobody waits for.
    #[must_use]
    pub fn unclaimed_results(mut self, unclaimed: UnclaimedResults) -> Self {
        self.unclaimed = unclaimed;
        self
    }

    /// Asks the host's durable history, after a restart, whether an input is in it.
    #[must_use]
    pub fn history<F, A>(mut self, lookup: F) -> Self
    where
        F: Fn(DeliveryId) -> A + Send + Sync + 'static,
        A: Future<Output = Reconciled> + Send + 'static,
    {
        self.history = Some(Arc::new(move |id| Box::pin(lookup(id))));
        self
    }
}

/// The receiver's end; goes into [`crate::Receiver::builder`].
#[derive(Debug)]
pub struct CheckpointBinding {
    desk: Arc<Desk>,
    options: Options,
    name: String,
}

/// A binding and the host's end of it.
pub fn channel(options: Options) -> (CheckpointBinding, Host) {
    let name = crate::receiver::run_name();
    let desk = Arc::new(Desk::new(options.max_batch, options.accept_on_take));
    let host = Host::new(Arc::clone(&desk), options.window);
    (CheckpointBinding { desk, options, name }, host)
}

fn taken(fetchable: bool) -> Submission {
    if fetchable { Submission::Taken(Evidence::none()) } else { Submission::Refused(Refusal::NotNow) }
}

impl InputBinding for CheckpointBinding {
    fn name(&self) -> &'static str {
        "checkpoint"
    }

    fn attach(&self, reporter: Reporter) -> Capabilities {
        // The name of this channel stands for the runtime's process: an attempt through another one belongs to a host that is gone.
        reporter.session("checkpoint", self.name.clone());
        reporter.results_join(self.options.unclaimed == UnclaimedResults::Join);
        let desk = Arc::downgrade(&self.desk);
        reporter.on_stop(move || {
            if let Some(desk) = desk.upgrade() {
                desk.give_back();
            }
        });
        self.desk.attach(reporter);
        Capabilities {
            steer: true,
            durable_queue: false,
            resume: true,
            reconcile: self.options.history.is_some(),
            deduplicates: false,
            reports_idle: true,
            ordered: true,
            turn_identity: false,
            steer_starts: false,
            waiters_survive: false,
        }
    }

    async fn submit(&self, input: &LiveInput, to: Handover) -> Submission {
        taken(self.desk.hand_over(input, &to))
    }

    async fn resume(&self, input: &LiveInput, _cancel: &CancellationToken) -> Submission {
        taken(self.desk.answer(input))
    }

    async fn reconcile(&self, stored: &StoredInput) -> Reconciled {
        let ours = stored.attempt.as_ref().is_some_and(|attempt| attempt.process.as_deref() == Some(&self.name));
        if ours {
            // Same host, same memory: either it still has it, or it certainly never got it or gave it back.
            return if self.desk.is_outstanding(&stored.id) { Reconciled::Unknown } else { Reconciled::Retry };
        }
        match &self.options.history {
            Some(lookup) => lookup(stored.id.clone()).await,
            None => Reconciled::Unknown,
        }
    }
}
