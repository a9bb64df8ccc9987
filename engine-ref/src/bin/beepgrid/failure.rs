//! How a command ends, and what it says when that is not success.

use beepgrid::{ErrorCode, ErrorKind};
use beepgrid_engine_ref::EngineError;
use beepgrid_engine_ref::config::ConfigError;

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

/// A command that did not succeed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// For programs.
    pub(crate) code: String,
    /// For people.
    pub(crate) message: String,
}

/// A word that is no command.
#[derive(Debug, thiserror::Error)]
#[error("there is no such command; see `beepgrid help`")]
pub(crate) struct UnknownCommand;

impl Failure {
    pub(crate) fn usage(message: String) -> Self {
        Self { exit: Exit::Input, code: "usage".to_owned(), message }
    }

    /// Sorts an error by its type, never by its text.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let (exit, code) = sorted(error);
        // With every cause, outermost first.
        Self { exit, code: code.to_owned(), message: format!("{error:#}") }
    }
}

fn sorted(error: &anyhow::Error) -> (Exit, &str) {
    if error.is::<UnknownCommand>() {
        return (Exit::Input, "usage");
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
    match (error.kind(), error.code()) {
        (_, Some(code @ (ErrorCode::Unauthorized | ErrorCode::Forbidden))) => (Exit::Auth, code.as_str()),
        (_, Some(code @ ErrorCode::InvalidRequest)) => (Exit::Input, code.as_str()),
        (_, Some(code)) => (Exit::Other, code.as_str()),
        (ErrorKind::InvalidInput | ErrorKind::Configuration, None) => (Exit::Input, "invalid_input"),
        (ErrorKind::Deadline, None) => (Exit::Cancelled, "deadline"),
        (_, None) => (Exit::Other, "failed"),
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
    }
}
