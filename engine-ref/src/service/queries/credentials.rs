//! Credentials' metadata: all of it for who manages credentials, for others their own; never a token.

use serde_json::Value;

use super::page::{Look, Source, wire};
use crate::service::{Refusal, setup};
use crate::store::credentials::{self, CredentialRow, pages};

pub(super) struct Credentials {
    manager: bool,
}

impl Source for Credentials {
    type Row = CredentialRow;

    fn open(look: &Look<'_>) -> Result<Self, Refusal> {
        Ok(Self { manager: look.actor.manages(look.tx, "credential")? })
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<CredentialRow>, Refusal> {
        Ok(credentials::by_id(look.tx, id)?)
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<CredentialRow>, Refusal> {
        let of = if self.manager { look.filter("principal_id") } else { Some(look.actor.id.as_str()) };
        Ok(match of {
            Some(principal) => pages::of_principal(look.tx, principal, place, limit)?,
            None => pages::all(look.tx, place, limit)?,
        })
    }

    fn place(row: &CredentialRow) -> String {
        row.id.to_string()
    }

    fn show(&mut self, look: &Look<'_>, row: CredentialRow) -> Result<Option<Value>, Refusal> {
        let fits = look.fits("kind", row.kind.as_str()) && look.fits("principal_id", row.principal_id.as_str());
        let sees = self.manager || row.principal_id == look.actor.id;
        if !fits || !sees || !look.finds(&[&row.name, &row.owner_name]) {
            return Ok(None);
        }
        let mut shown = setup::credential(row);
        shown.last_used_at = look.presence.last_used(&shown.id, shown.last_used_at);
        wire(&shown)
    }
}
