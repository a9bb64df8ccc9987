//! One history: things happen in the order that the seed says, then everything calms down, then it is judged.

use std::time::Duration;

use beepgrid::DeliveryId;
use beepgrid_receiver::inbox::memory::MemoryInbox;
use beepgrid_receiver::{Clock, Handle, HeldReason, InboxStore, InputState, Receiver, Resolution, RetryPolicy, RunError};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::binding::Wire;
use crate::disk::Disk;
use crate::engine::{Kind, Line, start};
use crate::judge::judge;
use crate::world::{Note, Sim, number};

/// Looks that the end may take before it counts as stuck: hours of the simulation's time.
const PATIENCE: u32 = 900;

/// What became of a seed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) trace: Vec<Note>,
    pub(crate) violation: Option<String>,
}

/// Plays a seed.
pub(crate) fn play(seed: u64) -> Told {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let sim = Sim::new(seed);
        let mut story = Story::new(sim.clone());
        story.unfold().await;
        let mut world = sim.lock();
        Told { trace: std::mem::take(&mut world.trace), violation: world.violation.take() }
    })
}

struct Process {
    cancel: CancellationToken,
    handle: Handle<Disk>,
    task: JoinHandle<Result<(), RunError>>,
}

struct Story {
    sim: Sim,
    inbox: MemoryInbox,
    clock: Clock,
    process: Option<Process>,
    asked: u64,
}

impl Story {
    fn new(sim: Sim) -> Self {
        let clock = Clock::following_tokio(start());
        Self { sim, inbox: MemoryInbox::new(), clock, process: None, asked: 0 }
    }

    async fn unfold(&mut self) {
        let events = self.sim.lock().profile.events;
        self.start();
        for _ in 0..events {
            self.happen().await;
            self.pause().await;
            self.look_after().await;
            if self.sim.lock().violation.is_some() {
                return;
            }
        }
        self.calm_down().await;
        if self.sim.lock().violation.is_none() {
            judge(&self.sim, &self.inbox).await;
        }
        self.kill().await;
    }

    fn start(&mut self) {
        let life = {
            let mut world = self.sim.lock();
            world.life.number += 1;
            world.life.dead = false;
            world.life.steps_left = None;
            world.note("the receiver starts", 0, 0);
            world.life.number
        };
        let profile = self.sim.lock().profile.clone();
        let sim = || self.sim.clone();
        let disk = Disk { sim: sim(), life, inbox: self.inbox.clone() };
        let receiver = Receiver::builder(Line { sim: sim(), life }, disk, Wire { sim: sim(), life })
            .mode(profile.mode)
            .clock(self.clock.clone())
            .retry(RetryPolicy {
                attempts: profile.attempts,
                first_delay: Duration::from_millis(200),
                max_delay: Duration::from_secs(10),
            })
            .call_deadline(profile.call_deadline)
            .max_pending(profile.max_pending)
            .reserve(profile.reserve)
            .batch(profile.batch)
            .build()
            .unwrap();
        let cancel = CancellationToken::new();
        let handle = receiver.handle();
        self.process = Some(Process { cancel: cancel.clone(), handle, task: tokio::spawn(receiver.run(cancel)) });
    }

    /// SIGKILL: nothing more is done, nothing more is recorded.
    async fn kill(&mut self) {
        let Some(process) = self.process.take() else { return };
        {
            let mut world = self.sim.lock();
            if !world.life.dead {
                world.life.dead = true;
                world.note("the receiver is killed", 0, 0);
            }
        }
        process.task.abort();
        let _ = process.task.await;
    }

    async fn stop(&mut self) {
        let Some(process) = self.process.take() else { return };
        self.sim.lock().note("the receiver is asked to stop", 0, 0);
        process.cancel.cancel();
        let mut task = process.task;
        if tokio::time::timeout(Duration::from_secs(120), &mut task).await.is_err() && !self.sim.lock().life.dead {
            self.sim.lock().wrong("the receiver does not stop");
        }
        self.sim.lock().life.dead = true;
        task.abort();
    }

