//! A scripted Claude: the queue, the echoes and the transcript as the real one was seen to keep them (2.1.332), moved on by the test.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::{BTreeSet, VecDeque};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use beepgrid_receiver::claude::{Launch, Link, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

pub(crate) const SESSION: &str = "6f0c2b1e-6a59-4b43-8a6e-3c1f1f0f7a11";

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a script")]
struct State {
    launches: Vec<Launch>,
    out: Option<mpsc::Sender<Vec<u8>>>,
    /// Everything that came in, over all processes.
    inputs: Vec<Value>,
    replies: Vec<Value>,
    queue: VecDeque<Value>,
    /// What the running turn has taken in.
    turn: Vec<Value>,
    running: bool,
    /// Ids that this process has seen.
    known: BTreeSet<String>,
    /// What the model was shown, in order.
    shown: Vec<String>,
    deaf: bool,
    silent_start: bool,
    keep_transcript_back: bool,
    held_back: Vec<Value>,
}

#[derive(Clone)]
pub(crate) struct FakeClaude {
    state: Arc<Mutex<State>>,
    folder: PathBuf,
}

fn uuid(record: &Value) -> String {
    record["uuid"].as_str().unwrap().to_owned()
}

fn text(record: &Value) -> String {
    record["message"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

impl State {
    fn say(&self, record: &Value) {
        if let Some(out) = &self.out {
            let _ = out.try_send(format!("{record}\n").into_bytes());
        }
    }

    fn life(&self, input: &Value, state: &str) {
        self.say(&json!({ "type": "command_lifecycle", "command_uuid": input["uuid"], "state": state }));
    }

    /// Only the user's own words and repeats come back.
    fn echo(&self, input: &Value, repeated: bool) {
        if input["isSynthetic"] == true && !repeated {
            return;
        }
        self.say(&json!({ "type": "user", "uuid": input["uuid"], "message": input["message"], "isReplay": true }));
    }

    fn working(&self, state: &str) {
        self.say(&json!({ "type": "system", "subtype": "session_state_changed", "state": state }));
    }
}

impl FakeClaude {
    pub(crate) fn new(folder: &Path) -> Self {
        std::fs::create_dir_all(folder.join("projects/-work")).unwrap();
        Self { state: Arc::default(), folder: folder.to_owned() }
    }

    /// Another Claude in the same folder, as after a restart of everything.
    pub(crate) fn reborn(&self) -> Self {
        Self { state: Arc::default(), folder: self.folder.clone() }
    }

    pub(crate) fn options(&self) -> Options {
        let fake = self.clone();
        Options::new("claude").session(SESSION).config_dir(&self.folder).connect(move |launch| {
            let link = fake.launch(launch);
            std::future::ready(Ok(link))
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    pub(crate) fn transcript(&self) -> PathBuf {
        self.folder.join(format!("projects/-work/{SESSION}.jsonl"))
    }

    fn launch(&self, launch: Launch) -> Link {
        let (host_input, input) = tokio::io::duplex(1 << 16);
        let (mut output, host_output) = tokio::io::duplex(1 << 16);
        let (out, mut lines) = mpsc::channel::<Vec<u8>>(1024);
        let number = self.with(|state| {
            state.launches.push(launch);
            state.out = Some(out);
            state.launches.len()
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

    fn read(&self, process: usize, record: &Value) {
        self.with(|state| {
            if state.launches.len() != process || state.out.is_none() || state.deaf {
                return;
            }
            match record["type"].as_str().unwrap() {
                "control_request" => self.asked(state, record),
                "control_response" => self.replied(state, record),
                "user" => self.take(state, record.clone()),
                other => panic!("the host wrote {other}"),
            }
        });
    }

    fn asked(&self, state: &mut State, record: &Value) {
        let id = &record["request_id"];
        let answer = match record["request"]["subtype"].as_str().unwrap() {
            "initialize" if state.silent_start => return,
            "initialize" => json!({ "session_state": "idle" }),
            "interrupt" if record["request"]["cancel_queued"] == true => {
                let cancelled: Vec<Value> = state.queue.drain(..).collect();
                for input in &cancelled {
                    state.life(input, "cancelled");
                }
                json!({ "still_queued": [], "cancelled": cancelled.iter().map(uuid).collect::<Vec<_>>() })
            }
            _ => json!({ "still_queued": state.queue.iter().map(uuid).collect::<Vec<_>>() }),
        };
        state.say(
            &json!({ "type": "control_response", "response": { "subtype": "success", "request_id": id, "response": answer } }),
        );
        if record["request"]["subtype"] == "interrupt" {
            self.finish(state, "cancelled");
        }
    }

    fn replied(&self, state: &mut State, record: &Value) {
        let response = &record["response"];
        state.replies.push(response.clone());
        let call = response["request_id"].as_str().unwrap_or_default().strip_prefix("ask-toolu");
        if let Some(number) = call {
            let (id, text) =
                (format!("toolu{number}"), response["response"]["mcp_response"]["result"]["content"][0]["text"].clone());
            state.shown.push(text.as_str().unwrap_or_default().to_owned());
            let content = json!([{ "type": "tool_result", "tool_use_id": id, "content": text }]);
            let result =
                json!({ "type": "user", "uuid": format!("result-{id}"), "message": { "role": "user", "content": content } });
            self.write(state, result.clone());
            state.say(&result);
        }
    }

    fn take(&self, state: &mut State, input: Value) {
        state.inputs.push(input.clone());
        let known = !state.known.insert(uuid(&input))
            || std::fs::read_to_string(self.transcript()).is_ok_and(|lines| {
                // Folded input is not recognised after a restart.
                lines.lines().any(|line| line.contains(&uuid(&input)) && line.contains("\"type\":\"user\""))
            });
        if known {
            if !state.queue.iter().any(|queued| uuid(queued) == uuid(&input)) {
                state.echo(&input, true);
                if !state.running {
                    state.working("idle");
                }
            }
            return;
        }
        if !state.running {
            state.running = true;
            state.working("running");
        }
        state.life(&input, "queued");
        state.queue.push_back(input);
        if state.turn.is_empty() {
            self.open_turn(state);
        }
    }

    /// Everything of the front's urgency becomes one message.
    fn open_turn(&self, state: &mut State) {
        let next: Vec<Value> = state.queue.iter().filter(|input| input["priority"] == "next").cloned().collect();
        let taken: Vec<Value> = if next.is_empty() { state.queue.pop_front().into_iter().collect() } else { next };
        state.queue.retain(|input| !taken.contains(input));
        let Some(last) = taken.last().cloned() else {
            state.running = false;
            state.working("idle");
            return;
        };
        for input in &taken {
            state.life(input, "started");
        }
        state.say(&json!({ "type": "system", "subtype": "init", "session_id": SESSION, "capabilities": ["msg_lifecycle_v1"] }));
        state.echo(&last, false);
        let merged: Vec<String> = taken.iter().map(uuid).filter(|id| *id != uuid(&last)).collect();
        let content: Vec<Value> = taken.iter().map(|input| input["message"]["content"][0].clone()).collect();
        state.shown.extend(taken.iter().map(text));
        let message = json!({ "role": "user", "content": content });
        self.write(state, json!({ "type": "user", "uuid": last["uuid"], "message": message, "mergedSendUuids": merged }));
        state.turn = taken;
    }

    fn write(&self, state: &mut State, record: Value) {
        if state.keep_transcript_back {
            state.held_back.push(record);
            return;
        }
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(self.transcript()).unwrap();
        file.write_all(format!("{record}\n").as_bytes()).unwrap();
    }

    fn finish(&self, state: &mut State, word: &str) {
        if state.turn.is_empty() {
            return;
        }
        state.say(&json!({ "type": "result", "subtype": "success" }));
        for input in std::mem::take(&mut state.turn) {
            state.life(&input, word);
        }
        self.open_turn(state);
    }

    // What the test does.

    /// The running turn comes to a tool boundary: what is to join joins.
    pub(crate) fn boundary(&self) {
        self.with(|state| {
            let folded: Vec<Value> = state.queue.iter().filter(|input| input["priority"] == "next").cloned().collect();
            state.queue.retain(|input| !folded.contains(input));
            for input in folded {
                state.echo(&input, false);
                state.life(&input, "started");
                state.shown.push(format!("while working: {}", text(&input)));
                let command =
                    json!({ "type": "queued_command", "source_uuid": input["uuid"], "prompt": input["message"]["content"] });
                self.write(state, json!({ "type": "attachment", "uuid": "attachment", "attachment": command }));
                state.turn.push(input);
            }
        });
    }

    pub(crate) fn end_turn(&self) {
        self.with(|state| self.finish(state, "completed"));
    }

    /// Lines of the transcript come later than what is said.
    pub(crate) fn keep_transcript_back(&self, back: bool) {
        self.with(|state| {
            state.keep_transcript_back = back;
            if !back {
                for record in std::mem::take(&mut state.held_back) {
                    self.write(state, record);
                }
            }
        });
    }

    /// The process dies, and all that it has in memory with it.
    pub(crate) fn die(&self) {
        self.with(|state| {
            (state.out, state.running) = (None, false);
            state.queue.clear();
            state.turn.clear();
            state.known.clear();
            state.held_back.clear();
        });
    }

    /// From now on nothing is read.
    pub(crate) fn deaf(&self, deaf: bool) {
        self.with(|state| state.deaf = deaf);
    }

    pub(crate) fn silent_start(&self) {
        self.with(|state| state.silent_start = true);
    }

    pub(crate) fn call_wait(&self, number: u32, request: &str) {
        self.tool(
            &format!("ask-toolu_{number}"),
            "tools/call",
            &json!({
                "name": "wait_for_result",
                "arguments": { "request_id": request },
                "_meta": { "claudecode/toolUseId": format!("toolu_{number}") },
            }),
        );
    }

    pub(crate) fn tool(&self, ask: &str, method: &str, params: &Value) {
        let message = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        self.ask(ask, &json!({ "subtype": "mcp_message", "server_name": "beepgrid", "message": message }));
    }

    pub(crate) fn ask(&self, id: &str, request: &Value) {
        self.say(&json!({ "type": "control_request", "request_id": id, "request": request }));
    }

    pub(crate) fn say(&self, record: &Value) {
        self.with(|state| state.say(record));
    }

    pub(crate) fn say_raw(&self, bytes: Vec<u8>) {
        self.with(|state| state.out.as_ref().unwrap().try_send(bytes).unwrap());
    }

    pub(crate) fn reply(&self, ask: &str) -> Option<Value> {
        self.with(|state| state.replies.iter().find(|reply| reply["request_id"] == ask).cloned())
    }

    pub(crate) fn launches(&self) -> Vec<Launch> {
        self.with(|state| state.launches.clone())
    }

    /// The texts that came in, over all processes.
    pub(crate) fn inputs(&self) -> Vec<Value> {
        self.with(|state| state.inputs.clone())
    }

    /// How often the model was shown this input; `in_turn` counts only what joined a running turn.
    pub(crate) fn shown(&self, id: &str, in_turn: bool) -> usize {
        let mark = format!("[beepgrid end {id}]");
        self.with(|state| {
            let about = state.shown.iter().filter(|text| text.contains(&mark));
            about.filter(|text| !in_turn || text.starts_with("while working: ")).count()
        })
    }

    /// The order in which these were shown.
    pub(crate) fn order<'a>(&self, ids: &[&'a str]) -> Vec<&'a str> {
        self.with(|state| {
            let texts = state.shown.iter();
            texts.filter_map(|text| ids.iter().copied().find(|id| text.contains(&format!("[beepgrid end {id}]")))).collect()
        })
    }
}
