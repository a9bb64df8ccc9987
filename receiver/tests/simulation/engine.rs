//! The engine as its contract says: leases under growing generations, order in a conversation, results beside it; and what goes wrong on the
//! way: lost, late and garbled answers, a part of a batch, a revoked credential, a restored database.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use beepgrid::{DeliveryId, DeliveryKind, ErrorCode, Timestamp};
use beepgrid_receiver::LiveInput;
use beepgrid_receiver::engine::{AckOutcome, CredentialLife, Leases, Poll, Source, SourceError, SourceErrorKind};
use beepgrid_receiver::inbox::suite;

use crate::world::{Sim, World, number};

const LEASE: u64 = 30_000;
/// What the engine's clock said at the start, and the receiver's.
pub(crate) fn start() -> Timestamp {
    Timestamp::from_micros(1_000_000_000_000_000)
}

/// What a delivery is, to the judge of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Message,
    /// A message that the runtime never takes.
    Poison,
    Request,
    /// The result of a request that the agent made with this number.
    Result(u64),
    /// About the request with this number.
    Withdrawn(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Ready,
    Leased {
        until: u64,
    },
    Acked,
    /// Out of the line until an operator puts it back.
    Parked,
    /// Withdrawn before anybody leased it.
    Gone,
}

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) conversation: u64,
    input: LiveInput,
    generation: i64,
    due: u64,
    stage: Stage,
}

impl Item {
    fn is_ordered(&self) -> bool {
        matches!(self.kind, Kind::Message | Kind::Poison | Kind::Request)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.stage == Stage::Gone
    }

    /// Whether it can still be taken back.
    pub(crate) fn is_request_open(&self) -> bool {
        self.kind == Kind::Request && self.stage != Stage::Gone
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.stage, Stage::Acked | Stage::Gone)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Engine {
    /// By number, from 1 without gaps; `None` is what a restored engine knows nothing of.
    pub(crate) items: Vec<Option<Item>>,
    pub(crate) revoked: bool,
    /// The run of the receiver that was told so last.
    pub(crate) refused_life: u32,
    backup: Vec<Option<Item>>,
}

/// One input of each kind, to be copied: making them from their wire form takes longer than all the rest.
pub(crate) fn templates() -> Arc<[LiveInput; 4]> {
    static TEMPLATES: OnceLock<Arc<[LiveInput; 4]>> = OnceLock::new();
    let about = |kind| suite::about_request("d0", 1, kind, "req_0");
    let make =
        || [suite::message_in("d0", 1, "", "text"), about("request"), about("request_result"), about("request_withdrawn")].into();
    TEMPLATES.get_or_init(make).clone()
}

impl World {
    /// Makes a delivery.
    pub(crate) fn deliver(&mut self, kind: Kind) -> u16 {
        let place = u16::try_from(self.engine.items.len() + 1).unwrap();
        let id = format!("d{place:04}");
        let mut conversation = 1 + self.numbers.below(self.profile.conversations);
        // Several in one moment, so that the id has to decide.
        let created = start().plus(Duration::from_micros(u64::from(place / 3)));
        let (template, request) = match kind {
            Kind::Message | Kind::Poison => (&self.templates[0], None),
            Kind::Request => (&self.templates[1], Some(format!("req_{place}"))),
            Kind::Result(request) => (&self.templates[2], Some(format!("own_{request}"))),
            Kind::Withdrawn(request) => {
                conversation = self.conversations[usize::from(request) - 1];
                (&self.templates[3], Some(format!("req_{request}")))
            }
        };
        let mut input = template.clone();
        input.id = id.into();
        input.conversation_id = format!("c{conversation}").into();
        input.delivery.id = input.id.clone();
        input.delivery.created_at = created;
        input.delivery.payload.conversation_id = input.conversation_id.clone();
        if let (Some(about), Some(request)) = (&mut input.delivery.payload.request, request) {
            about.id = request.into();
        }
        let item = Item { kind, conversation, input, generation: 0, due: 0, stage: Stage::Ready };
        self.engine.items.push(Some(item));
        self.kinds.push(kind);
        self.conversations.push(conversation);
        self.note("the engine has", place, i64::try_from(conversation).unwrap());
        place
    }

    pub(crate) fn item(&self, number: u16) -> Option<&Item> {
        self.engine.items.get(usize::from(number) - 1)?.as_ref()
    }

