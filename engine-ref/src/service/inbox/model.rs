//! Random histories of one inbox with three instances, against a model that is too simple to be wrong.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use beepgrid::{DeliveryId, DeliveryKind, InboxInput, Timestamp};
use proptest::prelude::*;

use super::bed::{Bed, start};
use super::{LEASE, LONGEST_LEASE, backoff};

const INSTANCES: [&str; 3] = ["ins_a", "ins_b", "ins_c"];

#[derive(Clone, Debug)]
enum Step {
    Send { conversation: usize },
    Result,
    Lease { instance: usize, limit: i64 },
    Ack { which: usize, by: Option<usize>, off: i64 },
    Extend { which: usize, seconds: i64 },
    Release { which: usize, delay: i64 },
    Advance { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_usize).prop_map(|conversation| Step::Send { conversation }),
        1 => Just(Step::Result),
        6 => (0..3_usize, 1..4_i64).prop_map(|(instance, limit)| Step::Lease { instance, limit }),
        3 => (any::<usize>(), proptest::option::weighted(0.2, 0..3_usize), 0..2_i64)
            .prop_map(|(which, by, off)| Step::Ack { which, by, off: if by.is_some() { off } else { 0 } }),
        1 => (any::<usize>(), 1..301_i64).prop_map(|(which, seconds)| Step::Extend { which, seconds }),
        2 => (any::<usize>(), prop_oneof![Just(0), 1..90_i64]).prop_map(|(which, delay)| Step::Release { which, delay }),
        3 => prop_oneof![Just(1_u64), Just(15), Just(30), Just(31), Just(34), 1..400_u64].prop_map(|seconds| Step::Advance { seconds }),
    ]
}

/// One delivery of the model.
#[derive(Clone, Debug)]
struct One {
    id: DeliveryId,
    conversation: Option<usize>,
    generation: i64,
    attempts: i64,
    holder: Option<usize>,
    leased_at: Timestamp,
    until: Timestamp,
    due: Timestamp,
    acked: bool,
}

impl One {
    fn held_by(&self, now: Timestamp) -> Option<usize> {
        self.holder.filter(|_| !self.acked && self.until > now)
    }
}

#[derive(Default)]
struct Model {
    all: Vec<One>,
    now: Timestamp,
}

impl Model {
    /// Whether `one` may be leased by the call that has taken `taking` so far.
    fn is_free(&self, index: usize, taking: &HashSet<usize>) -> bool {
        let one = &self.all[index];
        if one.acked || one.due > self.now {
            return false;
        }
        one.conversation.is_none()
            || !self.all.iter().enumerate().any(|(other, held)| {
                held.conversation == one.conversation
                    && !held.acked
                    && held.due > self.now
                    && !taking.contains(&other)
                    && (held.held_by(self.now).is_some() || other < index)
            })
    }

    fn lease(&mut self, instance: usize, limit: usize) -> Vec<(DeliveryId, i64, i64)> {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|index| (self.all[*index].conversation.is_some(), *index));
        let mut leased = Vec::new();
        let mut taking = HashSet::new();
        for index in order {
            if leased.len() < limit && self.is_free(index, &taking) {
                taking.insert(index);
                let now = self.now;
                let one = &mut self.all[index];
                one.generation += 1;
                one.attempts += 1;
                one.holder = Some(instance);
                one.leased_at = now;
                one.until = now.plus(LEASE);
                one.due = one.until.plus(backoff(one.attempts));
                leased.push((one.id.clone(), one.generation, one.attempts));
            }
        }
        leased
    }

    /// No conversation is in the hands of two instances.
    fn check_holders(&self) {
        let mut holders: HashMap<usize, usize> = HashMap::new();
        for one in &self.all {
            if let (Some(conversation), Some(holder)) = (one.conversation, one.held_by(self.now)) {
                assert_eq!(*holders.entry(conversation).or_insert(holder), holder, "two holders of one conversation");
            }
        }
    }
}

/// What the leases of a whole history show, whatever the model thinks.
#[derive(Default)]
struct Witness {
    generations: HashMap<DeliveryId, i64>,
    newest_first: HashMap<usize, usize>,
    acked: HashSet<DeliveryId>,
}

impl Witness {
    fn saw(&mut self, model: &Model, id: &DeliveryId, generation: i64) {
        assert!(!self.acked.contains(id), "acknowledged and leased again");
        let before = self.generations.insert(id.clone(), generation).unwrap_or(0);
        assert!(generation > before, "the generation did not grow");
        let index = model.all.iter().position(|one| one.id == *id).unwrap();
        if let Some(conversation) = model.all[index].conversation
            && before == 0
        {
            let newest = self.newest_first.insert(conversation, index);
            assert!(newest.is_none_or(|newest| newest < index), "first deliveries out of order");
        }
    }
}

