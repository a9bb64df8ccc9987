//! The client commands of the built program, against a live engine: what each prints, and how it ends.
//!
//! Every row of the command reference has a test here, except `serve`, `version` and `help` (`tests/serve.rs`) and `mcp`.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests: whatever fails here should stop the test on the spot"
)]

mod communication;
mod credentials;
mod events;
mod failures;
mod files;
mod inbox;
mod operator;
mod readme;
mod reconcile;
mod setup;
mod support;
