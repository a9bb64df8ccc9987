//! Who was heard of when: kept in memory, so that no poll or heartbeat waits for a disk, and written out every ten seconds.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use beepgrid::{CredentialId, HeartbeatInput, InstanceId, Timestamp};

use super::actor::Actor;
use super::limits::{CONNECTED, STALE};
use super::{Refusal, checks};
use crate::store::{ReadTx, WriteTx, credentials, instances};

/// The presence that a last sign of life amounts to at `now`.
pub(crate) fn state(last_seen: Timestamp, now: Timestamp) -> beepgrid::Presence {
    let silent = now.since(last_seen);
    if silent <= CONNECTED {
        beepgrid::Presence::Connected
    } else if silent <= STALE {
        beepgrid::Presence::Stale
    } else {
        beepgrid::Presence::Offline
    }
}

/// The signs of life of this process that are not written out yet; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    instances: Times<InstanceId>,
    credentials: Times<CredentialId>,
}

/// Times to be written out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unwritten {
    pub(crate) instances: Vec<(InstanceId, Timestamp)>,
    pub(crate) credentials: Vec<(CredentialId, Timestamp)>,
}

impl Presence {
    /// Notes a lease, poll or heartbeat of a runtime.
    pub(crate) fn instance_seen(&self, id: &InstanceId, now: Timestamp) {
        self.0.instances.note(id, now);
    }

    /// Notes that a credential was used.
    pub(crate) fn credential_used(&self, id: &CredentialId, now: Timestamp) {
        self.0.credentials.note(id, now);
    }

    /// When a runtime was last heard of, given what is stored.
    pub(crate) fn last_seen(&self, id: &InstanceId, stored: Timestamp) -> Timestamp {
        self.0.instances.get(id).map_or(stored, |seen| seen.max(stored))
    }

    /// When a credential was last used, given what is stored.
    pub(crate) fn last_used(&self, id: &CredentialId, stored: Option<Timestamp>) -> Option<Timestamp> {
        self.0.credentials.get(id).max(stored)
    }

    /// A stored runtime as it is shown.
    pub(crate) fn instance(&self, row: instances::InstanceRow, now: Timestamp) -> beepgrid::Instance {
        let last_seen = self.last_seen(&row.id, row.last_seen);
        beepgrid::Instance {
            id: row.id,
            agent_id: row.agent_id,
            presence: state(last_seen, now),
            last_seen,
            capabilities: row.capabilities,
            progress: row.progress,
        }
    }

    /// What is not written out yet. It stays readable here until [`written`](Self::written) says that it is.
    pub(crate) fn unwritten(&self) -> Unwritten {
        Unwritten { instances: self.0.instances.all(), credentials: self.0.credentials.all() }
    }

    /// Forgets what the store has now, but not what came since.
    pub(crate) fn written(&self, written: &Unwritten) {
        self.0.instances.forget(&written.instances);
        self.0.credentials.forget(&written.credentials);
    }
}

/// Stores signs of life.
pub(crate) fn write_out(tx: &WriteTx<'_>, unwritten: &Unwritten) -> Result<(), Refusal> {
    for (id, seen) in &unwritten.instances {
        instances::touch(tx, id, *seen)?;
    }
    for (id, used) in &unwritten.credentials {
        credentials::touch(tx, id, *used)?;
    }
    Ok(())
}

/// Checks the form of a heartbeat.
pub(crate) fn check(input: &HeartbeatInput) -> Result<(), Refusal> {
    if let Some(progress) = &input.progress {
        checks::metadata("progress", progress)?;
    }
    if let Some(capabilities) = &input.capabilities {
        checks::capabilities("capabilities", capabilities)?;
    }
    Ok(())
}

/// Whether a heartbeat says something that differs from what is stored; the sign of life alone needs no write.
pub(crate) fn says_more(tx: &ReadTx<'_>, actor: &Actor, input: &HeartbeatInput) -> Result<bool, Refusal> {
    let progress = input.progress.as_ref().filter(|progress| !progress.is_empty());
    if progress.is_none() && input.capabilities.is_none() {
        return Ok(false);
    }
    let stored = instances::by_id(tx, actor.instance()?)?.ok_or_else(Refusal::not_found)?;
    let same_progress = progress.is_none_or(|progress| *progress == stored.progress);
    Ok(!same_progress || input.capabilities.as_ref().is_some_and(|capabilities| *capabilities != stored.capabilities))
}

