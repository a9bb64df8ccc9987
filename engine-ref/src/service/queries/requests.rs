//! Requests, found by what ties them to their reader: it asked, was asked, executes the action, or is in the chat.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use beepgrid::RequestId;
use serde_json::Value;

use super::page::{Look, Source, unseen, wire};
use crate::service::Refusal;
use crate::service::requests::project::{self, Access, View};
use crate::store::requests as rows;
use crate::store::requests::pages::{self, Source as Ids};

/// Requests of one chat that are fetched at a time.
const CHAT_CHUNK: i64 = 50;

pub(super) struct Requests;

impl Source for Requests {
    type Row = RequestId;

    fn open(look: &Look<'_>) -> Result<Self, Refusal> {
        if let Some(id) = look.filter("conversation_id") {
            look.reader().window(look.tx, &id.into())?.ok_or_else(|| unseen("conversation_id"))?;
        }
        Ok(Self)
    }

    fn one(&mut self, _: &Look<'_>, id: &str) -> Result<Option<RequestId>, Refusal> {
        Ok(Some(id.into()))
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<RequestId>, Refusal> {
        match narrowest(look) {
            Some(source) => Ok(pages::ids(look.tx, source, place, limit)?),
            None => concerning(look, place, limit),
        }
    }

    fn place(row: &RequestId) -> String {
        row.to_string()
    }

    fn show(&mut self, look: &Look<'_>, id: RequestId) -> Result<Option<Value>, Refusal> {
        let Some(view) = project::find(look.tx, &look.reader(), &id)? else { return Ok(None) };
        if !fits(look, &view)? {
            return Ok(None);
        }
        wire(&project::show(look.tx, &look.actor.id, view)?)
    }
}

/// The one index that holds everything which can fit, if there is one.
fn narrowest<'q>(look: &Look<'q>) -> Option<Ids<'q>> {
    let (requester, recipient) = (look.filter("requester_id"), look.filter("recipient_id"));
    if let Some(conversation) = look.filter("conversation_id") {
        return Some(Ids::Conversation(conversation));
    }
    let own = look.actor.id.as_str();
    match (requester, recipient) {
        (Some(id), _) if look.actor.operator || id == own => Some(Ids::Requester(id)),
        (_, Some(id)) if look.actor.operator || id == own => Some(Ids::Recipient(id)),
        // Whom else a request was put to is known to its requester alone.
        (_, Some(_)) => Some(Ids::Requester(own)),
        _ if look.actor.operator => Some(Ids::All),
        _ => None,
    }
}

/// The next requests that the reader can have anything to do with, from the near ends of its indexes.
fn concerning(look: &Look<'_>, after: &str, limit: i64) -> Result<Vec<RequestId>, Refusal> {
    let own = look.actor.id.as_str();
    let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut ids = BTreeSet::new();
    for source in [Ids::Requester(own), Ids::Recipient(own), Ids::Executor(own)] {
        ids.extend(pages::ids(look.tx, source, after, limit)?);
    }
    let mut chats: BinaryHeap<_> = pages::next_in_chats(look.tx, &look.actor.id, after)?.into_iter().map(Reverse).collect();
    while let Some(Reverse((next, chat))) = chats.pop() {
        if ids.iter().nth(wanted.saturating_sub(1)).is_some_and(|last| *last < next) {
            break;
        }
        let more = pages::ids(look.tx, Ids::Conversation(&chat), next.as_str(), CHAT_CHUNK)?;
        if let Some(last) = more.last().filter(|_| i64::try_from(more.len()).unwrap_or(0) == CHAT_CHUNK) {
            chats.push(Reverse((last.clone(), chat)));
        }
        ids.insert(next);
        ids.extend(more);
    }
    Ok(ids.into_iter().take(wanted).collect())
}

/// Whether what the reader sees of a request fits; what it does not see fits nothing.
fn fits(look: &Look<'_>, view: &View) -> Result<bool, Refusal> {
    let row = &view.row;
    let whole = view.access != Access::Executor;
    let body = if whole { row.body.as_str() } else { "" };
    let plain = look.fits("state", row.state.as_str())
        && look.fits("kind", row.kind.as_str())
        && look.fits_opt("requester_id", Some(row.requester_id.as_str()).filter(|_| whole))
        && look.finds(&[&row.title, body]);
    if !plain {
        return Ok(false);
    }
    let (conversation, recipient) = (look.filter("conversation_id"), look.filter("recipient_id"));
    if conversation.is_none() && recipient.is_none() {
        return Ok(true);
    }
    let seats = rows::audience(look.tx, &row.id)?;
    let in_conversation = conversation.is_none_or(|id| whole && seats.iter().any(|seat| seat.conversation_id.as_str() == id));
    let knows_all = matches!(view.access, Access::Requester | Access::Operator);
    let to_recipient = recipient.is_none_or(|id| {
        let asked = seats.iter().any(|seat| seat.principal_id.as_str() == id);
        asked && (knows_all || (id == look.actor.id.as_str() && view.seat.is_some()))
    });
    Ok(in_conversation && to_recipient)
}
