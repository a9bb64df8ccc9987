//! Events: one row for each change, in commit order. Reading them is access-checked at the read (`event_stream.rs`).

use beepgrid::{ConversationId, EventId, PrincipalId};
use serde_json::Value;

use super::{Refusal, new_id};
use crate::signals::Signal;
use crate::store::{WriteTx, events};

/// What happened. `data` keeps ids and small facts only: readers get the resource as they may see it at the time of reading.
#[derive(Debug)]
pub(crate) struct Event<'e> {
    pub(crate) kind: &'static str,
    pub(crate) actor_id: &'e PrincipalId,
    pub(crate) conversation_id: &'e str,
    pub(crate) recipient_id: &'e str,
    pub(crate) subject_id: &'e str,
    pub(crate) data: Value,
}

/// Writes the event and returns its sequence: the position of whatever it tells of.
///
/// It is found by operators, by its actor and recipient, by the present participants of its conversation, and by those of a stored
/// request that it is about; an `identity.…` or `answer.…` by everybody who may see that. Whom else it may concern, and who is no
/// participant yet, has to be named: [`record_for`].
pub(crate) fn record(tx: &WriteTx<'_>, event: &Event<'_>) -> Result<i64, Refusal> {
    record_for(tx, event, &[])
}

/// The same for an event that also concerns these principals and belongs to these conversations. Naming somebody grants nothing:
/// whether it may see the event is decided when it reads.
pub(crate) fn record_for(tx: &WriteTx<'_>, event: &Event<'_>, others: &[&str]) -> Result<i64, Refusal> {
    let sequence = tx.next_sequence()?;
    events::insert(tx, sequence, &new_id::<EventId>(EventId::PREFIX), event)?;
    tx.signal(Signal::Event { sequence });
    // Whoever manages answers may see one, and nobody can list them.
    if event.kind.starts_with("identity.") || event.kind.starts_with("answer.") {
        events::index_for(tx, sequence, events::EVERYBODY)?;
        tx.signal(Signal::EventForAll);
        return Ok(sequence);
    }
    for reader in events::index(tx, sequence, event)? {
        wake(tx, &reader);
    }
    for reader in others {
        if events::index_for(tx, sequence, reader)? {
            wake(tx, reader);
        }
    }
    Ok(sequence)
}

/// Lets a newcomer find what a conversation has from a position on.
pub(crate) fn share_history(tx: &WriteTx<'_>, id: &ConversationId, newcomer: &PrincipalId, from: i64) -> Result<(), Refusal> {
    Ok(events::index_history(tx, id, newcomer, from)?)
}

fn wake(tx: &WriteTx<'_>, reader: &str) {
    // A stream of one conversation waits for what concerns its reader.
    if !reader.starts_with(ConversationId::PREFIX) {
        tx.signal(Signal::EventFor { reader: PrincipalId::new(reader) });
    }
}
