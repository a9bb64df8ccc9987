//! The Coordinator's plans: made from what a model proposes, checked against what the person may do now, sent once.
//!
//! The model is asked between two transactions. The first checks the right to ask and gathers what it may be told; the second checks
//! everything again, because rights may have gone meanwhile, and stores.

mod allowance;
mod dispatch;
pub(crate) mod planner;
mod proposal;

use beepgrid::{
    ErrorCode, FleetAgent, OverseerConfirmation, OverseerInput, OverseerPlan, PlanId, PlanOperation, PrincipalId, PrincipalKind,
    Request, RuleAction, Target, TargetKind,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

pub(crate) use self::allowance::{Allowance, Turn};
use self::planner::{PlanBrief, Proposal, ReplyBrief};
use super::actor::Actor;
use super::audience::{self, Party};
use super::events::{self, Event};
use super::limits::{MAX_BODY_BYTES, MAX_LIST, MAX_PLAN_SOURCES, PLAN_LIFE};
use super::presence::Presence;
use super::{Refusal, checks, fleet, new_id, requests};
use crate::store::coordinator::{self as rows, PlanRow};
use crate::store::{ReadTx, WriteTx, channels};

/// What a write of this family made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) plan_id: PlanId,
}

/// Whether an input has the right form.
pub(crate) fn check(input: &OverseerInput) -> Result<(), Refusal> {
    checks::body("prompt", &input.prompt)?;
    if input.prompt.trim().is_empty() {
        return Err(Refusal::invalid("prompt", "required"));
    }
    if let Some(id) = &input.previous_plan_id {
        checks::id("previous_plan_id", id.as_str())?;
    }
    let Some(target) = &input.target else { return Ok(()) };
    if !matches!(target.kind, TargetKind::Agent | TargetKind::Group) {
        return Err(checks::one_of("target.kind", target.kind.as_str(), &["agent", "group"]));
    }
    checks::target("target", target)
}

/// Refuses whom the Coordinator does not serve.
fn must_be_served(tx: &ReadTx<'_>, actor: &Actor) -> Result<(), Refusal> {
    if actor.kind != PrincipalKind::Person {
        return Err(Refusal::forbidden("the Coordinator serves people"));
    }
    if !channels::assistance(tx)?.overseer {
        return Err(Refusal::forbidden("the Coordinator is off in this workspace; who manages assistance can switch it on"));
    }
    Ok(())
}

/// What the model may be told for this input.
pub(crate) fn brief(tx: &ReadTx<'_>, actor: &Actor, seen: &Presence, input: &OverseerInput) -> Result<PlanBrief, Refusal> {
    must_be_served(tx, actor)?;
    let previous = match &input.previous_plan_id {
        Some(id) => {
            let row = own(tx, actor, id).map_err(|refusal| refusal.at("previous_plan_id"))?;
            Some(project(tx, actor, seen, row)?)
        }
        None => None,
    };
    let sources = sources(tx, actor, seen, input.target.as_ref())?;
    Ok(PlanBrief { prompt: input.prompt.clone(), sources, previous })
}

/// The agents that the actor may message or ask now, narrowed to a target; by id, at most [`MAX_PLAN_SOURCES`].
fn sources(tx: &ReadTx<'_>, actor: &Actor, seen: &Presence, target: Option<&Target>) -> Result<Vec<FleetAgent>, Refusal> {
    let narrowed = target.map(|target| narrow(tx, actor, target).map_err(|refusal| refusal.at("target"))).transpose()?;
    let mut sources = fleet::contacts(tx, actor, seen, narrowed.as_deref(), MAX_PLAN_SOURCES)?;
    sources.sort_by(|a, b| a.agent.id.cmp(&b.agent.id));
    Ok(sources)
}

/// The agents behind a target: itself, or the members of a group that the actor may reach.
fn narrow(tx: &ReadTx<'_>, actor: &Actor, target: &Target) -> Result<Vec<Party>, Refusal> {
    if target.kind == TargetKind::Group {
        let by_message = audience::reach_group(tx, actor, target, &RuleAction::Message);
        let by_ask = audience::reach_group(tx, actor, target, &RuleAction::Ask);
        let parties = match (by_message, by_ask) {
            (Ok(mut some), Ok(more)) => {
                some.extend(more.into_iter().filter(|party| !some.contains(party)).collect::<Vec<_>>());
                some
            }
            (Ok(some), Err(_)) | (Err(_), Ok(some)) => some,
            (Err(refusal), Err(_)) => return Err(refusal),
        };
        return Ok(parties.into_iter().filter(|party| party.kind == PrincipalKind::Agent).collect());
    }
    let party = match audience::reach(tx, actor, target, &RuleAction::Message, None) {
        Err(Refusal::Forbidden { .. }) => audience::reach(tx, actor, target, &RuleAction::Ask, None)?,
        other => other?,
    };
    Ok(vec![party])
}

