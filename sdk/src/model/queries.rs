//! Pages of records, limits, providers and the fleet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Agent, ConnectionId, ConversationId, DeliveryId, DeliveryKind, DestinationId, Instance, InstanceId, MessageId, PrincipalId,
    RequestId, Timestamp,
};

/// One page. Go on while `next_cursor` is there, also when `items` is empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "{T}Page"))]
pub struct QueryPage<T = Value> {
    /// The records of this page.
    #[serde(default = "Vec::<T>::new", deserialize_with = "super::null_as_empty")]
    #[serde(bound(deserialize = "T: Deserialize<'de>"))]
    pub items: Vec<T>,
    /// Opaque; where the next page begins. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How the collection is ordered.
    #[serde(default)]
    pub order: String,
}

/// The engine's word for a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Deleted {
    /// Always true.
    pub deleted: bool,
}

/// A query takes a search of at most this many code points.
pub const MAX_SEARCH_CHARS: usize = 200;
/// A page has at most this many records.
pub const MAX_PAGE_ITEMS: i64 = 200;

/// Asks for a page of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct QueryInput {
    /// `people`, `agents`, `services`, `groups`, `roles`, `connections`, `destinations`, `credentials`, `instances`, `requests`,
    /// `conversations`, `messages`, `answers`, `executions`, `deliveries`, `delivery_attempts`, `attachments` or `overseer_plans`.
    pub collection: String,
    /// Words that names, titles, bodies or file names have to contain, without case; at most [`MAX_SEARCH_CHARS`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub search: String,
    /// Exact filters; what a collection does not have is refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub filters: BTreeMap<String, String>,
    /// At most this many records, 1 to [`MAX_PAGE_ITEMS`]; 50 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// [`QueryPage::next_cursor`] of the page before, with everything else unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl QueryInput {
    /// The first page of a collection.
    pub fn new(collection: impl Into<String>) -> Self {
        Self { collection: collection.into(), ..Self::default() }
    }

    setters! {
        /// Words to look for.
        search: impl Into<String> => search.into();
        /// At most this many records.
        limit: i64 => Some(limit);
        /// Goes on where the page before ended.
        cursor: impl Into<String> => Some(cursor.into());
    }

    /// Adds an exact filter.
    #[must_use]
    pub fn filter(mut self, name: impl Into<String>, value: impl AsRef<str>) -> Self {
        self.filters.insert(name.into(), value.as_ref().to_owned());
        self
    }
}

/// How a delivery stands. Who may not see what was delivered gets no ids of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeliveryRecord {
    /// Its id.
    pub id: DeliveryId,
    /// Whom it is for: an agent, or a person that is reached over a connection.
    pub recipient_id: PrincipalId,
    /// The runtime that leased it last, or that it is for; shown to who may view the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<InstanceId>,
    /// What it carries; `test` for the test of a connection.
    #[serde(default = "unknown_kind")]
    pub kind: DeliveryKind,
    /// `ready`, `leased`, `acked`, `parked` or `withdrawn`; over a connection `queued`, `sending`, `accepted`, `failed` or `unknown`.
    pub state: String,
    /// Why it is parked or withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How often it was leased; over a connection, how many attempts there are.
    pub attempt: i64,
    /// When it was acknowledged, leased, came to stand like this or was made, whichever came last.
    pub at: Timestamp,
    /// The request that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// The message that it carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// Where that stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// Over which connection it goes; absent where it goes to an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<ConnectionId>,
    /// To which destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_id: Option<DestinationId>,
    /// Over a connection: the message or request that it carries, or the test's own id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// When it was made.
    #[serde(default)]
    pub created_at: Timestamp,
}

/// One attempt to hand a delivery over to a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeliveryAttempt {
    /// The delivery's id and the attempt's number.
    pub id: String,
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// Over which connection.
    pub connection_id: ConnectionId,
    /// To which destination.
    pub destination_id: DestinationId,
    /// The first is 1.
    pub number: i64,
    /// `queued`, `sending`, `accepted`, `failed` or `unknown`; what is unknown is never sent again by itself.
    pub state: String,
    /// Why it failed, or why nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it came to stand like this.
    pub at: Timestamp,
    /// When it was made.
    #[serde(default)]
    pub created_at: Timestamp,
}

fn unknown_kind() -> DeliveryKind {
    DeliveryKind::Other(String::new())
}

/// What the engine is limited to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Account {
    /// Whether the limits are in force.
    pub applied: bool,
    /// The limits.
    #[serde(default)]
    pub limits: AccountLimits,
}

/// Limits by name; the name ends with the unit where it is not a number of things.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct AccountLimits(pub BTreeMap<String, i64>);

impl AccountLimits {
    /// The limit of this name, `body_bytes` for example.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.0.get(name).copied()
    }
}

/// A provider that the engine supports; says nothing of what is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Provider {
    /// `slack`, `telegram`, `discord`, `smtp` or `webhook`.
    pub kind: String,
    /// Its name for people.
    #[serde(default)]
    pub name: String,
    /// What can be done over it: `messages`, `requests`, `replies`, `decisions`.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub capabilities: Vec<String>,
    /// How a connection is set up: `app`, `bot` or `manual`.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub setup_modes: Vec<String>,
    /// What a connection needs.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub fields: Vec<ProviderField>,
}

/// One value that a connection to a provider needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProviderField {
    /// The member's name.
    pub name: String,
    /// Its name for people.
    #[serde(default)]
    pub label: String,
    /// `text`, `number`, `email` or `url`.
    pub kind: String,
    /// `config`, or `secret`, which is never returned.
    #[serde(default)]
    pub place: String,
    /// Whether nothing works without it.
    #[serde(default)]
    pub required: bool,
    /// What to enter.
    #[serde(default)]
    pub help: String,
}

/// The agents that the caller may view, and who of them says it waits for whom. Reported by the agents, not inferred.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetStatus {
    /// `read_only`.
    pub mode: String,
    /// False: work is sent through the Coordinator's own operations.
    #[serde(default)]
    pub commands_supported: bool,
    /// When it was looked at.
    pub observed_at: Timestamp,
    /// At most 1,000, by id.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub agents: Vec<FleetAgent>,
    /// Open blocking requests between them.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub dependencies: Vec<FleetDependency>,
    /// Rings of agents that wait for each other: one shortest for each knot, from its smallest id on.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub cycles: Vec<Vec<PrincipalId>>,
    /// Whether there are more agents than are shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// An agent and its runtime connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetAgent {
    /// The agent.
    pub agent: Agent,
    /// Its runtime connections that can connect, by id.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub instances: Vec<Instance>,
    /// Whether one of them is connected, so that what it reported is current.
    pub fresh: bool,
}

/// An agent that says it can't go on without another's reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetDependency {
    /// The open blocking request.
    pub request_id: RequestId,
    /// Who waits.
    pub agent_id: PrincipalId,
    /// For whom.
    pub waits_for_agent_id: PrincipalId,
    /// When the request was made.
    pub since: Timestamp,
}
