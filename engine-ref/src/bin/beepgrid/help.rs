//! Help texts, and what is said about arguments that are no command.

use std::error::Error as _;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::Refused;

/// The help of the program, or of one command.
pub(crate) fn of<A: CommandFactory>(command: Option<&str>) -> anyhow::Result<String> {
    let mut program = A::command();
    let Some(name) = command else { return Ok(program.render_long_help().to_string()) };
    program.build();
    let unknown = || Refused::input("usage", "there is no such command; see `beepgrid help`");
    let found = program.find_subcommand_mut(name).ok_or_else(unknown)?;
    Ok(found.render_long_help().to_string())
}

/// A script that completes commands and flags.
pub(crate) fn completions<A: CommandFactory>(shell: clap_complete::Shell) -> anyhow::Result<String> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut A::command(), "beepgrid", &mut script);
    Ok(String::from_utf8(script)?)
}

/// The help that was asked for, or what is wrong with the arguments. The parser's own text would repeat them, and someone may have put
/// a token there: only names of our own arguments are said, and what our own checks found.
pub(crate) fn refused(error: &clap::Error) -> anyhow::Result<String> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Ok(error.to_string());
    }
    let mut problem = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => "a command is missing",
        kind => kind.as_str().unwrap_or("the arguments are wrong"),
    }
    .to_owned();
    let named = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (_, Some(ContextValue::String(name))) => {
            // Beyond flags and our own names it may be anything that stood on the command line.
            let name = name.split('=').next().filter(|name| name.starts_with(['-', '<', '[']));
            name.map(str::to_owned)
        }
        (_, Some(ContextValue::Strings(names))) => Some(names.join(", ")),
        _ => None,
    };
    if let Some(named) = named {
        problem = format!("{problem} ({named})");
    }
    if error.kind() == ErrorKind::ValueValidation
        && let Some(reason) = error.source()
    {
        problem = format!("{problem}: {reason}");
    }
    Err(Refused::input("usage", format!("{problem}; see `beepgrid help`")).into())
}