/// Stores a plan to review.
pub(crate) fn store(tx: &WriteTx<'_>, actor: &Actor, input: &OverseerInput, proposal: &Proposal) -> Result<Made, Refusal> {
    must_be_served(tx, actor)?;
    add(tx, actor, input, proposal, false).map(|row| Made { plan_id: row.id })
}

/// Stores a plan and sends it.
pub(crate) fn coordinate(tx: &WriteTx<'_>, actor: &Actor, input: &OverseerInput, proposal: &Proposal) -> Result<Made, Refusal> {
    must_be_served(tx, actor)?;
    let row = add(tx, actor, input, proposal, true)?;
    dispatch::send(tx, actor, &row)?;
    Ok(Made { plan_id: row.id })
}

fn add(tx: &WriteTx<'_>, actor: &Actor, input: &OverseerInput, proposal: &Proposal, automatic: bool) -> Result<PlanRow, Refusal> {
    if let Some(id) = &input.previous_plan_id {
        own(tx, actor, id).map_err(|refusal| refusal.at("previous_plan_id"))?;
    }
    // Who was told to the model and is a contact no more is no source any more.
    let sources = sources(tx, actor, &Presence::default(), input.target.as_ref())?;
    proposal::check(proposal, &sources)?;
    let row = PlanRow {
        id: new_id(PlanId::PREFIX),
        person_id: actor.id.clone(),
        automatic,
        prompt: input.prompt.clone(),
        previous_plan_id: input.previous_plan_id.clone(),
        target: input.target.clone(),
        context: sources.into_iter().map(|source| source.agent.id).collect(),
        operation: proposal.operation.clone(),
        summary: proposal.summary.clone(),
        body: proposal.body.clone(),
        instructions: proposal.instructions.clone(),
        dispatches: Vec::new(),
        dispatched_at: None,
        reply_summary: String::new(),
        reply_digest: String::new(),
        summary_error: String::new(),
        created_at: tx.now(),
        expires_at: tx.now().plus(PLAN_LIFE),
    };
    rows::insert(tx, &row)?;
    record(tx, &row, actor, "plan.created")?;
    Ok(row)
}

fn record(tx: &WriteTx<'_>, row: &PlanRow, actor: &Actor, kind: &'static str) -> Result<(), Refusal> {
    events::record(
        tx,
        &Event {
            kind,
            actor_id: &actor.id,
            conversation_id: "",
            recipient_id: row.person_id.as_str(),
            subject_id: row.id.as_str(),
            data: json!({ "id": row.id }),
        },
    )?;
    Ok(())
}

/// Sends a stored plan, once.
pub(crate) fn confirm(tx: &WriteTx<'_>, actor: &Actor, input: &OverseerConfirmation) -> Result<Made, Refusal> {
    let row = own(tx, actor, &input.plan_id).map_err(|refusal| refusal.at("plan_id"))?;
    if row.dispatched_at.is_none() && row.operation != PlanOperation::Status {
        must_be_served(tx, actor)?;
        if tx.now() >= row.expires_at {
            return Err(Refusal::conflict(
                ErrorCode::PreviewStale,
                "plan_id: a plan can be confirmed for 15 minutes; make it anew",
            ));
        }
        dispatch::send(tx, actor, &row)?;
    }
    Ok(Made { plan_id: row.id })
}

/// What is summed up, and the digest of it.
pub(crate) fn replies(tx: &ReadTx<'_>, actor: &Actor, id: &PlanId) -> Result<ReplyBrief, Refusal> {
    let row = own(tx, actor, id)?;
    must_be_served(tx, actor)?;
    if !row.dispatches.iter().any(|dispatch| dispatch.request_id.is_some()) {
        return Err(Refusal::invalid("", "this plan has asked for no reply"));
    }
    Ok(ReplyBrief { prompt: row.prompt.clone(), replies: replies_of(tx, actor, &row)? })
}

