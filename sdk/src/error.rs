//! What went wrong, in a form that a program can decide on.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::key::Key;
use crate::model::ErrorCode;

/// Why a call did not give its result.
///
/// Match on [`Error::kind`], and for answers of the engine on the code in [`Error::api`]; never on the text. Codes that any call can
/// end with: `unauthorized`, `forbidden`, `not_found`, `invalid_request`, `rate_limited`, `unavailable`, `internal`, and for writes
/// under a key `idempotency_conflict`.
///
/// ```no_run
/// # async fn example(client: beepgrid::Client, input: beepgrid::SendInput) -> Result<(), beepgrid::Error> {
/// match client.send(input.clone()).await {
///     Err(error) if error.is_outcome_unknown() => {
///         // The message may be stored. The same key makes it safe to send it again.
///         let again = client.send(input);
///         match error.key() {
///             Some(key) => again.key(key.clone()).await?,
///             None => return Err(error),
///         };
///     }
///     other => { other?; }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    operation: &'static str,
    key: Option<Key>,
    outcome_unknown: bool,
    position: Option<i64>,
    cause: Cause,
}

/// The kinds of failure that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The engine (or something in front of it) answered with an error status; see [`Error::api`].
    Api,
    /// No usable answer came: not reachable, connection lost, body cut off.
    Transport,
    /// The time that this side allows ran out.
    Deadline,
    /// An answer came and is not what it should be: no JSON, other fields, too large.
    Decode,
    /// The input can't be right; nothing was sent. See [`Error::input`].
    InvalidInput,
    /// The client's settings, environment or token file are unusable.
    Configuration,
    /// The answer was a redirect. It is not followed, because the token belongs to one address.
    Redirect,
    /// A handler given to `run` or `handle_events` failed; its error is the source.
    Handler,
    /// A page of a list names itself as the next one: the list would never end.
    RepeatedCursor,
    /// A file on this machine can't be written: it is there already, or the system refused. Its error is the source.
    File,
}

/// An error answer of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiError {
    /// The stable code; `Other("")` when the answer had none (a proxy's page, say).
    pub code: ErrorCode,
    /// The engine's text, safe to show.
    pub message: String,
    /// The HTTP status.
    pub status: u16,
    /// The engine's name for this request, for its log.
    pub request_id: Option<String>,
    /// How long the engine asks to wait before the next call.
    pub retry_after: Option<Duration>,
}

/// What is wrong with an input, found before anything was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidInput {
    /// The member on the wire, such as `body` or `targets[3].id`.
    pub field: String,
    /// What it must be, and what it was.
    pub problem: String,
}

