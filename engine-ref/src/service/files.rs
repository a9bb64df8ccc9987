//! Files: private drafts and their claim, uploads into a conversation, and who may read them.
//!
//! A file is visible with what it belongs to: a message or an upload within a reader's history window, a request to whom it is
//! shown. A draft is its uploader's alone.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::Duration;

use beepgrid::{Attachment, AttachmentId, ConversationId, ErrorCode, MessageId, RequestId, Timestamp};
use serde_json::json;

use super::actor::Actor;
use super::conversations::{Hidden, Reader};
use super::events::{self, Event};
use super::limits::{DRAFT_LIFE, MAX_DRAFT_BYTES, MAX_DRAFTS, MAX_LIST, MAX_SCAN};
use super::requests::project::{Access, View};
use super::{Refusal, messages, new_id, requests};
use crate::store::attachments::{self, AttachmentRow, Owner};
use crate::store::blobs::{self, Place};
use crate::store::requests::RequestRow;
use crate::store::{ReadTx, WriteTx, conversations as rooms, requests as request_rows};

/// When somebody with too many drafts may look again.
const DRAFTS_RETRY: Duration = Duration::from_secs(60);

/// What is known of a file whose bytes have come.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) file_name: String,
    pub(crate) media_type: String,
    pub(crate) size: i64,
    pub(crate) sha256: String,
}

/// A draft made until then is gone.
pub(crate) fn gone_since(now: Timestamp) -> Timestamp {
    let life = i64::try_from(DRAFT_LIFE.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_sub(life))
}

/// Whether the actor may put a file of this size there: into a conversation where it may post, or among its drafts.
pub(crate) fn may_store(tx: &ReadTx<'_>, actor: &Actor, into: Option<&ConversationId>, size: i64) -> Result<(), Refusal> {
    if let Some(id) = into {
        return messages::may_post_in(tx, actor, id).map(drop);
    }
    let (count, bytes) = attachments::drafts_of(tx, &actor.id, gone_since(tx.now()))?;
    if count < MAX_DRAFTS && bytes.saturating_add(size) <= MAX_DRAFT_BYTES {
        return Ok(());
    }
    let message =
        format!("at most {MAX_DRAFTS} drafts and {MAX_DRAFT_BYTES} bytes may wait to be claimed; send or leave some first");
    Err(Refusal::RateLimited { message, retry_after: DRAFTS_RETRY })
}

/// Stores a file whose bytes are stored: a draft, or into a conversation.
pub(crate) fn store(
    tx: &WriteTx<'_>,
    actor: &Actor,
    into: Option<&ConversationId>,
    file: Described,
    blob_id: String,
) -> Result<Attachment, Refusal> {
    may_store(tx, actor, into, file.size)?;
    if !blobs::is_there(tx, &blob_id)? {
        // It took longer than anybody waits, and the sweeper has taken it for left behind.
        return Err(Refusal::Unavailable { reason: "the bytes of an upload were swept before it ended".to_owned() });
    }
    let id: AttachmentId = new_id(AttachmentId::PREFIX);
    let owner = match into {
        None => None,
        Some(conversation) => {
            let position = announce(tx, actor, &id, conversation)?;
            rooms::touch(tx, conversation, position)?;
            blobs::keep(tx, &blob_id)?;
            Some(Owner { conversation_id: conversation.clone(), message_id: None, request_id: None, position })
        }
    };
    let Described { file_name, media_type, size, sha256 } = file;
    let (uploader_id, created_at) = (actor.id.clone(), tx.now());
    let row = AttachmentRow { id, uploader_id, owner, place: 0, file_name, media_type, size, sha256, blob_id, created_at };
    attachments::insert(tx, &row)?;
    Ok(row.show())
}

fn announce(tx: &WriteTx<'_>, actor: &Actor, id: &AttachmentId, conversation: &ConversationId) -> Result<i64, Refusal> {
    events::record(
        tx,
        &Event {
            kind: "attachment.created",
            actor_id: &actor.id,
            conversation_id: conversation.as_str(),
            recipient_id: "",
            subject_id: id.as_str(),
            data: json!({ "id": id }),
        },
    )
}

/// The files of one operation: drafts that it claims, or those of a request that it replaces. Where it makes several things, the
/// first gets the drafts, each further one records of its own over the same bytes.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    rows: Vec<AttachmentRow>,
    bound: Cell<bool>,
}

