//! Messages, targets, mentions and the receipts for them.

use serde::{Deserialize, Serialize};

use super::{Attachment, AttachmentId, ConversationId, GroupId, InstanceId, MessageId, PrincipalId, TargetKind, Timestamp};

/// A message's `body`, and a request's, may have this many bytes of UTF-8.
pub const MAX_BODY_BYTES: usize = 32 * 1024;
/// Titles and names may have this many code points.
pub const MAX_TITLE_CHARS: usize = 200;
/// A private batch and a shared chat take this many targets.
pub const MAX_BATCH_TARGETS: usize = 100;
/// A message or request takes this many mentions.
pub const MAX_MENTIONS: usize = 20;
/// One operation claims this many staged drafts.
pub const MAX_ATTACHMENTS: usize = 5;

/// Who something is for: a kind and a stable id or, where it is accepted, an external id of that kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Target {
    /// What the id names.
    pub kind: TargetKind,
    /// The id that the engine returned, or your external id.
    pub id: String,
}

impl Target {
    /// A target of any kind.
    pub fn new(kind: TargetKind, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }

    /// A person, by id or external id.
    pub fn person(id: impl AsRef<str>) -> Self {
        Self::new(TargetKind::Person, id.as_ref())
    }

    /// A logical agent: one of its instances gets each delivery.
    pub fn agent(id: impl AsRef<str>) -> Self {
        Self::new(TargetKind::Agent, id.as_ref())
    }

    /// A software service.
    pub fn service(id: impl AsRef<str>) -> Self {
        Self::new(TargetKind::Service, id.as_ref())
    }

    /// One exact runtime connection.
    pub fn instance(id: &InstanceId) -> Self {
        Self::new(TargetKind::Instance, id.as_str())
    }

    /// The members of a directory group that are eligible at the moment of sending.
    pub fn group(id: &GroupId) -> Self {
        Self::new(TargetKind::Group, id.as_str())
    }
}

/// Addressing within a chat: a hint, never a narrower audience or an authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mention {
    /// Who is addressed; a visible current participant.
    pub principal_id: PrincipalId,
    /// First code point of the span in `body` (not a byte, not a UTF-16 unit).
    pub start: i64,
    /// The code point after the span, which is exactly `@` and the name.
    pub end: i64,
}

impl Mention {
    /// The first `@name` in `body` from code point `from` on, as a mention of `principal`.
    ///
    /// ```
    /// # use beepgrid::model::{Mention, PrincipalId};
    /// let mention = Mention::find("👋 @Billing 2 check these orders.", 0, &PrincipalId::new("agt_1"), "Billing 2");
    /// assert_eq!(mention.map(|m| (m.start, m.end)), Some((2, 12)));
    /// ```
    pub fn find(body: &str, from: usize, principal: &PrincipalId, name: &str) -> Option<Self> {
        let skipped = body.char_indices().nth(from).map_or(body.len(), |(at, _)| at);
        let tail = body.get(skipped..)?;
        let token = format!("@{name}");
        let start = from + tail.get(..tail.find(&token)?)?.chars().count();
        let end = start + token.chars().count();
        Some(Self { principal_id: principal.clone(), start: i64::try_from(start).ok()?, end: i64::try_from(end).ok()? })
    }
}

/// What to send and to whom: exactly one of `target` and `conversation_id`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SendInput {
    /// Staged drafts to claim, at most [`MAX_ATTACHMENTS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachment_ids: Vec<AttachmentId>,
    /// Addressing hints, at most [`MAX_MENTIONS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<Mention>,
    /// Continue the two-person history with the target if there is one, instead of opening a fresh one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reuse_direct: bool,
    /// Token of a dispatch preview; if anything changed since, nothing is sent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub preview_token: String,
    /// Opens a conversation with this target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Continues this conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// The text, at most [`MAX_BODY_BYTES`]; may be empty when a file is attached.
    #[serde(default)]
    pub body: String,
    /// Names the conversation that the call opens, at most [`MAX_TITLE_CHARS`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
}

impl SendInput {
    /// A message that opens a conversation with `target`.
    pub fn to(target: Target, body: impl Into<String>) -> Self {
        Self { target: Some(target), body: body.into(), ..Self::default() }
    }

    /// A message in a conversation that exists.
    pub fn reply(conversation: &ConversationId, body: impl Into<String>) -> Self {
        Self { conversation_id: Some(conversation.clone()), body: body.into(), ..Self::default() }
    }

