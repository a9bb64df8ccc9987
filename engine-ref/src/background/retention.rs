//! Lets old events go, where the workspace is set to: in short writes, the events first and then what stands for their readers.

use std::time::Duration;

use crate::core::Core;
use crate::service::Refusal;
use crate::store::events;

/// How long an event may be kept beyond its time.
const INTERVAL: Duration = Duration::from_secs(60);
/// Events of one write, and readers of one look.
const BATCH: i64 = 500;

/// Runs until the engine stops.
pub(crate) async fn run(core: Core, keep: Duration) {
    loop {
        if let Err(refusal) = sweep(&core, keep).await {
            tracing::warn!(?refusal, "old events could not be let go; tried again soon");
        }
        // Whichever shows that time has passed: the clock may be a test's, or have been set back.
        let next = core.clock().now().plus(INTERVAL);
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = core.clock().sleep_until(next) => {}
            () = core.stopping().cancelled() => return,
        }
    }
}

/// Lets go what is older than `keep`.
pub(crate) async fn sweep(core: &Core, keep: Duration) -> Result<(), Refusal> {
    let mut gone = false;
    while !core.stopping().is_cancelled() {
        let look = move |tx: &crate::store::ReadTx<'_>| {
            let floor = events::kept(tx)?.floor;
            Ok(events::older_than(tx, floor, tx.now().minus(keep), BATCH)?)
        };
        let Some(up_to) = core.store().read(look).await? else { break };
        if core.tend(move |tx| Ok(events::forget(tx, up_to)?)).await?.is_none() {
            return Ok(());
        }
        gone = true;
    }
    if gone { forget_readers(core).await } else { Ok(()) }
}

async fn forget_readers(core: &Core) -> Result<(), Refusal> {
    let mut after = Some(String::new());
    while let Some(from) = after.take().filter(|_| !core.stopping().is_cancelled()) {
        let (last, floor, behind) = core
            .store()
            .read(move |tx| {
                let floor = events::kept(tx)?.floor;
                let (mut at, mut behind) = (from, Vec::new());
                for _ in 0..BATCH {
                    let Some((reader, first)) = events::reader_after(tx, &at)? else { return Ok((None, floor, behind)) };
                    reader.clone_into(&mut at);
                    if first <= floor {
                        behind.push(reader);
                    }
                }
                Ok((Some(at), floor, behind))
            })
            .await?;
        after = last;
        if !behind.is_empty() {
            core.tend(move |tx| behind.iter().try_for_each(|reader| Ok(events::forget_for(tx, reader, floor)?))).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
