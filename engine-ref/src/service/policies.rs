//! Groups, roles, bindings and contact policies: who manages them, and that nobody passes on more than it holds.

use beepgrid::{
    ContactPermissions, ContactPermissionsInput, Effect, ErrorCode, Group, GroupEdit, GroupId, GroupInput, GroupPurpose,
    PermissionRule, PrincipalId, PrincipalKind, Role, RoleBinding, RoleBindingId, RoleBindingInput, RoleEdit, RoleId, RoleInput,
    RuleAction, RuleConditions, SubjectKind, Target, TargetKind,
};
use uuid::Uuid;

use super::actor::Actor;
use super::audience::{self, Party};
use super::limits::{MAX_GROUP_MEMBERS, MAX_ID_CHARS, MAX_POLICY_RULES, MAX_ROLE_RULES};
use super::{Refusal, checks, new_id, permissions};
use crate::store::groups::{self, GroupRow};
use crate::store::policies::{self, PolicyRow, RoleRow};
use crate::store::{ReadTx, WriteTx, principals};

/// Resource kinds that management can be delegated for.
const MANAGED: &[&str] = &["identity", "group", "role", "credential", "connection", "assistance", "answers", "account", "*"];

/// Makes every compiled rule set out of date, in the transaction of the change.
pub(crate) fn changed(tx: &WriteTx<'_>) -> Result<(), Refusal> {
    policies::set_epoch(tx, &Uuid::now_v7().simple().to_string())?;
    Ok(())
}

// ---- rules ----------------------------------------------------------------------------------------------------------------

/// Whether each rule has the right form.
pub(crate) fn check_rules(rules: &[PermissionRule], max: usize) -> Result<(), Refusal> {
    checks::count("rules", rules.len(), max)?;
    rules.iter().enumerate().try_for_each(|(i, rule)| check_rule(rule).map_err(|r| r.at(&format!("rules[{i}]"))))
}

fn check_rule(rule: &PermissionRule) -> Result<(), Refusal> {
    if let Some(effect) = &rule.effect
        && !effect.is_known()
    {
        return Err(checks::one_of("effect", effect.as_str(), Effect::KNOWN));
    }
    if !rule.action.is_known() {
        return Err(checks::one_of("action", rule.action.as_str(), RuleAction::KNOWN));
    }
    checks::id("target_id", &rule.target_id)?;
    if rule.action == RuleAction::Manage {
        if !MANAGED.contains(&rule.target_kind.as_str()) {
            return Err(checks::one_of("target_kind", &rule.target_kind, MANAGED));
        }
        if rule.target_id != "*" {
            return Err(Refusal::invalid("target_id", "a manage rule covers all of a kind: *"));
        }
    } else if !is_account(rule) && !TargetKind::from(rule.target_kind.as_str()).is_known() {
        return Err(checks::one_of("target_kind", &rule.target_kind, TargetKind::KNOWN));
    }
    if rule.effect == Some(Effect::Deny) {
        let message = "a deny names an exact principal, instance or group: no *, no manage, no conditions";
        if rule.action == RuleAction::Manage {
            return Err(Refusal::invalid("action", message));
        }
        if rule.target_id == "*" {
            return Err(Refusal::invalid("target_id", message));
        }
        if rule.conditions.is_some() {
            return Err(Refusal::invalid("conditions", message));
        }
    }
    rule.conditions.as_ref().map_or(Ok(()), check_conditions)
}

/// Whether a rule lets its subject view the account, the one resource that is viewed without being managed.
fn is_account(rule: &PermissionRule) -> bool {
    let allows = rule.effect != Some(Effect::Deny);
    allows && rule.action == RuleAction::View && rule.target_kind == permissions::ACCOUNT && rule.target_id == "*"
}

fn check_conditions(conditions: &RuleConditions) -> Result<(), Refusal> {
    let members = [
        ("conditions.connection_id", &conditions.connection_id),
        ("conditions.action_name", &conditions.action_name),
        ("conditions.resource", &conditions.resource),
    ];
    for (field, value) in members {
        if value.as_ref().is_some_and(|text| text.chars().count() > MAX_ID_CHARS) {
            return Err(Refusal::invalid(field, format!("at most {MAX_ID_CHARS} code points")));
        }
    }
    Ok(())
}

