//! Conversations: who may read which part, and how one is opened.

use std::collections::HashMap;

use beepgrid::{Conversation, ConversationId, Participant, PrincipalId, RuleAction};
use serde_json::json;

use super::actor::Actor;
use super::audience::Party;
use super::events::{self, Event};
use super::limits::{CONVERSATION_WINDOW, MAX_SCAN};
use super::permissions::Rules;
use super::{Refusal, messages, new_id, requests};
use crate::store::conversations::{self, ConversationRow, ParticipantRow};
use crate::store::messages::MessageRow;
use crate::store::{ReadTx, WriteTx, principals};

/// For whom something is shown: the caller, or an agent whose delivery is leased.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'r> {
    pub(crate) id: &'r PrincipalId,
    pub(crate) operator: bool,
    pub(crate) rules: &'r Rules,
}

impl Actor {
    /// The actor as a reader.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader { id: &self.id, operator: self.operator, rules: &self.rules }
    }
}

impl Reader<'_> {
    /// From which position the reader sees a conversation; `None` when it may not see it at all. An operator sees all of it, also
    /// where it joined later as a participant.
    pub(crate) fn window(&self, tx: &ReadTx<'_>, id: &ConversationId) -> Result<Option<i64>, Refusal> {
        if self.operator {
            return Ok(conversations::by_id(tx, id)?.map(|_| 0));
        }
        Ok(conversations::history_start(tx, id, self.id)?)
    }

    /// Whether a deny on `view` hides everything of this author.
    pub(crate) fn hides(&self, tx: &ReadTx<'_>, author: &PrincipalId) -> Result<bool, Refusal> {
        if self.operator || author == self.id {
            return Ok(false);
        }
        match principals::party_by_id(tx, author)? {
            Some(party) => self.rules.denied(tx, self.id, &RuleAction::View, &party),
            None => Ok(false),
        }
    }
}

/// Remembers which authors a reader may not see, within one answer.
#[derive(Debug, Default)]
pub(crate) struct Hidden(HashMap<PrincipalId, bool>);

impl Hidden {
    pub(crate) fn is(&mut self, tx: &ReadTx<'_>, reader: &Reader<'_>, author: &PrincipalId) -> Result<bool, Refusal> {
        if let Some(hidden) = self.0.get(author) {
            return Ok(*hidden);
        }
        let hidden = reader.hides(tx, author)?;
        self.0.insert(author.clone(), hidden);
        Ok(hidden)
    }
}

/// A conversation as the actor may see it.
pub(crate) fn get(tx: &ReadTx<'_>, actor: &Actor, id: &ConversationId) -> Result<Conversation, Refusal> {
    let reader = actor.reader();
    let from = reader.window(tx, id)?.ok_or_else(Refusal::not_found)?;
    let row = conversations::by_id(tx, id)?.ok_or_else(Refusal::not_found)?;
    let (visible, more_before) = newest_visible(tx, &reader, id, from)?;
    Ok(Conversation {
        messages: messages::show(tx, &reader, &visible)?,
        more_before,
        requests: requests::project::in_conversation(tx, &reader, id)?,
        ..summary(tx, row, from)?
    })
}

/// A conversation without what was said in it, for a reader who sees it from a position on.
pub(crate) fn summary(tx: &ReadTx<'_>, row: ConversationRow, from: i64) -> Result<Conversation, Refusal> {
    let everybody = conversations::participants(tx, &row.id)?;
    Ok(Conversation {
        id: row.id,
        title: row.title,
        shared: row.shared,
        version: row.version,
        manager_id: row.manager_id,
        history_start: from,
        participants: everybody.iter().filter(|member| member.active).map(participant).collect(),
        past_participants: everybody
            .iter()
            .filter(|member| !member.active && member.left_sequence.is_some_and(|left| left >= from))
            .map(participant)
            .collect(),
        messages: Vec::new(),
        more_before: false,
        requests: Vec::new(),
        created_at: row.created_at,
    })
}

fn participant(row: &ParticipantRow) -> Participant {
    let Party { id, kind, name, .. } = row.party.clone();
    Participant { id, kind, name }
}

/// The newest visible messages, oldest first, and whether there are older ones.
fn newest_visible(
    tx: &ReadTx<'_>,
    reader: &Reader<'_>,
    id: &ConversationId,
    from: i64,
) -> Result<(Vec<MessageRow>, bool), Refusal> {
    let wanted = usize::try_from(CONVERSATION_WINDOW).unwrap_or(usize::MAX);
    let (mut visible, mut hidden) = (Vec::new(), Hidden::default());
    let (mut before, mut scanned) = (i64::MAX, 0);
    while visible.len() <= wanted && scanned < MAX_SCAN {
        let page = crate::store::messages::before(tx, id, from, before, CONVERSATION_WINDOW + 1)?;
        let Some(oldest) = page.last() else { break };
        before = oldest.sequence;
        scanned += CONVERSATION_WINDOW + 1;
        for row in page {
            if !hidden.is(tx, reader, &row.sender_id)? {
                visible.push(row);
            }
        }
    }
    let more_before = visible.len() > wanted;
    visible.truncate(wanted);
    visible.reverse();
    Ok((visible, more_before))
}

/// Opens a direct conversation; with oneself it has one participant.
pub(crate) fn open_direct(tx: &WriteTx<'_>, actor: &Actor, other: &PrincipalId, title: &str) -> Result<ConversationId, Refusal> {
    let members: &[&PrincipalId] = if *other == actor.id { &[&actor.id] } else { &[&actor.id, other] };
    open(tx, actor, title, members, Some((&actor.id, other)))
}

/// The actor's direct conversation with `other` that was used last, or a fresh one.
pub(crate) fn reuse_direct(tx: &WriteTx<'_>, actor: &Actor, other: &PrincipalId, title: &str) -> Result<ConversationId, Refusal> {
    match conversations::direct_between(tx, &actor.id, other)? {
        Some(id) => Ok(id),
        None => open_direct(tx, actor, other, title),
    }
}

/// Opens a shared chat of founders, who see it from its beginning; the actor manages it.
pub(crate) fn open_shared(
    tx: &WriteTx<'_>,
    actor: &Actor,
    title: &str,
    members: &[&PrincipalId],
) -> Result<ConversationId, Refusal> {
    open(tx, actor, title, members, None)
}

fn open(
    tx: &WriteTx<'_>,
    actor: &Actor,
    title: &str,
    members: &[&PrincipalId],
    direct: Option<(&PrincipalId, &PrincipalId)>,
) -> Result<ConversationId, Refusal> {
    let id: ConversationId = new_id(ConversationId::PREFIX);
    let shared = direct.is_none();
    let founders: Vec<&str> = members.iter().map(|member| member.as_str()).collect();
    let sequence = events::record_for(
        tx,
        &Event {
            kind: "conversation.created",
            actor_id: &actor.id,
            conversation_id: id.as_str(),
            recipient_id: "",
            subject_id: id.as_str(),
            data: json!({ "id": id, "shared": shared }),
        },
        &founders,
    )?;
    let row = ConversationRow {
        id: id.clone(),
        shared,
        title: title.to_owned(),
        version: 1,
        manager_id: shared.then(|| actor.id.clone()),
        created_at: tx.now(),
    };
    conversations::insert(tx, &row, direct, sequence)?;
    for member in members {
        conversations::join(tx, &id, member, 0)?;
    }
    Ok(id)
}
