//! Roles: all of them for who manages roles, for others those that reach them.

use beepgrid::Role;
use serde_json::Value;

use super::page::{Look, Source, wire};
use crate::service::Refusal;
use crate::store::policies::{self, RoleRow, pages};

pub(super) struct Roles {
    manager: bool,
}

impl Source for Roles {
    type Row = RoleRow;

    fn open(look: &Look<'_>) -> Result<Self, Refusal> {
        Ok(Self { manager: look.actor.manages(look.tx, "role")? })
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<RoleRow>, Refusal> {
        if self.manager {
            return Ok(policies::role(look.tx, id)?);
        }
        // What reaches one subject is little.
        let reaching = pages::reaching(look.tx, look.actor.id.as_str(), "", i64::MAX)?;
        Ok(reaching.into_iter().find(|row| row.id.as_str() == id))
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<RoleRow>, Refusal> {
        Ok(if self.manager {
            pages::all(look.tx, place, limit)?
        } else {
            pages::reaching(look.tx, look.actor.id.as_str(), place, limit)?
        })
    }

    fn place(row: &RoleRow) -> String {
        row.id.to_string()
    }

    fn show(&mut self, look: &Look<'_>, row: RoleRow) -> Result<Option<Value>, Refusal> {
        if !look.finds(&[&row.name]) {
            return Ok(None);
        }
        let RoleRow { id, name, rules, version, created_at } = row;
        wire(&Role { id, name, rules, version, created_at })
    }
}
