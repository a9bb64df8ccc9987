//! Runtime connections of agents that the reader may view, with presence and what they reported.

use std::collections::HashMap;

use beepgrid::PrincipalId;
use serde_json::Value;

use super::page::{Look, Source, wire};
use crate::service::audience::Party;
use crate::service::{Refusal, fleet};
use crate::store::instances::{self, InstanceRow, pages};
use crate::store::principals;

pub(super) struct Instances {
    agents: HashMap<PrincipalId, Option<Party>>,
}

impl Source for Instances {
    type Row = InstanceRow;

    fn open(_: &Look<'_>) -> Result<Self, Refusal> {
        Ok(Self { agents: HashMap::new() })
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<InstanceRow>, Refusal> {
        Ok(instances::by_id(look.tx, &id.into())?)
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<InstanceRow>, Refusal> {
        Ok(match look.filter("agent_id") {
            Some(agent) => pages::of_agent(look.tx, agent, place, limit)?,
            None => pages::all(look.tx, place, limit)?,
        })
    }

    fn place(row: &InstanceRow) -> String {
        row.id.to_string()
    }

    fn show(&mut self, look: &Look<'_>, row: InstanceRow) -> Result<Option<Value>, Refusal> {
        if !look.fits("agent_id", row.agent_id.as_str()) {
            return Ok(None);
        }
        let party = match self.agents.get(&row.agent_id) {
            Some(party) => party.clone(),
            None => {
                let party = principals::party_by_id(look.tx, &row.agent_id)?;
                self.agents.insert(row.agent_id.clone(), party.clone());
                party
            }
        };
        let Some(party) = party else { return Ok(None) };
        let disabled = party.disabled;
        // A rule may name this one runtime connection.
        let exact = Party { instance_id: Some(row.id.clone()), ..party };
        if !look.actor.may_view(look.tx, &exact)? {
            return Ok(None);
        }
        let live = !disabled && instances::is_live(look.tx, &row.id)?;
        wire(&fleet::observed(look.presence, row, look.now(), live))
    }
}