/// Rules with their targets as ids, each of them something that the actor may know of and, if it allows, holds itself.
fn resolve_rules(tx: &ReadTx<'_>, actor: &Actor, rules: &[PermissionRule]) -> Result<Vec<PermissionRule>, Refusal> {
    rules.iter().enumerate().map(|(i, rule)| resolve_rule(tx, actor, rule).map_err(|r| r.at(&format!("rules[{i}]")))).collect()
}

/// Whether the actor could grant these rules now.
pub(crate) fn may_grant(tx: &ReadTx<'_>, actor: &Actor, rules: &[PermissionRule]) -> Result<(), Refusal> {
    resolve_rules(tx, actor, rules).map(drop)
}

fn resolve_rule(tx: &ReadTx<'_>, actor: &Actor, rule: &PermissionRule) -> Result<PermissionRule, Refusal> {
    let mut resolved = rule.clone();
    if resolved.effect == Some(Effect::Allow) {
        resolved.effect = None;
    }
    if resolved.conditions == Some(RuleConditions::default()) {
        resolved.conditions = None;
    }
    if rule.target_id != "*" {
        resolved.target_id = target_id(tx, actor, rule).map_err(|r| r.at("target_id"))?;
    }
    if resolved.effect.is_none() && !actor.operator && !actor.rules.holds(tx, &actor.id, &resolved)? {
        return Err(Refusal::forbidden("you can't grant a right that you do not hold"));
    }
    Ok(resolved)
}

fn target_id(tx: &ReadTx<'_>, actor: &Actor, rule: &PermissionRule) -> Result<String, Refusal> {
    let kind = TargetKind::from(rule.target_kind.as_str());
    if kind == TargetKind::Group {
        let group = groups::by_id(tx, &rule.target_id)?.ok_or_else(Refusal::not_found)?;
        if !audience::sees_group(tx, actor, &group.id)? {
            return Err(Refusal::not_found());
        }
        return Ok(group.id.as_str().to_owned());
    }
    let party = audience::find(tx, &Target::new(kind, &rule.target_id))?.ok_or_else(Refusal::not_found)?;
    if !sees(tx, actor, &party)? {
        return Err(Refusal::not_found());
    }
    Ok(party.instance_id.map_or_else(|| party.id.as_str().to_owned(), |instance| instance.as_str().to_owned()))
}

/// Whether the actor may know of a party, as somebody who manages identities too.
pub(crate) fn sees(tx: &ReadTx<'_>, actor: &Actor, party: &Party) -> Result<bool, Refusal> {
    Ok(actor.may_view(tx, party)? || actor.manages(tx, "identity")?)
}

/// Whether the actor itself holds every right that reaches `subject`.
pub(crate) fn holds_all_of(tx: &ReadTx<'_>, actor: &Actor, subject: &PrincipalId) -> Result<bool, Refusal> {
    holds_each(tx, actor, &policies::rules_reaching(tx, subject)?)
}

fn holds_each(tx: &ReadTx<'_>, actor: &Actor, rules: &[PermissionRule]) -> Result<bool, Refusal> {
    if actor.operator {
        return Ok(true);
    }
    for rule in rules {
        if rule.effect != Some(Effect::Deny) && !actor.rules.holds(tx, &actor.id, rule)? {
            return Ok(false);
        }
    }
    Ok(true)
}

// ---- groups ---------------------------------------------------------------------------------------------------------------

/// Whether a new group has the right form.
pub(crate) fn check_group(input: &GroupInput) -> Result<(), Refusal> {
    checks::name("name", &input.name)?;
    if !input.purpose.is_known() {
        return Err(checks::one_of("purpose", input.purpose.as_str(), GroupPurpose::KNOWN));
    }
    check_members(&input.members)
}

/// Whether an edit of a group has the right form.
pub(crate) fn check_group_edit(input: &GroupEdit) -> Result<(), Refusal> {
    input.name.as_ref().map_or(Ok(()), |name| checks::name("name", name).map(drop))?;
    input.members.as_ref().map_or(Ok(()), |members| check_members(members))
}

fn check_members(members: &[PrincipalId]) -> Result<(), Refusal> {
    checks::count("members", members.len(), MAX_GROUP_MEMBERS)?;
    members.iter().enumerate().try_for_each(|(i, member)| checks::id(&format!("members[{i}]"), member.as_str()))
}

