//! What the wire contract fixes, asserted from outside: status, code, ids and values, on every store.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    clippy::print_stdout,
    clippy::similar_names,
    clippy::cloned_ref_to_slice_refs,
    clippy::match_same_arms,
    reason = "tests: whatever fails here should stop the test on the spot"
)]

mod access;
mod answers;
mod batches;
mod channels;
mod chats;
mod contacts;
mod coordinator;
mod coverage;
mod credentials;
mod deliveries;
mod enrollment;
mod event_access;
mod event_order;
mod events;
mod executions;
mod faults;
mod files;
mod fleet;
mod history;
mod idempotency;
mod json;
mod kill;
mod leases;
mod limits;
mod management;
mod messages;
mod order;
mod previews;
mod principals;
mod queries;
mod races;
mod receiver_kill;
mod receiver_trouble;
mod request_model;
mod requests;
mod restore;
mod rotation;
mod text;
mod trace;
mod transport;
mod waiting;
