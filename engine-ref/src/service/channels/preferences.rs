//! How a person is reached outside, and where something would go.

use beepgrid::{
    ChannelPolicy, DeliveryPreferences, Destination, GroupPurpose, PrincipalId, PrincipalKind, Route, RoutePreview,
    RoutePreviewInput, RuleAction, Target, TargetKind,
};

use super::destinations::MODES;
use crate::service::actor::Actor;
use crate::service::limits::{FOLLOWUP_SECONDS, MAX_LIST, MAX_OVERRIDES, MAX_PREFERRED};
use crate::service::{Refusal, audience, checks, policies};
use crate::store::{ReadTx, WriteTx, channels, groups, principals};

const POLICY_MODES: &[&str] = &["preferred", "all"];

/// Whether delivery preferences have the right form.
pub(crate) fn check_preferences(id: &str, input: &DeliveryPreferences) -> Result<(), Refusal> {
    if !input.person_id.is_empty() && input.person_id.as_str() != id {
        return Err(Refusal::invalid("person_id", "absent, or the same as in the path"));
    }
    checks::range("version", input.version, 0, i64::MAX)?;
    input.default.as_ref().map_or(Ok(()), |policy| check_policy("default", policy))?;
    checks::count("overrides", input.overrides.len(), MAX_OVERRIDES)?;
    for (i, one) in input.overrides.iter().enumerate() {
        let place = format!("overrides[{i}]");
        checks::target(&format!("{place}.source"), &one.source)?;
        if !matches!(one.source.kind, TargetKind::Agent | TargetKind::Group) {
            return Err(Refusal::invalid(format!("{place}.source.kind"), "an agent, or a group with the purpose agent_role"));
        }
        check_policy(&format!("{place}.policy"), &one.policy)?;
    }
    Ok(())
}

fn check_policy(place: &str, policy: &ChannelPolicy) -> Result<(), Refusal> {
    if !POLICY_MODES.contains(&policy.mode.as_str()) {
        return Err(checks::one_of(&format!("{place}.mode"), &policy.mode, POLICY_MODES));
    }
    checks::count(&format!("{place}.destinations"), policy.destinations.len(), MAX_PREFERRED)?;
    if policy.followup_seconds != 0 {
        let (least, most) = (FOLLOWUP_SECONDS.start(), FOLLOWUP_SECONDS.end());
        checks::range(&format!("{place}.followup_seconds"), policy.followup_seconds, *least, *most)
            .map_err(|_| Refusal::invalid(format!("{place}.followup_seconds"), format!("0, or from {least} to {most}")))?;
    }
    Ok(())
}

/// The person whose preferences these are: the actor itself, or anybody for a manager of identities.
fn preferences_of(tx: &ReadTx<'_>, actor: &Actor, id: &str) -> Result<PrincipalId, Refusal> {
    let party = principals::party_by_any_id(tx, "person", id)?.ok_or_else(Refusal::not_found)?;
    if party.id != actor.id && !actor.manages(tx, "identity")? {
        return Err(Refusal::not_found());
    }
    Ok(party.id)
}

/// A person's delivery preferences; version 0 when never saved.
pub(crate) fn preferences(tx: &ReadTx<'_>, actor: &Actor, id: &str) -> Result<DeliveryPreferences, Refusal> {
    let person_id = preferences_of(tx, actor, id)?;
    let saved = channels::preferences(tx, &person_id)?;
    Ok(saved.unwrap_or(DeliveryPreferences { person_id, version: 0, default: None, overrides: Vec::new() }))
}

/// Saves a person's delivery preferences: own destinations only, sources that are visible.
pub(crate) fn save_preferences(
    tx: &WriteTx<'_>,
    actor: &Actor,
    (id, input): &(String, DeliveryPreferences),
) -> Result<DeliveryPreferences, Refusal> {
    let saved = preferences(tx, actor, id)?;
    if saved.version != input.version {
        return Err(Refusal::version_conflict(saved.version));
    }
    let mut policies: Vec<(String, &ChannelPolicy)> = input.default.iter().map(|policy| ("default".to_owned(), policy)).collect();
    let mut overrides = input.overrides.clone();
    for (i, one) in overrides.iter_mut().enumerate() {
        one.source.id = source(tx, actor, &one.source).map_err(|r| r.at(&format!("overrides[{i}].source")))?;
    }
    policies.extend(input.overrides.iter().enumerate().map(|(i, one)| (format!("overrides[{i}].policy"), &one.policy)));
    for (place, policy) in policies {
        for (i, destination) in policy.destinations.iter().enumerate() {
            let own = channels::destination(tx, destination.as_str())?.is_some_and(|row| row.principal_id == saved.person_id);
            if !own {
                return Err(Refusal::not_found().at(&format!("{place}.destinations[{i}]")));
            }
        }
    }
    let preferences =
        DeliveryPreferences { person_id: saved.person_id, version: saved.version + 1, default: input.default.clone(), overrides };
    channels::save_preferences(tx, &preferences)?;
    Ok(preferences)
}

