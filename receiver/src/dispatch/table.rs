//! The open rows as the dispatcher knows them: what is on disk, plus what only this process can know.

use std::collections::BTreeMap;

use beepgrid::{DeliveryId, DeliveryKind};

use crate::inbox::{NextState, OpenInput, StateChange};
use crate::input::{HeldReason, InputState};
use crate::mutants::{self, Mutant};
use crate::schedule::{Lane, Phase, Row};

#[derive(Default)]
pub(super) struct Table {
    /// In order of creation.
    rows: Vec<Row>,
    notes: BTreeMap<DeliveryId, Note>,
}

/// What the schedule does not need.
pub(super) struct Note {
    pub(super) revision: i64,
    pub(super) attempts: u32,
    pub(super) held: bool,
    pub(super) detail: Option<String>,
}

impl Table {
    /// Takes over what is on disk and keeps what only this process knows of rows that did not change.
    pub(super) fn load(&mut self, open: Vec<OpenInput>) {
        let before: BTreeMap<DeliveryId, Row> =
            std::mem::take(&mut self.rows).into_iter().map(|row| (row.id.clone(), row)).collect();
        let mut notes = std::mem::take(&mut self.notes);
        for input in open {
            let note = notes.remove(&input.id);
            let known = before.get(&input.id);
            let unchanged = note.as_ref().is_some_and(|note| note.revision == input.revision);
            let phase = match known {
                Some(row) if unchanged => row.phase,
                // A call under way goes on, unless a person settled the row meanwhile.
                Some(row) if row.phase == Phase::Calling && input.state == InputState::Submitting => row.phase,
                _ => phase_on_disk(&input),
            };
            self.notes.insert(
                input.id.clone(),
                Note {
                    revision: input.revision,
                    attempts: input.attempts,
                    held: input.held.is_some(),
                    detail: note.filter(|_| unchanged).and_then(|note| note.detail),
                },
            );
            self.rows.push(Row {
                lane: Lane::of(&input.kind),
                is_request: input.kind == DeliveryKind::Request,
                request: input.request_id,
                created_at: input.created_at,
                phase,
                next_attempt_at: input.next_attempt_at,
                as_input: known.is_some_and(|row| row.as_input),
                refused_at: known.and_then(|row| row.refused_at),
                conversation: input.conversation_id,
                id: input.id,
            });
        }
        if mutants::on(Mutant::OrderOfArrival) {
            return;
        }
        self.rows.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(super) fn get(&self, id: &DeliveryId) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == *id)
    }

    pub(super) fn get_mut(&mut self, id: &DeliveryId) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.id == *id)
    }

    pub(super) fn note_mut(&mut self, id: &DeliveryId) -> Option<&mut Note> {
        self.notes.get_mut(id)
    }

    pub(super) fn is_held(&self, id: &DeliveryId) -> bool {
        self.notes.get(id).is_some_and(|note| note.held)
    }

    pub(super) fn is_request(&self, id: &DeliveryId) -> bool {
        self.get(id).is_some_and(|row| row.is_request)
    }

    pub(super) fn is_calling(&self, id: &DeliveryId) -> bool {
        self.get(id).is_some_and(|row| row.phase == Phase::Calling)
    }

    pub(super) fn revision(&self, id: &DeliveryId) -> i64 {
        self.notes.get(id).map_or(0, |note| note.revision)
    }

    pub(super) fn attempts(&self, id: &DeliveryId) -> u32 {
        self.notes.get(id).map_or(0, |note| note.attempts)
    }

    /// The row is marked on disk and about to be handed over.
    pub(super) fn calling(&mut self, id: &DeliveryId, revision: i64, attempts: u32) {
        if let Some(note) = self.notes.get_mut(id) {
            (note.revision, note.attempts, note.detail) = (revision, attempts, None);
        }
        self.set_phase(id, Phase::Calling);
    }

    /// The binding is being asked about the row.
    pub(super) fn asking(&mut self, id: &DeliveryId) {
        self.set_phase(id, Phase::Calling);
    }

    pub(super) fn set_phase(&mut self, id: &DeliveryId, phase: Phase) {
        if let Some(row) = self.get_mut(id) {
            row.phase = phase;
        }
    }

    /// A change is on disk.
    pub(super) fn applied(&mut self, change: &StateChange, revision: i64, attempts: u32) {
        if change.to == NextState::Accepted {
            self.rows.retain(|row| row.id != change.id);
            self.notes.remove(&change.id);
            return;
        }
        let Some(note) = self.notes.get_mut(&change.id) else { return };
        (note.revision, note.attempts) = (revision, attempts);
        match &change.to {
            NextState::Pending { next_attempt_at, .. } => {
                note.held = false;
                if let Some(row) = self.get_mut(&change.id) {
                    row.phase = Phase::Pending;
                    row.next_attempt_at = *next_attempt_at;
                }
            }
            NextState::Held { reason, .. } => {
                note.held = true;
                // An undecided row knows already when it was asked about.
                if *reason != HeldReason::Undecided {
                    self.set_phase(&change.id, Phase::Parked);
                }
            }
            NextState::Evidence(_) => note.held = false,
            NextState::Submitting(_) | NextState::Accepted => {}
        }
    }
}

fn phase_on_disk(input: &OpenInput) -> Phase {
    match (input.state, input.held) {
        (InputState::Pending, Some(_)) => Phase::Parked,
        (InputState::Pending, None) => Phase::Pending,
        // Held as undecided or not: after a restart the binding is asked first.
        _ => Phase::Undecided { asked: None },
    }
}
