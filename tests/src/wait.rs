//! Waiting for a state, with a limit; never sleep-then-assert.

use std::future::Future;
use std::time::Duration;

/// Asks `probe` until it gives a value.
///
/// # Panics
/// If it gives none within ten seconds.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut probe: impl FnMut() -> F) -> T {
    let asking = async {
        loop {
            if let Some(found) = probe().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(10), asking).await;
    found.unwrap_or_else(|_| panic!("waited ten seconds for: {what}"))
}
