//! Everything outside of the receiver, in one value behind one lock: engine, disk, runtime, people, and what must always hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use beepgrid::DeliveryId;
use beepgrid_receiver::LiveInput;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::{Engine, Kind, templates};
use crate::runtime::Runtime;
use crate::seed::{Numbers, Profile};

/// The number in an id like `d0012`.
pub(crate) fn number(id: &DeliveryId) -> u16 {
    id.as_str()[1..].parse().unwrap()
}

/// More than any history takes: a receiver that passes more does not come to rest.
const MOST_STEPS: u64 = 100_000;

/// One line of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    at: u64,
    life: u32,
    what: &'static str,
    about: u16,
    detail: i64,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, life, what, about, detail } = *self;
        write!(f, "{at:>9} ms  run {life:<2} {what}")?;
        if about > 0 {
            write!(f, " d{about:04}")?;
        }
        if detail == 0 { Ok(()) } else { write!(f, " ({detail})") }
    }
}

/// The receiver's process.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// Grows with each start.
    pub(crate) number: u32,
    pub(crate) dead: bool,
    /// After so many steps more it dies.
    pub(crate) steps_left: Option<u64>,
}

pub(crate) struct World {
    pub(crate) numbers: Numbers,
    pub(crate) profile: Profile,
    pub(crate) trace: Vec<Note>,
    pub(crate) violation: Option<String>,
    pub(crate) life: Life,
    /// No more faults: everything has to come to its end.
    pub(crate) calm: bool,
    pub(crate) engine: Engine,
    /// What each delivery is and where it belongs, also when a restored engine has forgotten it.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) conversations: Vec<u64>,
    pub(crate) templates: Arc<[LiveInput; 4]>,
    pub(crate) runtime: Runtime,
    /// Committed to the inbox.
    pub(crate) stored: BTreeSet<u16>,
    /// When that was, of what the engine handed out late.
    pub(crate) late_since: BTreeMap<u16, u64>,
    /// Discarded by a person.
    pub(crate) discarded: BTreeSet<u16>,
    /// Held after too many attempts once: from then on it stands where it comes.
    pub(crate) held_once: BTreeSet<u16>,
    /// Handed out late by the engine: what came after it may have gone already.
    pub(crate) late: BTreeSet<u16>,
    /// The evidence of the newest attempt that a call returned, by row, with the life that it was returned to.
    pub(crate) evidence: BTreeMap<u16, (u32, String)>,
    /// All that the receivers came by.
    steps: u64,
    start: Instant,
}

impl World {
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap()
    }

    pub(crate) fn note(&mut self, what: &'static str, about: u16, detail: i64) {
        self.trace.push(Note { at: self.now(), life: self.life.number, what, about, detail });
    }

    /// Something that must never be.
    pub(crate) fn wrong(&mut self, what: impl Into<String>) {
        self.note("WRONG", 0, 0);
        if self.violation.is_none() {
            self.violation = Some(what.into());
        }
    }

    pub(crate) fn is_dead(&self, life: u32) -> bool {
        self.life.dead || self.life.number != life
    }

    /// Whether a fault happens in a call that fails so often out of a hundred.
    pub(crate) fn fault(&mut self, rate: u64) -> bool {
        !self.calm && rate > 0 && self.numbers.percent(rate)
    }

    /// The receiver comes by a point between two of its effects.
    fn pass(&mut self, life: u32, what: &'static str, about: u16) -> Pause {
        if self.is_dead(life) {
            return Pause::Dead;
        }
        self.steps += 1;
        if self.steps > MOST_STEPS {
            self.wrong("it spins");
            self.life.dead = true;
            return Pause::Dead;
        }
        // Hours of idle polls at the end would hide what led to it.
        if about > 0 || !self.calm {
            self.note(what, about, 0);
        }
        if let Some(left) = &mut self.life.steps_left {
            if *left == 0 {
                self.life.dead = true;
                self.note("the receiver is killed", 0, 0);
                return Pause::Dead;
            }
            *left -= 1;
        }
        match self.numbers.below(100) {
            _ if self.calm => Pause::None,
            0..60 => Pause::None,
            60..80 => Pause::Yield,
            80..98 => Pause::Sleep(self.numbers.between(1, 20)),
            _ => Pause::Sleep(self.numbers.between(20, 4_000)),
        }
    }
}

enum Pause {
    None,
    Yield,
    Sleep(u64),
    Dead,
}

/// The world, shared.
#[derive(Clone)]
pub(crate) struct Sim {
    world: Arc<Mutex<World>>,
    /// Something happened at the engine.
    pub(crate) engine_news: Arc<Notify>,
}

impl Sim {
    pub(crate) fn new(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let profile = Profile::new(&mut numbers);
        let world = World {
            numbers,
            profile,
            trace: Vec::new(),
            violation: None,
            life: Life::default(),
            calm: false,
            engine: Engine::default(),
            kinds: Vec::new(),
            conversations: Vec::new(),
            templates: templates(),
            runtime: Runtime::new(),
            stored: BTreeSet::new(),
            late_since: BTreeMap::new(),
            discarded: BTreeSet::new(),
            held_once: BTreeSet::new(),
            late: BTreeSet::new(),
            evidence: BTreeMap::new(),
            steps: 0,
            start: Instant::now(),
        };
        Self { world: Arc::new(Mutex::new(world)), engine_news: Arc::default() }
    }

    pub(crate) fn profile_of(seed: u64) -> Profile {
        Profile::new(&mut Numbers::new(seed))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// A point at which the receiver of this life may be held up or killed. Does not return in a dead one.
    pub(crate) async fn step(&self, life: u32, what: &'static str, about: u16) {
        let pause = self.lock().pass(life, what, about);
        match pause {
            Pause::None => return,
            Pause::Yield => tokio::task::yield_now().await,
            Pause::Sleep(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            Pause::Dead => std::future::pending().await,
        }
        if self.lock().is_dead(life) {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) async fn sleep(millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}
