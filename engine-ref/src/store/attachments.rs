//! Files' metadata: private drafts, and what belongs to a message, a request or a conversation.

pub(crate) mod pages;

use beepgrid::{Attachment, AttachmentId, ConversationId, MessageId, PrincipalId, RequestId, Timestamp};

use super::credentials::time;
use super::{ReadTx, Row, StoreError, WriteTx};

/// A file as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttachmentRow {
    pub(crate) id: AttachmentId,
    pub(crate) uploader_id: PrincipalId,
    /// Nothing while it is a draft.
    pub(crate) owner: Option<Owner>,
    /// Its place among the files of one operation.
    pub(crate) place: i64,
    pub(crate) file_name: String,
    pub(crate) media_type: String,
    pub(crate) size: i64,
    pub(crate) sha256: String,
    pub(crate) blob_id: String,
    pub(crate) created_at: Timestamp,
}

/// What a file belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) conversation_id: ConversationId,
    pub(crate) message_id: Option<MessageId>,
    pub(crate) request_id: Option<RequestId>,
    /// The event sequence of what it belongs to.
    pub(crate) position: i64,
}

impl AttachmentRow {
    /// What goes over the wire.
    pub(crate) fn show(self) -> Attachment {
        let (conversation_id, message_id, request_id) = match self.owner {
            Some(owner) => (owner.conversation_id, owner.message_id, owner.request_id),
            None => (ConversationId::default(), None, None),
        };
        Attachment {
            id: self.id,
            conversation_id,
            message_id,
            request_id,
            file_name: self.file_name,
            media_type: self.media_type,
            size: self.size,
            sha256: self.sha256,
            created_at: self.created_at,
        }
    }
}

fn attachment(row: &Row) -> Result<AttachmentRow, StoreError> {
    let owner = match (row.opt_text("conversation_id")?, row.opt_int("position")?) {
        (Some(conversation_id), Some(position)) => Some(Owner {
            conversation_id: conversation_id.into(),
            message_id: row.opt_text("message_id")?.map(Into::into),
            request_id: row.opt_text("request_id")?.map(Into::into),
            position,
        }),
        _ => None,
    };
    Ok(AttachmentRow {
        id: row.text("id")?.into(),
        uploader_id: row.text("uploader_id")?.into(),
        owner,
        place: row.int("place")?,
        file_name: row.text("file_name")?,
        media_type: row.text("media_type")?,
        size: row.int("size")?,
        sha256: row.text("sha256")?,
        blob_id: row.text("blob_id")?,
        created_at: time(row, "created_at")?,
    })
}

fn attachments(rows: &[Row]) -> Result<Vec<AttachmentRow>, StoreError> {
    rows.iter().map(attachment).collect()
}

/// One file.
pub(crate) fn by_id(tx: &ReadTx<'_>, id: &AttachmentId) -> Result<Option<AttachmentRow>, StoreError> {
    // Index: primary key.
    tx.find("SELECT * FROM attachments WHERE id = :id", &[("id", id)])?.map(|row| attachment(&row)).transpose()
}

/// Stores a file.
pub(crate) fn insert(tx: &WriteTx<'_>, row: &AttachmentRow) -> Result<(), StoreError> {
    let owner = row.owner.as_ref();
    tx.execute(
        "INSERT INTO attachments (id, uploader_id, conversation_id, message_id, request_id, position, place, file_name,
            media_type, size, sha256, blob_id, created_at)
         VALUES (:id, :uploader, :conversation, :message, :request, :position, :place, :name, :media, :size, :sha256, :blob, :now)",
        &[
            ("id", &row.id),
            ("uploader", &row.uploader_id),
            ("conversation", &owner.map(|owner| &owner.conversation_id)),
            ("message", &owner.and_then(|owner| owner.message_id.as_ref())),
            ("request", &owner.and_then(|owner| owner.request_id.as_ref())),
            ("position", &owner.map(|owner| owner.position)),
            ("place", &row.place),
            ("name", &row.file_name),
            ("media", &row.media_type),
            ("size", &row.size),
            ("sha256", &row.sha256),
            ("blob", &row.blob_id),
            ("now", &row.created_at),
        ],
    )?;
    Ok(())
}

