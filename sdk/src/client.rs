//! The client and its settings. Every default is a named constant here.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;

use crate::call::Call;
use crate::credentials;
use crate::error::{ConfigurationFault, Error, InvalidInput};
use crate::ops::{self, Method};
use crate::retry::Delays;
use crate::transport;

/// A call with all its attempts.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(20);
/// What a long poll gets on top of the wait that it asks for.
pub(crate) const DEFAULT_POLL_MARGIN: Duration = Duration::from_secs(10);
/// How long a call may take for which the engine asks a model, unless set otherwise.
pub(crate) const DEFAULT_ASSISTANCE_TIMEOUT: Duration = Duration::from_secs(40);
/// Until a connection stands.
pub(crate) const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer that is decoded: a fan-out to 1,000 recipients fits, also with every character escaped.
pub(crate) const DEFAULT_MAX_RESPONSE_BYTES: u64 = 256 * 1024 * 1024;
/// Where a local engine listens.
pub(crate) const DEFAULT_URL: &str = "http://localhost:4010";

/// The typed client of one engine, with one credential. Cheap to clone; clones share their connections.
///
/// ```no_run
/// # async fn example() -> Result<(), beepgrid::Error> {
/// use beepgrid::Client;
///
/// let client = Client::new("http://localhost:4010", "the-token-of-this-worker")?;
/// println!("I am {:?}", client.me().await?.id());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    http: reqwest::Client,
    base: String,
    authorization: HeaderValue,
    settings: Settings,
}

/// The settings that a call reads.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) timeout: Duration,
    pub(crate) poll_margin: Duration,
    pub(crate) assistance_timeout: Duration,
    pub(crate) max_response_bytes: u64,
    pub(crate) attempts: Delays,
    pub(crate) loops: Delays,
}

/// What a caller changes in the HTTP client before it is built.
type HttpSettings = Box<dyn FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send>;

/// Sets up a [`Client`]. What is wrong with a setting is an error of [`ClientBuilder::build`].
#[must_use]
pub struct ClientBuilder {
    url: String,
    token: Option<SecretString>,
    insecure: bool,
    http: Option<HttpSettings>,
    connect_timeout: Duration,
    timeout: Duration,
    poll_margin: Duration,
    assistance_timeout: Duration,
    max_response_bytes: u64,
    attempts: (Duration, Duration),
    loops: (Duration, Duration),
}

impl Client {
    /// A client with default settings.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if the URL or the token can't be used.
    pub fn new(url: impl Into<String>, token: impl Into<SecretString>) -> Result<Self, Error> {
        Self::builder(url).token(token).build()
    }

