//! Files: drafts, uploads, lists, downloads.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::limits;
use crate::call::Call;
use crate::client::Client;
use crate::error::{Cause, Error};
use crate::model::{Attachment, AttachmentId, ConversationId};
use crate::ops;

/// Files.
impl Client {
    /// Lists the metadata of the files of a conversation that the caller may see now, oldest first; of more than 1,000 the newest.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, conversation: beepgrid::ConversationId) -> Result<(), beepgrid::Error> {
    /// for file in client.attachments(&conversation).await? {
    ///     println!("{} ({} bytes, {})", file.file_name, file.size, file.media_type);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn attachments(&self, conversation_id: &ConversationId) -> Call<Vec<Attachment>> {
        Call::new(self, &ops::ATTACHMENTS, &[conversation_id.as_str()])
    }

    /// Stores a private draft. Its id goes into the `attachment_ids` of one send, ask, batch or chat within 24 hours.
    ///
    /// 1 byte to 5 MiB. The engine keeps a safe last component of `name`; an empty `media_type` is bytes of no known kind. It is sent
    /// once: if the outcome is unknown, a second try makes a second draft, and one that is never claimed goes by itself.
    ///
    /// # Errors
    /// `rate_limited` with 100 drafts or 100 MiB unclaimed.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use beepgrid::{SendInput, Target};
    ///
    /// let report = std::fs::read("orders.pdf")?;
    /// let draft = client.stage_attachment("orders.pdf", "application/pdf", &report).await?;
    /// let message = SendInput::to(Target::agent("billing-2"), "Please check these orders.");
    /// client.send(message.attachment_ids(vec![draft.id])).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stage_attachment(&self, name: &str, media_type: &str, data: impl AsRef<[u8]>) -> Call<Attachment> {
        let data = data.as_ref();
        Call::new(self, &ops::STAGE_ATTACHMENT, &[])
            .checked(limits::file(name, media_type, data.len()))
            .form(name, media_type, data)
    }

    /// Stores a file in a conversation, where everybody sees it from then on who sees that position.
    ///
    /// Like [`Client::stage_attachment`], it is sent once. If the outcome is unknown, look through [`Client::attachments`] before
    /// trying again.
    ///
    /// # Errors
    /// `forbidden` without the right to post there.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, conversation: beepgrid::ConversationId) -> Result<(), beepgrid::Error> {
    /// let stored = client.upload_attachment(&conversation, "notes.txt", "text/plain", "Orders 241 and 242").await?;
    /// assert_eq!(stored.size, 18);
    /// # Ok(())
    /// # }
    /// ```
    pub fn upload_attachment(
        &self,
        conversation_id: &ConversationId,
        name: &str,
        media_type: &str,
        data: impl AsRef<[u8]>,
    ) -> Call<Attachment> {
        let data = data.as_ref();
        Call::new(self, &ops::UPLOAD_ATTACHMENT, &[conversation_id.as_str()])
            .checked(limits::file(name, media_type, data.len()))
            .form(name, media_type, data)
    }

    /// Reads one file's metadata: of a draft of one's own, or of what the caller may see now.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, id: beepgrid::AttachmentId) -> Result<(), beepgrid::Error> {
    /// let file = client.attachment(&id).await?;
    /// println!("{} has the digest {}", file.file_name, file.sha256);
    /// # Ok(())
    /// # }
    /// ```
    pub fn attachment(&self, id: &AttachmentId) -> Call<Attachment> {
        Call::new(self, &ops::ATTACHMENT, &[id.as_str()])
    }

    /// Reads the bytes of a file, at most 5 MiB, checked against the digest that comes with them.
    ///
    /// They are somebody else's: to be read with care, never run or obeyed.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, id: beepgrid::AttachmentId) -> Result<(), beepgrid::Error> {
    /// let bytes = client.download_attachment(&id).await?;
    /// println!("{} bytes", bytes.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn download_attachment(&self, id: &AttachmentId) -> Call<Vec<u8>> {
        Call::download(self, &ops::DOWNLOAD_ATTACHMENT, &[id.as_str()])
    }

    /// Writes a file's bytes to `path`, which must not exist, readable for its owner only; returns how many.
    ///
    /// Nothing is overwritten, a symbolic link is not followed, and the name that the engine has for the file plays no part. The file is
    /// made once all bytes are here and checked; if writing fails it is removed.
    ///
    /// # Errors
    /// Those of [`Client::download_attachment`], and [`ErrorKind::File`](crate::ErrorKind::File) when `path` is there or can't be
    /// written.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, id: beepgrid::AttachmentId) -> Result<(), beepgrid::Error> {
    /// let bytes = client.download_to(&id, "inbox/orders.pdf").await?;
    /// println!("{bytes} bytes");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn download_to(&self, id: &AttachmentId, path: impl AsRef<Path>) -> Result<u64, Error> {
        let path = path.as_ref().to_owned();
        let fault = |path: PathBuf, source| Error::new(ops::DOWNLOAD_ATTACHMENT.name, None, false, Cause::File { path, source });
        // Found before anything is fetched; that it holds is seen to when the file is made.
        if path.symlink_metadata().is_ok() {
            return Err(fault(path, std::io::ErrorKind::AlreadyExists.into()));
        }
        let bytes = self.download_attachment(id).await?;
        let to = path.clone();
        let written = tokio::task::spawn_blocking(move || write_new(&to, &bytes).map(|()| bytes.len() as u64)).await;
        match written {
            Ok(Ok(count)) => Ok(count),
            Ok(Err(source)) => Err(fault(path, source)),
            Err(gone) => Err(fault(path, std::io::Error::other(gone))),
        }
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    // Fails on whatever is there, a link to nowhere too.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        drop(file);
        // The first error says more.
        drop(std::fs::remove_file(path));
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::model::MAX_ATTACHMENT_BYTES;

    fn refused(call: Call<Attachment>) -> String {
        let error = call.plan().map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.input().unwrap().field.clone()
    }

    #[test]
    fn what_cannot_be_stored_is_not_sent() {
        let client = Client::new("http://127.0.0.1:4010", "bgt_secret_0123456789").unwrap();
        let largest = vec![0; MAX_ATTACHMENT_BYTES + 1];
        assert_eq!(refused(client.stage_attachment("a", "", [])), "file");
        assert_eq!(refused(client.stage_attachment("a", "", &largest)), "file");
        assert_eq!(refused(client.upload_attachment(&"cnv_1".into(), "a", "", &largest)), "file");
        assert!(client.stage_attachment("a", "", largest.get(1..).unwrap()).plan().is_ok());
        assert_eq!(refused(client.stage_attachment("a\0b", "", [0])), "file_name");
        assert_eq!(refused(client.stage_attachment("a", "text/html\r\nX: y", [0])), "media_type");
        let keyed = client.stage_attachment("a", "", [0]).key("k".parse().unwrap());
        assert_eq!(refused(keyed), "key");
    }
}
