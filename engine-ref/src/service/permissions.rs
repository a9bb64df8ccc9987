//! Contact rules, compiled per subject and kept for as long as the policy epoch stands.
//!
//! A write that changes rules, roles, bindings or group members gives the workspace a new epoch in the same transaction, so a
//! compiled set is never used beyond the policy it was made from. Whether a party belongs to a group is read from the
//! transaction, by index.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use beepgrid::{Action, Effect, InstanceId, PermissionRule, PrincipalId, PrincipalKind, RuleAction, RuleConditions, TargetKind};

use super::Refusal;
use super::audience::Party;
use crate::store::{ReadTx, groups, policies};

/// The resource that is the account: a rule may let a person view it.
pub(crate) const ACCOUNT: &str = "account";

/// Compiled rules of the subjects that were asked about, for one epoch.
#[derive(Clone, Debug, Default)]
pub(crate) struct RulesCache(Arc<Mutex<Compiled>>);

#[derive(Debug, Default)]
struct Compiled {
    epoch: String,
    subjects: HashMap<PrincipalId, Arc<SubjectRules>>,
}

/// The rules as of one epoch.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    cache: RulesCache,
    epoch: String,
}

/// What a rule may be narrowed to: the bound action of an ask.
pub(crate) type Descriptor<'d> = Option<&'d Action>;

/// Compiled rules of one subject, or of a proposal that is looked at before it is saved.
#[derive(Debug, Default)]
pub(crate) struct SubjectRules {
    allows: HashMap<RuleAction, Matcher>,
    denies: HashMap<RuleAction, Matcher>,
}

/// Targets of one action, ready to be looked up.
#[derive(Debug, Default)]
struct Matcher {
    /// Kinds of which all match (`*`); for `manage` the resource kinds.
    kinds: HashSet<String>,
    /// Principals and instances by id.
    ids: HashSet<String>,
    /// Groups by id, and all of them.
    groups: HashSet<String>,
    all_groups: bool,
    /// Rules with conditions, asked one by one.
    narrowed: Vec<PermissionRule>,
}

impl Matcher {
    fn add(&mut self, rule: PermissionRule) {
        if rule.conditions.is_some() {
            self.narrowed.push(rule);
        } else if rule.target_kind == TargetKind::Group.as_str() && rule.action != RuleAction::Manage {
            if rule.target_id == "*" {
                self.all_groups = true;
            } else {
                self.groups.insert(rule.target_id);
            }
        } else if rule.target_id == "*" {
            self.kinds.insert(rule.target_kind);
        } else {
            self.ids.insert(rule.target_id);
        }
    }

    fn matches_itself(&self, party: &Party) -> bool {
        let instance = party.instance_id.as_ref();
        self.ids.contains(party.id.as_str())
            || self.kinds.contains(party.kind.as_str())
            || instance.is_some_and(|id| self.ids.contains(id.as_str()))
            || (instance.is_some() && self.kinds.contains(TargetKind::Instance.as_str()))
    }

    fn matches_group_of(&self, tx: &ReadTx<'_>, party: &Party) -> Result<bool, Refusal> {
        if self.groups.is_empty() && !self.all_groups {
            return Ok(false);
        }
        let of_party = groups::ids_of_member(tx, &party.id)?;
        Ok(of_party.iter().any(|group| self.all_groups || self.groups.contains(group.as_str())))
    }

    fn matches(&self, tx: &ReadTx<'_>, party: &Party, descriptor: Descriptor<'_>) -> Result<bool, Refusal> {
        Ok(self.matches_itself(party)
            || self.narrowed.iter().any(|rule| narrowed_matches(rule, party, descriptor))
            || self.matches_group_of(tx, party)?)
    }
}

fn narrowed_matches(rule: &PermissionRule, party: &Party, descriptor: Descriptor<'_>) -> bool {
    let Some(RuleConditions { connection_id: None, action_name, resource }) = &rule.conditions else {
        return false; // narrowed to a channel connection: never by itself
    };
    let Some(action) = descriptor else { return false };
    let fits = action_name.as_ref().is_none_or(|name| *name == action.name)
        && resource.as_ref().is_none_or(|resource| *resource == action.resource);
    let hits = rule.target_id == party.id.as_str()
        || (rule.target_id == "*" && rule.target_kind == party.kind.as_str())
        || party.instance_id.as_ref().is_some_and(|instance| rule.target_id == instance.as_str());
    fits && hits
}

impl SubjectRules {
    fn load(tx: &ReadTx<'_>, subject: &PrincipalId) -> Result<Self, Refusal> {
        Ok(Self::compile(policies::rules_reaching(tx, subject)?))
    }

