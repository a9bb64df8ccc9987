//! Sends what a plan says, in the name and with the present rights of the person who made it. All of it or nothing.

use beepgrid::{AskInput, OverseerDispatch, OverseerInstruction, Permission, PlanOperation, RequestKind, SendInput, Target};

use crate::service::actor::{Actor, Need};
use crate::service::{Refusal, messages, requests};
use crate::store::WriteTx;
use crate::store::coordinator::{self as rows, PlanRow};

pub(super) fn send(tx: &WriteTx<'_>, actor: &Actor, row: &PlanRow) -> Result<(), Refusal> {
    if row.operation == PlanOperation::Status {
        return Ok(());
    }
    let mut dispatches = Vec::with_capacity(row.instructions.len());
    for (place, instruction) in row.instructions.iter().enumerate() {
        let sent = one(tx, actor, instruction).map_err(|refusal| refusal.at(&format!("instructions[{place}]")))?;
        dispatches.push(sent);
    }
    rows::set_dispatched(tx, &row.id, &dispatches)?;
    super::record(tx, row, actor, "plan.dispatched")
}

fn one(tx: &WriteTx<'_>, actor: &Actor, instruction: &OverseerInstruction) -> Result<OverseerDispatch, Refusal> {
    let target = Target::agent(&instruction.agent_id);
    let agent_id = instruction.agent_id.clone();
    let kind = match instruction.operation {
        PlanOperation::Question => RequestKind::Question,
        PlanOperation::Task => RequestKind::Task,
        _ => {
            actor.need(&Need::Ceiling(Permission::Message))?;
            let sent = messages::send(tx, actor, &SendInput::to(target, &instruction.body))?;
            return Ok(OverseerDispatch { agent_id, conversation_id: sent.conversation_id().clone(), request_id: None });
        }
    };
    actor.need(&Need::Ceiling(Permission::Request))?;
    let made = requests::ask(tx, actor, &AskInput::to(target, &instruction.body).kind(kind))?;
    let request = requests::for_author(tx, actor, &made.request_id)?;
    Ok(OverseerDispatch { agent_id, conversation_id: request.conversation_id, request_id: Some(made.request_id) })
}
