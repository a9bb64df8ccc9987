//! Starts a call of the binding: picks the content up, marks the row on disk, asks or hands over.

use std::sync::Arc;
use std::time::Duration;

use beepgrid::DeliveryId;
use tokio_util::sync::CancellationToken;

use super::call::{self, Call};
use super::{Dispatcher, Step};
use crate::binding::{Handover, HostState, InputBinding, Verdict, Work};
use crate::hooks;
use crate::inbox::{Applied, InboxStore, NextState, StateChange};
use crate::input::{Attempt, BusyMode, Content, HeldReason, InputState, Route, StoredInput};
use crate::mutants::{self, Mutant};
use crate::schedule::Lane;

impl<I: InboxStore, B: InputBinding> Dispatcher<I, B> {
    /// Marks a row on disk and calls the binding with it; `mode` is `None` for `resume`.
    pub(super) async fn start(
        &mut self,
        id: DeliveryId,
        mode: Option<BusyMode>,
        host: &HostState,
        epoch: u64,
        cancel: &CancellationToken,
    ) -> Step {
        hooks::reached(hooks::PICKED);
        let Some(stored) = (match self.shared.inbox.get(id.clone()).await {
            Ok(stored) => stored,
            Err(error) => return self.failed("reading an input", &error),
        }) else {
            self.stale = true;
            return Step::Again;
        };
        match stored.content {
            Content::Present => {}
            Content::Unreadable => {
                self.unreadable(&stored);
                return Step::Again;
            }
            // A withdrawal or a person ended it after it was picked.
            Content::Scrubbed => {
                self.stale = true;
                return Step::Again;
            }
        }
        let route = match (mode, host.work) {
            (None, _) => Route::Resume,
            (Some(BusyMode::Steer), Work::Busy { .. }) => Route::Steer,
            (Some(_), _) => Route::Start,
        };
        let attempt = self.attempt(&stored, route, host);
        let revision = match self.mark(&stored, &attempt).await {
            Ok(revision) => revision,
            Err(step) => return step,
        };
        let call = Call {
            id,
            revision,
            route: Some(route),
            attempt: Some(attempt),
            for_result: mode.is_none(),
            epoch,
            turn: host.turn,
            interruptions: self.interruptions,
        };
        let cancel = cancel.child_token();
        // Only running work can be the wrong turn: an idle host has none.
        let expected = host.turn_id.clone().filter(|_| route == Route::Steer);
        let line = self.parts.line.clone();
        let to = mode.map(|mode| Handover::new(mode, cancel.clone()).expected_turn(expected).decided_on(line, epoch));
        let work = call::submit(Arc::clone(&self.parts.binding), stored.input, to, self.deadline(), cancel);
        let task = self.calls.spawn(work);
        self.under_way.insert(task.id(), call);
        Step::Again
    }

    /// Marks a row on disk as about to be handed over; returns its revision, or what to do instead.
    async fn mark(&mut self, stored: &StoredInput, attempt: &Attempt) -> Result<i64, Step> {
        let id = &stored.id;
        let early = mutants::on(Mutant::AcceptedBeforeSubmit);
        let to = if early { NextState::Accepted } else { NextState::Submitting(attempt.clone()) };
        let change = StateChange { id: id.clone(), revision: stored.revision, to };
        let changes = if mutants::on(Mutant::MarkSkipped) { Vec::new() } else { vec![change] };
        let applied = match self.shared.inbox.set_state(changes, self.shared.clock.now()).await {
            Ok(_) if mutants::on(Mutant::MarkSkipped) => {
                vec![Applied::Done { revision: stored.revision, attempts: stored.attempts }]
            }
            Ok(applied) => applied,
            Err(error) => return Err(self.failed("marking an input", &error)),
        };
        self.count = true;
        let Some(Applied::Done { revision, attempts }) = applied.first().copied() else {
            self.stale = true;
            return Err(Step::Again);
        };
        self.works();
        self.table.calling(id, revision, attempts);
        hooks::reached(hooks::MARKED);
        // A refusal of an earlier attempt, said while the binding was asked about it, is none of this one.
        let earlier = if mutants::on(Mutant::EarlierVerdictCounts) { None } else { self.parts.line.take_verdict(id) };
        if earlier == Some(Verdict::Accepted) {
            self.record(id, NextState::Accepted);
            return Err(Step::Again);
        }
        Ok(revision)
    }

    pub(super) async fn reconcile(&mut self, id: DeliveryId, host: &HostState, epoch: u64, cancel: &CancellationToken) -> Step {
        let stored = match self.shared.inbox.get(id.clone()).await {
            Ok(Some(stored)) => stored,
            Ok(None) => {
                self.stale = true;
                return Step::Again;
            }
            Err(error) => return self.failed("reading an input", &error),
        };
        let revision = self.table.revision(&id);
        if stored.revision != revision {
            // A person settled it after it was picked.
            self.stale = true;
            return Step::Again;
        }
        let earlier = |attempt: &Attempt| attempt.receiver != self.shared.run;
        if mutants::on(Mutant::ReconcileSkippedAtStart) && stored.attempt.as_ref().is_some_and(earlier) {
            self.again(&id, String::new(), 1);
            return Step::Again;
        }
        let for_result = self.table.get(&id).is_some_and(|row| row.lane == Lane::Result);
        self.table.asking(&id);
        let interruptions = self.interruptions;
        let call = Call {
            id,
            revision,
            route: None,
            attempt: stored.attempt.clone(),
            for_result,
            epoch,
            turn: host.turn,
            interruptions,
        };
        let work = call::reconcile(Arc::clone(&self.parts.binding), stored, self.deadline(), cancel.child_token());
        let task = self.calls.spawn(work);
        self.under_way.insert(task.id(), call);
        Step::Again
    }

    fn attempt(&self, stored: &StoredInput, route: Route, host: &HostState) -> Attempt {
        let number = stored.attempts.saturating_add(1);
        let mut attempt = Attempt::new(number, self.shared.run.clone(), self.shared.clock.now(), route);
        attempt.session.clone_from(&host.session);
        attempt.process.clone_from(&host.process);
        attempt.turn.clone_from(&host.turn_id);
        attempt
    }

    /// A row that can't be read must not stand in the way of others, nor be tried for ever.
    fn unreadable(&mut self, stored: &StoredInput) {
        self.backlog.insert(
            stored.id.clone(),
            NextState::Held {
                state: InputState::Pending,
                reason: HeldReason::Unreadable,
                detail: "the stored content can't be read".to_owned(),
            },
        );
    }

    fn deadline(&self) -> Duration {
        self.shared.config.call_deadline
    }
}
