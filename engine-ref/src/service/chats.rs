//! Shared chats: starting one, and its versioned membership.

use beepgrid::{
    ChatMembershipInput, ChatMembershipResult, ConversationId, ErrorCode, MembershipOperation, PrincipalId, RequestId,
    RequestKind, SendResult, StartChatInput,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::actor::Actor;
use super::audience::{self, Party};
use super::events::{self, Event};
use super::files::Claim;
use super::limits::MAX_CHAT_MEMBERS;
use super::messages::{self, Content, Sent};
use super::{Refusal, checks, conversations, requests};
use crate::signals::Signal;
use crate::store::conversations::{self as rows, ConversationRow, ParticipantRow};
use crate::store::{ReadTx, WriteTx, principals};

/// What starting a chat stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Started {
    sent: Sent,
    request_id: Option<RequestId>,
}

/// Whether a start has the right form.
pub(crate) fn check_start(input: &StartChatInput) -> Result<(), Refusal> {
    messages::check_targets(&input.targets)?;
    messages::check_content(&input.body, &input.title, &input.attachment_ids)?;
    checks::mentions("mentions", &input.mentions, &input.body)?;
    requests::form::choices("choices", &input.choices)?;
    if let Some(i) = input.targets.iter().position(|target| target.kind == beepgrid::TargetKind::Instance) {
        return Err(Refusal::invalid(format!("targets[{i}].kind"), "members of a chat are people, agents and services"));
    }
    Ok(())
}

/// Opens a chat with its first message and, when asked for, its request.
pub(crate) fn start(tx: &WriteTx<'_>, actor: &Actor, input: &StartChatInput) -> Result<Started, Refusal> {
    let files = Claim::find(tx, actor, &input.attachment_ids)?;
    let mut members = vec![actor.as_party()];
    for (i, target) in input.targets.iter().enumerate() {
        let place = format!("targets[{i}]");
        let party = audience::find(tx, target)?.ok_or_else(Refusal::not_found).map_err(|r| r.at(&place))?;
        if !actor.may_view(tx, &party)? {
            return Err(Refusal::not_found().at(&place));
        }
        audience::must_be_reachable(tx, &party).map_err(|r| r.at(&place))?;
        if !members.iter().any(|member| member.id == party.id) {
            members.push(party);
        }
    }
    if members.len() < 2 {
        return Err(Refusal::invalid("targets", "a chat needs somebody besides you"));
    }
    if members.len() > MAX_CHAT_MEMBERS {
        return Err(Refusal::invalid("targets", format!("a chat has at most {MAX_CHAT_MEMBERS} members, you included")));
    }
    all_view_each_other(tx, actor, &members, &members)?;
    let ids: Vec<&PrincipalId> = members.iter().map(|member| &member.id).collect();
    let id = conversations::open_shared(tx, actor, &input.title, &ids)?;
    let content = Content { body: &input.body, mentions: &input.mentions, files: &files };
    let message = messages::post(tx, actor, &id, &content, &members)?;
    let request_id = open_request(tx, actor, &id, input)?;
    Ok(Started { sent: Sent::one(id, message), request_id })
}

fn open_request(
    tx: &WriteTx<'_>,
    actor: &Actor,
    id: &ConversationId,
    input: &StartChatInput,
) -> Result<Option<RequestId>, Refusal> {
    if !input.approval && input.choices.is_empty() {
        return Ok(None);
    }
    let kind = if input.approval { RequestKind::Approval } else { RequestKind::Question };
    let ask = beepgrid::AskInput::within(id, &input.body)
        .kind(kind)
        .title(&input.title)
        .choices(input.choices.clone())
        .mentions(input.mentions.clone());
    requests::open(tx, actor, &ask).map(Some)
}

/// The start's result, for its author.
pub(crate) fn started(tx: &ReadTx<'_>, actor: &Actor, started: &Started) -> Result<SendResult, Refusal> {
    let mut result = messages::result(tx, actor, &started.sent)?;
    if let Some(id) = &started.request_id {
        result.request = Some(requests::for_author(tx, actor, id)?);
    }
    Ok(result)
}

