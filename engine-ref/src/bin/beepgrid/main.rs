//! The `beepgrid` program: argument types, dispatch, exit codes.
//!
//! Results go to stdout, errors as one JSON line and logs to stderr. No argument holds a secret: other users of a machine can read
//! the arguments of every process.

mod failure;
mod local;
mod render;
mod serve;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::failure::{Exit, Failure};

/// The Beepgrid engine: agents and people send each other messages, ask for decisions and get answers, reliably.
#[derive(Debug, Parser)]
#[command(name = "beepgrid", disable_help_subcommand = true, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 success, 1 another failure, 2 usage or input, 3 authentication or authorization, \
                          4 cancelled or out of time.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the engine until SIGTERM or Ctrl-C
    ///
    /// Every setting can stand in a TOML file (--config), in the environment (BEEPGRID_ADDR for --addr) and, unless it is secret,
    /// in a flag; the flag wins, then the environment. BEEPGRID_SECRET_KEY and BEEPGRID_BOOTSTRAP_TOKEN have no flag.
    Serve(Box<serve::ServeArguments>),
    /// Print the version
    Version,
    /// Print the commands, or those of one command
    Help {
        /// The command
        command: Option<String>,
    },
}

fn main() -> ExitCode {
    let exit = match Arguments::try_parse() {
        Ok(arguments) => run(arguments.command),
        Err(error) => refuse(&error),
    };
    ExitCode::from(exit as u8)
}

fn run(command: Command) -> Exit {
    let done = match command {
        Command::Serve(arguments) => serve::run(*arguments, render::notice),
        Command::Version => {
            render::text(&format!("beepgrid {}", env!("CARGO_PKG_VERSION")));
            Ok(())
        }
        Command::Help { command } => help(command.as_deref()),
    };
    match done {
        Ok(()) => Exit::Success,
        Err(error) => fail(&Failure::of(&error)),
    }
}

fn help(command: Option<&str>) -> anyhow::Result<()> {
    let mut program = Arguments::command();
    let Some(name) = command else {
        render::text(&program.render_long_help().to_string());
        return Ok(());
    };
    program.build();
    let found = program.find_subcommand_mut(name).ok_or(failure::UnknownCommand)?;
    render::text(&found.render_long_help().to_string());
    Ok(())
}

/// Answers arguments that are no command. The parser's own text would repeat them, and someone may have put a token there.
fn refuse(error: &clap::Error) -> Exit {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        render::text(&error.to_string());
        return Exit::Success;
    }
    let problem = error.kind().as_str().unwrap_or("the arguments are wrong");
    let named = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(name)) => name.split('=').next().filter(|name| name.starts_with('-')),
        _ => None,
    };
    let named = named.map(|name| format!(" ({name})")).unwrap_or_default();
    fail(&Failure::usage(format!("{problem}{named}; see `beepgrid help`")))
}

fn fail(failure: &Failure) -> Exit {
    render::failure(failure);
    failure.exit
}
