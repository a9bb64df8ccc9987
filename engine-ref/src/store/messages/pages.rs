//! Pages of one conversation's messages, oldest first.

use super::{ConversationId, MessageRow, ReadTx, StoreError, message};

// Index messages_conversation.
pub(crate) const AFTER: &str = "SELECT * FROM messages WHERE conversation_id = :conversation AND sequence > :after
     ORDER BY sequence LIMIT :limit";

/// Messages of a conversation after a position.
pub(crate) fn after(
    tx: &ReadTx<'_>,
    conversation: &ConversationId,
    after: i64,
    limit: i64,
) -> Result<Vec<MessageRow>, StoreError> {
    tx.query(AFTER, &[("conversation", conversation), ("after", &after), ("limit", &limit)])?.iter().map(message).collect()
}
