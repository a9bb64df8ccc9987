//! Events: one row for each change, in commit order. Reading them is access-checked at the read.

use beepgrid::{EventId, PrincipalId};
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
pub(crate) fn record(tx: &WriteTx<'_>, event: &Event<'_>) -> Result<i64, Refusal> {
    let sequence = tx.next_sequence()?;
    events::insert(tx, sequence, &new_id::<EventId>(EventId::PREFIX), event)?;
    tx.signal(Signal::Event { sequence });
    Ok(sequence)
}
