//! The receiver itself: built, run, watched.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use beepgrid::{ConversationId, DeliveryId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::binding::{Capabilities, InputBinding, Reporter, Settled};
use crate::clock::Clock;
use crate::config::{BuildError, Config, RetryPolicy};
use crate::credential::Renewal;
use crate::dispatch::{Dispatcher, Parts, Shared, Signals};
use crate::engine::{Source, SourceError};
use crate::inbox::{InboxError, InboxStore};
use crate::input::{BusyMode, Resolution, StoredInput};
use crate::intake::{Ended, Intake, State};
use crate::sessions::{SessionRoute, Sessions};
use crate::status::{Status, StatusBoard};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;
/// Hands over what is in the inbox until the token fires.
type Outlet<I> = Box<dyn FnOnce(Shared<I>, CancellationToken) -> Work + Send>;

/// Receives for one agent: takes deliveries into its inbox and hands them to a binding, or to one for each native session.
pub struct Receiver<S, I> {
    source: Arc<S>,
    shared: Shared<I>,
    outlet: Option<Outlet<I>>,
    /// The line of a single binding.
    line: Option<Reporter>,
    capabilities: Option<Capabilities>,
}

impl<S, I> fmt::Debug for Receiver<S, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("config", &self.shared.config)
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}

/// Settings for a [`Receiver`]. `B` is an [`InputBinding`], or [`BySession`] of a [`SessionRoute`].
#[derive(Debug)]
pub struct ReceiverBuilder<S, I, B> {
    source: S,
    inbox: I,
    binding: B,
    config: Config,
    clock: Clock,
}

/// A route in the place of a binding; see [`Receiver::by_session`].
#[derive(Debug)]
pub struct BySession<R>(R);

/// Why [`Receiver::run`] ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The engine refuses this credential or what it asks for; trying again won't help.
    #[error("the engine refused the receiver")]
    Refused(#[source] SourceError),
    /// The inbox is lost to this process: closed, damaged, or taken away.
    #[error("the inbox can't be used any more")]
    Inbox(#[source] InboxError),
}

impl<S: Source, I: InboxStore, B> ReceiverBuilder<S, I, B> {
    /// How ordinary input reaches a busy agent; queue by default.
    #[must_use]
    pub fn mode(mut self, mode: BusyMode) -> Self {
        self.config.mode = mode;
        self
    }

    /// How many ordinary inputs may wait here; the rest stays with the engine. 1,000 by default.
    #[must_use]
    pub fn max_pending(mut self, inputs: u32) -> Self {
        self.config.max_pending = inputs;
        self
    }

    /// How many results and withdrawals may wait beside them. 256 by default.
    #[must_use]
    pub fn reserve(mut self, inputs: u32) -> Self {
        self.config.reserve = inputs;
        self
    }

    /// How many rows the inbox may hold, remembered ids included; at the bound intake stops and says so. A million by default.
    #[must_use]
    pub fn max_rows(mut self, rows: u32) -> Self {
        self.config.max_rows = rows;
        self
    }

    /// How many deliveries one lease and one commit take, 1 to 100; 50 by default.
    #[must_use]
    pub fn batch(mut self, deliveries: u32) -> Self {
        self.config.batch = deliveries;
        self
    }

    /// How long one call of the binding may take before its outcome is unknown. 30 seconds by default.
    #[must_use]
    pub fn call_deadline(mut self, deadline: Duration) -> Self {
        self.config.call_deadline = deadline;
        self
    }

    /// How often and how far apart a refused input is tried before it is held.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.config.retry = policy;
        self
    }

    /// How far apart calls to the engine and to a failing disk are repeated; they are repeated for ever.
    #[must_use]
    pub fn reconnect(mut self, first: Duration, max: Duration) -> Self {
        self.config.reconnect = RetryPolicy { attempts: u32::MAX, first_delay: first, max_delay: max };
        self
    }

    /// How long `run` waits for calls in flight once it is cancelled. 2 seconds by default.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.config.shutdown_grace = grace;
        self
    }

    /// Where the time comes from.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    fn receiver(self, outlet: impl FnOnce(B) -> Outlet<I>) -> Receiver<S, I> {
        let shared = Shared {
            inbox: Arc::new(self.inbox),
            status: Arc::new(StatusBoard::new(self.config.mode)),
            config: self.config,
            clock: self.clock,
            signals: Arc::new(Signals::new()),
            run: run_name(),
        };
        let outlet = Some(outlet(self.binding));
        Receiver { source: Arc::new(self.source), shared, outlet, line: None, capabilities: None }
    }
}

