//! Sending: to a target, into a conversation, to a group's members, to a batch. And messages as their readers may see them.

use std::collections::{BTreeSet, HashMap};

use beepgrid::{
    Attachment, AttachmentId, ConversationId, DeliveryKind, Mention, Message, MessageId, PrincipalId, PrincipalKind, RuleAction,
    SendBatchInput, SendBatchItem, SendInput, SendReceipt, SendResult, Target, TargetKind,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::actor::Actor;
use super::audience::{self, Party};
use super::conversations::{self, Reader};
use super::deliveries::{self, Pin};
use super::events::{self, Event};
use super::files::{self, Claim};
use super::limits::MAX_BATCH_TARGETS;
use super::{Refusal, checks, new_id, previews};
use crate::store::conversations as rows;
use crate::store::messages::{self, MessageRow};
use crate::store::{ReadTx, WriteTx};

/// What a send stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    conversation_id: ConversationId,
    message_ids: Vec<MessageId>,
}

impl Sent {
    /// The first conversation.
    pub(crate) fn conversation_id(&self) -> &ConversationId {
        &self.conversation_id
    }

    /// One message in one conversation.
    pub(crate) fn one(conversation_id: ConversationId, message: MessageId) -> Self {
        Self { conversation_id, message_ids: vec![message] }
    }
}

/// The text and what hangs on it, the same for every recipient.
#[derive(Debug)]
pub(crate) struct Content<'c> {
    pub(crate) body: &'c str,
    pub(crate) mentions: &'c [Mention],
    pub(crate) files: &'c Claim,
}

/// Whether a send has the right form.
pub(crate) fn check(input: &SendInput) -> Result<(), Refusal> {
    match (&input.target, &input.conversation_id) {
        (Some(target), None) => checks::target("target", target)?,
        (None, Some(id)) => checks::id("conversation_id", id.as_str())?,
        _ => return Err(Refusal::invalid("target", "exactly one of target and conversation_id")),
    }
    if input.reuse_direct && input.target.is_none() {
        return Err(Refusal::invalid("reuse_direct", "only with target"));
    }
    if !input.title.is_empty() && input.target.is_none() {
        return Err(Refusal::invalid("title", "only with target: it names the conversation that the call opens"));
    }
    check_content(&input.body, &input.title, &input.attachment_ids)?;
    checks::mentions("mentions", &input.mentions, &input.body)
}

/// Whether a batch has the right form.
pub(crate) fn check_batch(input: &SendBatchInput) -> Result<(), Refusal> {
    check_targets(&input.targets)?;
    check_content(&input.body, &input.title, &input.attachment_ids)
}

/// 1 to 100 individual targets.
pub(crate) fn check_targets(targets: &[Target]) -> Result<(), Refusal> {
    if targets.is_empty() {
        return Err(Refusal::invalid("targets", format!("required, 1 to {MAX_BATCH_TARGETS} individual targets")));
    }
    checks::count("targets", targets.len(), MAX_BATCH_TARGETS)?;
    for (i, target) in targets.iter().enumerate() {
        checks::target(&format!("targets[{i}]"), target)?;
        if target.kind == TargetKind::Group {
            return Err(Refusal::invalid(format!("targets[{i}].kind"), "individual targets only; send to a group with target"));
        }
    }
    Ok(())
}

pub(crate) fn check_content(body: &str, title: &str, attachments: &[AttachmentId]) -> Result<(), Refusal> {
    checks::body("body", body)?;
    checks::title("title", title)?;
    checks::attachments("attachment_ids", attachments)?;
    if body.is_empty() && attachments.is_empty() {
        return Err(Refusal::invalid("body", "required, unless a file is attached"));
    }
    Ok(())
}