async fn run(steps: Vec<Step>) {
    let bed = Bed::memory().await;
    let mut model = Model { now: start(), ..Model::default() };
    let mut witness = Witness::default();
    for step in steps {
        perform(&bed, &mut model, &mut witness, step).await;
        model.check_holders();
        bed.check_lines().await;
    }
    let (along, live) = bed.counted().await;
    assert_eq!(along, live);
    // Nothing is lost: one instance that goes on gets everything that was not acknowledged.
    for _ in 0..4 {
        bed.clock.advance(LONGEST_LEASE);
        model.now = model.now.plus(LONGEST_LEASE);
        lease(&bed, &mut model, &mut witness, 0, 100).await;
        for index in 0..model.all.len() {
            if model.all[index].held_by(model.now) == Some(0) {
                ack(&bed, &mut model, &mut witness, index, 0, 0).await;
            }
        }
    }
    assert!(model.all.iter().all(|one| one.acked));
    assert_eq!(witness.acked.len(), model.all.len());
    assert_eq!(bed.counted().await, (0, 0));
}

async fn lease(bed: &Bed, model: &mut Model, witness: &mut Witness, instance: usize, limit: i64) {
    let leased = bed.lease_with(INSTANCES[instance], InboxInput::new().limit(limit)).await;
    let got: Vec<_> = leased.iter().map(|delivery| (delivery.id.clone(), delivery.generation, delivery.attempt)).collect();
    assert_eq!(got, model.lease(instance, usize::try_from(limit).unwrap()));
    for (id, generation, _) in got {
        witness.saw(model, &id, generation);
    }
}

async fn ack(bed: &Bed, model: &mut Model, witness: &mut Witness, index: usize, by: usize, off: i64) {
    let one = &mut model.all[index];
    let fine = bed.ack(INSTANCES[by], &one.id, one.generation - off).await.is_ok();
    assert_eq!(fine, one.holder == Some(by) && off == 0);
    if fine {
        one.acked = true;
        witness.acked.insert(one.id.clone());
    }
}

async fn perform(bed: &Bed, model: &mut Model, witness: &mut Witness, step: Step) {
    let now = model.now;
    let some = |which: usize| if model.all.is_empty() { None } else { Some(which % model.all.len()) };
    match step {
        Step::Send { .. } | Step::Result => {
            let conversation = if let Step::Send { conversation } = step { Some(conversation) } else { None };
            let id = match conversation {
                Some(number) => bed.message(&format!("cnv_{number}")).await,
                None => bed.make(DeliveryKind::RequestResult, "cnv_0", "req_closed", None).await,
            };
            let fresh = One {
                id,
                conversation,
                generation: 0,
                attempts: 0,
                holder: None,
                leased_at: now,
                until: now,
                due: now,
                acked: false,
            };
            model.all.push(fresh);
        }
        Step::Lease { instance, limit } => lease(bed, model, witness, instance, limit).await,
        Step::Ack { which, by, off } => {
            if let Some(index) = some(which)
                && let Some(by) = by.or(model.all[index].holder)
            {
                ack(bed, model, witness, index, by, off).await;
            }
        }
        Step::Extend { which, seconds } => {
            if let Some(index) = some(which)
                && let Some(holder) = model.all[index].holder
            {
                extend(bed, model, index, holder, seconds).await;
            }
        }
        Step::Release { which, delay } => {
            if let Some(index) = some(which)
                && let Some(holder) = model.all[index].holder
            {
                let one = &mut model.all[index];
                let fine = bed.release(INSTANCES[holder], &one.id, one.generation, delay).await.is_ok();
                assert_eq!(fine, !one.acked);
                if fine {
                    one.holder = None;
                    one.attempts -= 1;
                    one.due = now.plus(Duration::from_secs(delay.unsigned_abs()));
                }
            }
        }
        Step::Advance { seconds } => {
            bed.advance(seconds);
            model.now = now.plus(Duration::from_secs(seconds));
        }
    }
}

async fn extend(bed: &Bed, model: &mut Model, index: usize, holder: usize, seconds: i64) {
    let now = model.now;
    let beside = |other: &One| {
        let same = other.conversation.is_some() && other.conversation == model.all[index].conversation;
        same && other.held_by(now).is_some_and(|by| by != holder)
    };
    let lapsed = model.all[index].held_by(now).is_none();
    let taken = lapsed && model.all.iter().any(beside);
    let one = &mut model.all[index];
    let end = one.leased_at.plus(LONGEST_LEASE);
    let extended = bed.extend(INSTANCES[holder], &one.id, one.generation, seconds).await.ok();
    let until = now.plus(Duration::from_secs(seconds.unsigned_abs())).min(end);
    assert_eq!(extended, (!one.acked && !taken && end > now).then_some(until));
    if extended.is_some() {
        one.until = until;
        one.due = until.plus(backoff(one.attempts));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_agree_with_the_model(steps in proptest::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}