impl Claim {
    /// Finds the actor's drafts.
    ///
    /// # Errors
    /// 404 for what is no draft of the actor and not visible to it.
    pub(crate) fn find(tx: &ReadTx<'_>, actor: &Actor, ids: &[AttachmentId]) -> Result<Self, Refusal> {
        let mut rows = Vec::with_capacity(ids.len());
        for (i, id) in ids.iter().enumerate() {
            let row = attachments::by_id(tx, id)?;
            let known = match &row {
                Some(row) if row.owner.is_some() && row.uploader_id == actor.id => true,
                Some(row) => sees(tx, &actor.reader(), row)?,
                None => false,
            };
            let not_found = || Refusal::not_found().at(&format!("attachment_ids[{i}]"));
            rows.push(row.filter(|_| known).ok_or_else(not_found)?);
        }
        Ok(Self { rows, bound: Cell::new(false) })
    }

    /// The files of a request that is replaced: only copies.
    pub(crate) fn of_replaced(tx: &ReadTx<'_>, request: &RequestRow) -> Result<Self, Refusal> {
        let rows = attachments::of_request(tx, &request.id, &request.conversation_id)?;
        Ok(Self { rows, bound: Cell::new(true) })
    }

    /// Refuses drafts that another operation has claimed.
    pub(crate) fn check_free(&self) -> Result<(), Refusal> {
        let claimed = self.rows.iter().position(|row| row.owner.is_some());
        match claimed {
            Some(i) if !self.bound.get() => Err(taken(i)),
            _ => Ok(()),
        }
    }

    /// Binds the files to a message.
    pub(crate) fn bind_to_message(
        &self,
        tx: &WriteTx<'_>,
        actor: &Actor,
        conversation: &ConversationId,
        message: &MessageId,
        position: i64,
    ) -> Result<(), Refusal> {
        let owner =
            Owner { conversation_id: conversation.clone(), message_id: Some(message.clone()), request_id: None, position };
        self.bind(tx, actor, &owner)
    }

    /// Binds the files to a stored request, in each conversation where somebody reads it.
    pub(crate) fn bind_to_request(&self, tx: &WriteTx<'_>, actor: &Actor, id: &RequestId) -> Result<(), Refusal> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let row = request_rows::find(tx, id)?.ok_or_else(|| Refusal::internal("files for a request that was not stored"))?;
        let mut conversations = vec![row.conversation_id];
        for seat in request_rows::audience(tx, id)? {
            if !conversations.contains(&seat.conversation_id) {
                conversations.push(seat.conversation_id);
            }
        }
        for conversation_id in conversations {
            let owner = Owner { conversation_id, message_id: None, request_id: Some(id.clone()), position: row.sequence };
            self.bind(tx, actor, &owner)?;
        }
        Ok(())
    }

    fn bind(&self, tx: &WriteTx<'_>, actor: &Actor, owner: &Owner) -> Result<(), Refusal> {
        self.check_free()?;
        for (i, row) in self.rows.iter().enumerate() {
            let place = i64::try_from(i).unwrap_or(i64::MAX);
            if self.bound.get() {
                let id: AttachmentId = new_id(AttachmentId::PREFIX);
                announce(tx, actor, &id, &owner.conversation_id)?;
                let (uploader_id, created_at) = (actor.id.clone(), tx.now());
                let copy = AttachmentRow { id, uploader_id, owner: Some(owner.clone()), place, created_at, ..row.clone() };
                attachments::insert(tx, &copy)?;
            } else {
                announce(tx, actor, &row.id, &owner.conversation_id)?;
                if !attachments::claim(tx, &row.id, owner, place)? {
                    return Err(taken(i));
                }
                blobs::keep(tx, &row.blob_id)?;
            }
        }
        self.bound.set(true);
        Ok(())
    }
}

fn taken(index: usize) -> Refusal {
    let message = format!("attachment_ids[{index}]: another operation has claimed this file; stage it again");
    Refusal::conflict(ErrorCode::AttachmentClaimed, message)
}

/// Whether the reader may see a file now.
fn sees(tx: &ReadTx<'_>, reader: &Reader<'_>, row: &AttachmentRow) -> Result<bool, Refusal> {
    let Some(owner) = &row.owner else {
        return Ok(row.uploader_id == *reader.id && row.created_at > gone_since(tx.now()));
    };
    if let Some(request) = &owner.request_id {
        let view = requests::find(tx, reader, request)?;
        return Ok(view.is_some_and(|view| shows_files_in(&view, &owner.conversation_id)));
    }
    let holds = reader.window(tx, &owner.conversation_id)?.is_some_and(|from| from <= owner.position);
    Ok(holds && !reader.hides(tx, &row.uploader_id)?)
}

