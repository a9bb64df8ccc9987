//! One call of a binding, with its deadline.

use std::sync::Arc;
use std::time::Duration;

use beepgrid::DeliveryId;
use tokio_util::sync::CancellationToken;

use crate::binding::{Handover, InputBinding, Reconciled, Submission};
use crate::input::{Attempt, LiveInput, Route, StoredInput};

/// What is remembered of a call while it is under way.
pub(super) struct Call {
    pub(super) id: DeliveryId,
    /// `None` for a reconcile.
    pub(super) route: Option<Route>,
    pub(super) attempt: Option<Attempt>,
    /// Whether it goes beside `submit`.
    pub(super) for_result: bool,
    /// The host's reports that it was based on.
    pub(super) epoch: u64,
    pub(super) turn: u64,
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
            Some(to) => binding.submit(&input, to).await,
            None => binding.resume(&input, &cancel).await,
        }
    };
    let answer = tokio::time::timeout(deadline, answer).await;
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
            answer = binding.reconcile(&stored) => answer,
            () = cancel.cancelled() => Reconciled::Unknown,
        }
    };
    Outcome::Reconciled(tokio::time::timeout(deadline, answer).await.unwrap_or(Reconciled::Unknown))
}
