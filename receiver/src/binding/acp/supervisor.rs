//! Keeps one agent process in the session: starts it, opens the session, serves its questions, and starts the next when it dies.

use std::collections::BTreeSet;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::{Dispatch, Responder};
use agent_client_protocol::{self as acp, Client, Lines, UntypedMessage};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::options::{Permission, Steering};
use super::state::{Connection, History};
use super::wire::{self, Agent, Update};
use super::{Inner, Phase};
use crate::binding::link::{self, Line, Link};

/// How long the agent may take to say who it is.
const HELLO: Duration = Duration::from_secs(60);
/// How long it may take to open a session; a long history takes its time.
const OPEN: Duration = Duration::from_secs(180);
/// How long a process may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);
/// The wait after the first failure; doubles up to the longest.
const FIRST_RESTART: Duration = Duration::from_millis(500);
const LONGEST_RESTART: Duration = Duration::from_secs(60);
/// A process that lived so long is no failure in a row.
const HEALTHY: Duration = Duration::from_secs(60);
/// Refusals to open a known session in a row before a new one is begun.
const PATIENCE: u32 = 3;
/// The protocol's code for a session that is not there.
const NOT_FOUND: i32 = -32002;

/// Why a process ended.
enum Ended {
    Stopped,
    /// Asked for, to read its history back.
    Restart,
    Died(String),
}

