//! The Coordinator: what it is told, and the plans that it makes of it. On the wire it is called `overseer`.

use serde::{Deserialize, Serialize};

use super::{ConversationId, FleetAgent, PlanId, PlanOperation, PrincipalId, Request, RequestId, Target, Timestamp};

/// What the Coordinator is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OverseerInput {
    /// An earlier plan of one's own to go on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_plan_id: Option<PlanId>,
    /// What should be done, at most 32 KiB. The engine adds the agents that you may contact now.
    pub prompt: String,
    /// One agent or one group, to look no further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

impl OverseerInput {
    /// Tells this.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self { prompt: prompt.into(), ..Self::default() }
    }

    setters! {
        /// An earlier plan to go on from.
        previous_plan_id: PlanId => Some(previous_plan_id);
        /// One agent or one group, to look no further.
        target: Target => Some(target);
    }
}

/// What one agent is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverseerInstruction {
    /// The agent.
    pub agent_id: PrincipalId,
    /// `message`, `question` or `task`.
    pub operation: PlanOperation,
    /// The text, at most 32 KiB.
    pub body: String,
}

/// What a plan made when it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverseerDispatch {
    /// The agent.
    pub agent_id: PrincipalId,
    /// Where it was written.
    pub conversation_id: ConversationId,
    /// The question or task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
}

/// A plan of the Coordinator. It grants nothing: whoever confirms it needs the rights for everything in it, then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverseerPlan {
    /// Sent without a review.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub automatic: bool,
    /// What each agent is sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<OverseerInstruction>,
    /// Why the replies could not be summed up, the last time that was asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary_error: String,
    /// The plan that it goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_plan_id: Option<PlanId>,
    /// What it was narrowed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Its id.
    pub id: PlanId,
    /// What was told.
    pub prompt: String,
    /// The agents that it could choose from.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub context_agent_ids: Vec<PrincipalId>,
    /// `status` answers and sends nothing; otherwise what is sent in the main: `message`, `question` or `task`.
    pub operation: PlanOperation,
    /// Why it is planned so, or the answer of a `status`.
    pub summary: String,
    /// The text that all are sent, when it is the same.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// The agents that the plan could choose from and that you may still see, as they are now.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub sources: Vec<FleetAgent>,
    /// Whether it is sent only when it is confirmed, and was not yet.
    pub requires_confirmation: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// Until when it can be confirmed.
    pub expires_at: Timestamp,
    /// What was sent.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub dispatches: Vec<OverseerDispatch>,
    /// Its questions and tasks as they stand now.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub replies: Vec<Request>,
    /// What the replies come to, in the model's words. It proves nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reply_summary: String,
    /// SHA-256 over the replies that were summed up, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reply_digest: String,
}

/// Confirms a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OverseerConfirmation {
    /// The plan.
    pub plan_id: PlanId,
}

impl OverseerConfirmation {
    /// Confirms this plan.
    pub fn new(plan_id: PlanId) -> Self {
        Self { plan_id }
    }
}
