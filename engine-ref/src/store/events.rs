//! Events.

use beepgrid::EventId;

use super::{StoreError, WriteTx};
use crate::service::events::Event;

/// Appends an event.
pub(crate) fn insert(tx: &WriteTx<'_>, sequence: i64, id: &EventId, event: &Event<'_>) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO events (sequence, id, kind, actor_id, conversation_id, recipient_id, subject_id, data, created_at)
         VALUES (:sequence, :id, :kind, :actor, :conversation, :recipient, :subject, :data, :now)",
        &[
            ("sequence", &sequence),
            ("id", id),
            ("kind", &event.kind),
            ("actor", event.actor_id),
            ("conversation", &event.conversation_id),
            ("recipient", &event.recipient_id),
            ("subject", &event.subject_id),
            ("data", &event.data.to_string()),
            ("now", &tx.now()),
        ],
    )?;
    Ok(())
}
