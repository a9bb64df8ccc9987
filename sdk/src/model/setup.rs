//! Enrollment and credentials.

use serde::{Deserialize, Serialize};

use super::{Agent, CredentialId, CredentialKind, InstanceId, JsonMap, Permission, PrincipalId, Timestamp};

/// Enrolls a runtime of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct EnrollInput {
    /// Asks for a credential without end; not with `expires_at` or `renewable`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_expires: bool,
    /// A label for the connection.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub connection_name: String,
    /// A 24-hour lease that `renew_credential` moves up to `expires_at`, which is then required.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renewable: bool,
    /// When the credential ends; 30 days when nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The agent it belongs under; grants nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<PrincipalId>,
    /// The agent's external id; a known one gets a further instance.
    pub agent: String,
    /// The agent's name, for a new agent.
    pub name: String,
    /// Declared capabilities, at most 50 of 100 code points.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// Your JSON, for a new agent.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub metadata: JsonMap,
}

impl EnrollInput {
    /// A runtime of the agent with this external id; the name is for an agent that does not exist yet.
    pub fn new(agent: impl Into<String>, name: impl Into<String>) -> Self {
        Self { agent: agent.into(), name: name.into(), ..Self::default() }
    }

    setters! {
        /// Whether the credential never ends.
        never_expires: bool => never_expires;
        /// A label for the connection.
        connection_name: impl Into<String> => connection_name.into();
        /// Whether it is a renewable lease.
        renewable: bool => renewable;
        /// When it ends.
        expires_at: Timestamp => Some(expires_at);
        /// The agent it belongs under.
        parent_id: PrincipalId => Some(parent_id);
        /// Declared capabilities.
        capabilities: Vec<String> => capabilities;
        /// Your JSON.
        metadata: JsonMap => metadata;
    }
}

/// A fresh worker session. `Debug` does not show the token.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// The bearer token, shown only here.
    pub token: String,
    /// The agent.
    pub agent: Agent,
    /// The runtime connection that the token is bound to.
    pub instance_id: InstanceId,
    /// When the token ends; `null` is never.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("agent", &self.agent)
            .field("instance_id", &self.instance_id)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// A credential's metadata; never its token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Credential {
    /// Its id.
    pub id: CredentialId,
    /// Whose it is.
    pub principal_id: PrincipalId,
    /// Its label.
    #[serde(default)]
    pub name: String,
    /// The principal's name.
    #[serde(default)]
    pub owner_name: String,
    /// Its kind.
    pub kind: CredentialKind,
    /// The external id prefix of an enrollment credential.
    #[serde(default)]
    pub prefix: String,
    /// The token's last four characters.
    #[serde(default)]
    pub token_hint: String,
    /// When it was issued.
    pub created_at: Timestamp,
    /// When it was last used, roughly.
    #[serde(default)]
    pub last_used_at: Option<Timestamp>,
    /// When it ends; `null` is never.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// How far a renewable lease can be moved.
    #[serde(default)]
    pub renewable_until: Option<Timestamp>,
    /// How long the token before the last rotation still works.
    #[serde(default)]
    pub previous_until: Option<Timestamp>,
    /// Its ceiling; `null` is none.
    #[serde(default)]
    pub permissions: Option<Vec<Permission>>,
    /// Grows with every edit and rotation.
    pub version: i64,
    /// Whether it was revoked.
    #[serde(default)]
    pub revoked: bool,
    /// The credential that enrolled this worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_credential_id: Option<CredentialId>,
}

/// Issues an `api` or `enrollment` credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CredentialInput {
    /// Asks for a credential without end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_expires: bool,
    /// Whose it is.
    pub principal_id: PrincipalId,
    /// `api` or `enrollment`.
    pub kind: CredentialKind,
    /// A label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// For `enrollment`: the external id prefix, which ends with `/`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// When it ends; 30 days when nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// For `api`: a ceiling; absent is none, empty is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<Permission>>,
}

impl CredentialInput {
    /// An api credential for a principal.
    pub fn api(principal: &PrincipalId) -> Self {
        Self {
            never_expires: false,
            principal_id: principal.clone(),
            kind: CredentialKind::Api,
            name: String::new(),
            prefix: String::new(),
            expires_at: None,
            permissions: None,
        }
    }

    /// A launcher that enrolls only agents whose external id starts with `prefix`.
    pub fn enrollment(principal: &PrincipalId, prefix: impl Into<String>) -> Self {
        Self { kind: CredentialKind::Enrollment, prefix: prefix.into(), ..Self::api(principal) }
    }

    setters! {
        /// Whether it never ends.
        never_expires: bool => never_expires;
        /// A label.
        name: impl Into<String> => name.into();
        /// When it ends.
        expires_at: Timestamp => Some(expires_at);
        /// The ceiling.
        permissions: Vec<Permission> => Some(permissions);
    }
}

/// A fresh credential. `Debug` does not show the token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IssuedCredential {
    /// The bearer token, shown only here.
    pub token: String,
    /// Its id.
    pub id: CredentialId,
    /// Its kind.
    pub kind: CredentialKind,
    /// When it ends; `null` is never.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
}

impl std::fmt::Debug for IssuedCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedCredential")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// Revokes a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RevokeInput {
    /// Whether the workers that it enrolled go with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoke_workers: bool,
}

impl RevokeInput {
    /// Revokes the credential alone, or with its workers.
    pub fn new(revoke_workers: bool) -> Self {
        Self { revoke_workers }
    }
}

/// The engine's word for a revocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RevokeResult {
    /// Always true.
    pub revoked: bool,
}

/// Edits a credential's metadata; what is absent stays. Nobody lets it do or last more than the own one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CredentialEdit {
    /// Takes its end away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_expires: bool,
    /// [`Credential::version`] as last read.
    pub version: i64,
    /// A label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// A ceiling; empty is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<Permission>>,
    /// Takes the ceiling away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clear_permissions: bool,
}

impl CredentialEdit {
    /// An edit of what was read at `version`.
    pub fn new(version: i64) -> Self {
        Self { never_expires: false, version, name: None, expires_at: None, permissions: None, clear_permissions: false }
    }

    setters! {
        /// Whether it never ends.
        never_expires: bool => never_expires;
        /// A label.
        name: impl Into<String> => Some(name.into());
        /// When it ends.
        expires_at: Timestamp => Some(expires_at);
        /// The ceiling.
        permissions: Vec<Permission> => Some(permissions);
        /// Whether the ceiling goes.
        clear_permissions: bool => clear_permissions;
    }
}

/// Replaces a credential's token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RotateInput {
    /// [`Credential::version`] as last read.
    pub version: i64,
    /// How long the token before still works, 0 to 86,400; 3,600 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_seconds: Option<i64>,
}

impl RotateInput {
    /// Rotates what was read at `version`, with an overlap of an hour.
    pub fn new(version: i64) -> Self {
        Self { version, overlap_seconds: None }
    }

    setters! {
        /// How long the token before still works.
        overlap_seconds: i64 => Some(overlap_seconds);
    }
}

/// A rotated credential. `Debug` does not show the token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CredentialReplacement {
    /// The new bearer token, shown only here.
    pub token: String,
    /// The credential as it stands now.
    pub credential: Credential,
}

impl std::fmt::Debug for CredentialReplacement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CredentialReplacement").field("credential", &self.credential).finish_non_exhaustive()
    }
}