    fn has_ended(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.task.is_finished())
    }

    /// Restarts what died; sometimes only later.
    async fn look_after(&mut self) {
        let (dead, refused, wait) = {
            let mut world = self.sim.lock();
            (world.life.dead, world.engine.refused_life == world.life.number, world.numbers.percent(40))
        };
        if self.has_ended() && !dead {
            if !refused {
                self.sim.lock().wrong("the receiver ended by itself");
            }
            self.process = None;
            self.sim.lock().life.dead = true;
        }
        if self.sim.lock().life.dead && !wait {
            self.kill().await;
            self.start();
        }
    }

    async fn pause(&mut self) {
        let millis = {
            let mut world = self.sim.lock();
            match world.numbers.below(100) {
                0..15 => 0,
                15..60 => world.numbers.between(1, 60),
                60..85 => world.numbers.between(60, 3_000),
                85..97 => world.numbers.between(3_000, 45_000),
                _ => world.numbers.between(45_000, 120_000),
            }
        };
        Sim::sleep(millis).await;
    }

    async fn happen(&mut self) {
        let event = self.sim.lock().numbers.below(100);
        match event {
            0..30 => self.arrivals(),
            30..50 => self.runtime_acts(),
            50..59 => self.runtime_suffers(),
            59..73 => self.receiver_suffers().await,
            73..82 => self.engine_suffers(),
            82..89 => self.ask(),
            89..94 => {
                self.a_turn_may_end();
                self.people_decide().await;
            }
            94..97 => self.clock_jumps(),
            _ => {}
        }
    }

    /// At the very moment at which a person decides, so that the receiver asks the runtime about the same.
    fn a_turn_may_end(&self) {
        let mut world = self.sim.lock();
        if world.numbers.percent(60) {
            world.end_turn();
        }
    }

    fn arrivals(&mut self) {
        let mut world = self.sim.lock();
        for _ in 0..world.numbers.between(1, 4) {
            match world.numbers.below(100) {
                0..8 => {
                    // Comes back into the line later.
                    let late = world.deliver(Kind::Message);
                    world.park(late);
                }
                8..78 => drop(world.deliver(Kind::Message)),
                78..82 => drop(world.deliver(Kind::Poison)),
                82..94 => drop(world.deliver(Kind::Request)),
                _ => {
                    let requests: Vec<u16> = world.requests().collect();
                    if let Some(request) = world.numbers.pick(&requests).copied() {
                        world.withdraw(request);
                    }
                }
            }
        }
        drop(world);
        self.sim.engine_news.notify_waiters();
    }

    fn runtime_acts(&self) {
        let mut world = self.sim.lock();
        match world.numbers.below(10) {
            0..2 => world.begin(),
            2..4 => world.keep(),
            4 => world.set_joinable(false),
            5 => world.set_joinable(true),
            _ => world.end_turn(),
        }
    }

    fn runtime_suffers(&self) {
        let mut world = self.sim.lock();
        match world.numbers.below(10) {
            0..3 => world.interrupt(),
            3..5 => world.give_back(),
            _ if !world.profile.deaths => {}
            5..8 => world.die(),
            _ => world.revive(),
        }
        if world.numbers.percent(60) {
            world.revive();
        }
    }

    async fn receiver_suffers(&mut self) {
        let (what, steps) = {
            let mut world = self.sim.lock();
            if !world.profile.deaths {
                return;
            }
            (world.numbers.below(10), world.numbers.below(60))
        };
        match what {
            // At any later step.
            0..6 => self.sim.lock().life.steps_left = Some(steps),
            6..8 => self.kill().await,
            8 => self.stop().await,
            _ => {
                self.sim.lock().die();
                self.kill().await;
            }
        }
    }

    fn engine_suffers(&self) {
        let mut world = self.sim.lock();
        let open: Vec<u16> = world.requests().collect();
        match world.numbers.below(10) {
            0..2 => {
                if let Some(request) = world.numbers.pick(&open).copied() {
                    world.withdraw(request);
                }
            }
            2..4 => {
                let last = u16::try_from(world.engine.items.len()).unwrap();
                let number = u16::try_from(world.numbers.between(1, u64::from(last.max(1)))).unwrap();
                if number <= last {
                    world.park(number);
                }
            }
            4..6 => world.requeue_all(),
            6 => world.engine.revoked = true,
            7 if world.profile.engine_restores => world.back_up(),
            8 if world.profile.engine_restores => world.restore(),
            _ => world.engine.revoked = false,
        }
        drop(world);
        self.sim.engine_news.notify_waiters();
    }

    /// The agent asks somebody; its turn waits for the answer where the runtime can be resumed. The answer comes some time later.
    fn ask(&mut self) {
        self.asked += 1;
        let (sim, request) = (self.sim.clone(), self.asked);
        let mut world = self.sim.lock();
        let waits = world.profile.able.resume && world.runtime.busy;
        if waits {
            world.wait_for(request);
        }
        let after = world.numbers.between(0, 20_000);
        drop(world);
        tokio::spawn(async move {
            Sim::sleep(after).await;
            sim.lock().deliver(Kind::Result(request));
            sim.engine_news.notify_waiters();
        });
    }

    fn clock_jumps(&self) {
        let mut world = self.sim.lock();
        if world.profile.clock_jumps {
            let hours = i64::try_from(world.numbers.between(1, 10_000)).unwrap() * if world.numbers.percent(50) { 1 } else { -1 };
            world.note("the clock jumps by hours", 0, hours);
            self.clock.jump(hours * 3_600_000_000);
        }
    }

    /// A person looks at what is held, finds out the truth and says it.
    async fn people_decide(&mut self) {
        let held = self.inbox.held(100).await.unwrap();
        for stored in held {
            let row = number(&stored.id);
            let reason = stored.held.as_ref().unwrap().reason;
            let decision = {
                let mut world = self.sim.lock();
                let poison = world.item(row).is_some_and(|item| item.kind == Kind::Poison);
                let given_up = reason == HeldReason::TooManyAttempts && (poison || world.numbers.percent(20));
                match () {
                    () if world.runtime.history.contains(&row) => Resolution::Accepted,
                    // Nobody can know yet.
                    () if world.runtime.may_have(row) => continue,
                    () if given_up => Resolution::Discard,
                    () => Resolution::Retry,
                }
            };
            self.decide(row, decision).await;
        }
    }

    async fn decide(&mut self, row: u16, decision: Resolution) {
        let id: DeliveryId = format!("d{row:04}").into();
        let running = self.process.as_ref().filter(|_| !self.sim.lock().life.dead);
        let done = match running {
            // The command may hang because the receiver is killed meanwhile.
            Some(process) => tokio::time::timeout(Duration::from_secs(10), process.handle.resolve(&id, decision))
                .await
                .is_ok_and(|done| done.is_ok()),
            None => self.inbox.resolve(id.clone(), decision, self.clock.now()).await.is_ok(),
        };
        // The command may have been killed after it had done its work.
        let ended = self.inbox.get(id).await.unwrap().is_none_or(|stored| stored.state == InputState::Accepted);
        let mut world = self.sim.lock();
        if ended && decision == Resolution::Discard && !world.runtime.history.contains(&row) {
            world.discarded.insert(row);
            world.stop_waiting_for(row);
        }
        world.note(if done { "a person decided on" } else { "a person could not decide on" }, row, decision as i64);
    }

    /// No more faults. Nothing new comes; what is there has to come to its end.
    async fn calm_down(&mut self) {
        {
            let mut world = self.sim.lock();
            world.calm = true;
            world.note("everything calms down", 0, 0);
            world.engine.revoked = false;
            world.requeue_all();
            world.revive();
            world.life.steps_left = None;
        }
        // Results that were asked for come within so long.
        Sim::sleep(21_000).await;
        {
            let mut world = self.sim.lock();
            if world.waits_for_nothing() {
                world.interrupt();
            }
        }
        // What only this run of the receiver knows may be what it is stuck on.
        let restarts = self.sim.lock().numbers.percent(50);
        if restarts || self.process.is_none() || self.sim.lock().life.dead || self.has_ended() {
            self.stop().await;
            self.start();
        }
        self.sim.engine_news.notify_waiters();
        for look in 0..PATIENCE {
            Sim::sleep(if look < 20 { 700 } else { 20_000 }).await;
            let over = {
                let mut world = self.sim.lock();
                world.set_joinable(true);
                world.end_turn();
                world.violation.is_some() || !world.engine.items.iter().flatten().any(crate::engine::Item::is_open)
            };
            if look % 8 == 7 {
                self.people_decide().await;
            }
            if over && self.inbox.open().await.unwrap().is_empty() {
                // What an answer that could not be read left open is told to the engine again.
                self.stop().await;
                self.start();
                Sim::sleep(1_000).await;
                return;
            }
            if self.has_ended() {
                self.sim.lock().wrong("the receiver ended by itself");
                return;
            }
        }
        let open = self.inbox.open().await.unwrap();
        let unacked = self.inbox.unacked(100).await.unwrap();
        let mut world = self.sim.lock();
        let left: Vec<usize> = (1..)
            .zip(&world.engine.items)
            .filter(|(_, item)| item.as_ref().is_some_and(crate::engine::Item::is_open))
            .map(|(n, _)| n)
            .collect();
        let stuck = format!("stuck: with the engine {left:?}, unconfirmed {unacked:?}, in the inbox {open:#?}");
        world.wrong(stuck);
    }
}
