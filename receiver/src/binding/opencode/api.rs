//! The few calls of opencode's HTTP interface that the binding needs, with a deadline and a bound for each.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, RequestBuilder, Response, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use beepgrid::internal::{Frame, FrameFault, frames};

/// The largest ordinary answer.
const MAX_ANSWER: usize = 16 << 20;
/// The largest page of events, and the largest single event in the stream: tools answer at length.
const MAX_EVENTS: usize = 64 << 20;
/// An error answer is a short text; more than this is somebody else's page.
const MAX_ERROR: usize = 64 << 10;
/// Events per page; the server refuses more.
pub(super) const PAGE: u32 = 100;

/// How an input joins a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Delivery {
    /// At the next boundary of the running turn, or as a turn if none runs.
    Steer,
    /// As a turn of its own, after everything before it.
    Queue,
}

impl Delivery {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Steer => Self::Queue,
            Self::Queue => Self::Steer,
        }
    }
}

/// Why a call brought no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No connection stood: nothing was sent.
    Unreachable(String),
    /// Something was sent, and no whole answer came.
    Lost(String),
    /// The server said no.
    Status(u16, String),
    /// The answer can't be read.
    Garbage(String),
    /// The answer is larger than anything useful.
    TooLarge,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(reason) => write!(f, "the opencode server can't be reached: {reason}"),
            Self::Lost(reason) => write!(f, "the opencode server's answer got lost: {reason}"),
            Self::Status(401 | 403, _) => f.write_str("the opencode server refuses the password"),
            Self::Status(404, message) => write!(f, "the opencode server doesn't have it: {message}"),
            Self::Status(status, message) => write!(f, "the opencode server answers {status}: {message}"),
            Self::Garbage(reason) => write!(f, "the opencode server's answer can't be read: {reason}"),
            Self::TooLarge => f.write_str("the opencode server's answer is too large"),
        }
    }
}

#[derive(Deserialize)]
struct Data<T> {
    data: T,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Prompt {
    pub(super) text: String,
}

#[derive(Serialize)]
struct NewPrompt<'a> {
    id: &'a str,
    prompt: &'a Prompt,
    delivery: Delivery,
}

/// A prompt as the server has it for good.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Admitted {
    pub(super) id: String,
    #[serde(rename = "sessionID")]
    pub(super) session: String,
    #[serde(rename = "admittedSeq")]
    pub(super) seq: u64,
    pub(super) prompt: Prompt,
    pub(super) delivery: Delivery,
    /// Set once it is in the model's context.
    #[serde(rename = "promotedSeq")]
    pub(super) promoted: Option<u64>,
}

/// The model of a session, as a provider's name for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Model {
    pub(super) id: String,
    #[serde(rename = "providerID")]
    pub(super) provider: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Location {
    pub(super) directory: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct SessionInfo {
    pub(super) id: String,
    pub(super) model: Option<Model>,
    pub(super) location: Option<Location>,
}

/// What a new session is made of.
#[derive(Debug, Serialize)]
pub(super) struct NewSession<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<Model>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) location: Option<Location>,
}

#[derive(Deserialize)]
struct Page {
    data: Vec<Box<RawValue>>,
    #[serde(rename = "hasMore", default)]
    has_more: bool,
}

/// One durable event of a session, as far as it matters here.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) seq: u64,
    pub(super) data: EventData,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct EventData {
    #[serde(rename = "messageID", default)]
    pub(super) message: String,
    pub(super) prompt: Option<Prompt>,
    pub(super) delivery: Option<Delivery>,
    pub(super) finish: Option<String>,
}

#[derive(Deserialize)]
struct Envelope {
    r#type: String,
    durable: Option<Durable>,
}

#[derive(Deserialize)]
struct Durable {
    seq: u64,
}

#[derive(Deserialize)]
struct WithData {
    data: EventData,
}

