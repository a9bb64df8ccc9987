//! Keeps one Claude process in the session: starts it, reads it, answers it, and starts the next when it dies.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::options::{Launch, Permission, PermissionAsk};
use super::wire::{self, Record, Working};
use super::{Inner, Phase, mcp, transcript};
use crate::binding::link::{self, Input, Line, Link, Output};

/// How long a process may take until it answers the first question.
const START: Duration = Duration::from_secs(120);
/// How long an input may lie unread before the process counts as stuck.
const UNHEARD: Duration = Duration::from_secs(60);
/// How long a process may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether a process from before still has the session.
const PREDECESSOR: Duration = Duration::from_millis(100);
/// The wait after the first failure; doubles up to the longest.
const FIRST_RESTART: Duration = Duration::from_millis(500);
const LONGEST_RESTART: Duration = Duration::from_secs(60);
/// A process that lived so long is no failure in a row.
const HEALTHY: Duration = Duration::from_secs(60);
/// The first question.
const HELLO: &str = "beepgrid-hello";

/// Runs until `stop`.
pub(super) async fn run(inner: Arc<Inner>, stop: CancellationToken) {
    let mut failures: u32 = 0;
    while !stop.is_cancelled() {
        inner.phase.send_replace(Phase::Starting);
        let began = Instant::now();
        let ended = one_life(&inner, &stop).await;
        let reason = match ended {
            Ok(()) => "its output ended".to_owned(),
            Err(error) => error.to_string(),
        };
        inner.state().down(Some(reason.clone()));
        inner.fail_questions();
        if stop.is_cancelled() {
            break;
        }
        failures = if began.elapsed() >= HEALTHY { 1 } else { failures.saturating_add(1) };
        tracing::warn!(session = %inner.session(), %reason, "Claude is down and will be started again");
        inner.phase.send_replace(Phase::Down(reason));
        let wait = FIRST_RESTART.saturating_mul(1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX)).min(LONGEST_RESTART);
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    inner.phase.send_replace(Phase::Stopped);
}

/// From the start of a process to its certain end.
async fn one_life(inner: &Arc<Inner>, stop: &CancellationToken) -> io::Result<()> {
    let session = inner.session();
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        () = predecessor_gone(&session) => {}
    }
    let launch = Launch { resume: inner.transcript_of(&session).await.is_some(), session };
    let Link { output, input, process, mut life } = inner.options.open(launch).await?;
    let (outbox, lines) = mpsc::channel(64);
    let ended = {
        let mut asks = Asks::new(Arc::clone(inner), outbox.clone());
        let reading = read(inner, output, outbox, process, &mut asks);
        tokio::select! {
            ended = reading => ended,
            ended = write(input, lines) => ended,
            () = prove(inner) => Ok(()),
            error = unheard(inner) => Err(error),
            () = stop.cancelled() => Ok(()),
        }
    };
    // Its input is closed by now. One that is being stopped may finish writing its transcript.
    life.end(if stop.is_cancelled() || ended.is_ok() { GRACE } else { Duration::ZERO }).await;
    ended
}

/// A process that outlived its host takes in what it had in its queue, and writes to the transcript; two at once would be a mess.
async fn predecessor_gone(session: &str) {
    let mut told = false;
    while let Some(pid) = {
        let session = session.to_owned();
        tokio::task::spawn_blocking(move || link::holder_of(&session)).await.unwrap_or_default()
    } {
        if !std::mem::replace(&mut told, true) {
            tracing::info!(pid, session, "a Claude process from before is still at work in the session; waiting for its end");
        }
        tokio::time::sleep(PREDECESSOR).await;
    }
}

async fn write(mut input: Input, mut lines: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(line) = lines.recv().await {
        input.write_all(&line).await?;
        input.flush().await?;
    }
    // Only the end of this life drops every sender.
    std::future::pending().await
}

async fn read(
    inner: &Arc<Inner>,
    mut output: Output,
    outbox: mpsc::Sender<Vec<u8>>,
    process: String,
    asks: &mut Asks,
) -> io::Result<()> {
    let hello = wire::ask(HELLO, "initialize", json!({ "sdkMcpServers": [mcp::SERVER] }));
    outbox.send(hello).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
    let mut process = Some(process);
    let start = Instant::now() + START;
    let mut line = Vec::new();
    loop {
        let read = async {
            let read = link::read_line(&mut output, &mut line, link::MAX_LINE);
            tokio::pin!(read);
            loop {
                tokio::select! {
                    read = &mut read => return read,
                    () = asks.progress() => {}
                    () = tokio::time::sleep_until(start), if process.is_some() => {
                        return Err(io::Error::other("no answer to the first question"));
                    }
                }
            }
        };
        match read.await? {
            Line::End => return Ok(()),
            Line::TooLong => tracing::warn!("a record of Claude's was too long and is skipped"),
            Line::Text => match serde_json::from_slice::<Value>(&line) {
                Ok(value) => take_in(inner, &value, &outbox, &mut process, asks)?,
                Err(_) => tracing::warn!("a line of Claude's is no record and is skipped"),
            },
        }
    }
}

