//! What a commit wakes: long polls, waiting requests, event streams and cached permissions of this process.
//!
//! Register first, then look, then wait: whatever happens after the registration ends the wait. Several signals become one
//! wake-up, and a wake-up without a reason is possible, so whoever wakes looks again.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use beepgrid::{PrincipalId, RequestId};
use tokio::sync::watch;

/// Something that happened in a commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Signal {
    /// An agent may have something to lease.
    Work { agent: PrincipalId },
    /// A request has reached its end.
    RequestClosed { request: RequestId },
    /// There are events up to this sequence.
    Event { sequence: i64 },
    /// One of them may concern this principal.
    EventFor { reader: PrincipalId },
    /// One of them may concern anybody.
    EventForAll,
    /// A credential was revoked, or its owner disabled.
    Access { principal: PrincipalId },
    /// Everything may have changed.
    All,
}

/// The same signals without repetition; of the events only the newest.
pub(super) fn distinct(signals: Vec<Signal>) -> Vec<Signal> {
    let mut newest = None;
    let mut seen = HashSet::new();
    let mut distinct = Vec::new();
    for signal in signals {
        if let Signal::Event { sequence } = signal {
            newest = newest.max(Some(sequence));
        } else if seen.insert(signal.clone()) {
            distinct.push(signal);
        }
    }
    distinct.extend(newest.map(|sequence| Signal::Event { sequence }));
    distinct
}

/// The subscriptions of one process; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signals(Arc<Hub>);

#[derive(Debug)]
struct Hub {
    work: Topics<PrincipalId>,
    requests: Topics<RequestId>,
    access: Topics<PrincipalId>,
    readers: Topics<PrincipalId>,
    events: watch::Sender<i64>,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            work: Topics::default(),
            requests: Topics::default(),
            access: Topics::default(),
            readers: Topics::default(),
            events: watch::Sender::new(0),
        }
    }
}

impl Signals {
    /// Waits for work of an agent.
    pub(crate) fn work(&self, agent: &PrincipalId) -> Subscription {
        Subscription::new(&self.0, agent.clone(), |hub| &hub.work)
    }

    /// Waits for the end of a request.
    pub(crate) fn request(&self, request: &RequestId) -> Subscription {
        Subscription::new(&self.0, request.clone(), |hub| &hub.requests)
    }

    /// Waits for the end of a principal's access, or of one of its credentials.
    pub(crate) fn access(&self, principal: &PrincipalId) -> Subscription {
        Subscription::new(&self.0, principal.clone(), |hub| &hub.access)
    }

    /// Waits for events that may concern a principal.
    pub(crate) fn events_for(&self, reader: &PrincipalId) -> Subscription {
        Subscription::new(&self.0, reader.clone(), |hub| &hub.readers)
    }

    /// The newest event sequence, and each change of it.
    pub(crate) fn events(&self) -> watch::Receiver<i64> {
        self.0.events.subscribe()
    }

    /// Wakes whoever waits for one of `signals`.
    pub(super) fn publish(&self, signals: &[Signal]) {
        for signal in signals {
            match signal {
                Signal::Work { agent } => self.0.work.wake(agent),
                Signal::RequestClosed { request } => self.0.requests.wake(request),
                Signal::Access { principal } => self.0.access.wake(principal),
                Signal::Event { sequence } => self.newest_event(*sequence),
                Signal::EventFor { reader } => self.0.readers.wake(reader),
                Signal::EventForAll => self.0.readers.wake_all(),
                Signal::All => self.wake_everybody(),
            }
        }
    }

    /// Says that there are events up to `sequence`; an older one changes nothing.
    pub(super) fn newest_event(&self, sequence: i64) {
        self.0.events.send_if_modified(|newest| {
            let newer = sequence > *newest;
            *newest = sequence.max(*newest);
            newer
        });
    }

    /// Wakes everybody: signals may have been missed.
    pub(super) fn wake_everybody(&self) {
        self.0.work.wake_all();
        self.0.requests.wake_all();
        self.0.access.wake_all();
        self.0.readers.wake_all();
        self.0.events.send_modify(|_| ());
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.work.lock().len() + self.0.requests.lock().len() + self.0.access.lock().len() + self.0.readers.lock().len()
    }
}

