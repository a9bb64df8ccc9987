//! A call as a value: what will be sent, decided before anything is sent.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::error::{Cause, Error, InvalidInput};
use crate::form;
use crate::key::Key;
use crate::ops::{Method, Operation, Replay};
use crate::transport;

/// The longest text that a path takes for an id: an external id of 200 code points fits.
const MAX_PATH_ID_BYTES: usize = 800;

/// One operation with its input, sent when it is awaited.
///
/// ```no_run
/// # async fn example(client: beepgrid::Client, input: beepgrid::SendInput) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use beepgrid::Key;
///
/// let key: Key = "order-17/notice".parse()?;
/// let sent = client.send(input).key(key).timeout(Duration::from_secs(5)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call is sent only when it is awaited"]
pub struct Call<T> {
    client: Client,
    request: Result<Outgoing, InvalidInput>,
    decode: Decode<T>,
    operation: &'static Operation,
    key: Option<Key>,
}

/// Reads a successful answer.
pub(crate) type Decode<T> = fn(&[u8]) -> serde_json::Result<T>;

/// What goes over the wire, in every attempt the same.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) operation: &'static Operation,
    pub(crate) method: Method,
    /// Absolute, encoded, without the base.
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Bytes>,
    /// What the body is, when it is no JSON.
    pub(crate) content_type: Option<String>,
    /// Whether the answer is a file: bounded as one, and checked against the digest that comes with it.
    pub(crate) file: bool,
    pub(crate) minimal: bool,
    pub(crate) key: Option<Key>,
    pub(crate) timeout: Duration,
}

impl<T: DeserializeOwned> Call<T> {
    /// A call of `operation`, with `ids` in the places of its path.
    pub(crate) fn new(client: &Client, operation: &'static Operation, ids: &[&str]) -> Self {
        let path = fill(operation.path, ids);
        Self::at(client, operation, operation.method, path, |body| serde_json::from_slice(body))
    }
}

impl Call<()> {
    /// A call whose answer says nothing more than that it succeeded.
    pub(crate) fn confirmed(client: &Client, operation: &'static Operation, ids: &[&str]) -> Self {
        Self::at(client, operation, operation.method, fill(operation.path, ids), |_| Ok(()))
    }
}

impl Call<Vec<u8>> {
    /// A call whose answer is a file.
    pub(crate) fn download(client: &Client, operation: &'static Operation, ids: &[&str]) -> Self {
        let mut call = Self::at(client, operation, operation.method, fill(operation.path, ids), |body| Ok(body.to_vec()));
        if let Ok(request) = &mut call.request {
            request.file = true;
        }
        call
    }
}

impl<T> Call<T> {
    pub(crate) fn at(
        client: &Client,
        operation: &'static Operation,
        method: Method,
        path: Result<String, InvalidInput>,
        decode: Decode<T>,
    ) -> Self {
        let timeout = client.settings().timeout;
        let request = path.map(|path| Outgoing {
            operation,
            method,
            path,
            query: Vec::new(),
            body: None,
            content_type: None,
            file: false,
            minimal: false,
            key: None,
            timeout,
        });
        Self { client: client.clone(), request, decode, operation, key: None }
    }

    pub(crate) fn query(mut self, name: &'static str, value: Option<impl fmt::Display>) -> Self {
        if let (Ok(request), Some(value)) = (&mut self.request, value) {
            request.query.push((name, value.to_string()));
        }
        self
    }

    pub(crate) fn json(mut self, input: &impl Serialize) -> Self {
        if let Ok(request) = &mut self.request {
            match serde_json::to_vec(input) {
                Ok(body) => request.body = Some(Bytes::from(body)),
                Err(_) => self.request = Err(InvalidInput::new("body", "can't be written as JSON")),
            }
        }
        self
    }

    /// Sends a file as the only part of a form.
    pub(crate) fn form(mut self, name: &str, media_type: &str, data: &[u8]) -> Self {
        if let Ok(request) = &mut self.request {
            let (content_type, body) = form::file(name, media_type, data);
            request.content_type = Some(content_type);
            request.body = Some(body);
        }
        self
    }

