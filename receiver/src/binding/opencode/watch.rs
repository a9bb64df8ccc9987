//! Follows the session: whether the server is there, whether the agent works, and whether something waits that nobody starts.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, sleep_until};

use beepgrid::internal::{Frame, FrameFault};

use super::api::{self, Api, Failure, Frames, Model, PAGE, SessionInfo};
use super::board::Board;
use crate::config::RetryPolicy;

/// After this long without an event the connection is opened anew: the stream has no sign of life, and opening it costs three small requests.
const SILENCE: Duration = Duration::from_secs(30);
/// Between an event and the question whether the session still works.
const SOON: Duration = Duration::from_millis(50);
/// The longest wait between two such questions while it works.
const SELDOM: Duration = Duration::from_secs(5);
/// How long a server that has just started may take to know its models. A turn that begins before fails, and its input stays unanswered.
const WARM_UP: Duration = Duration::from_secs(15);
/// A connection that stood this long counts as progress.
const STOOD: Duration = Duration::from_secs(5);
const RECONNECT: RetryPolicy =
    RetryPolicy { attempts: u32::MAX, first_delay: Duration::from_millis(250), max_delay: Duration::from_secs(5) };
/// Between two attempts to wake what waits.
const WAKE: RetryPolicy =
    RetryPolicy { attempts: u32::MAX, first_delay: Duration::from_secs(1), max_delay: Duration::from_secs(60) };

pub(super) struct Watcher {
    api: Arc<Api>,
    board: Arc<Board>,
    session: String,
    /// Whether the server knew its models when it was last connected.
    warm: bool,
}

/// Why a connection was given up without a failure.
enum Ended {
    Silent,
    Asked,
    Closed,
}

impl Watcher {
    pub(super) fn new(api: Arc<Api>, board: Arc<Board>, session: String) -> Self {
        Self { api, board, session, warm: false }
    }

    /// Runs until it is dropped.
    pub(super) async fn run(mut self) {
        let mut failures: u32 = 0;
        let mut wakes = Wakes::default();
        loop {
            let begun = Instant::now();
            let before = self.board.position();
            let ended = self.connection(&mut wakes).await;
            let progress = self.board.position() > before || begun.elapsed() > STOOD;
            match ended {
                Ok(Ended::Silent) => failures = 0,
                // Paced also where a call doubts the connection again and again although it stands.
                Ok(Ended::Closed | Ended::Asked) => {
                    self.warm = false;
                    failures = if progress { 1 } else { failures.saturating_add(1) };
                }
                Err(failure) => {
                    self.warm = false;
                    self.board.trouble(&failure.to_string());
                    failures = failures.saturating_add(1);
                }
            }
            sleep(RECONNECT.delay(failures)).await;
        }
    }

    async fn connection(&mut self, wakes: &mut Wakes) -> Result<Ended, Failure> {
        let info = self.api.session(&self.session).await?;
        if !self.warm {
            self.warm_up(&info).await?;
            self.warm = true;
        }
        self.catch_up().await?;
        let mut feed = Feed::open(&self.api, &self.session, self.board.position());
        self.look(wakes).await?;
        self.board.reachable();
        self.listen(&mut feed, wakes).await
    }

    /// Waits until the session's model is to be had.
    async fn warm_up(&self, info: &SessionInfo) -> Result<(), Failure> {
        let end = Instant::now() + WARM_UP;
        loop {
            let models = match self.api.models(info.location.as_ref()).await {
                Ok(models) => models,
                // A server that does not list its models can't be asked.
                Err(Failure::Status(404, _) | Failure::Garbage(_)) => return Ok(()),
                Err(failure) => return Err(failure),
            };
            let known = |wanted: &Model| models.iter().any(|model| model == wanted);
            if info.model.as_ref().map_or(!models.is_empty(), known) {
                return Ok(());
            }
            if Instant::now() > end {
                tracing::warn!(session = %self.session, "opencode does not list the model of the session; going on");
                return Ok(());
            }
            self.board.trouble("the opencode server is loading its models");
            sleep(SOON * 4).await;
        }
    }

    /// Reads what happened since the last look.
    async fn catch_up(&self) -> Result<(), Failure> {
        let mut limit = PAGE;
        loop {
            let before = self.board.position();
            let more = match self.api.history(&self.session, before, limit).await {
                Ok((events, more)) => {
                    for event in &events {
                        self.board.happened(event, false);
                    }
                    limit = PAGE;
                    // A server that says more and sends nothing new would keep us here for ever.
                    more && self.board.position() > before
                }
                Err(Failure::TooLarge) if limit > 1 => {
                    limit = 1;
                    true
                }
                Err(Failure::TooLarge) => {
                    self.board.skip();
                    true
                }
                Err(failure) => return Err(failure),
            };
            if !more {
                return Ok(());
            }
        }
    }

