//! Destinations: all of them for who manages connections, for a person its own.

use beepgrid::Destination;
use serde_json::Value;

use super::page::{Look, Source, wire};
use crate::service::Refusal;
use crate::store::channels::{self, pages};

pub(super) struct Destinations {
    manager: bool,
}

impl Source for Destinations {
    type Row = Destination;

    fn open(look: &Look<'_>) -> Result<Self, Refusal> {
        Ok(Self { manager: look.actor.manages(look.tx, "connection")? })
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<Destination>, Refusal> {
        Ok(channels::destination(look.tx, id)?)
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<Destination>, Refusal> {
        let of = if self.manager { look.filter("principal_id") } else { Some(look.actor.id.as_str()) };
        Ok(match (of, look.filter("connection_id")) {
            (Some(principal), _) => pages::of_principal(look.tx, principal, place, limit)?,
            (None, Some(connection)) => pages::of_connection(look.tx, connection, place, limit)?,
            (None, None) => channels::destinations(look.tx, place, limit)?,
        })
    }

    fn place(row: &Destination) -> String {
        row.id.to_string()
    }

    fn show(&mut self, look: &Look<'_>, row: Destination) -> Result<Option<Value>, Refusal> {
        let fits = look.fits("connection_id", row.connection_id.as_str()) && look.fits("principal_id", row.principal_id.as_str());
        if !fits || !(self.manager || row.principal_id == look.actor.id) {
            return Ok(None);
        }
        wire(&row)
    }
}
