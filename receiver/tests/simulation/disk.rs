//! The inbox as a disk keeps it: every call may fail without effect, and the receiver may die before or after its commit. Checks each commit
//! against what must hold.

use beepgrid::{ConversationId, DeliveryId, Timestamp};
use beepgrid_receiver::inbox::memory::MemoryInbox;
use beepgrid_receiver::inbox::{Applied, Counts, InboxErrorKind, NextState, OpenInput, PutReport, StateChange};
use beepgrid_receiver::{HeldReason, InboxError, InboxStore, InputState, LiveInput, Resolution, StoredInput};

use crate::engine::is_ordinary;
use crate::world::{Sim, World, number};

/// The disk as one run of the receiver reaches it.
#[derive(Clone)]
pub(crate) struct Disk {
    pub(crate) sim: Sim,
    pub(crate) life: u32,
    pub(crate) inbox: MemoryInbox,
}

impl Disk {
    async fn begin(&self, what: &'static str, about: u16) -> Result<(), InboxError> {
        self.sim.step(self.life, what, about).await;
        let mut world = self.sim.lock();
        let rate = world.profile.disk_faults;
        if world.fault(rate) {
            world.note("the disk is full", 0, 0);
            return Err(InboxError::new(InboxErrorKind::Full, what));
        }
        Ok(())
    }

    /// The state of things right before a change is committed.
    async fn check(&self, change: &StateChange) {
        let open = self.inbox.open().await.unwrap();
        let mut world = self.sim.lock();
        let row = number(&change.id);
        match &change.to {
            NextState::Submitting(_) => world.check_order(row, &open),
            NextState::Accepted if !world.runtime.history.contains(&row) => {
                world.wrong(format!("{} is marked accepted and the runtime does not have it", change.id));
            }
            NextState::Pending { .. } => {
                let current = open.iter().find(|input| input.id == change.id);
                let moves = current.is_some_and(|input| input.revision == change.revision);
                if moves && world.runtime.may_have(row) && !world.profile.able.deduplicates {
                    world.wrong(format!("{} is to be handed over again although the runtime may have it", change.id));
                }
            }
            NextState::Held { reason: HeldReason::TooManyAttempts, .. } => {
                world.held_once.insert(row);
            }
            NextState::Held { reason: HeldReason::Unreadable, .. } => {
                world.wrong(format!("the content of {} is gone before it was accepted", change.id));
            }
            _ => {}
        }
    }
}

impl World {
    fn note_stored(&mut self, row: u16) {
        self.stored.insert(row);
        let now = self.now();
        if self.late.contains(&row) {
            self.late_since.entry(row).or_insert(now);
        }
    }

    /// Whether a row came after others of its conversation, and so lately that the receiver may have decided without it.
    fn came_just_now(&self, row: u16) -> bool {
        self.late_since.get(&row).is_some_and(|since| self.now() < since + 15_000)
    }

    /// A row is about to be handed over: nothing of its conversation may stand before it, and its request may not be withdrawn.
    fn check_order(&mut self, row: u16, open: &[OpenInput]) {
        let this = open.iter().find(|input| number(&input.id) == row);
        let Some(this) = this.filter(|this| this.state == InputState::Pending && this.held.is_none()) else {
            // The inbox refuses the change.
            return;
        };
        if self.withdrawal_of(row).is_some_and(|withdrawal| self.stored.contains(&withdrawal)) {
            self.wrong(format!("{} is withdrawn and handed over all the same", this.id));
        }
        let stands_before = |other: &&OpenInput| {
            is_ordinary(&other.kind)
                && !self.held_once.contains(&number(&other.id))
                && !self.came_just_now(number(&other.id))
                && other.conversation_id == this.conversation_id
                && (other.created_at, &other.id) < (this.created_at, &this.id)
                && !(other.state == InputState::Pending && other.held.is_some())
                // What was taken may be followed where the runtime keeps order.
                && !(other.state == InputState::Submitting && other.held.is_none() && self.profile.able.ordered)
        };
        if is_ordinary(&this.kind)
            && let Some(other) = open.iter().find(stands_before)
        {
            self.wrong(format!("{} overtakes {}", this.id, other.id));
        }
    }
}