#[derive(Debug)]
pub(crate) enum Cause {
    Api(ApiError),
    /// The connection never stood: known to have had no effect.
    Connect(reqwest::Error),
    Transport(reqwest::Error),
    CutOff(reqwest::Error),
    Deadline(Duration),
    Decode(DecodeFault),
    Input(InvalidInput),
    Configuration(ConfigurationFault),
    Redirect(u16),
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    Handler(Box<dyn std::error::Error + Send + Sync>),
    RepeatedCursor,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeFault {
    #[error("not the expected JSON")]
    Json(#[from] serde_json::Error),
    /// For answers that hold a secret: serde's own text may quote the value.
    #[error("not the expected JSON, at line {line} column {column}")]
    Secret { line: usize, column: usize },
    #[error("larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the bytes are not those that the digest beside them (ETag) tells of, or there is none")]
    Digest,
    #[error("not UTF-8")]
    NotUtf8,
    #[error("not an event stream")]
    NotAStream,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigurationFault {
    #[error("the base URL {0}")]
    BaseUrl(&'static str),
    #[error("the token {0}")]
    Token(&'static str),
    #[error("{0}")]
    Setting(&'static str),
    #[error("{name} {problem}")]
    Environment { name: &'static str, problem: &'static str },
    #[error("token file {}: {problem}", path.display())]
    TokenFile { path: PathBuf, problem: &'static str },
    #[error("token file {}", path.display())]
    TokenFileIo { path: PathBuf, source: std::io::Error },
    #[error("TLS can't be set up")]
    #[cfg(feature = "rustls")]
    Tls(#[source] rustls::Error),
    #[error("the HTTP client can't be built")]
    Http(#[source] reqwest::Error),
}

impl Error {
    pub(crate) fn new(operation: &'static str, key: Option<Key>, outcome_unknown: bool, cause: Cause) -> Self {
        Self(Box::new(Inner { operation, key, outcome_unknown, position: None, cause }))
    }

    pub(crate) fn configuration(operation: &'static str, fault: ConfigurationFault) -> Self {
        Self::new(operation, None, false, Cause::Configuration(fault))
    }

    pub(crate) fn handler(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::new("run", None, false, Cause::Handler(error))
    }

    /// The same error, with the position of the event stream that it ended or interrupted.
    pub(crate) fn at_position(mut self, position: i64) -> Self {
        self.0.position = Some(position);
        self
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self.0.cause {
            Cause::Api(_) => ErrorKind::Api,
            Cause::Connect(_) | Cause::Transport(_) | Cause::CutOff(_) => ErrorKind::Transport,
            Cause::Deadline(_) => ErrorKind::Deadline,
            Cause::Decode(_) => ErrorKind::Decode,
            Cause::Input(_) => ErrorKind::InvalidInput,
            Cause::Configuration(_) => ErrorKind::Configuration,
            Cause::Redirect(_) => ErrorKind::Redirect,
            Cause::Handler(_) => ErrorKind::Handler,
            Cause::RepeatedCursor => ErrorKind::RepeatedCursor,
            Cause::File { .. } => ErrorKind::File,
        }
    }

    /// Whether a write may have happened although it gave no result.
    ///
    /// True for writes whose answer got lost, came too late, could not be read, or was a server error (5xx) that doesn't say that
    /// nothing happened. False for reads, for refusals (4xx), and when the connection never stood. Where it is true, sending
    /// the call again under [`Error::key`] is safe; without a key, look first.
    pub fn is_outcome_unknown(&self) -> bool {
        self.0.outcome_unknown
    }

    /// The engine's answer, if there was one.
    pub fn api(&self) -> Option<&ApiError> {
        match &self.0.cause {
            Cause::Api(api) => Some(api),
            _ => None,
        }
    }

    /// The engine's error code, if it answered.
    pub fn code(&self) -> Option<&ErrorCode> {
        self.api().map(|api| &api.code)
    }

    /// What was wrong with the input, if that is why nothing was sent.
    pub fn input(&self) -> Option<&InvalidInput> {
        match &self.0.cause {
            Cause::Input(input) => Some(input),
            _ => None,
        }
    }

    /// The operation that failed, by its name in the table.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The key that went with the write, made by the call if the caller gave none.
    pub fn key(&self) -> Option<&Key> {
        self.0.key.as_ref()
    }

    /// For errors of an event stream: the sequence up to which everything was handed over, and handled where there is a handler.
    /// Resume with it as [`EventOptions::after`](crate::EventOptions::after).
    pub fn position(&self) -> Option<i64> {
        self.0.position
    }

    /// Whether trying again later may help: transport faults, deadlines, 5xx, 408, 425 and 429.
    ///
    /// This is the rule of the endless loops (`run`, `wait`). It does not say that repeating is safe; that is
    /// [`Error::is_outcome_unknown`] together with [`Error::key`].
    pub fn is_transient(&self) -> bool {
        match &self.0.cause {
            Cause::Connect(_) | Cause::Transport(_) | Cause::CutOff(_) | Cause::Deadline(_) => true,
            Cause::Api(api) => api.status >= 500 || matches!(api.status, 408 | 425 | 429),
            _ => false,
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.api().and_then(|api| api.retry_after)
    }
}

impl InvalidInput {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = self.0.operation;
        match &self.0.cause {
            Cause::Api(api) => write!(f, "{operation}: {api}"),
            Cause::Connect(_) => write!(f, "{operation}: the engine can't be reached"),
            Cause::Transport(_) => write!(f, "{operation}: no answer came"),
            Cause::CutOff(_) => write!(f, "{operation}: the answer was cut off"),
            Cause::Deadline(limit) => write!(f, "{operation}: not done within {limit:?}"),
            Cause::Decode(_) => write!(f, "{operation}: the answer can't be read"),
            Cause::Input(input) => write!(f, "{operation}: not sent, {input}"),
            Cause::Configuration(_) => write!(f, "{operation}: the settings can't be used"),
            Cause::Redirect(status) => write!(f, "{operation}: the answer was a redirect ({status}), which is not followed"),
            Cause::Handler(_) => write!(f, "{operation}: the handler failed"),
            Cause::RepeatedCursor => write!(f, "{operation}: a page names itself as the next one"),
            Cause::File { path, .. } => write!(f, "{operation}: can't write {}", path.display()),
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code.as_str() {
            "" => write!(f, "the answer was {}", self.status)?,
            code => write!(f, "the engine answered {} {code}", self.status)?,
        }
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

impl fmt::Display for InvalidInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.field, self.problem)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("operation", &self.0.operation)
            .field("key", &self.0.key)
            .field("outcome_unknown", &self.0.outcome_unknown)
            .field("position", &self.0.position)
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.cause {
            Cause::Connect(source) | Cause::Transport(source) | Cause::CutOff(source) => Some(source),
            Cause::Decode(source) => Some(source),
            Cause::Configuration(source) => Some(source),
            Cause::Handler(source) => Some(source.as_ref()),
            Cause::File { source, .. } => Some(source),
            Cause::Api(_) | Cause::Deadline(_) | Cause::Input(_) | Cause::Redirect(_) | Cause::RepeatedCursor => None,
        }
    }
}

/// An error with all its causes on one line, for the place that logs it.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn std::error::Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_word_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<(), Error>>(), size_of::<usize>());
    }

    #[test]
    fn an_error_can_cross_threads() {
        fn crosses<T: Send + Sync + 'static>() {}
        crosses::<Error>();
    }
}
