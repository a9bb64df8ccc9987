//! Messages.

pub(crate) mod pages;

use std::collections::HashMap;

use beepgrid::{ConversationId, InstanceId, Mention, MessageId, PrincipalId, Timestamp};

use super::credentials::time;
use super::principals::stored_json;
use super::{ReadTx, Row, StoreError, WriteTx};

/// A message as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct MessageRow {
    pub(crate) id: MessageId,
    pub(crate) conversation_id: ConversationId,
    pub(crate) sender_id: PrincipalId,
    pub(crate) instance_id: Option<InstanceId>,
    pub(crate) body: String,
    pub(crate) mentions: Vec<Mention>,
    pub(crate) sequence: i64,
    pub(crate) created_at: Timestamp,
}

fn message(row: &Row) -> Result<MessageRow, StoreError> {
    Ok(MessageRow {
        id: row.text("id")?.into(),
        conversation_id: row.text("conversation_id")?.into(),
        sender_id: row.text("sender_id")?.into(),
        instance_id: row.opt_text("instance_id")?.map(Into::into),
        body: row.text("body")?,
        mentions: stored_json(row, "mentions")?,
        sequence: row.int("sequence")?,
        created_at: time(row, "created_at")?,
    })
}

/// One message.
pub(crate) fn by_id(tx: &ReadTx<'_>, id: &MessageId) -> Result<Option<MessageRow>, StoreError> {
    // Index: primary key.
    tx.find("SELECT * FROM messages WHERE id = :id", &[("id", id)])?.map(|row| message(&row)).transpose()
}

/// The newest messages of a conversation between two positions, newest first.
pub(crate) fn before(
    tx: &ReadTx<'_>,
    conversation: &ConversationId,
    from: i64,
    before: i64,
    limit: i64,
) -> Result<Vec<MessageRow>, StoreError> {
    // Index: messages_conversation.
    tx.query(
        "SELECT * FROM messages
         WHERE conversation_id = :conversation AND sequence >= :from AND sequence < :before
         ORDER BY sequence DESC LIMIT :limit",
        &[("conversation", conversation), ("from", &from), ("before", &before), ("limit", &limit)],
    )?
    .iter()
    .map(message)
    .collect()
}

/// Stores a message.
pub(crate) fn insert(tx: &WriteTx<'_>, row: &MessageRow) -> Result<(), StoreError> {
    let mentions = serde_json::to_string(&row.mentions).map_err(|source| StoreError::Json { column: "mentions", source })?;
    tx.execute(
        "INSERT INTO messages (id, conversation_id, sender_id, instance_id, body, mentions, sequence, created_at)
         VALUES (:id, :conversation, :sender, :instance, :body, :mentions, :sequence, :now)",
        &[
            ("id", &row.id),
            ("conversation", &row.conversation_id),
            ("sender", &row.sender_id),
            ("instance", &row.instance_id),
            ("body", &row.body),
            ("mentions", &mentions),
            ("sequence", &row.sequence),
            ("now", &row.created_at),
        ],
    )?;
    Ok(())
}

/// Who has acknowledged one message.
pub(crate) fn received_by(tx: &ReadTx<'_>, id: &MessageId) -> Result<Vec<PrincipalId>, StoreError> {
    // Index: deliveries_message.
    tx.query("SELECT agent_id FROM deliveries WHERE message_id = :id AND state = 'acked' ORDER BY agent_id", &[("id", id)])?
        .iter()
        .map(|row| row.text("agent_id").map(Into::into))
        .collect()
}

/// Who has acknowledged the messages of one sender between two positions of a conversation.
pub(crate) fn received_between(
    tx: &ReadTx<'_>,
    conversation: &ConversationId,
    sender: &PrincipalId,
    from: i64,
    to: i64,
) -> Result<HashMap<MessageId, Vec<PrincipalId>>, StoreError> {
    // Indices: messages_conversation, then deliveries_message.
    let rows = tx.query(
        "SELECT m.id, d.agent_id FROM messages m JOIN deliveries d ON d.message_id = m.id AND d.state = 'acked'
         WHERE m.conversation_id = :conversation AND m.sequence >= :from AND m.sequence <= :to AND m.sender_id = :sender
         ORDER BY d.agent_id",
        &[("conversation", conversation), ("sender", sender), ("from", &from), ("to", &to)],
    )?;
    let mut received: HashMap<MessageId, Vec<PrincipalId>> = HashMap::new();
    for row in rows {
        received.entry(row.text("id")?.into()).or_default().push(row.text("agent_id")?.into());
    }
    Ok(received)
}
