//! Typed requests: questions, approvals and tasks with one durable outcome.

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Action, AnswerId, Attachment, AttachmentId, ConversationId, InstanceId, Mention, Outcome, PrincipalId, RequestId,
    RequestKind, RequestState, Target, Timestamp,
};

/// A request offers this many choices of [`super::MAX_TITLE_CHARS`] code points each.
pub const MAX_CHOICES: usize = 20;
/// `answer`, `result` and `arguments` may have this many bytes of JSON.
pub const MAX_ANSWER_BYTES: usize = 32 * 1024;
/// `get_request` waits at most this many milliseconds on the engine's side.
pub const MAX_WAIT_MS: i64 = 15_000;

/// What to ask and whom: exactly one of `target` and `conversation_id`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AskInput {
    /// Staged drafts to claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachment_ids: Vec<AttachmentId>,
    /// Addressing hints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<Mention>,
    /// Declares that the asking agent can't go on without the reply of one other agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocking: bool,
    /// Continue the two-person history with the target if there is one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reuse_direct: bool,
    /// Token of a dispatch preview.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub preview_token: String,
    /// Opens a conversation with this target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Asks the present participants of this conversation whom the caller may ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// `question` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<RequestKind>,
    /// A short label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// What is asked, at most 32 KiB.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Exact answers to choose from, at most [`MAX_CHOICES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// When it expires: in the future, within ninety days; absent is never (seven days with an action).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The exact action that an approval binds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// Key of a reusable answer; only for questions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shared_key: String,
}

impl AskInput {
    /// A question that opens a conversation with `target`.
    pub fn to(target: Target, body: impl Into<String>) -> Self {
        Self { target: Some(target), body: body.into(), ..Self::default() }
    }

    /// A question to the present participants of a conversation.
    pub fn within(conversation: &ConversationId, body: impl Into<String>) -> Self {
        Self { conversation_id: Some(conversation.clone()), body: body.into(), ..Self::default() }
    }

    /// A question without audience, for [`AskBatchInput`].
    pub fn new(body: impl Into<String>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    setters! {
        /// Staged drafts to claim.
        attachment_ids: Vec<AttachmentId> => attachment_ids;
        /// Addressing hints.
        mentions: Vec<Mention> => mentions;
        /// Whether the asking agent is blocked until the reply.
        blocking: bool => blocking;
        /// Whether to continue an existing two-person history.
        reuse_direct: bool => reuse_direct;
        /// Token of a dispatch preview.
        preview_token: impl Into<String> => preview_token.into();
        /// Question, approval or task.
        kind: RequestKind => Some(kind);
        /// A short label.
        title: impl Into<String> => title.into();
        /// When it expires.
        expires_at: Timestamp => Some(expires_at);
        /// The action that an approval binds.
        action: Action => Some(action);
        /// Key of a reusable answer.
        shared_key: impl Into<String> => shared_key.into();
    }

    /// Exact answers to choose from.
    #[must_use]
    pub fn choices<C: Into<String>>(mut self, choices: impl IntoIterator<Item = C>) -> Self {
        self.choices = choices.into_iter().map(Into::into).collect();
        self
    }
}

/// The decision on a request as it is submitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ResponseInput {
    /// One of the outcomes of the request's kind.
    pub outcome: Outcome,
    /// The answer; one of the choices when there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// [`Request::version`] as last read.
    pub version: i64,
}

impl ResponseInput {
    /// A decision on the request as it was at `version`.
    pub fn new(outcome: Outcome, version: i64) -> Self {
        Self { outcome, answer: None, version }
    }

    /// `answered` with an answer.
    pub fn answered(version: i64, answer: impl Into<Value>) -> Self {
        Self::new(Outcome::Answered, version).answer(answer)
    }

    setters! {
        /// The answer.
        answer: impl Into<Value> => Some(answer.into());
    }
}

/// The recorded decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Response {
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responder_id: Option<PrincipalId>,
    /// The deciding runtime, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responder_instance_id: Option<InstanceId>,
    /// The published answer that was reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_answer_id: Option<AnswerId>,
    /// How it was reused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reuse_method: String,
    /// Why it was reused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reuse_reason: String,
    /// Whether the published answer was withdrawn since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub source_invalidated: bool,
    /// The typed result.
    pub outcome: Outcome,
    /// The answer, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// The version that was decided.
    pub version: i64,
}

/// Where one recipient of a group ask reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestRecipient {
    /// The recipient.
    pub principal_id: PrincipalId,
    /// Its private history with the requester.
    pub conversation_id: ConversationId,
}

