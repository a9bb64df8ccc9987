//! Principals, groups, roles, contact rules and the caller itself.

use serde::{Deserialize, Serialize};

use super::{
    CredentialId, CredentialKind, Effect, GroupId, GroupPurpose, InstanceId, JsonMap, Permission, PrincipalId, PrincipalKind,
    RoleBindingId, RoleId, RuleAction, SubjectKind, Target, TargetKind, Timestamp,
};

/// A role takes this many rules.
pub const MAX_ROLE_RULES: usize = 100;
/// A contact policy takes this many rules.
pub const MAX_POLICY_RULES: usize = 1_000;
/// `metadata` and `progress` may have this many bytes of JSON.
pub const MAX_METADATA_BYTES: usize = 16 * 1024;
/// External ids may have this many code points.
pub const MAX_EXTERNAL_ID_CHARS: usize = 200;

macro_rules! principals {
    ($($(#[$doc:meta])+ $name:ident { $($extra:tt)* })+) => {$(
        $(#[$doc])+
        ///
        /// Who sees it only as a participant gets `id`, `kind` (by the type) and `name`; the rest is then empty.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $name {
            /// Its id.
            pub id: PrincipalId,
            /// Its name; not unique.
            pub name: String,
            /// Your identifier for it, unique per kind.
            #[serde(default)]
            pub external_id: String,
            /// Your JSON; no secrets here.
            #[serde(default, deserialize_with = "super::null_as_empty")]
            pub metadata: JsonMap,
            /// Grows with every edit.
            #[serde(default)]
            pub version: i64,
            /// Whether all its access is stopped.
            #[serde(default)]
            pub disabled: bool,
            /// When it was made.
            #[serde(default)]
            pub created_at: Timestamp,
            $($extra)*
        }
    )+};
}

principals! {
    /// A human participant.
    Person {}
    /// A logical agent.
    Agent {
        /// The agent it was enrolled under; grants nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub parent_id: Option<PrincipalId>,
        /// Who enrolled it; shown to managers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub enrolled_by: Option<PrincipalId>,
    }
    /// A software service.
    Service {}
}

/// Makes a person, agent or service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PrincipalInput {
    /// 1 to 200 code points on one line.
    pub name: String,
    /// Your identifier, unique per kind.
    pub external_id: String,
    /// Your JSON, at most 16 KiB.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub metadata: JsonMap,
}

impl PrincipalInput {
    /// A principal with a name and your identifier for it.
    pub fn new(name: impl Into<String>, external_id: impl Into<String>) -> Self {
        Self { name: name.into(), external_id: external_id.into(), metadata: JsonMap::new() }
    }

    setters! {
        /// Your JSON.
        metadata: JsonMap => metadata;
    }
}

/// Edits a person, agent or service; what is absent stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PrincipalEdit {
    /// The version last read.
    pub version: i64,
    /// The new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Replaces the metadata whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonMap>,
}

impl PrincipalEdit {
    /// An edit of what was read at `version`.
    pub fn new(version: i64) -> Self {
        Self { version, name: None, metadata: None }
    }

    setters! {
        /// The new name.
        name: impl Into<String> => Some(name.into());
        /// The new metadata.
        metadata: JsonMap => Some(metadata);
    }
}

/// Stops or restores all access of an identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct StatusInput {
    /// Whether it is stopped.
    pub disabled: bool,
    /// The version last read.
    pub version: i64,
}

impl StatusInput {
    /// Stops (`true`) or restores the identity read at `version`.
    pub fn new(disabled: bool, version: i64) -> Self {
        Self { disabled, version }
    }
}

/// A directory group. `members` are those visible to the reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// Its id.
    pub id: GroupId,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub purpose: GroupPurpose,
    /// Visible members.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub members: Vec<PrincipalId>,
    /// How many members there are, visible or not.
    #[serde(default)]
    pub member_count: i64,
    /// Grows with every edit.
    pub version: i64,
    /// When it was made.
    #[serde(default)]
    pub created_at: Timestamp,
}

/// Makes a directory group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GroupInput {
    /// 1 to 200 code points on one line.
    pub name: String,
    /// What it is for.
    pub purpose: GroupPurpose,
    /// Its members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<PrincipalId>,
}

impl GroupInput {
    /// A group with members.
    pub fn new(name: impl Into<String>, purpose: GroupPurpose, members: Vec<PrincipalId>) -> Self {
        Self { name: name.into(), purpose, members }
    }
}

/// Edits a group; what is absent stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GroupEdit {
    /// The version last read.
    pub version: i64,
    /// The new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Replaces the members; may be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<PrincipalId>>,
}

impl GroupEdit {
    /// An edit of what was read at `version`.
    pub fn new(version: i64) -> Self {
        Self { version, name: None, members: None }
    }

    setters! {
        /// The new name.
        name: impl Into<String> => Some(name.into());
        /// The new members.
        members: Vec<PrincipalId> => Some(members);
    }
}

/// One permission: an action towards a target. Allows unless it denies; a matching deny wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermissionRule {
    /// Allow when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// What it is about.
    pub action: RuleAction,
    /// `person`, `agent`, `service`, `instance`, `group`; for `manage` a resource kind or `*`.
    pub target_kind: String,
    /// An id, or `*` for all of that kind.
    pub target_id: String,
    /// Narrows the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<RuleConditions>,
}

impl PermissionRule {
    /// Grants `action` towards one target.
    pub fn allow(action: RuleAction, target: &Target) -> Self {
        Self {
            effect: None,
            action,
            target_kind: target.kind.as_str().to_owned(),
            target_id: target.id.clone(),
            conditions: None,
        }
    }

