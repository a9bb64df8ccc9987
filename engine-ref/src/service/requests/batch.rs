//! The same ask to several targets, each with a request of its own.

use beepgrid::{AskBatchInput, AskBatchItem, RequestId};
use serde::{Deserialize, Serialize};

use super::ask::{Asked, deadline, individual, settle, settle_action};
use super::for_author;
use crate::service::actor::Actor;
use crate::service::audience::Party;
use crate::service::files::Claim;
use crate::service::{Refusal, previews};
use crate::store::{ReadTx, WriteTx};

/// What a batch made: for each merged target its place in the input and its request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MadeBatch {
    items: Vec<(usize, RequestId)>,
}

/// Opens a request of its own to each target: all or none. A refused target is named.
pub(crate) fn ask_batch(tx: &WriteTx<'_>, actor: &Actor, input: &AskBatchInput) -> Result<MadeBatch, Refusal> {
    let request = &input.request;
    let mut parties: Vec<(usize, Party)> = Vec::new();
    for (i, target) in input.targets.iter().enumerate() {
        let named = |refusal: Refusal| refusal.at(&format!("targets[{i}]"));
        let party = individual(tx, actor, target, request.action.as_ref()).map_err(named)?;
        if parties.iter().any(|(_, other)| other.id == party.id && other.instance_id == party.instance_id) {
            continue;
        }
        let agent_beside_instance =
            |other: &Party| other.id == party.id && other.instance_id.is_none() != party.instance_id.is_none();
        if parties.iter().any(|(_, other)| agent_beside_instance(other)) {
            return Err(named(Refusal::invalid("", "an agent and one of its own runtime connections can't be asked together")));
        }
        parties.push((i, party));
    }
    let at_request = |refusal: Refusal| refusal.at("request");
    let action = settle_action(tx, actor, request).map_err(at_request)?;
    let files = Claim::find(tx, actor, &request.attachment_ids).map_err(at_request)?;
    files.check_free().map_err(at_request)?;
    previews::check(tx, actor, &input.preview_token, &input.targets, "ask", request.action.as_ref())?;
    let expires_at = deadline(tx.now(), request).map_err(at_request)?;
    let mut items = Vec::with_capacity(parties.len());
    for (i, party) in parties {
        let id = settle(tx, actor, request, Asked::One(party), action.clone(), expires_at, &files)
            .map_err(|refusal| refusal.at(&format!("targets[{i}]")))?;
        items.push((i, id));
    }
    Ok(MadeBatch { items })
}

/// The answer to a batch, in the order of its targets.
pub(crate) fn batch_answer(
    tx: &ReadTx<'_>,
    actor: &Actor,
    input: &AskBatchInput,
    made: &MadeBatch,
) -> Result<Vec<AskBatchItem>, Refusal> {
    let mut answer = Vec::with_capacity(made.items.len());
    for (i, id) in &made.items {
        let target = input.targets.get(*i).ok_or_else(|| Refusal::internal("a batch remembers a target that it did not have"))?;
        answer.push(AskBatchItem { target: target.clone(), request: for_author(tx, actor, id)? });
    }
    Ok(answer)
}
