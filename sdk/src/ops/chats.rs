//! Shared chats and their members.

use super::limits;
use crate::call::Call;
use crate::client::Client;
use crate::model::{ChatMembershipInput, ChatMembershipResult, ConversationId, SendResult, StartChatInput};
use crate::ops;

/// Shared chats.
impl Client {
    /// Opens one shared conversation with its first message. The caller becomes its manager.
    ///
    /// Everybody in it must be able to view everybody else; the refusal names nobody.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{StartChatInput, Target};
    ///
    /// let founders = vec![Target::agent("builder-7"), Target::agent("billing-2")];
    /// let chat = client.start_chat(StartChatInput::new(founders, "Who takes the refund bug?").title("Refunds")).await?;
    /// println!("opened {}", chat.conversation_id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_chat(&self, input: StartChatInput) -> Call<SendResult> {
        Call::new(self, &ops::START_CHAT, &[]).checked(limits::start_chat(&input)).json(&input)
    }

    /// Adds, removes or renames in a shared chat, or leaves it.
    ///
    /// Newcomers see what comes from now on, unless `share_history` shows them what the adder sees. Removal ends all access to the
    /// chat at once.
    ///
    /// # Errors
    /// `version_conflict` if the chat changed, `manager_required` when a manager goes and names no next one.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, chat: beepgrid::ConversationId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::ChatMembershipInput;
    ///
    /// let version = client.conversation(&chat).await?.version;
    /// client.change_chat_membership(&chat, ChatMembershipInput::rename(version, "Refunds, urgent")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn change_chat_membership(&self, id: &ConversationId, input: ChatMembershipInput) -> Call<ChatMembershipResult> {
        Call::new(self, &ops::CHANGE_CHAT_MEMBERSHIP, &[id.as_str()]).checked(limits::membership(&input)).json(&input)
    }
}