/// Whoever is in `some` and whoever is in `all` view each other. The refusal names nobody.
fn all_view_each_other(tx: &ReadTx<'_>, actor: &Actor, some: &[Party], all: &[Party]) -> Result<(), Refusal> {
    for a in some {
        for b in all {
            if a.id != b.id && !audience::view_each_other(tx, &actor.rules, a, b)? {
                return Err(Refusal::forbidden("the members of a chat must all view each other, and not all of these do"));
            }
        }
    }
    Ok(())
}

/// Whether a membership change has the right form.
pub(crate) fn check_membership(input: &ChatMembershipInput) -> Result<(), Refusal> {
    let only = |field: &str, given: bool, operations: &[MembershipOperation]| {
        if given && !operations.contains(&input.operation) {
            return Err(Refusal::invalid(field, format!("not with the operation {}", input.operation)));
        }
        Ok(())
    };
    if !input.operation.is_known() {
        return Err(checks::one_of("operation", input.operation.as_str(), MembershipOperation::KNOWN));
    }
    only("title", !input.title.is_empty(), &[MembershipOperation::Rename])?;
    only("members", !input.members.is_empty(), &[MembershipOperation::Add, MembershipOperation::Remove])?;
    only("share_history", input.share_history, &[MembershipOperation::Add])?;
    only("next_manager", input.next_manager.is_some(), &[MembershipOperation::Remove, MembershipOperation::Leave])?;
    checks::title("title", &input.title)?;
    if input.operation == MembershipOperation::Rename && input.title.trim().is_empty() {
        return Err(Refusal::invalid("title", "required for rename, 1 to 200 code points"));
    }
    checks::count("members", input.members.len(), MAX_CHAT_MEMBERS)?;
    let lists_members = matches!(input.operation, MembershipOperation::Add | MembershipOperation::Remove);
    if lists_members && input.members.is_empty() {
        return Err(Refusal::invalid("members", format!("required for {}, 1 to {MAX_CHAT_MEMBERS} ids", input.operation)));
    }
    for (i, member) in input.members.iter().enumerate() {
        checks::id(&format!("members[{i}]"), member.as_str())?;
    }
    Ok(())
}

/// A chat as one change finds it.
struct Chat<'c> {
    actor: &'c Actor,
    row: ConversationRow,
    everybody: Vec<ParticipantRow>,
    /// From where the actor sees it.
    window: i64,
}

impl Chat<'_> {
    fn present(&self) -> impl Iterator<Item = &Party> {
        self.everybody.iter().filter(|member| member.active).map(|member| &member.party)
    }

    fn is_present(&self, id: &PrincipalId) -> bool {
        self.present().any(|party| party.id == *id)
    }
}

/// Changes a chat; returns whether the actor has left it.
pub(crate) fn change(
    tx: &WriteTx<'_>,
    actor: &Actor,
    (id, input): &(ConversationId, ChatMembershipInput),
) -> Result<ChatMembershipResult, Refusal> {
    let window = actor.reader().window(tx, id)?.ok_or_else(Refusal::not_found)?;
    let row = rows::by_id(tx, id)?.ok_or_else(Refusal::not_found)?;
    if !row.shared {
        return Err(Refusal::invalid("operation", "only a shared chat has a membership; this is a direct conversation"));
    }
    let mut chat = Chat { actor, row, everybody: rows::participants(tx, id)?, window };
    let leaving = input.operation == MembershipOperation::Leave;
    if leaving && !chat.is_present(&actor.id) {
        return Err(Refusal::forbidden("only a member leaves; you read this chat as an operator"));
    }
    if !leaving && !actor.operator && chat.row.manager_id.as_ref() != Some(&actor.id) {
        return Err(Refusal::forbidden("only the chat's manager or an operator changes it"));
    }
    if input.version != chat.row.version {
        return Err(Refusal::version_conflict(chat.row.version));
    }
    match input.operation {
        MembershipOperation::Add => add(tx, &mut chat, input)?,
        MembershipOperation::Remove => remove(tx, &mut chat, &input.members, input.next_manager.as_ref())?,
        MembershipOperation::Leave => remove(tx, &mut chat, std::slice::from_ref(&actor.id), input.next_manager.as_ref())?,
        _ => rename(tx, &mut chat, input)?,
    }
    rows::update(tx, &chat.row)?;
    let left = !actor.operator && rows::history_start(tx, id, &actor.id)?.is_none();
    Ok(ChatMembershipResult { conversation_id: id.clone(), version: chat.row.version + 1, left: left || leaving })
}