    fn item_mut(&mut self, number: u16) -> Option<&mut Item> {
        self.engine.items.get_mut(usize::from(number) - 1)?.as_mut()
    }

    /// Somebody takes a request back.
    pub(crate) fn withdraw(&mut self, number: u16) {
        let Some(item) = self.item_mut(number).filter(|item| item.kind == Kind::Request) else { return };
        if item.generation == 0 {
            item.stage = Stage::Gone;
            self.note("gone before it was leased", number, 0);
        } else {
            self.deliver(Kind::Withdrawn(number));
        }
    }

    /// The delivery that takes back the request with this number.
    pub(crate) fn withdrawal_of(&self, request: u16) -> Option<u16> {
        self.kinds.iter().position(|kind| *kind == Kind::Withdrawn(request)).map(|place| u16::try_from(place + 1).unwrap())
    }

    /// What nobody has leased leaves the line, or comes back into it.
    pub(crate) fn park(&mut self, number: u16) {
        if let Some(item) = self.item_mut(number).filter(|item| item.stage == Stage::Ready && item.generation == 0) {
            item.stage = Stage::Parked;
            self.late.insert(number);
            self.note("parked", number, 0);
        }
    }

    pub(crate) fn requeue_all(&mut self) {
        for item in self.engine.items.iter_mut().flatten().filter(|item| item.stage == Stage::Parked) {
            item.stage = Stage::Ready;
        }
    }

    pub(crate) fn back_up(&mut self) {
        self.engine.backup = self.engine.items.clone();
        self.note("the engine is backed up", 0, 0);
    }

    /// The engine goes back to its backup. What came since is unknown to it.
    pub(crate) fn restore(&mut self) {
        let length = self.engine.items.len();
        self.engine.items = self.engine.backup.clone();
        self.engine.items.resize(length, None);
        self.note("the engine is restored", 0, 0);
    }

    fn lease_now(&mut self, poll: &Poll) -> Vec<LiveInput> {
        let now = self.now();
        let wanted = |item: &Item| poll.kinds.is_empty() || poll.kinds.contains(&item.input.kind);
        let (mut leased, mut held_back) = (Vec::new(), BTreeSet::new());
        for ordered in [false, true] {
            for item in self.engine.items.iter_mut().flatten().filter(|item| item.is_ordered() == ordered) {
                match item.stage {
                    Stage::Leased { until } if until <= now => {
                        item.stage = Stage::Ready;
                        // At once the first time, then ever later.
                        let wait = if item.generation < 2 { 0 } else { 1_000_u64 << (item.generation - 1).min(8) };
                        item.due = until + wait.min(300_000);
                    }
                    _ => {}
                }
                match item.stage {
                    Stage::Ready if item.due <= now => {}
                    Stage::Ready | Stage::Leased { .. } => {
                        // Also what this very instance holds by an earlier lease: its answer may be lost.
                        held_back.insert(item.conversation);
                        continue;
                    }
                    _ => continue,
                }
                if !wanted(item) || leased.len() >= poll.limit as usize || ordered && held_back.contains(&item.conversation) {
                    continue;
                }
                item.generation += 1;
                item.stage = Stage::Leased { until: now + LEASE };
                let mut input = item.input.clone();
                input.delivery.generation = item.generation;
                input.delivery.leased_until = start().plus(Duration::from_millis(now + LEASE));
                leased.push(input);
            }
            // What stands outside of order holds nothing back.
            held_back.clear();
        }
        leased
    }

    /// When something becomes due or a lease runs out, at the latest in so many milliseconds.
    fn next_change(&self, within: u64) -> u64 {
        let now = self.now();
        let times = self.engine.items.iter().flatten().filter_map(|item| match item.stage {
            Stage::Leased { until } => Some(until),
            Stage::Ready => Some(item.due),
            _ => None,
        });
        times.filter(|at| *at > now).map(|at| at - now).min().unwrap_or(within).min(within)
    }

