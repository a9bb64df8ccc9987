//! The fleet as one reader may see it: agents, their runtime connections, who says it waits for whom, and the rings in that.

mod rings;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use beepgrid::{
    FleetAgent, FleetDependency, FleetStatus, Instance, Presence as Word, PrincipalId, PrincipalKind, RuleAction, Timestamp,
};

use super::Refusal;
use super::actor::Actor;
use super::audience::Party;
use super::identity::{self, Principal};
use super::limits::{MAX_BLOCKING, MAX_FLEET_AGENTS, MAX_INSTANCES, MAX_PAGE};
use super::presence::{self, Presence};
use crate::store::instances::{self, InstanceRow};
use crate::store::principals::{self, PrincipalRow};
use crate::store::{ReadTx, requests};

/// Agents that are looked at for one status; what is behind them is `truncated`.
const MAX_LOOKED_AT: i64 = 50_000;

/// A runtime connection as it is shown. One whose credential has ended, or whose agent is stopped, is offline whatever it said last.
pub(crate) fn observed(presence: &Presence, row: InstanceRow, now: Timestamp, live: bool) -> Instance {
    let mut instance = presence.instance(row, now);
    if !live {
        instance.presence = Word::Offline;
    }
    instance
}

/// An agent's runtime connections that can connect, by id.
fn live(tx: &ReadTx<'_>, seen: &Presence, agent: &PrincipalRow) -> Result<Vec<Instance>, Refusal> {
    if agent.disabled {
        return Ok(Vec::new());
    }
    let rows = instances::pages::live_of_agent(tx, &agent.id, MAX_INSTANCES)?;
    Ok(rows.into_iter().map(|row| observed(seen, row, tx.now(), true)).collect())
}

/// How recently an agent was heard of over any of its runtime connections.
pub(crate) fn presence(tx: &ReadTx<'_>, seen: &Presence, agent: &PrincipalRow) -> Result<Word, Refusal> {
    let newest = live(tx, seen, agent)?.into_iter().map(|instance| instance.last_seen).max();
    Ok(newest.map_or(Word::Offline, |last| presence::state(last, tx.now())))
}

/// The principals of a kind whom the actor's rules can make visible, itself among them; `None` when that may be anybody.
pub(crate) fn named(tx: &ReadTx<'_>, actor: &Actor, kind: &PrincipalKind) -> Result<Option<BTreeSet<String>>, Refusal> {
    if actor.operator {
        return Ok(None);
    }
    let Some(mut ids) = actor.rules.named(tx, &actor.id, kind)? else { return Ok(None) };
    ids.insert(actor.id.to_string());
    ids.retain(|id| id.starts_with(identity::prefix(kind)));
    Ok(Some(ids))
}

/// What the actor may see of the fleet.
pub(crate) fn status(tx: &ReadTx<'_>, actor: &Actor, seen: &Presence) -> Result<FleetStatus, Refusal> {
    let (agents, truncated) = visible(tx, actor)?;
    let known: BTreeSet<&PrincipalId> = agents.iter().map(|agent| &agent.id).collect();
    let mut dependencies = Vec::new();
    for agent in &agents {
        for wait in requests::pages::waiting(tx, &agent.id, MAX_BLOCKING)? {
            if known.contains(&wait.waits_for) {
                dependencies.push(FleetDependency {
                    request_id: wait.request_id,
                    agent_id: agent.id.clone(),
                    waits_for_agent_id: wait.waits_for,
                    since: wait.since,
                });
            }
        }
    }
    let mut edges: BTreeMap<PrincipalId, BTreeSet<PrincipalId>> = BTreeMap::new();
    for wait in &dependencies {
        edges.entry(wait.agent_id.clone()).or_default().insert(wait.waits_for_agent_id.clone());
    }
    let cycles = rings::shortest(&edges);
    let manager = actor.manages(tx, "identity")?;
    let agents = agents.into_iter().map(|row| shown(tx, seen, row, manager)).collect::<Result<Vec<_>, _>>()?;
    Ok(FleetStatus {
        mode: "read_only".to_owned(),
        commands_supported: false,
        observed_at: tx.now(),
        agents,
        dependencies,
        cycles,
        truncated,
    })
}

