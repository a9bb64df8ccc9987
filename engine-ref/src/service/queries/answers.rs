//! Published answers, for their publisher, their audience and who manages answers.

use beepgrid::Answer;
use serde_json::Value;

use super::page::{Look, Source, wire};
use crate::service::{Refusal, answers};
use crate::store::answers::{self as rows, AnswerRow, pages};

pub(super) struct Answers {
    all: bool,
}

impl Source for Answers {
    type Row = AnswerRow;

    fn open(look: &Look<'_>) -> Result<Self, Refusal> {
        Ok(Self { all: look.actor.manages(look.tx, answers::RESOURCE)? })
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<AnswerRow>, Refusal> {
        Ok(rows::by_id(look.tx, &id.into())?)
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<AnswerRow>, Refusal> {
        Ok(if self.all { pages::all(look.tx, place, limit)? } else { pages::of(look.tx, &look.actor.id, place, limit)? })
    }

    fn place(row: &AnswerRow) -> String {
        row.id.to_string()
    }

    fn show(&mut self, look: &Look<'_>, row: AnswerRow) -> Result<Option<Value>, Refusal> {
        let Some(answer) = answers::visible(look.tx, &look.reader(), row)? else { return Ok(None) };
        let Answer { title, body, key, .. } = &answer;
        if look.finds(&[title, body, key]) { wire(&answer) } else { Ok(None) }
    }
}
