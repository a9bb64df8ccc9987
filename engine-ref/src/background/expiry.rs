//! Closes requests whose deadline has come, within a second. Reads see them closed in time anyway; this is what tells others.

use std::time::Duration;

use beepgrid::RequestId;

use crate::core::Core;
use crate::service::{Refusal, requests};
use crate::store::{self, ReadTx};

/// How often it looks: one walk to the near end of an index.
const PERIOD: Duration = Duration::from_millis(500);
/// Requests closed in one piece, so that other writes are not held up.
const BATCH: i64 = 50;

/// Sweeps until the engine stops.
pub(crate) async fn run(core: Core) {
    while !core.stopping().is_cancelled() {
        match sweep(&core).await {
            Ok(full) if full => continue,
            Ok(_) => {}
            Err(refusal) => tracing::warn!(?refusal, "requests that are due could not be closed; trying again"),
        }
        let next = core.clock().now().plus(PERIOD);
        tokio::select! {
            () = core.stopping().cancelled() => {}
            () = core.clock().sleep_until(next) => {}
        }
    }
}

/// Closes one batch of what is due; true if there may be more at once.
async fn sweep(core: &Core) -> Result<bool, Refusal> {
    let look = |tx: &ReadTx<'_>| if store::hold::is_on(tx)? { Ok(Vec::new()) } else { Ok(store::requests::due(tx, BATCH)?) };
    let due = core.store().read(look).await?;
    if due.is_empty() {
        return Ok(false);
    }
    let full = i64::try_from(due.len()).is_ok_and(|count| count == BATCH);
    let batch = due.clone();
    let together = core.tend(move |tx| batch.iter().try_for_each(|id| requests::expire(tx, id).map(drop))).await;
    match together {
        Ok(done) => Ok(full && done.is_some()),
        // One that can't be closed must not keep the others open.
        Err(Refusal::Internal { reason }) => {
            tracing::error!(%reason, "a batch of due requests failed; closing them one by one");
            one_by_one(core, due).await
        }
        Err(other) => Err(other),
    }
}

/// Never asks for more at once: what fails would come again without a pause.
async fn one_by_one(core: &Core, due: Vec<RequestId>) -> Result<bool, Refusal> {
    for id in due {
        let name = id.clone();
        if let Err(refusal) = core.tend(move |tx| requests::expire(tx, &id)).await {
            tracing::error!(request = %name, ?refusal, "a due request could not be closed");
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
