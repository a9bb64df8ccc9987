//! Pages of collections, limits, providers, the fleet.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{DirectoryInput, limits};
use crate::call::Call;
use crate::client::Client;
use crate::model::{Account, FleetStatus, Person, Provider, QueryInput, QueryPage};
use crate::ops;
use crate::page::PageStream;

/// Queries and status.
impl Client {
    /// Reads one page of a collection, under present access.
    ///
    /// Go on with `next_cursor` while there is one, also when `items` is empty, and change nothing else meanwhile; or let
    /// [`Client::query_stream`] do that.
    ///
    /// # Errors
    /// `invalid_request` for a collection, filter or value that there is not; `invalid_cursor` when anything but the cursor was
    /// changed, `cursor_expired` after 24 hours; `not_found` for a conversation, group or role in a filter that is not visible.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::QueryInput;
    ///
    /// let page = client.query(QueryInput::new("requests").filter("state", "open").limit(10)).await?;
    /// println!("{} open, ordered by {}; more: {}", page.items.len(), page.order, page.next_cursor.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn query(&self, input: QueryInput) -> Call<QueryPage<Value>> {
        self.query_as(input)
    }

    /// Like [`Client::query`], with records of a type: that of the collection, or one of your own with the members that you need.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{Agent, QueryInput};
    ///
    /// let connected = client.query_as::<Agent>(QueryInput::new("agents").filter("presence", "connected")).await?;
    /// for agent in connected.items {
    ///     println!("{} is there", agent.name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn query_as<T: DeserializeOwned>(&self, input: QueryInput) -> Call<QueryPage<T>> {
        Call::new(self, &ops::QUERY, &[]).checked(limits::query(&input)).json(&input)
    }

    /// All records of a collection from the input's cursor on, page after page with the same search, filters and limit.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, id: beepgrid::ConversationId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{Message, QueryInput};
    ///
    /// let mut history = client.query_stream::<Message>(QueryInput::new("messages").filter("conversation_id", &id).limit(200));
    /// while let Some(message) = history.next().await {
    ///     println!("{}", message?.body);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn query_stream<T: DeserializeOwned + Send + 'static>(&self, mut input: QueryInput) -> PageStream<T> {
        let client = self.clone();
        let cursor = input.cursor.take();
        PageStream::new(ops::QUERY.name, cursor, move |cursor| {
            client.query_as(QueryInput { cursor: cursor.map(str::to_owned), ..input.clone() })
        })
    }

    /// All people, agents or services that the caller may view, page after page.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{DirectoryInput, PrincipalKind};
    ///
    /// let agents = client.directory_stream(DirectoryInput::new(PrincipalKind::Agent)).all().await?;
    /// println!("{} agents", agents.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn directory_stream(&self, mut input: DirectoryInput) -> PageStream<Person> {
        let client = self.clone();
        let cursor = input.cursor.take();
        PageStream::new(ops::DIRECTORY.name, cursor, move |cursor| {
            client.directory(DirectoryInput { cursor: cursor.map(str::to_owned), ..input.clone() })
        })
    }

    /// Says what the engine is limited to.
    ///
    /// # Errors
    /// `forbidden` for whoever is neither an operator nor a person with the right to view the account.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// let account = client.account().await?;
    /// println!("a message may have {:?} bytes", account.limits.get("body_bytes"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn account(&self) -> Call<Account> {
        Call::new(self, &ops::ACCOUNT, &[])
    }

    /// Lists the providers that the engine supports, with the fields and ways of setting one up.
    ///
    /// An entry is supported, which does not say that it is configured.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// for provider in client.provider_catalog().await? {
    ///     println!("{} takes {} values", provider.name, provider.fields.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn provider_catalog(&self) -> Call<Vec<Provider>> {
        Call::new(self, &ops::PROVIDER_CATALOG, &[])
    }

    /// Shows the agents that the caller may view, their runtime connections, who waits for whom, and rings in that.
    ///
    /// A dependency is an open request that its agent declared blocking, nothing that was guessed.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// let status = client.fleet_status().await?;
    /// for cycle in &status.cycles {
    ///     println!("{} agents wait for each other in a ring", cycle.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn fleet_status(&self) -> Call<FleetStatus> {
        Call::new(self, &ops::FLEET_STATUS, &[])
    }
}
