//! Whom an ask reaches, and whether the asker may: to one target, a group, within a conversation, to a batch.

use std::time::Duration;

use beepgrid::{
    Action, AskInput, ConversationId, PrincipalKind, RequestId, RequestKind, Response, RuleAction, Target, TargetKind, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::form;
use super::open::{New, Seat, store};
use crate::service::actor::Actor;
use crate::service::answers::Question;
use crate::service::audience::{self, Party};
use crate::service::files::Claim;
use crate::service::limits::{ACTION_LIFE, LONGEST_REQUEST_LIFE, MAX_BLOCKING};
use crate::service::messages::{self, Content};
use crate::service::permissions::Descriptor;
use crate::service::{Refusal, answers, conversations, previews};
use crate::store::conversations as rows;
use crate::store::{ReadTx, WriteTx, principals, requests};

/// When an agent that waits for too many may look again.
const BLOCKING_RETRY: Duration = Duration::from_secs(30);

/// What an ask made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) request_id: RequestId,
}

/// Who is asked, before conversations are opened for it.
pub(super) enum Asked {
    One(Party),
    Group(Vec<Party>),
    Within(Place),
}

/// A conversation, who is in it now, and who of them is asked.
pub(super) struct Place {
    conversation_id: ConversationId,
    present: Vec<Party>,
    asked: Vec<Party>,
}

impl Asked {
    fn parties(&self) -> &[Party] {
        match self {
            Self::One(party) => std::slice::from_ref(party),
            Self::Group(parties) => parties,
            Self::Within(place) => &place.asked,
        }
    }
}

/// Opens a request to a target or within a conversation.
pub(crate) fn ask(tx: &WriteTx<'_>, actor: &Actor, input: &AskInput) -> Result<Made, Refusal> {
    open(tx, actor, input).map(|request_id| Made { request_id })
}

/// The same, for what begins with a request: a chat. The form is checked by the caller.
pub(crate) fn open(tx: &WriteTx<'_>, actor: &Actor, input: &AskInput) -> Result<RequestId, Refusal> {
    let asked = match (&input.target, &input.conversation_id) {
        (Some(target), _) => to_target(tx, actor, target, input.action.as_ref()).map_err(|refusal| refusal.at("target"))?,
        (None, Some(id)) => within(tx, actor, id, input.action.as_ref())?,
        (None, None) => return Err(Refusal::invalid("target", "exactly one of target and conversation_id")),
    };
    let action = settle_action(tx, actor, input)?;
    let files = Claim::find(tx, actor, &input.attachment_ids)?;
    previews::check(tx, actor, &input.preview_token, input.target.as_slice(), "ask", input.action.as_ref())?;
    let expires_at = deadline(tx.now(), input)?;
    settle(tx, actor, input, asked, action, expires_at, &files)
}

/// Those of `parties` whom the actor may ask: not itself, not disabled, allowed by a rule.
///
/// # Errors
/// 403 when nobody is left.
fn askable(tx: &ReadTx<'_>, actor: &Actor, parties: &[Party], action: Descriptor<'_>) -> Result<Vec<Party>, Refusal> {
    let mut asked = Vec::new();
    for party in parties {
        if party.id != actor.id && !party.disabled && may_ask(tx, actor, party, action)? {
            asked.push(party.clone());
        }
    }
    if asked.is_empty() {
        return Err(Refusal::forbidden("nobody here can be asked: no rule lets you ask a present participant"));
    }
    Ok(asked)
}

pub(super) fn may_ask(tx: &ReadTx<'_>, actor: &Actor, party: &Party, action: Descriptor<'_>) -> Result<bool, Refusal> {
    Ok(actor.operator || actor.rules.allows_with(tx, &actor.id, &RuleAction::Ask, party, action)?)
}

fn to_target(tx: &ReadTx<'_>, actor: &Actor, target: &Target, action: Descriptor<'_>) -> Result<Asked, Refusal> {
    if target.kind == TargetKind::Group {
        return audience::reach_group(tx, actor, target, &RuleAction::Ask).map(Asked::Group);
    }
    individual(tx, actor, target, action).map(Asked::One)
}

