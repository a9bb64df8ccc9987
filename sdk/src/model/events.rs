//! Events: what happened, in commit order, as the reader may see it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Conversation, ConversationId, EventId, EventKind, Message, PrincipalId, Request, Timestamp};

/// The most events that one page may have.
pub const MAX_EVENT_PAGE: i64 = 500;

/// One change in the workspace.
///
/// Persist [`sequence`](Self::sequence) after the event was applied, and resume with it: what is applied twice is known by it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Its place in the order of commits: unique, growing, with gaps where the reader may not see something.
    pub sequence: i64,
    /// The event's id; empty from engines that give none.
    #[serde(default, skip_serializing_if = "EventId::is_empty")]
    pub id: EventId,
    /// What it tells of.
    pub kind: EventKind,
    /// Who did it; empty when nobody did (a deadline came) or the reader may not know.
    #[serde(default)]
    pub actor_id: PrincipalId,
    /// Where it happened; empty where that does not apply.
    #[serde(default)]
    pub conversation_id: ConversationId,
    /// Whom it is meant for; empty where that does not apply.
    #[serde(default)]
    pub recipient_id: PrincipalId,
    /// The resource as the reader may see it at the time of reading; in summary mode, and for what it may see no more of, ids only.
    #[serde(default)]
    pub data: Value,
    /// When it happened.
    #[serde(default)]
    pub created_at: Timestamp,
}

impl Event {
    /// Reads [`data`](Self::data) as `T`.
    ///
    /// ```
    /// # fn example(event: beepgrid::Event) -> Result<(), serde_json::Error> {
    /// let agent: beepgrid::Agent = event.data_as()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// It is something else, or only its id (summary mode).
    pub fn data_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.data)
    }

    /// The message that was stored, as it is now; `None` for other events and in summary mode.
    pub fn message(&self) -> Option<Message> {
        if self.kind == EventKind::MessageCreated { self.data_as().ok() } else { None }
    }

    /// The request that this is about, as it is now; `None` for other events and in summary mode.
    pub fn request(&self) -> Option<Request> {
        if self.kind.as_str().starts_with("request.") { self.data_as().ok() } else { None }
    }

    /// The conversation that was opened or changed, as it is now, without its messages and requests; `None` for other events and
    /// in summary mode.
    pub fn conversation(&self) -> Option<Conversation> {
        let about = matches!(self.kind, EventKind::ConversationCreated | EventKind::ConversationUpdated);
        let whole = about && self.data.get("participants").is_some();
        if whole { self.data_as().ok() } else { None }
    }

    /// The id of what it is about: of the message, the request, the conversation.
    pub fn subject_id(&self) -> Option<&str> {
        self.data.get("id")?.as_str()
    }
}

/// Events and where the next page starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventPage {
    /// In order of sequences. May be empty although `more` is true.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub items: Vec<Event>,
    /// The `after` of the next page.
    pub next_after: i64,
    /// Whether there are further events already.
    #[serde(default)]
    pub more: bool,
}

/// Which events to read. The default is all that are kept and visible, from the oldest, whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct EventOptions {
    /// The last sequence that was handled; 0 starts with the oldest event that is kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after: i64,
    /// At most so many events in a page, 1 to 500 (the engine's default is 100). Streams have no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// Only what happens in this conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// Ids instead of the resources.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl EventOptions {
    /// All that are kept and visible.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// The last sequence that was handled; 0 starts with the oldest event that is kept.
        after: i64 => after;
        /// At most so many events in a page, 1 to 500.
        limit: i64 => Some(limit);
        /// Only what happens in this conversation.
        conversation_id: &ConversationId => Some(conversation_id.clone());
        /// Ids instead of the resources.
        summary: bool => summary;
    }
}
