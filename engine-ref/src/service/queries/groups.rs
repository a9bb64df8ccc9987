//! Directory groups that the reader may know of, with the members it may know of.

use serde_json::Value;

use super::page::{Look, Source, wire};
use crate::service::{Refusal, audience, policies};
use crate::store::groups::{self, GroupRow, pages};
use crate::store::principals;

pub(super) struct Groups {
    /// The member whose groups are asked for; it is not looked for when the reader may not know of it.
    member: Member,
}

enum Member {
    Any,
    Hidden,
    One(String),
}

impl Source for Groups {
    type Row = GroupRow;

    fn open(look: &Look<'_>) -> Result<Self, Refusal> {
        let member = match look.filter("member_id") {
            None => Member::Any,
            Some(id) => match principals::party_by_id(look.tx, &id.into())? {
                Some(party) if policies::sees(look.tx, look.actor, &party)? => Member::One(id.to_owned()),
                _ => Member::Hidden,
            },
        };
        Ok(Self { member })
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<GroupRow>, Refusal> {
        Ok(groups::by_id(look.tx, id)?)
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<GroupRow>, Refusal> {
        match &self.member {
            Member::Any => Ok(pages::all(look.tx, place, limit)?),
            Member::One(member) => Ok(pages::of_member(look.tx, member, place, limit)?),
            Member::Hidden => Ok(Vec::new()),
        }
    }

    fn place(row: &GroupRow) -> String {
        row.id.to_string()
    }

    fn show(&mut self, look: &Look<'_>, row: GroupRow) -> Result<Option<Value>, Refusal> {
        if !look.fits("purpose", row.purpose.as_str()) || !look.finds(&[&row.name]) {
            return Ok(None);
        }
        let holds_member = match &self.member {
            Member::Any => true,
            Member::One(member) => groups::is_member(look.tx, &row.id, &member.as_str().into())?,
            Member::Hidden => false,
        };
        if !holds_member || !audience::sees_group(look.tx, look.actor, &row.id)? {
            return Ok(None);
        }
        wire(&policies::group(look.tx, look.actor, &row.id)?)
    }
}
