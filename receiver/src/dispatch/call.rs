//! One call of a binding, with its deadline.

use std::sync::Arc;
use std::time::Duration;

use beepgrid::DeliveryId;
use tokio_util::sync::CancellationToken;

use crate::binding::{Handover, InputBinding, Reconciled, Refusal, Submission};
use crate::input::{Attempt, LiveInput, Route, StoredInput};
use crate::mutants::{self, Mutant};

/// What is remembered of a call while it is under way.
pub(super) struct Call {
    pub(super) id: DeliveryId,
    /// The row's revision meanwhile; an answer about an older one is outdated.
    pub(super) revision: i64,
    /// `None` for a reconcile.
    pub(super) route: Option<Route>,
    /// The attempt that is made, or asked about.
    pub(super) attempt: Option<Attempt>,
    /// Whether it goes beside `submit`.
    pub(super) for_result: bool,
    /// The host's reports that it was based on.
    pub(super) epoch: u64,
    pub(super) turn: u64,
    /// The interruptions heard of when it began.
    pub(super) interruptions: u64,
}

/// What a call came to.
pub(super) enum Outcome {
    Submitted(Submission),
    Reconciled(Reconciled),
}

pub(super) async fn submit<B: InputBinding>(
    binding: Arc<B>,
    input: LiveInput,
    to: Option<Handover>,
    deadline: Duration,
    cancel: CancellationToken,
) -> Outcome {
    let _cancelled_at_the_end = cancel.clone().drop_guard();
    let answer = async {
        match to {
            // Marking it took a while; what came back since may have to go first.
            Some(to) if !to.is_current() => Submission::Refused(Refusal::NotNow),
            Some(to) => binding.submit(&input, to).await,
            None => binding.resume(&input, &cancel).await,
        }
    };
    let answer = tokio::time::timeout(deadline, answer).await;
    if answer.is_err() && mutants::on(Mutant::TimeoutIsRefusal) {
        return Outcome::Submitted(Submission::Refused(Refusal::Rejected(String::new())));
    }
    // No answer is not a refusal: the runtime may have the input.
    Outcome::Submitted(answer.unwrap_or_else(|_| Submission::Unknown(format!("no answer within {deadline:?}"))))
}

pub(super) async fn reconcile<B: InputBinding>(
    binding: Arc<B>,
    stored: StoredInput,
    deadline: Duration,
    cancel: CancellationToken,
) -> Outcome {
    let answer = async {
        tokio::select! {
            biased;
            answer = binding.reconcile(&stored) => answer,
            () = cancel.cancelled() => Reconciled::Unknown,
        }
    };
    Outcome::Reconciled(tokio::time::timeout(deadline, answer).await.unwrap_or(Reconciled::Unknown))
}
