//! The inbox: what was received, kept durably from before the acknowledgement until the runtime provably has it.
//!
//! [`InboxStore`] is the trait, [`SqliteInbox`] the durable implementation. Every method that changes something is one
//! transaction: all of it is on disk when it returns, or nothing.

mod error;
#[cfg(feature = "testing")]
pub mod memory;
mod rules;
mod sqlite;
#[cfg(feature = "testing")]
#[macro_use]
pub mod suite;

use std::future::Future;
use std::sync::Arc;

use beepgrid::{ConversationId, DeliveryId, DeliveryKind, RequestId, Timestamp};

pub use error::{InboxError, InboxErrorKind};
pub use sqlite::{SqliteInbox, SqliteOptions};

use crate::input::{Attempt, HeldReason, InputState, LiveInput, Resolution, StoredInput};

/// What a batch brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutReport {
    /// Inputs seen for the first time.
    pub new: u32,
    /// Inputs that were here already.
    pub known: u32,
    /// Rows closed because a request and its withdrawal met before either was handed over.
    pub withdrawn: u32,
}

/// How much the inbox holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Waiting and not held.
    pub pending: u32,
    /// Handed over without proof, and not held.
    pub submitting: u32,
    /// Waiting for a person.
    pub held: u32,
    /// Ordinary inputs (messages, requests, unknown kinds) that are not accepted, held ones included.
    pub open_ordinary: u32,
    /// Results and withdrawals that are not accepted, held ones included.
    pub open_results: u32,
    /// All rows.
    pub rows: u32,
}

/// What a decision needs to know of a row that is not accepted; the content stays on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenInput {
    /// The delivery.
    pub id: DeliveryId,
    /// Its conversation.
    pub conversation_id: ConversationId,
    /// Its kind.
    pub kind: DeliveryKind,
    /// The request that it is about.
    pub request_id: Option<RequestId>,
    /// When the engine made it; with the id this is the order of creation.
    pub created_at: Timestamp,
    /// `pending` or `submitting`.
    pub state: InputState,
    /// Why it waits for a person.
    pub held: Option<HeldReason>,
    /// Attempts so far.
    pub attempts: u32,
    /// Not before.
    pub next_attempt_at: Option<Timestamp>,
    /// The native session that its conversation belongs to, if it was given one; see [`crate::SessionRoute`].
    pub session: Option<String>,
    /// Guards changes.
    pub revision: i64,
}

/// Where a change takes a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextState {
    /// About to be handed over. From `pending`, not held; counts an attempt.
    Submitting(Attempt),
    /// With the runtime, with more evidence than before. Stays `submitting`, and is not held any more if it was.
    Evidence(Attempt),
    /// The runtime does not have it. From `submitting`.
    Pending {
        /// Whether the attempt counts towards the limit; a "not now" does not.
        counted: bool,
        /// Not before.
        next_attempt_at: Option<Timestamp>,
        /// What the refusal said.
        error: Option<String>,
    },
    /// A person has to decide; the row stays or becomes `state`, which is `pending` or `submitting`.
    Held {
        /// Where it stands meanwhile.
        state: InputState,
        /// Why.
        reason: HeldReason,
        /// The last error.
        detail: String,
    },
    /// The runtime has it for good. From any state; the content is removed in the same transaction.
    Accepted,
}

/// One change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// The row.
    pub id: DeliveryId,
    /// The revision that the decision was based on; [`NextState::Accepted`] goes through at any.
    pub revision: i64,
    /// Where to.
    pub to: NextState,
}

/// What became of a [`StateChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The row is as wanted.
    Done {
        /// Its revision now.
        revision: i64,
        /// Its attempts now.
        attempts: u32,
    },
    /// Becoming `pending` again it met the withdrawal of its request; both are closed.
    Withdrawn,
    /// The row had moved on (or is unknown); nothing was changed.
    Superseded,
}

