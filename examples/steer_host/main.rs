//! A host that owns its model loop: tools, a durable history, and live input that joins the running work (steer) or waits (queue).
//!
//! `cargo run --example steer_host` practises with a scripted model at an engine of its own. To steer it yourself start `beepgrid serve --dev`,
//! export its two variables and `BEEPGRID_AGENT_ID=team/host`, run this, and from a second terminal
//! `beepgrid send agent team/host "wait 20"`, then, while it works, `beepgrid send agent team/host "Also check the logs."`.
//! `BEEPGRID_BUSY_MODE` is `steer` (default) or `queue`. `MODEL_URL` (such as `http://127.0.0.1:11434/v1`), `MODEL_NAME` and `MODEL_KEY` name any
//! endpoint for chat completions with tools.

mod history;
mod model;
mod practice;
mod scripted;

use std::sync::Arc;

use beepgrid::{CancellationToken, Client, Key, SendInput};
use beepgrid_examples::place::{Place, say};
use beepgrid_receiver::checkpoint::{self, Host, Options, Turn};
use beepgrid_receiver::{BusyMode, LiveInput, Receiver, Reconciled, SqliteInbox, frame};
use history::History;
use model::{Model, Reply};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::find("steer-host").await?;
    let mode: BusyMode = std::env::var("BEEPGRID_BUSY_MODE").map_or(Ok(BusyMode::Steer), |mode| mode.parse())?;
    let history = Arc::new(History::open(&place.folder.join("history.jsonl"))?);
    // After a crash the receiver asks here whether the model's context has an input already.
    let known = Arc::clone(&history);
    let options = Options::new().history(move |id| {
        let found = if known.holds(id.as_str()) { Reconciled::Accepted } else { Reconciled::Retry };
        async move { found }
    });
    let (binding, host) = checkpoint::channel(options);
    let inbox = SqliteInbox::open(place.folder.join("inbox")).await?;
    let receiver = Receiver::builder(place.agent.clone(), inbox, binding).mode(mode).build()?;
    let stop = CancellationToken::new();
    let receiving = tokio::spawn(receiver.run(stop.clone()));
    let working = tokio::spawn(work(place.agent, host, Arc::clone(&history), Model::from_env().await?));
    if let Some(practice) = place.practice {
        practice::practise(&practice, mode, &history).await?;
        stop.cancel();
        practice.end().await;
    } else {
        let ctrl_c = stop.clone();
        tokio::spawn(async move { tokio::signal::ctrl_c().await.map(|()| ctrl_c.cancel()) });
    }
    working.await??;
    Ok(receiving.await??)
}

/// One turn after the other, until the receiver ends.
async fn work(agent: Client, host: Host, history: Arc<History>, model: Model) -> anyhow::Result<()> {
    while let Some(turn) = host.next().await {
        if let Err(error) = serve(&agent, &host, &history, &model, turn).await {
            say("host", format_args!("the turn failed: {error:#}"));
        }
    }
    Ok(())
}

async fn serve(agent: &Client, host: &Host, history: &History, model: &Model, mut turn: Turn) -> anyhow::Result<()> {
    let first = turn.input().clone();
    take(history, &first)?;
    turn.accept();
    loop {
        // The boundary before each model call: what came meanwhile joins here.
        let joined = host.checkpoint().await;
        joined.inputs().iter().try_for_each(|input| take(history, input))?;
        joined.accept();
        match model.complete(&history.messages()).await? {
            Reply::Call { id, name, arguments, message } => {
                history.add(None, message)?;
                let result = model::tool(&name, &arguments).await;
                history.add(None, model::tool_result(&id, &result))?;
            }
            Reply::Text { text, message } => {
                history.add(None, message)?;
                say("model", &text);
                // One answer for each input that opened a turn, however often this is repeated.
                let key: Key = format!("steer-host/{}", first.id).parse()?;
                agent.send(SendInput::reply(&first.conversation_id, text)).key(key).await?;
                break;
            }
        }
    }
    turn.finish();
    Ok(())
}

/// Writes an input into the history, framed as somebody's message; only then it is ours.
fn take(history: &History, input: &LiveInput) -> anyhow::Result<()> {
    say("host", format_args!("takes {} {:?}", input.id, input.body()));
    history.add(Some(input.id.as_str()), model::user(&frame::frame(input, None)))
}
