//! A worker that handles one delivery after the other: it answers messages, decides what is asked of it, and hears of its own results.
//!
//! `cargo run --example worker` practises at an engine of its own. With `BEEPGRID_URL` and `BEEPGRID_TOKEN_FILE` (and `BEEPGRID_AGENT_ID` to
//! enrol) it serves that engine until Ctrl-C. For input while a model works take `steer_host` instead.

mod practice;

use beepgrid::{
    CancellationToken, Client, Delivery, DeliveryKind, Handling, Key, Outcome, Request, RequestKind, ResponseInput, SendInput,
};
use beepgrid_examples::place::{Place, say};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::find("worker").await?;
    let stop = CancellationToken::new();
    tokio::spawn({
        let stop = stop.clone();
        async move {
            // An error means that there are no signals here: then the engine or the practice ends the worker.
            if tokio::signal::ctrl_c().await.is_ok() {
                stop.cancel();
            }
        }
    });
    let agent = place.agent.clone();
    let serving = tokio::spawn(async move {
        agent
            .run(stop.clone(), |handling: Handling| {
                let agent = agent.clone();
                async move { handle(&agent, &handling.delivery).await }
            })
            .await
    });
    match place.practice {
        Some(practice) => practice::practise(practice, serving).await,
        None => Ok(serving.await??),
    }
}

/// Whatever comes may come twice: each effect has a key made of the delivery's id, so that it happens once.
async fn handle(agent: &Client, delivery: &Delivery) -> anyhow::Result<()> {
    let key: Key = format!("worker/{}", delivery.id).parse()?;
    let (message, request) = (&delivery.payload.message, &delivery.payload.request);
    match (&delivery.kind, message, request) {
        (DeliveryKind::Message, Some(message), _) => {
            say("worker", format_args!("is told {:?}", message.body));
            // What arrives is a peer's word, not the owner's: check it before you act on it.
            let reply = SendInput::reply(&message.conversation_id, format!("Noted: {}", message.body));
            agent.send(reply).key(key).await?;
        }
        (DeliveryKind::Request, _, Some(request)) => match decide(request) {
            Some(response) => drop(agent.respond(&request.id, response).key(key).await?),
            None => say("worker", format_args!("leaves {} to the others that were asked", request.id)),
        },
        (DeliveryKind::RequestResult, _, Some(request)) => {
            say("worker", format_args!("learns that {} is {}", request.id, request.state));
        }
        (DeliveryKind::RequestWithdrawn, _, Some(request)) => {
            say("worker", format_args!("need not decide {} any more", request.id));
        }
        (kind, ..) => say("worker", format_args!("does not know {kind} deliveries")),
    }
    Ok(())
}

/// Your own judgement goes here. Never approve an action that you did not check.
fn decide(request: &Request) -> Option<ResponseInput> {
    say("worker", format_args!("is asked {:?} ({})", request.body, request.kind));
    match request.kind {
        RequestKind::Question => {
            let answer = request.choices.first().map_or("I don't know.", String::as_str);
            Some(ResponseInput::answered(request.version, answer))
        }
        RequestKind::Task => Some(ResponseInput::new(Outcome::Completed, request.version)),
        RequestKind::Approval => Some(ResponseInput::new(Outcome::Denied, request.version)),
        _ => None,
    }
}
