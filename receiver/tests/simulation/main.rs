//! Deterministic simulation: the receiver whole, against an engine, a disk, a runtime and people that do their worst under virtual time.
//!
//! A seed decides everything: the binding's abilities, what arrives, what fails, how long each call takes, and at which step the receiver or the
//! runtime dies. In the end all is calm, and nothing may be lost, handed over twice, out of order or stuck. `BEEPGRID_SIM_SEED=7` plays one seed and
//! prints its trace, `BEEPGRID_SIM_SEEDS=100000` plays more of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod binding;
mod disk;
mod engine;
mod judge;
mod mutants;
mod runtime;
mod seed;
mod story;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use beepgrid_receiver::mutants::{Mutant, plant};
use story::{Told, play};

/// Seeds that every run of the tests plays.
const SEEDS: u64 = 10_000;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

fn trace(told: &Told) -> String {
    let mut text = String::new();
    for note in &told.trace {
        writeln!(text, "{note}").unwrap();
    }
    text
}

/// Plays seeds on all processors; the first that fails, if one does.
fn first_failure(seeds: std::ops::Range<u64>, mutant: Option<Mutant>) -> Option<(u64, Told)> {
    let next = AtomicU64::new(seeds.start);
    let failed: Mutex<Option<(u64, Told)>> = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                plant(mutant);
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let found = failed.lock().unwrap().as_ref().is_some_and(|(earlier, _)| *earlier < seed);
                    if seed >= seeds.end || found {
                        return;
                    }
                    let told = play(seed);
                    let mut failed = failed.lock().unwrap();
                    if told.violation.is_some() && failed.as_ref().is_none_or(|(earlier, _)| seed < *earlier) {
                        *failed = Some((seed, told));
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap()
}

#[test]
fn nothing_is_lost_doubled_out_of_order_or_stuck() {
    if let Some(seed) = setting("BEEPGRID_SIM_SEED") {
        let told = play(seed);
        println!("{}", trace(&told));
        println!("{:#?}", world::Sim::profile_of(seed));
        assert_eq!(told.violation, None, "seed {seed}");
        return;
    }
    let seeds = setting("BEEPGRID_SIM_SEEDS").unwrap_or(SEEDS);
    if let Some((seed, told)) = first_failure(1..seeds + 1, None) {
        panic!("{}\nseed {seed}: {}\nBEEPGRID_SIM_SEED={seed} plays it again", trace(&told), told.violation.unwrap_or_default());
    }
}

#[test]
fn the_same_seed_makes_the_same_history() {
    for seed in 1..=60 {
        let (once, again) = (play(seed), play(seed));
        let differs = once.trace.iter().zip(&again.trace).position(|(a, b)| a != b);
        assert_eq!(differs.map(|place| (once.trace[place], again.trace[place])), None, "seed {seed}");
        assert_eq!(once, again, "seed {seed}");
    }
}
