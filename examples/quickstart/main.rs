//! The main job, end to end: an engine in this process, two agents, live input that joins running work or waits for its end,
//! a typed question, and a receiver that dies at the worst moment.
//!
//! `cargo run --example quickstart`. Every line of the timeline comes from what really happened: engine answers and inbox states.
//! The program fails if any step did not hold.

mod stage;
mod timeline;

use beepgrid::{AskInput, DeliveryKind, InboxInput, RequestState, ResponseInput, SendInput, Target};
use beepgrid_receiver::{BusyMode, InboxStore, InputState};
use stage::{Running, Stage};
use timeline::{same, within};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    idle(&stage).await?;
    steer(&stage).await?;
    queue(&stage).await?;
    question(&stage).await?;
    crash(&stage).await?;
    stage.timeline.scene("Everything held.");
    stage.strike().await;
    Ok(())
}

/// 1. A message reaches an idle agent, which replies in the same conversation.
async fn idle(stage: &Stage) -> anyhow::Result<()> {
    stage.timeline.scene("1. Builder is idle; Billing sends a message");
    let mut receiver = stage.receive(BusyMode::Steer).await?;
    let sent = stage.billing_says("Order 241 is short by three pieces.").await?;
    let mut turn = within("the first turn", receiver.host.next()).await?.ok_or(Ended)?;
    stage.timeline.line("Builder", format_args!("takes {:?} from its inbox", turn.input().body()));
    same("the conversation", turn.input().conversation_id.clone(), sent.conversation_id.clone())?;
    turn.accept();
    stage.builder.send(SendInput::reply(&sent.conversation_id, "Three more are on their way.")).await?;
    turn.finish();
    receiver.until("an empty inbox", |status| status.pending + status.submitting == 0).await?;

    let read = stage.billing.conversation(&sent.conversation_id).await?;
    for message in &read.messages {
        let by = read.participants.iter().find(|one| one.id == message.sender_id).map_or("?", |one| &one.name);
        stage.timeline.line("engine", format_args!("has message {} of {by}: {:?}", message.sequence, message.body));
    }
    let senders: Vec<_> = read.messages.iter().map(|message| message.sender_id.clone()).collect();
    same("the senders", senders, vec![stage.billing_id.clone(), stage.builder_id.clone()])?;
    acknowledge(stage).await?;
    receiver.stop().await
}

/// 2a. While Builder works, two messages join at the next boundary between its steps.
async fn steer(stage: &Stage) -> anyhow::Result<()> {
    stage.timeline.scene("2a. Steer: input joins the running work");
    let mut receiver = stage.receive(BusyMode::Steer).await?;
    let mut joined = Vec::new();
    let turn = begin(stage, &receiver, "Reconcile the orders of March.").await?;
    for step in 1..=3 {
        if step == 2 {
            stage.billing_says("Leave order 250 out.").await?;
            stage.billing_says("And round to cents.").await?;
            receiver.until("two inputs in the inbox", |status| status.pending == 2).await?;
        }
        let batch = receiver.host.checkpoint().await;
        for input in batch.inputs() {
            stage.timeline.line("Builder", format_args!("at the boundary after step {step} joins {:?}", input.body()));
            joined.push(input.body().to_owned());
        }
        batch.accept();
    }
    turn.finish();
    same("what joined", joined, vec!["Leave order 250 out.".to_owned(), "And round to cents.".to_owned()])?;
    receiver.until("an empty inbox", |status| status.pending + status.submitting == 0).await?;
    receiver.stop().await
}

/// 2b. The same in queue mode: the two wait, in order, until the task is done.
async fn queue(stage: &Stage) -> anyhow::Result<()> {
    stage.timeline.scene("2b. Queue: input waits until the work is done");
    let mut receiver = stage.receive(BusyMode::Queue).await?;
    let turn = begin(stage, &receiver, "Reconcile the orders of April.").await?;
    stage.billing_says("Then send me the total.").await?;
    stage.billing_says("And archive the list.").await?;
    let status = receiver.until("two inputs in the inbox", |status| status.pending == 2).await?;
    for step in 1..=3 {
        same("what joined", receiver.host.checkpoint().await.inputs().len(), 0)?;
        stage.timeline.line("Builder", format_args!("after step {step}: nothing joins, {} wait", status.pending));
    }
    turn.finish();
    for wanted in ["Then send me the total.", "And archive the list."] {
        let mut turn = within("a queued turn", receiver.host.next()).await?.ok_or(Ended)?;
        stage.timeline.line("Builder", format_args!("is idle and takes {:?}", turn.input().body()));
        same("the order", turn.input().body(), wanted)?;
        turn.accept();
        turn.finish();
    }
    receiver.stop().await
}