/// Subscribers by key. A key is here as long as somebody waits for it.
#[derive(Debug)]
struct Topics<K>(Mutex<HashMap<K, watch::Sender<()>>>);

impl<K> Default for Topics<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Topics<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, watch::Sender<()>>> {
        // Nothing panics while the lock is held, and a map stays whole anyway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribe(&self, key: K) -> watch::Receiver<()> {
        self.lock().entry(key).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    fn wake(&self, key: &K) {
        if let Some(topic) = self.lock().get(key) {
            topic.send_replace(());
        }
    }

    fn wake_all(&self) {
        for topic in self.lock().values() {
            topic.send_replace(());
        }
    }

    /// Drops one receiver under the lock, and the topic with the last one.
    fn unsubscribe(&self, key: &K, receiver: watch::Receiver<()>) {
        let mut topics = self.lock();
        drop(receiver);
        if topics.get(key).is_some_and(|topic| topic.receiver_count() == 0) {
            topics.remove(key);
        }
    }
}

/// A place in the row of those who wait for one key; dropping it leaves the row.
pub(crate) struct Subscription {
    receiver: Option<watch::Receiver<()>>,
    leave: Option<Box<dyn FnOnce(watch::Receiver<()>) + Send + Sync>>,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl Subscription {
    fn new<K>(hub: &Arc<Hub>, key: K, topics: fn(&Hub) -> &Topics<K>) -> Self
    where
        K: Clone + Eq + Hash + Send + Sync + 'static,
    {
        let receiver = topics(hub).subscribe(key.clone());
        let hub = Arc::clone(hub);
        let leave = Box::new(move |receiver| topics(&hub).unsubscribe(&key, receiver));
        Self { receiver: Some(receiver), leave: Some(leave) }
    }

    /// Returns at the first signal since the subscription was made or `next` last returned. Safe to drop.
    pub(crate) async fn next(&mut self) {
        if let Some(receiver) = &mut self.receiver
            && receiver.changed().await.is_ok()
        {
            return;
        }
        // The topic lives as long as this subscription, so nobody gets here; returning would make callers spin.
        std::future::pending::<()>().await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let (Some(receiver), Some(leave)) = (self.receiver.take(), self.leave.take()) {
            leave(receiver);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn work(agent: &str) -> Signal {
        Signal::Work { agent: PrincipalId::new(agent) }
    }

    #[test]
    fn signal_between_registration_and_wait_is_not_missed() {
        let signals = Signals::default();
        let mut subscription = signals.work(&PrincipalId::new("agt_1"));
        assert!(subscription.next().now_or_never().is_none());
        signals.publish(&[work("agt_1"), work("agt_1")]);
        assert!(subscription.next().now_or_never().is_some());
        assert!(subscription.next().now_or_never().is_none());
    }

    #[test]
    fn only_the_key_that_was_named_wakes() {
        let signals = Signals::default();
        let mut one = signals.work(&PrincipalId::new("agt_1"));
        let mut other = signals.work(&PrincipalId::new("agt_2"));
        let mut access = signals.access(&PrincipalId::new("agt_1"));
        signals.publish(&[work("agt_1")]);
        assert!(one.next().now_or_never().is_some());
        assert!(other.next().now_or_never().is_none());
        assert!(access.next().now_or_never().is_none());
        signals.wake_everybody();
        assert!(other.next().now_or_never().is_some());
        assert!(access.next().now_or_never().is_some());
    }

    #[test]
    fn last_subscriber_takes_the_entry_along() {
        let signals = Signals::default();
        let first = signals.request(&RequestId::new("req_1"));
        let mut second = signals.request(&RequestId::new("req_1"));
        drop(first);
        assert_eq!(signals.len(), 1);
        signals.publish(&[Signal::RequestClosed { request: RequestId::new("req_1") }]);
        assert!(second.next().now_or_never().is_some());
        drop(second);
        assert_eq!(signals.len(), 0);
    }

    #[test]
    fn event_sequence_never_goes_back() {
        let signals = Signals::default();
        let mut events = signals.events();
        signals.publish(&[Signal::Event { sequence: 7 }, Signal::Event { sequence: 5 }]);
        assert_eq!(*events.borrow_and_update(), 7);
        signals.publish(&[Signal::Event { sequence: 7 }]);
        assert!(!events.has_changed().unwrap());
    }
}
