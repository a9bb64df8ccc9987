//! `beepgrid inbox`: a receiver's inbox, looked at and settled while no receiver runs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use beepgrid::DeliveryId;
use beepgrid_engine_ref::Clock;
use beepgrid_receiver::inbox::OpenInput;
use beepgrid_receiver::{Content, Held, InboxError, InboxErrorKind, InboxStore, Resolution, SqliteInbox, StoredInput};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::failure::Refused;
use crate::render::{Output, Table, TableArguments};

/// The database in an inbox's folder.
const DATABASE: &str = "inbox.db";
/// Held inputs that are read; more than an inbox has by default.
const MAX_HELD: u32 = 100_000;

/// The arguments of `inbox`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  beepgrid inbox list .local/builder-inbox\n  beepgrid inbox show .local/builder-inbox DELIVERY_ID\n  \
                        beepgrid inbox resolve .local/builder-inbox DELIVERY_ID retry\n\n\
                        FILE is the inbox's folder, or inbox.db in it. While a receiver runs, it holds the inbox: stop it first, or \
                        settle the input through it."
)]
pub(crate) struct InboxArguments {
    #[command(subcommand)]
    command: InboxCommand,
}

#[derive(Debug, Subcommand)]
enum InboxCommand {
    /// Print what is not done, oldest first, without content
    List {
        /// The inbox
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Only what waits for a person
        #[arg(long)]
        held: bool,
        #[command(flatten)]
        table: TableArguments,
    },
    /// Print one input with its content
    Show {
        /// The inbox
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The delivery
        #[arg(value_name = "DELIVERY_ID")]
        id: String,
        #[command(flatten)]
        table: TableArguments,
    },
    /// Decide about an input that waits for a person
    Resolve {
        /// The inbox
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The delivery
        #[arg(value_name = "DELIVERY_ID")]
        id: String,
        /// What is true of it
        #[arg(value_enum, value_name = "DECISION")]
        decision: Decision,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Decision {
    /// The runtime has it: done, never handed over again
    Accepted,
    /// The runtime does not have it: hand it over again
    Retry,
    /// Give it up
    Discard,
}

impl From<Decision> for Resolution {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Accepted => Self::Accepted,
            Decision::Retry => Self::Retry,
            Decision::Discard => Self::Discard,
        }
    }
}

/// Looks at an inbox, or settles an input of it.
pub(crate) async fn inbox(arguments: InboxArguments) -> anyhow::Result<Output> {
    match arguments.command {
        InboxCommand::List { file, held, table } => list(&file, held, &table).await,
        InboxCommand::Show { file, id, table } => show(&file, &DeliveryId::new(id), &table).await,
        InboxCommand::Resolve { file, id, decision } => resolve(&file, DeliveryId::new(id), decision.into()).await,
    }
}

/// Opens an inbox that is there; never makes one.
async fn open(file: &Path) -> Result<SqliteInbox, Refused> {
    let folder = if file.is_file() && file.file_name().is_some_and(|name| name == DATABASE) {
        file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    } else {
        file
    };
    if !folder.join(DATABASE).is_file() {
        return Err(Refused::input("not_an_inbox", format!("{}: there is no inbox ({DATABASE}) here", file.display())));
    }
    SqliteInbox::open(folder).await.map_err(|error| refused(&error))
}

fn refused(error: &InboxError) -> Refused {
    let code = match error.kind() {
        InboxErrorKind::InUse => {
            let what = format!("{error}: stop the receiver first, or settle the input through it");
            return Refused::other("inbox_in_use", what);
        }
        InboxErrorKind::NotFound => "not_found",
        InboxErrorKind::NotHeld => "not_held",
        InboxErrorKind::NotPrivate => "inbox_not_private",
        InboxErrorKind::Newer => "inbox_newer",
        InboxErrorKind::Corrupt => "inbox_damaged",
        InboxErrorKind::Busy => "inbox_busy",
        InboxErrorKind::Full => "disk_full",
        _ => "inbox",
    };
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Refused::other(code, format!("{error}{cause}"))
}

