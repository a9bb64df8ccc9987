//! Events: what happened, as a page, as a stream, or through a handler.

use std::future::Future;

use super::limits;
use crate::call::Call;
use crate::client::Client;
use crate::error::{Cause, Error};
use crate::feed::{ClientSource, EventStream, Feed};
use crate::model::{Event, EventOptions, EventPage};
use crate::ops;

/// Events.
impl Client {
    /// Reads one page of events, from the oldest that is kept or after [`EventOptions::after`].
    ///
    /// A page may be empty and still have `more`: go on with `next_after`. It also moves over what the caller may not see.
    ///
    /// # Errors
    /// `cursor_expired` when events after `after` are no longer kept, `invalid_cursor` when there was no such sequence yet,
    /// `not_found` for a conversation that the caller may not see.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::EventOptions;
    ///
    /// let mut after = 0;
    /// loop {
    ///     let page = client.list_events(EventOptions::new().after(after).limit(500)).await?;
    ///     for event in &page.items {
    ///         println!("{} {}", event.sequence, event.kind);
    ///     }
    ///     after = page.next_after;
    ///     if !page.more {
    ///         break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_events(&self, options: EventOptions) -> Call<EventPage> {
        self.event_call(&ops::LIST_EVENTS, &options).checked(limits::events(&options))
    }

    /// Events as they happen, beginning with those that are kept after [`EventOptions::after`].
    ///
    /// The stream goes on for ever: faults of the transport, 5xx, 429 and the engine's own rotation lead to a new connection from
    /// the last position, and nothing is lost or handed over twice. Store the sequence of what you have applied, and start with it
    /// after a restart: what was handed over and not applied comes again. [`EventOptions::limit`] is a page's and is ignored.
    ///
    /// An event that can't be read is an `Err` item of the kind [`ErrorKind::Decode`](crate::ErrorKind::Decode), and the stream goes
    /// on behind it. Any other `Err` is the last item.
    ///
    /// # Errors
    /// In the stream, each with [`Error::position`]: refusals such as `unauthorized` (the credential ended), `not_found` (no access
    /// to the conversation any more), `cursor_expired` and `invalid_cursor`: read the present state and start anew.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, stored: i64) -> Result<(), beepgrid::Error> {
    /// use beepgrid::EventOptions;
    ///
    /// let mut events = client.events(EventOptions::new().after(stored));
    /// while let Some(event) = events.next().await {
    ///     let event = event?;
    ///     if let Some(message) = event.message() {
    ///         println!("{}: {}", message.sender_id, message.body);
    ///     }
    ///     // Apply it, then store event.sequence.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(&self, options: EventOptions) -> EventStream {
        let after = options.after;
        match ClientSource::new(self, options) {
            Ok(source) => EventStream::new(source, after, self.settings().loops),
            Err(refusal) => EventStream::refused(refusal),
        }
    }

    /// Hands each event to `handler`, one after the other, for as long as it succeeds.
    ///
    /// An event counts as handled when the handler returns `Ok`. An error stops the loop without advancing: [`Error::position`] is
    /// the last event that was handled, and starting with it as [`EventOptions::after`] brings the failed one again. Dropping the
    /// future stops at once, also in the middle of a handler.
    ///
    /// # Errors
    /// [`ErrorKind::Handler`](crate::ErrorKind::Handler) with the handler's error as the source;
    /// [`ErrorKind::Decode`](crate::ErrorKind::Decode) for an event that can't be read ([`Client::events`] goes on behind one); and
    /// the refusals that end [`Client::events`]. It never returns `Ok`.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, stored: i64) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{Event, EventOptions};
    ///
    /// async fn apply(event: Event) -> std::io::Result<()> {
    ///     std::fs::write("position", event.sequence.to_string())
    /// }
    ///
    /// client.handle_events(EventOptions::new().after(stored), apply).await
    /// # }
    /// ```
    pub async fn handle_events<H, F, E>(&self, options: EventOptions, mut handler: H) -> Result<(), Error>
    where
        H: FnMut(Event) -> F,
        F: Future<Output = Result<(), E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut position = options.after;
        let mut feed = Feed::new(ClientSource::new(self, options)?, position, self.settings().loops);
        while let Some(event) = feed.next().await {
            let event = event?;
            let sequence = event.sequence;
            handler(event)
                .await
                .map_err(|error| Error::new("handle_events", None, false, Cause::Handler(error.into())).at_position(position))?;
            position = sequence;
        }
        // The feed ends only behind an error.
        Ok(())
    }
}
