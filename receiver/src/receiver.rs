//! The receiver itself: built, run, watched.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use beepgrid::DeliveryId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::binding::{Capabilities, InputBinding, Reporter};
use crate::clock::Clock;
use crate::config::{BuildError, Config, RetryPolicy};
use crate::credential::Renewal;
use crate::dispatch::{Dispatcher, Parts, Signals};
use crate::engine::{Source, SourceError};
use crate::inbox::{InboxError, InboxStore};
use crate::input::{BusyMode, Resolution, StoredInput};
use crate::intake::{Ended, Intake, State};
use crate::status::{Status, StatusBoard};

/// Receives for one agent runtime: takes deliveries into its inbox and hands them to a binding.
#[derive(Debug)]
pub struct Receiver<S, I, B> {
    source: Arc<S>,
    inbox: Arc<I>,
    binding: Arc<B>,
    line: Reporter,
    capabilities: Capabilities,
    config: Config,
    clock: Clock,
    status: Arc<StatusBoard>,
    signals: Arc<Signals>,
}

/// Settings for a [`Receiver`].
#[derive(Debug)]
pub struct ReceiverBuilder<S, I, B> {
    source: S,
    inbox: I,
    binding: B,
    config: Config,
    clock: Clock,
}

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

impl<S: Source, I: InboxStore, B: InputBinding> ReceiverBuilder<S, I, B> {
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

    /// Checks the settings against each other and against what the binding can do, and attaches the binding.
    ///
    /// # Errors
    /// [`BuildError::CannotSteer`] for steer on a queue-only binding, [`BuildError::CannotQueue`] for the opposite, and settings that make
    /// no sense.
    pub fn build(self) -> Result<Receiver<S, I, B>, BuildError> {
        self.config.check()?;
        let line = Reporter::new();
        let capabilities = self.binding.attach(line.clone());
        let binding = || self.binding.name().to_owned();
        match self.config.mode {
            BusyMode::Steer if !capabilities.steer => return Err(BuildError::CannotSteer { binding: binding() }),
            BusyMode::Queue if !capabilities.reports_idle && !capabilities.durable_queue => {
                return Err(BuildError::CannotQueue { binding: binding() });
            }
            _ => {}
        }
        Ok(Receiver {
            source: Arc::new(self.source),
            inbox: Arc::new(self.inbox),
            binding: Arc::new(self.binding),
            line,
            capabilities,
            status: Arc::new(StatusBoard::new(self.config.mode)),
            config: self.config,
            clock: self.clock,
            signals: Arc::new(Signals::new()),
        })
    }
}

impl<S: Source, I: InboxStore, B: InputBinding> Receiver<S, I, B> {
    /// A receiver that leases from `source` (a [`beepgrid::Client`] with a worker credential), keeps in `inbox` and hands over through
    /// `binding`.
    pub fn builder(source: S, inbox: I, binding: B) -> ReceiverBuilder<S, I, B> {
        ReceiverBuilder { source, inbox, binding, config: Config::default(), clock: Clock::default() }
    }

    /// What the receiver is doing, from now on.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// What a person needs while the receiver runs: what is held, and decisions about it.
    pub fn handle(&self) -> Handle<I> {
        Handle { inbox: Arc::clone(&self.inbox), signals: Arc::clone(&self.signals), clock: self.clock.clone() }
    }

    /// What the binding said it can do.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Receives until `cancel` fires. Then calls in flight get a moment to come back, what they say is recorded, and the inbox is given
    /// up with the receiver. What is in doubt stays `submitting` and is reconciled by the next run.
    ///
    /// Transport failures, 5xx and 429 are waited out for ever.
    ///
    /// # Errors
    /// [`RunError::Refused`] when the engine says no for good (401, 403 and other 4xx); [`RunError::Inbox`] when the inbox is lost.
    pub async fn run(self, cancel: CancellationToken) -> Result<(), RunError> {
        let stop = cancel.child_token();
        let intake = Intake {
            source: Arc::clone(&self.source),
            inbox: Arc::clone(&self.inbox),
            config: self.config.clone(),
            clock: self.clock.clone(),
            status: Arc::clone(&self.status),
            signals: Arc::clone(&self.signals),
            state: State::default(),
        };
        let renewal = Renewal {
            source: Arc::clone(&self.source),
            clock: self.clock.clone(),
            status: Arc::clone(&self.status),
            retry: self.config.reconnect,
        };
        let dispatcher = Dispatcher::new(Parts {
            inbox: Arc::clone(&self.inbox),
            binding: Arc::clone(&self.binding),
            line: self.line.clone(),
            capabilities: self.capabilities,
            config: self.config.clone(),
            clock: self.clock.clone(),
            status: Arc::clone(&self.status),
            signals: Arc::clone(&self.signals),
            run: run_name(),
        });
        let taking = async {
            let ended = intake.run(&stop).await;
            stop.cancel();
            ended
        };
        let (ended, (), ()) = tokio::join!(taking, dispatcher.run(&stop), renewal.run(&stop));
        self.status.stopped();
        match ended {
            Ended::Cancelled => Ok(()),
            Ended::Refused(error) => Err(RunError::Refused(error)),
            Ended::Lost(error) => Err(RunError::Inbox(error)),
        }
    }
}

impl<S, I, B> Drop for Receiver<S, I, B> {
    fn drop(&mut self) {
        // A run that was dropped in the middle, or never began: a host that waits must not wait for ever.
        self.line.settle(crate::binding::Settled::Ended);
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
