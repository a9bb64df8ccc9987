//! An inbox in memory, for tests and examples. It is not durable: a restart is played by building a new receiver on the same value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use beepgrid::{ConversationId, Delivery, DeliveryId, DeliveryKind, RequestId, Timestamp};

use super::rules::RowState;
use super::{Applied, Counts, InboxError, InboxErrorKind, InboxStore, NextState, OpenInput, PutReport, StateChange};
use crate::input::{Content, InputState, LiveInput, Resolution, StoredInput};
use crate::mutants::{self, Mutant};

/// An inbox that lasts as long as its clones.
#[derive(Clone, Debug, Default)]
pub struct MemoryInbox {
    rows: Arc<Mutex<Rows>>,
}

#[derive(Debug, Default)]
struct Rows {
    by_id: BTreeMap<DeliveryId, Row>,
    next: u64,
    sessions: BTreeMap<ConversationId, (String, Timestamp)>,
    closed: bool,
}

#[derive(Debug)]
struct Row {
    seq: u64,
    input: LiveInput,
    request_id: Option<RequestId>,
    generation: i64,
    acked: bool,
    received_at: Timestamp,
    state: RowState,
}

impl MemoryInbox {
    /// An empty inbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens it again after [`InboxStore::close`], as a new process would.
    pub fn reopen(&self) {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).closed = false;
    }

    fn rows(&self) -> Result<MutexGuard<'_, Rows>, InboxError> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.closed { Err(InboxError::new(InboxErrorKind::Closed, "in memory")) } else { Ok(rows) }
    }

    fn listed(&self, limit: u32, wanted: impl Fn(&Row) -> bool) -> Result<Vec<StoredInput>, InboxError> {
        let rows = self.rows()?;
        let mut found: Vec<&Row> = rows.by_id.values().filter(|row| wanted(row)).collect();
        found.sort_by(|a, b| a.order().cmp(&b.order()));
        Ok(found.into_iter().take(limit as usize).map(Row::stored).collect())
    }
}

impl Row {
    fn order(&self) -> (Timestamp, &DeliveryId) {
        (self.input.delivery.created_at, &self.input.id)
    }

    fn stored(&self) -> StoredInput {
        let state = &self.state;
        let scrubbed = state.state == InputState::Accepted;
        let mut input = self.input.clone();
        input.delivery.generation = self.generation;
        StoredInput {
            input,
            content: if scrubbed { Content::Scrubbed } else { Content::Present },
            state: state.state,
            generation: self.generation,
            acked: self.acked,
            held: state.held.clone(),
            attempts: state.attempts,
            next_attempt_at: state.next_attempt_at,
            attempt: state.attempt.clone(),
            last_error: state.last_error.clone(),
            received_at: self.received_at,
            revision: state.revision,
        }
    }

    fn become_state(&mut self, next: RowState) {
        self.state = next;
        let early = mutants::on(Mutant::ScrubBeforeAccept) && self.state.state == InputState::Submitting;
        if self.state.state == InputState::Accepted || early {
            scrub(&mut self.input.delivery);
        }
    }
}

fn scrub(delivery: &mut Delivery) {
    delivery.payload.message = None;
    delivery.payload.request = None;
}

impl Rows {
    fn find(&self, kind: &DeliveryKind, request: &RequestId) -> Option<DeliveryId> {
        let found = self.by_id.values().find(|row| row.input.kind == *kind && row.request_id.as_ref() == Some(request));
        found.map(|row| row.input.id.clone())
    }

    /// Closes a request and its withdrawal if both are here and the request can still be closed; returns how many rows that ended.
    fn close_withdrawn(&mut self, request: &RequestId, now: Timestamp) -> u32 {
        if mutants::on(Mutant::WithdrawalIgnored) {
            return 0;
        }
        let (Some(asked), Some(withdrawn)) =
            (self.find(&DeliveryKind::Request, request), self.find(&DeliveryKind::RequestWithdrawn, request))
        else {
            return 0;
        };
        if !self.by_id.get(&asked).is_some_and(|row| row.state.can_be_withdrawn()) {
            return 0;
        }
        let mut closed = 0;
        for id in [asked, withdrawn] {
            if let Some(row) = self.by_id.get_mut(&id).filter(|row| row.state.can_be_withdrawn()) {
                let next = row.state.ended("withdrawn", now);
                row.become_state(next);
                closed += 1;
            }
        }
        closed
    }

    fn apply(&mut self, change: &StateChange, now: Timestamp) -> Applied {
        let Some(row) = self.by_id.get_mut(&change.id) else { return Applied::Superseded };
        let Some(next) = row.state.after(change.revision, &change.to, now) else { return Applied::Superseded };
        row.become_state(next);
        let done = Applied::Done { revision: row.state.revision, attempts: row.state.attempts };
        let request = row.request_id.clone().filter(|_| matches!(change.to, NextState::Pending { .. }));
        match request {
            Some(request) if self.close_withdrawn(&request, now) > 0 => Applied::Withdrawn,
            _ => done,
        }
    }
}

impl InboxStore for MemoryInbox {
    async fn put(&self, batch: Vec<LiveInput>, now: Timestamp) -> Result<PutReport, InboxError> {
        let mut rows = self.rows()?;
        let mut report = PutReport::default();
        for input in batch {
            let generation = input.delivery.generation;
            if let Some(row) = rows.by_id.get_mut(&input.id) {
                report.known += 1;
                (row.generation, row.acked) = (generation, false);
                if mutants::on(Mutant::PutOverwritesState) {
                    row.state = RowState { revision: row.state.revision + 1, ..RowState::new() };
                    row.input = input;
                }
                continue;
            }
            report.new += 1;
            rows.next += 1;
            let request_id = input.request_id().cloned();
            let row = Row {
                seq: rows.next,
                request_id: request_id.clone(),
                generation,
                acked: false,
                received_at: now,
                state: RowState::new(),
                input,
            };
            rows.by_id.insert(row.input.id.clone(), row);
            if let Some(request) = request_id {
                report.withdrawn += rows.close_withdrawn(&request, now);
            }
        }
        Ok(report)
    }

