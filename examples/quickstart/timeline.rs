//! Prints what happened and when, and fails loudly when something did not.

use std::time::{Duration, Instant};

/// No step of the quickstart takes longer, also on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The timeline on the terminal.
pub(crate) struct Timeline(Instant);

impl Timeline {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// A heading.
    #[expect(clippy::print_stdout, clippy::unused_self, reason = "the timeline is what this program is for")]
    pub(crate) fn scene(&self, title: &str) {
        println!("\n{title}");
    }

    /// One thing that happened.
    #[expect(clippy::print_stdout, reason = "the timeline is what this program is for")]
    pub(crate) fn line(&self, who: &str, what: impl std::fmt::Display) {
        println!("  {:>8.3}s  {who:<9} {what}", self.0.elapsed().as_secs_f64());
    }
}

/// Fails with both values unless they are equal.
#[expect(clippy::needless_pass_by_value, reason = "values are written in place, like in an assertion")]
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, wanted: T) -> anyhow::Result<()> {
    anyhow::ensure!(got == wanted, "{what}: got {got:?}, wanted {wanted:?}");
    Ok(())
}

/// Waits for something, but not for ever.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> anyhow::Result<T> {
    tokio::time::timeout(PATIENCE, future).await.map_err(|_| anyhow::anyhow!("{what} did not happen within {PATIENCE:?}"))
}
