//! Events as a reader may see them now: which ones, in which order, and with how much in them.
//!
//! A read walks what is noted for its reader (`store/events.rs`) and asks of each event whether the reader may see it at this
//! moment: a history window that ended, a deny, a changed right count at once. Everything belongs to the position where it was
//! created, so what became of an older request is no event for a newcomer.

use std::collections::HashMap;
use std::rc::Rc;

use beepgrid::{ConversationId, DeliveryId, ErrorCode, Event, Participant, PrincipalId, RequestId};
use serde::Serialize;
use serde_json::{Value, json};

use super::actor::Actor;
use super::conversations::Hidden;
use super::deliveries::DeliveryState;
use super::limits::MAX_SCAN;
use super::presence::Presence;
use super::requests::project::Access;
use super::{Refusal, answers, coordinator, executions, files, identity, messages, policies, requests};
use crate::store::conversations::{self as rooms, ParticipantRow};
use crate::store::coordinator as coordinator_rows;
use crate::store::events::{self, EventRow};
use crate::store::messages as message_rows;
use crate::store::{ReadTx, deliveries, principals};

/// Rows that are looked at in one go.
const CHUNK: i64 = 128;

/// Which events are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) conversation_id: Option<ConversationId>,
    pub(crate) summary: bool,
}

/// How much one look may bring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) items: usize,
    /// The page ends with the event that goes beyond this.
    pub(crate) bytes: usize,
}

/// What one look brought.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) items: Vec<Event>,
    /// Up to here everything was looked at.
    pub(crate) position: i64,
    /// Whether there is more to look at already.
    pub(crate) more: bool,
    /// Whether the reader's access to the wanted conversation has ended; nothing will follow.
    pub(crate) ended: bool,
}

/// The position to read from when a reader has handled everything up to `after`; 0 is the oldest event that is kept.
///
/// # Errors
/// `cursor_expired` when events after it are gone, `invalid_cursor` when there was no such sequence yet.
pub(crate) fn start(tx: &ReadTx<'_>, after: i64) -> Result<i64, Refusal> {
    let kept = events::kept(tx)?;
    if after > kept.newest {
        let message = format!("after: no event has this sequence yet; the newest is {}", kept.newest);
        return Err(Refusal::conflict(ErrorCode::InvalidCursor, message));
    }
    if after == 0 { Ok(kept.floor) } else { still_kept(after, kept.floor) }
}

fn still_kept(after: i64, floor: i64) -> Result<i64, Refusal> {
    if after >= floor {
        return Ok(after);
    }
    let message = "after: events since then are no longer kept; read the present state and start with 0";
    Err(Refusal::conflict(ErrorCode::CursorExpired, message))
}

/// Refuses a conversation that the actor may not see, as one that does not exist.
pub(crate) fn must_see(tx: &ReadTx<'_>, actor: &Actor, want: &Want) -> Result<(), Refusal> {
    let Some(id) = &want.conversation_id else { return Ok(()) };
    if actor.reader().window(tx, id)?.is_some() {
        return Ok(());
    }
    Err(Refusal::not_found().at("conversation_id"))
}

/// The next events after `position` that the actor may see.
pub(crate) fn page(tx: &ReadTx<'_>, actor: &Actor, want: &Want, position: i64, bounds: Bounds) -> Result<Page, Refusal> {
    let kept = events::kept(tx)?;
    still_kept(position, kept.floor)?;
    let mut sight = Sight { tx, actor, want, windows: HashMap::new(), members: HashMap::new(), hidden: Hidden::default() };
    let ended = match &want.conversation_id {
        Some(id) => sight.window(id)?.is_none(),
        None => false,
    };
    let mut page = Page { items: Vec::new(), position, more: false, ended };
    let (mut at, mut bytes, mut scanned) = (position, 0, 0);
    loop {
        let rows = candidates(tx, actor, want, at)?;
        let last_chunk = rows.len() < usize::try_from(CHUNK).unwrap_or(usize::MAX);
        for row in rows {
            let full = page.items.len() >= bounds.items || bytes > bounds.bytes;
            if scanned == MAX_SCAN {
                page.more = true;
                return Ok(page);
            }
            scanned += 1;
            at = row.sequence;
            let seen = sight.see(row, ended)?;
            if full && seen.is_some() {
                // Said only when there is something to see: hidden events are not counted either.
                page.more = true;
                return Ok(page);
            }
            if let Some(event) = seen {
                bytes += size(&event.data);
                page.items.push(event);
            }
            if !full {
                page.position = at;
            }
        }
        if last_chunk {
            page.position = kept.newest;
            return Ok(page);
        }
    }
}

