//! The binding of the simulated runtime: a wire with delays, answers that get lost, a reconcile that knows or does not.

use beepgrid_receiver::{Capabilities, Handover, InputBinding, LiveInput, Reconciled, Reporter, StoredInput, Submission};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::runtime::{OnWire, Reply, Way};
use crate::world::{Sim, number};

/// The binding in one run of the receiver.
pub(crate) struct Wire {
    pub(crate) sim: Sim,
    pub(crate) life: u32,
}

/// Counts a `submit` for as long as it is under way.
struct UnderWay<'a>(&'a Wire);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut world = self.0.sim.lock();
        if world.life.number == self.0.life {
            world.runtime.submits = world.runtime.submits.saturating_sub(1);
        }
    }
}

impl Wire {
    fn under_way(&self) -> UnderWay<'_> {
        let mut world = self.sim.lock();
        world.runtime.submits += 1;
        if world.runtime.submits > 1 && !world.is_dead(self.life) {
            world.wrong("two inputs are handed over at once");
        }
        UnderWay(self)
    }

    /// Writes to the process; what comes back, if anything does.
    async fn send(&self, input: &LiveInput, way: Way, is_current: impl Fn() -> bool + Send) -> Submission {
        let row = number(&input.id);
        self.sim.lock().evidence.remove(&row);
        self.sim.step(self.life, "hand over", row).await;
        let (ticket, delay, late) = {
            let mut world = self.sim.lock();
            if input.delivery.payload.message.is_none() && input.delivery.payload.request.is_none() {
                world.wrong(format!("{} is handed over without its content", input.id));
            }
            if !world.runtime.alive {
                // Nothing went out: the connection could not be made.
                return Submission::Refused(beepgrid_receiver::Refusal::NotNow);
            }
            if world.profile.able.ordered && !is_current() {
                world.note("outdated", row, 0);
                return Submission::Refused(beepgrid_receiver::Refusal::NotNow);
            }
            world.runtime.tickets += 1;
            let ticket = world.runtime.tickets;
            world.runtime.wire.push(OnWire::new(ticket, row));
            let rate = world.profile.runtime_faults;
            let slow = world.fault(rate);
            let delay = if slow { world.numbers.between(1, 9_000) } else { world.numbers.below(3) };
            let late = if world.fault(rate / 2) { world.numbers.between(1, 9_000) } else { 0 };
            (ticket, delay, late)
        };
        let (answer, answered) = oneshot::channel();
        let sim = self.sim.clone();
        let reading = async move {
            if delay > 0 {
                Sim::sleep(delay).await;
            }
            let reply = sim.lock().arrive(ticket, row, &way);
            sim.lock().something_happens_meanwhile();
            if late > 0 {
                Sim::sleep(late).await;
            }
            // Nobody listens any more if the receiver died or gave up.
            let _ = answer.send(reply);
        };
        if delay + late > 0 {
            // The process goes on reading whatever becomes of the receiver.
            tokio::spawn(reading);
        } else {
            reading.await;
        }
        let reply = answered.await.unwrap_or(Reply::Gone);
        self.sim.step(self.life, "answer", row).await;
        match reply {
            Reply::Say(submission) => self.heard(row, submission),
            Reply::Gone => Submission::Unknown("the process is gone".to_owned()),
            Reply::Never => std::future::pending().await,
        }
    }

    fn heard(&self, row: u16, submission: Submission) -> Submission {
        let mut world = self.sim.lock();
        world.evidence.remove(&row);
        if let Submission::Taken(evidence) = &submission
            && let Some(native) = &evidence.native_id
        {
            world.evidence.insert(row, (self.life, native.clone()));
        }
        submission
    }
}

impl InputBinding for Wire {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn attach(&self, reporter: Reporter) -> Capabilities {
        let mut world = self.sim.lock();
        world.attach(self.life, reporter);
        world.profile.able
    }

    async fn submit(&self, input: &LiveInput, to: Handover) -> Submission {
        let _one = self.under_way();
        self.send(input, Way::Input(to.mode, to.expected_turn.clone()), || to.is_current()).await
    }

    async fn resume(&self, input: &LiveInput, _cancel: &CancellationToken) -> Submission {
        self.send(input, Way::Resume, || true).await
    }

    async fn reconcile(&self, stored: &StoredInput) -> Reconciled {
        let row = number(&stored.id);
        self.sim.step(self.life, "reconcile", row).await;
        let found = {
            let mut world = self.sim.lock();
            let native = stored.attempt.as_ref().and_then(|attempt| attempt.native_id.clone());
            if let Some((life, returned)) = world.evidence.get(&row).cloned()
                && life == self.life
                && native != Some(returned)
            {
                world.wrong(format!("{} is reconciled without the evidence that its attempt left", stored.id));
            }
            let rate = world.profile.runtime_faults;
            let runtime = &world.runtime;
            let found = match () {
                () if !world.profile.able.reconcile => Reconciled::Unknown,
                () if runtime.history.contains(&row) => Reconciled::Accepted,
                () if world.profile.sees_memory && runtime.memory.contains(&row) => Reconciled::Taken,
                () if runtime.may_have(row) => Reconciled::Unknown,
                () => Reconciled::Retry,
            };
            world.note("reconciled", row, found as i64);
            if world.fault(rate) { None } else { Some(found) }
        };
        let Some(found) = found else { return std::future::pending().await };
        self.sim.step(self.life, "reconcile answers", row).await;
        found
    }
}
