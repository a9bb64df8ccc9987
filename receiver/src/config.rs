//! Settings of a receiver, checked once when it is built. Every default is a named constant.

use std::time::Duration;

use beepgrid::Timestamp;

use crate::binding::Capabilities;
use crate::input::BusyMode;
use crate::mutants::{self, Mutant};

/// Ordinary inputs that may wait here before intake leaves the rest with the engine.
pub const DEFAULT_MAX_PENDING: u32 = 1_000;
/// Results and withdrawals that may wait beside them.
pub const DEFAULT_RESERVE: u32 = 256;
/// Rows that the inbox may hold, including those kept only to recognise repeats.
pub const DEFAULT_MAX_ROWS: u32 = 1_000_000;
/// One lease, and so one commit, takes at most this many deliveries.
pub const DEFAULT_BATCH: u32 = 50;
/// How long one call of a binding may take before its outcome counts as unknown.
pub const DEFAULT_CALL_DEADLINE: Duration = Duration::from_secs(30);
/// How long the engine is asked to wait for work.
pub const LONG_POLL: Duration = Duration::from_secs(15);
/// The wait while only results and withdrawals are leased: short, so that room is noticed soon.
pub const NARROW_POLL: Duration = Duration::from_secs(2);
/// How long `run` waits for calls in flight after it was cancelled.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// How long accepted and acknowledged ids are kept to recognise repeats.
pub const KEEP_ACCEPTED: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// How often old ids are removed.
pub(crate) const PRUNE_EVERY: Duration = Duration::from_secs(60 * 60);

/// How often, and how far apart, a refused input is tried before it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts before the input is held; at least 1.
    pub attempts: u32,
    /// The wait after the first refusal; doubles with each further one.
    pub first_delay: Duration,
    /// The longest wait.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts: 8, first_delay: Duration::from_secs(1), max_delay: Duration::from_secs(300) }
    }
}

impl RetryPolicy {
    /// The wait after `failures` failures in a row; defined for every number.
    pub fn delay(&self, failures: u32) -> Duration {
        if failures == 0 {
            return Duration::ZERO;
        }
        let factor = 1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX);
        self.first_delay.saturating_mul(factor).min(self.max_delay)
    }

    /// Whether a stored retry time is reached. One further away than the longest wait was written under another clock and counts as
    /// reached, so that a corrected clock parks nothing.
    pub(crate) fn is_due(&self, next_attempt_at: Option<Timestamp>, now: Timestamp) -> bool {
        let too_far = |at: Timestamp| at.since(now) > self.max_delay && !mutants::on(Mutant::FarRetryTimeBelieved);
        next_attempt_at.is_none_or(|at| at <= now || too_far(at))
    }
}

/// What is wrong with a receiver's settings, found when it is built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Steer was asked of a binding that can't do it.
    #[error("the binding {binding} takes no input while the agent works; use queue")]
    CannotSteer {
        /// The binding's name.
        binding: String,
    },
    /// Queue was asked of a binding that neither says when the agent is idle nor queues durably itself.
    #[error("the binding {binding} can't tell when the agent is idle and has no durable queue; use steer")]
    CannotQueue {
        /// The binding's name.
        binding: String,
    },
    /// A number that makes no sense.
    #[error("{setting} must be {expected}")]
    Setting {
        /// Which setting.
        setting: &'static str,
        /// What it must be.
        expected: &'static str,
    },
}

/// Everything that can be set, with its defaults.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) mode: BusyMode,
    pub(crate) max_pending: u32,
    pub(crate) reserve: u32,
    pub(crate) max_rows: u32,
    pub(crate) batch: u32,
    pub(crate) call_deadline: Duration,
    pub(crate) shutdown_grace: Duration,
    pub(crate) retry: RetryPolicy,
    pub(crate) reconnect: RetryPolicy,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: BusyMode::Queue,
            max_pending: DEFAULT_MAX_PENDING,
            reserve: DEFAULT_RESERVE,
            max_rows: DEFAULT_MAX_ROWS,
            batch: DEFAULT_BATCH,
            call_deadline: DEFAULT_CALL_DEADLINE,
            shutdown_grace: SHUTDOWN_GRACE,
            retry: RetryPolicy::default(),
            reconnect: RetryPolicy {
                attempts: u32::MAX,
                first_delay: Duration::from_millis(250),
                max_delay: Duration::from_secs(30),
            },
        }
    }
}

impl Config {
    /// Whether a binding can do what the mode asks for.
    pub(crate) fn suits(&self, binding: &str, capabilities: Capabilities) -> Result<(), BuildError> {
        let binding = || binding.to_owned();
        match self.mode {
            BusyMode::Steer if !capabilities.steer => Err(BuildError::CannotSteer { binding: binding() }),
            BusyMode::Queue if !capabilities.reports_idle && !capabilities.durable_queue => {
                Err(BuildError::CannotQueue { binding: binding() })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let checks = [
            (self.max_pending >= 1, "max_pending", "at least 1"),
            (self.reserve >= 1, "reserve", "at least 1"),
            (
                self.max_rows > self.max_pending.saturating_add(self.reserve),
                "max_rows",
                "more than max_pending and reserve together",
            ),
            ((1..=100).contains(&self.batch), "batch", "1 to 100"),
            (!self.call_deadline.is_zero(), "call_deadline", "longer than zero"),
            (self.retry.attempts >= 1, "retry.attempts", "at least 1"),
            (!self.retry.first_delay.is_zero(), "retry.first_delay", "longer than zero"),
            (self.retry.max_delay >= self.retry.first_delay, "retry.max_delay", "no shorter than retry.first_delay"),
            (!self.reconnect.first_delay.is_zero(), "reconnect.first_delay", "longer than zero"),
        ];
        match checks.into_iter().find(|(holds, ..)| !holds) {
            Some((_, setting, expected)) => Err(BuildError::Setting { setting, expected }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_are_capped_and_defined_everywhere() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(0), Duration::ZERO);
        assert_eq!(policy.delay(1), Duration::from_secs(1));
        assert_eq!(policy.delay(4), Duration::from_secs(8));
        for failures in [30, 32, 33, 1_000, u32::MAX] {
            assert_eq!(policy.delay(failures), policy.max_delay);
        }
    }

    #[test]
    fn a_retry_time_from_a_clock_that_was_ahead_is_due() {
        let policy = RetryPolicy::default();
        let now = Timestamp::from_micros(1_000_000_000);
        assert!(!policy.is_due(Some(now.plus(Duration::from_secs(10))), now));
        assert!(policy.is_due(Some(now.plus(Duration::from_secs(86_400))), now));
        assert!(policy.is_due(Some(now), now) && policy.is_due(None, now));
    }

    #[test]
    fn impossible_settings_are_named() {
        let config = Config { batch: 101, ..Config::default() };
        assert_eq!(config.check(), Err(BuildError::Setting { setting: "batch", expected: "1 to 100" }));
        assert_eq!(Config::default().check(), Ok(()));
    }
}
