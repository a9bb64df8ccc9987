//! A peer steers the host while it works, and the host's answer shows when the model read what.

use beepgrid::{DeliveryKind, InboxInput, SendInput};
use beepgrid_examples::place::{Practice, say, within};
use beepgrid_receiver::BusyMode;

use crate::history::History;

pub(crate) async fn practise(practice: &Practice, mode: BusyMode, history: &History) -> anyhow::Result<()> {
    say("practice", format_args!("{mode} mode at {}", practice.url()));
    let first = practice.peer.send(SendInput::to(practice.agent(), "wait 2")).await?;
    within("the tool call", async {
        while history.messages().len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await?;
    practice.peer.send(SendInput::reply(&first.conversation_id, "Also check the logs.")).await?;
    let wanted: &[&str] = match mode {
        BusyMode::Steer => &["I have read: wait 2 | Also check the logs."],
        BusyMode::Queue => &["I have read: wait 2", "I have read: Also check the logs."],
    };
    let answers = within("the answers", async {
        let mut answers = Vec::new();
        while answers.len() < wanted.len() {
            for delivery in practice.peer.inbox(InboxInput::new().kinds(vec![DeliveryKind::Message]).wait_ms(10_000)).await? {
                practice.peer.ack(&delivery).await?;
                answers.extend(delivery.payload.message.map(|message| message.body));
            }
        }
        anyhow::Ok(answers)
    })
    .await??;
    anyhow::ensure!(answers == wanted, "the answers were {answers:?}, not {wanted:?}");
    Ok(())
}
