//! Connections, for who manages them; never their secrets.

use serde_json::Value;

use super::page::{Look, Source, wire};
use crate::service::{Refusal, channels};
use crate::store::channels::{self as rows, ConnectionRow};

pub(super) struct Connections {
    manager: bool,
}

impl Source for Connections {
    type Row = ConnectionRow;

    fn open(look: &Look<'_>) -> Result<Self, Refusal> {
        Ok(Self { manager: look.actor.manages(look.tx, "connection")? })
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<ConnectionRow>, Refusal> {
        Ok(rows::connection(look.tx, id)?)
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<ConnectionRow>, Refusal> {
        if self.manager { Ok(rows::connections(look.tx, place, limit)?) } else { Ok(Vec::new()) }
    }

    fn place(row: &ConnectionRow) -> String {
        row.id.to_string()
    }

    fn show(&mut self, look: &Look<'_>, row: ConnectionRow) -> Result<Option<Value>, Refusal> {
        if !self.manager || !look.fits("kind", &row.kind) || !look.finds(&[&row.name]) {
            return Ok(None);
        }
        wire(&channels::show(row))
    }
}