    pub(crate) fn compile(rules: impl IntoIterator<Item = PermissionRule>) -> Self {
        let mut compiled = Self::default();
        for rule in rules {
            let side = if rule.effect == Some(Effect::Deny) { &mut compiled.denies } else { &mut compiled.allows };
            side.entry(rule.action.clone()).or_default().add(rule);
        }
        compiled
    }

    pub(crate) fn denied(&self, tx: &ReadTx<'_>, action: &RuleAction, party: &Party) -> Result<bool, Refusal> {
        let hit = |action: &RuleAction| match self.denies.get(action) {
            Some(matcher) => matcher.matches(tx, party, None),
            None => Ok(false),
        };
        // A deny on `view` takes `message` and `ask` with it.
        let by_view = matches!(action, RuleAction::Message | RuleAction::Ask) && hit(&RuleAction::View)?;
        Ok(by_view || hit(action)?)
    }

    pub(crate) fn allowed(
        &self,
        tx: &ReadTx<'_>,
        action: &RuleAction,
        party: &Party,
        descriptor: Descriptor<'_>,
    ) -> Result<bool, Refusal> {
        match self.allows.get(action) {
            Some(matcher) if matcher.matches(tx, party, descriptor)? => Ok(!self.denied(tx, action, party)?),
            _ => Ok(false),
        }
    }