impl<S: Source, I: InboxStore, B: InputBinding> ReceiverBuilder<S, I, B> {
    /// Checks the settings against each other and against what the binding can do, and attaches the binding.
    ///
    /// # Errors
    /// [`BuildError::CannotSteer`] for steer on a queue-only binding, [`BuildError::CannotQueue`] for the opposite, and settings that make
    /// no sense.
    pub fn build(self) -> Result<Receiver<S, I>, BuildError> {
        self.config.check()?;
        let line = Reporter::new();
        let capabilities = self.binding.attach(line.clone());
        self.config.suits(self.binding.name(), capabilities)?;
        let reporter = line.clone();
        let mut receiver = self.receiver(|binding| {
            let parts = Parts { binding: Arc::new(binding), line: reporter, capabilities, session: None };
            Box::new(|shared, stop| Box::pin(async move { Dispatcher::new(shared, parts).run(&stop).await }))
        });
        receiver.line = Some(line);
        receiver.capabilities = Some(capabilities);
        Ok(receiver)
    }
}

impl<S: Source, I: InboxStore, R: SessionRoute> ReceiverBuilder<S, I, BySession<R>> {
    /// Checks the settings against each other. What a session's binding can do is checked when the session is opened; one that can't do what
    /// the mode asks for is shown in [`Status::last_error`], and its input waits.
    ///
    /// # Errors
    /// Settings that make no sense.
    pub fn build(self) -> Result<Receiver<S, I>, BuildError> {
        self.config.check()?;
        Ok(self.receiver(|BySession(route)| {
            Box::new(|shared, stop| Box::pin(async move { Sessions::new(shared, route).run(&stop).await }))
        }))
    }
}

impl<S: Source, I: InboxStore> Receiver<S, I> {
    /// A receiver that leases from `source` (a [`beepgrid::Client`] with a worker credential), keeps in `inbox` and hands over through
    /// `binding`.
    pub fn builder<B: InputBinding>(source: S, inbox: I, binding: B) -> ReceiverBuilder<S, I, B> {
        ReceiverBuilder { source, inbox, binding, config: Config::default(), clock: Clock::default() }
    }

    /// The same for a runtime with several sessions: `route` says which one a conversation belongs to, and opens it.
    pub fn by_session<R: SessionRoute>(source: S, inbox: I, route: R) -> ReceiverBuilder<S, I, BySession<R>> {
        ReceiverBuilder { source, inbox, binding: BySession(route), config: Config::default(), clock: Clock::default() }
    }

    /// What the receiver is doing, from now on.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// What a person needs while the receiver runs: what is held, and decisions about it.
    pub fn handle(&self) -> Handle<I> {
        Handle {
            inbox: Arc::clone(&self.shared.inbox),
            signals: Arc::clone(&self.shared.signals),
            clock: self.shared.clock.clone(),
        }
    }

    /// What the binding said it can do; `None` with a [`SessionRoute`], where every session has its own.
    pub fn capabilities(&self) -> Option<Capabilities> {
        self.capabilities
    }

