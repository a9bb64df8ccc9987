//! What a receiver is doing, as a value to watch.

use std::error::Error as StdError;
use std::fmt::Write as _;

use beepgrid::Timestamp;
use tokio::sync::watch;

use crate::inbox::Counts;
use crate::input::BusyMode;

/// What intake does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IntakeState {
    /// `run` has not begun, or has ended.
    Stopped,
    /// Leases everything.
    Open,
    /// `max_pending` is reached: leases results and withdrawals only, the engine keeps the rest.
    ResultsOnly,
    /// The reserve for results is used up too: leases nothing until something is accepted.
    Full,
    /// The inbox holds as many rows as it may. Nothing is leased, and nothing is forgotten to make room.
    OutOfRows,
    /// The inbox can't store what was leased (disk full, say); tries again.
    CannotStore,
}

/// A receiver's state at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Whether the last call to the engine worked.
    pub connected: bool,
    /// When the engine last answered a poll.
    pub last_poll: Option<Timestamp>,
    /// The newest error with its causes, and what it was about; stays until the same thing works again.
    pub last_error: Option<String>,
    /// Inputs that wait and are not held.
    pub pending: u32,
    /// Inputs handed over, without proof yet, and not held.
    pub submitting: u32,
    /// Inputs that wait for a person.
    pub held: u32,
    /// All rows of the inbox, including those kept to recognise repeats.
    pub rows: u32,
    /// How ordinary input reaches a busy agent.
    pub mode: BusyMode,
    /// When the credential ends; `None` is never, or not known yet.
    pub expires_at: Option<Timestamp>,
    /// What intake does.
    pub intake: IntakeState,
}

/// Which part an error came from; it is cleared by the same part's next success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Engine,
    Inbox,
    Binding,
    Delivery,
}

#[derive(Debug)]
pub(crate) struct StatusBoard {
    sender: watch::Sender<Status>,
    failing: std::sync::Mutex<Option<Part>>,
}

impl StatusBoard {
    pub(crate) fn new(mode: BusyMode) -> Self {
        let status = Status {
            connected: false,
            last_poll: None,
            last_error: None,
            pending: 0,
            submitting: 0,
            held: 0,
            rows: 0,
            mode,
            expires_at: None,
            intake: IntakeState::Stopped,
        };
        Self { sender: watch::Sender::new(status), failing: std::sync::Mutex::new(None) }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Status> {
        self.sender.subscribe()
    }

    pub(crate) fn polled(&self, at: Timestamp) {
        self.change(|status| {
            status.connected = true;
            status.last_poll = Some(at);
        });
        self.works(Part::Engine);
    }

    pub(crate) fn intake(&self, intake: IntakeState) {
        self.change(|status| status.intake = intake);
    }

    pub(crate) fn counts(&self, counts: Counts) {
        self.change(|status| {
            status.pending = counts.pending;
            status.submitting = counts.submitting;
            status.held = counts.held;
            status.rows = counts.rows;
        });
    }

    pub(crate) fn expires_at(&self, at: Option<Timestamp>) {
        self.change(|status| status.expires_at = at);
    }

    pub(crate) fn stopped(&self) {
        self.change(|status| {
            status.connected = false;
            status.intake = IntakeState::Stopped;
        });
    }

    /// Shows and logs an error, once, with its causes.
    pub(crate) fn failed(&self, part: Part, doing: &str, error: &(dyn StdError + 'static)) {
        let text = format!("{doing}: {}", chain(error));
        tracing::warn!(part = ?part, error = %text, "receiver");
        *self.failing.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(part);
        self.change(|status| {
            if part == Part::Engine {
                status.connected = false;
            }
            status.last_error = Some(text);
        });
    }

    /// Takes back an error that the same part showed.
    pub(crate) fn works(&self, part: Part) {
        let mut failing = self.failing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *failing == Some(part) {
            *failing = None;
            self.change(|status| status.last_error = None);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Status)) {
        self.sender.send_if_modified(|status| {
            let before = status.clone();
            change(status);
            *status != before
        });
    }
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to a String can't fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_stays_until_the_same_part_works_again() {
        let board = StatusBoard::new(BusyMode::Queue);
        let error = std::io::Error::other("no");
        board.failed(Part::Inbox, "storing", &error);
        board.polled(Timestamp::from_micros(1));
        assert_eq!(board.subscribe().borrow().last_error.as_deref(), Some("storing: no"));
        board.works(Part::Inbox);
        assert_eq!(board.subscribe().borrow().last_error, None);
    }
}