/// Members as ids: each visible to the actor and of a kind that fits the purpose.
fn resolve_members(
    tx: &ReadTx<'_>,
    actor: &Actor,
    purpose: &GroupPurpose,
    members: &[PrincipalId],
) -> Result<Vec<PrincipalId>, Refusal> {
    let mut ids = Vec::new();
    for (i, member) in members.iter().enumerate() {
        let place = format!("members[{i}]");
        let party = principals::party_by_id(tx, member)?.ok_or_else(Refusal::not_found).map_err(|r| r.at(&place))?;
        if !sees(tx, actor, &party)? {
            return Err(Refusal::not_found().at(&place));
        }
        let fits = match purpose {
            GroupPurpose::Team => party.kind == PrincipalKind::Person,
            GroupPurpose::AgentRole => party.kind == PrincipalKind::Agent,
            _ => true,
        };
        if !fits {
            return Err(Refusal::invalid(place, format!("a group with the purpose {purpose} takes no {}", party.kind)));
        }
        ids.push(party.id);
    }
    Ok(ids)
}

/// Makes a group.
pub(crate) fn create_group(tx: &WriteTx<'_>, actor: &Actor, input: &GroupInput) -> Result<GroupId, Refusal> {
    actor.must_manage(tx, "group")?;
    let members = resolve_members(tx, actor, &input.purpose, &input.members)?;
    let row = GroupRow {
        id: new_id(GroupId::PREFIX),
        name: checks::name("name", &input.name)?,
        purpose: input.purpose.clone(),
        version: 1,
        created_at: tx.now(),
    };
    groups::insert(tx, &row)?;
    groups::set_members(tx, &row.id, &members)?;
    changed(tx)?;
    Ok(row.id)
}

/// Edits a group.
pub(crate) fn edit_group(tx: &WriteTx<'_>, actor: &Actor, (id, input): &(String, GroupEdit)) -> Result<GroupId, Refusal> {
    let row = managed_group(tx, actor, id)?;
    if input.version != row.version {
        return Err(Refusal::version_conflict(row.version));
    }
    let name = input.name.as_ref().map_or(Ok(row.name), |name| checks::name("name", name))?;
    if let Some(members) = &input.members {
        // A new member gets what is bound to the group.
        for binding in policies::bindings_of(tx, row.id.as_str(), super::limits::MAX_LIST)? {
            let role = policies::role(tx, binding.role_id.as_str())?;
            if !role.map_or(Ok(true), |role| holds_each(tx, actor, &role.rules))? {
                return Err(Refusal::forbidden("members: a role bound to this group grants rights that you do not hold"));
            }
        }
        let members = resolve_members(tx, actor, &row.purpose, members)?;
        groups::set_members(tx, &row.id, &members)?;
    }
    groups::update(tx, &row.id, &name)?;
    changed(tx)?;
    Ok(row.id)
}

/// Deletes a group and what was bound to it.
pub(crate) fn delete_group(tx: &WriteTx<'_>, actor: &Actor, id: &str) -> Result<(), Refusal> {
    let row = managed_group(tx, actor, id)?;
    groups::delete(tx, &row.id)?;
    changed(tx)
}

fn managed_group(tx: &ReadTx<'_>, actor: &Actor, id: &str) -> Result<GroupRow, Refusal> {
    let row = groups::by_id(tx, id)?.ok_or_else(Refusal::not_found)?;
    if !audience::sees_group(tx, actor, &row.id)? {
        return Err(Refusal::not_found());
    }
    actor.must_manage(tx, "group")?;
    Ok(row)
}

/// A group as the actor may see it: the number of members, and those that are visible.
pub(crate) fn group(tx: &ReadTx<'_>, actor: &Actor, id: &GroupId) -> Result<Group, Refusal> {
    let row = groups::by_id(tx, id.as_str())?.ok_or_else(Refusal::not_found)?;
    let all = groups::members(tx, id)?;
    let mut members = Vec::new();
    for party in &all {
        if sees(tx, actor, party)? {
            members.push(party.id.clone());
        }
    }
    Ok(Group {
        id: row.id,
        name: row.name,
        purpose: row.purpose,
        members,
        member_count: i64::try_from(all.len()).unwrap_or(i64::MAX),
        version: row.version,
        created_at: row.created_at,
    })
}

