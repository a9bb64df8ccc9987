//! The worker inbox: leases, deliveries, acknowledgements, presence.

use serde::{Deserialize, Serialize};

use super::{
    ConversationId, DeliveryId, DeliveryKind, ErrorCode, InstanceId, JsonMap, Message, Presence, PrincipalId, Request, Timestamp,
};

/// One lease takes at most this many deliveries.
pub const MAX_LEASE: i64 = 100;

/// What to lease and how long to wait for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct InboxInput {
    /// How long the engine waits for the first delivery, 0 to 15,000 ms; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<i64>,
    /// At most this many, 1 to [`MAX_LEASE`]; 10 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// Only these kinds; all when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<DeliveryKind>,
}

impl InboxInput {
    /// What is there now, at most 10, without waiting.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// How long the engine waits, in milliseconds.
        wait_ms: i64 => Some(wait_ms);
        /// At most this many.
        limit: i64 => Some(limit);
        /// Only these kinds.
        kinds: Vec<DeliveryKind> => kinds;
    }
}

/// One leased delivery. The lease lasts 30 seconds unless extended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Delivery {
    /// Stable for ever; deduplicate by it.
    pub id: DeliveryId,
    /// The lease's number; goes into ack, extend and release.
    pub generation: i64,
    /// Equal to `payload.type`.
    #[serde(default = "unknown_delivery")]
    pub kind: DeliveryKind,
    /// How often it was leased.
    #[serde(default)]
    pub attempt: i64,
    /// When the lease runs out.
    #[serde(default)]
    pub leased_until: Timestamp,
    /// When it was made.
    #[serde(default)]
    pub created_at: Timestamp,
    /// What is delivered.
    pub payload: DeliveryPayload,
}

/// What a delivery carries, as the worker may see it at the moment of the lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeliveryPayload {
    /// `message`, `request`, `request_result` or `request_withdrawn`.
    pub r#type: DeliveryKind,
    /// Where it belongs.
    #[serde(default)]
    pub conversation_id: ConversationId,
    /// The message, for `message`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// The request, for the other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
}

fn unknown_delivery() -> DeliveryKind {
    DeliveryKind::Other(String::new())
}

/// Confirms one lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AckInput {
    /// [`Delivery::generation`].
    pub generation: i64,
}

impl AckInput {
    /// Confirms the lease with this number.
    pub fn new(generation: i64) -> Self {
        Self { generation }
    }
}

/// The engine's word for a stored acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AckResult {
    /// Always true.
    pub received: bool,
}

/// Confirms up to 100 leases in one call, each on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AckManyInput {
    /// The leases, at most [`MAX_LEASE`].
    pub items: Vec<AckItem>,
}

impl AckManyInput {
    /// Confirms these leases.
    pub fn new(items: Vec<AckItem>) -> Self {
        Self { items }
    }
}

/// One of several leases that are acknowledged together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AckItem {
    /// The delivery.
    pub id: DeliveryId,
    /// Its lease's number.
    pub generation: i64,
}

impl From<&Delivery> for AckItem {
    fn from(delivery: &Delivery) -> Self {
        Self { id: delivery.id.clone(), generation: delivery.generation }
    }
}

/// What became of each lease, in the order in which they were given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AckManyResult {
    /// One for each item.
    pub results: Vec<AckManyItem>,
}

/// One lease's result: `received`, or the code it was refused with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AckManyItem {
    /// The delivery.
    pub id: DeliveryId,
    /// Whether it is acknowledged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub received: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
}

/// Moves a lease's end to `seconds` from now, at most 12 hours after it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ExtendInput {
    /// [`Delivery::generation`].
    pub generation: i64,
    /// 1 to 300.
    pub seconds: i64,
}

impl ExtendInput {
    /// Extends the lease with this number.
    pub fn new(generation: i64, seconds: i64) -> Self {
        Self { generation, seconds }
    }
}

/// The lease's new end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExtendResult {
    /// When the lease runs out.
    pub leased_until: Timestamp,
}

/// Gives a delivery back unhandled; this does not count as an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ReleaseInput {
    /// [`Delivery::generation`].
    pub generation: i64,
    /// How long it is held back, 0 to 3,600; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<i64>,
}

impl ReleaseInput {
    /// Gives back the lease with this number at once.
    pub fn new(generation: i64) -> Self {
        Self { generation, delay_seconds: None }
    }

    setters! {
        /// How long it is held back.
        delay_seconds: i64 => Some(delay_seconds);
    }
}

/// The engine's word for a stored release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReleaseResult {
    /// Always true.
    pub released: bool,
}

/// Refreshes presence and reports progress or capabilities.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct HeartbeatInput {
    /// Replaces the stored progress if it has members; at most 16 KiB of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<JsonMap>,
    /// Replaces the declared capabilities, at most 50 of 100 code points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
}

impl HeartbeatInput {
    /// Refreshes presence alone.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Progress to store.
        progress: JsonMap => Some(progress);
        /// Capabilities to store.
        capabilities: Vec<String> => Some(capabilities);
    }
}

/// The engine's word for a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeartbeatResult {
    /// Always true.
    pub ok: bool,
}

/// A runtime connection and what it said of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Instance {
    /// The connection's id.
    pub id: InstanceId,
    /// Its agent.
    pub agent_id: PrincipalId,
    /// How recently it was heard of.
    pub presence: Presence,
    /// When it was last heard of.
    pub last_seen: Timestamp,
    /// Declared by the application; grants nothing.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub capabilities: Vec<String>,
    /// Reported by the application.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub progress: JsonMap,
}

/// Whose parked deliveries are taken up again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RequeueInput {
    /// The agent.
    pub agent_id: PrincipalId,
}

impl RequeueInput {
    /// Those of this agent.
    pub fn new(agent: &PrincipalId) -> Self {
        Self { agent_id: agent.clone() }
    }
}

/// How many deliveries were taken up again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequeueResult {
    /// So many.
    pub requeued: i64,
    /// Whether the call stopped at its limit, and there are more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}
