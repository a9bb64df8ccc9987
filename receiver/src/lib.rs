//! Durable live input for agent runtimes: what others send to an agent is stored on its own machine before the engine may forget it, and reaches
//! the runtime once, in order, while it works (steer) or when it is idle (queue).
//!
//! # What is on disk when, and what a crash there means
//!
//! | step | on disk after it | a crash there means |
//! | --- | --- | --- |
//! | 1. lease a batch | nothing | the lease runs out and the engine hands all of it out again under a higher generation; until then it holds back the rest of those conversations, so that nothing overtakes |
//! | 2. store the batch, one transaction | in mid-transaction nothing, then all of it, `pending` and unacknowledged | nothing was acknowledged: the next run acknowledges what is stored, all else comes again; known ids stay one row |
//! | 3. acknowledge | the same | the engine has the ack or not; the next run sends it again, which is harmless; after a redelivery with the new generation |
//! | 4. note the ack | `acked` | done with the engine |
//! | 5. pick a row | the same | nothing happened: the next run picks it again |
//! | 6. mark it for the runtime | `submitting`, with the attempt's number, run, route, session, process and turn | the runtime never saw it; nobody may assume so: `reconcile` is asked first |
//! | 7. the binding hands it over | the same | the runtime may have it: `reconcile` says accepted (step 10), taken (step 8), retry (step 9), or unknown (step 11) |
//! | 8. note what the runtime's acknowledgement said (taken, not accepted) | `submitting`, with the turn and the native id as well | as in 7; `reconcile` knows better where to look |
//! | 9. put it back (refused, or certainly not there) | `pending`, with the attempts so far and the time of the next one | it is tried again then, in its place |
//! | 10. the runtime has it for good | `accepted`, content removed in the same transaction | done; a redelivery is acknowledged and never handed over again |
//! | 11. hold it for a person | held: `submitting` if nobody can say whether it arrived, `pending` after too many attempts | a doubtful one is asked about again at the start, and stays held while that brings nothing |
//! | 12. a person resolves it, one transaction | `accepted`, or `pending` from the first attempt | the decision is made, or not |
//! | 13. forget old ids, a thousand in a transaction | fewer rows | the rest is forgotten later |
//!
//! A row that can't go on by itself is *held*: after too many attempts (the rest of its conversation goes on), or because nobody can say whether it
//! arrived (its conversation waits, others go on). A person settles it through [`Handle::resolve`], or offline through [`InboxStore::resolve`].
//!
//! What can reach a runtime twice: an input whose runtime lied to `reconcile`, and one that another instance of the agent leased between a
//! crash in step 2 and the restart. Everything else is at most once per delivery id. `tests/crash.rs` kills real processes at each step;
//! `tests/simulation` plays thousands of histories with deaths at any step.
//!
//! # When something outside is wrong
//!
//! | trouble | what the receiver does |
//! | --- | --- |
//! | the disk is full | nothing is acknowledged that is not stored, nothing is handed over that is not marked; every write is tried again, [`IntakeState::CannotStore`] shows it |
//! | the folder or the file can't be written | opening fails with [`InboxErrorKind::Storage`]; if it happens while a receiver runs, as with a full disk |
//! | the inbox file is damaged | opening fails with [`InboxErrorKind::Corrupt`] and changes nothing; damage met later ends [`Receiver::run`]; a single row that can't be read is held and blocks nothing |
//! | the files are removed or replaced | the next write finds out: [`Receiver::run`] ends with [`InboxErrorKind::LockLost`] |
//! | the machine's clock jumps | order and leases are the engine's and don't depend on it; a retry is due at the latest after the longest wait; ids are forgotten only when they are old by the engine's clock too |
//! | the engine is restored to an older state | what it hands out again is acknowledged under its present generation and not handed over again; ids that it does not know any more count as settled; what is stored here is handed over |
//! | the credential is revoked | [`Receiver::run`] ends with [`RunError::Refused`]; everything stays in the inbox for the next run |
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