    fn ack_one(&mut self, id: &DeliveryId, generation: i64) -> AckOutcome {
        let place = number(id);
        if !self.stored.contains(&place) {
            self.wrong(format!("{id} was acknowledged before it was stored"));
        }
        let Some(item) = self.item_mut(place) else { return AckOutcome::Refused(ErrorCode::NotFound) };
        if item.generation != generation || matches!(item.stage, Stage::Gone) {
            return AckOutcome::Refused(ErrorCode::StaleGeneration);
        }
        item.stage = Stage::Acked;
        self.note("acknowledged", place, generation);
        AckOutcome::Received
    }
}

/// The engine as one run of the receiver reaches it.
pub(crate) struct Line {
    pub(crate) sim: Sim,
    pub(crate) life: u32,
}

fn fails(kind: SourceErrorKind) -> SourceError {
    SourceError::new(kind, "as the seed wants")
}

impl Line {
    /// Before the engine hears of a call: it may be refused, or lost on the way.
    async fn ask(&self, what: &'static str) -> Result<(), SourceError> {
        self.sim.step(self.life, what, 0).await;
        let mut world = self.sim.lock();
        if world.engine.revoked {
            world.note("the credential is revoked", 0, 0);
            world.engine.refused_life = self.life;
            return Err(fails(SourceErrorKind::Final));
        }
        let rate = world.profile.engine_faults;
        if world.fault(rate) {
            world.note("the call is lost", 0, 0);
            return Err(fails(SourceErrorKind::Passing).retry_after(Some(Duration::from_secs(3)).filter(|_| rate > 8)));
        }
        Ok(())
    }

    /// After the engine did its part: the answer may be late, lost or garbled.
    async fn answer<T>(&self, what: &'static str, answer: T) -> Result<T, SourceError> {
        self.sim.step(self.life, what, 0).await;
        let late = {
            let mut world = self.sim.lock();
            let rate = world.profile.engine_faults;
            if !world.fault(rate) {
                return Ok(answer);
            }
            match world.numbers.below(4) {
                0 => {
                    world.note("the answer is garbled", 0, 0);
                    return Err(fails(SourceErrorKind::Undecodable));
                }
                1 => {
                    world.note("the answer is lost", 0, 0);
                    None
                }
                _ => Some(world.numbers.between(100, 40_000)),
            }
        };
        let Some(late) = late else { return Err(fails(SourceErrorKind::Passing)) };
        Sim::sleep(late).await;
        self.sim.step(self.life, "a late answer", 0).await;
        Ok(answer)
    }
}

impl Source for Line {
    async fn lease(&self, poll: Poll) -> Result<Leases, SourceError> {
        self.ask("lease").await?;
        let mut left = u64::try_from(poll.wait.as_millis()).unwrap();
        let leased = loop {
            let news = self.sim.engine_news.notified();
            if self.sim.lock().is_dead(self.life) {
                std::future::pending::<()>().await;
            }
            let wait = {
                let mut world = self.sim.lock();
                let leased = world.lease_now(&poll);
                if !leased.is_empty() || left == 0 {
                    for input in &leased {
                        world.note("leased", number(&input.id), input.delivery.generation);
                    }
                    break leased;
                }
                world.next_change(left).max(1)
            };
            let before = self.sim.lock().now();
            tokio::select! {
                biased;
                () = news => {}
                () = Sim::sleep(wait) => {}
            }
            left = left.saturating_sub(self.sim.lock().now() - before);
        };
        let deliveries: Vec<_> = leased.into_iter().map(|input| input.delivery).collect();
        Ok(self.answer("leased", deliveries).await?.into())
    }

    async fn ack(&self, leases: Vec<(DeliveryId, i64)>) -> Result<Vec<AckOutcome>, SourceError> {
        self.ask("ack").await?;
        let outcomes = {
            let mut world = self.sim.lock();
            let rate = world.profile.engine_faults;
            let mut outcomes = Vec::new();
            for (id, generation) in &leases {
                // Each on its own: a part may fail.
                let refused = world.fault(rate);
                let busy = AckOutcome::Refused(ErrorCode::Other("unavailable".to_owned()));
                outcomes.push(if refused { busy } else { world.ack_one(id, *generation) });
            }
            outcomes
        };
        self.answer("acked", outcomes).await
    }

    async fn credential(&self) -> Result<CredentialLife, SourceError> {
        Ok(CredentialLife { expires_at: None })
    }

    async fn renew(&self) -> Result<Option<CredentialLife>, SourceError> {
        Ok(None)
    }
}

/// The kinds that stand outside of order.
pub(crate) fn is_ordinary(kind: &DeliveryKind) -> bool {
    !matches!(kind, DeliveryKind::RequestResult | DeliveryKind::RequestWithdrawn)
}