impl InboxStore for Disk {
    async fn put(&self, batch: Vec<LiveInput>, now: Timestamp) -> Result<PutReport, InboxError> {
        self.begin("put", batch.first().map_or(0, |input| number(&input.id))).await?;
        let ids: Vec<DeliveryId> = batch.iter().map(|input| input.id.clone()).collect();
        let report = self.inbox.put(batch, now).await?;
        // What is really there, not what was asked for.
        for id in ids {
            if self.inbox.get(id.clone()).await?.is_some() {
                self.sim.lock().note_stored(number(&id));
            }
        }
        self.sim.step(self.life, "stored", 0).await;
        Ok(report)
    }

    async fn unacked(&self, limit: u32) -> Result<Vec<(DeliveryId, i64)>, InboxError> {
        self.begin("unacked", 0).await?;
        self.inbox.unacked(limit).await
    }

    async fn mark_acked(&self, leases: Vec<(DeliveryId, i64)>) -> Result<(), InboxError> {
        self.begin("mark_acked", 0).await?;
        self.inbox.mark_acked(leases).await?;
        self.sim.step(self.life, "acks noted", 0).await;
        Ok(())
    }

    async fn pending(&self, limit: u32) -> Result<Vec<StoredInput>, InboxError> {
        self.inbox.pending(limit).await
    }

    async fn open(&self) -> Result<Vec<OpenInput>, InboxError> {
        self.begin("open", 0).await?;
        self.inbox.open().await
    }

    async fn set_state(&self, changes: Vec<StateChange>, now: Timestamp) -> Result<Vec<Applied>, InboxError> {
        self.begin("set_state", changes.first().map_or(0, |change| number(&change.id))).await?;
        for change in &changes {
            self.check(change).await;
        }
        let applied = self.inbox.set_state(changes.clone(), now).await?;
        for (change, applied) in changes.iter().zip(&applied) {
            let what = match (&change.to, applied) {
                (_, Applied::Superseded) => "superseded",
                (_, Applied::Withdrawn) => "met its withdrawal",
                (NextState::Submitting(_), _) => "is submitting",
                (NextState::Evidence(_), _) => "has evidence",
                (NextState::Pending { .. }, _) => "is pending again",
                (NextState::Held { .. }, _) => "is held",
                (NextState::Accepted, _) => "is accepted",
            };
            self.sim.lock().note(what, number(&change.id), 0);
        }
        self.sim.step(self.life, "changed", 0).await;
        Ok(applied)
    }

    async fn get(&self, id: DeliveryId) -> Result<Option<StoredInput>, InboxError> {
        self.begin("get", number(&id)).await?;
        self.inbox.get(id).await
    }

    async fn held(&self, limit: u32) -> Result<Vec<StoredInput>, InboxError> {
        self.inbox.held(limit).await
    }

    async fn resolve(&self, id: DeliveryId, resolution: Resolution, now: Timestamp) -> Result<(), InboxError> {
        self.begin("resolve", number(&id)).await?;
        self.inbox.resolve(id, resolution, now).await?;
        self.sim.step(self.life, "resolved", 0).await;
        Ok(())
    }

    async fn remember_session(&self, of: ConversationId, session: String, now: Timestamp) -> Result<String, InboxError> {
        self.inbox.remember_session(of, session, now).await
    }

    async fn counts(&self) -> Result<Counts, InboxError> {
        self.begin("counts", 0).await?;
        self.inbox.counts().await
    }

    async fn prune(&self, accepted_before: Timestamp) -> Result<u32, InboxError> {
        self.begin("prune", 0).await?;
        self.inbox.prune(accepted_before).await
    }

    async fn close(&self) -> Result<(), InboxError> {
        Ok(())
    }
}
