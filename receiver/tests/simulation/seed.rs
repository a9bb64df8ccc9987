//! What a seed decides: a stream of numbers, and the profile of one history.

use std::time::Duration;

use beepgrid_receiver::{BusyMode, Capabilities};

/// A stream of numbers that depends on the seed alone (splitmix64).
#[derive(Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not make neighbouring streams.
        let mut numbers = Self(seed.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ 0x5851_F42D_4C95_7F2D);
        numbers.next();
        numbers
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to one below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let place = usize::try_from(self.below(from.len() as u64)).unwrap();
        from.get(place)
    }
}

/// What stays the same during one history: the binding's abilities, the receiver's settings, how much goes wrong.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent yes-or-no facts")]
pub(crate) struct Profile {
    pub(crate) mode: BusyMode,
    pub(crate) able: Capabilities,
    /// `submit` answers only when the runtime has written the input down.
    pub(crate) writes_first: bool,
    /// `reconcile` tells what is in the runtime's memory from what nobody knows of.
    pub(crate) sees_memory: bool,
    /// Names the requests whose results somebody waits for.
    pub(crate) names_waiters: bool,
    /// The binding says when its runtime can't be reached.
    pub(crate) says_unreachable: bool,
    /// What an engine's or runtime's fault, or a full disk, comes to in a hundred calls.
    pub(crate) engine_faults: u64,
    pub(crate) runtime_faults: u64,
    pub(crate) disk_faults: u64,
    pub(crate) deaths: bool,
    pub(crate) clock_jumps: bool,
    pub(crate) engine_restores: bool,
    pub(crate) conversations: u64,
    pub(crate) events: u64,
    pub(crate) max_pending: u32,
    pub(crate) reserve: u32,
    pub(crate) batch: u32,
    pub(crate) attempts: u32,
    pub(crate) call_deadline: Duration,
}

impl Profile {
    pub(crate) fn new(numbers: &mut Numbers) -> Self {
        let mut able = Capabilities::new();
        able.steer = numbers.percent(85);
        able.durable_queue = numbers.percent(15);
        able.resume = numbers.percent(60);
        able.reconcile = numbers.percent(80);
        able.deduplicates = numbers.percent(15);
        able.reports_idle = !able.steer && !able.durable_queue || numbers.percent(80);
        able.ordered = numbers.percent(30);
        able.turn_identity = able.reports_idle && numbers.percent(50);
        able.steer_starts = able.steer && (!able.reports_idle || numbers.percent(30));
        let may_queue = able.reports_idle || able.durable_queue;
        let mode = if able.steer && (!may_queue || numbers.percent(60)) { BusyMode::Steer } else { BusyMode::Queue };
        let rate = |numbers: &mut Numbers| *numbers.pick(&[0, 0, 2, 8, 25]).unwrap();
        Self {
            mode,
            able,
            writes_first: able.durable_queue || numbers.percent(30),
            sees_memory: numbers.percent(40),
            names_waiters: numbers.percent(50),
            says_unreachable: numbers.percent(50),
            engine_faults: rate(numbers),
            runtime_faults: rate(numbers),
            disk_faults: *numbers.pick(&[0, 0, 0, 3, 15]).unwrap(),
            deaths: numbers.percent(85),
            clock_jumps: numbers.percent(30),
            engine_restores: numbers.percent(12),
            conversations: numbers.between(1, 3),
            events: numbers.between(5, 26),
            max_pending: u32::try_from(numbers.between(1, 6)).unwrap(),
            // Where a turn waits for results, the reserve must be larger than what may come while it waits.
            reserve: if able.resume { 64 } else { u32::try_from(numbers.between(1, 3)).unwrap() },
            batch: u32::try_from(numbers.between(1, 6)).unwrap(),
            attempts: u32::try_from(numbers.between(2, 6)).unwrap(),
            call_deadline: Duration::from_millis(numbers.between(200, 4_000)),
        }
    }
}
