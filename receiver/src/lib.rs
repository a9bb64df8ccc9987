//! Durable live input for agent runtimes: what others send to an agent is stored on its own machine before the engine may forget it, and reaches
//! the runtime once, in order, while it works (steer) or when it is idle (queue).
//!
//! # What is on disk when, and what a crash there means
//!
//! | step | on disk after it | a crash there means |
//! | --- | --- | --- |
//! | 1. lease a batch | nothing | the lease runs out and the engine hands all of it out again under a higher generation |
//! | 2. store the batch, one transaction | all of it, `pending`, or in mid-transaction nothing | nothing was acknowledged: all of it comes again, and known ids stay one row |
//! | 3. acknowledge | `acked` | an ack that was not noted is sent again at the start; after a redelivery with the higher generation |
//! | 4. mark one row for the runtime | `submitting`, with the attempt's evidence | the runtime never saw it; nobody may assume so: `reconcile` is asked first |
//! | 5. the binding hands it over | the same | the runtime may have it: `reconcile` says accepted (done), retry (again), or unknown (held, shown to a person) |
//! | 6. the runtime has it for good | `accepted`, content removed in the same transaction | done; a redelivery is acknowledged and never handed over again |
//!
//! A row that can't go on by itself is *held*: after too many attempts (the rest of its conversation goes on), or because nobody can say whether it
//! arrived (its conversation waits, others go on). A person settles it through [`Handle::resolve`], or offline through [`InboxStore::resolve`].
//!
//! What can reach a runtime twice: an input whose runtime lied to `reconcile`, and one that another instance of the agent leased between a
//! crash in step 2 and the restart. Everything else is at most once per delivery id.
//!
//! # Parts
//!
//! [`Receiver`] runs intake (engine to inbox) and dispatch (inbox to runtime) side by side; neither waits for the other until
//! [`ReceiverBuilder::max_pending`] is reached. [`SqliteInbox`] is the durable [`InboxStore`]. An [`InputBinding`] is the way into one runtime; the
//! [`checkpoint`] binding serves hosts that own their loop; a [`SessionRoute`] serves runtimes with a session for each conversation. [`engine::Source`] is what the receiver needs of the engine; [`beepgrid::Client`] is one.

pub mod binding;
mod clock;
mod config;
mod credential;
mod dispatch;
pub mod engine;
pub mod environments;
pub mod frame;
mod hooks;
pub mod inbox;
mod input;
mod intake;
#[cfg(not(feature = "testing"))]
mod mutants;
#[cfg(feature = "testing")]
pub mod mutants;
mod receiver;
mod schedule;
mod sessions;
mod status;

#[cfg(feature = "acp")]
pub use binding::acp;
#[cfg(feature = "checkpoint")]
pub use binding::checkpoint;
#[cfg(feature = "claude")]
pub use binding::claude;
#[cfg(feature = "opencode")]
pub use binding::opencode;
pub use binding::{Capabilities, Evidence, Handover, InputBinding, Reconciled, Refusal, Reporter, Submission};
pub use clock::Clock;
pub use config::{
    BuildError, DEFAULT_BATCH, DEFAULT_CALL_DEADLINE, DEFAULT_MAX_PENDING, DEFAULT_MAX_ROWS, DEFAULT_RESERVE, KEEP_ACCEPTED,
    LONG_POLL, NARROW_POLL, RetryPolicy, SHUTDOWN_GRACE,
};
pub use inbox::{InboxError, InboxErrorKind, InboxStore, SqliteInbox};
pub use input::{
    Attempt, BusyMode, Content, Held, HeldReason, InputState, LiveInput, Resolution, Route, StoredInput, UnknownBusyMode,
};
pub use receiver::{BySession, Handle, Receiver, ReceiverBuilder, RunError};
pub use sessions::{RouteError, SessionRoute};
pub use status::{IntakeState, Status};
