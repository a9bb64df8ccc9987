//! An agent's word that it can't go on without the reply of one other agent.

use beepgrid::{BlockingInput, PrincipalKind, RequestId};
use serde_json::json;

use super::Made;
use super::ask::check_blocking;
use super::project::{self, Access, View};
use super::state::Refused;
use crate::service::Refusal;
use crate::service::actor::Actor;
use crate::service::audience::Party;
use crate::service::events::{self, Event};
use crate::store::{ReadTx, WriteTx, principals, requests};

/// Says that the asking agent waits for the reply, or that it does so no longer. The version stays.
pub(crate) fn set_blocking(tx: &WriteTx<'_>, actor: &Actor, (id, input): &(RequestId, BlockingInput)) -> Result<Made, Refusal> {
    let view = project::find(tx, &actor.reader(), id)?.ok_or_else(Refusal::not_found)?;
    let asked = check(tx, actor, &view)?;
    if !view.standing().is_open() {
        return Err(Refused::Closed.into());
    }
    let row = &view.row;
    if row.blocking != input.blocking {
        if input.blocking {
            check_blocking(tx, actor, std::slice::from_ref(&asked))?;
        }
        requests::set_blocking(tx, id, input.blocking)?;
        events::record(
            tx,
            &Event {
                kind: "request.updated",
                actor_id: &actor.id,
                conversation_id: row.conversation_id.as_str(),
                recipient_id: asked.id.as_str(),
                subject_id: id.as_str(),
                data: json!({ "state": row.state, "version": row.version }),
            },
        )?;
    }
    Ok(Made { request_id: id.clone() })
}

/// The one agent that the request was put to, if the actor is the agent that asked.
pub(super) fn check(tx: &ReadTx<'_>, actor: &Actor, view: &View) -> Result<Party, Refusal> {
    if view.access != Access::Requester {
        return Err(Refusal::forbidden("only the agent that asked says whether it waits"));
    }
    let asked = requests::audience(tx, &view.row.id)?;
    let [only] = asked.as_slice() else { return Err(not_individual()) };
    let party = principals::party_by_id(tx, &only.principal_id)?.ok_or_else(not_individual)?;
    if actor.kind != PrincipalKind::Agent || party.kind != PrincipalKind::Agent || view.row.group_ask {
        return Err(not_individual());
    }
    Ok(party)
}

fn not_individual() -> Refusal {
    Refusal::forbidden("only an agent that asked one individual agent can wait for it")
}
