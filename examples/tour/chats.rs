//! Shared chats.

use anyhow::Context as _;
use beepgrid::{ChatMembershipInput, Mention, StartChatInput};

use crate::stage::{Log, Stage, check, same};

pub(crate) async fn visit(log: &mut Log, stage: &Stage) -> anyhow::Result<()> {
    Log::region("Shared chats");
    let body = "👋 @Billing 2 please look at these orders.";
    let mention = Mention::find(body, 0, &stage.billing_id, "Billing 2").context("the body names Billing")?;
    same("where the mention stands, in code points", &(mention.start, mention.end), &(2, 12))?;
    let input = StartChatInput::new(stage.both(), body).mentions(vec![mention]);
    let chat = log.call("the owner, Builder and Billing", stage.owner.start_chat(input).key(stage.key("chat")?)).await?;
    let message = chat.messages.first().context("the chat has no first message")?;
    check("Billing is addressed", message.attention_for(&stage.billing_id).is_some())?;
    check("Builder is not", message.attention_for(&stage.builder_id).is_none())?;
    let history = log.call("its version and manager", stage.owner.conversation(&chat.conversation_id)).await?;
    same("the manager", &history.manager_id, &Some(stage.me.id.clone()))?;
    let rename = ChatMembershipInput::rename(history.version, "Checkout reconciliation");
    let call = stage.owner.change_chat_membership(&chat.conversation_id, rename).key(stage.key("rename")?);
    let changed = log.call("renamed", call).await?;
    check("the version grew", changed.version > history.version)
}
