//! Which published answer a question gets at once: the same key and text, for this asker, from somebody who is asked again, and
//! nothing revoked since.

use beepgrid::{Outcome, Response, RuleAction};

use super::{AFTER_ALL_IDS, context, may_hear, publisher_stands, readable};
use crate::service::Refusal;
use crate::service::actor::Actor;
use crate::service::audience::Party;
use crate::service::conversations::Reader;
use crate::service::limits::MAX_SCAN;
use crate::store::answers::{self, AnswerRow};
use crate::store::{ReadTx, requests};

/// Published answers that are looked at in one go.
const CHUNK: i64 = 100;

/// A question that is about to be asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'q> {
    pub(crate) key: &'q str,
    pub(crate) title: &'q str,
    pub(crate) body: &'q str,
    pub(crate) choices: &'q [String],
    /// Who is asked.
    pub(crate) asked: &'q [Party],
    /// Who is present where it is asked, and would see the answer too.
    pub(crate) present: &'q [Party],
}

/// The response that a published answer gives to a question, if there is one; the newest first.
pub(crate) fn reusable(tx: &ReadTx<'_>, actor: &Actor, question: &Question<'_>) -> Result<Option<Response>, Refusal> {
    let context = context(question.title, question.body, question.choices);
    let (mut before, mut scanned) = (AFTER_ALL_IDS.to_owned(), 0);
    while scanned < MAX_SCAN {
        let rows = answers::offered(tx, question.key, &context, &before, CHUNK)?;
        let Some(oldest) = rows.last() else { return Ok(None) };
        oldest.id.as_str().clone_into(&mut before);
        scanned += CHUNK;
        for row in rows {
            if let Some(response) = response(tx, actor, question, &row)? {
                return Ok(Some(response));
            }
        }
    }
    Ok(None)
}

fn response(tx: &ReadTx<'_>, actor: &Actor, question: &Question<'_>, row: &AnswerRow) -> Result<Option<Response>, Refusal> {
    let Some(responder) = question.asked.iter().find(|party| party.id == row.responder_id && !party.disabled) else {
        return Ok(None);
    };
    if !answers::is_for(tx, &row.id, &actor.id)? || !may_decide(tx, actor, responder)? {
        return Ok(None);
    }
    let Some(source) = requests::find(tx, &row.request_id)? else { return Ok(None) };
    if !may_hear(tx, &actor.reader(), row, &source)? || !others_may_hear(tx, actor, question, row)? {
        return Ok(None);
    }
    if !publisher_stands(tx, actor, row)? {
        return Ok(None);
    }
    let given = source.response.and_then(|response| response.answer);
    Ok(Some(Response {
        responder_id: Some(row.responder_id.clone()),
        responder_instance_id: None,
        source_answer_id: Some(row.id.clone()),
        reuse_method: "shared_key".to_owned(),
        reuse_reason: "the same key, title, body and choices as a published answer that is for who asks".to_owned(),
        source_invalidated: false,
        outcome: Outcome::Answered,
        answer: given,
        version: 1,
    }))
}

/// Whether who gave the answer could decide for this asker now.
fn may_decide(tx: &ReadTx<'_>, actor: &Actor, responder: &Party) -> Result<bool, Refusal> {
    if responder.id == actor.id || responder.operator {
        return Ok(true);
    }
    Ok(!actor.rules.denied(tx, &responder.id, &RuleAction::Decide, &actor.as_party())?)
}

/// In a conversation the answer shows to everybody who is there, so it has to be for all of them.
fn others_may_hear(tx: &ReadTx<'_>, actor: &Actor, question: &Question<'_>, row: &AnswerRow) -> Result<bool, Refusal> {
    for party in question.present {
        if party.id == actor.id || party.id == row.responder_id {
            continue;
        }
        let reader = Reader { id: &party.id, operator: party.operator, rules: &actor.rules };
        if !readable(tx, &reader, row)? {
            return Ok(false);
        }
    }
    Ok(true)
}
