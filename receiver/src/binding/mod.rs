//! How input gets into an agent's runtime: the trait that each binding implements, and what a binding can say.
//!
//! # What a binding promises
//!
//! * [`InputBinding::submit`] and [`InputBinding::resume`] return when the runtime has the input, not when the work is done.
//! * They say [`Submission::Accepted`] only when the runtime has written it down for good. An acknowledgement out of the runtime's memory is
//!   [`Submission::Taken`]; the proof comes later through [`Reporter::accepted`].
//! * They say [`Submission::Refused`] only when the input is certainly not in the runtime. A lost answer is [`Submission::Unknown`].
//! * They never open a second turn beside a running one, and never turn a peer's text into the owner's authority; see [`crate::frame`].
//!
//! The receiver calls one `submit` at a time, and `resume` beside it.

#[cfg(feature = "acp")]
pub mod acp;
#[cfg(feature = "checkpoint")]
pub mod checkpoint;
#[cfg(feature = "claude")]
pub mod claude;
#[cfg(any(feature = "acp", feature = "claude"))]
mod link;
#[cfg(feature = "opencode")]
pub mod opencode;
mod report;

use std::future::Future;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use report::{HostState, Reporter, Waiters, Work};
pub(crate) use report::{Settled, Snapshot, Verdict};

use crate::input::{BusyMode, LiveInput, StoredInput};
use crate::mutants::{self, Mutant};

/// What a binding can do, as data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent yes-or-no facts about a runtime")]
#[non_exhaustive]
pub struct Capabilities {
    /// Takes input while the agent works. Whether it does at this moment is [`Work::Busy`]`::joinable`.
    pub steer: bool,
    /// Has a queue of its own that survives a crash; used instead of waiting here.
    pub durable_queue: bool,
    /// Gives results to the waiter of a request.
    pub resume: bool,
    /// Can say after a crash whether an input arrived.
    pub reconcile: bool,
    /// Recognises a repeated id, also after a crash, so that a repeat is harmless: what reconcile can't decide is handed over again instead
    /// of being held; only a request is held all the same, because it may be withdrawn meanwhile.
    pub deduplicates: bool,
    /// Reports when the agent becomes idle or busy. Without it the agent counts as idle.
    pub reports_idle: bool,
    /// Of two inputs that were taken one after the other, the earlier is never lost or handed back alone; lets several inputs of one
    /// conversation be on their way at once. Such a binding takes nothing while [`Handover::is_current`] says no, and checks that together
    /// with taking.
    pub ordered: bool,
    /// Names its turns ([`Reporter::turn_id`]) and steers into the named one or none.
    pub turn_identity: bool,
    /// A steer that finds no running turn starts one, and the runtime decides that in one step.
    pub steer_starts: bool,
    /// The waiter of a request lives on when the runtime or the receiver dies. Without it a result whose waiter is gone goes in as input.
    pub waiters_survive: bool,
}

impl Capabilities {
    /// A binding that can do nothing but start a turn.
    pub const fn new() -> Self {
        Self {
            steer: false,
            durable_queue: false,
            resume: false,
            reconcile: false,
            deduplicates: false,
            reports_idle: false,
            ordered: false,
            turn_identity: false,
            steer_starts: false,
            waiters_survive: false,
        }
    }
}

/// How the receiver hands an input over; decided on what the binding had reported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Handover {
    /// Steer: into the running turn, or as a new one where the runtime decides that atomically. Queue: as the start of a turn of its own.
    pub mode: BusyMode,
    /// The turn that ran when this was decided, as [`Reporter::turn_id`] named it; `None` when the host was idle or its turn has no name.
    /// Steering joins this turn or is refused with [`Refusal::TurnEnded`]: the input then becomes the first of the next turn.
    pub expected_turn: Option<String>,
    /// Fires when the receiver stops waiting for the answer; what has gone out by then is [`Submission::Unknown`].
    pub cancel: CancellationToken,
    /// The line, and the epoch of the reports that this was decided on.
    decided: Option<(Reporter, u64)>,
}

impl Handover {
    /// A handover that expects no particular turn.
    pub fn new(mode: BusyMode, cancel: CancellationToken) -> Self {
        Self { mode, expected_turn: None, cancel, decided: None }
    }

    /// The turn that steering is meant for.
    #[must_use]
    pub fn expected_turn(mut self, turn: Option<String>) -> Self {
        self.expected_turn = turn;
        self
    }

    pub(crate) fn decided_on(mut self, line: Reporter, epoch: u64) -> Self {
        self.decided = Some((line, epoch));
        self
    }

