//! A model without a mind, for agent runtimes under test: it remembers what it was shown, and does what the text tells it.
//!
//! A user text can hold a directive: `[[tool COMMAND]]` calls the runtime's shell once with the command before it answers, `[[wait]]`
//! answers only after [`Model::release`], `[[call TOOL {"json"}]]` calls a tool that the host itself serves. Everything else is answered at once with `SEEN`. The newest directive that is not done yet counts.

mod chat;
mod messages;

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The model's name in every interface.
pub const NAME: &str = "fake-model";

/// One thing in a conversation, as the model is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Somebody's text.
    User(String),
    /// The model's own text.
    Said(String),
    /// A tool that the model called.
    Called(String),
    /// What a tool answered.
    Result(String),
}

/// What the model was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The conversation, oldest first, without system texts.
    pub items: Vec<Item>,
    /// The tools by name.
    pub tools: Vec<String>,
    /// Whether the answer is to be a stream.
    stream: bool,
}

impl Asked {
    /// The texts of users.
    pub fn users(&self) -> Vec<&str> {
        let text = |item: &'_ Item| matches!(item, Item::User(_));
        self.items.iter().filter(|item| text(item)).map(Item::text).collect()
    }
}

impl Item {
    fn text(&self) -> &str {
        let (Self::User(text) | Self::Said(text) | Self::Called(text) | Self::Result(text)) = self;
        text
    }
}

/// What it does next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Plan {
    Say,
    Wait,
    Shell(String),
    Call(String, Value),
}

/// What it answers.
enum Answer {
    Text(String),
    Call { name: String, arguments: Value },
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    released: usize,
}

/// A running model.
#[derive(Clone)]
pub struct Model {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
    url: String,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Model {
    /// Starts one on a free port; it ends with the runtime of the test.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let model = Self { state: Arc::default(), changed: watch::Sender::new(0), url };
        let serving = model.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        model
    }

    /// The base URL, with `/v1`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Everything it was asked, oldest first.
    pub fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
    }

    /// How often a text that contains `part` stands in the newest conversation that holds it; 0 if it was never shown.
    pub fn times_shown(&self, part: &str) -> usize {
        let count = |asked: &Asked| asked.users().iter().map(|text| text.matches(part).count()).sum();
        self.asked().iter().rev().map(count).find(|count| *count > 0).unwrap_or(0)
    }

    /// The parts that the newest conversation shows, in its order.
    pub fn order(&self, parts: &[&str]) -> Vec<String> {
        let asked = self.asked();
        let text = asked.last().map(|asked| asked.users().join("\n")).unwrap_or_default();
        let mut found: Vec<(usize, &str)> = parts.iter().filter_map(|part| Some((text.find(part)?, *part))).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, part)| part.to_owned()).collect()
    }

    /// Lets one `[[wait]]` go on, the one that waits or the next.
    pub fn release(&self) {
        self.state.lock().unwrap().released += 1;
        self.changed.send_modify(|version| *version += 1);
    }

    async fn serve(self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        while let Some((path, body)) = read(&mut stream).await {
            let (read, write): (Read, Write) = match path.rsplit('/').next() {
                Some("completions") => (chat::read, chat::write),
                Some("messages") => (messages::read, messages::write),
                _ => {
                    let models = json!({ "object": "list", "data": [{ "id": NAME, "object": "model" }] }).to_string();
                    send(&mut stream, "application/json", &models).await;
                    continue;
                }
            };
            let asked = read(&body);
            let number = {
                let mut state = self.state.lock().unwrap();
                state.asked.push(asked.clone());
                state.asked.len()
            };
            let answer = self.answer(&asked).await;
            let (kind, text) = write(&answer, number, asked.stream);
            send(&mut stream, kind, &text).await;
        }
    }

    async fn answer(&self, asked: &Asked) -> Answer {
        match plan(&asked.items) {
            Plan::Say => {}
            Plan::Wait => {
                let mut changes = self.changed.subscribe();
                let go = || {
                    let mut state = self.state.lock().unwrap();
                    let go = state.released > 0;
                    state.released = state.released.saturating_sub(1);
                    go
                };
                while !go() {
                    if changes.changed().await.is_err() {
                        break;
                    }
                }
            }
            Plan::Shell(command) => {
                if let Some(call) = shell(&asked.tools, &command) {
                    return call;
                }
            }
            Plan::Call(name, arguments) => return Answer::Call { name, arguments },
        }
        Answer::Text("SEEN".to_owned())
    }
}

type Read = fn(&Value) -> Asked;
type Write = fn(&Answer, usize, bool) -> (&'static str, String);

/// The runtimes name their shells differently.
fn shell(tools: &[String], command: &str) -> Option<Answer> {
    let known = ["shell_command", "exec_command", "shell", "Bash", "bash"];
    let name = (*known.iter().find(|name| tools.iter().any(|tool| tool == *name))?).to_owned();
    let arguments = match name.as_str() {
        "shell" => json!({ "command": ["sh", "-c", command] }),
        "exec_command" => json!({ "cmd": command }),
        _ => json!({ "command": command, "description": "work" }),
    };
    Some(Answer::Call { name, arguments })
}

fn plan(items: &[Item]) -> Plan {
    let directive = |item: &Item| match item {
        Item::User(text) => {
            let (_, rest) = text.rsplit_once("[[")?;
            let (inside, _) = rest.split_once("]]")?;
            match inside.split_once(' ') {
                Some(("tool", command)) => Some(Plan::Shell(command.to_owned())),
                Some(("call", call)) => {
                    let (name, arguments) = call.split_once(' ')?;
                    Some(Plan::Call(name.to_owned(), serde_json::from_str(arguments).ok()?))
                }
                None if inside == "wait" => Some(Plan::Wait),
                _ => None,
            }
        }
        _ => None,
    };
    let Some((at, plan)) = items.iter().enumerate().rev().find_map(|(at, item)| Some((at, directive(item)?))) else {
        return Plan::Say;
    };
    let done = |item: &Item| {
        matches!(item, Item::Said(text) if text == "SEEN")
            || matches!((item, &plan), (Item::Result(_), Plan::Shell(_) | Plan::Call(..)))
    };
    if items.iter().skip(at).any(done) { Plan::Say } else { plan }
}

/// The pieces of a content, whatever its shape.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut line = String::new();
    if stream.read_line(&mut line).await.ok()? == 0 {
        return None;
    }
    let path = line.split(' ').nth(1)?.split('?').next()?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        let header = header.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((path, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

async fn send(stream: &mut BufReader<TcpStream>, kind: &str, body: &str) {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    // A runtime that was killed meanwhile reads no answer.
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_directive_that_is_not_done_counts() {
        let user = |text: &str| Item::User(text.to_owned());
        assert_eq!(plan(&[user("hello")]), Plan::Say);
        let mut items = vec![user("[[tool sleep 1]] work")];
        assert_eq!(plan(&items), Plan::Shell("sleep 1".to_owned()));
        items.push(Item::Called("bash".to_owned()));
        items.push(Item::Result("done".to_owned()));
        items.push(user("a steer"));
        assert_eq!(plan(&items), Plan::Say);
        items.push(user("> [[wait]]"));
        assert_eq!(plan(&items), Plan::Wait);
        items.push(Item::Said("SEEN".to_owned()));
        assert_eq!(plan(&items), Plan::Say);
    }
}
