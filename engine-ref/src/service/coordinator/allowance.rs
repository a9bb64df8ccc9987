//! How often the model is asked: two calls at once and a thousand an hour in this process, one a second for each person.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use beepgrid::{PrincipalId, Timestamp};

use crate::service::Refusal;
use crate::service::limits::{MAX_ASSISTANCE_AN_HOUR, MAX_ASSISTANCE_AT_ONCE};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// Between two calls of one person.
const INTERVAL: Duration = Duration::from_secs(1);
/// When to look again while others are served.
const BUSY_RETRY: Duration = Duration::from_secs(2);

/// What is left; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowance(Arc<Mutex<Used>>);

#[derive(Debug, Default)]
struct Used {
    now: usize,
    hour: VecDeque<Timestamp>,
    people: HashMap<PrincipalId, Timestamp>,
}

/// One call under way.
#[derive(Debug)]
pub(crate) struct Turn(Allowance);

impl Allowance {
    fn used(&self) -> MutexGuard<'_, Used> {
        // Every change is whole before the lock is given up.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a call, until the turn is dropped.
    ///
    /// # Errors
    /// 429 with the time after which it may be tried again.
    pub(crate) fn take(&self, person: &PrincipalId, now: Timestamp) -> Result<Turn, Refusal> {
        let later = |message: String, retry_after| Err(Refusal::RateLimited { message, retry_after });
        let mut used = self.used();
        while used.hour.front().is_some_and(|at| at.plus(HOUR) <= now) {
            used.hour.pop_front();
        }
        used.people.retain(|_, at| at.plus(INTERVAL) > now);
        if used.people.contains_key(person) {
            return later("one call of the Coordinator a second".to_owned(), INTERVAL);
        }
        if used.now >= MAX_ASSISTANCE_AT_ONCE {
            return later(format!("at most {MAX_ASSISTANCE_AT_ONCE} calls of the Coordinator at once"), BUSY_RETRY);
        }
        if let Some(first) = used.hour.front().filter(|_| used.hour.len() >= MAX_ASSISTANCE_AN_HOUR) {
            let wait = first.plus(HOUR).since(now);
            return later(format!("at most {MAX_ASSISTANCE_AN_HOUR} calls of the Coordinator an hour"), wait);
        }
        used.now += 1;
        used.hour.push_back(now);
        used.people.insert(person.clone(), now);
        Ok(Turn(self.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut used = self.0.used();
        used.now = used.now.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(result: Result<Turn, Refusal>) -> Duration {
        match result.unwrap_err() {
            Refusal::RateLimited { retry_after, .. } => retry_after,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_person_may_ask_once_a_second() {
        let (allowance, start) = (Allowance::default(), Timestamp::from_micros(0));
        drop(allowance.take(&"per_1".into(), start).unwrap());
        assert_eq!(wait(allowance.take(&"per_1".into(), start.plus(Duration::from_millis(999)))), INTERVAL);
        drop(allowance.take(&"per_2".into(), start).unwrap());
        drop(allowance.take(&"per_1".into(), start.plus(INTERVAL)).unwrap());
    }

    #[test]
    fn two_are_served_at_once() {
        let (allowance, start) = (Allowance::default(), Timestamp::from_micros(0));
        let one = allowance.take(&"per_1".into(), start).unwrap();
        let _two = allowance.take(&"per_2".into(), start).unwrap();
        assert_eq!(wait(allowance.take(&"per_3".into(), start)), BUSY_RETRY);
        drop(one);
        drop(allowance.take(&"per_3".into(), start).unwrap());
    }

    #[test]
    fn a_thousand_are_served_in_an_hour() {
        let allowance = Allowance::default();
        for n in 0..1_000 {
            drop(allowance.take(&format!("per_{n}").as_str().into(), Timestamp::from_micros(n)).unwrap());
        }
        let after = Timestamp::from_micros(1_000_000);
        assert_eq!(wait(allowance.take(&"per_x".into(), after)), Duration::from_secs(3_599));
        drop(allowance.take(&"per_x".into(), Timestamp::from_micros(0).plus(HOUR)).unwrap());
    }
}
