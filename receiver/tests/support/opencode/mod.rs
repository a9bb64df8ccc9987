//! A scripted opencode server over real HTTP: what it admits is on a "disk" that outlives it, turns run until the test ends them, and it
//! fails, or dies, where the test wants it.

#![allow(clippy::indexing_slicing, reason = "tests")]

mod wire;

pub(crate) mod case;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use wire::{Request, answer, read};

pub(crate) const SESSION: &str = "ses_1";
pub(crate) const OTHER_SESSION: &str = "ses_2";

/// What goes wrong with one prompt.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The server dies before it has written anything.
    DieBefore,
    /// The server dies after it has admitted the input, before it answers.
    DieAfter,
    /// Admitted; the answer never comes.
    Hang,
    /// Nothing admitted; answers so.
    Status(u16),
    /// Admitted; answers with this.
    Answer(String),
    /// Admitted; answers with so many bytes.
    Endless(usize),
}

#[derive(Clone, Debug)]
struct Input {
    session: String,
    text: String,
    delivery: String,
    admitted: u64,
    promoted: Option<u64>,
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "what a test switches on and off")]
struct State {
    inputs: BTreeMap<String, Input>,
    events: Vec<Value>,
    /// What the model has been shown, in order.
    seen: Vec<String>,
    active: bool,
    /// Turns end by themselves, at once.
    auto: bool,
    faults: VecDeque<Fault>,
    /// Sent into the event stream as it is.
    noise: Vec<String>,
    prompts: Vec<String>,
    streams: u32,
    loading: bool,
    gone: bool,
    /// The event stream says nothing.
    mute: bool,
    /// Returns what it has under an id instead of refusing a different repeat, as later versions do.
    lenient: bool,
}

#[derive(Clone)]
pub(crate) struct Opencode {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
    alive: Arc<Mutex<CancellationToken>>,
    address: SocketAddr,
    password: Option<&'static str>,
}

