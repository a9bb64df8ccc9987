//! Bytes of files on their way in and out. They are durable before anything refers to them, and the answer comes after both.

use std::io;

use beepgrid::{Attachment, AttachmentId, ConversationId, Permission};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::actor::{Caller, Need};
use super::files::{self, Described};
use super::{Refusal, new_id};
use crate::core::Core;
use crate::store::attachments::AttachmentRow;
use crate::store::blobs::{self, Folder, Place};

/// What ids of bytes begin with; never shown.
const BLOB: &str = "blb_";

/// A whole file as it came in.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) file_name: String,
    pub(crate) media_type: String,
    pub(crate) bytes: Bytes,
}

/// Stores a file as a draft or into a conversation.
pub(crate) async fn store(
    core: &Core,
    caller: &Caller,
    into: Option<ConversationId>,
    file: Received,
) -> Result<Attachment, Refusal> {
    let blob_id: String = new_id(BLOB);
    let Received { file_name, media_type, bytes } = file;
    let size = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let folder = core.store().blobs().for_writing().cloned();
    if let Some(folder) = &folder {
        // Refused before the disk is touched; and from here on nothing is left behind that nobody knows of.
        let (into, id) = (into.clone(), blob_id.clone());
        core.write(caller, Need::Ceiling(Permission::Message), move |tx, actor| {
            files::may_store(tx, actor, into.as_ref(), size)?;
            Ok(blobs::insert(tx, &id, None)?)
        })
        .await?;
        write(folder.clone(), blob_id.clone(), bytes.clone()).await?;
    }
    let (sha256, bytes) = digest(bytes).await?;
    let described = Described { file_name, media_type, size, sha256 };
    core.write(caller, Need::Ceiling(Permission::Message), move |tx, actor| {
        if folder.is_none() {
            files::may_store(tx, actor, into.as_ref(), size)?;
            blobs::insert(tx, &blob_id, Some(bytes.as_ref()))?;
        }
        files::store(tx, actor, into.as_ref(), described, blob_id)
    })
    .await
}

/// A file that the caller may read now, with its bytes.
pub(crate) async fn load(core: &Core, caller: &Caller, id: AttachmentId) -> Result<(AttachmentRow, Bytes), Refusal> {
    let need = Need::Ceiling(Permission::Read);
    let (row, place) = core.read(caller, need, move |tx, actor| files::locate(tx, actor, &id)).await?;
    let bytes = match place {
        Place::Database(bytes) => bytes,
        Place::Folder => read(core.store().blobs().folder().cloned(), &row).await?,
    };
    let (sha256, bytes) = digest(bytes.into()).await?;
    if sha256 != row.sha256 {
        return Err(Refusal::internal(format!("the bytes of the file {} are not those that were stored", row.id)));
    }
    Ok((row, bytes))
}

async fn write(folder: Folder, id: String, bytes: Bytes) -> Result<(), Refusal> {
    blocking(move || folder.write(&id, &bytes))
        .await?
        .map_err(|error| Refusal::Unavailable { reason: format!("the bytes of a file can't be written: {error}") })
}

async fn read(folder: Option<Folder>, row: &AttachmentRow) -> Result<Vec<u8>, Refusal> {
    let folder = folder.ok_or_else(|| Refusal::Unavailable {
        reason: format!("the bytes of the file {} are in a folder, and this engine has none set", row.id),
    })?;
    let (blob, size, draft) = (row.blob_id.clone(), u64::try_from(row.size).unwrap_or(0), row.owner.is_none());
    blocking(move || folder.read(&blob, size)).await?.map_err(|error| match error.kind() {
        // Swept between the look and the read.
        io::ErrorKind::NotFound if draft => Refusal::not_found(),
        io::ErrorKind::NotFound | io::ErrorKind::InvalidData => {
            Refusal::internal(format!("the bytes of the file {} are gone or damaged: {error}", row.id))
        }
        _ => Refusal::Unavailable { reason: format!("the bytes of the file {} can't be read: {error}", row.id) },
    })
}

async fn digest(bytes: Bytes) -> Result<(String, Bytes), Refusal> {
    blocking(move || (hex(&Sha256::digest(&bytes)), bytes)).await
}

fn hex(digest: &[u8]) -> String {
    use std::fmt::Write;
    digest.iter().fold(String::with_capacity(2 * digest.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a String takes everything
        text
    })
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Refusal::internal(format!("work on a file's bytes failed: {error}")))
}
