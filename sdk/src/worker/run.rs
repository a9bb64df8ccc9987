//! The loop itself: poll, hold, handle, acknowledge.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::hold::Hold;
use super::inbox::{Inbox, LeaseId, Verdict, verdict};
use super::options::{Handling, Report, RunOptions};
use super::{Leased, renewal};
use crate::error::{Chain, Error};
use crate::model::{Delivery, InboxInput};
use crate::retry::{Delays, Pace};

/// An empty answer that comes faster than this was not waited for; polling again at once would spin.
const TOO_FAST: Duration = Duration::from_secs(1);
/// One acknowledgement's share of the time that the lease has left.
const ACK_TIMEOUT: Duration = Duration::from_secs(10);
/// Giving back is a courtesy to the next worker, not worth a long shutdown.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A delivery and our hold on it.
type Held = (Box<Delivery>, Hold);

pub(super) struct Worker<I> {
    inbox: I,
    options: RunOptions,
    delays: Delays,
    cancel: CancellationToken,
    report: Report,
    /// Extensions and the renewal; aborted when the loop is dropped.
    tasks: JoinSet<()>,
}

impl<I: Inbox> Worker<I> {
    pub(super) fn new(inbox: I, options: RunOptions, delays: Delays, cancel: CancellationToken) -> Self {
        let report = Report::new(&options);
        Self { inbox, options, delays, cancel, report, tasks: JoinSet::new() }
    }

    pub(super) async fn run<H, F, E>(mut self, mut handler: H) -> Result<(), Error>
    where
        H: FnMut(Handling) -> F,
        F: Future<Output = Result<(), E>>,
        E: Into<BoxError>,
    {
        if self.options.renew {
            self.tasks.spawn(renewal::keep_fresh(self.inbox.clone(), self.report.clone(), self.delays));
        }
        let result = self.poll_for_ever(&mut handler).await;
        self.report.update(|status| {
            status.connected = false;
            status.waiting = None;
            if let Err(error) = &result {
                status.last_error = Some(Chain(error).to_string());
            }
        });
        result
    }