fn rename(tx: &WriteTx<'_>, chat: &mut Chat<'_>, input: &ChatMembershipInput) -> Result<(), Refusal> {
    chat.row.title.clone_from(&input.title);
    note(tx, chat, "conversation.updated", None).map(drop)
}

fn add(tx: &WriteTx<'_>, chat: &mut Chat<'_>, input: &ChatMembershipInput) -> Result<(), Refusal> {
    let mut present: Vec<Party> = chat.present().cloned().collect();
    for (i, member) in input.members.iter().enumerate() {
        let place = format!("members[{i}]");
        let party = principals::party_by_id(tx, member)?.ok_or_else(Refusal::not_found).map_err(|r| r.at(&place))?;
        if !chat.actor.may_view(tx, &party)? {
            return Err(Refusal::not_found().at(&place));
        }
        audience::must_be_reachable(tx, &party).map_err(|r| r.at(&place))?;
        if present.iter().any(|other| other.id == party.id) {
            continue;
        }
        all_view_each_other(tx, chat.actor, std::slice::from_ref(&party), &present)?;
        let sequence = note(tx, chat, "conversation.member_added", Some(&party.id))?;
        let history_start = if input.share_history { chat.window } else { sequence };
        rows::join(tx, &chat.row.id, &party.id, history_start)?;
        if input.share_history {
            events::share_history(tx, &chat.row.id, &party.id, history_start)?;
        }
        present.push(party);
    }
    if present.len() > MAX_CHAT_MEMBERS {
        return Err(Refusal::invalid(
            "members",
            format!("a chat has at most {MAX_CHAT_MEMBERS} members; this would have {}", present.len()),
        ));
    }
    Ok(())
}

fn remove(
    tx: &WriteTx<'_>,
    chat: &mut Chat<'_>,
    members: &[PrincipalId],
    next_manager: Option<&PrincipalId>,
) -> Result<(), Refusal> {
    for (i, member) in members.iter().enumerate() {
        if !chat.is_present(member) {
            return Err(Refusal::not_found().at(&format!("members[{i}]")));
        }
    }
    let stays = |id: &PrincipalId| chat.is_present(id) && !members.contains(id);
    if let Some(next) = next_manager
        && !stays(next)
    {
        return Err(Refusal::invalid("next_manager", "must be a member who stays in the chat"));
    }
    let somebody_stays = chat.present().any(|party| stays(&party.id));
    let manager_goes = chat.row.manager_id.as_ref().is_some_and(|manager| members.contains(manager));
    if manager_goes && somebody_stays && next_manager.is_none() {
        return Err(Refusal::conflict(
            ErrorCode::ManagerRequired,
            "next_manager: the manager goes while members remain; name one of them as the next",
        ));
    }
    if let Some(next) = next_manager {
        chat.row.manager_id = Some(next.clone());
    } else if manager_goes {
        chat.row.manager_id = None;
    }
    for member in members {
        // The removed member's last event: its own removal, ids only.
        let sequence = note(tx, chat, "conversation.member_removed", Some(member))?;
        rows::part(tx, &chat.row.id, member, sequence)?;
        tx.signal(Signal::Access { principal: member.clone() });
    }
    Ok(())
}

fn note(tx: &WriteTx<'_>, chat: &Chat<'_>, kind: &'static str, member: Option<&PrincipalId>) -> Result<i64, Refusal> {
    events::record(
        tx,
        &Event {
            kind,
            actor_id: &chat.actor.id,
            conversation_id: chat.row.id.as_str(),
            recipient_id: member.map_or("", PrincipalId::as_str),
            subject_id: chat.row.id.as_str(),
            data: json!({ "id": chat.row.id, "principal_id": member }),
        },
    )
}
