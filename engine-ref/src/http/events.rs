//! Events over HTTP: a bounded page as JSON, or a stream.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use beepgrid::{ConversationId, EventPage, Permission};
use serde::Deserialize;

use super::extract::{Params, number};
use super::sse;
use crate::core::Core;
use crate::service::actor::{Caller, Need};
use crate::service::event_stream::{self, Bounds, Want};
use crate::service::limits::{DEFAULT_EVENTS, MAX_EVENTS};
use crate::service::{Refusal, checks};

/// A page of the longest bodies still is an answer of a sane size.
const PAGE_BYTES: usize = 16 * 1024 * 1024;
const LAST_EVENT_ID: &str = "last-event-id";

/// The routes of this family, below the base path.
pub(super) fn routes() -> Router<Core> {
    Router::new().route("/events", get(events))
}

#[derive(Debug, Deserialize)]
struct Query {
    #[serde(default, deserialize_with = "number")]
    after: Option<i64>,
    #[serde(default, deserialize_with = "number")]
    limit: Option<i64>,
    conversation_id: Option<ConversationId>,
    summary: Option<String>,
    stream: Option<String>,
}

async fn events(
    caller: Caller,
    State(core): State<Core>,
    headers: HeaderMap,
    Params(query): Params<Query>,
) -> Result<Response, Refusal> {
    let after = query.after.unwrap_or(0);
    checks::range("after", after, 0, i64::MAX)?;
    if let Some(id) = &query.conversation_id {
        checks::id("conversation_id", id.as_str())?;
    }
    let want =
        Want { conversation_id: query.conversation_id, summary: flag("summary", query.summary.as_deref())?.unwrap_or(false) };
    if flag("stream", query.stream.as_deref())?.unwrap_or_else(|| accepts_stream(&headers)) {
        if query.limit.is_some() {
            return Err(Refusal::invalid("limit", "a page's; a stream has none"));
        }
        let last = last_event_id(&headers)?.unwrap_or(0);
        return sse::stream(core, caller, want, after.max(last)).await;
    }
    let limit = query.limit.unwrap_or(DEFAULT_EVENTS);
    checks::range("limit", limit, 1, MAX_EVENTS)?;
    let bounds = Bounds { items: usize::try_from(limit).unwrap_or(1), bytes: PAGE_BYTES };
    let page = core.read(&caller, Need::Ceiling(Permission::Read), move |tx, actor| {
        event_stream::must_see(tx, actor, &want)?;
        let position = event_stream::start(tx, after)?;
        event_stream::page(tx, actor, &want, position, bounds)
    });
    let page = page.await?;
    Ok(Json(EventPage { items: page.items, next_after: page.position, more: page.more }).into_response())
}

fn flag(name: &str, text: Option<&str>) -> Result<Option<bool>, Refusal> {
    match text {
        None => Ok(None),
        Some("true" | "1") => Ok(Some(true)),
        Some("false" | "0") => Ok(Some(false)),
        Some(_) => Err(Refusal::invalid(name, "true, false, 1 or 0")),
    }
}

/// Whether the caller names the stream's media type as one that it takes.
fn accepts_stream(headers: &HeaderMap) -> bool {
    let ranges = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    ranges.into_iter().any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let named = parts.next().is_some_and(|media| media.eq_ignore_ascii_case("text/event-stream"));
        named && !parts.any(|part| matches!(part.replace(' ', "").as_str(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

/// The position of a client that only knows the ids of a stream. An empty one is none.
fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>, Refusal> {
    let wrong = || Refusal::invalid("Last-Event-ID", "the sequence of an event");
    let mut values = headers.get_all(LAST_EVENT_ID).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().map_err(|_| wrong())?.trim();
    if values.next().is_some() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| wrong()) }
}