// ---- roles and bindings ---------------------------------------------------------------------------------------------------

/// Whether a new role has the right form.
pub(crate) fn check_role(input: &RoleInput) -> Result<(), Refusal> {
    checks::name("name", &input.name)?;
    check_rules(&input.rules, MAX_ROLE_RULES)
}

/// Whether an edit of a role has the right form.
pub(crate) fn check_role_edit(input: &RoleEdit) -> Result<(), Refusal> {
    input.name.as_ref().map_or(Ok(()), |name| checks::name("name", name).map(drop))?;
    input.rules.as_ref().map_or(Ok(()), |rules| check_rules(rules, MAX_ROLE_RULES))
}

/// Makes a role.
pub(crate) fn create_role(tx: &WriteTx<'_>, actor: &Actor, input: &RoleInput) -> Result<RoleId, Refusal> {
    actor.must_manage(tx, "role")?;
    let row = RoleRow {
        id: new_id(RoleId::PREFIX),
        name: checks::name("name", &input.name)?,
        rules: resolve_rules(tx, actor, &input.rules)?,
        version: 1,
        created_at: tx.now(),
    };
    policies::insert_role(tx, &row)?;
    Ok(row.id)
}

/// Edits a role, for all it is bound to.
pub(crate) fn edit_role(tx: &WriteTx<'_>, actor: &Actor, (id, input): &(String, RoleEdit)) -> Result<RoleId, Refusal> {
    let mut row = managed_role(tx, actor, id)?;
    if input.version != row.version {
        return Err(Refusal::version_conflict(row.version));
    }
    if let Some(name) = &input.name {
        row.name = checks::name("name", name)?;
    }
    if let Some(rules) = &input.rules {
        row.rules = resolve_rules(tx, actor, rules)?;
    }
    policies::update_role(tx, &row)?;
    changed(tx)?;
    Ok(row.id)
}

/// Deletes a role and its bindings.
pub(crate) fn delete_role(tx: &WriteTx<'_>, actor: &Actor, id: &str) -> Result<(), Refusal> {
    let row = managed_role(tx, actor, id)?;
    policies::delete_role(tx, &row.id)?;
    changed(tx)
}

/// A role that the actor may manage. A subject sees the roles that reach it; everybody else does not know of them.
fn managed_role(tx: &ReadTx<'_>, actor: &Actor, id: &str) -> Result<RoleRow, Refusal> {
    let row = policies::role(tx, id)?.ok_or_else(Refusal::not_found)?;
    if actor.manages(tx, "role")? {
        return Ok(row);
    }
    if reaches(tx, actor, &row.id)? {
        return Err(Refusal::forbidden("needs the right to manage role"));
    }
    Err(Refusal::not_found())
}

