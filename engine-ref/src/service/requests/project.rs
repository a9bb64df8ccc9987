//! What a reader may see of a request: nothing, a part, or all of it, with deadlines that have come already applied.

use beepgrid::{
    ConversationId, PrincipalId, Request, RequestId, RequestKind, RequestRecipient, RequestState, Response, Timestamp,
};

use super::state::{Standing, is_due};
use crate::service::conversations::{Hidden, Reader};
use crate::service::limits::{CONVERSATION_WINDOW, MAX_SCAN};
use crate::service::{Refusal, files};
use crate::store::requests::{self, RequestRow, SeenRow};
use crate::store::{ReadTx, answers};

/// Sorts after every id.
const AFTER_ALL_IDS: &str = "req_~";

/// Why a reader sees a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Requester,
    Operator,
    /// Asked, and still a participant whose history window holds the request.
    Asked,
    /// A present member of the shared chat, with such a window.
    Chat,
    /// Nothing but the executor of the action: sees a part.
    Executor,
}

/// A request that a reader may see, as it stands now.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) row: RequestRow,
    pub(crate) access: Access,
    /// Where the reader was asked, as long as it may read there.
    pub(crate) seat: Option<ConversationId>,
    /// Whether the reader is a participant where it would read the request.
    pub(crate) present: bool,
    shared: bool,
}

impl View {
    pub(crate) fn standing(&self) -> Standing {
        Standing { state: self.row.state.clone(), version: self.row.version }
    }

    /// Whether the decision is shown to the reader that this view was made for.
    pub(crate) fn shows_response_to(&self, reader: &PrincipalId) -> bool {
        let gave_it = self.row.response.as_ref().is_some_and(|response| response.responder_id.as_ref() == Some(reader));
        match self.access {
            Access::Requester | Access::Operator => true,
            Access::Asked | Access::Chat => gave_it || self.shared,
            Access::Executor => false,
        }
    }
}

/// The request as it stands at the transaction's time, whether or not the sweeper has closed it.
pub(crate) fn as_of_now(tx: &ReadTx<'_>, mut row: RequestRow) -> RequestRow {
    let stored = Standing { state: row.state.clone(), version: row.version };
    let now = stored.at(row.expires_at, tx.now());
    if now != stored {
        row.closed_at = Some(row.expires_at);
        Standing { state: row.state, version: row.version } = now;
    }
    row
}

/// The request, if the reader may see it.
pub(crate) fn find(tx: &ReadTx<'_>, reader: &Reader<'_>, id: &RequestId) -> Result<Option<View>, Refusal> {
    let Some(seen) = requests::find_for(tx, id, reader.id)? else { return Ok(None) };
    let hidden = reader.hides(tx, &seen.request.requester_id)?;
    Ok(view(tx, reader, seen, hidden))
}

/// The request as the reader may see it, or nothing.
pub(crate) fn project(tx: &ReadTx<'_>, reader: &Reader<'_>, id: &RequestId) -> Result<Option<Request>, Refusal> {
    find(tx, reader, id)?.map(|view| show(tx, reader.id, view)).transpose()
}

/// The newest requests of a conversation that the reader may see, oldest first. That it may see the conversation is known.
pub(crate) fn in_conversation(
    tx: &ReadTx<'_>,
    reader: &Reader<'_>,
    conversation: &ConversationId,
) -> Result<Vec<Request>, Refusal> {
    let mut shown = Vec::new();
    let mut hidden = Hidden::default();
    let mut before = AFTER_ALL_IDS.to_owned();
    let mut scanned = 0;
    while scanned < MAX_SCAN {
        let page = requests::page_in_conversation(tx, conversation, reader.id, &before, CONVERSATION_WINDOW)?;
        let Some(oldest) = page.last() else { break };
        oldest.request.id.as_str().clone_into(&mut before);
        scanned += CONVERSATION_WINDOW;
        for seen in page {
            let hides = hidden.is(tx, reader, &seen.request.requester_id)?;
            if let Some(view) = view(tx, reader, seen, hides).filter(|view| view.access != Access::Executor) {
                shown.push((view.row.sequence, show(tx, reader.id, view)?));
            }
            if shown.len() >= usize::try_from(CONVERSATION_WINDOW).unwrap_or(usize::MAX) {
                scanned = MAX_SCAN;
                break;
            }
        }
    }
    shown.sort_by_key(|(sequence, _)| *sequence);
    Ok(shown.into_iter().map(|(_, request)| request).collect())
}

/// What those hear of who were asked in a group and whom others forestalled: state and version alone.
pub(crate) fn withdrawn(row: &RequestRow) -> Request {
    bare(row)
}

/// What the author of a write gets back when it sees the request no longer: ids, state and its own decision.
pub(crate) fn own_part(tx: &ReadTx<'_>, author: &PrincipalId, id: &RequestId) -> Result<Request, Refusal> {
    let row = requests::find(tx, id)?.ok_or_else(Refusal::not_found)?;
    let row = as_of_now(tx, row);
    let mut request = bare(&row);
    request.response = row.response.filter(|response| response.responder_id.as_ref() == Some(author));
    Ok(request)
}

