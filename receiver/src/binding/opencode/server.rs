//! Where the server is, what a session is made of, and what can be wrong with either.

use std::time::Duration;

use reqwest::Url;
use secrecy::SecretString;
use tokio::runtime::Handle;

use super::OpencodeBinding;
use super::api::{self, Api, Location, Model};

/// How long one call of the server may take, unless set otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The user name that the server expects with its password, unless set otherwise.
pub const DEFAULT_USER: &str = "opencode";

/// What is wrong with the settings, or with the call that creates a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpencodeError {
    /// The server's address can't be used.
    #[error("the address of the opencode server {0}")]
    Address(&'static str),
    /// A session's id begins with `ses`.
    #[error("a session's id begins with `ses`")]
    SessionId,
    /// There is no tokio runtime here.
    #[error("the opencode binding needs a tokio runtime")]
    NoRuntime,
    /// The HTTP client can't be built.
    #[error("the HTTP client can't be built: {0}")]
    Http(String),
    /// The server did not create the session; if its answer was lost there may be an empty one.
    #[error("no session was created: {0}")]
    NoSession(String),
}

/// Where the server is, and how to get in.
#[derive(Clone, Debug)]
pub struct Server {
    url: String,
    user: String,
    password: Option<SecretString>,
    remote: bool,
    timeout: Duration,
}

/// What a new session is made of.
#[derive(Clone, Debug, Default)]
pub struct NewSession {
    directory: Option<String>,
    agent: Option<String>,
    model: Option<Model>,
}

impl NewSession {
    /// The server's own directory, agent and model.
    pub fn new() -> Self {
        Self::default()
    }

    /// The folder that the agent works in.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<String>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// One of opencode's agents, such as `build`.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// The model, by its provider's id and its own.
    #[must_use]
    pub fn model(mut self, provider: impl Into<String>, model: impl Into<String>) -> Self {
        self.model = Some(Model { id: model.into(), provider: provider.into() });
        self
    }
}

impl Server {
    /// The server at this address, such as `http://127.0.0.1:4096`.
    pub fn at(url: impl Into<String>) -> Self {
        Self { url: url.into(), user: DEFAULT_USER.to_owned(), password: None, remote: false, timeout: DEFAULT_TIMEOUT }
    }

    /// The server's password (`OPENCODE_SERVER_PASSWORD`).
    #[must_use]
    pub fn password(mut self, password: impl Into<SecretString>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// The user name that goes with the password (`OPENCODE_SERVER_USERNAME`); `opencode` unless set.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = user.into();
        self
    }

    /// Allows a server on another machine. Everything, the password too, then crosses the network in plain text: for a tunnel or a private
    /// network of containers only.
    #[must_use]
    pub fn allow_remote(mut self) -> Self {
        self.remote = true;
        self
    }

    /// How long one call may take; ten seconds unless set. Should stay below [`crate::DEFAULT_CALL_DEADLINE`].
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Creates a session and returns its id, which the host keeps.
    ///
    /// # Errors
    /// Settings that can't be used, or [`OpencodeError::NoSession`].
    pub async fn create_session(&self, session: &NewSession) -> Result<String, OpencodeError> {
        let new = api::NewSession {
            agent: session.agent.as_deref(),
            model: session.model.clone(),
            location: session.directory.clone().map(|directory| Location { directory }),
        };
        let created = self.api()?.create(&new).await.map_err(|failure| OpencodeError::NoSession(failure.to_string()))?;
        Ok(created.id)
    }

    /// The binding for this session. Connects to nothing yet; a server that isn't there is waited for.
    ///
    /// # Errors
    /// Settings that can't be used; [`OpencodeError::NoRuntime`] outside a tokio runtime.
    pub fn session(&self, id: impl Into<String>) -> Result<OpencodeBinding, OpencodeError> {
        let session = id.into();
        if !session.starts_with("ses") || !session.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        {
            return Err(OpencodeError::SessionId);
        }
        let runtime = Handle::try_current().map_err(|_| OpencodeError::NoRuntime)?;
        Ok(OpencodeBinding::new(self.api()?, session, runtime))
    }

    fn api(&self) -> Result<Api, OpencodeError> {
        let base = self.address().map_err(OpencodeError::Address)?;
        let http = beepgrid::internal::plain_http(self.remote).map_err(|error| OpencodeError::Http(error.to_string()))?;
        Ok(Api { http, base, user: self.user.clone(), password: self.password.clone(), timeout: self.timeout })
    }

    /// The address itself stays out of errors: it may hold a password.
    fn address(&self) -> Result<Url, &'static str> {
        let url = Url::parse(&self.url).map_err(|_| "can't be read; it looks like http://127.0.0.1:4096")?;
        if url.scheme() != "http" {
            return Err("must begin with http://");
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
            return Err("must hold no user name, password, query or fragment");
        }
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let here = host.parse().map_or(host == "localhost", |address: std::net::IpAddr| address.is_loopback());
        if here || self.remote { Ok(url) } else { Err("is not on this machine; see `allow_remote`") }
    }
}
