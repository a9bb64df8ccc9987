//! Sets aside what can't be delivered: tried 20 times over 24 hours, or meant for one instance that is gone. And lets any
//! instance have what was kept for one that is gone or silent.

use std::time::Duration;

use beepgrid::InstanceId;

use crate::core::Core;
use crate::service::limits::PARK_AFTER;
use crate::service::{Refusal, deliveries};
use crate::store::{WriteTx, deliveries as rows};

/// How long something may be overdue for it.
const INTERVAL: Duration = Duration::from_secs(10);
/// Deliveries of one write: others get their turn in between.
const BATCH: i64 = 200;

/// Runs until the engine stops.
pub(crate) async fn run(core: Core) {
    loop {
        if let Err(refusal) = sweep(&core).await {
            tracing::warn!(?refusal, "deliveries could not be parked; tried again soon");
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

/// Parks and lets go what is due for it, in short writes and only where a look found something.
pub(crate) async fn sweep(core: &Core) -> Result<(), Refusal> {
    if core.is_on_hold().await? {
        return Ok(());
    }
    park_exhausted(core).await?;
    let mut after = InstanceId::default();
    while let Some(instance) = next_absent(core, after).await? {
        after = instance.clone();
        loop {
            let id = instance.clone();
            let done = core.tend(move |tx| deliveries::let_go(tx, &id, BATCH)).await?;
            if done.is_none_or(|done| done == 0) || core.stopping().is_cancelled() {
                break;
            }
        }
    }
    Ok(())
}

async fn park_exhausted(core: &Core) -> Result<(), Refusal> {
    loop {
        let found = core.store().read(|tx| Ok(!rows::exhausted(tx, tx.now().minus(PARK_AFTER), 1)?.is_empty())).await?;
        if !found || core.stopping().is_cancelled() {
            return Ok(());
        }
        let park = |tx: &WriteTx<'_>| {
            for row in rows::exhausted(tx, tx.now().minus(PARK_AFTER), BATCH)? {
                deliveries::park(tx, &row, deliveries::REASON_ATTEMPTS)?;
            }
            Ok(())
        };
        if core.tend(park).await?.is_none() {
            return Ok(());
        }
    }
}

/// The next instance with something pinned to it that does not get it any more.
async fn next_absent(core: &Core, after: InstanceId) -> Result<Option<InstanceId>, Refusal> {
    core.store()
        .read(move |tx| {
            let mut after = after;
            while let Some(instance) = rows::next_pinned(tx, &after)? {
                if !deliveries::is_present(tx, &instance)? {
                    return Ok(Some(instance));
                }
                after = instance;
            }
            Ok(None)
        })
        .await
}

#[cfg(test)]
mod tests;
