//! Every operation, region by region: what each is called with, and what has to come back.
//!
//! `cargo run --example tour` starts an engine in this process. With `BEEPGRID_URL` and `BEEPGRID_TOKEN_FILE` set it visits that one
//! as its owner: use a workspace that may be thrown away. `BEEPGRID_TOUR_MESSAGES_ONLY=1` ends it after the first exchange.
//!
//! Each call is a line; the program fails at the first one that does not hold, and at the end if an operation of the client's table
//! was left out.

mod answers;
mod channels;
mod chats;
mod coordinator;
mod coverage;
mod credentials;
mod events;
mod executions;
mod files;
mod groups;
mod identity;
mod messages;
mod queries;
mod requests;
mod setup;
mod stage;
mod workers;

use beepgrid::Client;
use beepgrid_engine_ref::Engine;
use stage::{Log, Stage};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut log = Log::start();
    let running = match std::env::var_os("BEEPGRID_URL") {
        Some(_) => None,
        None => Some(Engine::builder().in_memory().workspace("tour").start().await?),
    };
    let owner = match &running {
        Some(engine) => engine.owner(),
        None => Client::from_env()?,
    };
    tour(&mut log, owner).await?;
    if let Some(engine) = running {
        engine.stop().await;
    }
    Ok(())
}

async fn tour(log: &mut Log, owner: Client) -> anyhow::Result<()> {
    let stage = Stage::set(log, owner).await?;
    let sent = messages::exchange(log, &stage).await?;
    if std::env::var_os("BEEPGRID_TOUR_MESSAGES_ONLY").is_some_and(|value| value == "1") {
        Log::region("The first exchange held. The other regions are left out: BEEPGRID_TOUR_MESSAGES_ONLY is set.");
        return Ok(());
    }
    credentials::visit(log, &stage).await?;
    messages::visit(log, &stage).await?;
    let blocking = requests::visit(log, &stage).await?;
    answers::visit(log, &stage).await?;
    chats::visit(log, &stage).await?;
    files::visit(log, &stage).await?;
    let connection = queries::visit(log, &stage, &sent, &blocking).await?;
    workers::visit(log, &stage).await?;
    identity::visit(log, &stage).await?;
    groups::visit(log, &stage).await?;
    channels::visit(log, &stage, connection).await?;
    events::visit(log, &stage, &sent).await?;
    executions::visit(log, &stage).await?;
    let planning = coordinator::visit(log, &stage).await?;
    coverage::check(log, planning)
}
