//! Writes out every ten seconds who was heard of and which credentials were used.

use std::time::Duration;

use crate::core::Core;
use crate::service::{Refusal, presence};

/// How much of it a crash may lose.
const INTERVAL: Duration = Duration::from_secs(10);
/// Rows of one write: others get their turn in between.
const BATCH: usize = 500;

/// Runs until the engine stops, and writes out once more then.
pub(crate) async fn run(core: Core) {
    loop {
        // Whichever shows that time has passed: the clock may be a test's, or have been set back.
        let next = core.clock().now().plus(INTERVAL);
        let stopped = tokio::select! {
            () = tokio::time::sleep(INTERVAL) => false,
            () = core.clock().sleep_until(next) => false,
            () = core.stopping().cancelled() => true,
        };
        if let Err(refusal) = write_out(&core).await {
            // It stays in memory and is written next time.
            tracing::warn!(?refusal, "presence could not be written out");
        }
        if stopped {
            return;
        }
    }
}

/// Writes out what there is.
pub(crate) async fn write_out(core: &Core) -> Result<(), Refusal> {
    let all = core.presence().unwritten();
    let instances =
        all.instances.chunks(BATCH).map(|part| presence::Unwritten { instances: part.to_vec(), ..Default::default() });
    let credentials =
        all.credentials.chunks(BATCH).map(|part| presence::Unwritten { credentials: part.to_vec(), ..Default::default() });
    for part in instances.chain(credentials) {
        let written = part.clone();
        core.store().write(move |tx| presence::write_out(tx, &part)).await?;
        core.presence().written(&written);
    }
    Ok(())
}
