//! Removes drafts that nobody claimed, and bytes that nothing refers to any more. Reads see a draft gone in time anyway.
//!
//! A draft goes in a write of its own, as a claim comes in one: whichever is first, the other finds it so. Bytes go after it, once no
//! record refers to them, and none ever will again: records over known bytes are made from records.

use std::time::Duration;

use beepgrid::Timestamp;

use crate::core::Core;
use crate::service::{Refusal, files};
use crate::store::{attachments, blobs};

/// How often it looks: two walks to the near end of an index.
const PERIOD: Duration = Duration::from_secs(60);
/// Drafts removed in one write, so that others are not held up.
const BATCH: i64 = 50;
/// How old bytes are at least that go: no upload takes as long.
const SETTLED: Duration = Duration::from_secs(60 * 60);

/// Sweeps until the engine stops.
pub(crate) async fn run(core: Core) {
    while !core.stopping().is_cancelled() {
        if let Err(refusal) = sweep(&core).await {
            tracing::warn!(?refusal, "unclaimed drafts could not be removed; trying again");
        }
        let next = core.clock().now().plus(PERIOD);
        tokio::select! {
            () = core.stopping().cancelled() => {}
            () = core.clock().sleep_until(next) => {}
        }
    }
}

async fn sweep(core: &Core) -> Result<(), Refusal> {
    loop {
        let removed = core.tend(|tx| Ok(attachments::remove_drafts(tx, files::gone_since(tx.now()), BATCH)?)).await?;
        match removed {
            Some(0) => break,
            Some(_) => {}
            // On hold: what seems to belong to nothing may yet be missed.
            None => return Ok(()),
        }
    }
    let settled = i64::try_from(SETTLED.as_micros()).unwrap_or(i64::MAX);
    let until = Timestamp::from_micros(core.clock().now().as_micros().saturating_sub(settled));
    let mut after = String::new();
    loop {
        let from = after.clone();
        let left = core.store().read(move |tx| Ok(blobs::unreferenced(tx, until, &from, BATCH)?)).await?;
        let Some(last) = left.last() else { return Ok(()) };
        after.clone_from(last);
        for id in left {
            remove(core, id).await?;
        }
    }
}

/// The file first: a row without a file is found again, a file without a row never.
async fn remove(core: &Core, id: String) -> Result<(), Refusal> {
    if core.is_on_hold().await? {
        return Ok(());
    }
    if let Some(folder) = core.store().blobs().folder().cloned() {
        let name = id.clone();
        let removed = tokio::task::spawn_blocking(move || folder.remove(&name)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(%error, blob = id, "the bytes of a removed file stay on the disk; trying again");
            return Ok(());
        }
    }
    core.tend(move |tx| Ok(blobs::remove(tx, &id)?)).await.map(drop)
}

#[cfg(test)]
mod tests;
