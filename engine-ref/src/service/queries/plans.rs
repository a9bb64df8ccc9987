//! The reader's own plans of the Coordinator, the newest first. An operator sees another's by its id.

use serde_json::Value;

use super::page::{Look, Source, wire};
use crate::service::{Refusal, coordinator};
use crate::store::coordinator::{self as rows, PlanRow};

pub(super) struct Plans;

impl Source for Plans {
    type Row = PlanRow;

    fn open(_: &Look<'_>) -> Result<Self, Refusal> {
        Ok(Self)
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<PlanRow>, Refusal> {
        Ok(rows::by_id(look.tx, &id.into())?)
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<PlanRow>, Refusal> {
        let before = if place.is_empty() { coordinator::LAST } else { place };
        Ok(rows::page(look.tx, &look.actor.id, before, limit)?)
    }

    fn place(row: &PlanRow) -> String {
        row.id.to_string()
    }

    fn show(&mut self, look: &Look<'_>, row: PlanRow) -> Result<Option<Value>, Refusal> {
        if !coordinator::may_read(look.actor, &row) || !look.finds(&[&row.prompt, &row.summary]) {
            return Ok(None);
        }
        wire(&coordinator::project(look.tx, look.actor, look.presence, row)?)
    }
}
