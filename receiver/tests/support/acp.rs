//! A scripted ACP agent: a session with a history on disk and steers in memory, moved on by the test. Also one that behaves like goose.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::needless_pass_by_value, reason = "tests")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use beepgrid_receiver::acp::{Link, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

/// What the agent is like.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Standard,
    Goose,
    /// Takes nothing while it works.
    Plain,
    /// And can't load a session.
    Forgetful,
}

/// How it answers the next steers.
#[derive(Clone, PartialEq)]
pub(crate) enum Answer {
    Says(&'static str),
    Fails(i64),
    /// It takes the steer and its answer is lost.
    TakesSilently,
    LosesSilently,
}

#[derive(Default)]
struct State {
    kind: Kind,
    started: u32,
    out: Option<mpsc::Sender<Vec<u8>>>,
    calls: Vec<(String, Value)>,
    answers: Vec<Value>,
    /// What survives.
    history: Vec<String>,
    /// The running turn: the request, what it shows the model.
    turn: Option<(Value, Vec<String>)>,
    memory: Vec<(String, String)>,
    steer_answers: VecDeque<Answer>,
    next_prompt_fails: Option<i64>,
    deaf: bool,
    load_fails: Option<i64>,
    run: u32,
}

#[derive(Clone, Default)]
pub(crate) struct FakeAgent {
    state: Arc<Mutex<State>>,
}

fn text(params: &Value) -> String {
    params["prompt"][0]["text"].as_str().unwrap().to_owned()
}

impl State {
    fn send(&self, message: &Value) {
        if let Some(out) = &self.out {
            let _ = out.try_send(format!("{message}\n").into_bytes());
        }
    }

    fn result(&self, id: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    fn error(&self, id: &Value, code: i64) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": "as the test wants" } }));
    }

    fn update(&self, update: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s1", "update": update } }));
    }

    fn goose_run(&self, run: &Value) {
        self.update(json!({ "sessionUpdate": "session_info_update", "_meta": { "goose": { "activeRunId": run } } }));
    }

    fn said(&self, text: &str) {
        // In pieces, as agents do.
        let half = text.len() / 2;
        for piece in [&text[..half], &text[half..]] {
            self.update(json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": piece } }));
        }
    }

    fn works(&self) {
        self.update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "hm" } }));
    }
}

impl FakeAgent {
    pub(crate) fn new(kind: Kind) -> Self {
        let fake = Self::default();
        fake.with(|state| state.kind = kind);
        fake
    }

