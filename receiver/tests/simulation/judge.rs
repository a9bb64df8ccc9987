//! The end of a history: every delivery is accounted for exactly once, and every conversation is in order.

use std::collections::BTreeMap;

use beepgrid_receiver::inbox::memory::MemoryInbox;
use beepgrid_receiver::{InboxStore, InputState};

use crate::engine::Kind;
use crate::world::{Sim, World};

impl World {
    /// The requests that may be taken back.
    pub(crate) fn requests(&self) -> impl Iterator<Item = u16> {
        let places = 1..=u16::try_from(self.engine.items.len()).unwrap();
        places.filter(|place| {
            self.item(*place).is_some_and(|item| item.kind == Kind::Request && item.is_request_open())
                && self.withdrawal_of(*place).is_none()
        })
    }

    /// Whether a request and its withdrawal were closed together, without having been handed over.
    fn was_closed(&self, row: u16, kind: Kind) -> bool {
        let (request, withdrawal) = match kind {
            Kind::Request => (row, self.withdrawal_of(row)),
            Kind::Withdrawn(request) => (request, Some(row)),
            _ => return false,
        };
        withdrawal.is_some_and(|withdrawal| self.stored.contains(&withdrawal)) && !self.runtime.history.contains(&request)
    }

    fn judge_each(&mut self) {
        for row in 1..=u16::try_from(self.engine.items.len()).unwrap() {
            let kind = self.kinds[usize::from(row) - 1];
            let times = self.runtime.history.iter().filter(|kept| **kept == row).count();
            let expected = self.stored.contains(&row) && !self.discarded.contains(&row) && !self.was_closed(row, kind);
            match (times, expected) {
                (0, false) | (1, true) => {}
                (0, true) => self.wrong(format!("d{row:04} is lost")),
                (_, true) => self.wrong(format!("d{row:04} is in the history {times} times")),
                // A withdrawal that came first was information; its request is closed when it comes.
                (1, false) if matches!(kind, Kind::Withdrawn(_)) => {}
                (_, false) => self.wrong(format!("d{row:04} was discarded or withdrawn and is in the history")),
            }
        }
    }

    fn judge_order(&mut self) {
        let mut last: BTreeMap<u64, u16> = BTreeMap::new();
        let mut wrong = Vec::new();
        for row in &self.runtime.history {
            let kind = self.kinds[usize::from(*row) - 1];
            if let Kind::Withdrawn(request) = kind
                && let Some(at) = self.runtime.history.iter().position(|kept| *kept == request)
                && self.runtime.history.iter().position(|kept| kept == row).is_some_and(|own| own < at)
            {
                wrong.push(format!("d{row:04} withdraws d{request:04} and came first"));
            }
            if !matches!(kind, Kind::Message | Kind::Request | Kind::Poison)
                || self.held_once.contains(row)
                || self.late.contains(row)
            {
                continue;
            }
            let conversation = self.conversations[usize::from(*row) - 1];
            let before = last.entry(conversation).or_default();
            if *before > *row {
                wrong.push(format!("d{row:04} came after d{before:04}"));
            }
            *before = *row;
        }
        for wrong in wrong {
            self.wrong(wrong);
        }
    }

    /// What the engine has, or had when it was restored, is stored.
    fn judge_custody(&mut self) {
        let lost: Vec<usize> = (1..)
            .zip(&self.engine.items)
            .filter(|(row, item)| {
                item.as_ref().is_some_and(|item| !item.is_gone()) && !self.stored.contains(&u16::try_from(*row).unwrap())
            })
            .map(|(row, _)| row)
            .collect();
        if !lost.is_empty() {
            self.wrong(format!("acknowledged and not stored: {lost:?}"));
        }
    }
}

pub(crate) async fn judge(sim: &Sim, inbox: &MemoryInbox) {
    let stored: Vec<u16> = sim.lock().stored.iter().copied().collect();
    for row in stored {
        let found = inbox.get(format!("d{row:04}").into()).await.unwrap();
        if found.is_none_or(|found| found.state != InputState::Accepted || !found.acked) {
            sim.lock().wrong(format!("d{row:04} is not at its end in the inbox"));
        }
    }
    let mut world = sim.lock();
    world.judge_custody();
    world.judge_each();
    world.judge_order();
}