/// What a model made of the replies that it was shown.
#[derive(Debug)]
pub(crate) enum Summed {
    Text { text: String, digest: String },
    Failed(&'static str),
}

/// Stores what came of the replies.
pub(crate) fn summed(tx: &WriteTx<'_>, actor: &Actor, id: &PlanId, summed: &Summed) -> Result<Made, Refusal> {
    let row = own(tx, actor, id)?;
    must_be_served(tx, actor)?;
    match summed {
        Summed::Text { text, digest } => {
            rows::set_summary(tx, id, text, digest)?;
            record(tx, &row, actor, "plan.summarized")?;
        }
        Summed::Failed(why) => rows::set_summary_error(tx, id, why)?,
    }
    Ok(Made { plan_id: row.id })
}

/// Checks a summary; what is wrong with it can be shown.
pub(crate) fn check_summary(text: &str, brief: &[Request]) -> Summed {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_BODY_BYTES || text.contains('\0') {
        return Summed::Failed("the model gave no usable summary");
    }
    Summed::Text { text: text.to_owned(), digest: digest(brief) }
}

/// Names the evidence: which requests, and how each stood.
fn digest(replies: &[Request]) -> String {
    let evidence: Vec<_> =
        replies.iter().map(|request| json!([request.id, request.version, request.state, request.response])).collect();
    let digest = Sha256::digest(serde_json::Value::from(evidence).to_string().as_bytes());
    digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn replies_of(tx: &ReadTx<'_>, actor: &Actor, row: &PlanRow) -> Result<Vec<Request>, Refusal> {
    let mut replies = Vec::new();
    for id in row.dispatches.iter().filter_map(|dispatch| dispatch.request_id.as_ref()) {
        replies.extend(requests::project(tx, &actor.reader(), id)?);
    }
    Ok(replies)
}

/// A plan that the actor made.
fn own(tx: &ReadTx<'_>, actor: &Actor, id: &PlanId) -> Result<PlanRow, Refusal> {
    let row = visible(tx, actor, id)?;
    if row.person_id != actor.id {
        return Err(Refusal::forbidden("somebody else's plan"));
    }
    Ok(row)
}

/// A plan that the actor may read: its own, or as an operator.
fn visible(tx: &ReadTx<'_>, actor: &Actor, id: &PlanId) -> Result<PlanRow, Refusal> {
    rows::by_id(tx, id)?.filter(|row| may_read(actor, row)).ok_or_else(Refusal::not_found)
}

/// Whether the actor may read a plan.
pub(crate) fn may_read(actor: &Actor, row: &PlanRow) -> bool {
    actor.operator || row.person_id == actor.id
}

/// One plan.
pub(crate) fn get(tx: &ReadTx<'_>, actor: &Actor, seen: &Presence, id: &PlanId) -> Result<OverseerPlan, Refusal> {
    let row = visible(tx, actor, id)?;
    project(tx, actor, seen, row)
}

/// The actor's own plans, newest first, and whether there are more.
pub(crate) fn list(tx: &ReadTx<'_>, actor: &Actor, seen: &Presence) -> Result<(Vec<OverseerPlan>, bool), Refusal> {
    let rows = rows::page(tx, &actor.id, LAST, MAX_LIST + 1)?;
    let most = usize::try_from(MAX_LIST).unwrap_or(usize::MAX);
    let more = rows.len() > most;
    let plans = rows.into_iter().take(most).map(|row| project(tx, actor, seen, row)).collect::<Result<_, _>>()?;
    Ok((plans, more))
}

/// Stands behind every id of a plan.
pub(crate) const LAST: &str = "pln_~";

/// A plan as the actor may see it now: agents and replies that it lost sight of are left out.
pub(crate) fn project(tx: &ReadTx<'_>, actor: &Actor, seen: &Presence, row: PlanRow) -> Result<OverseerPlan, Refusal> {
    let replies = replies_of(tx, actor, &row)?;
    let sources = fleet::of(tx, actor, seen, &row.context)?;
    let requires_confirmation = row.dispatched_at.is_none() && row.operation != PlanOperation::Status;
    let shown = |id: &PrincipalId| sources.iter().any(|source| source.agent.id == *id);
    Ok(OverseerPlan {
        automatic: row.automatic,
        instructions: row.instructions,
        summary_error: row.summary_error,
        previous_plan_id: row.previous_plan_id,
        target: row.target,
        id: row.id,
        prompt: row.prompt,
        context_agent_ids: row.context.iter().filter(|id| shown(id)).cloned().collect(),
        operation: row.operation,
        summary: row.summary,
        body: row.body,
        requires_confirmation,
        created_at: row.created_at,
        expires_at: row.expires_at,
        dispatches: row.dispatches,
        replies,
        reply_summary: row.reply_summary,
        reply_digest: row.reply_digest,
        sources,
    })
}