/// Binds a draft to what it belongs to from now on; false if it is no draft any more.
pub(crate) fn claim(tx: &WriteTx<'_>, id: &AttachmentId, owner: &Owner, place: i64) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "UPDATE attachments SET conversation_id = :conversation, message_id = :message, request_id = :request,
            position = :position, place = :place
         WHERE id = :id AND conversation_id IS NULL",
        &[
            ("conversation", &owner.conversation_id),
            ("message", &owner.message_id),
            ("request", &owner.request_id),
            ("position", &owner.position),
            ("place", &place),
            ("id", id),
        ],
    )?;
    Ok(changed == 1)
}

/// How many unclaimed drafts younger than `since` a principal has, and how many bytes.
pub(crate) fn drafts_of(tx: &ReadTx<'_>, uploader: &PrincipalId, since: Timestamp) -> Result<(i64, i64), StoreError> {
    // Index: attachments_drafts; at most as many as a principal may have, and those the sweeper has not taken yet.
    let row = tx.get(
        "SELECT CAST(count(*) AS BIGINT) AS n, CAST(COALESCE(sum(size), 0) AS BIGINT) AS bytes FROM attachments
         WHERE uploader_id = :uploader AND conversation_id IS NULL AND created_at > :since",
        &[("uploader", uploader), ("since", &since)],
    )?;
    Ok((row.int("n")?, row.int("bytes")?))
}

/// The files of one message, in their order.
pub(crate) fn of_message(tx: &ReadTx<'_>, id: &MessageId) -> Result<Vec<AttachmentRow>, StoreError> {
    // Index: attachments_message.
    attachments(&tx.query("SELECT * FROM attachments WHERE message_id = :id ORDER BY place", &[("id", id)])?)
}

/// The files of the messages between two positions of a conversation, in the order of messages and places.
pub(crate) fn of_messages(
    tx: &ReadTx<'_>,
    conversation: &ConversationId,
    from: i64,
    to: i64,
) -> Result<Vec<AttachmentRow>, StoreError> {
    // Index: attachments_conversation.
    attachments(&tx.query(
        "SELECT * FROM attachments
         WHERE conversation_id = :conversation AND position >= :from AND position <= :to AND message_id IS NOT NULL
         ORDER BY position, place, id",
        &[("conversation", conversation), ("from", &from), ("to", &to)],
    )?)
}

/// The files of one request where one of its readers reads it, in their order.
pub(crate) fn of_request(
    tx: &ReadTx<'_>,
    id: &RequestId,
    conversation: &ConversationId,
) -> Result<Vec<AttachmentRow>, StoreError> {
    // Index: attachments_request.
    attachments(&tx.query(
        "SELECT * FROM attachments WHERE request_id = :id AND conversation_id = :conversation ORDER BY place",
        &[("id", id), ("conversation", conversation)],
    )?)
}

/// The newest files of a conversation between a position and before another one, newest first.
pub(crate) fn before(
    tx: &ReadTx<'_>,
    conversation: &ConversationId,
    from: i64,
    before: (i64, i64, &str),
    limit: i64,
) -> Result<Vec<AttachmentRow>, StoreError> {
    // Index: attachments_conversation.
    let (position, place, id) = before;
    attachments(&tx.query(
        "SELECT * FROM attachments
         WHERE conversation_id = :conversation AND position >= :from AND (position, place, id) < (:position, :place, :id)
         ORDER BY position DESC, place DESC, id DESC LIMIT :limit",
        &[
            ("conversation", conversation),
            ("from", &from),
            ("position", &position),
            ("place", &place),
            ("id", &id),
            ("limit", &limit),
        ],
    )?)
}

/// Removes drafts that nobody claimed by `until`, at most `limit`; how many there were.
pub(crate) fn remove_drafts(tx: &WriteTx<'_>, until: Timestamp, limit: i64) -> Result<u64, StoreError> {
    // Index: attachments_unclaimed.
    tx.execute(
        "DELETE FROM attachments WHERE id IN (
            SELECT id FROM attachments WHERE conversation_id IS NULL AND created_at <= :until ORDER BY created_at LIMIT :limit)",
        &[("until", &until), ("limit", &limit)],
    )
}
