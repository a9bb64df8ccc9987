//! The attempts to hand one delivery over to a provider, for whoever sees the delivery. What goes to a worker's inbox has none.

use beepgrid::DeliveryAttempt;
use serde_json::Value;

use super::deliveries::{Deliveries, Delivery};
use super::page::{Look, Source, unseen, wire};
use crate::service::Refusal;
use crate::store::transports::{self, AttemptRow, TransportRow, pages};

pub(super) struct Attempts {
    /// The delivery, if it goes over a connection.
    of: Option<TransportRow>,
}

impl Source for Attempts {
    type Row = AttemptRow;

    fn open(look: &Look<'_>) -> Result<Self, Refusal> {
        let filter = "delivery_id";
        let id = look.filter(filter).unwrap_or_default().into();
        let found = Delivery::find(look, &id)?.ok_or_else(|| unseen(filter))?;
        if !Deliveries::open(look)?.sees(look, &found)? {
            return Err(unseen(filter));
        }
        let of = if let Delivery::Outside(row) = found { Some(*row) } else { None };
        Ok(Self { of })
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<AttemptRow>, Refusal> {
        let Some(of) = &self.of else { return Ok(None) };
        let number = id.strip_prefix(of.id.as_str()).and_then(|rest| rest.strip_prefix('.')).and_then(|text| text.parse().ok());
        let found = number.map(|number| transports::attempt_by_number(look.tx, &of.id, number)).transpose()?.flatten();
        // `01` is not the number that the id was made with.
        Ok(found.filter(|row| attempt_id(of, row) == id))
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<AttemptRow>, Refusal> {
        let Some(of) = &self.of else { return Ok(Vec::new()) };
        Ok(pages::attempts(look.tx, &of.id, place.parse().unwrap_or(0), limit)?)
    }

    fn place(row: &AttemptRow) -> String {
        row.number.to_string()
    }

    fn show(&mut self, _: &Look<'_>, row: AttemptRow) -> Result<Option<Value>, Refusal> {
        let Some(of) = &self.of else { return Ok(None) };
        wire(&DeliveryAttempt {
            id: attempt_id(of, &row),
            delivery_id: of.id.clone(),
            connection_id: of.connection_id.clone(),
            destination_id: of.destination_id.clone(),
            number: row.number,
            state: row.state,
            reason: row.reason,
            at: row.changed_at,
            created_at: row.created_at,
        })
    }
}

fn attempt_id(of: &TransportRow, row: &AttemptRow) -> String {
    format!("{}.{}", of.id, row.number)
}