/// A durable inbox with one owner.
///
/// Methods are atomic and durable when they return. Dropping a future may or may not have done its work; every method may be repeated.
pub trait InboxStore: Send + Sync + 'static {
    /// Stores a batch in one transaction. A known id never makes a second row: that it was leased again means that the engine has
    /// no ack of it, so the new generation (a lower one, if the engine was restored) is kept for the ack; the state stays. A withdrawal closes the pending request that it is about, and neither is handed over.
    fn put(&self, batch: Vec<LiveInput>, now: Timestamp) -> impl Future<Output = Result<PutReport, InboxError>> + Send;

    /// Leases that are stored and not confirmed as acknowledged, oldest first.
    fn unacked(&self, limit: u32) -> impl Future<Output = Result<Vec<(DeliveryId, i64)>, InboxError>> + Send;

    /// Notes which leases the engine confirmed. One that has a higher generation by now stays unconfirmed.
    fn mark_acked(&self, leases: Vec<(DeliveryId, i64)>) -> impl Future<Output = Result<(), InboxError>> + Send;

    /// Inputs to hand over or to reconcile, in order of creation, without held ones.
    fn pending(&self, limit: u32) -> impl Future<Output = Result<Vec<StoredInput>, InboxError>> + Send;

    /// Every row that is not accepted, held ones too, in order of creation and without content.
    fn open(&self) -> impl Future<Output = Result<Vec<OpenInput>, InboxError>> + Send;

    /// Makes several changes in one transaction; one result for each, in order.
    fn set_state(
        &self,
        changes: Vec<StateChange>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Vec<Applied>, InboxError>> + Send;

    /// One input; `None` if its id is unknown.
    fn get(&self, id: DeliveryId) -> impl Future<Output = Result<Option<StoredInput>, InboxError>> + Send;

    /// Inputs that wait for a person, oldest first.
    fn held(&self, limit: u32) -> impl Future<Output = Result<Vec<StoredInput>, InboxError>> + Send;

    /// Carries out a person's decision on a held input. Works while a receiver runs and while none does.
    fn resolve(
        &self,
        id: DeliveryId,
        resolution: Resolution,
        now: Timestamp,
    ) -> impl Future<Output = Result<(), InboxError>> + Send;

    /// Stores which native session a conversation belongs to, unless it has one already; returns the one it has.
    fn remember_session(
        &self,
        conversation: ConversationId,
        session: String,
        now: Timestamp,
    ) -> impl Future<Output = Result<String, InboxError>> + Send;

    /// How much is here.
    fn counts(&self) -> impl Future<Output = Result<Counts, InboxError>> + Send;

    /// Forgets what was made and accepted before `accepted_before` and is acknowledged, and the sessions of conversations that nothing is left
    /// of and that were remembered before then; returns how many inputs went.
    fn prune(&self, accepted_before: Timestamp) -> impl Future<Output = Result<u32, InboxError>> + Send;

    /// Gives up ownership; every later call fails with [`InboxErrorKind::Closed`].
    fn close(&self) -> impl Future<Output = Result<(), InboxError>> + Send;
}

impl<I: InboxStore> InboxStore for Arc<I> {
    fn put(&self, batch: Vec<LiveInput>, now: Timestamp) -> impl Future<Output = Result<PutReport, InboxError>> + Send {
        I::put(self, batch, now)
    }

    fn unacked(&self, limit: u32) -> impl Future<Output = Result<Vec<(DeliveryId, i64)>, InboxError>> + Send {
        I::unacked(self, limit)
    }

    fn mark_acked(&self, leases: Vec<(DeliveryId, i64)>) -> impl Future<Output = Result<(), InboxError>> + Send {
        I::mark_acked(self, leases)
    }

    fn pending(&self, limit: u32) -> impl Future<Output = Result<Vec<StoredInput>, InboxError>> + Send {
        I::pending(self, limit)
    }

    fn open(&self) -> impl Future<Output = Result<Vec<OpenInput>, InboxError>> + Send {
        I::open(self)
    }

    fn set_state(
        &self,
        changes: Vec<StateChange>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Vec<Applied>, InboxError>> + Send {
        I::set_state(self, changes, now)
    }

    fn get(&self, id: DeliveryId) -> impl Future<Output = Result<Option<StoredInput>, InboxError>> + Send {
        I::get(self, id)
    }

    fn held(&self, limit: u32) -> impl Future<Output = Result<Vec<StoredInput>, InboxError>> + Send {
        I::held(self, limit)
    }

    fn resolve(
        &self,
        id: DeliveryId,
        resolution: Resolution,
        now: Timestamp,
    ) -> impl Future<Output = Result<(), InboxError>> + Send {
        I::resolve(self, id, resolution, now)
    }

    fn remember_session(
        &self,
        conversation: ConversationId,
        session: String,
        now: Timestamp,
    ) -> impl Future<Output = Result<String, InboxError>> + Send {
        I::remember_session(self, conversation, session, now)
    }

    fn counts(&self) -> impl Future<Output = Result<Counts, InboxError>> + Send {
        I::counts(self)
    }

    fn prune(&self, accepted_before: Timestamp) -> impl Future<Output = Result<u32, InboxError>> + Send {
        I::prune(self, accepted_before)
    }

    fn close(&self) -> impl Future<Output = Result<(), InboxError>> + Send {
        I::close(self)
    }
}