    /// Asks whether the session works; if it doesn't, although an input of ours waits, wakes it.
    async fn look(&self, wakes: &mut Wakes) -> Result<bool, Failure> {
        let active = self.api.is_active(&self.session).await?;
        self.board.active(active);
        if self.board.has_worked() {
            *wakes = Wakes::default();
        }
        if !active && wakes.due() {
            self.wake(wakes).await?;
        }
        Ok(active)
    }

    /// Repeats what waits, word for word, under its own id: the server recognises it, and starts what it has.
    async fn wake(&self, wakes: &mut Wakes) -> Result<(), Failure> {
        let Some((id, waiting)) = self.board.first_waiting() else { return Ok(()) };
        wakes.tried();
        let (events, _) = self.api.history(&self.session, waiting.seq.saturating_sub(1), 1).await?;
        let admission = events.into_iter().next().filter(|event| event.data.message == id);
        let Some(prompt) = admission.and_then(|event| event.data.prompt) else { return Ok(()) };
        match self.api.prompt(&self.session, &id, &prompt, waiting.delivery).await {
            Ok(admitted) => self.board.admitted(&admitted),
            Err(Failure::Status(status, message)) => {
                tracing::warn!(session = %self.session, status, message, "opencode does not start what waits");
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    async fn listen(&self, feed: &mut Feed, wakes: &mut Wakes) -> Result<Ended, Failure> {
        let mut pause = SOON;
        let mut next_look = Instant::now() + pause;
        let mut silent_at = Instant::now() + SILENCE;
        loop {
            tokio::select! {
                frame = feed.next() => {
                    silent_at = Instant::now() + SILENCE;
                    let frame = match frame {
                        Some(Ok(frame)) => frame,
                        None | Some(Err(FrameFault::Body(Failure::Lost(_)))) => return Ok(Ended::Closed),
                        Some(Err(FrameFault::NotUtf8 { .. })) => continue,
                        Some(Err(FrameFault::TooLarge)) => {
                            self.board.skip();
                            return Ok(Ended::Closed);
                        }
                        Some(Err(FrameFault::Body(failure))) => return Err(failure),
                    };
                    if api::event(&frame.data).is_some_and(|event| self.board.happened(&event, true)) {
                        pause = SOON;
                        next_look = Instant::now() + pause;
                    }
                }
                () = self.board.look.notified() => {
                    pause = SOON;
                    next_look = Instant::now() + pause;
                }
                () = self.board.reconnect.notified() => return Ok(Ended::Asked),
                () = sleep_until(next_look) => {
                    let active = self.look(wakes).await?;
                    pause = (pause * 2).min(SELDOM);
                    // At rest only the events, a call, or what still waits to be woken can bring news.
                    let waits = self.board.first_waiting().and(wakes.next);
                    next_look = if active { Instant::now() + pause } else { waits.unwrap_or(silent_at + SILENCE) };
                }
                () = sleep_until(silent_at) => return Ok(Ended::Silent),
            }
        }
    }
}

/// When what waits was last woken. The pauses grow until a turn works: while the model can't be reached, waking only moves what waits into turns
/// that fail.
#[derive(Default)]
struct Wakes {
    tries: u32,
    next: Option<Instant>,
}

impl Wakes {
    fn due(&self) -> bool {
        self.next.is_none_or(|next| Instant::now() >= next)
    }

    fn tried(&mut self) {
        self.tries = self.tries.saturating_add(1);
        self.next = Some(Instant::now() + WAKE.delay(self.tries));
    }
}

/// The stream of events, from before its headers have come.
enum Feed {
    Opening(BoxFuture<'static, Result<Frames, Failure>>),
    Open(Frames),
}

impl Feed {
    fn open(api: &Arc<Api>, session: &str, after: u64) -> Self {
        let (api, session) = (Arc::clone(api), session.to_owned());
        Self::Opening(Box::pin(async move { api.follow(&session, after).await }))
    }

    async fn next(&mut self) -> Option<Result<Frame, FrameFault<Failure>>> {
        loop {
            match self {
                Self::Opening(opening) => match opening.await {
                    Ok(frames) => *self = Self::Open(frames),
                    Err(failure) => {
                        *self = Self::Open(futures_util::stream::empty().boxed());
                        return Some(Err(FrameFault::Body(failure)));
                    }
                },
                Self::Open(frames) => return frames.next().await,
            }
        }
    }
}
