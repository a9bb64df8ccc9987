//! The binding for [opencode](https://opencode.ai)'s HTTP server (`opencode serve`), version 2 of its interface (`/api/session/…`).
//!
//! ```no_run
//! # async fn example(client: beepgrid::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use beepgrid_receiver::opencode::{NewSession, Server};
//! use beepgrid_receiver::{BusyMode, Receiver, SqliteInbox};
//! use tokio_util::sync::CancellationToken;
//!
//! // `opencode serve --port 4096` runs under the host's own supervision; the password is the server's OPENCODE_SERVER_PASSWORD.
//! let server = Server::at("http://127.0.0.1:4096").password(std::env::var("OPENCODE_SERVER_PASSWORD")?);
//! // Once: the host keeps the id, and from then on goes on with `server.session(id)`.
//! let session = server.create_session(&NewSession::new().directory("/home/me/project").model("anthropic", "claude-sonnet-5")).await?;
//! let binding = server.session(session)?;
//! let inbox = SqliteInbox::open("inbox").await?;
//! let receiver = Receiver::builder(client, inbox, binding).mode(BusyMode::Steer).build()?;
//! receiver.run(CancellationToken::new()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Who runs the server?
//!
//! The host. The binding neither starts nor ends a process: it waits for the server, shows what is wrong with it in
//! [`Status::last_error`](crate::Status::last_error), hands nothing over meanwhile and counts no attempt, and goes on when it is back. A binding
//! serves one session of one server.
//!
//! # What it can do
//!
//! | capability | | because |
//! | --- | --- | --- |
//! | `steer` | yes | opencode adds it after the running model call and its tools |
//! | `steer_starts` | yes | where no turn runs, the same call starts one; the server decides in one step |
//! | `durable_queue` | yes | opencode stores what it admits; each queued input becomes a turn of its own |
//! | `reconcile`, `deduplicates` | yes | the input's id is derived from the delivery's; a repeat returns what is there |
//! | `ordered` | yes | admitted inputs keep their order, also over a crash |
//! | `reports_idle` | yes | the session's events, and `/api/session/active` |
//! | `turn_identity` | no | a steer can't name the turn it is meant for; it joins what runs or starts a turn, and is never refused or parked |
//! | `resume`, `waiters_survive` | no | no waiter outlives its call; results go in as input, as steers, past everything queued |
//!
//! # What a crash means
//!
//! | what dies, when | what follows |
//! | --- | --- |
//! | the server, before the call | nothing was sent: not an attempt; handed over when the server is back |
//! | the server, while it admits, or after it and before its answer | unknown; the same call is repeated under the same id and returns what is there, or admits it now |
//! | the server, after its answer, before the model saw the input | opencode has it but starts nothing by itself after a restart: the binding repeats the oldest waiting input word for word, which starts all of them in order, once each |
//! | the server, after the model saw the input | it stays in the session's history; opencode does not take up the interrupted turn, and the next input continues from there |
//! | the receiver, at any point | the inbox has the input as pending (handed over) or as submitting (the call is repeated) |
//! | both | the same: what waits in opencode is found in the session's events when the binding connects |
//!
//! While a provider can't be reached, every turn that opencode starts fails, and what it showed to that turn stays unanswered in the history until the
//! next one. The binding wakes what waits with growing pauses then (a second to a minute), not at once.
//!
//! A person who interrupts the agent ends its turn and nothing else: what waits in the session goes in as the next turn.
//!
//! # What it costs
//!
//! When it connects, it reads the session's events once, 100 to a page (measured: 300 turns, 1,800 events, 2 MB in 0.3 s). At rest it holds one connection and makes four small requests every 30
//! seconds, because opencode's stream shows no sign of life of its own; while the agent works one more at least every five seconds.

mod api;
mod board;
mod server;
mod watch;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::api::{Admitted, Api, Delivery, Failure, Prompt};
use self::board::{Board, native_id};
pub use self::server::{DEFAULT_TIMEOUT, DEFAULT_USER, NewSession, OpencodeError, Server};
use self::watch::Watcher;
use super::{Capabilities, Handover, InputBinding, Reconciled, Refusal, Reporter, Submission};
use crate::frame;
use crate::input::{BusyMode, Content, LiveInput, Route, StoredInput};

