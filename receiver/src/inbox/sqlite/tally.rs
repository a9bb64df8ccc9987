//! How much the inbox holds, kept up to date with every commit: counting ten thousand rows after each handover would cost more than it.

use beepgrid::DeliveryKind;

use super::super::Counts;
use super::super::rules::RowState;
use crate::input::InputState;

/// What one transaction changes in the counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pending: i64,
    submitting: i64,
    held: i64,
    ordinary: i64,
    results: i64,
    rows: i64,
}

impl Tally {
    /// A row was made.
    pub(super) fn added(&mut self, kind: &DeliveryKind) {
        self.rows += 1;
        self.pending += 1;
        *self.lane(kind) += 1;
    }

    /// A row went from one state to another.
    pub(super) fn moved(&mut self, kind: &DeliveryKind, from: &RowState, to: &RowState) {
        for (state, by) in [(from, -1), (to, 1)] {
            if state.state == InputState::Accepted {
                continue;
            }
            *self.lane(kind) += by;
            match state.state {
                _ if state.held.is_some() => self.held += by,
                InputState::Pending => self.pending += by,
                _ => self.submitting += by,
            }
        }
    }

    /// Accepted rows were forgotten.
    pub(super) fn forgotten(&mut self, rows: u32) {
        self.rows -= i64::from(rows);
    }

    fn lane(&mut self, kind: &DeliveryKind) -> &mut i64 {
        let is_result = matches!(kind, DeliveryKind::RequestResult | DeliveryKind::RequestWithdrawn);
        if is_result { &mut self.results } else { &mut self.ordinary }
    }

    /// The counts after the commit.
    pub(super) fn apply(self, counts: &mut Counts) {
        let add = |count: &mut u32, by: i64| {
            *count = u32::try_from((i64::from(*count) + by).max(0)).unwrap_or(u32::MAX);
        };
        add(&mut counts.pending, self.pending);
        add(&mut counts.submitting, self.submitting);
        add(&mut counts.held, self.held);
        add(&mut counts.open_ordinary, self.ordinary);
        add(&mut counts.open_results, self.results);
        add(&mut counts.rows, self.rows);
    }
}