    /// Refuses the call if the check does; the first refusal stands.
    pub(crate) fn checked(mut self, check: Result<(), InvalidInput>) -> Self {
        if let (Ok(_), Err(refusal)) = (&self.request, check) {
            self.request = Err(refusal);
        }
        self
    }

    pub(crate) fn minimal(mut self) -> Self {
        if let Ok(request) = &mut self.request {
            request.minimal = true;
        }
        self
    }

    /// Allows for an answer that the engine holds back for up to `wait`.
    pub(crate) fn waiting(self, wait: Duration) -> Self {
        let timeout = wait.saturating_add(self.client.settings().poll_margin);
        self.timeout(timeout)
    }

    /// Allows for an answer that a model has to be asked for.
    pub(crate) fn assisted(self) -> Self {
        let timeout = self.client.settings().assistance_timeout;
        self.timeout(timeout)
    }

    /// Sends the write under this key instead of a fresh one.
    ///
    /// A read ignores it. An operation that takes no key (see [`Replay::Once`]) is refused before it is sent.
    pub fn key(mut self, key: Key) -> Self {
        self.key = Some(key);
        self
    }

    /// Gives up after this long, all attempts together, instead of the client's limit (20 seconds; long polls their wait plus ten).
    ///
    /// The call then ends as [`ErrorKind::Deadline`](crate::ErrorKind::Deadline). That stops waiting here; a write may still happen.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if let Ok(request) = &mut self.request {
            request.timeout = timeout;
        }
        self
    }

    /// Which operation this is a call of: for logs, metrics and checks of coverage.
    ///
    /// ```
    /// # fn example() -> Result<(), beepgrid::Error> {
    /// let client = beepgrid::Client::new("http://127.0.0.1:4010", "bgt_an_example_token")?;
    /// assert_eq!(client.me().operation().name, "me");
    /// # Ok(())
    /// # }
    /// ```
    pub fn operation(&self) -> &'static Operation {
        self.operation
    }

    /// The call as it will be sent, or why it can't be.
    pub(crate) fn plan(self) -> Result<(Client, Outgoing, Decode<T>), Error> {
        let Self { client, request, decode, operation, key } = self;
        let refuse = |refusal, key| Error::new(operation.name, key, false, Cause::Input(refusal));
        let mut request = request.map_err(|refusal| refuse(refusal, key.clone()))?;
        request.key = match operation.replay {
            Replay::Keyed => Some(key.unwrap_or_else(Key::new)),
            Replay::Once if key.is_some() => {
                return Err(refuse(InvalidInput::new("key", "is not taken by this operation, which is sent once"), key));
            }
            Replay::Read | Replay::Once => None,
        };
        Ok((client, request, decode))
    }
}

impl<T: Send + 'static> IntoFuture for Call<T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (client, request, decode) = self.plan()?;
            transport::perform(&client, request, decode).await
        })
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The body stays out: it may be long, and private.
        f.debug_struct("Call")
            .field("operation", &self.operation.name)
            .field("path", &self.request.as_ref().map(|request| &request.path))
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// The path with each id in its place, encoded.
fn fill(template: &str, ids: &[&str]) -> Result<String, InvalidInput> {
    let mut path = String::with_capacity(template.len() + 40);
    let mut ids = ids.iter();
    for (index, segment) in template.split('/').enumerate() {
        if index > 0 {
            path.push('/');
        }
        if segment.starts_with('{') {
            let name = segment.trim_matches(['{', '}']);
            path.push_str(&encode_id(name, ids.next().copied().unwrap_or_default())?);
        } else {
            path.push_str(segment);
        }
    }
    Ok(path)
}

/// One path segment. Ids are opaque, so anything but a dot segment passes, encoded.
fn encode_id<'a>(name: &str, id: &'a str) -> Result<Cow<'a, str>, InvalidInput> {
    let problem = match id {
        "" => "must not be empty",
        "." | ".." => "is not an id",
        _ if id.len() > MAX_PATH_ID_BYTES => "is too long for an id",
        _ => return Ok(encode(id)),
    };
    Err(InvalidInput::new(name, problem))
}

fn encode(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}"); // a String takes everything
        }
    }
    Cow::Owned(encoded)
}

#[cfg(test)]
mod tests;
