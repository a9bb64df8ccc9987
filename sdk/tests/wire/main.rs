//! The client against a scripted peer on real sockets: one that says nothing, cuts, stalls, answers late, redirects.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::format_push_string,
    reason = "test support fails loudly too"
)]

mod answers;
mod attempts;
mod events;
mod logs;
mod pages;
mod peer;
mod redirects;
mod waiting;
mod working;

use std::time::Duration;

use beepgrid::{Client, ClientBuilder, SendInput, Target};

const TOKEN: &str = "bgt_secret_0123456789abcdef";

/// A client whose delays are short enough for a test; its deadlines are those of the defaults.
fn builder(url: &str) -> ClientBuilder {
    let (first, longest) = (Duration::from_millis(1), Duration::from_millis(20));
    Client::builder(url).token(TOKEN).retry_delays(first, longest).reconnect_delays(first, longest)
}

fn client(url: &str) -> Client {
    builder(url).build().unwrap()
}

fn message() -> SendInput {
    SendInput::to(Target::agent("builder-7"), "Hello")
}

/// The error with everything that a log could show of it.
fn everything(error: &beepgrid::Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(" {error} {error:?}"));
        cause = error.source();
    }
    text
}
