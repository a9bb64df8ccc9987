//! The model behind the Coordinator, as the engine needs it. What it says is only a proposal: everything in it is checked.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use beepgrid::{FleetAgent, OverseerInstruction, OverseerPlan, PlanOperation, Request};

/// What a planner answers with, some time.
pub type Planning<T> = Pin<Box<dyn Future<Output = Result<T, PlannerError>> + Send>>;

/// Makes plans and sums up replies. Called outside of every transaction, at most twice at a time; a call that takes too long is dropped.
pub trait Planner: fmt::Debug + Send + Sync + 'static {
    /// Proposes what to send to whom.
    fn plan(&self, brief: PlanBrief) -> Planning<Proposal>;

    /// Sums up replies in at most 32 KiB. What is open must stay said to be open.
    fn summarize(&self, brief: ReplyBrief) -> Planning<String>;
}

/// What a plan is made from: nothing that the person who asks may not see.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlanBrief {
    /// What the person told.
    pub prompt: String,
    /// The agents that the person may contact now, at most 100.
    pub sources: Vec<FleetAgent>,
    /// The plan to go on from.
    pub previous: Option<OverseerPlan>,
}

/// What is summed up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplyBrief {
    /// What the person told.
    pub prompt: String,
    /// The plan's questions and tasks as they stand.
    pub replies: Vec<Request>,
}

/// What a model proposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// `status` for an answer without sending.
    pub operation: PlanOperation,
    /// Why, or the answer.
    pub summary: String,
    /// The text that all are sent, when it is the same.
    pub body: String,
    /// Who is sent what; each agent at most once, only from the brief's sources.
    pub instructions: Vec<OverseerInstruction>,
}

/// The model gave nothing usable. The text is for the log, not for callers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlannerError(String);

impl PlannerError {
    /// Why.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}
