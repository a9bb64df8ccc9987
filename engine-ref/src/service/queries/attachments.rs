//! The files of one conversation that the reader may see.

use beepgrid::ConversationId;
use serde_json::Value;

use super::page::{Look, Source, unseen, wire};
use crate::service::{Refusal, files};
use crate::store::attachments::{self, AttachmentRow, pages};

pub(super) struct Attachments {
    conversation: ConversationId,
}

impl Source for Attachments {
    type Row = AttachmentRow;

    fn open(look: &Look<'_>) -> Result<Self, Refusal> {
        let conversation: ConversationId = look.filter("conversation_id").unwrap_or_default().into();
        look.reader().window(look.tx, &conversation)?.ok_or_else(|| unseen("conversation_id"))?;
        Ok(Self { conversation })
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<AttachmentRow>, Refusal> {
        Ok(attachments::by_id(look.tx, &id.into())?)
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<AttachmentRow>, Refusal> {
        Ok(pages::in_conversation(look.tx, self.conversation.as_str(), place, limit)?)
    }

    fn place(row: &AttachmentRow) -> String {
        row.id.to_string()
    }

    fn show(&mut self, look: &Look<'_>, row: AttachmentRow) -> Result<Option<Value>, Refusal> {
        let here = row.owner.as_ref().is_some_and(|owner| owner.conversation_id == self.conversation);
        if !here || !look.finds(&[&row.file_name]) {
            return Ok(None);
        }
        match files::project(look.tx, &look.reader(), &row.id)? {
            Some(file) => wire(&file),
            None => Ok(None),
        }
    }
}