impl Opencode {
    /// One whose turns run until [`Self::end_turn`].
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    pub(crate) async fn start_with(password: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { state: Arc::default(), changed: watch::Sender::new(0), alive: Arc::default(), address, password };
        server.serve(listener);
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn serve(&self, listener: TcpListener) {
        let alive = CancellationToken::new();
        *self.alive.lock().unwrap() = alive.clone();
        let server = self.clone();
        tokio::spawn(alive.clone().run_until_cancelled_owned(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let server = server.clone();
                tokio::spawn(alive.clone().run_until_cancelled_owned(async move { server.connection(stream).await }));
            }
        }));
    }

    /// As after `kill -9`: every connection is cut, no turn runs any more.
    pub(crate) fn kill(&self) {
        self.alive.lock().unwrap().cancel();
        self.state.lock().unwrap().active = false;
    }

    /// Starts again with what is on disk; starts no turn by itself.
    pub(crate) async fn restart(&self) {
        loop {
            // The listener of before may take a moment to go.
            match TcpListener::bind(self.address).await {
                Ok(listener) => return self.serve(listener),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap());
        self.changed.send_modify(|version| *version += 1);
        result
    }

    pub(crate) fn turns_end_by_themselves(&self) {
        self.change(|state| {
            state.auto = true;
            state.drain();
        });
    }

    /// The same, from the next turn on.
    pub(crate) fn turns_end_by_themselves_after_restart(&self) {
        self.change(|state| state.auto = true);
    }

    /// The id under which a delivery is stored.
    pub(crate) fn native(&self, id: &str) -> String {
        self.state.lock().unwrap().inputs.keys().find(|native| short(native) == id).unwrap().clone()
    }

    pub(crate) fn next_prompts(&self, faults: impl IntoIterator<Item = Fault>) {
        self.change(|state| state.faults.extend(faults));
    }

    /// Puts these bytes into every event stream.
    pub(crate) fn noise(&self, text: &str) {
        self.change(|state| state.noise.push(text.to_owned()));
    }

    /// The models are not known yet.
    pub(crate) fn loading(&self, loading: bool) {
        self.change(|state| state.loading = loading);
    }

    /// Event streams stay silent from now on.
    pub(crate) fn mute(&self) {
        self.change(|state| state.mute = true);
    }

    /// A different repeat is answered with what was there first.
    pub(crate) fn first_admission_wins(&self) {
        self.change(|state| state.lenient = true);
    }

    /// The session was deleted, or is back.
    pub(crate) fn session_gone(&self, gone: bool) {
        self.change(|state| state.gone = gone);
    }

    /// Somebody else's input, as a person at the keyboard gives it.
    pub(crate) fn typed(&self, id: &str, text: &str) {
        self.change(|state| {
            state.admit(SESSION, id, text, "steer").unwrap();
            state.drain();
        });
    }

    /// A tool is done: steers join.
    pub(crate) fn boundary(&self) {
        self.change(State::promote_steers);
    }

    pub(crate) fn end_turn(&self) {
        self.change(State::end_turn);
    }

    /// A person ends the turn.
    pub(crate) fn interrupt(&self) {
        self.change(|state| {
            state.event("session.next.step.failed", &json!({}));
            state.active = false;
        });
    }

    pub(crate) fn is_active(&self) -> bool {
        self.state.lock().unwrap().active
    }

    /// The delivery ids that the model was shown, in order; others by their own id.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.state.lock().unwrap().seen.iter().map(|id| short(id)).collect()
    }

    /// The delivery ids that were admitted and not shown.
    pub(crate) fn waiting(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let mut waiting: Vec<_> = state.inputs.iter().filter(|(_, input)| input.promoted.is_none()).collect();
        waiting.sort_by_key(|(_, input)| input.admitted);
        waiting.into_iter().map(|(id, input)| format!("{} {}", short(id), input.delivery)).collect()
    }

    /// Every prompt call so far: `m1 steer`.
    pub(crate) fn prompts(&self) -> Vec<String> {
        self.state.lock().unwrap().prompts.clone()
    }

    pub(crate) fn text(&self, id: &str) -> String {
        let state = self.state.lock().unwrap();
        state.inputs.iter().find(|(native, _)| short(native) == id).unwrap().1.text.clone()
    }

    /// How many event streams were opened.
    pub(crate) fn streams(&self) -> u32 {
        self.state.lock().unwrap().streams
    }

    /// Replaces what is stored under the id of this delivery.
    pub(crate) fn squat(&self, native: &str, text: &str) {
        self.change(|state| {
            let admitted = state.next_seq();
            let input = Input {
                session: SESSION.into(),
                text: text.into(),
                delivery: "steer".into(),
                admitted,
                promoted: Some(admitted),
            };
            state.inputs.insert(native.to_owned(), input);
        });
    }

    async fn connection(self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        while let Some(request) = read(&mut stream).await {
            if let Some(password) = self.password
                && request.authorization.as_deref() != Some(password)
            {
                answer(&mut stream, 401, &json!({ "message": "no" }).to_string()).await;
                continue;
            }
            let path: Vec<&str> = request.path.trim_start_matches("/api/").split('/').collect();
            match path.as_slice() {
                ["session", session, "prompt"] => self.prompt(&mut stream, session, &request.body).await,
                ["session", SESSION, "event"] => return self.events(&mut stream, request.after).await,
                _ => {
                    let (status, body) = self.get(&path, &request);
                    answer(&mut stream, status, &body.to_string()).await;
                }
            }
        }
    }

    fn get(&self, path: &[&str], request: &Request) -> (u16, Value) {
        let state = self.state.lock().unwrap();
        match path {
            ["model"] if state.loading => (200, json!({ "data": [] })),
            ["model"] => (200, json!({ "data": [{ "id": "fake-model", "providerID": "fake" }] })),
            ["session"] => (200, json!({ "data": { "id": SESSION } })),
            ["session", "active"] if state.active => (200, json!({ "data": { SESSION: { "type": "running" } } })),
            ["session", "active"] => (200, json!({ "data": {} })),
            ["session", session] if [SESSION, OTHER_SESSION].contains(session) && !state.gone => {
                let model = json!({ "id": "fake-model", "providerID": "fake", "variant": "default" });
                (200, json!({ "data": { "id": session, "model": model, "location": { "directory": "/" } } }))
            }
            ["session", session, "message", id] => match state.inputs.get(*id) {
                Some(input) if input.promoted.is_some() && input.session == **session => {
                    (200, json!({ "data": { "id": id, "type": "user", "text": input.text } }))
                }
                _ => (404, json!({ "message": "no such message" })),
            },
            ["session", session, "history"] => {
                // Only one session has a history.
                let after = state.events.iter().filter(|event| *session == SESSION && seq(event) > request.after);
                let all: Vec<&Value> = after.collect();
                let page: Vec<&Value> = all.iter().copied().take(request.limit).collect();
                (200, json!({ "hasMore": all.len() > page.len(), "data": page }))
            }
            _ => (404, json!({ "message": "Session not found" })),
        }
    }

    async fn prompt(&self, stream: &mut BufReader<TcpStream>, session: &str, body: &Value) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (id, prompt, delivery) = (text(&body["id"]), text(&body["prompt"]["text"]), text(&body["delivery"]));
        let fault = self.change(|state| {
            state.prompts.push(format!("{} {delivery}", short(&id)));
            state.faults.pop_front()
        });
        match &fault {
            Some(Fault::DieBefore) => {
                self.kill();
                return std::future::pending().await;
            }
            Some(Fault::Status(status)) => return answer(stream, *status, &json!({ "message": "as wanted" }).to_string()).await,
            _ => {}
        }
        if self.state.lock().unwrap().gone {
            return answer(stream, 404, &json!({ "message": "Session not found" }).to_string()).await;
        }
        let dies = matches!(fault, Some(Fault::DieAfter));
        let admitted = self.change(|state| {
            let admitted = state.admit(session, &id, &prompt, &delivery);
            if !dies {
                state.drain();
            }
            admitted
        });
        let (status, body) = match admitted {
            Some(data) => (200, json!({ "data": data }).to_string()),
            None => (409, json!({ "_tag": "ConflictError", "message": "conflict" }).to_string()),
        };
        match fault {
            Some(Fault::DieAfter) => {
                self.kill();
                std::future::pending::<()>().await;
            }
            Some(Fault::Hang) => std::future::pending::<()>().await,
            Some(Fault::Answer(text)) => answer(stream, 200, &text).await,
            Some(Fault::Endless(bytes)) => answer(stream, 200, &"x".repeat(bytes)).await,
            _ => answer(stream, status, &body).await,
        }
    }

    async fn events(&self, stream: &mut BufReader<TcpStream>, mut after: u64) {
        let mut versions = self.changed.subscribe();
        let mut noise = 0;
        let mut opened = false;
        self.change(|state| state.streams += 1);
        loop {
            versions.mark_unchanged();
            let mut out = String::new();
            if self.state.lock().unwrap().mute {
                return std::future::pending().await;
            }
            {
                let state = self.state.lock().unwrap();
                for text in state.noise.iter().skip(noise) {
                    out.push_str(text);
                }
                noise = state.noise.len();
                for event in state.events.iter().filter(|event| seq(event) > after) {
                    let _ = write!(out, "data: {event}\n\n");
                }
                after = state.events.last().map_or(after, seq).max(after);
            }
            // Like the real one: no headers before the first event.
            if !out.is_empty() && !std::mem::replace(&mut opened, true) {
                out.insert_str(0, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
            }
            if stream.write_all(out.as_bytes()).await.is_err() || versions.changed().await.is_err() {
                return;
            }
        }
    }
}

