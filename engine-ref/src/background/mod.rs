//! What runs beside the calls, one file per job. Every job ends when the engine stops.

mod drafts;
mod expiry;
mod parking;
mod presence;
pub(crate) mod retention;

#[cfg(test)]
pub(crate) use self::parking::sweep as parking_sweep;

use tokio_util::task::TaskTracker;

use crate::core::Core;

/// Starts every job.
pub(crate) fn start(core: &Core, jobs: &TaskTracker) {
    jobs.spawn(drafts::run(core.clone()));
    jobs.spawn(expiry::run(core.clone()));
    jobs.spawn(parking::run(core.clone()));
    jobs.spawn(presence::run(core.clone()));
}