    /// Whether nothing that the runtime had taken was reported to come back (refused, lost, interrupted) since this was decided. If something
    /// was, an earlier input of the same conversation may have to go first: a binding that is [`Capabilities::ordered`] refuses this one with
    /// [`Refusal::NotNow`].
    pub fn is_current(&self) -> bool {
        let nothing_returned = |(line, epoch): &(Reporter, u64)| line.nothing_returned_since(*epoch);
        mutants::on(Mutant::ReturnIgnored) || self.decided.as_ref().is_none_or(nothing_returned)
    }
}

/// What the runtime's acknowledgement said, kept with the attempt for `reconcile`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Evidence {
    /// The turn that took it.
    pub turn: Option<String>,
    /// The runtime's own id for it.
    pub native_id: Option<String>,
}

impl Evidence {
    /// Nothing known beyond the acknowledgement.
    pub fn none() -> Self {
        Self::default()
    }

    /// The turn that took it.
    #[must_use]
    pub fn turn(mut self, turn: impl Into<String>) -> Self {
        self.turn = Some(turn.into());
        self
    }

    /// The runtime's own id for it.
    #[must_use]
    pub fn native_id(mut self, id: impl Into<String>) -> Self {
        self.native_id = Some(id.into());
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Why the runtime certainly does not have an input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Steer found no running turn: it becomes the start of a new one, at once. Not an attempt.
    TurnEnded,
    /// Not possible at the moment (a turn is running, no boundary is open): tried again when the host reports a change. Not an attempt.
    NotNow,
    /// Nobody waits for this result: it goes in as ordinary input, marked as a result. Not an attempt.
    NoWaiter,
    /// The host saw it and gave it back without keeping it: comes again at the next occasion. An attempt.
    HandedBack,
    /// The runtime said no. An attempt; tried again after a while, and held after too many.
    Rejected(String),
}

/// What became of one call of `submit` or `resume`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Submission {
    /// The runtime has it durably. Final.
    Accepted,
    /// The runtime took it into memory; proof follows through [`Reporter::accepted`].
    Taken(Evidence),
    /// The runtime certainly does not have it.
    Refused(Refusal),
    /// The answer got lost or came too late. Never sent again blindly.
    Unknown(String),
}

/// What `reconcile` found out about an input that may have been handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reconciled {
    /// The runtime has it. Final.
    Accepted,
    /// The runtime has it in memory, as after [`Submission::Taken`]: proof follows through [`Reporter::accepted`]. Not held; asked again when a
    /// turn ends.
    Taken,
    /// The runtime certainly does not have it: hand it over again.
    Retry,
    /// Can't be said (now): held, shown, and asked again when a turn ends.
    Unknown,
}

/// The way into one agent runtime.
pub trait InputBinding: Send + Sync + 'static {
    /// What people read: `checkpoint`, `codex`, …
    fn name(&self) -> &str;

    /// Called once when the receiver is built: hands over the line through which the binding reports, and asks what it can do.
    fn attach(&self, reporter: Reporter) -> Capabilities;

    /// Hands one input to the runtime, the way that `to` says.
    fn submit(&self, input: &LiveInput, to: Handover) -> impl Future<Output = Submission> + Send;

    /// Gives the result of a request to whoever waits for it, past everything that is queued.
    fn resume(&self, input: &LiveInput, cancel: &CancellationToken) -> impl Future<Output = Submission> + Send {
        let _ = (input, cancel);
        std::future::ready(Submission::Refused(Refusal::NoWaiter))
    }

    /// Finds out whether an input arrived whose fate is open; [`StoredInput::attempt`] says where to look.
    fn reconcile(&self, stored: &StoredInput) -> impl Future<Output = Reconciled> + Send {
        let _ = stored;
        std::future::ready(Reconciled::Unknown)
    }
}

impl<B: InputBinding> InputBinding for Arc<B> {
    fn name(&self) -> &str {
        B::name(self)
    }

    fn attach(&self, reporter: Reporter) -> Capabilities {
        B::attach(self, reporter)
    }

    fn submit(&self, input: &LiveInput, to: Handover) -> impl Future<Output = Submission> + Send {
        B::submit(self, input, to)
    }

    fn resume(&self, input: &LiveInput, cancel: &CancellationToken) -> impl Future<Output = Submission> + Send {
        B::resume(self, input, cancel)
    }

    fn reconcile(&self, stored: &StoredInput) -> impl Future<Output = Reconciled> + Send {
        B::reconcile(self, stored)
    }
}