/// Takes in one record; `process` is there until Claude has answered the first question.
fn take_in(
    inner: &Inner,
    value: &Value,
    outbox: &mpsc::Sender<Vec<u8>>,
    process: &mut Option<String>,
    asks: &mut Asks,
) -> io::Result<()> {
    if let Some(watch) = &inner.options.watch {
        watch(value);
    }
    match Record::read(value) {
        Record::Answer { id, answer } if id == HELLO => {
            let answer = answer.map_err(io::Error::other)?;
            if let Some(process) = process.take() {
                let running = answer.get("session_state").and_then(Value::as_str).is_some_and(|state| state != "idle");
                inner.state().up(process, outbox.clone(), if running { Working::Running } else { Working::Idle });
                inner.phase.send_replace(Phase::Ready);
            }
        }
        Record::Answer { id, answer } => inner.answered(&id, answer),
        Record::Ask { id, request } => asks.take(id, &request),
        Record::AskWithdrawn { id } => asks.withdraw(&id),
        record => {
            if inner.state().hear(&record) {
                inner.look.notify_one();
            }
        }
    }
    Ok(())
}

/// Fails when Claude does not read what was written for it.
async fn unheard(inner: &Inner) -> io::Error {
    loop {
        let since = inner.state().unheard_since();
        match since {
            Some(since) if since.elapsed() >= UNHEARD => return io::Error::other("it does not read its input"),
            Some(since) => tokio::time::sleep_until(since + UNHEARD).await,
            None => tokio::time::sleep(UNHEARD).await,
        }
    }
}

/// Looks for inputs in the transcript as long as there is one to be found.
async fn prove(inner: &Inner) {
    let mut offset = 0;
    loop {
        inner.look.notified().await;
        let mut wait = Duration::from_millis(10);
        loop {
            let (session, wanted) = {
                let state = inner.state();
                (state.session.clone(), state.wanted())
            };
            if wanted.is_empty() {
                break;
            }
            if let Some(path) = inner.transcript_of(&session).await {
                let looked = tokio::task::spawn_blocking(move || transcript::look(&path, offset, &wanted)).await;
                match looked {
                    Ok(Ok((found, end))) => {
                        offset = end;
                        inner.state().proven(&found);
                    }
                    Ok(Err(error)) => tracing::warn!(%error, "the transcript can't be read"),
                    Err(_) => {}
                }
            }
            inner.state().settle();
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_millis(500));
        }
    }
}

type Reply = Pin<Box<dyn Future<Output = Result<Value, String>> + Send>>;

/// Claude's questions that are being answered.
struct Asks {
    inner: Arc<Inner>,
    outbox: mpsc::Sender<Vec<u8>>,
    tasks: JoinSet<()>,
    open: HashMap<String, AbortHandle>,
}

impl Asks {
    fn new(inner: Arc<Inner>, outbox: mpsc::Sender<Vec<u8>>) -> Self {
        Self { inner, outbox, tasks: JoinSet::new(), open: HashMap::new() }
    }

    /// Clears away what is answered.
    async fn progress(&mut self) {
        match self.tasks.join_next().await {
            Some(_) => self.open.retain(|_, task| !task.is_finished()),
            None => std::future::pending().await,
        }
    }

    fn take(&mut self, id: String, request: &Value) {
        let text = |key: &str| request.get(key).and_then(Value::as_str);
        match text("subtype").unwrap_or_default() {
            "mcp_message" if text("server_name") == Some(mcp::SERVER) => {
                let message = request.get("message").unwrap_or(&Value::Null);
                match mcp::serve(&id, message) {
                    mcp::Served::Now(answer) => self.reply(id, Ok(answer)),
                    mcp::Served::Waits(result, waiting) => {
                        let rpc = waiting.rpc.clone();
                        let known = self.inner.state().wait(result, waiting);
                        if let Some(text) = known {
                            self.reply(id, Ok(mcp::said(&rpc, &text, false)));
                        }
                    }
                    mcp::Served::Withdrawn(rpc) => {
                        self.inner.state().stop_waiting(|waiting| waiting.rpc == rpc);
                        self.reply(id, Ok(mcp::said(&json!(0), "", false)));
                    }
                }
            }
            "can_use_tool" => self.permission(id, request.clone()),
            other => self.reply(id, Err(format!("this host does not serve {other}"))),
        }
    }

    fn permission(&mut self, id: String, request: Value) {
        let tool = request.get("tool_name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let input = request.get("input").cloned().unwrap_or_else(|| json!({}));
        let own = tool == format!("mcp__{}__{}", mcp::SERVER, mcp::WAIT);
        let decision: Pin<Box<dyn Future<Output = Permission> + Send>> = match &self.inner.options.decide {
            // The host's own tool, which does nothing but wait.
            _ if own => Box::pin(std::future::ready(Permission::Allow { input })),
            Some(decide) => decide(PermissionAsk { tool, input, request }),
            None => Box::pin(std::future::ready(Permission::Deny { message: "nobody is here to allow it".to_owned() })),
        };
        self.run(id, async move {
            Ok(match decision.await {
                Permission::Allow { input } => json!({ "behavior": "allow", "updatedInput": input }),
                Permission::Deny { message } => json!({ "behavior": "deny", "message": message }),
            })
        });
    }

    fn reply(&mut self, id: String, answer: Result<Value, String>) {
        self.run(id, std::future::ready(answer));
    }

    /// Answers beside the reading, so that neither stream can stop the other.
    fn run(&mut self, id: String, answer: impl Future<Output = Result<Value, String>> + Send + 'static) {
        let (outbox, name) = (self.outbox.clone(), id.clone());
        let answer: Reply = Box::pin(answer);
        let task = self.tasks.spawn(async move {
            let answer = answer.await;
            let _ = outbox.send(wire::reply(&id, &answer)).await;
        });
        self.open.insert(name, task);
    }

    fn withdraw(&mut self, id: &str) {
        if let Some(task) = self.open.remove(id) {
            task.abort();
        }
        self.inner.state().stop_waiting(|waiting| waiting.ask == id);
    }
}