/// Whether a request's reader is shown its files there: of a group ask, only those in its own private history.
fn shows_files_in(view: &View, conversation: &ConversationId) -> bool {
    match view.access {
        Access::Requester | Access::Operator => true,
        Access::Asked => view.seat.as_ref() == Some(conversation),
        Access::Chat => view.row.conversation_id == *conversation,
        Access::Executor => false,
    }
}

/// A file as the reader may see it now; `None` when it may not.
pub(crate) fn project(tx: &ReadTx<'_>, reader: &Reader<'_>, id: &AttachmentId) -> Result<Option<Attachment>, Refusal> {
    Ok(visible(tx, reader, id)?.map(AttachmentRow::show))
}

fn visible(tx: &ReadTx<'_>, reader: &Reader<'_>, id: &AttachmentId) -> Result<Option<AttachmentRow>, Refusal> {
    match attachments::by_id(tx, id)? {
        Some(row) if sees(tx, reader, &row)? => Ok(Some(row)),
        _ => Ok(None),
    }
}

/// A file's metadata.
pub(crate) fn get(tx: &ReadTx<'_>, actor: &Actor, id: &AttachmentId) -> Result<Attachment, Refusal> {
    project(tx, &actor.reader(), id)?.ok_or_else(Refusal::not_found)
}

/// A file and where its bytes are.
pub(crate) fn locate(tx: &ReadTx<'_>, actor: &Actor, id: &AttachmentId) -> Result<(AttachmentRow, Place), Refusal> {
    let row = visible(tx, &actor.reader(), id)?.ok_or_else(Refusal::not_found)?;
    let place = blobs::find(tx, &row.blob_id)?.ok_or_else(|| Refusal::internal(format!("the file {id} has no bytes")))?;
    Ok((row, place))
}

/// The newest files of a conversation that the actor may see, oldest first, and whether there are older ones.
pub(crate) fn list(tx: &ReadTx<'_>, actor: &Actor, id: &ConversationId) -> Result<(Vec<Attachment>, bool), Refusal> {
    let reader = actor.reader();
    let from = reader.window(tx, id)?.ok_or_else(Refusal::not_found)?;
    let (mut visible, mut hidden) = (Vec::new(), Hidden::default());
    let wanted = usize::try_from(MAX_LIST).unwrap_or(usize::MAX);
    let mut before = (i64::MAX, i64::MAX, String::new());
    let mut scanned = 0;
    while visible.len() <= wanted && scanned < MAX_SCAN {
        let page = attachments::before(tx, id, from, (before.0, before.1, &before.2), MAX_LIST + 1)?;
        let Some(oldest) = page.last() else { break };
        let position = oldest.owner.as_ref().map_or(0, |owner| owner.position);
        before = (position, oldest.place, oldest.id.to_string());
        scanned += MAX_LIST + 1;
        for row in page {
            if !hidden.is(tx, &reader, &row.uploader_id)? {
                visible.push(row);
            }
        }
    }
    let more = visible.len() > wanted;
    visible.truncate(wanted);
    Ok((visible.into_iter().rev().map(AttachmentRow::show).collect(), more))
}

/// The files of one message that its reader may see.
pub(crate) fn of_message(tx: &ReadTx<'_>, id: &MessageId) -> Result<Vec<Attachment>, Refusal> {
    Ok(shown(attachments::of_message(tx, id)?))
}

/// The files of the messages between two positions of a conversation, by message.
pub(crate) fn of_messages(
    tx: &ReadTx<'_>,
    conversation: &ConversationId,
    from: i64,
    to: i64,
) -> Result<HashMap<MessageId, Vec<Attachment>>, Refusal> {
    let mut by_message: HashMap<MessageId, Vec<Attachment>> = HashMap::new();
    for row in attachments::of_messages(tx, conversation, from, to)? {
        if let Some(message) = row.owner.as_ref().and_then(|owner| owner.message_id.clone()) {
            by_message.entry(message).or_default().push(row.show());
        }
    }
    Ok(by_message)
}

/// The files of one request that its reader may see, in the conversation where it reads it.
pub(crate) fn of_request(tx: &ReadTx<'_>, id: &RequestId, conversation: &ConversationId) -> Result<Vec<Attachment>, Refusal> {
    Ok(shown(attachments::of_request(tx, id, conversation)?))
}

fn shown(rows: Vec<AttachmentRow>) -> Vec<Attachment> {
    rows.into_iter().map(AttachmentRow::show).collect()
}
