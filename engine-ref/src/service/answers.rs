//! Reusable answers: published from a resolved question by who manages answers, for a named audience and a limited time.
//!
//! A published answer discloses its question, so whoever a deny keeps from the people in it does not see it either. What it is
//! reused for stands in `reuse`.

mod reuse;
#[cfg(test)]
mod tests;

use beepgrid::{
    Answer, AnswerAndShareInput, AnswerAndShareResult, AnswerId, AnswerInput, Outcome, Permission, PrincipalId, RequestId,
    RequestKind, RequestState, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::actor::{Actor, Need};
use super::conversations::Reader;
use super::events::{self, Event};
use super::limits::{DEFAULT_VALIDITY, LONGEST_VALIDITY, MAX_ANSWER_AUDIENCE, MAX_LIST, MAX_SCAN};
use super::requests::project::{self, View};
use super::requests::{self, form};
use super::{Refusal, checks, cursor, new_id};
use crate::store::answers::{self, AnswerRow};
use crate::store::requests::RequestRow;
use crate::store::{ReadTx, WriteTx, principals, requests as request_rows};

pub(crate) use reuse::{Question, reusable};

/// Sorts after every id.
const AFTER_ALL_IDS: &str = "ans_~";
/// The resource kind that a publisher manages.
pub(crate) const RESOURCE: &str = "answers";

/// What a publication made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Made {
    answer_id: AnswerId,
}

/// What is published, and for whom.
struct Publication<'p> {
    request_id: &'p RequestId,
    key: &'p str,
    audience: &'p [PrincipalId],
    valid_until: Option<Timestamp>,
}

/// Whether a publication has the right form.
pub(crate) fn check(input: &AnswerInput) -> Result<(), Refusal> {
    checks::id("request_id", input.request_id.as_str())?;
    form::shared_key("key", &input.key)?;
    check_audience(&input.audience)
}

/// The same for an answer that is given and published in one step.
pub(crate) fn check_shared(input: &AnswerAndShareInput) -> Result<(), Refusal> {
    form::response(&input.response())?;
    if input.outcome != Outcome::Answered {
        return Err(Refusal::invalid("outcome", "answered: only the answer to a question is reused"));
    }
    form::shared_key("key", &input.key)?;
    check_audience(&input.audience)
}

fn check_audience(audience: &[PrincipalId]) -> Result<(), Refusal> {
    if audience.is_empty() {
        return Err(Refusal::invalid("audience", format!("required, 1 to {MAX_ANSWER_AUDIENCE} identities")));
    }
    checks::count("audience", audience.len(), MAX_ANSWER_AUDIENCE)?;
    audience.iter().enumerate().try_for_each(|(i, id)| checks::id(&format!("audience[{i}]"), id.as_str()))
}

/// Publishes the answer to a resolved question.
pub(crate) fn publish(tx: &WriteTx<'_>, actor: &Actor, input: &AnswerInput) -> Result<Made, Refusal> {
    let publication =
        Publication { request_id: &input.request_id, key: &input.key, audience: &input.audience, valid_until: input.valid_until };
    store(tx, actor, &publication, "request_id")
}

/// Answers a question and publishes that, both or neither.
pub(crate) fn answer_and_share(
    tx: &WriteTx<'_>,
    actor: &Actor,
    (id, input): &(RequestId, AnswerAndShareInput),
) -> Result<Made, Refusal> {
    actor.need(&Need::Ceiling(Permission::Manage))?;
    let view = project::find(tx, &actor.reader(), id)?.ok_or_else(Refusal::not_found)?;
    actor.must_manage(tx, RESOURCE)?;
    if view.row.kind != RequestKind::Question {
        requests::must_decide(tx, actor, &view)?;
        return Err(Refusal::invalid("", format!("only the answer to a question is reused; this is a {}", view.row.kind)));
    }
    requests::respond(tx, actor, &(id.clone(), input.response()))?;
    let publication = Publication { request_id: id, key: &input.key, audience: &input.audience, valid_until: input.valid_until };
    store(tx, actor, &publication, "")
}

fn store(tx: &WriteTx<'_>, actor: &Actor, publication: &Publication<'_>, place: &str) -> Result<Made, Refusal> {
    let view = project::find(tx, &actor.reader(), publication.request_id)?;
    let view = view.ok_or_else(|| Refusal::not_found().at(place))?;
    actor.must_manage(tx, RESOURCE)?;
    let responder = source(&view, actor.reader().id).map_err(|refusal| refusal.at(place))?;
    let audience = audience(tx, actor, publication.audience)?;
    let valid_until = valid_until(tx.now(), publication.valid_until)?;
    let row = AnswerRow {
        id: new_id(AnswerId::PREFIX),
        request_id: view.row.id.clone(),
        publisher_id: actor.id.clone(),
        responder_id: responder,
        key: publication.key.to_owned(),
        context: context(&view.row.title, &view.row.body, &view.row.choices),
        valid_until,
        created_at: tx.now(),
        invalidated_at: None,
    };
    answers::insert(tx, &row, &audience)?;
    record(tx, "answer.published", &actor.id, &row)?;
    Ok(Made { answer_id: row.id })
}

