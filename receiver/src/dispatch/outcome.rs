//! What an answer, a verdict or silence means for a row.

use beepgrid::DeliveryId;
use tokio::task::{Id, JoinError};
use tokio::time::Instant;

use super::call::{Call, Outcome};
use super::{Dispatcher, PRESUMPTION, Presumed};
use crate::binding::{InputBinding, Reconciled, Refusal, Snapshot, Submission, Verdict, Work};
use crate::hooks;
use crate::inbox::{InboxStore, NextState};
use crate::input::{HeldReason, InputState, Route};
use crate::mutants::{self, Mutant};
use crate::schedule::Phase;
use crate::status::Part;

impl<I: InboxStore, B: InputBinding> Dispatcher<I, B> {
    /// Takes in the result of a call.
    pub(super) fn finished(&mut self, done: Result<(Id, Outcome), JoinError>) {
        let (task, outcome) = match done {
            Ok((task, outcome)) => (task, Some(outcome)),
            Err(error) => {
                self.shared.status.failed(Part::Binding, "calling the binding", &error);
                (error.id(), None)
            }
        };
        let Some(call) = self.under_way.remove(&task) else { return };
        match outcome {
            Some(Outcome::Submitted(submission)) => self.submitted(&call, submission),
            Some(Outcome::Reconciled(reconciled)) => self.reconciled(&call, reconciled),
            None if call.route.is_some() => self.submitted(&call, Submission::Unknown("the binding panicked".to_owned())),
            None => self.reconciled(&call, Reconciled::Unknown),
        }
    }

    fn submitted(&mut self, call: &Call, submission: Submission) {
        let id = &call.id;
        if matches!(submission, Submission::Accepted | Submission::Taken(_)) {
            hooks::reached(hooks::TAKEN);
            if call.route == Some(Route::Start) && self.parts.capabilities.reports_idle {
                // The turn is about to be reported; until then nothing else may be started.
                self.presume_until_reported(call.epoch, Work::Busy { joinable: false });
            }
        }
        match submission {
            Submission::Accepted => self.record(id, NextState::Accepted),
            Submission::Taken(_) if mutants::on(Mutant::TakenIsAccepted) => self.record(id, NextState::Accepted),
            Submission::Taken(evidence) => {
                // An interruption while the answer was on its way may have destroyed what it speaks of.
                let lost = self.interruptions != call.interruptions && !mutants::on(Mutant::InterruptionDuringCallIgnored);
                let phase = if lost { Phase::Undecided { asked: None } } else { Phase::Taken { turn: call.turn } };
                self.table.set_phase(id, phase);
                let forgotten = evidence.is_empty() || mutants::on(Mutant::EvidenceForgotten);
                if let (false, Some(attempt)) = (forgotten, &call.attempt) {
                    let mut attempt = attempt.clone();
                    attempt.turn = evidence.turn.or(attempt.turn);
                    attempt.native_id = evidence.native_id;
                    self.record(id, NextState::Evidence(attempt));
                }
            }
            Submission::Refused(refusal) => self.refused(id, refusal, Some(call)),
            Submission::Unknown(detail) => {
                self.table.set_phase(id, Phase::Undecided { asked: None });
                if let Some(note) = self.table.note_mut(id) {
                    note.detail = Some(detail);
                }
            }
        }
    }

    fn reconciled(&mut self, call: &Call, answer: Reconciled) {
        let id = &call.id;
        let outdated = !self.table.is_calling(id) || self.table.revision(id) != call.revision;
        if answer != Reconciled::Accepted && outdated && !mutants::on(Mutant::LateAnswerCounts) {
            // A person settled it while the binding was asked; it may be on its way again already.
            return;
        }
        match answer {
            Reconciled::Accepted => self.record(id, NextState::Accepted),
            Reconciled::Retry if mutants::on(Mutant::RetryIsAccepted) => self.record(id, NextState::Accepted),
            Reconciled::Unknown if mutants::on(Mutant::UnknownIsRetry) => self.again(id, String::new(), 1),
            Reconciled::Taken => {
                self.table.set_phase(id, Phase::Taken { turn: call.turn });
                // What was shown to a person as undecided is decided: a resolution now could hand it over twice.
                if let (true, Some(attempt)) = (self.table.is_held(id), &call.attempt) {
                    self.record(id, NextState::Evidence(attempt.clone()));
                }
            }
            Reconciled::Retry => self.again(id, "it did not arrive".to_owned(), 1),
            // Not a request: made pending it would meet its withdrawal and be closed, although the runtime may have it.
            Reconciled::Unknown if self.parts.capabilities.deduplicates && !self.table.is_request(id) => {
                self.again(id, "nobody can say whether it arrived; a repeat is harmless".to_owned(), 1);
            }
            Reconciled::Unknown => {
                self.table.set_phase(id, Phase::Undecided { asked: Some(call.turn) });
                let Some(note) = self.table.note_mut(id) else { return };
                if !note.held {
                    let detail = note.detail.take().unwrap_or_else(|| "the receiver ended before it was confirmed".to_owned());
                    let (state, reason) = (InputState::Submitting, HeldReason::Undecided);
                    self.record(id, NextState::Held { state, reason, detail });
                }
            }
        }
    }