/// The way into one session; goes into [`crate::Receiver::builder`].
pub struct OpencodeBinding {
    api: Arc<Api>,
    board: Arc<Board>,
    session: String,
    runtime: Handle,
    /// Ends the task that follows the session.
    watching: Mutex<Option<DropGuard>>,
}

impl fmt::Debug for OpencodeBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpencodeBinding").field("session", &self.session).finish_non_exhaustive()
    }
}

/// Whether the text that opencode has is this input, be it as another version of the frame renders it.
fn is_same(text: &str, input: &LiveInput, framed: &str) -> bool {
    let last = |text: &str| text.lines().next_back().map(str::to_owned);
    text == framed || (text.starts_with("[beepgrid ") && last(text) == last(framed) && text.contains(input.id.as_str()))
}

impl OpencodeBinding {
    fn new(api: Api, session: String, runtime: Handle) -> Self {
        Self { api: Arc::new(api), board: Arc::default(), session, runtime, watching: Mutex::default() }
    }

    /// The session that it serves.
    pub fn session_id(&self) -> &str {
        &self.session
    }

    /// Admits an input, or finds it. A repeat is recognised only if it asks for the same delivery as the first time, and that may have been
    /// decided before a restart.
    async fn admit(&self, session: &str, id: &str, prompt: &Prompt, delivery: Delivery) -> Result<Admitted, Failure> {
        match self.api.prompt(session, id, prompt, delivery).await {
            Err(Failure::Status(409, _)) => self.api.prompt(session, id, prompt, delivery.other()).await,
            answer => answer,
        }
    }

    /// The text that this session has under an id.
    async fn text_of(&self, session: &str, id: &str) -> Result<Option<String>, Failure> {
        if let Some(text) = self.api.message(session, id).await? {
            return Ok(Some(text));
        }
        let Some(waiting) = self.board.waiting(id).filter(|_| session == self.session) else { return Ok(None) };
        let (events, _) = self.api.history(session, waiting.seq.saturating_sub(1), 1).await?;
        let admission = events.into_iter().next().filter(|event| event.data.message == id);
        Ok(admission.and_then(|event| event.data.prompt).map(|prompt| prompt.text))
    }

    async fn hand_over(&self, input: &LiveInput, mode: BusyMode) -> Submission {
        let (id, text) = (native_id(input), frame::frame(input, None));
        let prompt = Prompt { text };
        let delivery = self.board.delivery(input, mode);
        match self.admit(&self.session, &id, &prompt, delivery).await {
            Ok(admitted) => self.judge(input, &id, &prompt, &admitted),
            Err(Failure::Status(409, message)) => match self.text_of(&self.session, &id).await {
                Ok(Some(text)) if is_same(&text, input, &prompt.text) => Submission::Accepted,
                Ok(_) => Submission::Refused(Refusal::Rejected(format!("opencode has something else under this id: {message}"))),
                Err(failure) => self.failed(&failure),
            },
            Err(failure) => self.failed(&failure),
        }
    }

    fn judge(&self, input: &LiveInput, id: &str, prompt: &Prompt, admitted: &Admitted) -> Submission {
        if admitted.id != id || admitted.session != self.session {
            return Submission::Unknown("opencode answered about something else".to_owned());
        }
        if !is_same(&admitted.prompt.text, input, &prompt.text) {
            return Submission::Refused(Refusal::Rejected("opencode has another text under this id".to_owned()));
        }
        self.board.admitted(admitted);
        Submission::Accepted
    }

    /// What a failure means for an input, and for the connection.
    fn failed(&self, failure: &Failure) -> Submission {
        self.doubt(failure);
        match failure {
            Failure::Unreachable(_) | Failure::Status(401 | 403 | 404, _) => Submission::Refused(Refusal::NotNow),
            Failure::Status(status, _) if *status < 500 => Submission::Refused(Refusal::Rejected(failure.to_string())),
            Failure::Status(..) | Failure::Lost(_) | Failure::Garbage(_) | Failure::TooLarge => {
                Submission::Unknown(failure.to_string())
            }
        }
    }

