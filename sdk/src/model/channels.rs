//! Channels as data: connections to providers, destinations, account links, delivery preferences, and assistance settings.

use serde::{Deserialize, Serialize};

use super::{AccountLinkId, ConnectionId, DestinationId, JsonMap, PrincipalId, Target, Timestamp};

/// A configured connection to a provider. Its secret is sealed in the engine and never returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Connection {
    /// Its id.
    pub id: ConnectionId,
    /// The provider: `slack`, `telegram`, `discord`, `smtp` or `webhook`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The provider's fields; no secrets.
    #[serde(default)]
    pub config: JsonMap,
    /// Whether a secret is stored.
    #[serde(default)]
    pub has_secret: bool,
    /// Whether it is in use.
    #[serde(default)]
    pub enabled: bool,
    /// Grows with every edit.
    pub version: i64,
    /// When it was made.
    #[serde(default)]
    pub created_at: Timestamp,
}

/// Makes a connection. `Debug` does not show the secret.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ConnectionInput {
    /// The provider.
    pub kind: String,
    /// 1 to 200 code points on one line.
    pub name: String,
    /// The provider's fields.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub config: JsonMap,
    /// One text of 8 to 4,096 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Whether it is in use.
    #[serde(default)]
    pub enabled: bool,
}

impl std::fmt::Debug for ConnectionInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionInput")
            .field("kind", &self.kind)
            .field("name", &self.name)
            .field("config", &self.config)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

impl ConnectionInput {
    /// A connection to a provider, not yet in use.
    pub fn new(kind: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind: kind.into(), name: name.into(), ..Self::default() }
    }

    setters! {
        /// The provider's fields.
        config: JsonMap => config;
        /// The provider's secret.
        secret: impl Into<String> => Some(secret.into());
        /// Whether it is in use.
        enabled: bool => enabled;
    }
}

/// Edits a connection; what is absent stays. `Debug` does not show the secret.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ConnectionEdit {
    /// The version last read.
    pub version: i64,
    /// The new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Replaces the provider's fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<JsonMap>,
    /// Replaces the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Whether it is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

impl std::fmt::Debug for ConnectionEdit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionEdit")
            .field("version", &self.version)
            .field("name", &self.name)
            .field("config", &self.config)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

impl ConnectionEdit {
    /// An edit of what was read at `version`.
    pub fn new(version: i64) -> Self {
        Self { version, name: None, config: None, secret: None, enabled: None }
    }

    setters! {
        /// The new name.
        name: impl Into<String> => Some(name.into());
        /// The new fields.
        config: JsonMap => Some(config);
        /// The new secret.
        secret: impl Into<String> => Some(secret.into());
        /// Whether it is in use.
        enabled: bool => Some(enabled);
    }
}

/// How to set a provider up for one connection; nothing secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConnectionSetup {
    /// The connection.
    pub connection_id: ConnectionId,
    /// Its provider.
    pub kind: String,
    /// Where the provider sends its callbacks.
    pub callback_url: String,
    /// What to do, in order.
    pub steps: Vec<String>,
    /// Values to copy into the provider's settings.
    #[serde(default)]
    pub values: JsonMap,
}

/// What could be checked of a connection without sending anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConnectionDiagnostics {
    /// The connection.
    pub connection_id: ConnectionId,
    /// When it was looked at.
    pub observed_at: Timestamp,
    /// Whether every check passed.
    pub ok: bool,
    /// The checks.
    pub checks: Vec<DiagnosticCheck>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiagnosticCheck {
    /// What was looked at.
    pub name: String,
    /// Whether it is right.
    pub ok: bool,
    /// What is wrong and what to do, or what is right.
    pub detail: String,
}

/// Asks for a test message to one destination of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ConnectionTestInput {
    /// Where the test goes.
    pub destination_id: DestinationId,
}

impl ConnectionTestInput {
    /// A test to this destination.
    pub fn new(destination: &DestinationId) -> Self {
        Self { destination_id: destination.clone() }
    }
}

/// Where a person's messages go over one connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Destination {
    /// Its id.
    pub id: DestinationId,
    /// Over which connection.
    pub connection_id: ConnectionId,
    /// Whose it is.
    pub principal_id: PrincipalId,
    /// The provider's address: a channel id, a chat id, a mail address, a URL.
    pub address: String,
    /// `primary`, `copy` or `fallback`.
    pub mode: String,
    /// Lower comes first.
    pub priority: i64,
    /// Grows with every edit.
    pub version: i64,
    /// When it was made.
    #[serde(default)]
    pub created_at: Timestamp,
}

/// Makes a destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DestinationInput {
    /// Over which connection.
    pub connection_id: ConnectionId,
    /// Whose it is.
    pub principal_id: PrincipalId,
    /// The provider's address, 1 to 2,000 code points.
    pub address: String,
    /// `primary`, `copy` or `fallback`.
    pub mode: String,
    /// 0 to 1,000; lower comes first.
    #[serde(default)]
    pub priority: i64,
}

