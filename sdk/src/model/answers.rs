//! Reusable answers to questions, and the trace of a request.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AnswerId, DeliveryId, DeliveryKind, Execution, InstanceId, Outcome, PrincipalId, Request, RequestId, ResponseInput, Timestamp,
};

/// An answer is published to at most this many.
pub const MAX_ANSWER_AUDIENCE: usize = 1_000;

/// A published answer: who asks the same question with the same key gets it at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// Its id.
    pub id: AnswerId,
    /// The question that it comes from.
    pub request_id: RequestId,
    /// Who published it.
    pub publisher_id: PrincipalId,
    /// Who gave it.
    pub responder_id: PrincipalId,
    /// What a question's `shared_key` has to be.
    pub key: String,
    /// What a question's title has to be.
    #[serde(default)]
    pub title: String,
    /// What a question's body has to be.
    pub body: String,
    /// What a question's choices have to be.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub choices: Vec<String>,
    /// The answer itself.
    #[serde(default)]
    pub answer: Value,
    /// Who gets it when asking.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub audience: Vec<PrincipalId>,
    /// Until when it is reused.
    pub valid_until: Timestamp,
    /// Whether it was withdrawn.
    #[serde(default)]
    pub invalidated: bool,
    /// When it was withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalidated_at: Option<Timestamp>,
    /// When it was published.
    #[serde(default)]
    pub created_at: Timestamp,
}

/// Publishes the answer to a resolved question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AnswerInput {
    /// The resolved question.
    pub request_id: RequestId,
    /// What a question's `shared_key` has to be to get it.
    pub key: String,
    /// Who gets it when asking: ids of people, agents and services.
    pub audience: Vec<PrincipalId>,
    /// In the future, at most ninety days away; 24 hours when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Timestamp>,
}

impl AnswerInput {
    /// Publishes the answer to `request` under `key` for `audience`.
    pub fn new(request: &RequestId, key: impl Into<String>, audience: Vec<PrincipalId>) -> Self {
        Self { request_id: request.clone(), key: key.into(), audience, valid_until: None }
    }

    setters! {
        /// Until when it is reused.
        valid_until: Timestamp => Some(valid_until);
    }
}

/// Answers a question and publishes the answer, in one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AnswerAndShareInput {
    /// [`Request::version`] as last read.
    pub version: i64,
    /// `answered`.
    pub outcome: Outcome,
    /// The answer; one of the choices when there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// What a question's `shared_key` has to be to get it.
    pub key: String,
    /// Who gets it when asking: ids of people, agents and services.
    pub audience: Vec<PrincipalId>,
    /// In the future, at most ninety days away; 24 hours when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Timestamp>,
}

impl AnswerAndShareInput {
    /// Answers the question as it was at `version`, and publishes that under `key` for `audience`.
    pub fn new(version: i64, answer: impl Into<Value>, key: impl Into<String>, audience: Vec<PrincipalId>) -> Self {
        let answer = Some(answer.into());
        Self { version, outcome: Outcome::Answered, answer, key: key.into(), audience, valid_until: None }
    }

    setters! {
        /// Until when it is reused.
        valid_until: Timestamp => Some(valid_until);
    }

    /// The decision in it.
    pub fn response(&self) -> ResponseInput {
        let response = ResponseInput::new(self.outcome.clone(), self.version);
        ResponseInput { answer: self.answer.clone(), ..response }
    }
}

/// Both results of answering and publishing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerAndShareResult {
    /// The question, now resolved.
    pub request: Request,
    /// The published answer.
    pub answer: Answer,
}

/// What became of a request: who had it when, and what was carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestTrace {
    /// The request as it is now.
    pub request: Request,
    /// A page of its deliveries to agents, oldest first.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub deliveries: Vec<TracedDelivery>,
    /// Where the next page of deliveries begins; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// What was redeemed.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub executions: Vec<Execution>,
    /// What was published from it, newest first.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub answers: Vec<Answer>,
}

/// One delivery of a request, its result or its withdrawal. Leased is not read, and acknowledged is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracedDelivery {
    /// Its id.
    pub id: DeliveryId,
    /// Which agent it is for.
    pub recipient_id: PrincipalId,
    /// The runtime that leased it last, or that it is for; shown to who may view the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<InstanceId>,
    /// What it carries.
    #[serde(default = "unknown_kind")]
    pub kind: DeliveryKind,
    /// `ready`, `leased`, `acked`, `parked` or `withdrawn`.
    pub state: String,
    /// Why it is parked or withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How often it was leased.
    pub attempt: i64,
    /// When it was acknowledged, leased or made, whichever came last.
    pub at: Timestamp,
}

fn unknown_kind() -> DeliveryKind {
    DeliveryKind::Other(String::new())
}