    /// Stops what comes next, and lets the watcher find out, where a failure speaks of the server and not of the input.
    fn doubt(&self, failure: &Failure) {
        match failure {
            Failure::Unreachable(_) | Failure::Lost(_) | Failure::Status(401 | 403 | 404, _) => {
                self.board.trouble(&failure.to_string());
                self.board.reconnect.notify_one();
            }
            _ => {}
        }
    }

    async fn look_up(&self, stored: &StoredInput) -> Result<Reconciled, Failure> {
        let input = &stored.input;
        let id = native_id(input);
        let session = stored.attempt.as_ref().and_then(|attempt| attempt.session.as_deref()).unwrap_or(&self.session);
        if stored.content != Content::Present {
            let text = self.text_of(session, &id).await?;
            return Ok(if text.is_some() { Reconciled::Accepted } else { Reconciled::Unknown });
        }
        let prompt = Prompt { text: frame::frame(input, None) };
        let steered = stored.attempt.as_ref().is_some_and(|attempt| attempt.route == Route::Steer);
        let delivery = self.board.delivery(input, if steered { BusyMode::Steer } else { BusyMode::Queue });
        let mut answer = self.admit(&self.session, &id, &prompt, delivery).await;
        if session != self.session && matches!(answer, Err(Failure::Status(409, _))) {
            // It went into the session that was served before.
            answer = self.admit(session, &id, &prompt, delivery).await;
        }
        match answer {
            Ok(admitted) if admitted.id == id && is_same(&admitted.prompt.text, input, &prompt.text) => {
                if admitted.session == self.session {
                    self.board.admitted(&admitted);
                }
                Ok(Reconciled::Accepted)
            }
            Ok(_) => Ok(Reconciled::Unknown),
            Err(Failure::Status(409, _)) => {
                let found = self.text_of(session, &id).await?.is_some_and(|text| is_same(&text, input, &prompt.text));
                Ok(if found { Reconciled::Accepted } else { Reconciled::Unknown })
            }
            Err(failure) => Err(failure),
        }
    }
}

impl InputBinding for OpencodeBinding {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn attach(&self, reporter: Reporter) -> Capabilities {
        reporter.session(self.session.clone(), self.api.base.as_str());
        reporter.unreachable("connecting to the opencode server");
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        reporter.on_stop(move || stopped.cancel());
        self.board.attach(reporter);
        let watcher = Watcher::new(Arc::clone(&self.api), Arc::clone(&self.board), self.session.clone());
        let ended = stop.clone();
        self.runtime.spawn(async move { ended.run_until_cancelled(watcher.run()).await });
        // Ends the watcher of an earlier receiver, or of one that never ran.
        *self.watching.lock().unwrap_or_else(PoisonError::into_inner) = Some(stop.drop_guard());
        Capabilities {
            steer: true,
            steer_starts: true,
            durable_queue: true,
            reconcile: true,
            deduplicates: true,
            reports_idle: true,
            ordered: true,
            ..Capabilities::new()
        }
    }

    async fn submit(&self, input: &LiveInput, to: Handover) -> Submission {
        if to.cancel.is_cancelled() {
            return Submission::Refused(Refusal::NotNow);
        }
        match to.cancel.run_until_cancelled(self.hand_over(input, to.mode)).await {
            Some(submission) => submission,
            None => Submission::Unknown("the receiver stopped waiting for opencode".to_owned()),
        }
    }

    async fn reconcile(&self, stored: &StoredInput) -> Reconciled {
        self.look_up(stored).await.unwrap_or_else(|failure| {
            tracing::warn!(session = %self.session, error = %failure, "can't ask opencode about an input");
            self.doubt(&failure);
            Reconciled::Unknown
        })
    }
}

#[cfg(test)]
mod tests;