    async fn unacked(&self, limit: u32) -> Result<Vec<(DeliveryId, i64)>, InboxError> {
        let rows = self.rows()?;
        let mut found: Vec<&Row> = rows.by_id.values().filter(|row| !row.acked).collect();
        found.sort_by_key(|row| row.seq);
        Ok(found.into_iter().take(limit as usize).map(|row| (row.input.id.clone(), row.generation)).collect())
    }

    async fn mark_acked(&self, leases: Vec<(DeliveryId, i64)>) -> Result<(), InboxError> {
        let mut rows = self.rows()?;
        for (id, generation) in leases {
            if let Some(row) = rows.by_id.get_mut(&id).filter(|row| row.generation == generation) {
                row.acked = true;
            }
        }
        Ok(())
    }

    async fn pending(&self, limit: u32) -> Result<Vec<StoredInput>, InboxError> {
        self.listed(limit, |row| row.state.state != InputState::Accepted && row.state.held.is_none())
    }

    async fn open(&self) -> Result<Vec<OpenInput>, InboxError> {
        let rows = self.rows()?;
        let mut found: Vec<&Row> = rows.by_id.values().filter(|row| row.state.state != InputState::Accepted).collect();
        found.sort_by(|a, b| a.order().cmp(&b.order()));
        if mutants::on(Mutant::OrderOfArrival) {
            found.sort_by_key(|row| row.seq);
        }
        let open = |row: &Row| OpenInput {
            id: row.input.id.clone(),
            conversation_id: row.input.conversation_id.clone(),
            kind: row.input.kind.clone(),
            request_id: row.request_id.clone(),
            created_at: row.input.delivery.created_at,
            state: row.state.state,
            held: row.state.held.as_ref().map(|held| held.reason),
            attempts: row.state.attempts,
            next_attempt_at: row.state.next_attempt_at,
            session: rows.sessions.get(&row.input.conversation_id).map(|(session, _)| session.clone()),
            revision: row.state.revision,
        };
        Ok(found.into_iter().map(open).collect())
    }

    async fn set_state(&self, changes: Vec<StateChange>, now: Timestamp) -> Result<Vec<Applied>, InboxError> {
        let mut rows = self.rows()?;
        Ok(changes.iter().map(|change| rows.apply(change, now)).collect())
    }

    async fn get(&self, id: DeliveryId) -> Result<Option<StoredInput>, InboxError> {
        Ok(self.rows()?.by_id.get(&id).map(Row::stored))
    }

    async fn held(&self, limit: u32) -> Result<Vec<StoredInput>, InboxError> {
        self.listed(limit, |row| row.state.held.is_some())
    }

    async fn resolve(&self, id: DeliveryId, resolution: Resolution, now: Timestamp) -> Result<(), InboxError> {
        let mut rows = self.rows()?;
        let row = rows.by_id.get_mut(&id).ok_or_else(|| InboxError::new(InboxErrorKind::NotFound, id.as_str()))?;
        let next = row.state.resolved(resolution, now).ok_or_else(|| InboxError::new(InboxErrorKind::NotHeld, id.as_str()))?;
        row.become_state(next);
        if let Some(request) = row.request_id.clone() {
            rows.close_withdrawn(&request, now);
        }
        Ok(())
    }

    async fn remember_session(
        &self,
        conversation: ConversationId,
        session: String,
        now: Timestamp,
    ) -> Result<String, InboxError> {
        Ok(self.rows()?.sessions.entry(conversation).or_insert((session, now)).0.clone())
    }

    async fn counts(&self) -> Result<Counts, InboxError> {
        let rows = self.rows()?;
        let mut counts = Counts { rows: u32::try_from(rows.by_id.len()).unwrap_or(u32::MAX), ..Counts::default() };
        for row in rows.by_id.values().filter(|row| row.state.state != InputState::Accepted) {
            let is_result = matches!(row.input.kind, DeliveryKind::RequestResult | DeliveryKind::RequestWithdrawn);
            let bucket = if is_result { &mut counts.open_results } else { &mut counts.open_ordinary };
            *bucket += 1;
            let bucket = match row.state.state {
                _ if row.state.held.is_some() => &mut counts.held,
                InputState::Pending => &mut counts.pending,
                _ => &mut counts.submitting,
            };
            *bucket += 1;
        }
        Ok(counts)
    }

    async fn prune(&self, accepted_before: Timestamp) -> Result<u32, InboxError> {
        let mut rows = self.rows()?;
        let before = rows.by_id.len();
        rows.by_id.retain(|_, row| {
            let young = row.state.accepted_at.is_none_or(|at| at >= accepted_before);
            !row.acked || young || row.input.delivery.created_at >= accepted_before
        });
        let gone = u32::try_from(before - rows.by_id.len()).unwrap_or(u32::MAX);
        let left: BTreeSet<ConversationId> = rows.by_id.values().map(|row| row.input.conversation_id.clone()).collect();
        rows.sessions.retain(|conversation, (_, since)| left.contains(conversation) || *since >= accepted_before);
        Ok(gone)
    }

    async fn close(&self) -> Result<(), InboxError> {
        self.rows()?.closed = true;
        Ok(())
    }
}
