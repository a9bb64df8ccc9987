//! Answers to "what may be done, and why": access, explanations, capabilities, previews. Nothing here grants anything.

use std::collections::BTreeMap;

use beepgrid::{
    Access, AccessRole, Action, CapabilityInput, CapabilityResult, ContactPreview, ContactPreviewInput, Effect,
    EffectivePermission, ExplainInput, Explanation, Permission, PermissionRule, Policy, PrincipalId, RoleName, RolePreview,
    RolePreviewInput, RuleAction, RuleSource, SubjectKind, Target, TargetKind,
};

use super::actor::{Actor, Need};
use super::audience::{self, Party};
use super::limits::{MAX_BATCH_TARGETS, MAX_LIST, MAX_POLICY_RULES, MAX_ROLE_RULES};
use super::permissions::SubjectRules;
use super::policies::{self as rules, sees};
use super::requests::capabilities;
use super::{Refusal, checks};
use crate::store::policies::{self, SourceRow};
use crate::store::{ReadTx, groups, principals};

/// The actions that a contact rule can be about.
const CONTACT: [RuleAction; 4] = [RuleAction::View, RuleAction::Message, RuleAction::Ask, RuleAction::Decide];

/// The subject of a question about access: the caller itself, or anybody for a manager of identities.
fn subject(tx: &ReadTx<'_>, actor: &Actor, id: Option<&str>) -> Result<Party, Refusal> {
    let Some(id) = id.filter(|id| *id != actor.id.as_str()) else { return Ok(actor.as_party()) };
    let unseen = || Refusal::not_found().at("subject_id");
    if !actor.manages(tx, "identity")? {
        return Err(unseen());
    }
    if let Some(party) = principals::party_by_id(tx, &PrincipalId::new(id))? {
        return Ok(party);
    }
    for kind in ["person", "agent", "service"] {
        if let Some(party) = principals::party_by_any_id(tx, kind, id)? {
            return Ok(party);
        }
    }
    Err(unseen())
}

/// Which roles and which policy reach a subject.
pub(crate) fn access(tx: &ReadTx<'_>, actor: &Actor, subject_id: Option<&str>) -> Result<Access, Refusal> {
    let party = subject(tx, actor, subject_id)?;
    let mut roles = Vec::new();
    for source in policies::sources_reaching(tx, party.id.as_str())? {
        if let Some((id, name, binding_id)) = source.role {
            let via = source.via.unwrap_or_else(|| "direct".to_owned());
            roles.push(AccessRole { role: RoleName { id, name }, binding_id, via });
        }
    }
    Ok(Access {
        subject: Target::new(party.kind.clone().into(), party.id.as_str()),
        operator: party.operator,
        roles,
        policy: saved_policy(tx, &party)?,
    })
}

fn saved_policy(tx: &ReadTx<'_>, party: &Party) -> Result<Policy, Refusal> {
    Ok(policies::policy(tx, party.id.as_str())?
        .map_or_else(Policy::default, |row| Policy { version: row.version, rules: row.rules }))
}

/// Bindings of one subject, as far as the actor may see them.
pub(crate) fn bindings(tx: &ReadTx<'_>, actor: &Actor, subject_id: &str) -> Result<Vec<beepgrid::RoleBinding>, Refusal> {
    let own =
        subject_id == actor.id.as_str() || groups::ids_of_member(tx, &actor.id)?.iter().any(|group| group.as_str() == subject_id);
    if !own && !actor.manages(tx, "role")? {
        return Err(Refusal::not_found().at("subject_id"));
    }
    Ok(policies::bindings_of(tx, subject_id, MAX_LIST)?)
}

/// Whether a question for an explanation has the right form.
pub(crate) fn check_explain(input: &ExplainInput) -> Result<(), Refusal> {
    if !input.action.is_known() {
        return Err(checks::one_of("action", input.action.as_str(), RuleAction::KNOWN));
    }
    if input.action == RuleAction::Manage { Ok(()) } else { checks::target("target", &input.target) }
}

