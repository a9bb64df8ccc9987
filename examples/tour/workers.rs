//! The worker's inbox: lease, extend, give back, acknowledge, and the loop that does it all.

use anyhow::Context as _;
use beepgrid::{
    CancellationToken, Delivery, DeliveryId, ErrorCode, HeartbeatInput, InboxInput, JsonMap, ReleaseInput, RequeueInput,
    RunOptions, RunStatus, SendInput,
};
use tokio::sync::{mpsc, watch};

use crate::stage::{Log, Stage, check, refused, same, within};

pub(crate) async fn visit(log: &mut Log, stage: &Stage) -> anyhow::Result<()> {
    Log::region("Workers");
    let billing = &stage.billing;
    let mut progress = JsonMap::new();
    progress.insert("step".to_owned(), "reading the ledger".into());
    log.call("Billing is there", billing.heartbeat(HeartbeatInput::new().progress(progress))).await?;

    let leased = log.call("Billing held what is there", billing.inbox(InboxInput::new().wait_ms(5_000))).await?;
    let first = leased.first().context("Billing's inbox is empty")?;
    let extended = log.call("needs longer for the first", billing.extend(&first.id, first.generation, 60)).await?;
    check("the lease grew", extended.leased_until > first.leased_until)?;
    log.call("gives it back after all", billing.release(&first.id, ReleaseInput::new(first.generation))).await?;
    let mut held: Vec<_> = leased.iter().skip(1).map(|one| (one.id.clone(), one.generation)).collect();
    let again = log.call("and gets it again", billing.inbox(InboxInput::new().limit(100).wait_ms(5_000))).await?;
    let returned = again.iter().find(|one| one.id == first.id).context("what was given back did not come again")?;
    check("under a new lease", returned.generation > first.generation)?;
    log.call("acknowledges it", billing.ack(returned)).await?;
    held.extend(again.iter().filter(|one| one.id != first.id).map(|one| (one.id.clone(), one.generation)));
    check("more than one was waiting", !held.is_empty())?;
    let results = log.call(format_args!("acknowledges the other {}", held.len()), billing.ack_many(&held)).await?;
    check("each was received", results.iter().all(|one| one.received))?;
    same("what is left", &drained(log, stage).await?, &0)?;

    let input = SendInput::to(stage.to_billing(), "One last thing to do.");
    let sent = log.call("something new to do", stage.builder.send(input)).await?;
    let handled = run_once(stage).await?;
    let requeued =
        log.call("takes up what was parked: nothing", stage.owner.requeue_deliveries(RequeueInput::new(&stage.billing_id)));
    same("what was parked", &requeued.await?.requeued, &0)?;
    let nothing = DeliveryId::new("dlv_00000000000000000000000000000000");
    refused("a delivery that is not there", stage.owner.requeue_delivery(&nothing).await, &ErrorCode::NotFound)?;
    log.did("requeue_delivery", "would take up a parked one; there is none");
    log.did("inbox", "the loop leased, handled and acknowledged it");
    same("what was handled", &handled.payload.conversation_id, &sent.conversation_id)?;
    same("what is left", &drained(log, stage).await?, &0)
}

/// Empties the inbox; returns how much was still in it beyond what one lease could take.
async fn drained(log: &mut Log, stage: &Stage) -> anyhow::Result<usize> {
    Ok(log.call("nothing is left", stage.billing.inbox(InboxInput::new().limit(100))).await?.len())
}

/// Runs Billing's loop until one delivery is acknowledged.
async fn run_once(stage: &Stage) -> anyhow::Result<Delivery> {
    let cancel = CancellationToken::new();
    let (status, mut seen) = watch::channel(RunStatus::default());
    let (hand, mut handed) = mpsc::channel(10);
    let working = stage.billing.run_with(RunOptions::new().status(status), cancel.clone(), move |handling| {
        let hand = hand.clone();
        async move { hand.send(handling.delivery).await }
    });
    let watching = async {
        let acknowledged = within("the acknowledgement", seen.wait_for(|status| status.acknowledged == 1)).await;
        cancel.cancel();
        acknowledged?.context("the loop ended early")?;
        Ok::<_, anyhow::Error>(())
    };
    let (ended, acknowledged) = tokio::join!(working, watching);
    ended?;
    acknowledged?;
    handed.recv().await.context("nothing was handled")
}
