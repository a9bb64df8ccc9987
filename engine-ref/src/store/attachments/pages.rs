//! Pages of one conversation's files by id.

use super::{AttachmentRow, ReadTx, StoreError, attachments};

// Index attachments_ids.
pub(crate) const IN_CONVERSATION: &str = "SELECT * FROM attachments
     WHERE conversation_id = :conversation AND id > :after ORDER BY id LIMIT :limit";

/// A conversation's files after an id.
pub(crate) fn in_conversation(
    tx: &ReadTx<'_>,
    conversation: &str,
    after: &str,
    limit: i64,
) -> Result<Vec<AttachmentRow>, StoreError> {
    attachments(&tx.query(IN_CONVERSATION, &[("conversation", &conversation), ("after", &after), ("limit", &limit)])?)
}
