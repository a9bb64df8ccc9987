//! Starters to copy into your own project; each one is a file or folder beside this one and runs with `cargo run --example NAME`.

pub mod place;

/// The code in the README, compiled by the tests so that it keeps step.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