    /// Whether `party` may be known of: by a `view` rule, or by a `message` or `ask` rule that names it or its kind. A rule on a
    /// group reaches its members for its own action only and does not show who they are.
    pub(crate) fn views(&self, tx: &ReadTx<'_>, party: &Party) -> Result<bool, Refusal> {
        if self.denied(tx, &RuleAction::View, party)? {
            return Ok(false);
        }
        if self.allowed(tx, &RuleAction::View, party, None)? {
            return Ok(true);
        }
        for action in [RuleAction::Message, RuleAction::Ask] {
            let itself = self.allows.get(&action).is_some_and(|matcher| {
                matcher.matches_itself(party) || matcher.narrowed.iter().any(|rule| rule.target_id == party.id.as_str())
            });
            if itself && !self.denied(tx, &action, party)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a rule with this action names the group itself, and no deny does.
    pub(crate) fn allows_group(&self, action: &RuleAction, group: &str) -> bool {
        let names = |side: &HashMap<RuleAction, Matcher>, action: &RuleAction| {
            side.get(action).is_some_and(|matcher| matcher.all_groups || matcher.groups.contains(group))
        };
        let denied = names(&self.denies, action) || names(&self.denies, &RuleAction::View);
        !denied && names(&self.allows, action)
    }

    /// Whether resources of `kind` (or all) may be managed.
    pub(crate) fn manages(&self, kind: &str) -> bool {
        self.allows.get(&RuleAction::Manage).is_some_and(|matcher| matcher.kinds.contains(kind) || matcher.kinds.contains("*"))
    }
}

impl RulesCache {
    fn lock(&self) -> MutexGuard<'_, Compiled> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rules {
    pub(crate) fn new(cache: &RulesCache, epoch: String) -> Self {
        Self { cache: cache.clone(), epoch }
    }

    fn of(&self, tx: &ReadTx<'_>, subject: &PrincipalId) -> Result<Arc<SubjectRules>, Refusal> {
        {
            let cached = self.cache.lock();
            if cached.epoch == self.epoch
                && let Some(rules) = cached.subjects.get(subject)
            {
                return Ok(rules.clone());
            }
        }
        let rules = Arc::new(SubjectRules::load(tx, subject)?);
        let mut cached = self.cache.lock();
        // Epochs grow; one that is older than the cache's is a reader's that began before the last change.
        if self.epoch > cached.epoch {
            cached.epoch.clone_from(&self.epoch);
            cached.subjects.clear();
        }
        if self.epoch == cached.epoch {
            cached.subjects.insert(subject.clone(), rules.clone());
        }
        Ok(rules)
    }

    /// Whether a rule lets `subject` do `action` towards `party` and no deny stands against it.
    pub(crate) fn allows(
        &self,
        tx: &ReadTx<'_>,
        subject: &PrincipalId,
        action: &RuleAction,
        party: &Party,
    ) -> Result<bool, Refusal> {
        self.allows_with(tx, subject, action, party, None)
    }

    /// The same for an ask that binds an action, which conditions can be narrowed to.
    pub(crate) fn allows_with(
        &self,
        tx: &ReadTx<'_>,
        subject: &PrincipalId,
        action: &RuleAction,
        party: &Party,
        descriptor: Descriptor<'_>,
    ) -> Result<bool, Refusal> {
        self.of(tx, subject)?.allowed(tx, action, party, descriptor)
    }

    /// Whether `subject` may know of `party`.
    pub(crate) fn views(&self, tx: &ReadTx<'_>, subject: &PrincipalId, party: &Party) -> Result<bool, Refusal> {
        self.of(tx, subject)?.views(tx, party)
    }

    /// Whether a deny of `subject` on `action` matches `party`.
    pub(crate) fn denied(
        &self,
        tx: &ReadTx<'_>,
        subject: &PrincipalId,
        action: &RuleAction,
        party: &Party,
    ) -> Result<bool, Refusal> {
        self.of(tx, subject)?.denied(tx, action, party)
    }

    /// Whether a rule of `subject` with this action names the group itself, and no deny does.
    pub(crate) fn allows_group(
        &self,
        tx: &ReadTx<'_>,
        subject: &PrincipalId,
        action: &RuleAction,
        group: &str,
    ) -> Result<bool, Refusal> {
        Ok(self.of(tx, subject)?.allows_group(action, group))
    }

    /// The principals whom `subject`'s rules can make visible, by name or as members of a named group, denies left aside; `None` when a
    /// rule covers all of the kind or all groups.
    pub(crate) fn named(
        &self,
        tx: &ReadTx<'_>,
        subject: &PrincipalId,
        kind: &PrincipalKind,
    ) -> Result<Option<BTreeSet<String>>, Refusal> {
        let rules = self.of(tx, subject)?;
        let mut ids = BTreeSet::new();
        for action in [RuleAction::View, RuleAction::Message, RuleAction::Ask] {
            let Some(matcher) = rules.allows.get(&action) else { continue };
            let views = action == RuleAction::View;
            if matcher.kinds.contains(kind.as_str()) || (views && matcher.all_groups) {
                return Ok(None);
            }
            ids.extend(matcher.ids.iter().cloned());
            ids.extend(matcher.narrowed.iter().map(|rule| rule.target_id.clone()));
            for group in matcher.groups.iter().filter(|_| views) {
                let members = groups::members(tx, &group.as_str().into())?;
                ids.extend(members.into_iter().map(|party| party.id.as_str().to_owned()));
            }
        }
        Ok(Some(ids))
    }

    /// Whether `subject` may see what the engine is limited to.
    pub(crate) fn views_account(&self, tx: &ReadTx<'_>, subject: &PrincipalId) -> Result<bool, Refusal> {
        Ok(self.of(tx, subject)?.allows.get(&RuleAction::View).is_some_and(|matcher| matcher.kinds.contains(ACCOUNT)))
    }

    /// The runtime connections that `subject`'s rules name one by one.
    pub(crate) fn named_instances(&self, tx: &ReadTx<'_>, subject: &PrincipalId) -> Result<Vec<String>, Refusal> {
        let rules = self.of(tx, subject)?;
        let named = rules.allows.values().flat_map(|matcher| &matcher.ids).filter(|id| id.starts_with(InstanceId::PREFIX));
        Ok(named.cloned().collect())
    }

    /// Whether `subject` may manage resources of `kind` (or all).
    pub(crate) fn manages(&self, tx: &ReadTx<'_>, subject: &PrincipalId, kind: &str) -> Result<bool, Refusal> {
        Ok(self.of(tx, subject)?.manages(kind))
    }

    /// Whether `subject` itself holds everything that `rule` would grant: a delegate grants nothing that it does not hold.
    pub(crate) fn holds(&self, tx: &ReadTx<'_>, subject: &PrincipalId, rule: &PermissionRule) -> Result<bool, Refusal> {
        let rules = self.of(tx, subject)?;
        let Some(matcher) = rules.allows.get(&rule.action) else { return Ok(false) };
        if rule.action == RuleAction::Manage {
            return Ok(matcher.kinds.contains(&rule.target_kind) || matcher.kinds.contains("*"));
        }
        // Any deny of the same action could be undone by passing the right on to somebody whom it does not bind.
        let takes = |action: &RuleAction| rules.denies.get(action);
        let denied = [Some(&rule.action), Some(&RuleAction::View)].into_iter().flatten().filter_map(takes).any(|deny| {
            rule.target_id == "*"
                || deny.ids.contains(&rule.target_id)
                || deny.groups.contains(&rule.target_id)
                || !deny.groups.is_empty()
        });
        if denied {
            return Ok(false);
        }
        let held = if rule.target_kind == TargetKind::Group.as_str() {
            matcher.all_groups || (rule.target_id != "*" && matcher.groups.contains(&rule.target_id))
        } else {
            matcher.kinds.contains(&rule.target_kind) || (rule.target_id != "*" && matcher.ids.contains(&rule.target_id))
        };
        Ok(held
            || matcher.narrowed.iter().any(|own| {
                own.conditions == rule.conditions && own.target_kind == rule.target_kind && own.target_id == rule.target_id
            }))
    }
}
