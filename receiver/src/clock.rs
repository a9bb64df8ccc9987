//! The receiver's clock: wall-clock time that goes into the inbox, read in one place so that tests can move it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use beepgrid::Timestamp;
use tokio::time::Instant;

/// Where the receiver reads the time. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    System,
    Tokio { start: Timestamp, base: Instant, shift: Arc<AtomicI64> },
}

impl Default for Clock {
    fn default() -> Self {
        Self(Kind::System)
    }
}

impl Clock {
    /// The system's wall clock; the default.
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock that says `start` now and follows tokio's time from here, so that paused time moves it. For simulations.
    pub fn following_tokio(start: Timestamp) -> Self {
        Self(Kind::Tokio { start, base: Instant::now(), shift: Arc::default() })
    }

    /// Sets this clock and its clones forward, or back, as somebody who corrects the machine's time does. The system's clock stays as it is.
    pub fn jump(&self, micros: i64) {
        if let Kind::Tokio { shift, .. } = &self.0 {
            shift.fetch_add(micros, Ordering::Relaxed);
        }
    }

    /// Now.
    #[expect(clippy::disallowed_methods, reason = "the one reader of the wall clock in this crate")]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::System => {
                let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
            }
            Kind::Tokio { start, base, shift } => {
                Timestamp::from_micros(start.plus(base.elapsed()).as_micros().saturating_add(shift.load(Ordering::Relaxed)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_following_clock_moves_with_paused_time() {
        let clock = Clock::following_tokio(Timestamp::from_micros(5));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(clock.now().as_micros(), 3_000_005);
        clock.clone().jump(-1_000_000);
        assert_eq!(clock.now().as_micros(), 2_000_005);
    }
}
