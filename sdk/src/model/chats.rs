//! Conversations: direct ones, and shared chats with membership and a history boundary.

use serde::{Deserialize, Serialize};

use super::{
    AttachmentId, ConversationId, MembershipOperation, Mention, Message, PrincipalId, PrincipalKind, Request, Target, Timestamp,
};

/// A participant as the others of the conversation see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Participant {
    /// Its id.
    pub id: PrincipalId,
    /// Person, agent or service.
    pub kind: PrincipalKind,
    /// Its name; not unique.
    pub name: String,
}

/// A conversation as its reader may see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conversation {
    /// The conversation's id.
    pub id: ConversationId,
    /// Its title, or empty.
    #[serde(default)]
    pub title: String,
    /// Whether it is a shared chat.
    #[serde(default)]
    pub shared: bool,
    /// Grows with each change of membership or title; a change of membership names the one last read.
    #[serde(default)]
    pub version: i64,
    /// Who manages the chat; absent in a direct conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager_id: Option<PrincipalId>,
    /// The event sequence from which the reader sees; 0 is from the beginning.
    #[serde(default)]
    pub history_start: i64,
    /// Who is in it now.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub participants: Vec<Participant>,
    /// Who was in it since `history_start` and left.
    #[serde(default, deserialize_with = "super::null_as_empty", skip_serializing_if = "Vec::is_empty")]
    pub past_participants: Vec<Participant>,
    /// The newest 200 visible messages, oldest first.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub messages: Vec<Message>,
    /// Whether there are older visible ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_before: bool,
    /// The newest 200 visible requests, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Request>,
    /// When it was opened.
    #[serde(default)]
    pub created_at: Timestamp,
}

/// Opens one shared conversation with its first message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct StartChatInput {
    /// Staged drafts to claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachment_ids: Vec<AttachmentId>,
    /// The other founders: people, agents or services that view each other.
    pub targets: Vec<Target>,
    /// The first message.
    #[serde(default)]
    pub body: String,
    /// The chat's title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Opens an approval with the first message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approval: bool,
    /// Exact answers to choose from; without `approval` they open a question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Addressing hints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<Mention>,
}

impl StartChatInput {
    /// A chat with `targets` that begins with `body`.
    pub fn new(targets: Vec<Target>, body: impl Into<String>) -> Self {
        Self { targets, body: body.into(), ..Self::default() }
    }

    setters! {
        /// Staged drafts to claim.
        attachment_ids: Vec<AttachmentId> => attachment_ids;
        /// The chat's title.
        title: impl Into<String> => title.into();
        /// Whether the first message opens an approval.
        approval: bool => approval;
        /// Exact answers to choose from.
        choices: Vec<String> => choices;
        /// Addressing hints.
        mentions: Vec<Mention> => mentions;
    }
}

/// One versioned change of a shared chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ChatMembershipInput {
    /// What to do.
    pub operation: MembershipOperation,
    /// [`Conversation::version`] as last read.
    pub version: i64,
    /// The new title, for `rename`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Whom to add or remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<PrincipalId>,
    /// Disclose to the added what the adder itself sees; off by default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub share_history: bool,
    /// Who manages the chat when its manager goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_manager: Option<PrincipalId>,
}

impl ChatMembershipInput {
    fn new(operation: MembershipOperation, version: i64) -> Self {
        Self { operation, version, title: String::new(), members: Vec::new(), share_history: false, next_manager: None }
    }

    /// Adds members; they see what comes from now on.
    pub fn add(version: i64, members: Vec<PrincipalId>) -> Self {
        Self { members, ..Self::new(MembershipOperation::Add, version) }
    }

    /// Removes members; their access to the chat's history ends at once.
    pub fn remove(version: i64, members: Vec<PrincipalId>) -> Self {
        Self { members, ..Self::new(MembershipOperation::Remove, version) }
    }

    /// Changes the title.
    pub fn rename(version: i64, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::new(MembershipOperation::Rename, version) }
    }

    /// Leaves the chat.
    pub fn leave(version: i64) -> Self {
        Self::new(MembershipOperation::Leave, version)
    }

    setters! {
        /// Whether the added see the adder's own history.
        share_history: bool => share_history;
        /// Who manages the chat from now on.
        next_manager: PrincipalId => Some(next_manager);
    }
}

/// What a membership change left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChatMembershipResult {
    /// The chat.
    pub conversation_id: ConversationId,
    /// Its version now.
    pub version: i64,
    /// Whether the caller is no longer in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}