fn shown(tx: &ReadTx<'_>, seen: &Presence, row: PrincipalRow, manager: bool) -> Result<FleetAgent, Refusal> {
    let instances = live(tx, seen, &row)?;
    let fresh = instances.iter().any(|instance| instance.presence == Word::Connected);
    match identity::principal(row, manager) {
        Principal::Agent(agent) => Ok(FleetAgent { agent, instances, fresh }),
        _ => Err(Refusal::internal("an agent was read as another kind")),
    }
}

/// The agents that the actor may message or ask now, of `parties` or of all; at most `most`.
pub(crate) fn contacts(
    tx: &ReadTx<'_>,
    actor: &Actor,
    seen: &Presence,
    parties: Option<&[Party]>,
    most: usize,
) -> Result<Vec<FleetAgent>, Refusal> {
    let rows = match parties {
        Some(parties) => {
            let found = parties.iter().map(|party| principals::by_id(tx, party.id.as_str()));
            found.filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()?
        }
        None => visible(tx, actor)?.0,
    };
    let manager = actor.manages(tx, "identity")?;
    let mut contacts = Vec::new();
    for row in rows {
        let party = row.as_party();
        let reaches =
            |action| -> Result<bool, Refusal> { Ok(actor.operator || actor.rules.allows(tx, &actor.id, &action, &party)?) };
        if contacts.len() < most && !row.disabled && (reaches(RuleAction::Message)? || reaches(RuleAction::Ask)?) {
            contacts.push(shown(tx, seen, row, manager)?);
        }
    }
    Ok(contacts)
}

/// Those of these agents that the actor may view now.
pub(crate) fn of(tx: &ReadTx<'_>, actor: &Actor, seen: &Presence, ids: &[PrincipalId]) -> Result<Vec<FleetAgent>, Refusal> {
    let manager = actor.manages(tx, "identity")?;
    let mut agents = Vec::new();
    for id in ids {
        let row = principals::by_id(tx, id.as_str())?.filter(|row| row.kind == PrincipalKind::Agent);
        if let Some(row) = row
            && actor.may_view(tx, &row.as_party())?
        {
            agents.push(shown(tx, seen, row, manager)?);
        }
    }
    Ok(agents)
}

/// The agents that the actor may view, by id, and whether there are more.
fn visible(tx: &ReadTx<'_>, actor: &Actor) -> Result<(Vec<PrincipalRow>, bool), Refusal> {
    let mut agents = Vec::new();
    if let Some(ids) = named(tx, actor, &PrincipalKind::Agent)? {
        for id in ids {
            let row = principals::by_id(tx, &id)?.filter(|row| row.kind == PrincipalKind::Agent);
            if let Some(row) = row
                && add(tx, actor, &mut agents, row)?
            {
                return Ok((agents, true));
            }
        }
        return Ok((agents, false));
    }
    let (mut after, mut looked_at) = (String::new(), 0);
    while looked_at < MAX_LOOKED_AT {
        // Index: principals_kind.
        let rows = principals::page(tx, PrincipalKind::Agent.as_str(), &after, MAX_PAGE)?;
        let Some(last) = rows.last() else { return Ok((agents, false)) };
        last.id.as_str().clone_into(&mut after);
        looked_at += MAX_PAGE;
        for row in rows {
            if add(tx, actor, &mut agents, row)? {
                return Ok((agents, true));
            }
        }
    }
    Ok((agents, true))
}

/// Adds an agent if it is visible; true when it is one too many.
fn add(tx: &ReadTx<'_>, actor: &Actor, agents: &mut Vec<PrincipalRow>, row: PrincipalRow) -> Result<bool, Refusal> {
    if !actor.may_view(tx, &row.as_party())? {
        return Ok(false);
    }
    if agents.len() == MAX_FLEET_AGENTS {
        return Ok(true);
    }
    agents.push(row);
    Ok(false)
}
