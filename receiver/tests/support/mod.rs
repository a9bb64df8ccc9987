//! What the tests share: an engine without a network, a scripted runtime, and waiting for a state with a limit.
#![allow(dead_code, reason = "every test file uses a part of it")]

#[cfg(feature = "acp")]
pub(crate) mod acp;
#[cfg(feature = "acp")]
pub(crate) mod acp_run;
#[cfg(feature = "claude")]
pub(crate) mod claude;
#[cfg(feature = "claude")]
pub(crate) mod claude_run;
pub(crate) mod engine;
pub(crate) mod http;
pub(crate) mod opencode;
pub(crate) mod runtime;
pub(crate) mod scenarios;

use std::time::Duration;

use beepgrid_receiver::LiveInput;
use beepgrid_receiver::inbox::suite;

/// A message `id` in `conversation`; the number in the id is its order of creation.
pub(crate) fn message(id: &str, conversation: &str) -> LiveInput {
    suite::message_in(id, order(id), conversation, &format!("text of {id}"))
}

/// A delivery about a request.
pub(crate) fn about(id: &str, kind: &str, request: &str) -> LiveInput {
    suite::about_request(id, order(id), kind, request)
}

fn order(id: &str) -> i64 {
    id.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

/// Waits until `reached` holds; fails after ten seconds (of tokio's time) with what it waited for.
pub(crate) async fn until(what: &str, reached: impl AsyncFn() -> bool) {
    let waiting = async {
        while !reached().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(10), waiting).await.is_ok(), "not reached: {what}");
}