    async fn poll_for_ever<H, F, E>(&mut self, handler: &mut H) -> Result<(), Error>
    where
        H: FnMut(Handling) -> F,
        F: Future<Output = Result<(), E>>,
        E: Into<BoxError>,
    {
        let cancel = self.cancel.clone();
        let mut pace = Pace::new(self.delays);
        while !cancel.is_cancelled() {
            let wait_ms = i64::try_from(self.options.wait.as_millis()).unwrap_or(0);
            let input = InboxInput::new().wait_ms(wait_ms).limit(self.options.limit).kinds(self.options.kinds.clone());
            let sent = Instant::now();
            let answer = tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(()),
                answer = self.inbox.lease(input) => answer,
            };
            let asked = match answer {
                Ok(items) => {
                    self.report.update(|status| (status.connected, status.waiting) = (true, None));
                    let held = self.take(items, sent);
                    if !held.is_empty() {
                        pace.progress();
                        self.work(held, handler).await?;
                        continue;
                    }
                    if sent.elapsed() >= TOO_FAST {
                        pace.progress();
                        continue;
                    }
                    None
                }
                Err(error) if verdict(&error) == Verdict::Stop => return Err(error),
                Err(error) => {
                    self.trouble(&error);
                    error.retry_after()
                }
            };
            self.pause(pace.next(asked)).await;
        }
        Ok(())
    }

    async fn pause(&self, delay: Duration) {
        self.report.update(|status| status.waiting = Some(delay));
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => {}
            () = sleep(delay) => {}
        }
    }

    fn trouble(&self, error: &Error) {
        tracing::warn!("polling goes on after: {}", Chain(error));
        self.report.update(|status| {
            status.connected = false;
            status.last_error = Some(Chain(error).to_string());
            if error.kind() == crate::ErrorKind::Decode {
                status.undecodable += 1;
            }
        });
    }

    /// Takes hold of what can be read. The rest stays leased until it runs out: giving it back would not count as an attempt, and the
    /// engine would never park it.
    fn take(&mut self, items: Vec<Leased>, sent: Instant) -> VecDeque<Held> {
        while self.tasks.try_join_next().is_some() {}
        let mut held = VecDeque::with_capacity(items.len());
        for item in items {
            match item {
                Leased::Delivery(delivery) => {
                    let lease = LeaseId { delivery: delivery.id.clone(), generation: delivery.generation };
                    let extensions = (self.options.extend_every, self.delays);
                    held.push_back((delivery, Hold::start(&self.inbox, &mut self.tasks, lease, sent, &self.cancel, extensions)));
                }
                Leased::Undecodable(lost) => {
                    let error = Chain(&lost).to_string();
                    tracing::warn!("left to the engine: {error}");
                    self.report.update(|status| {
                        status.undecodable += 1;
                        status.last_error = Some(error);
                    });
                }
            }
        }
        held
    }

    /// Handles what is held, in order. Whatever ends this early gives back what was not started.
    async fn work<H, F, E>(&mut self, mut held: VecDeque<Held>, handler: &mut H) -> Result<(), Error>
    where
        H: FnMut(Handling) -> F,
        F: Future<Output = Result<(), E>>,
        E: Into<BoxError>,
    {
        while let Some((delivery, hold)) = held.pop_front() {
            if self.cancel.is_cancelled() {
                held.push_front((delivery, hold));
                break;
            }
            if !hold.is_held() {
                self.count_lost(&hold);
                continue;
            }
            let ended = match self.handle(*delivery, &hold, handler).await {
                _ if !hold.is_held() => {
                    self.count_lost(&hold);
                    Ok(())
                }
                Some(Ok(())) => self.acknowledge(&hold).await,
                Some(Err(error)) => {
                    self.give_back([&hold]).await;
                    Err(Error::handler(error.into()))
                }
                None => Ok(()),
            };
            if let Err(error) = ended {
                drop(hold);
                self.give_back(held.iter().map(|(_, hold)| hold)).await;
                return Err(error);
            }
        }
        self.give_back(held.iter().map(|(_, hold)| hold)).await;
        Ok(())
    }

    /// The handler's result; `None` if it was still running long after it lost its lease.
    async fn handle<H, F, E>(&self, delivery: Delivery, hold: &Hold, handler: &mut H) -> Option<Result<(), E>>
    where
        H: FnMut(Handling) -> F,
        F: Future<Output = Result<(), E>>,
    {
        let work = handler(Handling { delivery, cancel: hold.handler_token() });
        let grace = self.options.grace;
        tokio::select! {
            biased;
            result = work => Some(result),
            () = async { hold.lost().await; sleep(grace).await } => None,
        }
    }

    /// Acknowledges, again and again through passing faults, but never after the lease is lost: somebody else may have it then.
    async fn acknowledge(&self, hold: &Hold) -> Result<(), Error> {
        hold.stop_extending();
        let mut pace = Pace::new(self.delays);
        while hold.is_held() {
            let error = match self.inbox.ack(&hold.lease, hold.left().min(ACK_TIMEOUT)).await {
                Ok(()) => {
                    self.report.update(|status| status.acknowledged += 1);
                    return Ok(());
                }
                Err(error) => error,
            };
            match verdict(&error) {
                Verdict::Stop => return Err(error),
                Verdict::Lost => break,
                Verdict::Wait if self.cancel.is_cancelled() => break,
                Verdict::Wait => {
                    self.trouble(&error);
                    self.pause(pace.next(error.retry_after()).min(hold.left())).await;
                }
            }
        }
        self.count_lost(hold);
        Ok(())
    }

    async fn give_back(&self, holds: impl IntoIterator<Item = &Hold>) {
        let calls = holds.into_iter().filter(|hold| hold.is_held()).map(|hold| async {
            hold.stop_extending();
            if let Err(error) = self.inbox.release(&hold.lease, RELEASE_TIMEOUT).await {
                tracing::debug!(id = %hold.lease.delivery, "not given back, it comes again when the lease ends: {}", Chain(&error));
            }
        });
        // The second limit is for all of them together.
        let _ = timeout(RELEASE_TIMEOUT, join_all(calls)).await;
    }

    fn count_lost(&self, hold: &Hold) {
        tracing::warn!(id = %hold.lease.delivery, "not acknowledged, the lease is lost; the delivery comes again");
        self.report.update(|status| status.lost += 1);
    }
}
