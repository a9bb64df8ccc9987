//! What is to go outside. It is stored here; the background job that sends it takes it from there.

use beepgrid::{ConnectionTestInput, DeliveryId, DeliveryRecord};

use super::managed;
use crate::service::actor::Actor;
use crate::service::{Refusal, checks, new_id};
use crate::store::transports::{self, QUEUED, TransportRow};
use crate::store::{ReadTx, WriteTx, channels, principals};

/// Whether a test has the right form.
pub(crate) fn check_test(input: &ConnectionTestInput) -> Result<(), Refusal> {
    checks::id("destination_id", input.destination_id.as_str())
}

/// Queues a test message to one destination of a connection.
pub(crate) fn test(tx: &WriteTx<'_>, actor: &Actor, (id, input): &(String, ConnectionTestInput)) -> Result<DeliveryId, Refusal> {
    let connection = managed(tx, actor, id)?;
    let destination = channels::destination(tx, input.destination_id.as_str())?
        .filter(|destination| destination.connection_id == connection.id)
        .ok_or_else(|| Refusal::not_found().at("destination_id"))?;
    if !connection.enabled {
        return Err(Refusal::forbidden("the connection is switched off: it sends nothing"));
    }
    if principals::party_by_id(tx, &destination.principal_id)?.is_none_or(|party| party.disabled) {
        return Err(Refusal::forbidden("the person is disabled: nothing is sent to it").at("destination_id"));
    }
    let id: DeliveryId = new_id(DeliveryId::PREFIX);
    let row = TransportRow {
        operation_id: id.as_str().to_owned(),
        id,
        connection_id: connection.id,
        destination_id: destination.id,
        recipient_id: destination.principal_id,
        kind: "test".to_owned(),
        message_id: None,
        request_id: None,
        conversation_id: None,
        state: QUEUED.to_owned(),
        reason: None,
        attempts: 1,
        created_at: tx.now(),
        changed_at: tx.now(),
    };
    transports::queue(tx, &row)?;
    Ok(row.id)
}

/// How a delivery over a connection stands, for who may see all of it.
pub(crate) fn record(tx: &ReadTx<'_>, id: &DeliveryId) -> Result<DeliveryRecord, Refusal> {
    transports::by_id(tx, id)?.map(|row| show(row, true)).ok_or_else(Refusal::not_found)
}

/// The wire form; without `whole` nothing of what it carries.
pub(crate) fn show(row: TransportRow, whole: bool) -> DeliveryRecord {
    let known = whole || row.message_id.is_none();
    DeliveryRecord {
        id: row.id,
        recipient_id: row.recipient_id,
        instance_id: None,
        kind: row.kind.as_str().into(),
        state: row.state,
        reason: row.reason,
        attempt: row.attempts,
        at: row.changed_at,
        request_id: row.request_id,
        message_id: row.message_id.filter(|_| whole),
        conversation_id: row.conversation_id.filter(|_| whole),
        connection_id: Some(row.connection_id),
        destination_id: Some(row.destination_id),
        operation_id: Some(row.operation_id).filter(|_| known),
        created_at: row.created_at,
    }
}
