//! Raw JSON over HTTP: what any client in any language can send, also what the SDK would refuse.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use serde_json::Value;

/// A caller: an engine's address and a token.
#[derive(Clone, Debug)]
pub struct Api {
    http: reqwest::Client,
    url: String,
    token: Option<String>,
}

/// One call before it is sent.
#[derive(Debug)]
pub struct Call {
    http: reqwest::Client,
    method: Method,
    url: String,
    token: Option<String>,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
}

/// What came back, whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as it came.
    pub text: String,
}

/// A client builder of its own: in a build of the whole workspace reqwest has TLS without a provider, and asks for one even though
/// every engine of these tests speaks plain http.
pub(crate) fn plain_http() -> reqwest::ClientBuilder {
    static PROVIDER: std::sync::Once = std::sync::Once::new();
    PROVIDER.call_once(|| {
        // An error means that there is one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder()
}

impl Api {
    /// A caller with a token.
    pub fn new(url: &str, token: &str) -> Self {
        let http = plain_http()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .timeout(Duration::from_secs(60))
            .no_proxy()
            .build()
            .expect("a plain client builds");
        Self { http, url: url.trim_end_matches('/').to_owned(), token: Some(token.to_owned()) }
    }

    /// The same engine with another token.
    pub fn with(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// The same engine without a token.
    pub fn nobody(&self) -> Self {
        Self { token: None, ..self.clone() }
    }

    /// The same caller at another address, such as a proxy's.
    pub fn at(&self, url: &str) -> Self {
        Self { url: url.trim_end_matches('/').to_owned(), ..self.clone() }
    }

    /// The engine's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The token in use.
    pub fn token(&self) -> &str {
        self.token.as_deref().unwrap_or_default()
    }

    /// A call of `path` under the API's base, or of an absolute one after `//`.
    pub fn call(&self, method: Method, path: &str) -> Call {
        let url = match path.strip_prefix("//") {
            Some(rest) => format!("{}/{rest}", self.url),
            None => format!("{}/api/v1{path}", self.url),
        };
        Call { http: self.http.clone(), method, url, token: self.token.clone(), headers: HeaderMap::new(), body: None }
    }

    /// A GET.
    pub fn get(&self, path: &str) -> Call {
        self.call(Method::GET, path)
    }

    /// A POST of JSON.
    #[allow(clippy::needless_pass_by_value, reason = "callers write json!(…) in place")]
    pub fn post(&self, path: &str, body: Value) -> Call {
        self.call(Method::POST, path).json(&body)
    }

    /// A PATCH of JSON.
    #[allow(clippy::needless_pass_by_value, reason = "callers write json!(…) in place")]
    pub fn patch(&self, path: &str, body: Value) -> Call {
        self.call(Method::PATCH, path).json(&body)
    }

    /// A PUT of JSON.
    #[allow(clippy::needless_pass_by_value, reason = "callers write json!(…) in place")]
    pub fn put(&self, path: &str, body: Value) -> Call {
        self.call(Method::PUT, path).json(&body)
    }

    /// A DELETE.
    pub fn delete(&self, path: &str) -> Call {
        self.call(Method::DELETE, path)
    }
}

impl Call {
    /// JSON as the body, with its content type.
    pub fn json(self, body: &Value) -> Self {
        self.text(body.to_string())
    }

    /// A body that claims to be JSON.
    pub fn text(self, body: impl Into<Vec<u8>>) -> Self {
        self.header("content-type", "application/json").bytes(body)
    }

    /// A body without a content type.
    pub fn bytes(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// An idempotency key.
    pub fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    /// A header; replaces one of the same name.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name: HeaderName = name.parse().expect("a header name");
        self.headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).expect("a header value"));
        self
    }

    /// The answer, or what the transport said.
    pub async fn attempt(self) -> Result<Answer, reqwest::Error> {
        let mut request = self.http.request(self.method, &self.url).headers(self.headers);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = self.body {
            request = request.body(body);
        }
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await?;
        Ok(Answer { status: status.as_u16(), headers, text }.checked(self.token.as_deref(), status))
    }
}

impl IntoFuture for Call {
    type Output = Answer;
    type IntoFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async {
            let place = format!("{} {}", self.method, self.url);
            self.attempt().await.unwrap_or_else(|error| panic!("{place}: {error:?}"))
        })
    }
}