/// Whether one action is allowed, and which rules decide it.
pub(crate) fn explain(tx: &ReadTx<'_>, actor: &Actor, input: &ExplainInput) -> Result<Explanation, Refusal> {
    let subject = subject(tx, actor, input.subject_id.as_deref())?;
    let sources = policies::sources_reaching(tx, subject.id.as_str())?;
    if input.action == RuleAction::Manage {
        return Ok(explain_manage(&subject, &sources, input.target.kind.as_str()));
    }
    let towards = Towards::find(tx, actor, &input.target)?;
    if subject.operator {
        let reason = "an operator needs no rule".to_owned();
        return Ok(Explanation { allowed: input.action != RuleAction::Decide, reason, sources: Vec::new() });
    }
    let compiled = SubjectRules::compile(sources.iter().flat_map(|source| source.rules.clone()));
    let descriptor = input.descriptor.as_ref();
    let allowed = towards.allowed(tx, &compiled, &input.action, descriptor)?;
    let deciding = towards.deciding(tx, &sources, &input.action, descriptor)?;
    let denied = deciding.iter().any(|source| source.rule.effect == Some(Effect::Deny));
    let reason = match (allowed, denied, deciding.is_empty()) {
        (true, ..) => "a rule allows it and none denies it",
        (_, true, _) => "a rule denies it, which wins over every allow",
        (_, _, true) => "no rule allows it",
        _ => "the rules that name it do not reach this far",
    };
    Ok(Explanation { allowed, reason: reason.to_owned(), sources: deciding })
}

fn explain_manage(subject: &Party, sources: &[SourceRow], kind: &str) -> Explanation {
    let compiled = SubjectRules::compile(sources.iter().flat_map(|source| source.rules.clone()));
    let allowed = subject.operator || compiled.manages(kind);
    let deciding = each_rule(sources)
        .filter(|source| {
            source.rule.action == RuleAction::Manage && (source.rule.target_kind == kind || source.rule.target_kind == "*")
        })
        .collect();
    let reason = if subject.operator {
        "an operator needs no rule"
    } else if allowed {
        "management of this kind is delegated to it"
    } else {
        "no rule delegates management of this kind"
    };
    Explanation { allowed, reason: reason.to_owned(), sources: deciding }
}

fn each_rule(sources: &[SourceRow]) -> impl Iterator<Item = RuleSource> + '_ {
    sources.iter().flat_map(|source| {
        source.rules.iter().map(|rule| RuleSource {
            kind: if source.role.is_some() { "role" } else { "policy" }.to_owned(),
            role_id: source.role.as_ref().map(|(id, ..)| id.clone()),
            via: match (&source.role, &source.via) {
                (Some(_), Some(group)) => group.clone(),
                (Some(_), None) => "direct".to_owned(),
                _ => String::new(),
            },
            rule: rule.clone(),
        })
    })
}

/// A target that the actor knows of.
enum Towards {
    Party(Party),
    Group(String),
}

impl Towards {
    fn find(tx: &ReadTx<'_>, actor: &Actor, target: &Target) -> Result<Self, Refusal> {
        let unseen = || Refusal::not_found().at("target");
        if target.kind == TargetKind::Group {
            let group = groups::by_id(tx, &target.id)?.ok_or_else(unseen)?;
            let seen = audience::sees_group(tx, actor, &group.id)?;
            return if seen { Ok(Self::Group(group.id.as_str().to_owned())) } else { Err(unseen()) };
        }
        let party = audience::find(tx, target)?.ok_or_else(unseen)?;
        if sees(tx, actor, &party)? { Ok(Self::Party(party)) } else { Err(unseen()) }
    }

    fn target(&self) -> Target {
        match self {
            Self::Group(id) => Target::new(TargetKind::Group, id),
            Self::Party(party) => match &party.instance_id {
                Some(instance) => Target::instance(instance),
                None => Target::new(party.kind.clone().into(), party.id.as_str()),
            },
        }
    }

