//! `beepgrid events`: the stream as JSON lines, with a position that survives the process.

mod checkpoint;

use std::path::PathBuf;
use std::time::Duration;

use beepgrid::{Client, ConversationId, Error, ErrorKind, Event, EventOptions, EventStream};
use clap::Args;
use futures_util::FutureExt as _;

use self::checkpoint::Checkpoint;
use crate::render::{self, Output, Reader};
use crate::signals::Signals;

/// Events that are printed before their position is written.
const BATCH: usize = 100;
/// How often the position is written while nothing is to be seen: what others do moves it too.
const IDLE: Duration = Duration::from_secs(30);

/// The arguments of `events`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  beepgrid events --checkpoint .local/events-position | while read -r event; do …; done\n\n\
                        Goes on until SIGINT or SIGTERM and reconnects by itself. After a restart with the same checkpoint file what was \
                        printed last may come once more.")]
pub(crate) struct EventsArguments {
    /// Begin after this sequence; 0 begins with the oldest event that is kept
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    after: i64,
    /// File with the position: begins there if it is there, and is written after what was printed
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Only what happens in this conversation
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
    /// Ids instead of whole resources
    #[arg(long)]
    summary: bool,
}

/// Follows the stream until a signal, until nobody reads any more, or until the engine refuses.
pub(crate) async fn follow(arguments: EventsArguments, signals: &mut Signals) -> anyhow::Result<Output> {
    let client = Client::from_env()?;
    let mut checkpoint = match &arguments.checkpoint {
        Some(path) => Checkpoint::open(path, arguments.after)?,
        None => Checkpoint::nowhere(arguments.after),
    };
    let mut options = EventOptions::new().after(checkpoint.position()).summary(arguments.summary);
    if let Some(conversation) = arguments.conversation {
        options = options.conversation_id(&ConversationId::new(conversation));
    }
    let mut events = client.events(options);
    let mut idle = tokio::time::interval(IDLE);
    loop {
        let first = tokio::select! {
            next = events.next() => next,
            () = signals.next() => break,
            _ = idle.tick() => {
                checkpoint.save(events.position())?;
                continue;
            }
        };
        let batch = gather(first, &mut events);
        if render::lines(&batch.lines)? == Reader::Gone {
            return Ok(Output::Nothing);
        }
        if let Some(error) = batch.end {
            checkpoint.save(batch.position)?;
            return Err(error.into());
        }
        checkpoint.save(batch.position)?;
    }
    checkpoint.save(events.position())?;
    Ok(Output::Nothing)
}

/// What is printed together.
#[derive(Default)]
struct Batch {
    lines: Vec<String>,
    /// Up to where everything is in `lines`.
    position: i64,
    /// What ended the stream.
    end: Option<Error>,
}

/// The first item and what is there without waiting.
fn gather(first: Option<Result<Event, Error>>, events: &mut EventStream) -> Batch {
    let mut batch = Batch::default();
    let mut next = first;
    while let Some(item) = next {
        match item {
            Ok(event) => {
                batch.position = event.sequence;
                batch.lines.push(serde_json::to_string(&event).unwrap_or_default());
            }
            // One event that can't be read; the stream goes on behind it.
            Err(error) if error.kind() == ErrorKind::Decode => {
                tracing::warn!(position = error.position(), "an event can't be read: {error}");
            }
            Err(error) => {
                batch.end = Some(error);
                break;
            }
        }
        if batch.lines.len() == BATCH {
            break;
        }
        // Dropping what is not ready loses nothing.
        next = events.next().now_or_never().flatten();
    }
    batch
}