    /// Starts a client's settings with the engine's base URL, without `/api/v1`.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), beepgrid::Error> {
    /// use std::time::Duration;
    ///
    /// let client = beepgrid::Client::builder("https://beepgrid.example")
    ///     .token("the-token-of-this-worker")
    ///     .timeout(Duration::from_secs(5))
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            url: url.into(),
            token: None,
            insecure: false,
            http: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            timeout: DEFAULT_TIMEOUT,
            poll_margin: DEFAULT_POLL_MARGIN,
            assistance_timeout: DEFAULT_ASSISTANCE_TIMEOUT,
            max_response_bytes: DEFAULT_MAX_RESPONSE_BYTES,
            attempts: Delays::ATTEMPTS.bounds(),
            loops: Delays::LOOPS.bounds(),
        }
    }

    /// A client from `BEEPGRID_URL` (default `http://localhost:4010`) and `BEEPGRID_TOKEN` or the file in `BEEPGRID_TOKEN_FILE`.
    ///
    /// When both are set, `BEEPGRID_TOKEN` is used and a warning logged. The file must be owner-only; see
    /// [`read_token`](crate::read_token).
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration), naming the variable or file and the reason, never its content.
    pub fn from_env() -> Result<Self, Error> {
        Self::from_lookup(|name| std::env::var_os(name))
    }

    /// Like [`Client::from_env`], with the environment as a function: for tests, and for settings that come from elsewhere.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), beepgrid::Error> {
    /// let client = beepgrid::Client::from_lookup(|name| match name {
    ///     "BEEPGRID_TOKEN_FILE" => Some("/run/secrets/beepgrid".into()),
    ///     _ => None,
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Client::from_env`].
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<std::ffi::OsString>) -> Result<Self, Error> {
        let (url, token) = credentials::from_environment(&lookup)?;
        Self::builder(url).token(token).build()
    }

    /// The same engine, settings and connections with another credential, such as that of a fresh
    /// [`Session`](crate::Session).
    ///
    /// ```no_run
    /// # async fn example(launcher: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::EnrollInput;
    ///
    /// let session = launcher.enroll(EnrollInput::new("team/builder-7", "Builder 7")).await?;
    /// let worker = launcher.with_token(session.token)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if the token can't be one.
    pub fn with_token(&self, token: impl Into<SecretString>) -> Result<Self, Error> {
        let authorization = authorization(&token.into()).map_err(|fault| Error::configuration("with_token", fault))?;
        let shared = &self.shared;
        Ok(Self {
            shared: Arc::new(Shared {
                http: shared.http.clone(),
                base: shared.base.clone(),
                authorization,
                settings: shared.settings.clone(),
            }),
        })
    }

    /// The base URL, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.shared.base
    }

    /// Calls a route that this version has no method for.
    ///
    /// `path` is absolute and starts with `/api/` (or is `/healthz` or `/readyz`); put encoded ids into it yourself. A `GET` is a read and may be sent again; any
    /// other method is sent once, unless a key protects it (use [`Client::call_keyed`]).
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::Method;
    /// use serde_json::Value;
    ///
    /// let status: Value = client.call(Method::Get, "/api/v1/fleet/status", None).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn call<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<&serde_json::Value>) -> Call<T> {
        let operation = if method == Method::Get { &ops::CALL_READ } else { &ops::CALL_ONCE };
        self.raw_call(operation, method, path, body)
    }

    /// Like [`Client::call`] for a write that takes an idempotency key; makes one when none is given.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::Method;
    /// use serde_json::{Value, json};
    ///
    /// let body = json!({"prompt": "Who is free?"});
    /// let plan: Value = client.call_keyed(Method::Post, "/api/v1/fleet/plan", Some(&body)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_keyed<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<&serde_json::Value>) -> Call<T> {
        let operation = if method == Method::Get { &ops::CALL_READ } else { &ops::CALL_KEYED };
        self.raw_call(operation, method, path, body)
    }

    fn raw_call<T: DeserializeOwned>(
        &self,
        operation: &'static ops::Operation,
        method: Method,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Call<T> {
        // Whether the engine runs and is ready is asked outside of the API.
        let probe = method == Method::Get && matches!(path, "/healthz" | "/readyz");
        let plain =
            (probe || path.starts_with("/api/")) && !path.split(['/', '?']).any(|segment| segment == "." || segment == "..");
        let path = if plain && !path.contains(['#', '\\']) {
            Ok(path.to_owned())
        } else {
            Err(InvalidInput::new("path", "must start with /api/ and have no dot segments"))
        };
        let call = Call::at(self, operation, method, path, |body| serde_json::from_slice(body));
        match body {
            Some(body) => call.json(body),
            None => call,
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.shared.http
    }

    pub(crate) fn authorization(&self) -> &HeaderValue {
        &self.shared.authorization
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.shared.base).field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL stays out until it is checked: it may hold a password.
        f.debug_struct("ClientBuilder").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// The bearer token. Required.
    pub fn token(mut self, token: impl Into<SecretString>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sends the token over plain http to any host. Without this only loopback hosts may be reached without TLS.
    pub fn allow_insecure_http(mut self) -> Self {
        self.insecure = true;
        self
    }

    /// How long a call may take with all its attempts; 20 seconds unless set. Long polls go by their wait instead.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long a call may take for which the engine asks a model; 40 seconds unless set.
    pub fn assistance_timeout(mut self, timeout: Duration) -> Self {
        self.assistance_timeout = timeout;
        self
    }

    /// How much longer than the wait it asks for a long poll may take; ten seconds unless set.
    pub fn poll_margin(mut self, margin: Duration) -> Self {
        self.poll_margin = margin;
        self
    }

    /// How long a connection may take to stand; ten seconds unless set. A call that fails here is known to have had no effect.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The largest answer that is read, in bytes; 256 MiB unless set.
    pub fn max_response_bytes(mut self, bytes: u64) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// The first and the longest delay between the attempts of one call; 100 ms and 2 s unless set.
    pub fn retry_delays(mut self, initial: Duration, max: Duration) -> Self {
        self.attempts = (initial, max);
        self
    }

    /// The first and the longest delay of the endless loops (`run`, `wait`) while the engine is away; 250 ms and 30 s unless set.
    pub fn reconnect_delays(mut self, initial: Duration, max: Duration) -> Self {
        self.loops = (initial, max);
        self
    }

    /// Changes the HTTP client's own settings: a proxy, extra certificates, the connection pool.
    ///
    /// Redirects and repetitions stay off whatever is set here: the token belongs to one address, and every attempt is counted.
    /// Settings replace the ones before: what ran here last is what holds.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let proxy = beepgrid::reqwest::Proxy::all("http://proxy.example:3128")?;
    /// let client = beepgrid::Client::builder("https://beepgrid.example")
    ///     .token("the-token-of-this-worker")
    ///     .http(move |http| http.proxy(proxy))
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn http(mut self, settings: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send + 'static) -> Self {
        self.http = Some(Box::new(settings));
        self
    }

    /// Checks every setting and makes the client. Connects to nothing yet.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) with the reason as its source.
    pub fn build(self) -> Result<Client, Error> {
        self.try_build().map_err(|fault| Error::configuration("build", fault))
    }

    fn try_build(self) -> Result<Client, ConfigurationFault> {
        let (base, tls) = check_url(&self.url, self.insecure)?;
        if !is_loopback(&base) {
            check_proxies(|name| std::env::var(name).ok())?;
        }
        let token = self.token.ok_or(ConfigurationFault::Token("is missing"))?;
        let authorization = authorization(&token)?;
        if self.timeout.is_zero() || self.connect_timeout.is_zero() || self.max_response_bytes == 0 {
            return Err(ConfigurationFault::Setting("timeouts and bounds must not be zero"));
        }
        let delays = |(initial, max)| {
            Delays::new(initial, max).ok_or(ConfigurationFault::Setting("a first delay must not be zero nor above the longest"))
        };
        let settings = Settings {
            timeout: self.timeout,
            poll_margin: self.poll_margin,
            assistance_timeout: self.assistance_timeout,
            max_response_bytes: self.max_response_bytes,
            attempts: delays(self.attempts)?,
            loops: delays(self.loops)?,
        };
        let mut http = transport::http_client(tls, is_loopback(&base))?.connect_timeout(self.connect_timeout);
        if let Some(settings) = self.http {
            http = settings(http);
        }
        let http = transport::one_address_one_try(http).map_err(ConfigurationFault::Http)?;
        Ok(Client { shared: Arc::new(Shared { http, base: text_of(&base), authorization, settings }) })
    }
}

/// The header that carries the token, marked so that nothing prints it.
fn authorization(token: &SecretString) -> Result<HeaderValue, ConfigurationFault> {
    credentials::check_token(token.expose_secret()).map_err(ConfigurationFault::Token)?;
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()))
        .map_err(|_| ConfigurationFault::Token("can't be sent in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The base URL if it may be used, and whether it needs TLS. The URL itself stays out of errors: it may hold a password.
fn check_url(text: &str, insecure: bool) -> Result<(Url, bool), ConfigurationFault> {
    let refuse = |reason| Err(ConfigurationFault::BaseUrl(reason));
    let Ok(url) = Url::parse(text) else {
        return refuse("can't be read; it looks like https://beepgrid.example");
    };
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("must not hold a user name or password");
    }
    if url.host_str().is_none_or(str::is_empty) {
        return refuse("has no host");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refuse("must not hold a query or fragment");
    }
    match url.scheme() {
        "https" => Ok((url, true)),
        "http" if insecure || is_loopback(&url) => Ok((url, false)),
        "http" => refuse("is plain http beyond this machine, which would show the token; use https or allow_insecure_http()"),
        _ => refuse("must be http or https"),
    }
}

/// Whether the host can only be this machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// A proxy in the environment that can't be one is an error, not a direct connection.
fn check_proxies(lookup: impl Fn(&str) -> Option<String>) -> Result<(), ConfigurationFault> {
    for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        if lookup(name).is_some_and(|proxy| !proxy.is_empty() && reqwest::Proxy::all(proxy).is_err()) {
            return Err(ConfigurationFault::Environment { name, problem: "is not the URL of a proxy" });
        }
    }
    Ok(())
}

/// Without a slash at the end, and without the API's own prefix if somebody gave it.
fn text_of(url: &Url) -> String {
    let text = url.as_str().trim_end_matches('/');
    text.strip_suffix("/api/v1").unwrap_or(text).trim_end_matches('/').to_owned()
}

/// What every request carries besides its own headers.
pub(crate) fn common_headers(client: &Client) -> HeaderMap {
    use reqwest::header::{ACCEPT, AUTHORIZATION};
    let mut headers = HeaderMap::with_capacity(6);
    headers.insert(AUTHORIZATION, client.authorization().clone());
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers
}

#[cfg(test)]
mod tests;