/// A request as its reader may see it. A reader who sees a part only (the executor of its action, who was asked in a group and
/// forestalled) gets that part: what is not in it is absent on the wire and empty here. See [`Request::is_partial`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = super::schema::request))]
pub struct Request {
    /// Files that came with it.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
    /// Addressing hints.
    #[serde(default)]
    pub mentions: Vec<Mention>,
    /// Whether the requester declared that it waits.
    #[serde(default)]
    pub blocking: bool,
    /// The asking runtime, if it was one.
    #[serde(default)]
    pub requester_instance_id: Option<InstanceId>,
    /// The request's id.
    pub id: RequestId,
    /// Where it stands, for this reader.
    #[serde(default)]
    pub conversation_id: ConversationId,
    /// Who asked.
    #[serde(default)]
    pub requester_id: PrincipalId,
    /// Question, approval or task.
    #[serde(default = "unknown_kind")]
    pub kind: RequestKind,
    /// A short label, or empty.
    #[serde(default)]
    pub title: String,
    /// What is asked.
    #[serde(default)]
    pub body: String,
    /// Exact answers to choose from, or none.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub choices: Vec<String>,
    /// Where it stands.
    pub state: RequestState,
    /// Grows with every change; goes into decisions and edits.
    pub version: i64,
    /// The decision, once there is one and the reader may see it.
    #[serde(default)]
    pub response: Option<Response>,
    /// The action that an approval binds.
    #[serde(default)]
    pub action: Option<Action>,
    /// When it expires; [`Timestamp::NEVER`] if it does not.
    #[serde(default = "never")]
    pub expires_at: Timestamp,
    /// When it was stored.
    #[serde(default)]
    pub created_at: Timestamp,
    /// When it left `open`.
    #[serde(default)]
    pub closed_at: Option<Timestamp>,
    /// Who closed it, if somebody did.
    #[serde(default)]
    pub closed_by: Option<PrincipalId>,
    /// Who was asked; shown to the requester.
    #[serde(default)]
    pub recipient_ids: Vec<PrincipalId>,
    /// Where each recipient of a group ask reads it; shown to the requester.
    #[serde(default)]
    pub recipients: Vec<RequestRecipient>,
}

impl Request {
    /// Whether the reader sees a part of it only. A whole request always has a body.
    pub fn is_partial(&self) -> bool {
        self.body.is_empty()
    }
}

// By hand, because whether an empty title is absent or empty depends on the whole.
impl Serialize for Request {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let whole = !self.is_partial();
        let mut request = serializer.serialize_map(None)?;
        macro_rules! members {
            ($($field:ident if $shown:expr;)+) => {
                $(if $shown {
                    request.serialize_entry(stringify!($field), &self.$field)?;
                })+
            };
        }
        members! {
            attachments if !self.attachments.is_empty();
            mentions if !self.mentions.is_empty();
            blocking if self.blocking;
            requester_instance_id if self.requester_instance_id.is_some();
            id if true;
            conversation_id if !self.conversation_id.is_empty();
            requester_id if !self.requester_id.is_empty();
            kind if !self.kind.as_str().is_empty();
            title if whole || !self.title.is_empty();
            body if whole;
            choices if whole || !self.choices.is_empty();
            state if true;
            version if true;
            response if self.response.is_some();
            action if self.action.is_some();
            expires_at if whole || self.expires_at != Timestamp::NEVER;
            created_at if whole || self.created_at != Timestamp::default();
            closed_at if self.closed_at.is_some();
            closed_by if self.closed_by.is_some();
            recipient_ids if !self.recipient_ids.is_empty();
            recipients if !self.recipients.is_empty();
        }
        request.end()
    }
}

fn unknown_kind() -> RequestKind {
    RequestKind::Other(String::new())
}

fn never() -> Timestamp {
    Timestamp::NEVER
}

/// The same request to each of up to 100 targets, each with an outcome of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AskBatchInput {
    /// Individual targets; duplicates are merged.
    pub targets: Vec<Target>,
    /// What each is asked; without target and conversation.
    pub request: AskInput,
    /// Token of a dispatch preview.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub preview_token: String,
}

impl AskBatchInput {
    /// Asks each target the same.
    pub fn new(targets: Vec<Target>, request: AskInput) -> Self {
        Self { targets, request, preview_token: String::new() }
    }

    setters! {
        /// Token of a dispatch preview.
        preview_token: impl Into<String> => preview_token.into();
    }
}

/// One target of a batch and its request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AskBatchItem {
    /// The target as it was given.
    pub target: Target,
    /// Its request.
    pub request: Request,
}

/// Withdraws one's own open request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CancelInput {
    /// [`Request::version`] as last read.
    pub version: i64,
}

impl CancelInput {
    /// Cancels the request as it was at `version`.
    pub fn new(version: i64) -> Self {
        Self { version }
    }
}

/// Retires one's own open request without asking anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SupersedeInput {
    /// [`Request::version`] as last read.
    pub version: i64,
}

impl SupersedeInput {
    /// Retires the request as it was at `version`.
    pub fn new(version: i64) -> Self {
        Self { version }
    }
}

/// Declares whether the requesting agent waits for one other agent's reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct BlockingInput {
    /// Whether it can't go on without the reply.
    pub blocking: bool,
}

impl BlockingInput {
    /// Declares it, or takes it back.
    pub fn new(blocking: bool) -> Self {
        Self { blocking }
    }
}

/// Retires one's own open request and asks its audience anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ReplaceRequestInput {
    /// [`Request::version`] as last read.
    pub version: i64,
    /// The new text.
    pub body: String,
    /// Addressing hints into the new text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<Mention>,
}

impl ReplaceRequestInput {
    /// Replaces the text of the request as it was at `version`.
    pub fn new(version: i64, body: impl Into<String>) -> Self {
        Self { version, body: body.into(), mentions: Vec::new() }
    }

    setters! {
        /// Addressing hints into the new text.
        mentions: Vec<Mention> => mentions;
    }
}

/// Both sides of a replacement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplacedRequest {
    /// The retired request, now superseded.
    pub previous: Request,
    /// The open one; decide this.
    pub replacement: Request,
}