/// Stores a message for its target or conversation.
pub(crate) fn send(tx: &WriteTx<'_>, actor: &Actor, input: &SendInput) -> Result<Sent, Refusal> {
    previews::check(tx, actor, &input.preview_token, input.target.as_slice(), "message", None)?;
    let files = Claim::find(tx, actor, &input.attachment_ids)?;
    let content = Content { body: &input.body, mentions: &input.mentions, files: &files };
    match (&input.target, &input.conversation_id) {
        (Some(target), _) if target.kind == TargetKind::Group => to_group(tx, actor, input, target, &content),
        (Some(target), _) => {
            let party = audience::reach(tx, actor, target, &RuleAction::Message, None).map_err(|r| r.at("target"))?;
            to_party(tx, actor, &party, input, &content)
        }
        (None, Some(id)) => into_conversation(tx, actor, id, &content),
        (None, None) => Err(Refusal::invalid("target", "exactly one of target and conversation_id")),
    }
}

fn to_party(tx: &WriteTx<'_>, actor: &Actor, party: &Party, input: &SendInput, content: &Content<'_>) -> Result<Sent, Refusal> {
    not_oneself(actor, party)?;
    let conversation_id = if input.reuse_direct {
        conversations::reuse_direct(tx, actor, &party.id, &input.title)?
    } else {
        conversations::open_direct(tx, actor, &party.id, &input.title)?
    };
    let message = post(tx, actor, &conversation_id, content, &[actor.as_party(), party.clone()])?;
    Ok(Sent::one(conversation_id, message))
}

fn not_oneself(actor: &Actor, party: &Party) -> Result<(), Refusal> {
    if party.id == actor.id {
        return Err(Refusal::invalid("target", "nobody sends to itself"));
    }
    Ok(())
}

fn to_group(tx: &WriteTx<'_>, actor: &Actor, input: &SendInput, target: &Target, content: &Content<'_>) -> Result<Sent, Refusal> {
    let members = audience::reach_group(tx, actor, target, &RuleAction::Message).map_err(|r| r.at("target"))?;
    let mut all: Option<Sent> = None;
    for member in members {
        let sent = to_party(tx, actor, &member, input, content)?;
        match &mut all {
            Some(all) => all.message_ids.extend(sent.message_ids),
            None => all = Some(sent),
        }
    }
    all.ok_or_else(|| Refusal::forbidden("target: nobody in this group can be reached"))
}

fn into_conversation(tx: &WriteTx<'_>, actor: &Actor, id: &ConversationId, content: &Content<'_>) -> Result<Sent, Refusal> {
    let present = may_post_in(tx, actor, id)?;
    let message = post(tx, actor, id, content, &present)?;
    Ok(Sent::one(id.clone(), message))
}

/// The present participants of a conversation that the actor may post in.
pub(crate) fn may_post_in(tx: &ReadTx<'_>, actor: &Actor, id: &ConversationId) -> Result<Vec<Party>, Refusal> {
    actor.reader().window(tx, id)?.ok_or_else(Refusal::not_found).map_err(|r| r.at("conversation_id"))?;
    let row = rows::by_id(tx, id)?.ok_or_else(Refusal::not_found)?;
    let present: Vec<Party> =
        rows::participants(tx, id)?.into_iter().filter(|member| member.active).map(|member| member.party).collect();
    let Some(own) = present.iter().find(|party| party.id == actor.id) else {
        return Err(Refusal::forbidden("only a participant posts; you read this conversation as an operator"));
    };
    if row.shared {
        return Ok(present);
    }
    let Some(other) = present.iter().find(|party| party.id != actor.id) else {
        return Err(Refusal::invalid("conversation_id", "nobody sends to itself"));
    };
    if !audience::may_post(tx, &actor.rules, own, other)? {
        return Err(Refusal::forbidden("no rule lets you message the other participant, nor the other message you"));
    }
    audience::must_be_reachable(tx, other)?;
    Ok(present)
}

