//! May this be sent again, and when: pure decisions, no I/O. The only file that knows the `backoff` crate.

use std::time::Duration;

use backoff::ExponentialBackoffBuilder;
use backoff::backoff::Backoff as _;

use crate::ops::Replay;

/// How often a call is sent in all.
pub(crate) const MAX_ATTEMPTS: u32 = 3;

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An HTTP answer came, whatever its status.
    Answer,
    /// No answer came.
    Transport,
    /// An answer began and its body was cut off.
    CutOff,
}

/// Whether another attempt may follow the one that ended in `fault`.
pub(crate) fn may_resend(replay: Replay, fault: Fault, sent: u32) -> bool {
    match (fault, replay) {
        (Fault::Answer, _) | (_, Replay::Once) => false, // the engine has spoken, or nothing protects the write
        (Fault::Transport | Fault::CutOff, Replay::Read | Replay::Keyed) => sent < MAX_ATTEMPTS,
    }
}

/// Delays that double from `initial`, jittered, and never exceed `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delays {
    initial: Duration,
    max: Duration,
}

impl Delays {
    /// Between the attempts of one call.
    pub(crate) const ATTEMPTS: Self = Self { initial: Duration::from_millis(100), max: Duration::from_secs(2) };
    /// Between the rounds of an endless loop.
    pub(crate) const LOOPS: Self = Self { initial: Duration::from_millis(250), max: Duration::from_secs(30) };

    /// The first and the longest delay.
    pub(crate) fn bounds(self) -> (Duration, Duration) {
        (self.initial, self.max)
    }

    /// `None` if the delays would be zero or shrink.
    pub(crate) fn new(initial: Duration, max: Duration) -> Option<Self> {
        (!initial.is_zero() && initial <= max).then_some(Self { initial, max })
    }

    /// The delay after `failures` failures in a row before this one, without jitter.
    pub(crate) fn base(self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        self.initial.saturating_mul(factor).min(self.max)
    }

    /// The delay after `failures` failures in a row before this one: half to one and a half times the base, within the maximum.
    pub(crate) fn after(self, failures: u32) -> Duration {
        let base = self.base(failures);
        let mut source = ExponentialBackoffBuilder::new()
            .with_initial_interval(base)
            .with_max_interval(self.max)
            .with_max_elapsed_time(None)
            .build();
        // Jitter comes after the crate's cap; the maximum is a promise.
        source.next_backoff().unwrap_or(base).min(self.max)
    }
}

/// The delays of an endless loop: they grow with each failure and start anew only after progress.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    delays: Delays,
    failures: u32,
}

impl Pace {
    pub(crate) fn new(delays: Delays) -> Self {
        Self { delays, failures: 0 }
    }

    /// The delay before the next round. What the engine asked for is kept to; a zero is no licence to spin.
    pub(crate) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let own = self.delays.after(self.failures);
        self.failures = self.failures.saturating_add(1);
        match asked {
            Some(asked) if !asked.is_zero() => asked,
            _ => own,
        }
    }

    /// Something useful came: the next failure starts with the first delay.
    pub(crate) fn progress(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_reads_and_keyed_writes_are_sent_again_and_only_without_an_answer() {
        for (replay, fault, again) in [
            (Replay::Read, Fault::Transport, true),
            (Replay::Read, Fault::CutOff, true),
            (Replay::Keyed, Fault::Transport, true),
            (Replay::Keyed, Fault::CutOff, true),
            (Replay::Once, Fault::Transport, false),
            (Replay::Once, Fault::CutOff, false),
            (Replay::Read, Fault::Answer, false),
            (Replay::Keyed, Fault::Answer, false),
        ] {
            assert_eq!(may_resend(replay, fault, 1), again, "{replay:?} {fault:?}");
            assert!(!may_resend(replay, fault, MAX_ATTEMPTS));
        }
    }

    #[test]
    fn a_zero_or_shrinking_delay_is_refused() {
        assert!(Delays::new(Duration::ZERO, Duration::from_secs(1)).is_none());
        assert!(Delays::new(Duration::from_secs(2), Duration::from_secs(1)).is_none());
    }

    #[test]
    fn a_long_wait_that_the_engine_asks_for_is_kept_to() {
        let mut pace = Pace::new(Delays::LOOPS);
        assert_eq!(pace.next(Some(Duration::from_secs(86_400))), Duration::from_secs(86_400));
        assert!(pace.next(Some(Duration::ZERO)) > Duration::ZERO);
    }

    #[test]
    fn delays_start_anew_only_after_progress() {
        let mut pace = Pace::new(Delays::LOOPS);
        for _ in 0..20 {
            pace.next(None);
        }
        assert!(pace.next(None) >= Duration::from_secs(15));
        pace.progress();
        assert!(pace.next(None) <= Duration::from_millis(375));
    }

    proptest! {
        #[test]
        fn every_count_has_a_delay_within_bounds(failures: u32, initial_ms in 1_u64..10_000, extra_ms in 0_u64..1_000_000) {
            let delays = Delays::new(Duration::from_millis(initial_ms), Duration::from_millis(initial_ms + extra_ms)).unwrap();
            let delay = delays.after(failures);
            prop_assert!(delay >= delays.base(failures) / 2);
            prop_assert!(delay <= delays.max);
        }

        #[test]
        fn the_base_never_shrinks(failures in 0_u32..u32::MAX) {
            prop_assert!(Delays::LOOPS.base(failures) <= Delays::LOOPS.base(failures + 1));
        }
    }
}
