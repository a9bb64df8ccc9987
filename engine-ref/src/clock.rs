//! The engine's only source of time: the system's clock, or one that a test moves.

use std::time::Duration;

use beepgrid::Timestamp;

/// How long a wait trusts the system clock before it looks again: a clock that was set is noticed within this time.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// The time that an engine goes by; clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    #[cfg(any(test, feature = "testing"))]
    Manual(std::sync::Arc<tokio::sync::watch::Sender<Timestamp>>),
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still at `start` until [`advance`](Self::advance) moves it.
    #[cfg(any(test, feature = "testing"))]
    pub fn manual(start: Timestamp) -> Self {
        Self(Source::Manual(std::sync::Arc::new(tokio::sync::watch::Sender::new(start))))
    }

    /// The present time, to the microsecond.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => system_now(),
            #[cfg(any(test, feature = "testing"))]
            Source::Manual(time) => *time.borrow(),
        }
    }

    /// Moves a manual clock forward and wakes what sleeps until then; the system's clock is left alone.
    #[cfg(any(test, feature = "testing"))]
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(time) = &self.0 {
            time.send_modify(|now| *now = now.plus(by));
        }
    }

    /// Returns once the clock shows `time` or later, at once if it does already. Safe to drop.
    pub async fn sleep_until(&self, time: Timestamp) {
        match &self.0 {
            Source::System => loop {
                let now = system_now();
                if now >= time {
                    return;
                }
                tokio::time::sleep(time.since(now).min(LONGEST_SLEEP)).await;
            },
            #[cfg(any(test, feature = "testing"))]
            Source::Manual(clock) => {
                let mut moved = clock.subscribe();
                // An error would mean that the clock is gone, but `self` holds it.
                let _ = moved.wait_for(|now| *now >= time).await;
            }
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
fn system_now() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn manual_clock_wakes_what_sleeps_until_it_was_moved_there() {
        let clock = Clock::manual(Timestamp::from_micros(1_000_000));
        let other = clock.clone();
        let sleeper = tokio::spawn(async move {
            other.sleep_until(Timestamp::from_micros(3_000_000)).await;
            other.now()
        });
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(1));
        assert_eq!(sleeper.await.unwrap(), Timestamp::from_micros(3_000_000));
    }

    #[tokio::test]
    async fn sleep_until_a_past_time_returns_at_once() {
        Clock::system().sleep_until(Timestamp::from_micros(1)).await;
        Clock::manual(Timestamp::from_micros(5)).sleep_until(Timestamp::from_micros(5)).await;
    }
}