/// Stores one message in one conversation, with its event and a delivery for each agent present but the sender.
pub(crate) fn post(
    tx: &WriteTx<'_>,
    actor: &Actor,
    conversation_id: &ConversationId,
    content: &Content<'_>,
    present: &[Party],
) -> Result<MessageId, Refusal> {
    names_participants(content, present)?;
    content.files.check_free()?;
    let agents: Vec<&Party> =
        present.iter().filter(|party| party.kind == PrincipalKind::Agent && party.id != actor.id && !party.disabled).collect();
    let id: MessageId = new_id(MessageId::PREFIX);
    let sequence = events::record(
        tx,
        &Event {
            kind: "message.created",
            actor_id: &actor.id,
            conversation_id: conversation_id.as_str(),
            recipient_id: "",
            subject_id: id.as_str(),
            data: json!({ "id": id }),
        },
    )?;
    messages::insert(
        tx,
        &MessageRow {
            id: id.clone(),
            conversation_id: conversation_id.clone(),
            sender_id: actor.id.clone(),
            instance_id: actor.instance_id.clone(),
            body: content.body.to_owned(),
            mentions: content.mentions.to_vec(),
            sequence,
            created_at: tx.now(),
        },
    )?;
    content.files.bind_to_message(tx, actor, conversation_id, &id, sequence)?;
    rows::touch(tx, conversation_id, sequence)?;
    for agent in agents {
        deliveries::create(
            tx,
            &deliveries::New {
                agent: &agent.id,
                pin: agent.instance_id.as_ref().map(Pin::Hard),
                kind: DeliveryKind::Message,
                conversation_id,
                message_id: Some(&id),
                request_id: None,
                sender_id: &actor.id,
                position: sequence,
            },
        )?;
    }
    Ok(id)
}

/// Every mention names a present participant, and its span is exactly `@` and that name.
pub(crate) fn names_participants(content: &Content<'_>, present: &[Party]) -> Result<(), Refusal> {
    for (i, mention) in content.mentions.iter().enumerate() {
        let place = format!("mentions[{i}].principal_id");
        let named = present
            .iter()
            .find(|party| party.id == mention.principal_id)
            .ok_or_else(|| Refusal::invalid(place, "not a present participant that is visible to you"))?;
        let token = checks::span(content.body, mention).and_then(|token| token.strip_prefix('@'));
        if token != Some(named.name.as_str()) {
            return Err(checks::bad_span("mentions", i));
        }
    }
    Ok(())
}

/// Stores one message for each target, or none.
pub(crate) fn send_batch(tx: &WriteTx<'_>, actor: &Actor, input: &SendBatchInput) -> Result<Vec<(Target, Sent)>, Refusal> {
    previews::check(tx, actor, &input.preview_token, &input.targets, "message", None)?;
    let files = Claim::find(tx, actor, &input.attachment_ids)?;
    let parties = reach_each(tx, actor, &input.targets, &RuleAction::Message)?;
    let single = SendInput::default().title(&input.title);
    let content = Content { body: &input.body, mentions: &[], files: &files };
    let mut sent = Vec::new();
    for (i, target, party) in parties {
        let one = to_party(tx, actor, &party, &single, &content).map_err(|r| r.at(&format!("targets[{i}]")))?;
        sent.push((target, one));
    }
    Ok(sent)
}

/// The parties of a batch: every target must be reachable, the same one twice counts once, an agent and one of its own
/// instances together conflict. Each comes with its place and the target as it was given.
pub(crate) fn reach_each(
    tx: &ReadTx<'_>,
    actor: &Actor,
    targets: &[Target],
    action: &RuleAction,
) -> Result<Vec<(usize, Target, Party)>, Refusal> {
    let mut parties: Vec<(usize, Target, Party)> = Vec::new();
    let mut seen = BTreeSet::new();
    for (i, target) in targets.iter().enumerate() {
        let place = format!("targets[{i}]");
        let party = audience::reach(tx, actor, target, action, None).map_err(|r| r.at(&place))?;
        if party.id == actor.id {
            return Err(Refusal::invalid(place, "nobody sends to itself"));
        }
        if !seen.insert((party.id.clone(), party.instance_id.clone())) {
            continue;
        }
        let beside = parties
            .iter()
            .any(|(_, _, other)| other.id == party.id && other.instance_id.is_some() != party.instance_id.is_some());
        if beside {
            return Err(Refusal::invalid(place, "an agent and one of its own instances can't be in one batch"));
        }
        parties.push((i, target.clone(), party));
    }
    Ok(parties)
}