/// 3. A typed question: Builder goes on working, and the answer reaches the waiter past a queued message.
async fn question(stage: &Stage) -> anyhow::Result<()> {
    stage.timeline.scene("3. Builder asks a question and goes on working");
    let mut receiver = stage.receive(BusyMode::Queue).await?;
    let turn = begin(stage, &receiver, "Ship order 241.").await?;
    let ask = AskInput::to(Target::agent(&stage.billing_id), "Which region is order 241 in?").choices(["EU", "US"]);
    let request = stage.builder.ask(ask).await?;
    stage.timeline.line("Builder", format_args!("asks {:?} of {:?} and packs meanwhile", request.body, request.choices));
    stage.billing_says("By the way: invoices go out at noon.").await?;
    receiver.until("the message in the queue", |status| status.pending == 1).await?;

    let deliveries = stage.billing.inbox(InboxInput::new().wait_ms(10_000)).await?;
    let asked = deliveries.iter().find_map(|delivery| delivery.payload.request.as_ref()).ok_or(Ended)?;
    stage.billing.respond(&asked.id, ResponseInput::answered(asked.version, "EU")).await?;
    stage.timeline.line("Billing", "answers \"EU\"");
    for delivery in &deliveries {
        stage.billing.ack(delivery).await?;
    }
    let answer = within("the answer", receiver.host.result(&request.id)).await?.ok_or(Ended)?;
    let decided = answer.input().delivery.payload.request.clone().ok_or(Ended)?;
    let said = decided.response.and_then(|response| response.answer);
    same("the answer", said.clone(), Some("EU".into()))?;
    same("the state", decided.state, RequestState::Resolved)?;
    stage.timeline.line("Builder", format_args!("has the answer {} while the message still waits", said.unwrap_or_default()));
    answer.accept();
    same("what joined", receiver.host.checkpoint().await.inputs().len(), 0)?;
    turn.finish();
    let mut turn = within("the queued turn", receiver.host.next()).await?.ok_or(Ended)?;
    stage.timeline.line("Builder", format_args!("is idle and takes {:?}", turn.input().body()));
    same("its kind", turn.input().kind.clone(), DeliveryKind::Message)?;
    turn.accept();
    turn.finish();
    receiver.stop().await
}

/// 4. The receiver stops after it handed two inputs over and before it knew that they were accepted.
async fn crash(stage: &Stage) -> anyhow::Result<()> {
    stage.timeline.scene("4. The receiver stops between submitting and accepted");
    let mut receiver = stage.receive(BusyMode::Steer).await?;
    let turn = within("the turn", async {
        stage.billing_says("Refund order 99.").await?;
        receiver.host.next().await.ok_or_else(|| anyhow::anyhow!(Ended))
    })
    .await??;
    stage.history().add(turn.input().id.as_str())?;
    stage.timeline.line("Builder", format_args!("has {:?} in its history", turn.input().body()));
    stage.billing_says("Tell the customer, too.").await?;
    receiver.until("the second input", |status| status.pending == 1).await?;
    let batch = receiver.host.checkpoint().await;
    let (known, lost) = (turn.input().id.clone(), batch.inputs().first().ok_or(Ended)?.id.clone());
    let inbox = receiver.inbox.clone();
    for row in inbox.open().await? {
        stage.timeline.line("inbox", format_args!("{} is {}", row.id, row.state.as_str()));
        same("the state", row.state, InputState::Submitting)?;
    }
    receiver.stop().await?;
    drop((batch, turn));
    stage.timeline.line("receiver", "is gone; nobody said whether the two arrived");
    stage.billing_says("And close the ticket.").await?;

    let mut receiver = stage.receive(BusyMode::Steer).await?;
    for wanted in ["Tell the customer, too.", "And close the ticket."] {
        let mut turn = within("the next turn", receiver.host.next()).await?.ok_or(Ended)?;
        stage.timeline.line("Builder", format_args!("takes {:?}", turn.input().body()));
        same("what comes again", turn.input().body(), wanted)?;
        turn.accept();
        turn.finish();
    }
    receiver.until("an empty inbox", |status| status.pending + status.submitting + status.held == 0).await?;
    for (id, what) in [(known, "found in the history, not repeated"), (lost, "not in the history, handed over again")] {
        let row = receiver.inbox.get(id).await?.ok_or(Ended)?;
        stage.timeline.line("inbox", format_args!("{} is {}: {what}", row.input.id, row.state.as_str()));
        same("the state", row.state, InputState::Accepted)?;
    }
    receiver.stop().await
}

/// Billing gives Builder a task, and Builder starts on it.
async fn begin(stage: &Stage, receiver: &Running, task: &str) -> anyhow::Result<beepgrid_receiver::checkpoint::Turn> {
    stage.billing_says(task).await?;
    let mut turn = within("the task", receiver.host.next()).await?.ok_or(Ended)?;
    stage.timeline.line("Builder", format_args!("starts on {:?}", turn.input().body()));
    same("the task", turn.input().body(), task)?;
    turn.accept();
    Ok(turn)
}

/// Billing has no receiver here: it leases and acknowledges by hand.
async fn acknowledge(stage: &Stage) -> anyhow::Result<()> {
    for delivery in stage.billing.inbox(InboxInput::new().wait_ms(10_000)).await? {
        let body = delivery.payload.message.as_ref().map_or("", |message| &message.body);
        stage.timeline.line("Billing", format_args!("receives {body:?}"));
        stage.billing.ack(&delivery).await?;
    }
    Ok(())
}

/// Something that was promised is not there.
#[derive(Debug, thiserror::Error)]
#[error("the receiver ended, or an answer lacks what the contract promises")]
struct Ended;