    /// Blocks `action` towards one exact target.
    pub fn deny(action: RuleAction, target: &Target) -> Self {
        Self { effect: Some(Effect::Deny), ..Self::allow(action, target) }
    }

    /// Grants `action` towards all of a kind.
    pub fn allow_all(action: RuleAction, kind: &TargetKind) -> Self {
        Self::allow(action, &Target::new(kind.clone(), "*"))
    }

    /// Grants management of a kind of resource (`identity`, `group`, `role`, `credential`, …, or `*`).
    pub fn manage(kind: &str) -> Self {
        Self {
            effect: None,
            action: RuleAction::Manage,
            target_kind: kind.to_owned(),
            target_id: "*".to_owned(),
            conditions: None,
        }
    }
}

/// What a rule is narrowed to; every member that is set must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleConditions {
    /// Only over this channel connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<String>,
    /// Only for bound actions of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_name: Option<String>,
    /// Only for bound actions on this resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}

/// A named set of rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Role {
    /// Its id.
    pub id: RoleId,
    /// Its name.
    pub name: String,
    /// Its rules.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub rules: Vec<PermissionRule>,
    /// Grows with every edit.
    pub version: i64,
    /// When it was made.
    #[serde(default)]
    pub created_at: Timestamp,
}

/// Makes a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RoleInput {
    /// 1 to 200 code points on one line.
    pub name: String,
    /// At most [`MAX_ROLE_RULES`]; may be empty.
    pub rules: Vec<PermissionRule>,
}

impl RoleInput {
    /// A role with rules.
    pub fn new(name: impl Into<String>, rules: Vec<PermissionRule>) -> Self {
        Self { name: name.into(), rules }
    }
}

/// Edits a role; what is absent stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RoleEdit {
    /// The version last read.
    pub version: i64,
    /// The new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Replaces the rules; may be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<PermissionRule>>,
}

impl RoleEdit {
    /// An edit of what was read at `version`.
    pub fn new(version: i64) -> Self {
        Self { version, name: None, rules: None }
    }

    setters! {
        /// The new name.
        name: impl Into<String> => Some(name.into());
        /// The new rules.
        rules: Vec<PermissionRule> => Some(rules);
    }
}

/// A role given to a subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleBinding {
    /// Its id.
    pub id: RoleBindingId,
    /// The role.
    pub role_id: RoleId,
    /// Principal or group.
    pub subject_kind: SubjectKind,
    /// The principal's or group's id.
    pub subject_id: String,
    /// When it was made.
    #[serde(default)]
    pub created_at: Timestamp,
}

/// Gives a role to a subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RoleBindingInput {
    /// The role.
    pub role_id: RoleId,
    /// Principal or group.
    pub subject_kind: SubjectKind,
    /// The principal's or group's id.
    pub subject_id: String,
}

impl RoleBindingInput {
    /// Gives the role to one principal.
    pub fn principal(role: &RoleId, principal: &PrincipalId) -> Self {
        Self { role_id: role.clone(), subject_kind: SubjectKind::Principal, subject_id: principal.as_str().to_owned() }
    }

    /// Gives the role to a group's present members.
    pub fn group(role: &RoleId, group: &GroupId) -> Self {
        Self { role_id: role.clone(), subject_kind: SubjectKind::Group, subject_id: group.as_str().to_owned() }
    }
}

/// Replaces a subject's contact policy whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ContactPermissionsInput {
    /// Whose policy it is: a person, agent, service or group.
    pub subject: Target,
    /// At most [`MAX_POLICY_RULES`]; empty means none.
    pub rules: Vec<PermissionRule>,
    /// The version last read; 0 for a policy that was never saved.
    pub version: i64,
}

impl ContactPermissionsInput {
    /// Sets `rules` as the policy that was read at `version`.
    pub fn new(subject: Target, rules: Vec<PermissionRule>, version: i64) -> Self {
        Self { subject, rules, version }
    }
}

/// A saved contact policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContactPermissions {
    /// Whose policy it is.
    pub subject: Target,
    /// Its rules.
    pub rules: Vec<PermissionRule>,
    /// Its version now.
    pub version: i64,
}

/// Who the caller is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Me {
    /// Which of the three is set.
    pub identity_type: PrincipalKind,
    /// The caller, if a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<Person>,
    /// The caller, if an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// The caller, if a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// The runtime that the credential is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<InstanceId>,
    /// Whether the caller is an operator.
    #[serde(default)]
    pub operator: bool,
    /// The credential in use.
    pub credential: MeCredential,
}

impl Me {
    /// The caller's id, whatever its kind.
    pub fn id(&self) -> Option<&PrincipalId> {
        self.person
            .as_ref()
            .map(|p| &p.id)
            .or_else(|| self.agent.as_ref().map(|a| &a.id))
            .or_else(|| self.service.as_ref().map(|s| &s.id))
    }
}

/// The credential of the present call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeCredential {
    /// Its id.
    pub id: CredentialId,
    /// Its kind.
    pub kind: CredentialKind,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its ceiling; absent is no ceiling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<Permission>>,
    /// When it ends; `null` is never.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
}

/// The workspace and what serves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Workspace {
    /// The workspace's name.
    pub scope: String,
    /// Shown name of the company or workspace.
    #[serde(default)]
    pub company: String,
    /// `development`, `production`, …
    #[serde(default)]
    pub environment: String,
    /// `self_hosted`.
    #[serde(default)]
    pub deployment: String,
    /// Version of the database schema.
    #[serde(default)]
    pub schema_version: i64,
    /// Version of the engine.
    #[serde(default)]
    pub version: String,
    /// Whether it is on hold after a restore: operators read and manage, everything else is refused (`unavailable`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_hold: bool,
}