/// An event of this stream; `None` for what is none, or not a durable one. A kind that is new here may have any content.
pub(super) fn event(text: &str) -> Option<Event> {
    let envelope: Envelope = serde_json::from_str(text).ok()?;
    let data = serde_json::from_str(text).map(|with: WithData| with.data).unwrap_or_default();
    Some(Event { kind: envelope.r#type, seq: envelope.durable?.seq, data })
}

#[derive(Debug)]
pub(super) struct Api {
    pub(super) http: reqwest::Client,
    pub(super) base: Url,
    pub(super) user: String,
    pub(super) password: Option<SecretString>,
    pub(super) timeout: Duration,
}

impl Api {
    pub(super) async fn create(&self, session: &NewSession<'_>) -> Result<SessionInfo, Failure> {
        self.data(self.request(Method::POST, &["session"], &[]).json(session)).await
    }

    pub(super) async fn session(&self, session: &str) -> Result<SessionInfo, Failure> {
        self.data(self.request(Method::GET, &["session", session], &[])).await
    }

    /// Admits a prompt, or finds the one that was admitted under this id.
    pub(super) async fn prompt(&self, session: &str, id: &str, prompt: &Prompt, delivery: Delivery) -> Result<Admitted, Failure> {
        let body = NewPrompt { id, prompt, delivery };
        self.data(self.request(Method::POST, &["session", session, "prompt"], &[]).json(&body)).await
    }

    /// Whether the session works.
    pub(super) async fn is_active(&self, session: &str) -> Result<bool, Failure> {
        let active: serde_json::Map<String, serde_json::Value> =
            self.data(self.request(Method::GET, &["session", "active"], &[])).await?;
        Ok(active.contains_key(session))
    }

    /// The text of a message that is in the model's context; `None` if it isn't.
    pub(super) async fn message(&self, session: &str, id: &str) -> Result<Option<String>, Failure> {
        #[derive(Deserialize)]
        struct Message {
            text: Option<String>,
        }
        match self.data(self.request(Method::GET, &["session", session, "message", id], &[])).await {
            Ok(Message { text }) => Ok(text),
            Err(Failure::Status(404, _)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The models that a session in this place can use.
    pub(super) async fn models(&self, location: Option<&Location>) -> Result<Vec<Model>, Failure> {
        let query: Vec<_> = location.iter().map(|at| ("location[directory]", at.directory.clone())).collect();
        self.data(self.request(Method::GET, &["model"], &query)).await
    }

    /// The events after `after`, and whether there are more.
    pub(super) async fn history(&self, session: &str, after: u64, limit: u32) -> Result<(Vec<Event>, bool), Failure> {
        let query = [("after", after.to_string()), ("limit", limit.to_string())];
        let request = self.request(Method::GET, &["session", session, "history"], &query);
        let page: Page = self.read(request, MAX_EVENTS).await?;
        Ok((page.data.iter().filter_map(|raw| event(raw.get())).collect(), page.has_more))
    }

    /// The events after `after`, and those to come. The server may answer only with the first of them, so this has no deadline.
    pub(super) async fn follow(&self, session: &str, after: u64) -> Result<Frames, Failure> {
        let request = self.request(Method::GET, &["session", session, "event"], &[("after", after.to_string())]);
        let response = request.header(ACCEPT, "text/event-stream").send().await.map_err(failed)?;
        let response = succeeded(response).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            return Err(Failure::Garbage("it is no event stream".to_owned()));
        }
        let body = response.bytes_stream().map(|bytes| bytes.map_err(failed)).boxed();
        Ok(frames(body, MAX_EVENTS).boxed())
    }

    fn request(&self, method: Method, path: &[&str], query: &[(&str, String)]) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("api").extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.http.request(method, url);
        match &self.password {
            Some(password) => request.basic_auth(&self.user, Some(password.expose_secret())),
            None => request,
        }
    }

    async fn data<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Failure> {
        self.read(request, MAX_ANSWER).await.map(|answer: Data<T>| answer.data)
    }

    async fn read<T: DeserializeOwned>(&self, request: RequestBuilder, limit: usize) -> Result<T, Failure> {
        let answer = async {
            let response = succeeded(request.send().await.map_err(failed)?).await?;
            let body = body(response, limit).await?;
            serde_json::from_slice(&body).map_err(|error| {
                // What stands in it stays out of the message: it may be somebody's text.
                Failure::Garbage(format!("line {} column {}", error.line(), error.column()))
            })
        };
        let late = |_| Failure::Lost(format!("nothing within {:?}", self.timeout));
        tokio::time::timeout(self.timeout, answer).await.map_err(late)?
    }
}

/// The frames of an event stream.
pub(super) type Frames = BoxStream<'static, Result<Frame, FrameFault<Failure>>>;

fn failed(error: reqwest::Error) -> Failure {
    let connect = error.is_connect();
    let reason = crate::status::chain(&error.without_url());
    if connect { Failure::Unreachable(reason) } else { Failure::Lost(reason) }
}

async fn succeeded(response: Response) -> Result<Response, Failure> {
    #[derive(Deserialize)]
    struct Refusal {
        message: String,
    }
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let message = match body(response, MAX_ERROR).await {
        Ok(body) => serde_json::from_slice(&body).map(|refusal: Refusal| refusal.message).unwrap_or_default(),
        Err(_) => String::new(),
    };
    let message = message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    Err(Failure::Status(status.as_u16(), message))
}

async fn body(mut response: Response, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > limit {
            return Err(Failure::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_as_far_as_it_is_known() {
        let known = event(
            r#"{"type":"session.next.prompted","durable":{"seq":7,"version":1},"data":{"messageID":"msg_1","prompt":{"text":"x"},
            "delivery":"queue"}}"#,
        );
        let known = known.unwrap();
        assert_eq!((known.seq, known.data.message.as_str(), known.data.delivery), (7, "msg_1", Some(Delivery::Queue)));
        let odd = event(r#"{"type":"session.next.other","durable":{"seq":8},"data":{"messageID":3,"delivery":"new"}}"#).unwrap();
        assert_eq!((odd.seq, odd.data.message.as_str()), (8, ""));
        for none in ["", "[]", r#"{"type":"server.heartbeat","data":{}}"#, r#"{"durable":{"seq":1}}"#] {
            assert!(event(none).is_none(), "{none}");
        }
    }
}