/// The full result of a send, for its author.
pub(crate) fn result(tx: &ReadTx<'_>, actor: &Actor, sent: &Sent) -> Result<SendResult, Refusal> {
    let access = actor.reader().window(tx, &sent.conversation_id)?.is_some();
    let mut shown = Vec::new();
    for id in &sent.message_ids {
        let row = messages::by_id(tx, id)?.ok_or_else(|| Refusal::internal(format!("the message {id} of a key is gone")))?;
        // What others added since, the receipts, only with present access.
        let received_by = if access { messages::received_by(tx, id)? } else { Vec::new() };
        let attachments = files::of_message(tx, id)?;
        shown.push(message(row, received_by, attachments));
    }
    Ok(SendResult { conversation_id: sent.conversation_id.clone(), messages: shown, request: None })
}

/// The compact receipt of a send.
pub(crate) fn receipt(sent: &Sent) -> SendReceipt {
    SendReceipt {
        conversation_id: sent.conversation_id.clone(),
        message_count: i64::try_from(sent.message_ids.len()).unwrap_or(i64::MAX),
    }
}

/// The items of a batch, for its author.
pub(crate) fn batch_result(tx: &ReadTx<'_>, actor: &Actor, sent: &[(Target, Sent)]) -> Result<Vec<SendBatchItem>, Refusal> {
    sent.iter().map(|(target, sent)| Ok(SendBatchItem { target: target.clone(), result: result(tx, actor, sent)? })).collect()
}

fn message(row: MessageRow, received_by: Vec<PrincipalId>, attachments: Vec<Attachment>) -> Message {
    Message {
        received_by,
        attachments,
        mentions: row.mentions,
        id: row.id,
        conversation_id: row.conversation_id,
        body: row.body,
        sender_id: row.sender_id,
        instance_id: row.instance_id,
        created_at: row.created_at,
        sequence: row.sequence,
    }
}

/// Messages of one conversation that the reader may see, as it may see them.
pub(crate) fn show(tx: &ReadTx<'_>, reader: &Reader<'_>, visible: &[MessageRow]) -> Result<Vec<Message>, Refusal> {
    let (Some(first), Some(last)) = (visible.first(), visible.last()) else { return Ok(Vec::new()) };
    let own = visible.iter().any(|row| row.sender_id == *reader.id);
    let mut received = if own {
        messages::received_between(tx, &first.conversation_id, reader.id, first.sequence, last.sequence)?
    } else {
        HashMap::new()
    };
    let mut attached = files::of_messages(tx, &first.conversation_id, first.sequence, last.sequence)?;
    let show = |row: &MessageRow| {
        message(row.clone(), received.remove(&row.id).unwrap_or_default(), attached.remove(&row.id).unwrap_or_default())
    };
    Ok(visible.iter().map(show).collect())
}

/// One message as the reader may see it now; `None` when it may not.
pub(crate) fn project(tx: &ReadTx<'_>, reader: &Reader<'_>, id: &MessageId) -> Result<Option<Message>, Refusal> {
    let Some(row) = messages::by_id(tx, id)? else { return Ok(None) };
    let Some(from) = reader.window(tx, &row.conversation_id)? else { return Ok(None) };
    if row.sequence < from || reader.hides(tx, &row.sender_id)? {
        return Ok(None);
    }
    Ok(show(tx, reader, std::slice::from_ref(&row))?.pop())
}
