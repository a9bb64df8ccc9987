//! An event stream that goes on for ever: connects, reads, and connects again from the last position.
//!
//! The position moves when an event or a cursor frame was read whole, and never backwards; what is cut off moves nothing. A connection
//! without a byte for half a minute is taken for dead. Delays between connections grow until an event or a cursor came.

mod source;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};

pub(crate) use self::source::{ClientSource, Source};
use crate::error::{Cause, Chain, DecodeFault, Error};
use crate::model::Event;
use crate::ops;
use crate::retry::{Delays, Pace};
use crate::sse::{self, Frame, FrameFault};

/// Three times the engine's ten seconds between two comments: after this a silent stream is dead.
const SILENCE: Duration = Duration::from_secs(30);
/// A connection that stood this long and ended cleanly was rotated, also when nothing was to be seen on it.
const STOOD: Duration = SILENCE;
/// The largest frame. An event with everything in it is far smaller.
const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;

type Frames = BoxStream<'static, Result<Frame, FrameFault<Error>>>;

/// Events as they happen; made by [`Client::events`](crate::Client::events).
///
/// A `Stream`, with [`next`](Self::next) for those who need no more. An `Err` item that can be read past (one event that is no valid
/// JSON, say) is followed by the next event; a refusal of the engine is the last item. Dropping it closes the connection.
#[must_use = "nothing is read until it is polled"]
pub struct EventStream {
    events: BoxStream<'static, Result<Event, Error>>,
    position: Arc<AtomicI64>,
}

impl EventStream {
    pub(crate) fn new(source: impl Source, after: i64, delays: Delays) -> Self {
        let feed = Feed::new(source, after, delays);
        let position = Arc::clone(&feed.shown);
        let events = stream::unfold(feed, |mut feed| async move {
            let item = feed.next().await?;
            Some((item, feed))
        });
        Self { events: events.boxed(), position }
    }

    /// A stream that has nothing but this error.
    pub(crate) fn refused(error: Error) -> Self {
        Self { events: stream::once(async { Err(error) }).boxed(), position: Arc::default() }
    }

    /// The next event, as soon as there is one. `None` after the last error. Safe to drop: nothing is lost.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        self.events.next().await
    }

    /// The position up to which everything was handed over. It also moves when something happens that is not to be seen, so it is
    /// a good `after` for later, once what was handed over is applied.
    pub fn position(&self) -> i64 {
        self.position.load(Ordering::Relaxed)
    }
}

impl Stream for EventStream {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_next_unpin(cx)
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("position", &self.position()).finish_non_exhaustive()
    }
}

/// The loop behind it.
pub(crate) struct Feed<S> {
    source: S,
    /// What the next connection asks for.
    position: i64,
    shown: Arc<AtomicI64>,
    pace: Pace,
    connection: Option<Connection>,
    over: bool,
}

struct Connection {
    frames: Frames,
    since: Instant,
    /// Whether the position moved.
    moved: bool,
}

/// What one frame means.
enum Meaning {
    Event(Box<Event>),
    /// Nothing to show.
    Nothing,
    Unreadable(Error),
}

#[derive(Deserialize)]
struct Sequence {
    sequence: i64,
}

impl<S: Source> Feed<S> {
    pub(crate) fn new(source: S, after: i64, delays: Delays) -> Self {
        let shown = Arc::new(AtomicI64::new(after));
        Self { source, position: after, shown, pace: Pace::new(delays), connection: None, over: false }
    }

    /// The next event. After a refusal there is none; other errors are followed by what comes after them.
    pub(crate) async fn next(&mut self) -> Option<Result<Event, Error>> {
        while !self.over {
            let Some(connection) = &mut self.connection else {
                if let Err(error) = self.connect().await {
                    self.over = true;
                    return Some(Err(error.at_position(self.position)));
                }
                continue;
            };
            match connection.frames.next().await {
                Some(Ok(frame)) => match self.read(&frame) {
                    Meaning::Event(event) => return Some(Ok(*event)),
                    Meaning::Unreadable(error) => return Some(Err(error)),
                    Meaning::Nothing => {}
                },
                Some(Err(FrameFault::NotUtf8 { id })) => return Some(Err(self.unreadable(DecodeFault::NotUtf8, id))),
                Some(Err(FrameFault::TooLarge)) => {
                    self.over = true;
                    let fault = DecodeFault::TooLarge { limit: MAX_FRAME_BYTES as u64 };
                    return Some(Err(self.unreadable(fault, None)));
                }
                Some(Err(FrameFault::Body(error))) => self.lost(&error).await,
                None => self.ended().await,
            }
        }
        None
    }