async fn list(file: &Path, only_held: bool, arguments: &TableArguments) -> anyhow::Result<Output> {
    let inbox = open(file).await?;
    let counts = inbox.counts().await.map_err(|error| refused(&error))?;
    let mut rows = InboxStore::open(&inbox).await.map_err(|error| refused(&error))?;
    let held = inbox.held(MAX_HELD).await.map_err(|error| refused(&error))?;
    inbox.close().await.map_err(|error| refused(&error))?;
    rows.retain(|row| !only_held || row.held.is_some());
    let details: HashMap<&DeliveryId, &Held> = held.iter().filter_map(|held| Some((&held.id, held.held.as_ref()?))).collect();
    let items: Vec<Value> = rows.iter().map(|row| listed(row, details.get(&row.id).copied())).collect();
    let mut table = Table::new(["id", "conversation", "kind", "state", "held", "attempts", "created_at"]);
    for row in &rows {
        table = table.row(&[
            row.id.to_string(),
            row.conversation_id.to_string(),
            row.kind.to_string(),
            row.state.as_str().to_owned(),
            row.held.map(|held| held.as_str().to_owned()).unwrap_or_default(),
            row.attempts.to_string(),
            row.created_at.to_string(),
        ]);
    }
    let counts = json!({
        "pending": counts.pending, "submitting": counts.submitting, "held": counts.held, "rows": counts.rows,
    });
    Output::table(&json!({ "counts": counts, "items": items }), &table, arguments)
}

fn listed(row: &OpenInput, held: Option<&Held>) -> Value {
    json!({
        "id": row.id, "conversation_id": row.conversation_id, "kind": row.kind, "request_id": row.request_id,
        "created_at": row.created_at, "state": row.state, "held": held, "attempts": row.attempts,
        "next_attempt_at": row.next_attempt_at, "session": row.session,
    })
}

async fn show(file: &Path, id: &DeliveryId, arguments: &TableArguments) -> anyhow::Result<Output> {
    let inbox = open(file).await?;
    let found = inbox.get(id.clone()).await.map_err(|error| refused(&error))?;
    inbox.close().await.map_err(|error| refused(&error))?;
    let input = found.ok_or_else(|| Refused::other("not_found", format!("no input {id}")))?;
    let shown = shown(&input);
    let mut table = Table::new(["what", "is"]);
    for name in ["id", "conversation_id", "kind", "state", "received_at", "attempts", "last_error"] {
        let value = shown.get(name).filter(|value| !value.is_null());
        let text = value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        table = table.row(&[name.to_owned(), text.unwrap_or_default()]);
    }
    if let Some(held) = &input.held {
        table = table.row(&["held".to_owned(), held.reason.as_str().to_owned()]).note(format!("Why: {}", held.detail));
    }
    let table = table.note(input.body().to_owned());
    Output::table(&shown, &table, arguments)
}

fn shown(input: &StoredInput) -> Value {
    let content = match input.content {
        Content::Present => "present",
        Content::Scrubbed => "removed",
        Content::Unreadable => "unreadable",
    };
    json!({
        "id": input.id, "conversation_id": input.conversation_id, "kind": input.kind, "state": input.state,
        "generation": input.generation, "acked": input.acked, "held": input.held, "attempts": input.attempts,
        "next_attempt_at": input.next_attempt_at, "attempt": input.attempt, "last_error": input.last_error,
        "received_at": input.received_at, "revision": input.revision, "content": content,
        "delivery": (input.content == Content::Present).then_some(&input.delivery),
    })
}

async fn resolve(file: &Path, id: DeliveryId, decision: Resolution) -> anyhow::Result<Output> {
    let inbox = open(file).await?;
    inbox.resolve(id.clone(), decision, Clock::system().now()).await.map_err(|error| refused(&error))?;
    let now = inbox.get(id.clone()).await.map_err(|error| refused(&error))?;
    inbox.close().await.map_err(|error| refused(&error))?;
    Ok(Output::Json(json!({
        "id": id,
        "state": now.as_ref().map(|input| input.state),
        "held": now.as_ref().and_then(|input| input.held.clone()),
    })))
}
