//! What tests of this and other crates share. Never part of a release.

#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "postgres")]
mod server;
