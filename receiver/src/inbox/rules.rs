//! What a change does to a row, written once for every inbox; pure.

use beepgrid::Timestamp;

use super::NextState;
use crate::input::{Attempt, Held, InputState, Resolution};

/// The part of a row that changes of state touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowState {
    pub(crate) state: InputState,
    pub(crate) held: Option<Held>,
    pub(crate) attempts: u32,
    pub(crate) next_attempt_at: Option<Timestamp>,
    pub(crate) attempt: Option<Attempt>,
    pub(crate) last_error: Option<String>,
    pub(crate) accepted_at: Option<Timestamp>,
    pub(crate) ending: Option<&'static str>,
    pub(crate) revision: i64,
}

impl RowState {
    #[cfg(feature = "testing")]
    pub(crate) fn new() -> Self {
        Self {
            state: InputState::Pending,
            held: None,
            attempts: 0,
            next_attempt_at: None,
            attempt: None,
            last_error: None,
            accepted_at: None,
            ending: None,
            revision: 1,
        }
    }

    /// The row after a change that was decided at `revision`, or `None` if it had moved on.
    pub(crate) fn after(&self, revision: i64, to: &NextState, now: Timestamp) -> Option<Self> {
        if *to == NextState::Accepted {
            return if self.state == InputState::Accepted { Some(self.clone()) } else { Some(self.ended("delivered", now)) };
        }
        if self.revision != revision {
            return None;
        }
        let mut next = Self { revision: self.revision + 1, ..self.clone() };
        match (self.state, to) {
            (InputState::Pending, NextState::Submitting(attempt)) if self.held.is_none() => {
                next.state = InputState::Submitting;
                next.attempts = self.attempts.saturating_add(1);
                next.next_attempt_at = None;
                next.attempt = Some(attempt.clone());
            }
            (InputState::Submitting, NextState::Evidence(attempt)) => {
                next.attempt = Some(attempt.clone());
                next.held = None;
            }
            (InputState::Submitting, NextState::Pending { counted, next_attempt_at, error }) => {
                next.state = InputState::Pending;
                next.held = None;
                next.attempts = self.attempts.saturating_sub(u32::from(!counted));
                next.next_attempt_at = *next_attempt_at;
                if error.is_some() {
                    next.last_error.clone_from(error);
                }
            }
            (InputState::Pending | InputState::Submitting, NextState::Held { state, reason, detail })
                if *state != InputState::Accepted =>
            {
                next.state = *state;
                next.held = Some(Held { reason: *reason, detail: detail.clone(), since: now });
                next.last_error = Some(detail.clone());
            }
            _ => return None,
        }
        Some(next)
    }

    /// The row after a person's decision, or `None` if it is not held.
    pub(crate) fn resolved(&self, resolution: Resolution, now: Timestamp) -> Option<Self> {
        self.held.as_ref()?;
        Some(match resolution {
            Resolution::Accepted => self.ended("resolved", now),
            Resolution::Discard => self.ended("discarded", now),
            Resolution::Retry => Self {
                state: InputState::Pending,
                held: None,
                attempts: 0,
                next_attempt_at: None,
                revision: self.revision + 1,
                ..self.clone()
            },
        })
    }

    /// The row when it is done for good. Texts that could hold content go with the content.
    pub(crate) fn ended(&self, ending: &'static str, now: Timestamp) -> Self {
        Self {
            state: InputState::Accepted,
            held: None,
            next_attempt_at: None,
            last_error: None,
            accepted_at: Some(now),
            ending: Some(ending),
            revision: self.revision + 1,
            ..self.clone()
        }
    }

    /// Whether a withdrawal of its request ends it here and now: it was never handed over, or is known not to have arrived.
    pub(crate) fn can_be_withdrawn(&self) -> bool {
        self.state == InputState::Pending
    }
}
