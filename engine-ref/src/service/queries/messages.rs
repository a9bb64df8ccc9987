//! The messages of one conversation within the reader's window, oldest first.

use beepgrid::ConversationId;
use serde_json::Value;

use super::page::{Look, Source, unseen, wire};
use crate::service::conversations::Hidden;
use crate::service::{Refusal, messages};
use crate::store::messages::{self as rows, MessageRow, pages};

pub(super) struct Messages {
    conversation: ConversationId,
    from: i64,
    hidden: Hidden,
}

impl Source for Messages {
    type Row = MessageRow;

    fn open(look: &Look<'_>) -> Result<Self, Refusal> {
        let conversation: ConversationId = look.filter("conversation_id").unwrap_or_default().into();
        let from = look.reader().window(look.tx, &conversation)?.ok_or_else(|| unseen("conversation_id"))?;
        Ok(Self { conversation, from, hidden: Hidden::default() })
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<MessageRow>, Refusal> {
        Ok(rows::by_id(look.tx, &id.into())?)
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<MessageRow>, Refusal> {
        let place = place.parse().unwrap_or(-1).max(self.from.saturating_sub(1));
        Ok(pages::after(look.tx, &self.conversation, place, limit)?)
    }

    fn place(row: &MessageRow) -> String {
        row.sequence.to_string()
    }

    fn show(&mut self, look: &Look<'_>, row: MessageRow) -> Result<Option<Value>, Refusal> {
        let reader = look.reader();
        let visible = row.conversation_id == self.conversation
            && row.sequence >= self.from
            && !self.hidden.is(look.tx, &reader, &row.sender_id)?;
        if !visible || !look.finds(&[&row.body]) {
            return Ok(None);
        }
        match messages::show(look.tx, &reader, std::slice::from_ref(&row))?.pop() {
            Some(message) => wire(&message),
            None => Ok(None),
        }
    }
}
