//! How a command ends, and what it says when that is not success.

use beepgrid::{ErrorKind, Key};
use beepgrid_engine_ref::EngineError;
use beepgrid_engine_ref::config::ConfigError;
use serde::Serialize;

use crate::job::{Cancelled, Sent};

/// Exit codes, the same for every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// It did what was asked for.
    Success = 0,
    /// Anything that has no code of its own.
    Other = 1,
    /// The arguments, a setting or an input are wrong: the same again fails again.
    Input = 2,
    /// The engine does not know or does not allow this caller.
    Auth = 3,
    /// Cancelled here, or out of time here; the engine may go on.
    Cancelled = 4,
}

/// A command that did not succeed: what standard error gets, and the exit code.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    #[serde(skip)]
    pub(crate) exit: Exit,
    /// For programs.
    pub(crate) code: String,
    /// For people.
    pub(crate) message: String,
    /// The HTTP status, if the engine answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    /// The engine's name for the call, for its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
    /// How long the engine asks to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_seconds: Option<u64>,
    /// Whether a write may have happened all the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) outcome_unknown: bool,
    /// Repeated with `--key` and this, the command has its effect once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<String>,
    /// Where an event stream ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) position: Option<i64>,
}

/// A failure that a command names itself.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refused {
    exit: Exit,
    code: &'static str,
    message: String,
}

impl Refused {
    /// An input that can't be right.
    pub(crate) fn input(code: &'static str, message: impl Into<String>) -> Self {
        Self { exit: Exit::Input, code, message: message.into() }
    }

    /// A caller who may not do this.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self { exit: Exit::Auth, code: "forbidden", message: message.into() }
    }

    /// Anything else.
    pub(crate) fn other(code: &'static str, message: impl Into<String>) -> Self {
        Self { exit: Exit::Other, code, message: message.into() }
    }
}

impl Failure {
    fn new(exit: Exit, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            exit,
            code: code.into(),
            message: message.into(),
            status: None,
            request_id: None,
            retry_after_seconds: None,
            outcome_unknown: false,
            idempotency_key: None,
            position: None,
        }
    }

    /// Sorts an error by its type, never by its text.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let (exit, code) = sorted(error);
        // With every cause, outermost first.
        let mut failure = Self::new(exit, code, format!("{error:#}"));
        if let Some(error) = error.downcast_ref::<beepgrid::Error>() {
            failure.tell_of_call(error);
        }
        if let Some(Cancelled { sent: Sent::Write(key) }) = error.downcast_ref::<Cancelled>() {
            failure.outcome_unknown = true;
            failure.idempotency_key = key.as_ref().map(ToString::to_string);
        }
        failure
    }

    fn tell_of_call(&mut self, error: &beepgrid::Error) {
        if let Some(api) = error.api() {
            self.status = Some(api.status);
            self.request_id.clone_from(&api.request_id);
            self.retry_after_seconds = api.retry_after.map(|wait| wait.as_secs());
        }
        self.outcome_unknown = error.is_outcome_unknown();
        self.position = error.position();
        if self.outcome_unknown {
            self.idempotency_key = error.key().map(Key::to_string);
        }
    }
}

fn sorted(error: &anyhow::Error) -> (Exit, &str) {
    if let Some(refused) = error.downcast_ref::<Refused>() {
        return (refused.exit, refused.code);
    }
    if error.is::<Cancelled>() {
        return (Exit::Cancelled, "cancelled");
    }
    if error.is::<ConfigError>() {
        return (Exit::Input, "invalid_setting");
    }
    if let Some(error) = error.downcast_ref::<EngineError>() {
        return match error {
            EngineError::Setting(_) => (Exit::Input, "invalid_setting"),
            EngineError::Store(_) => (Exit::Other, "store"),
            EngineError::Listen { .. } => (Exit::Other, "listen"),
            _ => (Exit::Other, "failed"),
        };
    }
    let Some(error) = error.downcast_ref::<beepgrid::Error>() else { return (Exit::Other, "failed") };
    if let Some(api) = error.api() {
        let exit = match api.status {
            401 | 403 | 407 => Exit::Auth,
            400 | 405 | 413..=415 | 422 => Exit::Input,
            _ => Exit::Other,
        };
        // Something in front of the engine may answer without a code of ours.
        return (exit, if api.code.as_str().is_empty() { "failed" } else { api.code.as_str() });
    }
    match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::Configuration => (Exit::Input, "invalid_input"),
        ErrorKind::Deadline => (Exit::Cancelled, "deadline"),
        ErrorKind::Transport => (Exit::Other, "transport"),
        ErrorKind::Decode => (Exit::Other, "decode"),
        ErrorKind::Redirect => (Exit::Other, "redirect"),
        _ => (Exit::Other, "failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sorted_by_type_under_any_context() {
        let refused = beepgrid::Client::new("ftp://example.com", "token").expect_err("no such scheme");
        let failure = Failure::of(&anyhow::Error::from(refused).context("asking"));
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::Input, "invalid_input"));
        assert!(failure.message.starts_with("asking: "), "{}", failure.message);
        let failure = Failure::of(&EngineError::Store("damaged".to_owned()).into());
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::Other, "store"));
        assert_eq!(Failure::of(&anyhow::anyhow!("anything")).exit, Exit::Other);
        assert_eq!(Failure::of(&Refused::forbidden("no").into()).exit, Exit::Auth);
    }

    #[test]
    fn a_cancelled_write_names_its_key() {
        let key: Key = "k1".parse().expect("a key");
        let failure = Failure::of(&Cancelled { sent: Sent::Write(Some(key)) }.into());
        assert_eq!(failure.exit, Exit::Cancelled);
        assert_eq!((failure.outcome_unknown, failure.idempotency_key.as_deref()), (true, Some("k1")));
        assert!(!Failure::of(&Cancelled { sent: Sent::Nothing }.into()).outcome_unknown);
    }
}