/// Runs until `stop`.
pub(super) async fn run(inner: Arc<Inner>, stop: CancellationToken) {
    let (mut failures, mut refusals): (u32, u32) = (0, 0);
    while !stop.is_cancelled() {
        inner.phase.send_replace(Phase::Starting);
        let began = Instant::now();
        let mut process = None;
        let ended = one_life(&inner, &stop, &mut process, &mut refusals).await;
        let reason = match &ended {
            Ended::Stopped => "the agent was stopped".to_owned(),
            Ended::Restart => "the agent is started anew to read its history back".to_owned(),
            Ended::Died(reason) => format!("the agent is down: {reason}"),
        };
        inner.state().down(process.as_deref(), reason.clone());
        failures = match ended {
            Ended::Stopped => break,
            Ended::Restart => 0,
            Ended::Died(_) if began.elapsed() >= HEALTHY => 1,
            Ended::Died(_) => failures.saturating_add(1),
        };
        let Some(doublings) = failures.checked_sub(1) else { continue };
        tracing::warn!(%reason, "the agent will be started again");
        inner.phase.send_replace(Phase::Down(reason));
        let wait = FIRST_RESTART.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(LONGEST_RESTART);
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    inner.phase.send_replace(Phase::Stopped);
}

/// From the start of a process to its certain end.
async fn one_life(inner: &Arc<Inner>, stop: &CancellationToken, process: &mut Option<String>, refusals: &mut u32) -> Ended {
    // A wish from before is fulfilled by this very start.
    let _ = inner.restart.notified().now_or_never();
    let link = match inner.options.open().await {
        Ok(link) => link,
        Err(error) => return Ended::Died(error.to_string()),
    };
    let Link { output, input, process: name, mut life } = link;
    *process = Some(name.clone());
    let lines = Lines::new(sink(input), lines(output));
    let serving = Arc::clone(inner);
    let connected = Client
        .v1()
        .name("beepgrid")
        .on_receive_dispatch(
            async move |message: Dispatch, connection: Connection| dispatch(&serving, message, &connection),
            acp::on_receive_dispatch!(),
        )
        .connect_with(lines, async |connection: Connection| {
            let opened = open(inner, &connection, refusals).await;
            if let Err(error) = opened {
                return Ok(Ended::Died(error.to_string()));
            }
            inner.state().up(name, connection.clone());
            inner.phase.send_replace(Phase::Ready);
            tokio::select! {
                () = connection.incoming_closed() => Ok(Ended::Died("its output ended".to_owned())),
                () = inner.restart.notified() => Ok(Ended::Restart),
            }
        });
    let ended = tokio::select! {
        ended = connected => ended.unwrap_or_else(|error| Ended::Died(error.to_string())),
        () = stop.cancelled() => Ended::Stopped,
    };
    life.end(if matches!(ended, Ended::Died(_)) { Duration::ZERO } else { GRACE }).await;
    ended
}

/// Lines that can be records; others (a log line, one without end) are skipped.
fn lines(output: link::Output) -> impl futures_util::Stream<Item = io::Result<String>> + Send {
    futures_util::stream::try_unfold((output, Vec::new()), |(mut output, mut line)| async move {
        loop {
            match link::read_line(&mut output, &mut line, link::MAX_LINE).await? {
                Line::End => return Ok(None),
                Line::TooLong => tracing::warn!("a message of the agent's was too long and is skipped"),
                Line::Text => match serde_json::from_slice::<serde::de::IgnoredAny>(&line) {
                    Ok(_) if line.trim_ascii_start().first() == Some(&b'{') => {
                        let text = String::from_utf8_lossy(line.trim_ascii()).into_owned();
                        return Ok(Some((text, (output, line))));
                    }
                    _ => tracing::warn!("a line of the agent's is no message and is skipped"),
                },
            }
        }
    })
}

fn sink(input: link::Input) -> impl futures_util::Sink<String, Error = io::Error> + Send {
    futures_util::sink::unfold(input, |mut input, line: String| async move {
        input.write_all(line.as_bytes()).await?;
        input.write_all(b"\n").await?;
        input.flush().await?;
        Ok(input)
    })
}

/// One request, with a limit.
async fn ask(connection: &Connection, method: &str, params: Value, limit: Duration) -> Result<Value, acp::Error> {
    let request = UntypedMessage::new(method, params)?;
    let answer = pin!(connection.send_request(request).block_task());
    tokio::time::timeout(limit, answer)
        .await
        .unwrap_or_else(|_| Err(acp::Error::internal_error().data(format!("no answer to {method}"))))
}

/// Says hello and opens the session: the known one if there is one, else a new one.
async fn open(inner: &Inner, connection: &Connection, refusals: &mut u32) -> Result<(), acp::Error> {
    let hello = json!({
        "protocolVersion": 1,
        "clientCapabilities": inner.options.capabilities,
        "clientInfo": { "name": "beepgrid", "title": "Beepgrid", "version": env!("CARGO_PKG_VERSION") },
    });
    let answer = ask(connection, "initialize", hello, HELLO).await?;
    if answer.get("protocolVersion").and_then(Value::as_u64) != Some(1) {
        return Err(acp::Error::internal_error().data("the agent does not speak version 1 of the protocol"));
    }
    let mut agent = Agent::read(&answer);
    agent.steering = inner.options.steering.unwrap_or(agent.steering);
    inner.state().said(agent);
    let known = inner.state().session.clone();
    let history = match known {
        Some(session) => match reopen(inner, connection, agent, session, refusals).await? {
            Some(history) => history,
            None => return Ok(()),
        },
        None => History::Unknown,
    };
    let answer = ask(connection, "session/new", setting(inner, None), OPEN).await?;
    let session = answer.get("sessionId").and_then(Value::as_str);
    let session = session.ok_or_else(|| acp::Error::internal_error().data("the agent gave no session"))?;
    *refusals = 0;
    inner.state().opened(session.to_owned(), Some(history));
    Ok(())
}

/// Takes the known session up. If it can't be, what that says about its history; the session is to be begun anew then.
async fn reopen(
    inner: &Inner,
    connection: &Connection,
    agent: Agent,
    session: String,
    refusals: &mut u32,
) -> Result<Option<History>, acp::Error> {
    let method = match agent {
        Agent { loads: true, .. } => "session/load",
        Agent { resumes: true, .. } => "session/resume",
        _ => return Ok(Some(History::Unknown)),
    };
    if agent.loads {
        inner.state().replay();
    }
    match ask(connection, method, setting(inner, Some(&session)), OPEN).await {
        Ok(_) => {
            *refusals = 0;
            inner.state().opened(session, (!agent.loads).then_some(History::Unknown));
            Ok(None)
        }
        // It never came to a history.
        Err(error) if i32::from(error.code) == NOT_FOUND => Ok(Some(History::Holds(BTreeSet::new()))),
        Err(error) => {
            *refusals += 1;
            if *refusals < PATIENCE {
                return Err(error);
            }
            tracing::warn!(%error, session, "the agent does not open the session; a new one is begun");
            Ok(Some(History::Unknown))
        }
    }
}

fn setting(inner: &Inner, session: Option<&str>) -> Value {
    let mut params = json!({ "cwd": inner.options.folder, "mcpServers": inner.options.mcp_servers });
    if let (Some(session), Some(params)) = (session, params.as_object_mut()) {
        params.insert("sessionId".to_owned(), session.into());
    }
    params
}

/// Takes in one message; the next waits until this returns, so nothing in here waits.
fn dispatch(inner: &Arc<Inner>, message: Dispatch, connection: &Connection) -> Result<(), acp::Error> {
    match message {
        Dispatch::Notification(message) => {
            let (method, params) = message.into_parts();
            if method == "session/update" {
                if let Some(watch) = &inner.options.watch {
                    watch(&params);
                }
                let mut state = inner.state();
                let ours = params.get("sessionId").and_then(Value::as_str);
                if state.session.is_none() || ours == state.session.as_deref() {
                    state.hear(Update::read(&params));
                }
            }
            Ok(())
        }
        Dispatch::Request(message, responder) => {
            let (method, params) = message.into_parts();
            answer(inner, method, params, responder, connection)
        }
        Dispatch::Response(result, router) => router.route_with_result(result),
    }
}

/// Answers a question of the agent's, beside everything else.
fn answer(
    inner: &Arc<Inner>,
    method: String,
    params: Value,
    responder: Responder,
    connection: &Connection,
) -> Result<(), acp::Error> {
    if method == "session/request_permission" {
        let ask = wire::permission_ask(&params);
        let choices = ask.choices.clone();
        let Some(decide) = &inner.options.decide else {
            return responder.respond(wire::permission(&choices, Some(&Permission::Reject)));
        };
        let decision = decide(ask);
        let cancelled = inner.state().turn_token().unwrap_or_default();
        return connection.spawn(async move {
            let decision = cancelled.run_until_cancelled(decision).await;
            let _ = responder.respond(wire::permission(&choices, decision.as_ref()));
            Ok(())
        });
    }
    let Some(serve) = &inner.options.serve else {
        return responder.respond_with_error(acp::Error::method_not_found());
    };
    let served = serve(method, params);
    connection.spawn(async move {
        let _ = match served.await {
            Some(answer) => responder.respond(answer),
            None => responder.respond_with_error(acp::Error::method_not_found()),
        };
        Ok(())
    })
}

/// The method and parameters that put an input into the running turn.
pub(super) fn steering(steering: Steering, session: &str, run: &str, text: &str) -> (&'static str, Value) {
    match steering {
        Steering::Goose => (wire::GOOSE_STEER, wire::goose_steer(session, run, text)),
        Steering::None | Steering::Standard => (wire::STEER, wire::steer(session, text)),
    }
}