    /// Takes in what the host reported.
    pub(super) fn hear(&mut self, snapshot: &Snapshot) {
        if snapshot.interruptions != self.interruptions && !mutants::on(Mutant::InterruptionIgnored) {
            self.interruptions = snapshot.interruptions;
            let taken = |phase: Phase| matches!(phase, Phase::Taken { .. });
            let ids: Vec<DeliveryId> =
                self.table.rows().iter().filter(|row| taken(row.phase)).map(|row| row.id.clone()).collect();
            for id in ids {
                self.table.set_phase(&id, Phase::Undecided { asked: None });
            }
        }
        for (id, verdict) in &snapshot.verdicts {
            let Some(phase) = self.table.get(id).map(|row| row.phase) else { continue };
            match verdict {
                Verdict::Accepted => self.record(id, NextState::Accepted),
                Verdict::Refused(refusal) if Self::is_in_doubt(phase) => self.refused(id, refusal.clone(), None),
                Verdict::Lost if Self::is_in_doubt(phase) => self.table.set_phase(id, Phase::Undecided { asked: None }),
                Verdict::Refused(_) | Verdict::Lost => {}
            }
        }
    }

    /// The runtime certainly does not have it. `call` is absent when the host gave it back later.
    fn refused(&mut self, id: &DeliveryId, refusal: Refusal, call: Option<&Call>) {
        let submit = call.filter(|call| matches!(call.route, Some(Route::Start | Route::Steer)));
        match refusal {
            Refusal::TurnEnded if mutants::on(Mutant::TurnEndedForgotten) => {}
            Refusal::TurnEnded => {
                if let Some(call) = submit {
                    self.presume_until_reported(call.epoch, Work::Idle);
                }
                self.not_an_attempt(id);
            }
            Refusal::NotNow => {
                match (call, submit) {
                    // With a queue of its own the runtime takes input at work too: concluding that it works would close no door.
                    (_, Some(call)) if self.parts.capabilities.reports_idle && !self.parts.capabilities.durable_queue => {
                        self.presume_until_reported(call.epoch, Work::Busy { joinable: false });
                        self.not_an_attempt(id);
                    }
                    (Some(call), None) => {
                        if let Some(row) = self.table.get_mut(id) {
                            row.refused_at = Some(call.epoch);
                        }
                        self.not_an_attempt(id);
                    }
                    // Nobody will report that it has become possible: only time can tell.
                    (Some(_), Some(_)) => self.not_an_attempt_before_long(id),
                    (None, _) => self.not_an_attempt(id),
                }
            }
            Refusal::NoWaiter => {
                if let Some(row) = self.table.get_mut(id) {
                    row.as_input = true;
                }
                self.not_an_attempt(id);
            }
            Refusal::HandedBack => self.again(id, "the host gave it back".to_owned(), 1),
            Refusal::Rejected(reason) => self.again(id, reason, 0),
        }
    }

    fn not_an_attempt(&mut self, id: &DeliveryId) {
        self.record(id, NextState::Pending { counted: false, next_attempt_at: None, error: None });
    }

    fn not_an_attempt_before_long(&mut self, id: &DeliveryId) {
        let at = self.shared.clock.now().plus(self.shared.config.retry.first_delay);
        self.record(id, NextState::Pending { counted: false, next_attempt_at: Some(at), error: None });
    }

    /// Counts the attempt: tries again after a while, or holds the row for a person. `free` attempts come back without a wait.
    pub(super) fn again(&mut self, id: &DeliveryId, error: String, free: u32) {
        let attempts = self.table.attempts(id);
        let policy = self.shared.config.retry;
        if attempts >= policy.attempts && !mutants::on(Mutant::NeverHeld) {
            let (state, reason) = (InputState::Pending, HeldReason::TooManyAttempts);
            self.record(id, NextState::Held { state, reason, detail: format!("{attempts} attempts; {error}") });
            return;
        }
        let delay = policy.delay(attempts.saturating_sub(free));
        let next_attempt_at = (!delay.is_zero()).then(|| self.shared.clock.now().plus(delay));
        self.record(id, NextState::Pending { counted: true, next_attempt_at, error: Some(error) });
    }

    pub(super) fn record(&mut self, id: &DeliveryId, to: NextState) {
        self.backlog.insert(id.clone(), to);
    }

    fn presume_until_reported(&mut self, epoch: u64, work: Work) {
        let until = Instant::now() + PRESUMPTION;
        self.presumed = Some(Presumed { work, epoch, until });
    }
}
