//! Whom a target means: existence and visibility first, the right next, then whether it can be reached at all.

use beepgrid::{GroupId, InstanceId, PrincipalId, PrincipalKind, RuleAction, Target, TargetKind};

use super::Refusal;
use super::actor::Actor;
use super::permissions::{Descriptor, Rules};
use crate::store::{ReadTx, groups, instances, principals};

/// A principal, or one exact instance of an agent, as a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Party {
    pub(crate) id: PrincipalId,
    pub(crate) kind: PrincipalKind,
    pub(crate) name: String,
    pub(crate) disabled: bool,
    pub(crate) operator: bool,
    pub(crate) instance_id: Option<InstanceId>,
}

impl Actor {
    /// The actor as somebody else's target.
    pub(crate) fn as_party(&self) -> Party {
        Party {
            id: self.id.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            disabled: false,
            operator: self.operator,
            instance_id: None,
        }
    }
}

/// Finds what a target names, by id and then by external id; says nothing of what the actor may see.
pub(crate) fn find(tx: &ReadTx<'_>, target: &Target) -> Result<Option<Party>, Refusal> {
    Ok(match &target.kind {
        TargetKind::Person | TargetKind::Agent | TargetKind::Service => {
            principals::party_by_any_id(tx, target.kind.as_str(), &target.id)?
        }
        TargetKind::Instance => instances::party(tx, &target.id)?,
        _ => None,
    })
}

/// The party that the actor may do `action` (message or ask) towards.
///
/// # Errors
/// 404 when it is not there or neither visible nor reachable, 403 when it is visible but the right is missing, it is disabled, or
/// the instance is gone.
pub(crate) fn reach(
    tx: &ReadTx<'_>,
    actor: &Actor,
    target: &Target,
    action: &RuleAction,
    descriptor: Descriptor<'_>,
) -> Result<Party, Refusal> {
    let party = find(tx, target)?.ok_or_else(Refusal::not_found)?;
    if party.id == actor.id {
        return Ok(party);
    }
    let allowed = actor.operator || actor.rules.allows_with(tx, &actor.id, action, &party, descriptor)?;
    if !allowed && !actor.may_view(tx, &party)? && !knows_an_instance(tx, actor, &party)? {
        return Err(Refusal::not_found());
    }
    if !allowed {
        return Err(Refusal::forbidden(format!("no rule lets you {action} this {}", party.kind)));
    }
    must_be_reachable(tx, &party)?;
    Ok(party)
}

/// Whether `party` is the agent of a runtime connection that the actor may view: then it is known, though not reachable as a whole.
fn knows_an_instance(tx: &ReadTx<'_>, actor: &Actor, party: &Party) -> Result<bool, Refusal> {
    if party.kind != PrincipalKind::Agent || party.instance_id.is_some() {
        return Ok(false);
    }
    for id in actor.rules.named_instances(tx, &actor.id)? {
        if let Some(instance) = instances::party(tx, &id)?
            && instance.id == party.id
            && actor.may_view(tx, &instance)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses what can't be sent to: a disabled identity, a runtime connection that is gone.
pub(crate) fn must_be_reachable(tx: &ReadTx<'_>, party: &Party) -> Result<(), Refusal> {
    if party.disabled {
        return Err(Refusal::forbidden(format!("this {} is disabled", party.kind)));
    }
    if let Some(instance) = &party.instance_id
        && !instances::is_live(tx, instance)?
    {
        return Err(Refusal::forbidden("this runtime connection is gone: its credential has ended"));
    }
    Ok(())
}

/// A group target: the group itself and its members that the actor may do `action` towards now, itself left out.
///
/// # Errors
/// 404 when the group is not visible, 403 when nobody in it can be reached.
pub(crate) fn reach_group(tx: &ReadTx<'_>, actor: &Actor, target: &Target, action: &RuleAction) -> Result<Vec<Party>, Refusal> {
    let group = groups::by_id(tx, &target.id)?.ok_or_else(Refusal::not_found)?;
    let by_group = actor.operator || actor.rules.allows_group(tx, &actor.id, action, group.id.as_str())?;
    if !by_group && !sees_group(tx, actor, &group.id)? {
        return Err(Refusal::not_found());
    }
    let mut reached = Vec::new();
    for party in groups::members(tx, &group.id)? {
        if party.id == actor.id || party.disabled {
            continue;
        }
        if actor.operator || actor.rules.allows(tx, &actor.id, action, &party)? {
            reached.push(party);
        }
    }
    if reached.is_empty() {
        return Err(Refusal::forbidden(format!(
            "nobody in this group can be reached: no rule lets you {action} a present member"
        )));
    }
    if reached.len() > super::limits::MAX_GROUP_FANOUT {
        return Err(Refusal::invalid("target", format!("a group reaches at most {} members", super::limits::MAX_GROUP_FANOUT)));
    }
    Ok(reached)
}

/// Whether the actor may know of the group: a member, a rule on it, a manager of groups.
pub(crate) fn sees_group(tx: &ReadTx<'_>, actor: &Actor, group: &GroupId) -> Result<bool, Refusal> {
    if actor.manages(tx, "group")? || groups::is_member(tx, group, &actor.id)? {
        return Ok(true);
    }
    for action in [RuleAction::View, RuleAction::Message, RuleAction::Ask] {
        if actor.rules.allows_group(tx, &actor.id, &action, group.as_str())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether `from` may post to `to` in their direct conversation: by its own right, or as a reply while `to` may message it.
pub(crate) fn may_post(tx: &ReadTx<'_>, rules: &Rules, from: &Party, to: &Party) -> Result<bool, Refusal> {
    if from.operator || rules.allows(tx, &from.id, &RuleAction::Message, to)? {
        return Ok(true);
    }
    let invited = to.operator || rules.allows(tx, &to.id, &RuleAction::Message, from)?;
    Ok(invited && !rules.denied(tx, &from.id, &RuleAction::Message, to)?)
}

/// Whether two principals may each know of the other, as members of one chat must.
pub(crate) fn view_each_other(tx: &ReadTx<'_>, rules: &Rules, a: &Party, b: &Party) -> Result<bool, Refusal> {
    let sees = |from: &Party, to: &Party| -> Result<bool, Refusal> { Ok(from.operator || rules.views(tx, &from.id, to)?) };
    Ok(sees(a, b)? && sees(b, a)?)
}
