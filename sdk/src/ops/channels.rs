//! Channels as data: connections, destinations, account links, delivery preferences, routes.

use crate::model::{
    AccountLink, AccountLinkId, AccountLinkInput, Connection, ConnectionDiagnostics, ConnectionEdit, ConnectionId,
    ConnectionInput, ConnectionSetup, ConnectionTestInput, DeliveryPreferences, DeliveryRecord, Destination, DestinationEdit,
    DestinationId, DestinationInput, PrincipalId, RoutePreview, RoutePreviewInput,
};
use crate::{Call, Client, ops};

/// Channels.
impl Client {
    /// Makes a channel connection. Its secret is sealed in the engine and never returned.
    ///
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::ConnectionInput;
    ///
    /// let slack = owner.create_connection(ConnectionInput::new("slack", "Team Slack").secret("xoxb-example-token")).await?;
    /// println!("{} has a secret: {}", slack.id, slack.has_secret);
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_connection(&self, input: ConnectionInput) -> Call<Connection> {
        Call::new(self, &ops::CREATE_CONNECTION, &[]).json(&input)
    }

    /// Edits a connection, at the version last read.
    ///
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, slack: beepgrid::Connection) -> Result<(), beepgrid::Error> {
    /// use beepgrid::ConnectionEdit;
    ///
    /// owner.edit_connection(&slack.id, ConnectionEdit::new(slack.version).enabled(true)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn edit_connection(&self, id: &ConnectionId, input: ConnectionEdit) -> Call<Connection> {
        Call::new(self, &ops::EDIT_CONNECTION, &[id.as_str()]).json(&input)
    }

    /// Deletes a connection with its destinations and links; the history stays.
    ///
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, id: beepgrid::ConnectionId) -> Result<(), beepgrid::Error> {
    /// owner.delete_connection(&id).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_connection(&self, id: &ConnectionId) -> Call<()> {
        Call::confirmed(self, &ops::DELETE_CONNECTION, &[id.as_str()])
    }

    /// Says how to set the provider up for a connection; nothing secret.
    ///
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, id: beepgrid::ConnectionId) -> Result<(), beepgrid::Error> {
    /// for step in owner.connection_setup(&id).await?.steps {
    ///     println!("{step}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn connection_setup(&self, id: &ConnectionId) -> Call<ConnectionSetup> {
        Call::new(self, &ops::CONNECTION_SETUP, &[id.as_str()])
    }

    /// Checks a connection without sending anything.
    ///
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, id: beepgrid::ConnectionId) -> Result<(), beepgrid::Error> {
    /// for check in owner.connection_diagnostics(&id).await?.checks {
    ///     println!("{}: {}", check.name, check.detail);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn connection_diagnostics(&self, id: &ConnectionId) -> Call<ConnectionDiagnostics> {
        Call::new(self, &ops::CONNECTION_DIAGNOSTICS, &[id.as_str()])
    }

    /// Sends a test message over a connection to one of its destinations, once per key.
    ///
    /// The test is stored as a delivery that is `queued`, which says that the engine accepted it, not that anything went out: it is
    /// sent when this engine's channels send. What became of it stands in the query collections `deliveries` and
    /// `delivery_attempts`.
    ///
    /// # Errors
    /// `not_found` for a connection that the caller does not manage, or a destination of another one; `forbidden` while the
    /// connection is switched off or the person disabled.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, at: beepgrid::Destination) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{ConnectionTestInput, DeliveryAttempt, QueryInput};
    ///
    /// let test = owner.test_connection(&at.connection_id, ConnectionTestInput::new(&at.id)).await?;
    /// let attempts = QueryInput::new("delivery_attempts").filter("delivery_id", &test.id);
    /// for attempt in owner.query_as::<DeliveryAttempt>(attempts).await?.items {
    ///     println!("{}: {}", attempt.number, attempt.state);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn test_connection(&self, id: &ConnectionId, input: ConnectionTestInput) -> Call<DeliveryRecord> {
        Call::new(self, &ops::TEST_CONNECTION, &[id.as_str()]).json(&input)
    }

    /// Makes a destination: where a person's messages go over a connection.
    ///
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, slack: beepgrid::ConnectionId, ana: beepgrid::PrincipalId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::DestinationInput;
    ///
    /// owner.create_destination(DestinationInput::new(&slack, &ana, "D0123456")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_destination(&self, input: DestinationInput) -> Call<Destination> {
        Call::new(self, &ops::CREATE_DESTINATION, &[]).json(&input)
    }

    /// Edits a destination, at the version last read.
    ///
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, at: beepgrid::Destination) -> Result<(), beepgrid::Error> {
    /// use beepgrid::DestinationEdit;
    ///
    /// owner.edit_destination(&at.id, DestinationEdit::new(at.version).priority(2)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn edit_destination(&self, id: &DestinationId, input: DestinationEdit) -> Call<Destination> {
        Call::new(self, &ops::EDIT_DESTINATION, &[id.as_str()]).json(&input)
    }

    /// Deletes a destination.
    ///
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, id: beepgrid::DestinationId) -> Result<(), beepgrid::Error> {
    /// owner.delete_destination(&id).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_destination(&self, id: &DestinationId) -> Call<()> {
        Call::confirmed(self, &ops::DELETE_DESTINATION, &[id.as_str()])
    }

    /// Links a provider's account to a person, who may then answer from there.
    ///
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, slack: beepgrid::ConnectionId, ana: beepgrid::PrincipalId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::AccountLinkInput;
    ///
    /// owner.create_account_link(AccountLinkInput::new(&slack, &ana, "U0123456")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_account_link(&self, input: AccountLinkInput) -> Call<AccountLink> {
        Call::new(self, &ops::CREATE_ACCOUNT_LINK, &[]).json(&input)
    }

    /// Unlinks an account.
    ///
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, id: beepgrid::AccountLinkId) -> Result<(), beepgrid::Error> {
    /// owner.delete_account_link(&id).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_account_link(&self, id: &AccountLinkId) -> Call<()> {
        Call::confirmed(self, &ops::DELETE_ACCOUNT_LINK, &[id.as_str()])
    }

    /// Shows where something would go outside. Sends nothing.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, ana: beepgrid::PrincipalId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{RoutePreviewInput, Target};
    ///
    /// let preview = client.preview_route(RoutePreviewInput::new(Target::person(&ana), "message")).await?;
    /// println!("{} routes besides the workspace", preview.routes.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn preview_route(&self, input: RoutePreviewInput) -> Call<RoutePreview> {
        Call::new(self, &ops::PREVIEW_ROUTE, &[]).json(&input)
    }

    /// Reads how a person's messages are delivered outside; version 0 when never saved.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, ana: beepgrid::PrincipalId) -> Result<(), beepgrid::Error> {
    /// println!("version {}", client.delivery_preferences(&ana).await?.version);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delivery_preferences(&self, id: &PrincipalId) -> Call<DeliveryPreferences> {
        Call::new(self, &ops::DELIVERY_PREFERENCES, &[id.as_str()])
    }

    /// Replaces a person's delivery preferences, at the version last read.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, ana: beepgrid::PrincipalId) -> Result<(), beepgrid::Error> {
    /// let mut preferences = client.delivery_preferences(&ana).await?;
    /// preferences.default = None;
    /// client.save_delivery_preferences(&ana, preferences).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn save_delivery_preferences(&self, id: &PrincipalId, input: DeliveryPreferences) -> Call<DeliveryPreferences> {
        Call::new(self, &ops::SAVE_DELIVERY_PREFERENCES, &[id.as_str()]).json(&input)
    }
}
