//! The receiver's bindings against the real programs, where the environment names them; see each file for its variable.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests"
)]

mod acp;
mod claude;
mod opencode;
