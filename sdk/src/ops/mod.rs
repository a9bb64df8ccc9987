//! The client's methods, one file per family, and the table of operations that they read.

#![expect(
    clippy::needless_pass_by_value,
    reason = "inputs are handed over: they are built for one call, and may be kept for it later"
)]

mod access;
mod answers;
mod channels;
mod chats;
mod coordinator;
mod events;
mod executions;
mod files;
mod identity;
mod limits;
mod messages;
mod queries;
mod requests;
mod setup;
mod workers;

pub use messages::DirectoryInput;

pub use crate::operations::*;