/// Stores what a heartbeat says: a progress with members replaces the stored one, and so do capabilities, even empty ones.
pub(crate) fn heartbeat(tx: &WriteTx<'_>, actor: &Actor, input: &HeartbeatInput) -> Result<(), Refusal> {
    let instance = actor.instance()?;
    if let Some(progress) = input.progress.as_ref().filter(|progress| !progress.is_empty()) {
        instances::set_progress(tx, instance, progress)?;
    }
    if let Some(capabilities) = &input.capabilities {
        instances::set_capabilities(tx, instance, capabilities)?;
    }
    Ok(())
}

/// The newest time of each key.
#[derive(Debug)]
struct Times<K>(Mutex<HashMap<K, Timestamp>>);

impl<K> Default for Times<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash + Ord> Times<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Timestamp>> {
        // Nothing panics while the lock is held, and a map stays whole anyway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, key: &K, now: Timestamp) {
        let mut times = self.lock();
        match times.get_mut(key) {
            Some(time) => *time = now.max(*time),
            None => drop(times.insert(key.clone(), now)),
        }
    }

    fn get(&self, key: &K) -> Option<Timestamp> {
        self.lock().get(key).copied()
    }

    /// In the order of keys, so that two processes that write out at once touch rows in the same order.
    fn all(&self) -> Vec<(K, Timestamp)> {
        let mut all: Vec<_> = self.lock().iter().map(|(key, time)| (key.clone(), *time)).collect();
        all.sort();
        all
    }

    fn forget(&self, written: &[(K, Timestamp)]) {
        let mut times = self.lock();
        for (key, time) in written {
            if times.get(key) == Some(time) {
                times.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn silence_makes_stale_then_offline() {
        use beepgrid::Presence::{Connected, Offline, Stale};
        for (silent, expected) in [(0, Connected), (45, Connected), (46, Stale), (300, Stale), (301, Offline)] {
            assert_eq!(state(at(1_000), at(1_000 + silent)), expected, "{silent}");
        }
        assert_eq!(state(at(1_000), at(990)), Connected, "a clock that was set back");
    }

    #[test]
    fn memory_and_store_give_the_later_time() {
        let presence = Presence::default();
        let id = InstanceId::new("ins_1");
        assert_eq!(presence.last_seen(&id, at(5)), at(5));
        presence.instance_seen(&id, at(7));
        presence.instance_seen(&id, at(6));
        assert_eq!(presence.last_seen(&id, at(5)), at(7));
        assert_eq!(presence.last_seen(&id, at(9)), at(9));
        assert_eq!(presence.last_used(&CredentialId::new("crd_1"), None), None);
    }

    #[test]
    fn runtime_is_shown_as_it_was_last_heard_of_anywhere() {
        let presence = Presence::default();
        let row = instances::InstanceRow {
            id: "ins_1".into(),
            agent_id: "agt_1".into(),
            name: String::new(),
            capabilities: vec!["review".to_owned()],
            progress: beepgrid::JsonMap::new(),
            created_at: at(0),
            last_seen: at(100),
        };
        assert_eq!(presence.instance(row.clone(), at(200)).presence, beepgrid::Presence::Stale);
        presence.instance_seen(&row.id, at(190));
        let shown = presence.instance(row, at(200));
        assert_eq!((shown.presence, shown.last_seen), (beepgrid::Presence::Connected, at(190)));
        assert_eq!(shown.capabilities, ["review"]);
    }

    #[test]
    fn what_came_during_a_write_is_written_next_time() {
        let presence = Presence::default();
        let (one, two) = (InstanceId::new("ins_1"), InstanceId::new("ins_2"));
        presence.instance_seen(&one, at(1));
        presence.instance_seen(&two, at(1));
        let unwritten = presence.unwritten();
        presence.instance_seen(&two, at(2));
        presence.written(&unwritten);
        assert_eq!(presence.unwritten().instances, [(two, at(2))]);
        assert_eq!(presence.last_seen(&one, at(0)), at(0), "the store has it now");
    }
}
