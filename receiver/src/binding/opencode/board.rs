//! What is known of the session, shared by the calls and the watcher: one lock, never held across an await.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use beepgrid::{ConversationId, DeliveryKind};
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use super::api::{Admitted, Delivery, Event};
use crate::binding::Reporter;
use crate::input::{BusyMode, LiveInput};

const OURS: &str = "msg_bg";

/// The id under which opencode knows an input: the same for every attempt, and it shows the conversation.
pub(super) fn native_id(input: &LiveInput) -> String {
    let id = input.id.as_str();
    let plain = id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let tag = tag(&input.conversation_id);
    if plain { format!("{tag}_{id}") } else { format!("{tag}x{}", digest(id, 16)) }
}

/// What the ids of a conversation begin with.
fn tag(conversation: &ConversationId) -> String {
    format!("{OURS}{}", digest(conversation.as_str(), 6))
}

fn digest(text: &str, bytes: usize) -> String {
    Sha256::digest(text).iter().take(bytes).fold(String::new(), |mut hex, byte| {
        // Writing to a String can't fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// An input of ours that opencode has and that is not in the model's context yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) seq: u64,
    pub(super) delivery: Delivery,
}

#[derive(Default)]
struct State {
    line: Option<Reporter>,
    /// The last event that was looked at.
    position: u64,
    waiting: BTreeMap<String, Waiting>,
    /// As it was last reported.
    busy: Option<bool>,
    turn: Option<String>,
    /// A model call came to its end since this was last asked.
    worked: bool,
}

#[derive(Default)]
pub(super) struct Board {
    state: Mutex<State>,
    /// Wakes the watcher: something may have changed.
    pub(super) look: Notify,
    /// Wakes the watcher: a call failed, so that the connection has to be tried.
    pub(super) reconnect: Notify,
}

impl Board {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was locked left it whole: every change is a plain assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn attach(&self, line: Reporter) {
        let mut state = self.state();
        state.busy = None;
        state.line = Some(line);
    }

    fn report(&self, report: impl FnOnce(&Reporter)) {
        if let Some(line) = &self.state().line {
            report(line);
        }
    }

    pub(super) fn trouble(&self, reason: &str) {
        self.report(|line| line.unreachable(reason));
    }

    pub(super) fn reachable(&self) {
        self.report(Reporter::reachable);
    }

    pub(super) fn position(&self) -> u64 {
        self.state().position
    }

    /// Steps over an event that is too large to be read.
    pub(super) fn skip(&self) {
        self.state().position += 1;
    }

    /// How an input goes in. Results wait behind nothing. Everything else keeps the order of its conversation: what comes after an input
    /// that still waits in opencode's queue has to queue behind it.
    pub(super) fn delivery(&self, input: &LiveInput, mode: BusyMode) -> Delivery {
        if input.kind == DeliveryKind::RequestResult {
            return Delivery::Steer;
        }
        let tag = tag(&input.conversation_id);
        let queued = |(id, waiting): (&String, &Waiting)| id.starts_with(&tag) && waiting.delivery == Delivery::Queue;
        match mode {
            BusyMode::Steer if !self.state().waiting.iter().any(queued) => Delivery::Steer,
            _ => Delivery::Queue,
        }
    }

    pub(super) fn waiting(&self, id: &str) -> Option<Waiting> {
        self.state().waiting.get(id).copied()
    }

    /// The input that has waited longest.
    pub(super) fn first_waiting(&self) -> Option<(String, Waiting)> {
        self.state().waiting.iter().min_by_key(|(_, waiting)| waiting.seq).map(|(id, waiting)| (id.clone(), *waiting))
    }

    /// Whether a model call came to its end since the last question.
    pub(super) fn has_worked(&self) -> bool {
        std::mem::take(&mut self.state().worked)
    }

    /// The server said that it has this input.
    pub(super) fn admitted(&self, admitted: &Admitted) {
        let mut state = self.state();
        if admitted.promoted.is_some() {
            state.waiting.remove(&admitted.id);
        } else {
            // Otherwise the events have told more already.
            if admitted.seq > state.position {
                let waiting = Waiting { seq: admitted.seq, delivery: admitted.delivery };
                state.waiting.insert(admitted.id.clone(), waiting);
            }
            Self::works(&mut state);
        }
        drop(state);
        self.look.notify_one();
    }

    fn works(state: &mut State) {
        if state.busy.replace(true) != Some(true)
            && let Some(line) = &state.line
        {
            line.busy(true);
        }
    }

    /// The server said whether the session works.
    pub(super) fn active(&self, active: bool) {
        let mut state = self.state();
        if active {
            Self::works(&mut state);
        } else {
            state.turn = None;
            if state.busy.replace(false) != Some(false)
                && let Some(line) = &state.line
            {
                line.idle();
            }
        }
    }

    /// Takes in an event; with `live` it happens now. Returns whether the turn may have ended or begun with it.
    pub(super) fn happened(&self, event: &Event, live: bool) -> bool {
        let mut state = self.state();
        if event.seq <= state.position {
            return false;
        }
        state.position = event.seq;
        let data = &event.data;
        match event.kind.as_str() {
            "session.next.prompt.admitted" => {
                if let (true, Some(delivery)) = (data.message.starts_with(OURS), data.delivery) {
                    state.waiting.insert(data.message.clone(), Waiting { seq: event.seq, delivery });
                }
                true
            }
            "session.next.prompted" => {
                state.waiting.remove(&data.message);
                if live {
                    Self::prompted(&mut state, &data.message, data.delivery);
                } else {
                    state.turn = None;
                }
                true
            }
            "session.next.step.ended" => {
                state.worked = true;
                data.finish.as_deref() != Some("tool-calls")
            }
            kind => !["session.next.text.", "session.next.reasoning.", "session.next.tool.", "session.next.step.started"]
                .iter()
                .any(|inside| kind.starts_with(inside)),
        }
    }

    /// A turn is named after the input that opened it.
    fn prompted(state: &mut State, id: &str, delivery: Option<Delivery>) {
        let opens = delivery == Some(Delivery::Queue) || state.turn.is_none();
        let Some(line) = &state.line else { return };
        if opens {
            if state.turn.is_some() {
                line.turn_ended();
            }
            line.turn_id(id);
            line.busy(true);
            state.turn = Some(id.to_owned());
            state.busy = Some(true);
        } else {
            Self::works(state);
        }
    }
}
