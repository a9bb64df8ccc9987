//! Named points at which a crash test can stop the process before it is killed; nothing in ordinary builds.

use crate::inbox::NextState;

/// After a batch was leased, before any of it is stored.
pub(crate) const LEASED: &str = "intake.leased";
/// After the engine answered an ack, before that is noted.
pub(crate) const ACKED: &str = "intake.acked";
/// After the batch is committed, before it is acknowledged.
pub(crate) const STORED: &str = "intake.stored";
/// After the `submitting` mark is durable, before the binding is called.
pub(crate) const MARKED: &str = "dispatch.marked";
/// After a row was picked, before anything is written.
pub(crate) const PICKED: &str = "dispatch.picked";
/// After the binding answered, before the answer is recorded.
pub(crate) const TAKEN: &str = "dispatch.taken";
/// Inside the transaction that stores a batch, between two rows.
pub(crate) const MID_BATCH: &str = "inbox.mid_batch";

/// After what became of a row is on disk: the point's name says what.
pub(crate) fn recorded(to: &NextState) {
    reached(match to {
        NextState::Submitting(_) => "recorded.submitting",
        NextState::Evidence(_) => "recorded.evidence",
        NextState::Pending { .. } => "recorded.pending",
        NextState::Held { .. } => "recorded.held",
        NextState::Accepted => "recorded.accepted",
    });
}

/// Stops here for good if the environment asks for it, after saying so on standard output.
#[cfg(feature = "testing")]
pub(crate) fn reached(point: &str) {
    use std::io::Write as _;
    use std::sync::OnceLock;

    // Read once: simulations come by here millions of times.
    static WANTED: OnceLock<Option<String>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| std::env::var("BEEPGRID_RECEIVER_PAUSE_AT").ok());
    if wanted.as_deref() == Some(point) {
        let mut out = std::io::stdout();
        let _ = writeln!(out, "\nreached {point}");
        let _ = out.flush();
        loop {
            std::thread::park();
        }
    }
}

#[cfg(not(feature = "testing"))]
pub(crate) fn reached(_point: &str) {}
