//! Executions, for who asked, who executes, who decided, and operators.

use serde_json::Value;

use super::page::{Look, Source, wire};
use crate::service::{Refusal, executions};
use crate::store::executions::{self as rows, ExecutionRow, pages};

pub(super) struct Executions;

impl Source for Executions {
    type Row = ExecutionRow;

    fn open(_: &Look<'_>) -> Result<Self, Refusal> {
        Ok(Self)
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<ExecutionRow>, Refusal> {
        Ok(rows::by_id(look.tx, &id.into())?)
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<ExecutionRow>, Refusal> {
        let place = place.max("exe_");
        if let Some(request) = look.filter("request_id") {
            // There is at most one.
            return Ok(rows::of_request(look.tx, &request.into())?.into_iter().filter(|row| row.id.as_str() > place).collect());
        }
        Ok(if look.actor.operator {
            pages::all(look.tx, place, limit)?
        } else {
            pages::of(look.tx, &look.actor.id, place, limit)?
        })
    }

    fn place(row: &ExecutionRow) -> String {
        row.id.to_string()
    }

    fn show(&mut self, look: &Look<'_>, row: ExecutionRow) -> Result<Option<Value>, Refusal> {
        if !look.fits("state", row.state.as_str()) || !look.fits("request_id", row.request_id.as_str()) {
            return Ok(None);
        }
        match executions::visible(look.tx, &look.reader(), row)? {
            Some(execution) => wire(&execution),
            None => Ok(None),
        }
    }
}