/// Who gave the answer, if it is one that may be published: to a question, by somebody, and shown to the publisher.
fn source(view: &View, publisher: &PrincipalId) -> Result<PrincipalId, Refusal> {
    let row = &view.row;
    if row.kind != RequestKind::Question {
        return Err(Refusal::invalid("", format!("only the answer to a question is reused; this is a {}", row.kind)));
    }
    let Some(response) = row.response.as_ref().filter(|_| row.state == RequestState::Resolved) else {
        return Err(Refusal::invalid("", format!("the question has no answer: it is {}", row.state)));
    };
    if !view.shows_response_to(publisher) {
        return Err(Refusal::forbidden("you do not see the answer to this question"));
    }
    if response.source_answer_id.is_some() {
        return Err(Refusal::invalid("", "its answer was reused itself; publish the one that it comes from"));
    }
    response.responder_id.clone().ok_or_else(|| Refusal::internal("an answer that nobody gave"))
}

/// Whom an answer is for, by id: everybody visible to the publisher, once, and not disabled.
fn audience(tx: &ReadTx<'_>, actor: &Actor, named: &[PrincipalId]) -> Result<Vec<PrincipalId>, Refusal> {
    let mut ids = Vec::with_capacity(named.len());
    for (i, id) in named.iter().enumerate() {
        let place = format!("audience[{i}]");
        let found = requests::named(tx, actor, id.as_str()).map_err(|refusal| refusal.at(&place))?;
        let party = found.ok_or_else(|| Refusal::not_found().at(&place))?;
        if party.disabled {
            return Err(Refusal::forbidden(format!("this {} is disabled", party.kind)).at(&place));
        }
        ids.push(party.id);
    }
    ids.sort();
    ids.dedup();
    Ok(ids)
}

fn valid_until(now: Timestamp, given: Option<Timestamp>) -> Result<Timestamp, Refusal> {
    match given {
        None => Ok(now.plus(DEFAULT_VALIDITY)),
        Some(at) if at > now && at <= now.plus(LONGEST_VALIDITY) => Ok(at),
        Some(_) => Err(Refusal::invalid("valid_until", "in the future, at most 90 days from now")),
    }
}

/// A digest of what has to be the same in every question that gets an answer.
fn context(title: &str, body: &str, choices: &[String]) -> String {
    cursor::hex(&Sha256::digest(json!([title, body, choices]).to_string().as_bytes()))
}

/// The answer to a publication.
pub(crate) fn published(tx: &ReadTx<'_>, actor: &Actor, _: &AnswerInput, made: &Made) -> Result<Answer, Refusal> {
    for_author(tx, actor, &made.answer_id)
}

/// The answer to answering and publishing.
pub(crate) fn shared(
    tx: &ReadTx<'_>,
    actor: &Actor,
    (id, _): &(RequestId, AnswerAndShareInput),
    made: &Made,
) -> Result<AnswerAndShareResult, Refusal> {
    // Both parts of the ceiling count on a replay too.
    actor.need(&Need::Ceiling(Permission::Manage))?;
    Ok(AnswerAndShareResult { request: requests::for_author(tx, actor, id)?, answer: for_author(tx, actor, &made.answer_id)? })
}

fn for_author(tx: &ReadTx<'_>, actor: &Actor, id: &AnswerId) -> Result<Answer, Refusal> {
    let row = answers::by_id(tx, id)?.ok_or_else(Refusal::not_found)?;
    show(tx, &actor.reader(), row)?.ok_or_else(Refusal::not_found)
}

/// Takes an answer out of reuse: its publisher, or who manages answers. Once more changes nothing.
pub(crate) fn invalidate(tx: &WriteTx<'_>, actor: &Actor, id: &AnswerId) -> Result<Made, Refusal> {
    let row = answers::by_id(tx, id)?.ok_or_else(Refusal::not_found)?;
    if row.publisher_id != actor.id && !actor.manages(tx, RESOURCE)? {
        return Err(if readable(tx, &actor.reader(), &row)? {
            Refusal::forbidden("only who published an answer, or manages answers, invalidates it")
        } else {
            Refusal::not_found()
        });
    }
    if row.invalidated_at.is_none() {
        answers::invalidate(tx, id)?;
        record(tx, "answer.invalidated", &actor.id, &row)?;
    }
    Ok(Made { answer_id: row.id })
}

/// The answer to an invalidation.
pub(crate) fn invalidated(tx: &ReadTx<'_>, actor: &Actor, _: &AnswerId, made: &Made) -> Result<Answer, Refusal> {
    for_author(tx, actor, &made.answer_id)
}

