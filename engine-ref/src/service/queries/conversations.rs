//! Conversations that the reader is in, as summaries, the most recently active first.

use serde_json::Value;

use super::page::{Look, Source, wire};
use crate::service::{Refusal, conversations};
use crate::store::conversations::pages::{self, Place, RecentRow};

pub(super) struct Conversations;

impl Source for Conversations {
    type Row = RecentRow;

    fn open(_: &Look<'_>) -> Result<Self, Refusal> {
        Ok(Self)
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<RecentRow>, Refusal> {
        Ok(pages::by_id(look.tx, id)?)
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<RecentRow>, Refusal> {
        let before = read(place);
        let of = if look.actor.operator { look.filter("participant_id") } else { Some(look.actor.id.as_str()) };
        Ok(match of {
            Some(principal) => pages::of_participant(look.tx, principal, &before, limit)?,
            None => pages::all(look.tx, &before, limit)?,
        })
    }

    fn place(row: &RecentRow) -> String {
        format!("{} {}", row.place.sequence, row.place.id)
    }

    fn show(&mut self, look: &Look<'_>, row: RecentRow) -> Result<Option<Value>, Refusal> {
        let row = row.conversation;
        if !look.finds(&[&row.title]) {
            return Ok(None);
        }
        let Some(from) = look.reader().window(look.tx, &row.id)? else { return Ok(None) };
        if let Some(principal) = look.filter("participant_id")
            && !pages::is_in(look.tx, &row.id, principal)?
        {
            return Ok(None);
        }
        let mut summary = wire(&conversations::summary(look.tx, row, from)?)?;
        if let Some(Value::Object(members)) = &mut summary {
            // Not "none": a summary says nothing of them.
            members.remove("messages");
        }
        Ok(summary)
    }
}

/// A place as it was written; before all when there is none.
fn read(place: &str) -> Place {
    let parts = place.split_once(' ').and_then(|(sequence, id)| Some((sequence.parse().ok()?, id.to_owned())));
    let (sequence, id) = parts.unwrap_or((i64::MAX, String::new()));
    Place { sequence, id }
}
