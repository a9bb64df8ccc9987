//! What may be done and why: access, capabilities, explanations, previews. Snapshots: every write checks again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Action, ConnectionId, Outcome, PermissionRule, RequestId, RoleBindingId, RoleId, RuleAction, Target, Timestamp};

/// Where a subject's rights come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Access {
    /// Whose access it is.
    pub subject: Target,
    /// Whether it is an operator, who needs no rule.
    pub operator: bool,
    /// Roles that reach it.
    pub roles: Vec<AccessRole>,
    /// Its own contact policy.
    pub policy: Policy,
}

/// One role that reaches a subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccessRole {
    /// The role.
    pub role: RoleName,
    /// What binds it.
    pub binding_id: RoleBindingId,
    /// `direct`, or the id of the group through which it reaches the subject.
    pub via: String,
}

/// A role by id and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleName {
    /// Its id.
    pub id: RoleId,
    /// Its name.
    pub name: String,
}

/// A contact policy. Never saved is version 0 without rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Policy {
    /// Grows with each save.
    pub version: i64,
    /// The rules.
    pub rules: Vec<PermissionRule>,
}

/// Whether one action is allowed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ExplainInput {
    /// Whose right; the caller's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_id: Option<String>,
    /// `view`, `message`, `ask`, `decide` or `manage`.
    pub action: RuleAction,
    /// Towards whom; for `manage` a resource kind with the id `*`.
    pub target: Target,
    /// Over which channel connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<ConnectionId>,
    /// With which bound action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<Action>,
}

impl ExplainInput {
    /// Whether the caller may do `action` towards `target`.
    pub fn new(action: RuleAction, target: Target) -> Self {
        Self { subject_id: None, action, target, connection_id: None, descriptor: None }
    }

    setters! {
        /// Whose right.
        subject_id: impl Into<String> => Some(subject_id.into());
        /// Over which channel connection.
        connection_id: ConnectionId => Some(connection_id);
        /// With which bound action.
        descriptor: Action => Some(descriptor);
    }
}

/// One permission, explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// Whether it is allowed now.
    pub allowed: bool,
    /// Why, in a sentence.
    pub reason: String,
    /// The rules that decided it, denies first.
    pub sources: Vec<RuleSource>,
}

/// Where one rule comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleSource {
    /// `role` or `policy`.
    pub kind: String,
    /// The role, for `role`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_id: Option<RoleId>,
    /// `direct`, or the id of the group through which a role reaches the subject.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub via: String,
    /// The rule.
    pub rule: PermissionRule,
}

/// Which operations are open to the caller: for a target, a request or a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CapabilityInput {
    /// `view, message, ask` towards this target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// `read, respond, cancel, replace, supersede, blocking, redeem, trace` on this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// `view, manage, test` on this connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<ConnectionId>,
    /// A bound action that conditions are asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<Action>,
}

impl CapabilityInput {
    /// Towards a target.
    pub fn target(target: Target) -> Self {
        Self { target: Some(target), ..Self::default() }
    }

    /// On a request.
    pub fn request(id: &RequestId) -> Self {
        Self { request_id: Some(id.clone()), ..Self::default() }
    }

    /// On a channel connection.
    pub fn connection(id: &ConnectionId) -> Self {
        Self { connection_id: Some(id.clone()), ..Self::default() }
    }

    setters! {
        /// A bound action that conditions are asked with.
        descriptor: Action => Some(descriptor);
    }
}

/// What is open to the caller at this moment. What it may not see answers false throughout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapabilityResult {
    /// When it was looked at.
    pub observed_at: Timestamp,
    /// Each operation and whether it is open.
    pub operations: BTreeMap<String, bool>,
    /// The request's version, when one was asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_version: Option<i64>,
    /// The outcomes that the caller may decide with.
    #[serde(default)]
    pub outcomes: Vec<Outcome>,
}

/// What a contact policy would mean, before it is saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ContactPreviewInput {
    /// Whose policy.
    pub subject: Target,
    /// The rules to look at; the saved ones when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<PermissionRule>>,
    /// The version last read.
    pub version: i64,
    /// Whom to look at; those that the rules name when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
}

impl ContactPreviewInput {
    /// The saved policy of a subject as it was read at `version`.
    pub fn new(subject: Target, version: i64) -> Self {
        Self { subject, rules: None, version, targets: Vec::new() }
    }

    setters! {
        /// The rules to look at.
        rules: Vec<PermissionRule> => Some(rules);
        /// Whom to look at.
        targets: Vec<Target> => targets;
    }
}

/// What a contact policy would mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContactPreview {
    /// The policy that was looked at, under the saved version.
    pub policy: Policy,
    /// What follows from it together with the subject's roles.
    pub effective: Vec<EffectivePermission>,
    /// What a careful person would ask about.
    pub warnings: Vec<String>,
    /// Whether the caller may save it now at this version.
    pub can_save: bool,
}

/// What a subject may do towards one target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EffectivePermission {
    /// Whose right, in a preview of a role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Target>,
    /// Towards whom.
    pub target: Target,
    /// `view`, `message`, `ask`, `decide` and whether each is allowed.
    pub operations: BTreeMap<String, bool>,
    /// The rules that matter, denies first.
    pub sources: Vec<RuleSource>,
}

/// What an edit of a role would mean for its subjects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RolePreviewInput {
    /// The role that would be edited; absent for a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_id: Option<RoleId>,
    /// The rules that it would have.
    pub rules: Vec<PermissionRule>,
    /// Whom to look at; the role's present subjects when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<Target>,
}

impl RolePreviewInput {
    /// A role with these rules.
    pub fn new(rules: Vec<PermissionRule>) -> Self {
        Self { role_id: None, rules, subjects: Vec::new() }
    }

    setters! {
        /// The role that would be edited.
        role_id: RoleId => Some(role_id);
        /// Whom to look at.
        subjects: Vec<Target> => subjects;
    }
}

/// What a role would mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RolePreview {
    /// What its subjects could do.
    pub effective: Vec<EffectivePermission>,
    /// What a careful person would ask about.
    pub warnings: Vec<String>,
}
