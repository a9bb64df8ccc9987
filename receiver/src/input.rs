//! What is received: a delivery as the receiver passes it on, and the same with what the inbox knows about it.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use beepgrid::{ConversationId, Delivery, DeliveryId, DeliveryKind, RequestId, Timestamp};
use serde::{Deserialize, Serialize};

/// When ordinary input reaches an agent that is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BusyMode {
    /// Joins the running work at the next boundary that the runtime has; starts a turn if there is none.
    Steer,
    /// Waits until the agent is idle, then starts a turn of its own.
    Queue,
}

impl BusyMode {
    /// The word for it in configuration: `steer` or `queue`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Steer => "steer",
            Self::Queue => "queue",
        }
    }
}

impl fmt::Display for BusyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is neither `steer` nor `queue`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the busy mode is `steer` or `queue`, not {given:?}")]
pub struct UnknownBusyMode {
    /// What was given, shortened.
    pub given: String,
}

impl FromStr for BusyMode {
    type Err = UnknownBusyMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "steer" => Ok(Self::Steer),
            "queue" => Ok(Self::Queue),
            other => Err(UnknownBusyMode { given: other.chars().take(40).collect() }),
        }
    }
}

/// One input for the agent. Its `id` stays the same however often the engine hands the delivery out.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveInput {
    /// Stable across lease generations; the key for the host's own records.
    pub id: DeliveryId,
    /// Where to answer.
    pub conversation_id: ConversationId,
    /// Message, request, result of one's own request, or withdrawal of one that was put to the agent.
    pub kind: DeliveryKind,
    /// The delivery as it was leased.
    pub delivery: Delivery,
}

impl From<Delivery> for LiveInput {
    fn from(delivery: Delivery) -> Self {
        Self {
            id: delivery.id.clone(),
            conversation_id: delivery.payload.conversation_id.clone(),
            // The payload's own type is what the engine guarantees; `kind` repeats it and old engines leave it out.
            kind: delivery.payload.r#type.clone(),
            delivery,
        }
    }
}

impl LiveInput {
    /// The request it is about: the one to decide, the one that was answered, the one that was withdrawn.
    pub fn request_id(&self) -> Option<&RequestId> {
        self.delivery.payload.request.as_ref().map(|request| &request.id)
    }

    /// The text that somebody wrote: a message's body or a request's; empty if there is none.
    pub fn body(&self) -> &str {
        let payload = &self.delivery.payload;
        payload
            .message
            .as_ref()
            .map(|message| message.body.as_str())
            .or_else(|| payload.request.as_ref().map(|request| request.body.as_str()))
            .unwrap_or_default()
    }

    /// Whether it is the outcome of a request that this agent put to others.
    pub fn is_result(&self) -> bool {
        self.kind == DeliveryKind::RequestResult
    }
}

/// How far an input has come; held is a mark beside it, see [`Held`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputState {
    /// Stored here; the runtime has not seen it.
    Pending,
    /// Handed to the runtime, or about to be; no proof yet that it kept it.
    Submitting,
    /// Final: the runtime has it for good, or it was discarded or withdrawn. The content is gone from disk.
    Accepted,
}

impl InputState {
    /// The word that the inbox stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Submitting => "submitting",
            Self::Accepted => "accepted",
        }
    }
}

/// Why an input waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HeldReason {
    /// Refused, or lost, as often as the receiver tries. It blocks nothing: the rest of its conversation goes on.
    TooManyAttempts,
    /// Nobody can say whether the runtime took it. Its conversation waits, because going on could break the order.
    Undecided,
    /// The stored content can't be read. It blocks nothing.
    Unreadable,
}

impl HeldReason {
    /// The word that the inbox stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TooManyAttempts => "too_many_attempts",
            Self::Undecided => "undecided",
            Self::Unreadable => "unreadable",
        }
    }

    pub(crate) fn from_word(word: &str) -> Self {
        match word {
            "too_many_attempts" => Self::TooManyAttempts,
            "unreadable" => Self::Unreadable,
            _ => Self::Undecided,
        }
    }
}

/// The mark on an input that only a person can settle, by [`Resolution`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The kind of trouble.
    pub reason: HeldReason,
    /// The last error or answer of the binding.
    pub detail: String,
    /// Since when.
    pub since: Timestamp,
}

/// What a person decides about a held input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// The runtime has it: done, and never handed over again.
    Accepted,
    /// The runtime does not have it: try again from the first attempt.
    Retry,
    /// Give it up: done without having been handed over.
    Discard,
}

/// The way an attempt took into the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// Submitted to join running work.
    Steer,
    /// Submitted to start a turn.
    Start,
    /// Given to the waiter of a request.
    Resume,
}

/// What is on record about the last attempt, so that `reconcile` knows where to look after a crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Attempt {
    /// 1 for the first.
    pub number: u32,
    /// Which run of the receiver made it.
    pub receiver: String,
    /// When it began.
    pub at: Timestamp,
    /// The way it took.
    pub route: Route,
    /// The runtime's session, as the binding reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The runtime's process (number and start time, or whatever tells two processes apart).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// The runtime's turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The runtime's own id for the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
}

impl Attempt {
    /// An attempt without anything native known yet.
    pub fn new(number: u32, receiver: impl Into<String>, at: Timestamp, route: Route) -> Self {
        Self { number, receiver: receiver.into(), at, route, session: None, process: None, turn: None, native_id: None }
    }
}

/// Whether a stored input still has its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// As it was leased.
    Present,
    /// Removed, because the input is accepted.
    Scrubbed,
    /// It can't be read any more.
    Unreadable,
}

/// An input as the inbox keeps it. Dereferences to its [`LiveInput`].
#[derive(Clone, Debug, PartialEq)]
pub struct StoredInput {
    /// The input; its payload is empty unless `content` is [`Content::Present`].
    pub input: LiveInput,
    /// Whether the content is there.
    pub content: Content,
    /// How far it has come.
    pub state: InputState,
    /// The newest lease generation seen; goes into the ack.
    pub generation: i64,
    /// Whether the engine confirmed an ack of that generation.
    pub acked: bool,
    /// Set while a person has to decide.
    pub held: Option<Held>,
    /// How often it was handed over without a clean "not now".
    pub attempts: u32,
    /// Not to be tried again before.
    pub next_attempt_at: Option<Timestamp>,
    /// What the last attempt left as evidence.
    pub attempt: Option<Attempt>,
    /// What the last refusal said.
    pub last_error: Option<String>,
    /// When it was stored here.
    pub received_at: Timestamp,
    /// Grows with every change of state; guards changes against each other.
    pub revision: i64,
}

impl Deref for StoredInput {
    type Target = LiveInput;

    fn deref(&self) -> &LiveInput {
        &self.input
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busy_mode_reads_its_two_words_only() {
        assert_eq!("steer".parse(), Ok(BusyMode::Steer));
        assert_eq!(" queue\n".parse(), Ok(BusyMode::Queue));
        for bad in ["", "Steer", "steering", "🚀"] {
            assert_eq!(bad.parse::<BusyMode>(), Err(UnknownBusyMode { given: bad.to_owned() }));
        }
        assert_eq!("x".repeat(100).parse::<BusyMode>().unwrap_err().given.len(), 40);
    }
}