    /// Receives until `cancel` fires. Then calls in flight get a moment to come back, what they say is recorded, and the inbox is given
    /// up with the receiver. What is in doubt stays `submitting` and is reconciled by the next run.
    ///
    /// Transport failures, 5xx and 429 are waited out for ever.
    ///
    /// # Errors
    /// [`RunError::Refused`] when the engine says no for good (401, 403 and other 4xx); [`RunError::Inbox`] when the inbox is lost.
    pub async fn run(mut self, cancel: CancellationToken) -> Result<(), RunError> {
        let stop = cancel.child_token();
        let shared = self.shared.clone();
        let intake = Intake {
            source: Arc::clone(&self.source),
            inbox: Arc::clone(&shared.inbox),
            config: shared.config.clone(),
            clock: shared.clock.clone(),
            status: Arc::clone(&shared.status),
            signals: Arc::clone(&shared.signals),
            state: State::default(),
        };
        let renewal = Renewal {
            source: Arc::clone(&self.source),
            clock: shared.clock.clone(),
            status: Arc::clone(&shared.status),
            retry: shared.config.reconnect,
        };
        let taking = async {
            let ended = intake.run(&stop).await;
            stop.cancel();
            ended
        };
        let outlet = self.outlet.take();
        let handing_over = async {
            if let Some(outlet) = outlet {
                outlet(shared, stop.clone()).await;
            }
        };
        let (ended, (), ()) = tokio::join!(taking, handing_over, renewal.run(&stop));
        self.shared.status.stopped();
        match ended {
            Ended::Cancelled => Ok(()),
            Ended::Refused(error) => Err(RunError::Refused(error)),
            Ended::Lost(error) => Err(RunError::Inbox(error)),
        }
    }
}

impl<S, I> Drop for Receiver<S, I> {
    fn drop(&mut self) {
        // A run that was dropped in the middle, or never began: a host that waits must not wait for ever.
        if let Some(line) = &self.line {
            line.settle(Settled::Ended);
        }
    }
}

/// Names one run, so that the evidence of an earlier one is not taken for its own.
pub(crate) fn run_name() -> String {
    format!("{}-{:016x}", std::process::id(), RandomState::new().build_hasher().finish())
}

/// A person's access to the inbox of a running receiver. Cheap to clone.
#[derive(Debug)]
pub struct Handle<I> {
    inbox: Arc<I>,
    signals: Arc<Signals>,
    clock: Clock,
}

impl<I> Clone for Handle<I> {
    fn clone(&self) -> Self {
        Self { inbox: Arc::clone(&self.inbox), signals: Arc::clone(&self.signals), clock: self.clock.clone() }
    }
}

impl<I: InboxStore> Handle<I> {
    /// Inputs that wait for a person, oldest first.
    ///
    /// # Errors
    /// Those of the inbox.
    pub async fn held(&self, limit: u32) -> Result<Vec<StoredInput>, InboxError> {
        self.inbox.held(limit).await
    }

    /// One input.
    ///
    /// # Errors
    /// Those of the inbox.
    pub async fn get(&self, id: &DeliveryId) -> Result<Option<StoredInput>, InboxError> {
        self.inbox.get(id.clone()).await
    }

    /// Inputs that wait or are with the runtime, without held ones.
    ///
    /// # Errors
    /// Those of the inbox.
    pub async fn pending(&self, limit: u32) -> Result<Vec<StoredInput>, InboxError> {
        self.inbox.pending(limit).await
    }

    /// Gives a conversation to a native session before its first input comes, so that the result of a request goes to the session that asked;
    /// returns the session that it has, which is an earlier one if there is. For receivers with a [`SessionRoute`].
    ///
    /// # Errors
    /// Those of the inbox.
    pub async fn remember_session(&self, conversation: &ConversationId, session: &str) -> Result<String, InboxError> {
        let session = self.inbox.remember_session(conversation.clone(), session.to_owned(), self.clock.now()).await?;
        Signals::raise(&self.signals.changed);
        Ok(session)
    }

    /// Carries out a decision on a held input, at once.
    ///
    /// # Errors
    /// `NotFound`, `NotHeld`.
    pub async fn resolve(&self, id: &DeliveryId, resolution: Resolution) -> Result<(), InboxError> {
        self.inbox.resolve(id.clone(), resolution, self.clock.now()).await?;
        Signals::raise(&self.signals.changed);
        Signals::raise(&self.signals.freed);
        Ok(())
    }
}
