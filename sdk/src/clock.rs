//! The only place of this crate that reads the wall clock; durations are measured on tokio's clock.

use crate::model::Timestamp;

/// Now, by the system's clock.
#[expect(
    clippy::disallowed_methods,
    reason = "dates in Retry-After and credential expiry are wall-clock times; this is the one reader"
)]
pub(crate) fn now() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
}
