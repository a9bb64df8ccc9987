//! `beepgrid reconcile`: a workspace that came out of a backup.

use std::path::PathBuf;

use anyhow::Context as _;
use beepgrid::ExposeSecret as _;
use beepgrid_engine_ref::config::DatabaseUrl;
use beepgrid_engine_ref::{Engine, EngineBuilder, restore};
use clap::Args;
use serde_json::json;

use crate::local;
use crate::migrate::{self, DatabaseArguments};
use crate::output::NewFile;
use crate::render::Output;

/// The arguments of `reconcile`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("step").required(true).multiple(false),
          after_help = "Examples:\n  beepgrid reconcile --restored --out .local/restored-owner-token\n  beepgrid reconcile --resume\n\n\
                        Works on the database itself: stop the engine of a SQLite file first. On hold operators read and manage, \
                        every other call is refused. Enroll the workers again and compare with the world outside before you resume.")]
pub(crate) struct ReconcileArguments {
    /// After a restore: put the workspace on hold and end every credential but a new one of the owner
    #[arg(long, group = "step")]
    restored: bool,
    /// Take the hold off
    #[arg(long, group = "step")]
    resume: bool,
    /// With --restored: where the owner's new token goes, a new file that only you can read
    #[arg(long, value_name = "TOKEN_FILE", default_value = ".local/restored-owner-token", conflicts_with = "resume")]
    out: PathBuf,
    #[command(flatten)]
    database: DatabaseArguments,
}

/// Starts the hold, or ends it.
pub(crate) async fn reconcile(arguments: ReconcileArguments) -> anyhow::Result<Output> {
    let database = arguments.database.resolve()?;
    if arguments.resume {
        let resumed = restore::resume(on(&database)).await?;
        return Ok(Output::Json(json!({ "on_hold": false, "resumed": resumed })));
    }
    // The file first: a crash in between leaves a token that is not in force, and never a workspace that nobody can enter.
    let new = NewFile::prepare_secret(&arguments.out)?;
    let token = local::random()?;
    new.finish(format!("{}\n", token.expose_secret()).as_bytes())?;
    if let Err(error) = restore::begin(on(&database).owner_token(token.expose_secret())).await {
        // Worth nothing, and in the way of the next try, which makes another one.
        std::fs::remove_file(&arguments.out).with_context(|| format!("can't remove {}", arguments.out.display()))?;
        return Err(error.into());
    }
    Ok(Output::Json(json!({ "on_hold": true, "token_file": arguments.out.to_string_lossy() })))
}

/// The schema of PostgreSQL is brought up to date by `migrate` only; a SQLite file has one user, and a copy is made first.
fn on(database: &DatabaseUrl) -> EngineBuilder {
    migrate::on(Engine::builder(), database).migrate(matches!(database, DatabaseUrl::Sqlite(_)))
}
