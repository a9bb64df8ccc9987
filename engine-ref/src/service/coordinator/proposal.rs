//! What a model proposed, against what it was allowed to choose from. Nothing of it is believed.

use std::collections::BTreeSet;

use beepgrid::{FleetAgent, PlanOperation};

use super::planner::Proposal;
use crate::service::Refusal;
use crate::service::limits::MAX_BODY_BYTES;

/// Refuses a proposal that is no plan.
///
/// # Errors
/// 502 `provider_failed`; the log says what was wrong.
pub(super) fn check(proposal: &Proposal, sources: &[FleetAgent]) -> Result<(), Refusal> {
    fault(proposal, sources).map_or(Ok(()), |reason| Err(Refusal::provider_failed(reason)))
}

fn fault(proposal: &Proposal, sources: &[FleetAgent]) -> Option<String> {
    let fits = |text: &str| text.len() <= MAX_BODY_BYTES && !text.contains('\0');
    if !fits(&proposal.summary) || !fits(&proposal.body) {
        return Some("a summary or body that is too long or has a NUL".to_owned());
    }
    let sends = matches!(proposal.operation, PlanOperation::Message | PlanOperation::Question | PlanOperation::Task);
    if proposal.operation == PlanOperation::Status {
        return (!proposal.instructions.is_empty()).then(|| "a status that sends something".to_owned());
    }
    if !sends {
        return Some(format!("the unknown operation {:?}", proposal.operation.as_str()));
    }
    if proposal.instructions.is_empty() {
        return Some("a plan that sends nothing".to_owned());
    }
    let mut seen = BTreeSet::new();
    for one in &proposal.instructions {
        let known = sources.iter().any(|source| source.agent.id == one.agent_id);
        if !known || !seen.insert(&one.agent_id) {
            return Some("an agent that it could not choose, or one twice".to_owned());
        }
        if !matches!(one.operation, PlanOperation::Message | PlanOperation::Question | PlanOperation::Task) {
            return Some(format!("the unknown operation {:?}", one.operation.as_str()));
        }
        if one.body.trim().is_empty() || !fits(&one.body) {
            return Some("an instruction without text, too long, or with a NUL".to_owned());
        }
    }
    None
}