    fn allowed(
        &self,
        tx: &ReadTx<'_>,
        compiled: &SubjectRules,
        action: &RuleAction,
        descriptor: Option<&Action>,
    ) -> Result<bool, Refusal> {
        match (self, action) {
            (Self::Group(id), _) => Ok(compiled.allows_group(action, id)),
            (Self::Party(party), RuleAction::View) => compiled.views(tx, party),
            // Deciding needs no rule: being asked is the right, and only a deny takes it away.
            (Self::Party(party), RuleAction::Decide) => Ok(!compiled.denied(tx, action, party)?),
            (Self::Party(party), _) => compiled.allowed(tx, action, party, descriptor),
        }
    }

    /// The rules that matter for an action: denies on it or on `view` first, then what allows it.
    fn deciding(
        &self,
        tx: &ReadTx<'_>,
        sources: &[SourceRow],
        action: &RuleAction,
        descriptor: Option<&Action>,
    ) -> Result<Vec<RuleSource>, Refusal> {
        let (mut denies, mut allows) = (Vec::new(), Vec::new());
        for source in each_rule(sources) {
            let deny = source.rule.effect == Some(Effect::Deny);
            let implied =
                !deny && *action == RuleAction::View && matches!(source.rule.action, RuleAction::Message | RuleAction::Ask);
            let by_view = deny && source.rule.action == RuleAction::View;
            if source.rule.action != *action && !implied && !by_view {
                continue;
            }
            // Looked at as an allow: whether the rule names the target.
            let alone = SubjectRules::compile([PermissionRule { effect: None, ..source.rule.clone() }]);
            if self.allowed(tx, &alone, if implied { action } else { &source.rule.action }, descriptor)? {
                if deny { denies.push(source) } else { allows.push(source) }
            }
        }
        denies.extend(allows);
        Ok(denies)
    }

    fn effective(&self, tx: &ReadTx<'_>, operator: bool, sources: &[SourceRow]) -> Result<EffectivePermission, Refusal> {
        let compiled = SubjectRules::compile(sources.iter().flat_map(|source| source.rules.clone()));
        let (mut operations, mut deciding) = (BTreeMap::new(), Vec::new());
        for action in CONTACT {
            let allowed = operator || self.allowed(tx, &compiled, &action, None)?;
            operations.insert(action.as_str().to_owned(), allowed);
            for source in self.deciding(tx, sources, &action, None)? {
                if !deciding.contains(&source) {
                    deciding.push(source);
                }
            }
        }
        deciding.sort_by_key(|source| source.rule.effect != Some(Effect::Deny));
        Ok(EffectivePermission { subject: None, target: self.target(), operations, sources: deciding })
    }
}

/// Whether a preview of a contact policy has the right form.
pub(crate) fn check_contact_preview(input: &ContactPreviewInput) -> Result<(), Refusal> {
    checks::target("subject", &input.subject)?;
    checks::count("targets", input.targets.len(), MAX_BATCH_TARGETS)?;
    for (i, target) in input.targets.iter().enumerate() {
        checks::target(&format!("targets[{i}]"), target)?;
    }
    input.rules.as_ref().map_or(Ok(()), |list| rules::check_rules(list, MAX_POLICY_RULES))
}

/// What a contact policy would mean together with the subject's roles, and whether the actor may save it.
pub(crate) fn preview_policy(tx: &ReadTx<'_>, actor: &Actor, input: &ContactPreviewInput) -> Result<ContactPreview, Refusal> {
    let unseen = || Refusal::not_found().at("subject");
    let party = audience::find(tx, &input.subject)?.ok_or_else(unseen)?;
    let manager = actor.manages(tx, "identity")?;
    if party.id != actor.id && !manager {
        return Err(unseen());
    }
    let saved = saved_policy(tx, &party)?;
    let proposed = input.rules.clone().unwrap_or_else(|| saved.rules.clone());
    let mut sources: Vec<SourceRow> =
        policies::sources_reaching(tx, party.id.as_str())?.into_iter().filter(|source| source.role.is_some()).collect();
    sources.push(SourceRow { role: None, via: None, rules: proposed.clone() });
    let mut warnings = warnings(&proposed);
    let fits = input.version == saved.version;
    if !fits {
        warnings.push(format!("the saved policy is at version {}; read it again before saving", saved.version));
    }
    let granted = rules::may_grant(tx, actor, &proposed);
    if let Err(refusal) = &granted {
        warnings.push(refusal_text(refusal));
    }
    let mut effective = Vec::new();
    for target in looked_at(&input.targets, &proposed) {
        // What the actor may not see is left out of its preview.
        if let Ok(towards) = Towards::find(tx, actor, &target) {
            effective.push(towards.effective(tx, party.operator, &sources)?);
        }
    }
    Ok(ContactPreview {
        policy: Policy { version: saved.version, rules: proposed },
        effective,
        warnings,
        can_save: manager && party.id != actor.id && fits && granted.is_ok(),
    })
}