/// The id of a visible agent or agent role.
fn source(tx: &ReadTx<'_>, actor: &Actor, source: &Target) -> Result<String, Refusal> {
    if source.kind == TargetKind::Group {
        let group = groups::by_id(tx, &source.id)?.ok_or_else(Refusal::not_found)?;
        if !audience::sees_group(tx, actor, &group.id)? {
            return Err(Refusal::not_found());
        }
        if group.purpose != GroupPurpose::AgentRole {
            return Err(Refusal::invalid("kind", "a group with the purpose agent_role"));
        }
        return Ok(group.id.as_str().to_owned());
    }
    let party = audience::find(tx, source)?.ok_or_else(Refusal::not_found)?;
    if policies::sees(tx, actor, &party)? { Ok(party.id.as_str().to_owned()) } else { Err(Refusal::not_found()) }
}

/// Whether a route preview has the right form.
pub(crate) fn check_route(input: &RoutePreviewInput) -> Result<(), Refusal> {
    checks::target("target", &input.target)?;
    match input.operation.as_str() {
        "message" | "ask" => Ok(()),
        other => Err(checks::one_of("operation", other, &["message", "ask"])),
    }
}

/// Where something of the actor's would go outside; it always stands in the workspace.
pub(crate) fn preview_route(tx: &ReadTx<'_>, actor: &Actor, input: &RoutePreviewInput) -> Result<RoutePreview, Refusal> {
    let action = if input.operation == "ask" { RuleAction::Ask } else { RuleAction::Message };
    let party = audience::reach(tx, actor, &input.target, &action, None).map_err(|r| r.at("target"))?;
    let routes = if party.kind == PrincipalKind::Person { routes(tx, actor, &party.id)? } else { Vec::new() };
    Ok(RoutePreview { target: input.target.clone(), workspace: true, routes })
}

/// The routes to a person for this sender: by its preferences, else by its destinations in order of priority.
pub(crate) fn routes(tx: &ReadTx<'_>, actor: &Actor, person: &PrincipalId) -> Result<Vec<Route>, Refusal> {
    let all = channels::destinations_of(tx, person, MAX_LIST)?;
    let policy = match channels::preferences(tx, person)? {
        Some(preferences) => policy_for(tx, actor, preferences)?,
        None => None,
    };
    let chosen: Vec<Destination> = match policy {
        Some(policy) => policy
            .destinations
            .iter()
            .filter_map(|id| all.iter().find(|destination| destination.id == *id).cloned())
            .take(if policy.mode == "all" { usize::MAX } else { 1 })
            .collect(),
        None => by_mode(all),
    };
    let mut routes = Vec::new();
    for destination in chosen {
        let Some(connection) = channels::connection(tx, destination.connection_id.as_str())? else { continue };
        if connection.enabled {
            routes.push(Route {
                destination_id: destination.id,
                connection_id: connection.id,
                kind: connection.kind,
                mode: destination.mode,
            });
        }
    }
    Ok(routes)
}

/// Primary destinations first, then copies, then fallbacks; within each by priority.
fn by_mode(mut all: Vec<Destination>) -> Vec<Destination> {
    let rank = |mode: &str| MODES.iter().position(|known| *known == mode);
    all.sort_by_key(|destination| (rank(&destination.mode), destination.priority));
    all
}

/// An exact agent comes before its roles, and those before the usual policy.
fn policy_for(tx: &ReadTx<'_>, actor: &Actor, preferences: DeliveryPreferences) -> Result<Option<ChannelPolicy>, Refusal> {
    let exact = preferences.overrides.iter().find(|one| one.source.id == actor.id.as_str());
    if let Some(exact) = exact {
        return Ok(Some(exact.policy.clone()));
    }
    let of_actor = groups::ids_of_member(tx, &actor.id)?;
    let role = preferences.overrides.iter().find(|one| of_actor.iter().any(|group| group.as_str() == one.source.id));
    Ok(role.map(|one| one.policy.clone()).or(preferences.default))
}