impl State {
    fn next_seq(&self) -> u64 {
        self.events.last().map_or(0, seq) + 1
    }

    fn event(&mut self, kind: &str, data: &Value) -> u64 {
        let seq = self.next_seq();
        self.events
            .push(json!({ "id": format!("evt_{seq}"), "type": kind, "durable": { "seq": seq, "version": 1 }, "data": data }));
        seq
    }

    /// `None` is a conflict.
    fn admit(&mut self, session: &str, id: &str, text: &str, delivery: &str) -> Option<Value> {
        if !self.inputs.contains_key(id) {
            let data = json!({ "messageID": id, "prompt": { "text": text }, "delivery": delivery });
            let admitted = self.event("session.next.prompt.admitted", &data);
            let input = Input { session: session.into(), text: text.into(), delivery: delivery.into(), admitted, promoted: None };
            self.inputs.insert(id.to_owned(), input);
        }
        let input = &self.inputs[id];
        let same = input.text == text && input.delivery == delivery && input.session == session;
        let same = same || (self.lenient && input.session == session);
        let mut data = json!({ "id": id, "sessionID": session, "admittedSeq": input.admitted, "prompt": { "text": input.text },
            "delivery": input.delivery, "timeCreated": 1 });
        if let Some(promoted) = input.promoted {
            data["promotedSeq"] = promoted.into();
        }
        same.then_some(data)
    }

    fn next_waiting(&self, delivery: &str) -> Option<String> {
        let waiting = self.inputs.iter().filter(|(_, input)| input.promoted.is_none() && input.delivery == delivery);
        waiting.min_by_key(|(_, input)| input.admitted).map(|(id, _)| id.clone())
    }

    fn promote(&mut self, id: &str) {
        let input = self.inputs[id].clone();
        let data = json!({ "messageID": id, "prompt": { "text": input.text }, "delivery": input.delivery });
        let seq = self.event("session.next.prompted", &data);
        self.inputs.get_mut(id).unwrap().promoted = Some(seq);
        self.seen.push(id.to_owned());
    }

    fn promote_steers(&mut self) {
        while let Some(id) = self.next_waiting("steer") {
            self.promote(&id);
        }
    }

    /// Starts a turn if none runs and something waits.
    fn drain(&mut self) {
        while !self.active {
            if self.next_waiting("steer").is_some() {
                self.promote_steers();
            } else if let Some(id) = self.next_waiting("queue") {
                self.promote(&id);
            } else {
                return;
            }
            self.event("session.next.step.started", &json!({}));
            self.active = true;
            if self.auto {
                self.event("session.next.step.ended", &json!({ "finish": "stop" }));
                self.active = false;
            }
        }
    }

    fn end_turn(&mut self) {
        self.event("session.next.step.ended", &json!({ "finish": "stop" }));
        self.active = false;
        self.drain();
    }
}

fn seq(event: &Value) -> u64 {
    event["durable"]["seq"].as_u64().unwrap()
}

/// The delivery id in an id of ours.
fn short(id: &str) -> String {
    id.strip_prefix("msg_bg").and_then(|rest| rest.split_once('_')).map_or(id, |(_, id)| id).to_owned()
}
