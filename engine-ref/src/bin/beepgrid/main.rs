//! The `beepgrid` program: argument types, dispatch, exit codes.
//!
//! Results go to stdout, errors as one JSON line and logs to stderr. No argument holds a secret: other users of a machine can read
//! the arguments of every process.

mod api;
mod calls;
mod client;
mod enrollment;
mod events;
mod failure;
mod files;
mod help;
mod inbox;
mod input;
mod job;
mod local;
mod messages;
mod migrate;
mod operator;
mod output;
mod queries;
mod reconcile;
mod render;
mod requests;
mod serve;
mod setup;
mod signals;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::{Exit, Failure};
use crate::render::Output;

/// The Beepgrid engine and its client: agents and people send each other messages, ask for decisions and get answers, reliably.
///
/// Commands that call an engine read BEEPGRID_URL (default http://localhost:4010) and BEEPGRID_TOKEN_FILE, an owner-only file with the
/// token, or BEEPGRID_TOKEN. Results are JSON on standard output, errors one line of JSON on standard error.
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
    /// Send a message
    Send(Box<messages::SendArguments>),
    /// Ask a question (or what the input's kind says) and return the open request
    #[command(after_help = "Example:\n  beepgrid ask --input question.json --key release-42/question/v1")]
    Ask(requests::AskArguments),
    /// Ask for an approval
    #[command(after_help = "Example:\n  beepgrid approve --input approval.json --key staging/restart/v1")]
    Approve(requests::AskArguments),
    /// Give a task
    #[command(after_help = "Example:\n  beepgrid task --input task.json --key release-42/task/v1")]
    Task(requests::AskArguments),
    /// Decide a request, at the version last read
    Respond(requests::RespondArguments),
    /// Wait until a request is decided, cancelled or expired, and print it
    Wait(requests::WaitArguments),
    /// Print one page of a collection
    List(queries::ListArguments),
    /// Call any endpoint
    Api(Box<api::ApiArguments>),
    /// Enroll a runtime of an agent and keep its token in a new file
    Enroll(enrollment::EnrollArguments),
    /// Print the files of a conversation
    Files(files::FilesArguments),
    /// Store a private draft for a later message or request
    FileStage(files::StageArguments),
    /// Store a file in a conversation
    FileUpload(files::FileUploadArguments),
    /// Save a file under a new name
    FileDownload(files::DownloadArguments),
    /// Follow what happens, one JSON line an event
    Events(events::EventsArguments),
    /// Look at a receiver's inbox and settle what it holds
    Inbox(inbox::InboxArguments),
    /// Print an instruction for a coding assistant that connects an agent
    Setup(setup::SetupArguments),
    /// Run the engine until SIGTERM or Ctrl-C
    ///
    /// Every setting can stand in a TOML file (--config), in the environment (BEEPGRID_ADDR for --addr) and, unless it is secret,
    /// in a flag; the flag wins, then the environment. BEEPGRID_SECRET_KEY and BEEPGRID_BOOTSTRAP_TOKEN have no flag.
    #[command(after_help = "Example:\n  beepgrid serve --dev")]
    Serve(Box<serve::ServeArguments>),
    /// Bring the schema of the database up to date
    Migrate(migrate::MigrateArguments),
    /// Make a launcher that enrolls agents under one prefix, and keep its token in a new file
    Seed(enrollment::SeedArguments),
    /// Print what became of a request: deliveries, executions, answers
    Trace(operator::TraceArguments),
    /// Check that the engine and what it works with are in order; changes and sends nothing
    Diagnose(operator::DiagnoseArguments),
    /// After a restore from a backup: put the workspace on hold, and later take the hold off
    Reconcile(reconcile::ReconcileArguments),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  beepgrid completions bash > ~/.local/share/bash-completion/completions/beepgrid")]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
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
        Err(error) => match help::refused(&error) {
            Ok(text) => print(Output::Text(text)),
            Err(error) => fail(&Failure::of(&error)),
        },
    };
    ExitCode::from(exit as u8)
}

fn run(command: Command) -> Exit {
    let done = match command {
        Command::Send(arguments) => job::run(async |job| messages::send(job, *arguments).await),
        Command::Ask(arguments) => job::run(async |job| requests::ask(job, arguments, None).await),
        Command::Approve(arguments) => job::run(async |job| requests::ask(job, arguments, Some("approval")).await),
        Command::Task(arguments) => job::run(async |job| requests::ask(job, arguments, Some("task")).await),
        Command::Respond(arguments) => job::run(async |job| requests::respond(job, arguments).await),
        Command::Wait(arguments) => job::run(async |_| requests::wait(arguments).await),
        Command::List(arguments) => job::run(async |_| queries::list(arguments).await),
        Command::Api(arguments) => job::run(async |job| api::call(job, *arguments).await),
        Command::Enroll(arguments) => job::run(async |job| enrollment::enroll(job, arguments).await),
        Command::Files(arguments) => job::run(async |_| files::files(arguments).await),
        Command::FileStage(arguments) => job::run(async |job| files::stage(job, arguments).await),
        Command::FileUpload(arguments) => job::run(async |job| files::upload(job, arguments).await),
        Command::FileDownload(arguments) => job::run(async |_| files::download(arguments).await),
        Command::Events(arguments) => job::run_until_told(async |signals| events::follow(arguments, signals).await),
        Command::Inbox(arguments) => job::run(async |_| inbox::inbox(arguments).await),
        Command::Setup(arguments) => setup::setup(&arguments),
        Command::Migrate(arguments) => job::run(async |_| migrate::migrate(arguments).await),
        Command::Seed(arguments) => job::run(async |job| enrollment::seed(job, arguments).await),
        Command::Trace(arguments) => job::run(async |_| operator::trace(arguments).await),
        Command::Diagnose(arguments) => job::run(async |_| operator::diagnose(arguments).await),
        Command::Reconcile(arguments) => job::run(async |_| reconcile::reconcile(arguments).await),
        Command::Completions { shell } => help::completions::<Arguments>(shell).map(Output::Text),
        Command::Version => Ok(Output::Text(format!("beepgrid {}", env!("CARGO_PKG_VERSION")))),
        Command::Help { command } => help::of::<Arguments>(command.as_deref()).map(Output::Text),
        // It prints while it runs.
        Command::Serve(arguments) => {
            return match serve::run(*arguments, render::notice) {
                Ok(()) => Exit::Success,
                Err(error) => fail(&Failure::of(&error)),
            };
        }
    };
    match done {
        Ok(output) => print(output),
        Err(error) => fail(&Failure::of(&error)),
    }
}

fn print(output: Output) -> Exit {
    match render::output(output) {
        Ok(()) => Exit::Success,
        Err(error) => fail(&Failure::of(&error)),
    }
}

fn fail(failure: &Failure) -> Exit {
    render::failure(failure);
    failure.exit
}
