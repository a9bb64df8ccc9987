//! Whether every operation of the client's table was called.

use beepgrid::{Family, OPERATIONS, Operation};

use crate::stage::Log;

/// Fails if an operation was left out. Without a model (`planning` is false) the Coordinator's may be.
pub(crate) fn check(log: &Log, planning: bool) -> anyhow::Result<()> {
    let (skipped, missed): (Vec<&Operation>, Vec<&Operation>) = OPERATIONS
        .iter()
        .filter(|operation| !log.called.contains(operation.name))
        .partition(|operation| operation.family == Family::Coordinator && !planning);
    for operation in &skipped {
        log.line("SKIPPED", format_args!("{}: no model is configured", operation.name));
    }
    let missed: Vec<_> = missed.iter().map(|operation| operation.name).collect();
    anyhow::ensure!(missed.is_empty(), "the tour left out {}", missed.join(", "));
    let called = OPERATIONS.len() - skipped.len();
    Log::region(&format!(
        "Everything held. Of the {} operations with a method {called} were called and {} skipped.",
        OPERATIONS.len(),
        skipped.len()
    ));
    Ok(())
}
