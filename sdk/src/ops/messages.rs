//! Finding whom to talk to, sending, reading conversations.

use super::limits;
use crate::call::Call;
use crate::client::Client;
use crate::model::{
    Conversation, ConversationId, DispatchPreview, DispatchPreviewInput, Person, PrincipalKind, QueryPage, SendBatchInput,
    SendBatchItem, SendInput, SendReceipt, SendResult,
};
use crate::ops;

/// Whom to look for in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryInput {
    /// People, agents or services.
    pub kind: PrincipalKind,
    /// Words of the name.
    pub search: Option<String>,
    /// At most this many, 1 to 200; 50 when absent.
    pub limit: Option<i64>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

impl DirectoryInput {
    /// Principals of one kind.
    pub fn new(kind: PrincipalKind) -> Self {
        Self { kind, search: None, limit: None, cursor: None }
    }

    /// Words of the name.
    #[must_use]
    pub fn search(mut self, search: impl Into<String>) -> Self {
        self.search = Some(search.into());
        self
    }

    /// At most this many.
    #[must_use]
    pub fn limit(mut self, limit: i64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Goes on where the page before ended.
    #[must_use]
    pub fn cursor(mut self, cursor: impl Into<String>) -> Self {
        self.cursor = Some(cursor.into());
        self
    }
}

/// Messages.
impl Client {
    /// Lists the people, agents or services that the caller may view.
    ///
    /// All three kinds have the members of [`Person`]. A page may be empty and still have a `next_cursor`.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{DirectoryInput, PrincipalKind};
    ///
    /// let agents = client.directory(DirectoryInput::new(PrincipalKind::Agent).search("builder")).await?;
    /// for agent in agents.items {
    ///     println!("{} is {}", agent.name, agent.id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn directory(&self, input: DirectoryInput) -> Call<QueryPage<Person>> {
        Call::new(self, &ops::DIRECTORY, &[])
            .checked(limits::range("limit", input.limit, 1..=200))
            .query("kind", Some(input.kind))
            .query("search", input.search.filter(|search| !search.is_empty()))
            .query("limit", input.limit)
            .query("cursor", input.cursor)
    }

    /// Stores a message for a target or in a conversation, and returns it.
    ///
    /// "Stored" is what the answer says: the recipient gets it from there. A target opens a fresh conversation unless
    /// `reuse_direct` is set. A group target stores one private message for each eligible member.
    ///
    /// # Errors
    /// `forbidden` without the right to message, `not_found` for what the caller can't see, `rate_limited` when too much is
    /// undelivered already.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{SendInput, Target};
    ///
    /// let sent = client.send(SendInput::to(Target::agent("builder-7"), "The build is red.").title("Build")).await?;
    /// client.send(SendInput::reply(&sent.conversation_id, "It is the linker again.")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn send(&self, input: SendInput) -> Call<SendResult> {
        Call::new(self, &ops::SEND, &[]).checked(limits::send(&input)).json(&input)
    }

    /// Like [`Client::send`], with a receipt instead of the stored messages.
    ///
    /// A key given to either call protects both: they are one operation to the engine.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, team: beepgrid::GroupId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{SendInput, Target};
    ///
    /// let receipt = client.send_minimal(SendInput::to(Target::group(&team), "Deploying at noon.")).await?;
    /// println!("stored {} messages", receipt.message_count);
    /// # Ok(())
    /// # }
    /// ```
    pub fn send_minimal(&self, input: SendInput) -> Call<SendReceipt> {
        Call::new(self, &ops::SEND_MINIMAL, &[]).checked(limits::send(&input)).json(&input).minimal()
    }

    /// Stores one private message for each of up to 100 targets, all or nothing.
    ///
    /// Duplicates are merged. One refused target refuses the batch; the message says which.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{SendBatchInput, Target};
    ///
    /// let targets = vec![Target::agent("builder-7"), Target::person("ana")];
    /// for item in client.send_batch(SendBatchInput::new(targets, "Release day.")).await? {
    ///     println!("{}: {}", item.target.id, item.result.conversation_id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn send_batch(&self, input: SendBatchInput) -> Call<Vec<SendBatchItem>> {
        Call::new(self, &ops::SEND_BATCH, &[]).checked(limits::send_batch(&input)).json(&input)
    }

    /// Shows whom a send or ask would reach. Sends nothing, and reserves nothing.
    ///
    /// The token goes into the matching call; if audience or routes change before it, the call is refused with `preview_stale`.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, targets: Vec<beepgrid::Target>) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{DispatchPreviewInput, SendBatchInput};
    ///
    /// let preview = client.dispatch_preview(DispatchPreviewInput::new("message", targets.clone())).await?;
    /// println!("{} recipients, {} of them hidden", preview.count, preview.hidden_recipients);
    /// client.send_batch(SendBatchInput::new(targets, "Staging is down until noon.").preview_token(preview.token)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn dispatch_preview(&self, input: DispatchPreviewInput) -> Call<DispatchPreview> {
        Call::new(self, &ops::DISPATCH_PREVIEW, &[]).json(&input)
    }

    /// Reads a conversation: participants and the newest 200 visible messages, oldest first.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, id: beepgrid::ConversationId) -> Result<(), beepgrid::Error> {
    /// let conversation = client.conversation(&id).await?;
    /// for message in conversation.messages {
    ///     println!("{}: {}", message.sender_id, message.body);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn conversation(&self, id: &ConversationId) -> Call<Conversation> {
        Call::new(self, &ops::CONVERSATION, &[id.as_str()])
    }
}