fn view(tx: &ReadTx<'_>, reader: &Reader<'_>, seen: SeenRow, hidden: bool) -> Option<View> {
    let SeenRow { request, shared, seat, window } = seen;
    let holds = window.is_some_and(|start| start <= request.sequence);
    let seat = seat.filter(|_| holds && !hidden);
    let access = if *reader.id == request.requester_id {
        Access::Requester
    } else if reader.operator {
        Access::Operator
    } else if hidden {
        return None;
    } else if seat.is_some() {
        Access::Asked
    } else if holds && shared {
        Access::Chat
    } else if request.executor_id.as_ref() == Some(reader.id) {
        Access::Executor
    } else {
        return None;
    };
    Some(View { row: as_of_now(tx, request), access, seat, present: window.is_some(), shared })
}

/// Turns a view into what goes over the wire.
pub(crate) fn show(tx: &ReadTx<'_>, reader: &PrincipalId, view: View) -> Result<Request, Refusal> {
    if view.access == Access::Executor {
        return Ok(executors_part(view.row));
    }
    let shows_response = view.shows_response_to(reader);
    let (recipient_ids, recipients) = recipients(tx, &view)?;
    let View { mut row, access, seat, .. } = view;
    if let Some(response) = row.response.as_mut().filter(|_| shows_response) {
        response.source_invalidated = source_invalidated(tx, response)?;
    }
    let own = if access == Access::Requester { None } else { seat };
    let attachments = files::of_request(tx, &row.id, own.as_ref().unwrap_or(&row.conversation_id))?;
    // Who resolved it is who gave the response.
    let shows_closer = shows_response || row.state != RequestState::Resolved;
    Ok(Request {
        attachments,
        mentions: row.mentions,
        blocking: row.blocking,
        requester_instance_id: row.requester_instance_id,
        id: row.id,
        conversation_id: own.unwrap_or(row.conversation_id),
        requester_id: row.requester_id,
        kind: row.kind,
        title: row.title,
        body: row.body,
        choices: row.choices,
        state: row.state,
        version: row.version,
        response: row.response.filter(|_| shows_response),
        action: row.action,
        expires_at: row.expires_at,
        created_at: row.created_at,
        closed_at: row.closed_at,
        closed_by: row.closed_by.filter(|_| shows_closer),
        recipient_ids,
        recipients,
    })
}

/// Whether the published answer that a response comes from was taken out of reuse since.
fn source_invalidated(tx: &ReadTx<'_>, response: &Response) -> Result<bool, Refusal> {
    let Some(source) = &response.source_answer_id else { return Ok(false) };
    Ok(answers::by_id(tx, source)?.is_some_and(|answer| answer.invalidated_at.is_some()))
}

/// Who was asked, for those who may know all of it; for a group ask also where.
fn recipients(tx: &ReadTx<'_>, view: &View) -> Result<(Vec<PrincipalId>, Vec<RequestRecipient>), Refusal> {
    if !matches!(view.access, Access::Requester | Access::Operator) {
        return Ok((Vec::new(), Vec::new()));
    }
    let seats = requests::audience(tx, &view.row.id)?;
    let ids = seats.iter().map(|seat| seat.principal_id.clone()).collect();
    let places = if view.row.group_ask { seats } else { Vec::new() };
    let places = places
        .into_iter()
        .map(|seat| RequestRecipient { principal_id: seat.principal_id, conversation_id: seat.conversation_id })
        .collect();
    Ok((ids, places))
}

/// What the executor of an action sees that nobody asked: what is to be done, and once it is final, the outcome.
fn executors_part(row: RequestRow) -> Request {
    let outcome = row.response.as_ref().map(|response| Response {
        responder_id: None,
        responder_instance_id: None,
        source_answer_id: None,
        reuse_method: String::new(),
        reuse_reason: String::new(),
        source_invalidated: false,
        outcome: response.outcome.clone(),
        answer: None,
        version: response.version,
    });
    let part = bare(&row);
    Request { kind: row.kind, title: row.title, action: row.action, expires_at: row.expires_at, response: outcome, ..part }
}

/// State and version alone: what is left of a request for who sees nothing of its content.
pub(super) fn bare(row: &RequestRow) -> Request {
    Request {
        attachments: Vec::new(),
        mentions: Vec::new(),
        blocking: false,
        requester_instance_id: None,
        id: row.id.clone(),
        conversation_id: ConversationId::default(),
        requester_id: PrincipalId::default(),
        kind: RequestKind::Other(String::new()),
        title: String::new(),
        body: String::new(),
        choices: Vec::new(),
        state: row.state.clone(),
        version: row.version,
        response: None,
        action: None,
        expires_at: Timestamp::NEVER,
        created_at: Timestamp::default(),
        closed_at: None,
        closed_by: None,
        recipient_ids: Vec::new(),
        recipients: Vec::new(),
    }
}

/// Whether a stored request is open although its deadline has come.
pub(crate) fn is_overdue(row: &RequestRow, now: Timestamp) -> bool {
    row.state == RequestState::Open && is_due(row.expires_at, now)
}