pub(super) fn individual(tx: &ReadTx<'_>, actor: &Actor, target: &Target, action: Descriptor<'_>) -> Result<Party, Refusal> {
    let party = audience::reach(tx, actor, target, &RuleAction::Ask, action)?;
    if party.id == actor.id && actor.kind != PrincipalKind::Person {
        return Err(Refusal::invalid("", "only a person may ask itself"));
    }
    Ok(party)
}

fn within(tx: &ReadTx<'_>, actor: &Actor, id: &ConversationId, action: Descriptor<'_>) -> Result<Asked, Refusal> {
    let not_found = || Refusal::not_found().at("conversation_id");
    actor.reader().window(tx, id)?.ok_or_else(not_found)?;
    let conversation = rows::by_id(tx, id)?.ok_or_else(not_found)?;
    let present = present(tx, id)?;
    if !present.iter().any(|party| party.id == actor.id) {
        return Err(Refusal::forbidden("only a present participant asks within a conversation"));
    }
    // What a person asked itself goes on in the same place.
    let alone = !conversation.shared && present.len() == 1 && actor.kind == PrincipalKind::Person;
    let asked = if alone { present.clone() } else { askable(tx, actor, &present, action)? };
    Ok(Asked::Within(Place { conversation_id: id.clone(), present, asked }))
}

/// The present participants of a conversation.
pub(super) fn present(tx: &ReadTx<'_>, id: &ConversationId) -> Result<Vec<Party>, Refusal> {
    Ok(rows::participants(tx, id)?.into_iter().filter(|member| member.active).map(|member| member.party).collect())
}

/// The action with its executor's id.
pub(super) fn settle_action(tx: &ReadTx<'_>, actor: &Actor, input: &AskInput) -> Result<Option<Action>, Refusal> {
    let Some(action) = &input.action else { return Ok(None) };
    let field = "action.executor_id";
    let party = named(tx, actor, action.executor_id.as_str()).map_err(|refusal| refusal.at(field))?;
    let party = party.ok_or_else(|| Refusal::not_found().at(field))?;
    if party.disabled {
        return Err(Refusal::forbidden("the executor is disabled").at(field));
    }
    Ok(Some(Action { executor_id: party.id, ..action.clone() }))
}

/// Whom an id without a kind names, if the actor may see it: one by its id, else by its external id, whatever its kind.
///
/// # Errors
/// `invalid_request` when several visible identities have this external id.
pub(crate) fn named(tx: &ReadTx<'_>, actor: &Actor, id: &str) -> Result<Option<Party>, Refusal> {
    the_visible_one(tx, actor, candidates(tx, id)?)
}

fn candidates(tx: &ReadTx<'_>, id: &str) -> Result<Vec<Party>, Refusal> {
    if let Some(party) = principals::party_by_id(tx, &id.into())? {
        return Ok(vec![party]);
    }
    let mut named = Vec::new();
    for kind in PrincipalKind::KNOWN {
        named.extend(principals::party_by_any_id(tx, kind, id)?);
    }
    Ok(named)
}

fn the_visible_one(tx: &ReadTx<'_>, actor: &Actor, named: Vec<Party>) -> Result<Option<Party>, Refusal> {
    let mut visible = Vec::new();
    for party in named {
        if actor.may_view(tx, &party)? {
            visible.push(party);
        }
    }
    if visible.len() > 1 {
        return Err(Refusal::invalid("", "this external id names several identities; give the id"));
    }
    Ok(visible.pop())
}

pub(super) fn deadline(now: Timestamp, input: &AskInput) -> Result<Timestamp, Refusal> {
    match input.expires_at {
        None if input.action.is_some() => Ok(now.plus(ACTION_LIFE)),
        None | Some(Timestamp::NEVER) => Ok(Timestamp::NEVER),
        Some(at) if at > now && at <= now.plus(LONGEST_REQUEST_LIFE) => Ok(at),
        Some(_) => Err(Refusal::invalid(
            "expires_at",
            format!("in the future, at most 90 days from now, or {} for no deadline", Timestamp::NEVER),
        )),
    }
}

