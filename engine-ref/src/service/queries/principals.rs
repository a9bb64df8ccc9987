//! People, agents and services whom the reader may know of.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use beepgrid::{GroupId, PrincipalKind};
use serde_json::Value;

use super::page::{Look, Source, unseen, wire};
use crate::service::{Refusal, audience, fleet, identity};
use crate::store::principals::pages::{self, Range};
use crate::store::principals::{self, PrincipalRow};
use crate::store::{groups, policies};

/// The source of the three collections.
pub(super) struct Principals {
    kind: PrincipalKind,
    /// Manages identities: sees all of them.
    manager: bool,
    driver: Driver,
    /// Whether membership in a group shows to the reader that the role reaches.
    role_groups: HashMap<GroupId, bool>,
    manages_roles: bool,
}

enum Driver {
    Group(String),
    Role(String),
    /// All whom the reader's rules can make visible.
    Named(BTreeSet<String>),
    All,
}

fn kind_of(collection: &str) -> PrincipalKind {
    match collection {
        "people" => PrincipalKind::Person,
        "services" => PrincipalKind::Service,
        _ => PrincipalKind::Agent,
    }
}

impl Source for Principals {
    type Row = PrincipalRow;

    fn open(look: &Look<'_>) -> Result<Self, Refusal> {
        let Look { tx, actor, .. } = *look;
        let kind = kind_of(look.collection());
        if let Some(id) = look.filter("group_id") {
            let group = groups::by_id(tx, id)?.ok_or_else(|| unseen("group_id"))?;
            if !audience::sees_group(tx, actor, &group.id)? {
                return Err(unseen("group_id"));
            }
        }
        let manages_roles = actor.manages(tx, "role")?;
        if let Some(id) = look.filter("role_id") {
            let seen = manages_roles || reaches(look, id)?;
            if !seen || policies::role(tx, id)?.is_none() {
                return Err(unseen("role_id"));
            }
        }
        let manager = actor.manages(tx, "identity")?;
        let driver = match (look.filter("group_id"), look.filter("role_id")) {
            (Some(id), _) => Driver::Group(id.to_owned()),
            (None, Some(id)) => Driver::Role(id.to_owned()),
            (None, None) if manager => Driver::All,
            (None, None) => fleet::named(tx, actor, &kind)?.map_or(Driver::All, Driver::Named),
        };
        Ok(Self { kind, manager, driver, role_groups: HashMap::new(), manages_roles })
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<PrincipalRow>, Refusal> {
        Ok(principals::by_id(look.tx, id)?.filter(|row| row.kind == self.kind))
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<PrincipalRow>, Refusal> {
        let prefix = identity::prefix(&self.kind);
        let end = format!("{prefix}~");
        let range = Range { after: place.max(prefix), end: &end, limit };
        match &self.driver {
            Driver::Group(id) => Ok(pages::of_group(look.tx, id, range)?),
            Driver::Role(id) => Ok(pages::of_role(look.tx, id, range)?),
            Driver::All => Ok(principals::page(look.tx, self.kind.as_str(), place, limit)?),
            Driver::Named(ids) => {
                let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
                let mut rows = Vec::new();
                for id in ids.range::<str, _>((Bound::Excluded(place), Bound::Unbounded)) {
                    rows.extend(principals::by_id(look.tx, id)?);
                    if rows.len() == wanted {
                        break;
                    }
                }
                Ok(rows)
            }
        }
    }

    fn place(row: &PrincipalRow) -> String {
        row.id.to_string()
    }

    fn show(&mut self, look: &Look<'_>, row: PrincipalRow) -> Result<Option<Value>, Refusal> {
        if row.kind != self.kind || !fits(look, &row, self.manager) || !look.finds(&[&row.name, &row.external_id]) {
            return Ok(None);
        }
        let party = row.as_party();
        let views = look.actor.may_view(look.tx, &party)?;
        if !views && !self.manager {
            return Ok(None);
        }
        if let Some(wanted) = look.filter("presence")
            && !(views && fleet::presence(look.tx, look.presence, &row)?.as_str() == wanted)
        {
            return Ok(None);
        }
        if let Some(group) = look.filter("group_id")
            && !groups::is_member(look.tx, &group.into(), &row.id)?
        {
            return Ok(None);
        }
        if let Some(role) = look.filter("role_id")
            && !self.shows_role(look, role, &row)?
        {
            return Ok(None);
        }
        wire(&identity::principal(row, self.manager))
    }
}

/// Whether a role reaches the reader itself.
fn reaches(look: &Look<'_>, role: &str) -> Result<bool, Refusal> {
    let Look { tx, actor, .. } = *look;
    if policies::pages::is_bound(tx, role, "principal", actor.id.as_str())? {
        return Ok(true);
    }
    for group in groups::ids_of_member(tx, &actor.id)? {
        if policies::pages::is_bound(tx, role, "group", group.as_str())? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn fits(look: &Look<'_>, row: &PrincipalRow, manager: bool) -> bool {
    let in_metadata = ["project", "type", "department", "manager_id"]
        .iter()
        .all(|name| look.fits_opt(name, row.metadata.get(*name).and_then(Value::as_str)));
    let enrolled_by = row.enrolled_by.as_ref().filter(|_| manager);
    in_metadata
        && look.fits("disabled", if row.disabled { "true" } else { "false" })
        && look.fits_opt("parent_id", row.parent_id.as_ref().map(AsRef::as_ref))
        && look.fits_opt("enrolled_by", enrolled_by.map(AsRef::as_ref))
}

impl Principals {
    /// Whether the reader may know that a role reaches somebody: itself, who is bound directly if it manages roles, and members of
    /// a group that it sees and whose binding it sees.
    fn shows_role(&mut self, look: &Look<'_>, role: &str, row: &PrincipalRow) -> Result<bool, Refusal> {
        let Look { tx, actor, .. } = *look;
        let own = row.id == actor.id;
        if (own || self.manages_roles) && policies::pages::is_bound(tx, role, "principal", row.id.as_str())? {
            return Ok(true);
        }
        for group in groups::ids_of_member(tx, &row.id)? {
            let shown = match self.role_groups.get(&group) {
                Some(shown) => *shown,
                None => {
                    let sees_binding = self.manages_roles || groups::is_member(tx, &group, &actor.id)?;
                    let shown = sees_binding
                        && policies::pages::is_bound(tx, role, "group", group.as_str())?
                        && audience::sees_group(tx, actor, &group)?;
                    self.role_groups.insert(group, shown);
                    shown
                }
            };
            if shown {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
