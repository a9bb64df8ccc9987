//! How the store's threads wait without work: until somebody rings, or the store ends.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Wakes one waiting thread; clones ring the same bell.
#[derive(Clone, Debug, Default)]
pub(super) struct Bell(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    rung: bool,
    stopped: bool,
}

/// Stops a bell when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Keeper(pub(super) Bell);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Two flags can't be left half-done.
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for one more round; more of them before the round are one.
    pub(super) fn ring(&self) {
        let mut state = self.lock();
        if !state.rung {
            state.rung = true;
            self.0.1.notify_all();
        }
    }

    /// Ends all waiting, for good.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.0.1.notify_all();
    }

    #[cfg(feature = "postgres")]
    pub(super) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Waits for a ring and takes it. False once stopped.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.lock();
        while !state.rung && !state.stopped {
            state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.rung = false;
        !state.stopped
    }

    /// Lets `time` pass, rung or not. False, and at once, if stopped.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut state = self.lock();
        while !state.stopped {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.0.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }
}