fn reaches(tx: &ReadTx<'_>, actor: &Actor, role: &RoleId) -> Result<bool, Refusal> {
    let mut subjects = vec![actor.id.as_str().to_owned()];
    subjects.extend(groups::ids_of_member(tx, &actor.id)?.iter().map(|group| group.as_str().to_owned()));
    for subject in subjects {
        let bound = policies::bindings_of(tx, &subject, super::limits::MAX_LIST)?;
        if bound.iter().any(|binding| binding.role_id == *role) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A role as it stands.
pub(crate) fn role(tx: &ReadTx<'_>, id: &RoleId) -> Result<Role, Refusal> {
    let RoleRow { id, name, rules, version, created_at } = policies::role(tx, id.as_str())?.ok_or_else(Refusal::not_found)?;
    Ok(Role { id, name, rules, version, created_at })
}

/// Whether a binding has the right form.
pub(crate) fn check_binding(input: &RoleBindingInput) -> Result<(), Refusal> {
    checks::id("role_id", input.role_id.as_str())?;
    checks::id("subject_id", &input.subject_id)?;
    if !input.subject_kind.is_known() {
        return Err(checks::one_of("subject_kind", input.subject_kind.as_str(), SubjectKind::KNOWN));
    }
    Ok(())
}

/// Gives a role to a principal or a group.
pub(crate) fn bind(tx: &WriteTx<'_>, actor: &Actor, input: &RoleBindingInput) -> Result<RoleBindingId, Refusal> {
    let role = managed_role(tx, actor, input.role_id.as_str()).map_err(|r| r.at("role_id"))?;
    let subject_id = subject(tx, actor, input).map_err(|r| r.at("subject_id"))?;
    if !holds_each(tx, actor, &role.rules)? {
        return Err(Refusal::forbidden("role_id: this role grants rights that you do not hold"));
    }
    let binding = RoleBinding {
        id: new_id(RoleBindingId::PREFIX),
        role_id: role.id,
        subject_kind: input.subject_kind.clone(),
        subject_id,
        created_at: tx.now(),
    };
    if !policies::insert_binding(tx, &binding)? {
        return Err(Refusal::conflict(ErrorCode::AlreadyExists, "this subject has this role already"));
    }
    changed(tx)?;
    Ok(binding.id)
}

fn subject(tx: &ReadTx<'_>, actor: &Actor, input: &RoleBindingInput) -> Result<String, Refusal> {
    if input.subject_kind == SubjectKind::Group {
        let group = groups::by_id(tx, &input.subject_id)?.ok_or_else(Refusal::not_found)?;
        if !audience::sees_group(tx, actor, &group.id)? {
            return Err(Refusal::not_found());
        }
        return Ok(group.id.as_str().to_owned());
    }
    let party = principals::party_by_id(tx, &PrincipalId::new(&input.subject_id))?.ok_or_else(Refusal::not_found)?;
    if !sees(tx, actor, &party)? {
        return Err(Refusal::not_found());
    }
    Ok(party.id.as_str().to_owned())
}

/// Takes a role back.
pub(crate) fn unbind(tx: &WriteTx<'_>, actor: &Actor, id: &str) -> Result<(), Refusal> {
    let binding = policies::binding_by_id(tx, id)?.ok_or_else(Refusal::not_found)?;
    managed_role(tx, actor, binding.role_id.as_str())?;
    policies::delete_binding(tx, id)?;
    changed(tx)
}

/// A binding as it stands.
pub(crate) fn binding(tx: &ReadTx<'_>, id: &RoleBindingId) -> Result<RoleBinding, Refusal> {
    policies::binding_by_id(tx, id.as_str())?.ok_or_else(Refusal::not_found)
}

// ---- contact policies -----------------------------------------------------------------------------------------------------

/// Whether a contact policy has the right form.
pub(crate) fn check_policy(input: &ContactPermissionsInput) -> Result<(), Refusal> {
    checks::target("subject", &input.subject)?;
    if matches!(input.subject.kind, TargetKind::Instance | TargetKind::Group) {
        return Err(Refusal::invalid("subject.kind", "a contact policy belongs to a person, an agent or a service"));
    }
    checks::range("version", input.version, 0, i64::MAX)?;
    check_rules(&input.rules, MAX_POLICY_RULES)?;
    match input.rules.iter().position(|rule| rule.action == RuleAction::Manage) {
        Some(i) => {
            Err(Refusal::invalid(format!("rules[{i}].action"), "management is delegated by a role, not by a contact policy"))
        }
        None => Ok(()),
    }
}

/// Replaces a subject's contact policy.
pub(crate) fn save_policy(
    tx: &WriteTx<'_>,
    actor: &Actor,
    input: &ContactPermissionsInput,
) -> Result<ContactPermissions, Refusal> {
    let party = audience::find(tx, &input.subject)?.ok_or_else(Refusal::not_found).map_err(|r| r.at("subject"))?;
    if !sees(tx, actor, &party)? {
        return Err(Refusal::not_found().at("subject"));
    }
    actor.must_manage(tx, "identity")?;
    if party.id == actor.id {
        return Err(Refusal::forbidden("subject: nobody saves its own contact policy"));
    }
    let stored = policies::policy(tx, party.id.as_str())?.map_or(0, |policy| policy.version);
    if stored != input.version {
        return Err(Refusal::version_conflict(stored));
    }
    let policy = PolicyRow { version: stored + 1, rules: resolve_rules(tx, actor, &input.rules)? };
    policies::save_policy(tx, party.kind.as_str(), party.id.as_str(), &policy)?;
    changed(tx)?;
    let subject = Target::new(party.kind.into(), party.id.as_str());
    Ok(ContactPermissions { subject, rules: policy.rules, version: policy.version })
}
