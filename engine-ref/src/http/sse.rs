//! The event stream: events as they commit, cursor frames, comments, rotation.
//!
//! A [`Feed`] registers for what concerns its reader before it first reads, so nothing falls between the replay and the live part:
//! both are the same loop of looking until there is nothing more and waiting for a signal. A stream is a task that reads only when
//! its reader has taken what came before: at most one look's worth is in memory, however slow the reader is. Signals may be lost
//! between processes; every comment comes with a look.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use beepgrid::{Event, Permission, Timestamp};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::core::Core;
use crate::service::Refusal;
use crate::service::actor::{Actor, Caller, Need};
use crate::service::event_stream::{self, Bounds, Page, Want};
use crate::service::limits::{MAX_STREAMS, STREAM_LIFE};
use crate::signals::Subscription;
use crate::store::{ReadTx, credentials};

/// Between two comments, and between two cursor frames.
const COMMENT_EVERY: Duration = Duration::from_secs(10);
/// Looks of one stream are at least so far apart: under load it takes several events at a time, and an event that comes alone is
/// shown at once.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// One look of a stream.
const LOOK: Bounds = Bounds { items: 64, bytes: 1024 * 1024 };

/// A stream of what the caller may see after `after`.
///
/// # Errors
/// Whatever stands against it is answered before the stream begins.
pub(super) async fn stream(core: Core, caller: Caller, want: Want, after: i64) -> Result<Response, Refusal> {
    let mut feed = Feed::open(core.clone(), caller.clone(), want, after).await?;
    let hold = core.hold(format!("event streams of {}", caller.principal_id), MAX_STREAMS)?;
    let (frames, mut taken) = mpsc::channel::<Bytes>(1);
    tokio::spawn(async move {
        run(&mut feed, &frames).await;
        drop(hold);
    });
    let body = stream::poll_fn(move |cx| taken.poll_recv(cx).map(|frame| frame.map(Ok::<_, Infallible>)));
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A proxy that collects an answer before it hands it on would hold back every event.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Sends until the reader goes, time is up, access ends or the engine stops.
async fn run(feed: &mut Feed, frames: &mpsc::Sender<Bytes>) {
    let mut out = b":\n\n".to_vec();
    loop {
        feed.write(&mut out);
        if !out.is_empty() && !feed.send(frames, std::mem::take(&mut out).into()).await {
            return;
        }
        if feed.over {
            return;
        }
        let looked = Instant::now();
        if !feed.more && !feed.wait(frames).await {
            return;
        }
        if !feed.more {
            tokio::time::sleep_until(looked + BETWEEN_LOOKS).await;
        }
        if let Err(refusal) = feed.look().await {
            match refusal {
                Refusal::Internal { reason } | Refusal::Unavailable { reason } => tracing::warn!(reason, "an event stream ends"),
                other => tracing::debug!(reason = ?other, "an event stream ends"),
            }
            return;
        }
    }
}

/// A reader's place in the events.
struct Feed {
    core: Core,
    caller: Caller,
    want: Want,
    concerning: Subscription,
    access: Subscription,
    /// For operators, whom everything concerns.
    all: watch::Receiver<i64>,
    operator: bool,
    /// When the presented token stops working by itself; `None` while that has to be asked.
    token_until: Option<Timestamp>,
    /// Up to here everything was looked at.
    position: i64,
    /// The last sequence that the reader was told.
    told: i64,
    /// Looked at and not yet written.
    items: Vec<Event>,
    more: bool,
    /// Whether the next thing written is the last.
    over: bool,
    comment_at: Timestamp,
    rotate_at: Timestamp,
}

struct Look {
    page: Page,
    operator: bool,
    token_until: Option<Timestamp>,
}

impl Feed {
    /// Registers, then looks for the first time.
    async fn open(core: Core, caller: Caller, want: Want, after: i64) -> Result<Self, Refusal> {
        let concerning = core.signals().events_for(&caller.principal_id);
        let access = core.signals().access(&caller.principal_id);
        let all = core.signals().events();
        let now = core.clock().now();
        let wanted = want.clone();
        let first = core.read(&caller, Need::Ceiling(Permission::Read), move |tx, actor| {
            event_stream::must_see(tx, actor, &wanted)?;
            let position = event_stream::start(tx, after)?;
            look(tx, actor, &wanted, position, None)
        });
        let Look { page, operator, token_until } = first.await?;
        Ok(Self {
            core,
            caller,
            want,
            concerning,
            access,
            all,
            operator,
            token_until,
            position: page.position,
            told: after,
            items: page.items,
            more: page.more,
            over: page.ended,
            comment_at: now.plus(COMMENT_EVERY),
            rotate_at: now.plus(STREAM_LIFE),
        })
    }

    /// Reads on from the position, as the caller may at this moment.
    async fn look(&mut self) -> Result<(), Refusal> {
        let (want, position, known) = (self.want.clone(), self.position, self.token_until);
        let look = move |tx: &ReadTx<'_>, actor: &Actor| look(tx, actor, &want, position, known);
        let Look { page, operator, token_until } = self.core.read(&self.caller, Need::Ceiling(Permission::Read), look).await?;
        (self.operator, self.token_until) = (operator, token_until);
        (self.items, self.position, self.more, self.over) = (page.items, page.position, page.more, page.ended);
        Ok(())
    }

    /// Turns what was looked at into frames, with the comment and the cursor when they are due.
    fn write(&mut self, out: &mut Vec<u8>) {
        for event in std::mem::take(&mut self.items) {
            self.told = event.sequence;
            // An event is plain data; what could not be written would be missing from the answers of reads, too.
            let data = serde_json::to_string(&event).unwrap_or_default();
            out.extend_from_slice(format!("id: {}\ndata: {data}\n\n", event.sequence).as_bytes());
        }
        let now = self.core.clock().now();
        let rotates = now >= self.rotate_at;
        if now >= self.comment_at || rotates {
            self.comment_at = now.plus(COMMENT_EVERY);
            out.extend_from_slice(b": the stream is alive\n\n");
            if self.position > self.told && !self.over {
                self.told = self.position;
                let position = self.position;
                let frame = format!("id: {position}\nevent: cursor\ndata: {{\"sequence\": {position}}}\n\n");
                out.extend_from_slice(frame.as_bytes());
            }
        }
        self.over |= rotates;
    }

    /// Hands a chunk over once the reader has taken the one before; false when the stream has to end instead.
    async fn send(&mut self, frames: &mpsc::Sender<Bytes>, chunk: Bytes) -> bool {
        loop {
            tokio::select! {
                // First of all: what is due at the end of the stream is sent behind that end.
                biased;
                place = frames.reserve() => {
                    let Ok(place) = place else { return false };
                    place.send(chunk);
                    return true;
                }
                () = self.access.next() => {}
                () = sleep_until(&self.core, self.token_until) => {}
                () = self.core.clock().sleep_until(self.rotate_at) => return false,
                () = self.core.stopping().cancelled() => return false,
            }
            if !self.may_go_on().await {
                return false;
            }
        }
    }

    /// Whether the token still works and the conversation is still the reader's; asked while the reader takes nothing.
    async fn may_go_on(&mut self) -> bool {
        let want = self.want.clone();
        let asked = self.core.read(&self.caller, Need::Ceiling(Permission::Read), move |tx, actor| {
            event_stream::must_see(tx, actor, &want)?;
            token_until(tx, actor)
        });
        match asked.await {
            Ok(until) => {
                self.token_until = Some(until);
                true
            }
            Err(_) => false,
        }
    }

    /// Returns true when it is time for another look, false when nobody is there to look for.
    async fn wait(&mut self, frames: &mpsc::Sender<Bytes>) -> bool {
        let next = self.comment_at.min(self.rotate_at);
        tokio::select! {
            () = self.concerning.next(), if !self.operator => {}
            changed = self.all.changed(), if self.operator => return changed.is_ok(),
            () = self.access.next() => self.token_until = None,
            () = sleep_until(&self.core, self.token_until) => self.token_until = None,
            () = self.core.clock().sleep_until(next) => self.token_until = None,
            () = frames.closed() => return false,
            () = self.core.stopping().cancelled() => return false,
        }
        true
    }
}

fn look(tx: &ReadTx<'_>, actor: &Actor, want: &Want, position: i64, known: Option<Timestamp>) -> Result<Look, Refusal> {
    let page = event_stream::page(tx, actor, want, position, LOOK)?;
    let token_until = match known {
        Some(until) => until,
        None => token_until(tx, actor)?,
    };
    Ok(Look { page, operator: actor.operator, token_until: Some(token_until) })
}

/// When the token may stop working without anybody doing anything: its end, or that of the token before a rotation.
fn token_until(tx: &ReadTx<'_>, actor: &Actor) -> Result<Timestamp, Refusal> {
    let row = credentials::by_id(tx, actor.credential.id.as_str())?;
    let overlap = row.and_then(|row| row.previous_until);
    let ends = [actor.credential.expires_at, overlap].into_iter().flatten().filter(|end| *end > tx.now());
    Ok(ends.min().unwrap_or(Timestamp::NEVER))
}

async fn sleep_until(core: &Core, time: Option<Timestamp>) {
    match time {
        Some(time) => core.clock().sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