fn refusal_text(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Invalid { field, message } | Refusal::Forbidden { field, message } => format!("{field}: {message}"),
        Refusal::NotFound { field } => format!("{field}: not found, or not visible to you"),
        _ => "this can't be saved".to_owned(),
    }
}

/// The targets that were asked about, or those that the rules name.
fn looked_at(asked: &[Target], rules: &[PermissionRule]) -> Vec<Target> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    let mut named: Vec<Target> = rules
        .iter()
        .filter(|rule| rule.target_id != "*" && rule.action != RuleAction::Manage)
        .map(|rule| Target::new(rule.target_kind.as_str().into(), &rule.target_id))
        .collect();
    named.sort();
    named.dedup();
    named.truncate(MAX_BATCH_TARGETS);
    named
}

fn warnings(rules: &[PermissionRule]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (i, rule) in rules.iter().enumerate() {
        if rule.target_id == "*" {
            warnings.push(format!("rules[{i}] covers every {} there is and will be", rule.target_kind));
        }
        let denied = rules.iter().any(|other| {
            other.effect == Some(Effect::Deny)
                && rule.effect != Some(Effect::Deny)
                && other.action == rule.action
                && other.target_kind == rule.target_kind
                && other.target_id == rule.target_id
        });
        if denied {
            warnings.push(format!("rules[{i}] has no effect: another rule denies the same"));
        }
    }
    warnings
}

/// Whether a preview of a role has the right form.
pub(crate) fn check_role_preview(input: &RolePreviewInput) -> Result<(), Refusal> {
    checks::count("subjects", input.subjects.len(), MAX_BATCH_TARGETS)?;
    rules::check_rules(&input.rules, MAX_ROLE_RULES)
}

/// What a role with these rules would mean for its subjects, together with what reaches them besides.
pub(crate) fn preview_role(tx: &ReadTx<'_>, actor: &Actor, input: &RolePreviewInput) -> Result<RolePreview, Refusal> {
    actor.must_manage(tx, "role")?;
    if let Some(id) = &input.role_id {
        policies::role(tx, id.as_str())?.ok_or_else(|| Refusal::not_found().at("role_id"))?;
    }
    let mut warnings = warnings(&input.rules);
    if let Err(refusal) = rules::may_grant(tx, actor, &input.rules) {
        warnings.push(refusal_text(&refusal));
    }
    let mut effective = Vec::new();
    for party in preview_subjects(tx, actor, input)? {
        let mut sources: Vec<SourceRow> = policies::sources_reaching(tx, party.id.as_str())?
            .into_iter()
            .filter(|source| source.role.as_ref().is_none_or(|(id, ..)| Some(id) != input.role_id.as_ref()))
            .collect();
        sources.push(SourceRow { role: None, via: None, rules: input.rules.clone() });
        for target in looked_at(&[], &input.rules) {
            if let Ok(towards) = Towards::find(tx, actor, &target) {
                let subject = Some(Target::new(party.kind.clone().into(), party.id.as_str()));
                effective.push(EffectivePermission { subject, ..towards.effective(tx, party.operator, &sources)? });
            }
        }
    }
    Ok(RolePreview { effective, warnings })
}

