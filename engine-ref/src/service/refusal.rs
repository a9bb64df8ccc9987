//! Why a service function did not do what was asked. Knows no HTTP; `http/error.rs` turns it into status, code and public text.

use std::time::Duration;

use beepgrid::ErrorCode;

/// A refusal. Messages are shown to the caller: no secret, no SQL, no path, nothing of another person. `reason` goes to the log.
#[derive(Debug, Clone)]
pub(crate) enum Refusal {
    /// The input is wrong: which field, and what is allowed.
    Invalid { field: String, message: String },
    /// No valid credential. Always the same answer.
    Unauthorized,
    /// Seen, but not allowed.
    Forbidden { field: String, message: String },
    /// Not there, or not visible to the caller.
    NotFound { field: String },
    /// A state, version or uniqueness rule stands against it.
    Conflict { code: ErrorCode, message: String },
    /// Larger than allowed.
    TooLarge { message: String },
    /// Too much at once.
    RateLimited { message: String, retry_after: Duration },
    /// The store can't serve at the moment; nothing was stored.
    Unavailable { reason: String },
    /// The workspace is on hold after a restore; nothing was stored.
    OnHold,
    /// The engine lacks a setting for this; nothing was stored.
    NotConfigured { message: &'static str },
    /// The model gave nothing usable; nothing was stored and nothing sent. The reason goes to the log.
    ProviderFailed { reason: String },
    /// The model did not answer in time; nothing was stored and nothing sent.
    ProviderTimeout,
    /// A fault of the engine; nothing was stored.
    Internal { reason: String },
    /// The commit's outcome can't be learnt; nothing may be said about it.
    OutcomeUnknown,
}

impl Refusal {
    /// A wrong field. The message states the limit and, where it is short and harmless, what was given.
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), message: message.into() }
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::Forbidden { field: String::new(), message: message.into() }
    }

    pub(crate) fn not_found() -> Self {
        Self::NotFound { field: String::new() }
    }

    pub(crate) fn conflict(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Conflict { code, message: message.into() }
    }

    pub(crate) fn version_conflict(current: i64) -> Self {
        Self::conflict(ErrorCode::VersionConflict, format!("it changed since it was read; its version is now {current}"))
    }

    pub(crate) fn provider_failed(reason: impl Into<String>) -> Self {
        Self::ProviderFailed { reason: reason.into() }
    }

    pub(crate) fn internal(reason: impl Into<String>) -> Self {
        Self::Internal { reason: reason.into() }
    }

    /// The same refusal, saying that it was about `place` (one target of a batch, say).
    pub(crate) fn at(self, place: &str) -> Self {
        let join = |field: String| if field.is_empty() { place.to_owned() } else { format!("{place}.{field}") };
        match self {
            Self::Invalid { field, message } => Self::Invalid { field: join(field), message },
            Self::Forbidden { field, message } => Self::Forbidden { field: join(field), message },
            Self::NotFound { field } => Self::NotFound { field: join(field) },
            Self::Conflict { code, message } => Self::Conflict { code, message: format!("{place}: {message}") },
            Self::RateLimited { message, retry_after } => {
                Self::RateLimited { message: format!("{place}: {message}"), retry_after }
            }
            other => other,
        }
    }
}