fn candidates(tx: &ReadTx<'_>, actor: &Actor, want: &Want, after: i64) -> Result<Vec<EventRow>, Refusal> {
    Ok(match &want.conversation_id {
        Some(id) => events::after_in(tx, id, after, CHUNK)?,
        None if actor.operator => events::after(tx, after, CHUNK)?,
        None => events::after_for(tx, &actor.id, after, CHUNK)?,
    })
}

/// About how many bytes of JSON this makes.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(members) => members.iter().map(|(name, member)| name.len() + size(member) + 4).sum::<usize>() + 2,
        _ => 8,
    }
}

/// What one look knows already.
struct Sight<'s> {
    tx: &'s ReadTx<'s>,
    actor: &'s Actor,
    want: &'s Want,
    windows: HashMap<ConversationId, Option<i64>>,
    members: HashMap<ConversationId, Rc<Vec<ParticipantRow>>>,
    hidden: Hidden,
}

impl Sight<'_> {
    /// From which position the actor sees a conversation; an operator all of it, as a member of it too.
    fn window(&mut self, id: &ConversationId) -> Result<Option<i64>, Refusal> {
        if let Some(window) = self.windows.get(id) {
            return Ok(*window);
        }
        let window = self.actor.reader().window(self.tx, id)?;
        self.windows.insert(id.clone(), window);
        Ok(window)
    }

    fn holds(&mut self, event: &Event) -> Result<bool, Refusal> {
        Ok(self.window(&event.conversation_id)?.is_some_and(|start| start <= event.sequence))
    }

    fn members(&mut self, id: &ConversationId) -> Result<Rc<Vec<ParticipantRow>>, Refusal> {
        if let Some(members) = self.members.get(id) {
            return Ok(Rc::clone(members));
        }
        let members = Rc::new(rooms::participants(self.tx, id)?);
        self.members.insert(id.clone(), Rc::clone(&members));
        Ok(members)
    }

    /// The event as the actor may see it, if it may. After the end of access to the wanted conversation only the actor's own
    /// removal from it.
    fn see(&mut self, row: EventRow, ended: bool) -> Result<Option<Event>, Refusal> {
        let (subject, stored) = (row.subject_id, row.data);
        let mut event = Event {
            sequence: row.sequence,
            id: row.id,
            kind: row.kind.as_str().into(),
            actor_id: row.actor_id,
            conversation_id: row.conversation_id,
            recipient_id: row.recipient_id,
            data: json!({ "id": subject }),
            created_at: row.created_at,
        };
        if ended && row.kind != "conversation.member_removed" {
            return Ok(None);
        }
        let visible = match row.kind.as_str() {
            "message.created" => self.message(&mut event, &subject)?,
            "conversation.member_added" | "conversation.member_removed" => self.membership(&mut event)?,
            "attachment.created" => self.attachment(&mut event, &subject)?,
            "delivery.updated" => self.delivery(&mut event, &subject, &stored)?,
            "identity.updated" => self.identity(&mut event, &subject)?,
            kind if kind.starts_with("conversation.") => self.conversation(&mut event)?,
            kind if kind.starts_with("request.") => self.request(&mut event, &subject)?,
            kind if kind.starts_with("execution.") => self.execution(&mut event, &subject)?,
            kind if kind.starts_with("answer.") => self.answer(&mut event, &subject)?,
            kind if kind.starts_with("plan.") => self.plan(&mut event, &subject)?,
            // A kind without a rule of its own is for operators, with its id.
            _ => false,
        };
        Ok((visible || self.actor.operator).then_some(event))
    }

    fn fill(&self, event: &mut Event, data: &impl Serialize) -> Result<(), Refusal> {
        if !self.want.summary {
            event.data = serde_json::to_value(data).map_err(|e| Refusal::internal(format!("an event can't be written: {e}")))?;
        }
        Ok(())
    }

    fn attachment(&mut self, event: &mut Event, subject: &str) -> Result<bool, Refusal> {
        if !self.holds(event)? {
            return Ok(false);
        }
        match files::project(self.tx, &self.actor.reader(), &subject.into())? {
            Some(attachment) => self.fill(event, &attachment).map(|()| true),
            None => Ok(false),
        }
    }

    fn message(&mut self, event: &mut Event, subject: &str) -> Result<bool, Refusal> {
        if !self.holds(event)? || self.hidden.is(self.tx, &self.actor.reader(), &event.actor_id)? {
            return Ok(false);
        }
        if self.want.summary {
            return Ok(true);
        }
        let Some(row) = message_rows::by_id(self.tx, &subject.into())? else { return Ok(true) };
        let shown = messages::show(self.tx, &self.actor.reader(), std::slice::from_ref(&row))?;
        self.fill(event, &shown.first())?;
        Ok(true)
    }

    /// A request's events follow the request: seen by who sees it, with the ids that stand in it.
    fn request(&mut self, event: &mut Event, subject: &str) -> Result<bool, Refusal> {
        let reader = self.actor.reader();
        let Some(view) = requests::find(self.tx, &reader, &RequestId::new(subject))? else { return Ok(false) };
        let executor_only = view.access == Access::Executor;
        if executor_only && self.want.conversation_id.is_some() {
            return Ok(false); // where it was asked is no part of what an executor sees
        }
        let request = requests::show(self.tx, reader.id, view)?;
        let me = |id: &PrincipalId| reader.operator || id == reader.id;
        let responder = request.response.as_ref().and_then(|response| response.responder_id.as_ref());
        let named = [Some(&request.requester_id), request.closed_by.as_ref(), responder];
        if !me(&event.actor_id) && !named.contains(&Some(&event.actor_id)) {
            event.actor_id = PrincipalId::default();
        }
        let recipient = &event.recipient_id;
        if !me(recipient) && *recipient != request.requester_id && !request.recipient_ids.contains(recipient) {
            event.recipient_id = PrincipalId::default();
        }
        event.conversation_id = self.want.conversation_id.clone().unwrap_or_else(|| request.conversation_id.clone());
        self.fill(event, &request)?;
        Ok(true)
    }

    /// An execution names its executor; who asked stays unnamed to an executor that does not know it.
    fn execution(&mut self, event: &mut Event, subject: &str) -> Result<bool, Refusal> {
        let Some(execution) = executions::project(self.tx, &self.actor.reader(), &subject.into())? else { return Ok(false) };
        if !self.knows(&event.recipient_id)? {
            event.recipient_id = PrincipalId::default();
        }
        self.fill(event, &execution)?;
        Ok(true)
    }

    /// An answer names its publisher; another who took it back stays unnamed to who does not know it.
    fn answer(&mut self, event: &mut Event, subject: &str) -> Result<bool, Refusal> {
        let Some(answer) = answers::project(self.tx, &self.actor.reader(), &subject.into())? else { return Ok(false) };
        if event.actor_id != answer.publisher_id && !self.knows(&event.actor_id)? {
            event.actor_id = PrincipalId::default();
        }
        self.fill(event, &answer)?;
        Ok(true)
    }

    /// A plan is its maker's. Who is connected at the moment is no part of the event.
    fn plan(&mut self, event: &mut Event, subject: &str) -> Result<bool, Refusal> {
        let row = coordinator_rows::by_id(self.tx, &subject.into())?;
        let Some(row) = row.filter(|row| coordinator::may_read(self.actor, row)) else { return Ok(false) };
        if !self.want.summary {
            let plan = coordinator::project(self.tx, self.actor, &Presence::default(), row)?;
            self.fill(event, &plan)?;
        }
        Ok(true)
    }

    fn conversation(&mut self, event: &mut Event) -> Result<bool, Refusal> {
        if !self.holds(event)? {
            return Ok(false);
        }
        let members = self.members(&event.conversation_id)?;
        self.mask_actor(event, &members)?;
        let (Some(row), Some(from)) = (rooms::by_id(self.tx, &event.conversation_id)?, self.window(&event.conversation_id)?)
        else {
            return Ok(true);
        };
        let present: Vec<Participant> = members.iter().filter(|member| member.active).map(participant).collect();
        let mut data = json!({
            "id": row.id,
            "title": row.title,
            "shared": row.shared,
            "version": row.version,
            "history_start": from,
            "participants": present,
            "created_at": row.created_at,
        });
        if let (Some(manager), Some(members)) = (row.manager_id, data.as_object_mut()) {
            members.insert("manager_id".to_owned(), json!(manager));
        }
        self.fill(event, &data)?;
        Ok(true)
    }

    /// Ids only for who was removed: it sees the chat no more, or not from there.
    fn membership(&mut self, event: &mut Event) -> Result<bool, Refusal> {
        event.data = json!({ "id": event.conversation_id, "principal_id": event.recipient_id });
        let members = self.members(&event.conversation_id)?;
        self.mask_actor(event, &members)?;
        if !self.holds(event)? {
            return Ok(event.kind == beepgrid::EventKind::MemberRemoved && event.recipient_id == self.actor.id);
        }
        if let Some(member) = members.iter().find(|member| member.party.id == event.recipient_id) {
            let whole = json!({
                "id": event.conversation_id,
                "principal_id": event.recipient_id,
                "participant": participant(member),
            });
            self.fill(event, &whole)?;
        }
        Ok(true)
    }

    /// An actor that is neither in the conversation nor visible to the reader stays unnamed.
    fn mask_actor(&self, event: &mut Event, members: &[ParticipantRow]) -> Result<(), Refusal> {
        if !members.iter().any(|member| member.party.id == event.actor_id) && !self.knows(&event.actor_id)? {
            event.actor_id = PrincipalId::default();
        }
        Ok(())
    }

    /// Whether the actor may know of a principal outside any conversation.
    fn knows(&self, id: &PrincipalId) -> Result<bool, Refusal> {
        if self.actor.operator || *id == self.actor.id {
            return Ok(true);
        }
        match principals::party_by_id(self.tx, id)? {
            Some(party) => policies::sees(self.tx, self.actor, &party),
            None => Ok(false),
        }
    }

    /// A delivery is seen by its agent, and of a request also by who asked.
    fn delivery(&mut self, event: &mut Event, subject: &str, stored: &Value) -> Result<bool, Refusal> {
        let own = event.recipient_id == self.actor.id;
        if !own && !self.actor.operator && !self.asked(stored)? {
            return Ok(false);
        }
        if self.want.conversation_id.is_some() && !self.holds(event)? {
            return Ok(false);
        }
        if event.actor_id != event.recipient_id && !self.knows(&event.actor_id)? {
            event.actor_id = PrincipalId::default();
        }
        if let Some(row) = deliveries::by_id(self.tx, &DeliveryId::new(subject))? {
            self.fill(event, &DeliveryState::of(&row))?;
        }
        Ok(true)
    }

    fn asked(&self, stored: &Value) -> Result<bool, Refusal> {
        let Some(id) = stored.get("request_id").and_then(Value::as_str) else { return Ok(false) };
        let view = requests::find(self.tx, &self.actor.reader(), &RequestId::new(id))?;
        Ok(view.is_some_and(|view| view.access == Access::Requester))
    }

    fn identity(&mut self, event: &mut Event, subject: &str) -> Result<bool, Refusal> {
        let Some(row) = principals::by_id(self.tx, subject)? else { return Ok(false) };
        if !policies::sees(self.tx, self.actor, &row.as_party())? {
            return Ok(false);
        }
        if !self.knows(&event.actor_id)? {
            event.actor_id = PrincipalId::default();
        }
        let manager = self.actor.manages(self.tx, "identity")?;
        self.fill(event, &identity::principal(row, manager))?;
        Ok(true)
    }
}

fn participant(row: &ParticipantRow) -> Participant {
    Participant { id: row.party.id.clone(), kind: row.party.kind.clone(), name: row.party.name.clone() }
}