/// Checks the limits, opens the conversations and stores the request.
pub(super) fn settle(
    tx: &WriteTx<'_>,
    actor: &Actor,
    input: &AskInput,
    asked: Asked,
    action: Option<Action>,
    expires_at: Timestamp,
    files: &Claim,
) -> Result<RequestId, Refusal> {
    if let (Some(action), [only]) = (&action, asked.parties())
        && action.executor_id == only.id
    {
        return Err(Refusal::invalid("action.executor_id", "the executor may not be the only one who is asked"));
    }
    files.check_free()?;
    if input.blocking {
        check_blocking(tx, actor, asked.parties())?;
    }
    let group_ask = matches!(asked, Asked::Group(_));
    let reused = reused(tx, actor, input, &asked)?;
    let new = New {
        kind: form::kind(input),
        title: input.title.clone(),
        body: input.body.clone(),
        choices: input.choices.clone(),
        mentions: input.mentions.clone(),
        blocking: input.blocking,
        group_ask,
        action,
        shared_key: input.shared_key.clone(),
        expires_at,
        seats: seats(tx, actor, input, asked)?,
        replaces_id: None,
        reused,
    };
    let id = store(tx, actor, new)?;
    files.bind_to_request(tx, actor, &id)?;
    Ok(id)
}

/// The published answer that a question with a key gets at once. What comes with files is a question of its own.
fn reused(tx: &ReadTx<'_>, actor: &Actor, input: &AskInput, asked: &Asked) -> Result<Option<Response>, Refusal> {
    if input.shared_key.is_empty() || form::kind(input) != RequestKind::Question || !input.attachment_ids.is_empty() {
        return Ok(None);
    }
    let present: &[Party] = if let Asked::Within(place) = asked { &place.present } else { &[] };
    let question = Question {
        key: &input.shared_key,
        title: &input.title,
        body: &input.body,
        choices: &input.choices,
        asked: asked.parties(),
        present,
    };
    answers::reusable(tx, actor, &question)
}

/// Where each of those who are asked will read the request; opens what is not there yet.
fn seats(tx: &WriteTx<'_>, actor: &Actor, input: &AskInput, asked: Asked) -> Result<Vec<Seat>, Refusal> {
    let content = Content { body: &input.body, mentions: &input.mentions, files: &Claim::default() };
    let parties = match asked {
        Asked::Within(Place { conversation_id, present, asked }) => {
            messages::names_participants(&content, &present)?;
            let seat = |party| Seat { party, conversation_id: conversation_id.clone() };
            return Ok(asked.into_iter().map(seat).collect());
        }
        Asked::One(party) => vec![party],
        Asked::Group(parties) => parties,
    };
    let mut seats = Vec::with_capacity(parties.len());
    for party in parties {
        messages::names_participants(&content, &[actor.as_party(), party.clone()])?;
        let conversation_id = if input.reuse_direct {
            conversations::reuse_direct(tx, actor, &party.id, &input.title)?
        } else {
            conversations::open_direct(tx, actor, &party.id, &input.title)?
        };
        seats.push(Seat { party, conversation_id });
    }
    Ok(seats)
}

/// Blocking is for an agent that waits for one other agent, 100 times at most.
pub(super) fn check_blocking(tx: &ReadTx<'_>, actor: &Actor, parties: &[Party]) -> Result<(), Refusal> {
    if actor.kind != PrincipalKind::Agent {
        return Err(Refusal::invalid("blocking", "only an agent can be blocked"));
    }
    if !matches!(parties, [only] if only.kind == PrincipalKind::Agent) {
        return Err(Refusal::invalid("blocking", "only while one individual agent is asked"));
    }
    if requests::count_blocking(tx, &actor.id)? >= MAX_BLOCKING {
        let message = format!("an agent has at most {MAX_BLOCKING} open blocking requests");
        return Err(Refusal::RateLimited { message, retry_after: BLOCKING_RETRY });
    }
    Ok(())
}