    pub(crate) fn options(&self) -> Options {
        let fake = self.clone();
        Options::new("agent", [""; 0], "/").connect(move || std::future::ready(Ok(fake.start())))
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    fn start(&self) -> Link {
        let (host_input, input) = tokio::io::duplex(1 << 16);
        let (mut output, host_output) = tokio::io::duplex(1 << 16);
        let (out, mut lines) = mpsc::channel::<Vec<u8>>(1024);
        let number = self.with(|state| {
            state.started += 1;
            state.out = Some(out);
            (state.turn, state.run) = (None, 0);
            state.memory.clear();
            state.started
        });
        tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                if output.write_all(&line).await.is_err() {
                    break;
                }
            }
        });
        let fake = self.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(input).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                fake.read(number, &serde_json::from_str(&line).unwrap());
            }
        });
        Link::new(host_output, host_input, format!("scripted-{number}"))
    }

    fn read(&self, process: u32, message: &Value) {
        self.with(|state| {
            if state.started != process || state.out.is_none() {
                return;
            }
            let Some(method) = message["method"].as_str() else {
                state.answers.push(message.clone());
                return;
            };
            let (id, params) = (&message["id"], message["params"].clone());
            state.calls.push((method.to_owned(), params.clone()));
            if state.deaf {
                return;
            }
            match method {
                "initialize" => initialize(state, id),
                "session/new" => state.result(id, json!({ "sessionId": "s1" })),
                "session/load" => {
                    if let Some(code) = state.load_fails {
                        return state.error(id, code);
                    }
                    for said in &state.history {
                        state.said(said);
                        state.works();
                    }
                    state.result(id, json!({}));
                }
                "session/prompt" => prompt(state, id, &params),
                "_session/steering" | "_goose/unstable/session/steer" => steer(state, id, &params),
                "session/cancel" => finish(state, "cancelled"),
                other => panic!("the host called {other}"),
            }
        });
    }

    // What the test does.

    /// The agent thinks, and shows the model what was steered; it is in the history from then on.
    pub(crate) fn boundary(&self, echo: bool) {
        self.with(|state| {
            let memory = std::mem::take(&mut state.memory);
            for (message, text) in memory {
                if state.kind == Kind::Goose {
                    let content = json!({ "type": "text", "text": text });
                    let meta = json!({ "goose": { "steer": true } });
                    state.update(
                        json!({ "sessionUpdate": "user_message_chunk", "messageId": message, "content": content, "_meta": meta }),
                    );
                } else if echo {
                    state.said(&text);
                }
                state.history.push(text);
            }
            state.works();
        });
    }

    pub(crate) fn end_turn(&self) {
        self.with(|state| finish(state, "end_turn"));
    }

    /// The turn fails.
    pub(crate) fn fail_turn(&self, code: i64) {
        self.with(|state| {
            if let Some((id, _)) = state.turn.take() {
                state.error(&id, code);
            }
        });
    }

    /// The process dies, and all that it has in memory with it.
    pub(crate) fn die(&self) {
        self.with(|state| {
            state.out = None;
            state.turn = None;
            state.memory.clear();
        });
    }

    pub(crate) fn deaf(&self, deaf: bool) {
        self.with(|state| state.deaf = deaf);
    }

    /// What it had of the history is lost.
    pub(crate) fn forget(&self) {
        self.with(|state| state.history.clear());
    }

    /// The running turn's input was shown to the model before it came to the history.
    pub(crate) fn load_fails(&self, code: Option<i64>) {
        self.with(|state| state.load_fails = code);
    }

    pub(crate) fn next_steer(&self, answer: Answer) {
        self.with(|state| state.steer_answers.push_back(answer));
    }

    pub(crate) fn next_prompt_fails(&self, code: i64) {
        self.with(|state| state.next_prompt_fails = Some(code));
    }

    pub(crate) fn request(&self, id: &str, method: &str, params: &Value) {
        self.with(|state| state.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })));
    }

    pub(crate) fn say_raw(&self, bytes: Vec<u8>) {
        self.with(|state| state.out.as_ref().unwrap().try_send(bytes).unwrap());
    }

    pub(crate) fn answer(&self, id: &str) -> Option<Value> {
        self.with(|state| state.answers.iter().find(|answer| answer["id"] == id).cloned())
    }

    pub(crate) fn started(&self) -> u32 {
        self.with(|state| state.started)
    }

    pub(crate) fn busy(&self) -> bool {
        self.with(|state| state.turn.is_some())
    }

    /// The calls of this method, over all processes.
    pub(crate) fn calls(&self, method: &str) -> Vec<Value> {
        self.with(|state| state.calls.iter().filter(|(called, _)| called == method).map(|(_, params)| params.clone()).collect())
    }

    /// How often this input came in, in either way.
    pub(crate) fn arrived(&self, id: &str) -> usize {
        let mark = format!("[beepgrid end {id}]");
        self.with(|state| {
            let inputs = state.calls.iter().filter(|(_, params)| params.get("prompt").is_some());
            inputs.filter(|(_, params)| text(params).contains(&mark)).count()
        })
    }

    /// The order of these in the history, with repeats.
    pub(crate) fn history<'a>(&self, ids: &[&'a str]) -> Vec<&'a str> {
        self.with(|state| {
            let texts = state.history.iter();
            texts.filter_map(|text| ids.iter().copied().find(|id| text.contains(&format!("[beepgrid end {id}]")))).collect()
        })
    }
}

fn initialize(state: &State, id: &Value) {
    let mut answer = json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": state.kind != Kind::Forgetful } });
    match state.kind {
        Kind::Standard => answer["_meta"] = json!({ "steering": { "supported": true } }),
        Kind::Goose => answer["agentInfo"] = json!({ "name": "goose", "version": "1" }),
        Kind::Plain | Kind::Forgetful => {}
    }
    state.result(id, answer);
}

fn prompt(state: &mut State, id: &Value, params: &Value) {
    if let Some(code) = state.next_prompt_fails.take() {
        return state.error(id, code);
    }
    assert!(state.turn.is_none(), "a second turn beside a running one");
    state.history.push(text(params));
    state.turn = Some((id.clone(), vec![text(params)]));
    if state.kind == Kind::Goose {
        state.run += 1;
        state.goose_run(&json!(format!("run-{}", state.run)));
    }
    state.works();
}

fn steer(state: &mut State, id: &Value, params: &Value) {
    let number = state.calls.len();
    let take = |state: &mut State| state.memory.push((format!("message-{number}"), text(params)));
    match state.steer_answers.pop_front() {
        Some(Answer::Fails(code)) => return state.error(id, code),
        Some(Answer::LosesSilently) => return,
        Some(Answer::TakesSilently) => return take(state),
        Some(Answer::Says(outcome)) => return state.result(id, json!({ "outcome": outcome, "reason": "as the test wants" })),
        None => {}
    }
    if state.kind == Kind::Goose {
        let run = format!("run-{}", state.run);
        if state.turn.is_none() || params["expectedRunId"] != run.as_str() {
            return state.error(id, -32602);
        }
        take(state);
        return state.result(id, json!({ "runId": run, "messageId": format!("message-{number}") }));
    }
    assert_eq!(params["_meta"]["steering"]["idleBehavior"], "promptRequired");
    if state.turn.is_none() {
        return state.result(id, json!({ "outcome": "promptRequired" }));
    }
    take(state);
    state.result(id, json!({ "outcome": "injected" }));
}

fn finish(state: &mut State, reason: &str) {
    let Some((id, _)) = state.turn.take() else { return };
    if state.kind == Kind::Goose {
        state.goose_run(&Value::Null);
        state.memory.clear();
    }
    state.result(&id, json!({ "stopReason": reason }));
}