/// The answers that the actor may read, newest first, and whether there are more.
pub(crate) fn list(tx: &ReadTx<'_>, actor: &Actor) -> Result<(Vec<Answer>, bool), Refusal> {
    let everything = actor.manages(tx, RESOURCE)?;
    let most = usize::try_from(MAX_LIST).unwrap_or(usize::MAX);
    let (mut shown, mut before, mut scanned) = (Vec::new(), AFTER_ALL_IDS.to_owned(), 0);
    while scanned < MAX_SCAN {
        let rows =
            if everything { answers::page(tx, &before, MAX_LIST)? } else { answers::page_for(tx, &actor.id, &before, MAX_LIST)? };
        let Some(oldest) = rows.last() else { return Ok((shown, false)) };
        oldest.id.as_str().clone_into(&mut before);
        scanned += MAX_LIST;
        for row in rows {
            let Some(answer) = visible(tx, &actor.reader(), row)? else { continue };
            if shown.len() == most {
                return Ok((shown, true));
            }
            shown.push(answer);
        }
    }
    Ok((shown, true))
}

/// What was published from a request, as far as the reader may see it, newest first.
pub(crate) fn of_request(tx: &ReadTx<'_>, reader: &Reader<'_>, id: &RequestId) -> Result<Vec<Answer>, Refusal> {
    let mut shown = Vec::new();
    for row in answers::of_request(tx, id, MAX_LIST)? {
        shown.extend(visible(tx, reader, row)?);
    }
    Ok(shown)
}

/// The answer, if the reader may see it.
pub(crate) fn project(tx: &ReadTx<'_>, reader: &Reader<'_>, id: &AnswerId) -> Result<Option<Answer>, Refusal> {
    answers::by_id(tx, id)?.map_or(Ok(None), |row| visible(tx, reader, row))
}

/// The answer, if the reader may see it: its publisher, its audience, who manages answers.
pub(crate) fn visible(tx: &ReadTx<'_>, reader: &Reader<'_>, row: AnswerRow) -> Result<Option<Answer>, Refusal> {
    if readable(tx, reader, &row)? { show(tx, reader, row) } else { Ok(None) }
}

fn readable(tx: &ReadTx<'_>, reader: &Reader<'_>, row: &AnswerRow) -> Result<bool, Refusal> {
    if reader.operator || row.publisher_id == *reader.id {
        return Ok(true);
    }
    if !answers::is_for(tx, &row.id, reader.id)? && !reader.rules.manages(tx, reader.id, RESOURCE)? {
        return Ok(false);
    }
    let Some(request) = request_rows::find(tx, &row.request_id)? else { return Ok(false) };
    may_hear(tx, reader, row, &request)
}

/// Whether no deny on `view` keeps the reader from somebody whose words are in the answer.
fn may_hear(tx: &ReadTx<'_>, reader: &Reader<'_>, row: &AnswerRow, request: &RequestRow) -> Result<bool, Refusal> {
    for author in [&row.publisher_id, &row.responder_id, &request.requester_id] {
        if reader.hides(tx, author)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the publisher still may do what it did: it is not disabled, manages answers and sees the answer at its source.
fn publisher_stands(tx: &ReadTx<'_>, actor: &Actor, row: &AnswerRow) -> Result<bool, Refusal> {
    let Some(publisher) = principals::party_by_id(tx, &row.publisher_id)?.filter(|party| !party.disabled) else {
        return Ok(false);
    };
    if !publisher.operator && !actor.rules.manages(tx, &publisher.id, RESOURCE)? {
        return Ok(false);
    }
    let reader = Reader { id: &publisher.id, operator: publisher.operator, rules: &actor.rules };
    let view = project::find(tx, &reader, &row.request_id)?;
    Ok(view.is_some_and(|view| view.shows_response_to(&publisher.id)))
}

/// Whom else it is for is shown to the publisher and to who manages answers.
fn show(tx: &ReadTx<'_>, reader: &Reader<'_>, row: AnswerRow) -> Result<Option<Answer>, Refusal> {
    let Some(request) = request_rows::find(tx, &row.request_id)? else { return Ok(None) };
    let mut audience = answers::audience(tx, &row.id)?;
    let oversees = reader.operator || row.publisher_id == *reader.id || reader.rules.manages(tx, reader.id, RESOURCE)?;
    if !oversees {
        audience.retain(|member| member == reader.id);
    }
    Ok(Some(Answer {
        id: row.id,
        request_id: row.request_id,
        publisher_id: row.publisher_id,
        responder_id: row.responder_id,
        key: row.key,
        title: request.title,
        body: request.body,
        choices: request.choices,
        answer: request.response.and_then(|response| response.answer).unwrap_or(Value::Null),
        audience,
        valid_until: row.valid_until,
        invalidated: row.invalidated_at.is_some(),
        invalidated_at: row.invalidated_at,
        created_at: row.created_at,
    }))
}

/// Tells whoever may see the answer.
fn record(tx: &WriteTx<'_>, kind: &'static str, actor: &PrincipalId, row: &AnswerRow) -> Result<(), Refusal> {
    let event = Event {
        kind,
        actor_id: actor,
        conversation_id: "",
        recipient_id: row.publisher_id.as_str(),
        subject_id: row.id.as_str(),
        data: json!({ "request_id": row.request_id }),
    };
    events::record(tx, &event)?;
    Ok(())
}