/// The subjects that were asked about, or those that the role reaches now; at most 100.
fn preview_subjects(tx: &ReadTx<'_>, actor: &Actor, input: &RolePreviewInput) -> Result<Vec<Party>, Refusal> {
    let mut parties = Vec::new();
    for (i, target) in input.subjects.iter().enumerate() {
        let unseen = || Refusal::not_found().at(&format!("subjects[{i}]"));
        let party = audience::find(tx, target)?.ok_or_else(unseen)?;
        if !sees(tx, actor, &party)? {
            return Err(unseen());
        }
        parties.push(party);
    }
    let role = input.role_id.as_ref().filter(|_| input.subjects.is_empty());
    for binding in role.map_or(Ok(Vec::new()), |role| policies::bindings_of_role(tx, role, MAX_LIST))? {
        if binding.subject_kind == SubjectKind::Group {
            parties.extend(groups::members(tx, &binding.subject_id.as_str().into())?);
        } else {
            parties.extend(principals::party_by_id(tx, &PrincipalId::new(&binding.subject_id))?);
        }
    }
    parties.sort_by(|a, b| a.id.cmp(&b.id));
    parties.dedup_by(|a, b| a.id == b.id);
    parties.truncate(MAX_BATCH_TARGETS);
    Ok(parties)
}

/// Whether a question for capabilities has the right form.
pub(crate) fn check_capabilities(input: &CapabilityInput) -> Result<(), Refusal> {
    let asked = [input.target.is_some(), input.request_id.is_some(), input.connection_id.is_some()];
    if asked.iter().filter(|asked| **asked).count() != 1 {
        return Err(Refusal::invalid("target", "exactly one of target, request_id and connection_id"));
    }
    input.target.as_ref().map_or(Ok(()), |target| checks::target("target", target))
}

/// What is open to the actor at this moment; something that it may not see answers false throughout.
pub(crate) fn capability(tx: &ReadTx<'_>, actor: &Actor, input: &CapabilityInput) -> Result<CapabilityResult, Refusal> {
    let none = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), false)).collect::<BTreeMap<_, _>>();
    let mut result =
        CapabilityResult { observed_at: tx.now(), operations: BTreeMap::new(), request_version: None, outcomes: Vec::new() };
    if let Some(target) = &input.target {
        result.operations = none(&["view", "message", "ask"]);
        let parts = [Permission::Read, Permission::Message, Permission::Request];
        for (action, part) in [RuleAction::View, RuleAction::Message, RuleAction::Ask].into_iter().zip(parts) {
            let open = actor.need(&Need::Ceiling(part)).is_ok()
                && towards_target(tx, actor, target, &action, input.descriptor.as_ref())?;
            result.operations.insert(action.as_str().to_owned(), open);
        }
    } else if let Some(id) = &input.request_id {
        capabilities::of_request(tx, actor, id, &mut result)?;
    } else {
        let manages = actor.manages(tx, "connection")?;
        result.operations = none(&["view", "manage", "test"]);
        let enabled = input.connection_id.as_ref().map_or(Ok(None), |id| super::channels::is_enabled(tx, id))?;
        if let Some(enabled) = enabled.filter(|_| manages) {
            for (name, open) in &mut result.operations {
                let part = if name == "view" { Permission::Read } else { Permission::Manage };
                *open = actor.need(&Need::Ceiling(part)).is_ok() && (enabled || name != "test");
            }
        }
    }
    Ok(result)
}

/// Whether the write itself would be let through now.
fn towards_target(
    tx: &ReadTx<'_>,
    actor: &Actor,
    target: &Target,
    action: &RuleAction,
    descriptor: Option<&Action>,
) -> Result<bool, Refusal> {
    let outcome = match (action, &target.kind) {
        (RuleAction::View, _) => Towards::find(tx, actor, target).map(drop),
        (_, TargetKind::Group) => audience::reach_group(tx, actor, target, action).map(drop),
        _ => audience::reach(tx, actor, target, action, descriptor).and_then(|party| {
            if party.id == actor.id && *action == RuleAction::Message { Err(Refusal::forbidden("itself")) } else { Ok(()) }
        }),
    };
    match outcome {
        Ok(()) => Ok(true),
        Err(Refusal::NotFound { .. } | Refusal::Forbidden { .. } | Refusal::Invalid { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}