impl DestinationInput {
    /// A primary destination.
    pub fn new(connection: &ConnectionId, principal: &PrincipalId, address: impl Into<String>) -> Self {
        Self {
            connection_id: connection.clone(),
            principal_id: principal.clone(),
            address: address.into(),
            mode: "primary".to_owned(),
            priority: 0,
        }
    }

    setters! {
        /// `primary`, `copy` or `fallback`.
        mode: impl Into<String> => mode.into();
        /// Lower comes first.
        priority: i64 => priority;
    }
}

/// Edits a destination; what is absent stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DestinationEdit {
    /// The version last read.
    pub version: i64,
    /// The new address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The new mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The new priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
}

impl DestinationEdit {
    /// An edit of what was read at `version`.
    pub fn new(version: i64) -> Self {
        Self { version, address: None, mode: None, priority: None }
    }

    setters! {
        /// The new address.
        address: impl Into<String> => Some(address.into());
        /// The new mode.
        mode: impl Into<String> => Some(mode.into());
        /// The new priority.
        priority: i64 => Some(priority);
    }
}

/// Which person stands behind a provider's account: who may answer from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccountLink {
    /// Its id.
    pub id: AccountLinkId,
    /// Over which connection.
    pub connection_id: ConnectionId,
    /// Who it is.
    pub principal_id: PrincipalId,
    /// The account at the provider.
    pub provider_account: String,
    /// When it was made.
    #[serde(default)]
    pub created_at: Timestamp,
}

/// Links an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AccountLinkInput {
    /// Over which connection.
    pub connection_id: ConnectionId,
    /// Who it is.
    pub principal_id: PrincipalId,
    /// The account at the provider, 1 to 200 code points.
    pub provider_account: String,
}

impl AccountLinkInput {
    /// Links an account to a person.
    pub fn new(connection: &ConnectionId, principal: &PrincipalId, provider_account: impl Into<String>) -> Self {
        Self { connection_id: connection.clone(), principal_id: principal.clone(), provider_account: provider_account.into() }
    }
}

/// How a person's messages are delivered outside. Grants no contact and no decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChannelPolicy {
    /// `preferred` or `all`.
    pub mode: String,
    /// Own destinations in order of preference; none keeps everything in the workspace.
    #[serde(default)]
    pub destinations: Vec<DestinationId>,
    /// When an unanswered question goes to the next destination: 0 (never) or 5 to 900.
    #[serde(default)]
    pub followup_seconds: i64,
}

/// Another policy for one sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChannelOverride {
    /// An exact agent, or a group with the purpose `agent_role`.
    pub source: Target,
    /// The policy for it.
    pub policy: ChannelPolicy,
}

/// A person's delivery preferences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeliveryPreferences {
    /// Whose they are.
    #[serde(default)]
    pub person_id: PrincipalId,
    /// Grows with each save; 0 when never saved.
    pub version: i64,
    /// The usual policy; `null` follows the destinations.
    #[serde(default)]
    pub default: Option<ChannelPolicy>,
    /// Policies for single senders, in order; an exact agent comes before its roles.
    #[serde(default)]
    pub overrides: Vec<ChannelOverride>,
}

/// Where something would go, without sending it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RoutePreviewInput {
    /// For whom.
    pub target: Target,
    /// `message` or `ask`.
    pub operation: String,
}

impl RoutePreviewInput {
    /// Where an operation for `target` would go.
    pub fn new(target: Target, operation: impl Into<String>) -> Self {
        Self { target, operation: operation.into() }
    }
}

/// Where something would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoutePreview {
    /// For whom.
    pub target: Target,
    /// Whether the workspace history has it; always true.
    pub workspace: bool,
    /// Outside routes, in the order in which they are tried.
    pub routes: Vec<Route>,
}

/// One outside route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Route {
    /// The destination.
    pub destination_id: DestinationId,
    /// Its connection.
    pub connection_id: ConnectionId,
    /// The provider.
    pub kind: String,
    /// `primary`, `copy` or `fallback`.
    pub mode: String,
}

/// Whether the Coordinator is on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AssistanceSettings {
    /// Whether it is enabled in this workspace. The wire keeps the old name.
    pub overseer: bool,
    /// Grows with each change.
    pub version: i64,
    /// Whether the engine has a model provider; not the switch.
    pub overseer_configured: bool,
}

/// Switches the Coordinator on or off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AssistanceUpdate {
    /// The version last read; left out, the change is made whatever it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// On or off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overseer: Option<bool>,
}

impl AssistanceUpdate {
    /// Switches the Coordinator.
    pub fn new(overseer: bool) -> Self {
        Self { version: None, overseer: Some(overseer) }
    }

    setters! {
        /// The version last read.
        version: i64 => Some(version);
    }
}
