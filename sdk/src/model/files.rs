//! Files.

use serde::{Deserialize, Serialize};

use super::{AttachmentId, ConversationId, MessageId, RequestId, Timestamp};

/// A file may have this many bytes, and has at least one.
pub const MAX_ATTACHMENT_BYTES: usize = 5 * 1024 * 1024;

/// A file's metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attachment {
    /// The file's id.
    pub id: AttachmentId,
    /// Where it belongs; empty while it is a draft.
    #[serde(default)]
    pub conversation_id: ConversationId,
    /// The message it came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The request it came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// A safe last path component; never use it as a path unchecked.
    pub file_name: String,
    /// As the uploader declared it.
    pub media_type: String,
    /// Bytes, 1 to 5 MiB.
    pub size: i64,
    /// Digest of the bytes in hex.
    pub sha256: String,
    /// When it was stored.
    #[serde(default)]
    pub created_at: Timestamp,
}
