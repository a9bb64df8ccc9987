//! An engine without a network: deliveries, leases with generations, acknowledgements, scripted failures.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use beepgrid::{DeliveryId, DeliveryKind, ErrorCode, Timestamp};
use beepgrid_receiver::LiveInput;
use beepgrid_receiver::engine::{AckOutcome, CredentialLife, Leases, Poll, Source, SourceError};
use tokio::sync::watch;
use tokio::time::Instant;

const LEASE: Duration = Duration::from_secs(30);
/// What its clock says when it begins.
pub(crate) const START: i64 = 1_000_000_000_000;

struct Item {
    input: LiveInput,
    generation: i64,
    leased_until: Option<Instant>,
    acked: bool,
    acks: u32,
}

#[derive(Default)]
struct State {
    items: Vec<Item>,
    polls: Vec<Poll>,
    lease_failures: VecDeque<SourceError>,
    ack_failures: VecDeque<SourceError>,
    answers: VecDeque<Leases>,
    life: Option<CredentialLife>,
    renewals: VecDeque<Option<CredentialLife>>,
    renewed_at: Vec<Instant>,
}

#[derive(Clone)]
pub(crate) struct FakeEngine {
    began: Instant,
    state: Arc<Mutex<State>>,
    version: watch::Sender<u64>,
}

impl FakeEngine {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), state: Arc::default(), version: watch::Sender::new(0) }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap());
        self.version.send_modify(|version| *version += 1);
        result
    }

    pub(crate) fn deliver(&self, input: LiveInput) {
        self.change(|state| {
            state.items.push(Item { input, generation: 0, leased_until: None, acked: false, acks: 0 });
        });
    }

    /// Hands a delivery out again, as after a lost ack.
    pub(crate) fn redeliver(&self, id: &str) {
        self.change(|state| {
            let item = state.items.iter_mut().find(|item| item.input.id.as_str() == id).unwrap();
            (item.leased_until, item.acked) = (None, false);
        });
    }

    pub(crate) fn fail_next_lease(&self, error: SourceError) {
        self.change(|state| state.lease_failures.push_back(error));
    }

    pub(crate) fn fail_next_ack(&self, error: SourceError) {
        self.change(|state| state.ack_failures.push_back(error));
    }

    /// The next leases answer this, whatever is there.
    pub(crate) fn answer_next_lease(&self, leases: Leases) {
        self.change(|state| state.answers.push_back(leases));
    }

    pub(crate) fn credential_ends(&self, life: CredentialLife, renewals: Vec<Option<CredentialLife>>) {
        self.change(|state| {
            state.life = Some(life);
            state.renewals = renewals.into();
        });
    }

    pub(crate) fn renewed_at(&self) -> Vec<Instant> {
        self.state.lock().unwrap().renewed_at.clone()
    }

    pub(crate) fn acked(&self, id: &str) -> bool {
        let state = self.state.lock().unwrap();
        state.items.iter().any(|item| item.input.id.as_str() == id && item.acked)
    }

    pub(crate) fn acks(&self, id: &str) -> u32 {
        let state = self.state.lock().unwrap();
        state.items.iter().find(|item| item.input.id.as_str() == id).map_or(0, |item| item.acks)
    }

    pub(crate) fn leased(&self, id: &str) -> bool {
        let state = self.state.lock().unwrap();
        state.items.iter().any(|item| item.input.id.as_str() == id && item.generation > 0)
    }

    pub(crate) fn polls(&self) -> Vec<Poll> {
        self.state.lock().unwrap().polls.clone()
    }
}

impl State {
    fn lease(&mut self, poll: &Poll) -> Vec<LiveInput> {
        let now = Instant::now();
        let wanted = |kind: &DeliveryKind| poll.kinds.is_empty() || poll.kinds.contains(kind);
        let (mut leased, mut held_back) = (Vec::new(), BTreeSet::new());
        for item in self.items.iter_mut().filter(|item| !item.acked && wanted(&item.input.kind)) {
            let ordered = !matches!(item.input.kind, DeliveryKind::RequestResult | DeliveryKind::RequestWithdrawn);
            if item.leased_until.is_some_and(|until| until > now) {
                // A lease from an earlier call (of a process that died) holds back the rest of its conversation.
                if ordered {
                    held_back.insert(item.input.conversation_id.clone());
                }
            } else if !(ordered && held_back.contains(&item.input.conversation_id)) && leased.len() < poll.limit as usize {
                item.generation += 1;
                item.leased_until = Some(now + LEASE);
                let mut input = item.input.clone();
                input.delivery.generation = item.generation;
                leased.push(input);
            }
        }
        leased
    }
}

impl Source for FakeEngine {
    async fn lease(&self, poll: Poll) -> Result<Leases, SourceError> {
        let mut versions = self.version.subscribe();
        let end = Instant::now() + poll.wait;
        self.state.lock().unwrap().polls.push(poll.clone());
        loop {
            let expiry;
            {
                let mut state = self.state.lock().unwrap();
                if let Some(error) = state.lease_failures.pop_front() {
                    return Err(error);
                }
                if let Some(answer) = state.answers.pop_front() {
                    return Ok(answer);
                }
                let mut leased = state.lease(&poll);
                let until = Timestamp::from_micros(START).plus(self.began.elapsed() + LEASE);
                for input in &mut leased {
                    input.delivery.leased_until = until;
                }
                expiry = state
                    .items
                    .iter()
                    .filter(|item| !item.acked)
                    .filter_map(|item| item.leased_until)
                    .min()
                    .unwrap_or(end)
                    .min(end);
                if !leased.is_empty() {
                    return Ok(leased.into_iter().map(|input| input.delivery).collect::<Vec<_>>().into());
                }
            }
            tokio::select! {
                _ = versions.changed() => {}
                () = tokio::time::sleep_until(end) => return Ok(Leases::default()),
                () = tokio::time::sleep_until(expiry) => {}
            }
        }
    }

    async fn ack(&self, leases: Vec<(DeliveryId, i64)>) -> Result<Vec<AckOutcome>, SourceError> {
        tokio::task::yield_now().await;
        let mut state = self.state.lock().unwrap();
        if let Some(error) = state.ack_failures.pop_front() {
            return Err(error);
        }
        let mut outcomes = Vec::new();
        for (id, generation) in leases {
            let item = state.items.iter_mut().find(|item| item.input.id == id);
            outcomes.push(match item {
                Some(item) if item.generation == generation => {
                    item.acked = true;
                    item.acks += 1;
                    AckOutcome::Received
                }
                Some(_) => AckOutcome::Refused(ErrorCode::StaleGeneration),
                None => AckOutcome::Refused(ErrorCode::NotFound),
            });
        }
        Ok(outcomes)
    }

    async fn credential(&self) -> Result<CredentialLife, SourceError> {
        Ok(self.state.lock().unwrap().life.unwrap_or(CredentialLife { expires_at: None }))
    }

    async fn renew(&self) -> Result<Option<CredentialLife>, SourceError> {
        let mut state = self.state.lock().unwrap();
        state.renewed_at.push(Instant::now());
        Ok(state.renewals.pop_front().flatten())
    }
}