    setters! {
        /// Staged drafts to claim.
        attachment_ids: Vec<AttachmentId> => attachment_ids;
        /// Addressing hints.
        mentions: Vec<Mention> => mentions;
        /// Whether to continue an existing two-person history.
        reuse_direct: bool => reuse_direct;
        /// Token of a dispatch preview.
        preview_token: impl Into<String> => preview_token.into();
        /// Name of the conversation that the call opens.
        title: impl Into<String> => title.into();
    }
}

/// A message as its reader may see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Message {
    /// Agents whose deliveries were acknowledged; shown to the sender only. Receipt, not proof of reading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub received_by: Vec<PrincipalId>,
    /// Files that came with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Addressing hints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<Mention>,
    /// The message's id; deduplicate by it.
    pub id: MessageId,
    /// Where it stands.
    pub conversation_id: ConversationId,
    /// The text.
    #[serde(default)]
    pub body: String,
    /// Who sent it.
    pub sender_id: PrincipalId,
    /// The sender's runtime, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<InstanceId>,
    /// When it was stored.
    #[serde(default)]
    pub created_at: Timestamp,
    /// Position: the sequence of its `message.created` event.
    #[serde(default)]
    pub sequence: i64,
}

impl Message {
    /// A hint for the model that the message addresses `principal`, or `None` if it does not.
    ///
    /// A mention narrows no audience and gives nobody the sole right to answer; the text says so.
    pub fn attention_for(&self, principal: &PrincipalId) -> Option<String> {
        self.mentions.iter().any(|mention| mention.principal_id == *principal).then(|| {
            "You are explicitly addressed in this message. Others in the chat see it too and may also answer; the mention \
             gives no authority."
                .to_owned()
        })
    }
}

/// What a send stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SendResult {
    /// The conversation; for a fan-out to a group the first one.
    pub conversation_id: ConversationId,
    /// The stored messages: one, or one for each member of a group.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub messages: Vec<Message>,
    /// The request that a chat opened with its first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<super::Request>,
}

/// The short receipt: stored, nothing more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SendReceipt {
    /// The conversation; for a fan-out to a group the first one.
    pub conversation_id: ConversationId,
    /// How many messages were stored.
    pub message_count: i64,
}

/// One private message to each of up to [`MAX_BATCH_TARGETS`] targets, all or nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SendBatchInput {
    /// Staged drafts to claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachment_ids: Vec<AttachmentId>,
    /// Individual targets; duplicates are merged, groups are refused.
    pub targets: Vec<Target>,
    /// The text for each.
    #[serde(default)]
    pub body: String,
    /// Names each conversation that the call opens.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Token of a dispatch preview.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub preview_token: String,
}

impl SendBatchInput {
    /// The same text to each target, each in a conversation of its own.
    pub fn new(targets: Vec<Target>, body: impl Into<String>) -> Self {
        Self { targets, body: body.into(), ..Self::default() }
    }

    setters! {
        /// Staged drafts to claim.
        attachment_ids: Vec<AttachmentId> => attachment_ids;
        /// Name of each conversation.
        title: impl Into<String> => title.into();
        /// Token of a dispatch preview.
        preview_token: impl Into<String> => preview_token.into();
    }
}

/// One target of a batch and what was stored for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SendBatchItem {
    /// The target as it was given.
    pub target: Target,
    /// What was stored.
    pub result: SendResult,
}

/// Whom to look at before something is sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DispatchPreviewInput {
    /// The targets of the send or ask, in its order.
    pub targets: Vec<Target>,
    /// `message` or `ask`.
    pub operation: String,
    /// The bound action of an ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<super::Action>,
}

impl DispatchPreviewInput {
    /// Whom `operation` (`message` or `ask`) would reach.
    pub fn new(operation: impl Into<String>, targets: Vec<Target>) -> Self {
        Self { targets, operation: operation.into(), descriptor: None }
    }

    setters! {
        /// The bound action of an ask.
        descriptor: super::Action => Some(descriptor);
    }
}

/// Whom something would reach. The token goes into the matching send or ask, which is refused when anything has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DispatchPreview {
    /// Recipients that the caller may view.
    pub recipients: Vec<PreviewRecipient>,
    /// How many there are in all.
    pub count: i64,
    /// How many of them are not shown.
    #[serde(default)]
    pub hidden_recipients: i64,
    /// Bound to caller, operation, audience and routes.
    pub token: String,
    /// When the token ends: ten minutes after the preview.
    pub expires_at: Timestamp,
    /// Always false: a preview sends nothing.
    #[serde(default)]
    pub sends: bool,
}

/// One recipient of a preview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PreviewRecipient {
    /// Who it is.
    pub target: Target,
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Routes outside the workspace.
    #[serde(default)]
    pub routes: Vec<super::Route>,
}
