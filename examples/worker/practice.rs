//! What a peer does to a worker, and what must come of it.

use beepgrid::{AskInput, DeliveryKind, Error, InboxInput, Outcome, RequestKind, SendInput};
use beepgrid_examples::place::{Practice, say, within};
use tokio::task::JoinHandle;

pub(crate) async fn practise(practice: Practice, serving: JoinHandle<Result<(), Error>>) -> anyhow::Result<()> {
    let peer = &practice.peer;
    peer.send(SendInput::to(practice.agent(), "The build is red.")).await?;
    let reply = within("a reply", async {
        loop {
            for delivery in peer.inbox(InboxInput::new().kinds(vec![DeliveryKind::Message]).wait_ms(10_000)).await? {
                peer.ack(&delivery).await?;
                if let Some(message) = delivery.payload.message {
                    return anyhow::Ok(message.body);
                }
            }
        }
    })
    .await??;
    say("peer", format_args!("reads {reply:?}"));
    anyhow::ensure!(reply == "Noted: The build is red.", "the reply was {reply:?}");
    let asks = [
        (AskInput::to(practice.agent(), "Which region?").choices(["EU", "US"]), Outcome::Answered),
        (AskInput::to(practice.agent(), "Rerun the build.").kind(RequestKind::Task), Outcome::Completed),
        (AskInput::to(practice.agent(), "May I delete it?").kind(RequestKind::Approval), Outcome::Denied),
    ];
    for (ask, wanted) in asks {
        let request = peer.ask(ask).await?;
        let decided = within("a decision", peer.wait(&request.id)).await??;
        let outcome = decided.response.map(|response| response.outcome);
        anyhow::ensure!(outcome == Some(wanted.clone()), "the outcome was {outcome:?}, not {wanted:?}");
        say("peer", format_args!("gets {wanted}"));
    }
    serving.abort();
    practice.end().await;
    Ok(())
}
