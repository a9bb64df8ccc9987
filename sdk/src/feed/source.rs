//! Where the bytes of an event stream come from; a trait, so that every way to be cut off can be played on a virtual clock.

use std::future::Future;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;

use crate::call::Call;
use crate::client::Client;
use crate::error::{Cause, Error, InvalidInput};
use crate::model::{EventOptions, EventPage};
use crate::{ops, transport};

pub(crate) trait Source: Send + 'static {
    /// A connection that sends what comes after `after`.
    fn open(&self, after: i64) -> impl Future<Output = Result<BoxStream<'static, Result<Bytes, Error>>, Error>> + Send;
}

/// The engine.
pub(crate) struct ClientSource {
    client: Client,
    options: EventOptions,
}

impl ClientSource {
    pub(crate) fn new(client: &Client, options: EventOptions) -> Result<Self, Error> {
        if options.after < 0 {
            let refusal = InvalidInput::new("after", format!("is {}, and must be a sequence, or 0", options.after));
            return Err(Error::new(ops::EVENTS.name, None, false, Cause::Input(refusal)));
        }
        Ok(Self { client: client.clone(), options })
    }
}

impl Source for ClientSource {
    async fn open(&self, after: i64) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error> {
        let options = EventOptions { after, limit: None, ..self.options.clone() };
        let (client, out, _) = self.client.event_call(&ops::EVENTS, &options).query("stream", Some(1)).plan()?;
        let response = transport::open(&client, &out, "text/event-stream").await?;
        let cut_off = |error: reqwest::Error| Error::new(ops::EVENTS.name, None, false, Cause::CutOff(error.without_url()));
        Ok(response.bytes_stream().map(move |bytes| bytes.map_err(cut_off)).boxed())
    }
}

impl Client {
    /// A read of events with these options, as a page or as a stream.
    pub(crate) fn event_call(&self, operation: &'static ops::Operation, options: &EventOptions) -> Call<EventPage> {
        Call::new(self, operation, &[])
            .query("after", (options.after != 0).then_some(options.after))
            .query("limit", options.limit)
            .query("conversation_id", options.conversation_id.as_ref())
            .query("summary", options.summary.then_some(true))
    }
}