impl Answer {
    /// What holds for every answer of the engine, whatever the call.
    fn checked(self, token: Option<&str>, status: StatusCode) -> Self {
        assert!(self.headers.contains_key("x-request-id"), "no X-Request-Id: {self:?}");
        assert_ne!(self.status, 500, "{}", self.text);
        if status.is_client_error() || status.is_server_error() {
            let body = self.json();
            let mut members: Vec<_> = body.as_object().expect("an error is an object").keys().map(String::as_str).collect();
            members.sort_unstable();
            assert_eq!(members, ["code", "message"], "{}", self.text);
            assert!(body["code"].is_string() && body["message"].is_string(), "{}", self.text);
            if let Some(token) = token.filter(|t| t.len() > 8) {
                assert!(!self.text.contains(token), "an error shows the token");
            }
            if matches!(self.status, 429 | 503) {
                assert!(self.headers.contains_key("retry-after"), "{} without Retry-After", self.status);
            }
        }
        self
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{} not JSON ({e}): {}", self.status, self.text))
    }

    /// The body of a 200.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        self.json()
    }

    /// The body of a 201.
    #[track_caller]
    pub fn created(self) -> Value {
        assert_eq!(self.status, 201, "{}", self.text);
        self.json()
    }

    /// The message of a refusal with exactly this status and code.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> String {
        assert_eq!((self.status, self.json()["code"].as_str()), (status, Some(code)), "{}", self.text);
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Refused as 400 with a message that names `field`.
    #[track_caller]
    pub fn invalid(self, field: &str) {
        let message = self.refused(400, "invalid_request");
        assert!(message.contains(field), "{message:?} does not name {field:?}");
    }

    /// Refused as 404.
    #[track_caller]
    pub fn not_found(self) -> String {
        self.refused(404, "not_found")
    }

    /// Refused as 403.
    #[track_caller]
    pub fn forbidden(self) -> String {
        self.refused(403, "forbidden")
    }

    /// The code of a refusal, or empty.
    pub fn code(&self) -> String {
        serde_json::from_str::<Value>(&self.text)
            .ok()
            .and_then(|body| body["code"].as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// A header as text, or empty.
    pub fn header(&self, name: &str) -> String {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
    }
}

/// Shorthand for reading members that must be there.
pub trait Members {
    /// The member as text.
    fn s(&self, name: &str) -> String;
    /// The member as a whole number.
    fn n(&self, name: &str) -> i64;
    /// The member `id`.
    fn id(&self) -> String {
        self.s("id")
    }
    /// The member as a list.
    fn list(&self, name: &str) -> Vec<Value>;
    /// The texts of `name` in the list at hand.
    fn each(&self, name: &str) -> Vec<String>;
}

impl Members for Value {
    #[track_caller]
    fn s(&self, name: &str) -> String {
        self[name].as_str().unwrap_or_else(|| panic!("no text {name:?} in {self}")).to_owned()
    }

    #[track_caller]
    fn n(&self, name: &str) -> i64 {
        self[name].as_i64().unwrap_or_else(|| panic!("no whole number {name:?} in {self}"))
    }

    #[track_caller]
    fn list(&self, name: &str) -> Vec<Value> {
        self[name].as_array().unwrap_or_else(|| panic!("no list {name:?} in {self}")).clone()
    }

    #[track_caller]
    fn each(&self, name: &str) -> Vec<String> {
        self.as_array().unwrap_or_else(|| panic!("not a list: {self}")).iter().map(|item| item.s(name)).collect()
    }
}
