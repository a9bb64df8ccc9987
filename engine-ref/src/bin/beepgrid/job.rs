//! How a client command runs: on one thread, until it is done, out of time or told to stop.

use std::io::IsTerminal as _;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context as _;
use beepgrid::Key;
use clap::Args;
use tracing_subscriber::EnvFilter;

use crate::signals::Signals;

/// What every command that calls the engine takes.
#[derive(Debug, Args)]
pub(crate) struct CallArguments {
    /// Give up after this long, such as 30s or 1m30s; what was sent may still happen
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// What every keyed write takes.
#[derive(Debug, Args)]
pub(crate) struct KeyArguments {
    /// Idempotency key: repeated under the same key the command has its effect once [default: a fresh one, shown in the result]
    #[arg(long, value_name = "KEY", value_parser = key)]
    pub(crate) key: Option<Key>,
}

/// A running command: what it has sent, for the case that it is stopped before the answer.
#[derive(Debug, Default)]
pub(crate) struct Job {
    write: OnceLock<Option<Key>>,
}

/// The command was told to stop.
#[derive(Debug, thiserror::Error)]
#[error("stopped by a signal; what was sent to the engine goes on there")]
pub(crate) struct Cancelled {
    /// What was under way.
    pub(crate) sent: Sent,
}

/// What a command has sent that changes something.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    Nothing,
    /// A write, under this key if it takes one.
    Write(Option<Key>),
}

impl Job {
    /// Notes that a write goes out; without an answer its outcome is unknown from here on.
    pub(crate) fn writes(&self, key: Option<&Key>) {
        // The first one is what the command was for.
        let _ = self.write.set(key.cloned());
    }
}

/// Runs a command to its end, or to the first SIGINT or SIGTERM.
pub(crate) fn run<T>(work: impl AsyncFnOnce(&Job) -> anyhow::Result<T>) -> anyhow::Result<T> {
    run_until_told(async |signals| {
        let job = Job::default();
        tokio::select! {
            done = work(&job) => done,
            () = signals.next() => Err(Cancelled { sent: job.write.get().cloned().map_or(Sent::Nothing, Sent::Write) }.into()),
        }
    })
}

/// Runs a command for which a signal is the ordinary end.
pub(crate) fn run_until_told<T>(work: impl AsyncFnOnce(&mut Signals) -> anyhow::Result<T>) -> anyhow::Result<T> {
    log_warnings();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("can't start the runtime")?;
    let done = runtime.block_on(async {
        let mut signals = Signals::listen().context("can't listen for signals")?;
        work(&mut signals).await
    });
    // A thread may still wait for standard input.
    runtime.shutdown_background();
    done
}

/// Warnings go to standard error, for programs one JSON object a line.
pub(crate) fn log_warnings() {
    let filter = std::env::var("BEEPGRID_LOG").ok().and_then(|given| EnvFilter::try_new(given).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new("warn"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // It fails when something logs already, which is as good.
    if std::io::stderr().is_terminal() {
        drop(lines.try_init());
    } else {
        drop(lines.json().flatten_event(true).try_init());
    }
}

/// Reads `300ms`, `30s`, `5m`, `1h30m`; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, &'static str> {
    const WRONG: &str = "a duration is a number with ms, s, m or h, such as 30s or 1h30m, more than 0 and at most 10000 hours";
    const LONGEST: u64 = 10_000 * 60 * 60 * 1000;
    let mut rest = text;
    let mut millis = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(digits).ok_or(WRONG)?;
        let unit = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(unit).ok_or(WRONG)?;
        let factor = match unit {
            "ms" => 1,
            "s" => 1000,
            "" if millis == 0 => 1000,
            "m" => 60 * 1000,
            "h" => 60 * 60 * 1000,
            _ => return Err(WRONG),
        };
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or(WRONG)?;
        millis = millis.checked_add(part).ok_or(WRONG)?;
        rest = after;
    }
    if (1..=LONGEST).contains(&millis) { Ok(Duration::from_millis(millis)) } else { Err(WRONG) }
}

fn key(text: &str) -> Result<Key, beepgrid::KeyError> {
    text.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        for (text, millis) in [("30s", 30_000), ("5m", 300_000), ("1h30m", 5_400_000), ("1500ms", 1500), ("90", 90_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "0", "0s", "s", "-1s", "1.5s", "5 m", "5x", "10001h", "99999999999999999999s", "1m30", "é"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