    /// Connects from the position, however long that takes.
    async fn connect(&mut self) -> Result<(), Error> {
        loop {
            let error = match self.source.open(self.position).await {
                Ok(body) => {
                    let frames = sse::frames(watched(body), MAX_FRAME_BYTES).boxed();
                    self.connection = Some(Connection { frames, since: Instant::now(), moved: false });
                    return Ok(());
                }
                Err(error) => error,
            };
            // What is no event stream may be a page of something in between, which passes.
            if !error.is_transient() && error.kind() != crate::ErrorKind::Decode {
                return Err(error);
            }
            let delay = self.pace.next(error.retry_after());
            tracing::debug!(op = ops::EVENTS.name, after = self.position, ?delay, "connecting again after: {}", Chain(&error));
            sleep(delay).await;
        }
    }

    async fn lost(&mut self, error: &Error) {
        self.connection = None;
        let delay = self.pace.next(None);
        tracing::debug!(op = ops::EVENTS.name, after = self.position, ?delay, "resuming after: {}", Chain(error));
        sleep(delay).await;
    }

    /// A clean end is a rotation, unless the connection brought nothing and was short: then somebody accepts and closes.
    async fn ended(&mut self) {
        let rotated = self.connection.take().is_some_and(|ended| ended.moved || ended.since.elapsed() >= STOOD);
        if !rotated {
            sleep(self.pace.next(None)).await;
        }
    }

    fn read(&mut self, frame: &Frame) -> Meaning {
        match frame.event.as_str() {
            "cursor" => match serde_json::from_str::<Sequence>(&frame.data) {
                Ok(cursor) => {
                    self.advance(cursor.sequence);
                    Meaning::Nothing
                }
                Err(error) => Meaning::Unreadable(self.unreadable(DecodeFault::Json(error), None)),
            },
            "message" => match serde_json::from_str::<Event>(&frame.data) {
                Ok(event) if self.advance(event.sequence) => Meaning::Event(Box::new(event)),
                Ok(event) => {
                    tracing::debug!(sequence = event.sequence, position = self.position, "an event that was handed over already");
                    Meaning::Nothing
                }
                Err(error) => {
                    let id = serde_json::from_str::<Sequence>(&frame.data).ok().map(|event| event.sequence);
                    Meaning::Unreadable(self.unreadable(DecodeFault::Json(error), id))
                }
            },
            // Of a newer engine.
            _ => Meaning::Nothing,
        }
    }

    /// Moves the position; false if it was there already.
    fn advance(&mut self, sequence: i64) -> bool {
        if sequence <= self.position {
            return false;
        }
        self.position = sequence;
        self.shown.store(sequence, Ordering::Relaxed);
        self.pace.progress();
        if let Some(connection) = &mut self.connection {
            connection.moved = true;
        }
        true
    }

    /// The error for something that can't be read, with the position before it. It is handed over like an event: what comes next
    /// is read from behind it, or it would come again for ever.
    fn unreadable(&mut self, fault: DecodeFault, sequence: Option<i64>) -> Error {
        let error = Error::new(ops::EVENTS.name, None, false, Cause::Decode(fault)).at_position(self.position);
        if let Some(sequence) = sequence {
            self.advance(sequence);
        }
        error
    }
}

/// The body, ending with an error when nothing comes, not even a comment.
fn watched(body: BoxStream<'static, Result<Bytes, Error>>) -> BoxStream<'static, Result<Bytes, Error>> {
    stream::unfold(Some(body), |body| async {
        let mut body = body?;
        match timeout(SILENCE, body.next()).await {
            Ok(Some(bytes)) => Some((bytes, Some(body))),
            Ok(None) => None,
            Err(_) => Some((Err(Error::new(ops::EVENTS.name, None, false, Cause::Deadline(SILENCE))), None)),
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests;
