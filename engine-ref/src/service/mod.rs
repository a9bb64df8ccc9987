//! The rules, one file per family: synchronous, no HTTP, no SQL text, no clock but the transaction's.

pub(crate) mod access;
pub(crate) mod account;
pub(crate) mod actor;
pub(crate) mod answers;
pub(crate) mod assistance;
pub(crate) mod audience;
pub(crate) mod channels;
pub(crate) mod chats;
pub(crate) mod checks;
pub(crate) mod conversations;
pub(crate) mod coordinator;
pub(crate) mod cursor;
pub(crate) mod deliveries;
pub(crate) mod event_stream;
pub(crate) mod events;
pub(crate) mod executions;
pub(crate) mod file_names;
pub(crate) mod files;
pub(crate) mod fleet;
pub(crate) mod identity;
pub(crate) mod inbox;
pub(crate) mod limits;
pub(crate) mod messages;
pub(crate) mod permissions;
pub(crate) mod policies;
pub(crate) mod presence;
pub(crate) mod previews;
pub(crate) mod providers;
pub(crate) mod queries;
pub(crate) mod refusal;
pub(crate) mod requests;
pub(crate) mod restore;
pub(crate) mod seal;
pub(crate) mod setup;
pub(crate) mod uploads;

pub(crate) use refusal::Refusal;

use uuid::Uuid;

/// A fresh id: the kind's prefix and a time-ordered UUID without dashes.
pub(crate) fn new_id<T: From<String>>(prefix: &str) -> T {
    T::from(format!("{prefix}{}", Uuid::now_v7().simple()))
}
