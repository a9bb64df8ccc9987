//! A server that reads requests properly and answers them as badly as it is told to.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What to do with one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A whole answer.
    Whole { status: u16, headers: Vec<(&'static str, String)>, body: Vec<u8> },
    /// An answer that announces all of its body and ends in the middle of it.
    Cut(&'static str),
    /// An answer that stops in the middle of its body and keeps the connection.
    Stall(&'static str),
    /// A body of chunks without end.
    Endless,
    /// The connection ends without an answer.
    Close,
    /// Nothing, and the connection stays.
    Silent,
    /// An answer after a while.
    Late(Duration, Box<Reply>),
    /// The connection ends without an answer, and nobody listens any more.
    Leave,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &str) -> Self {
        Self::Whole { status, headers: vec![("content-type", "application/json".into())], body: body.into() }
    }

    pub(crate) fn ok(body: &str) -> Self {
        Self::json(200, body)
    }

    pub(crate) fn error(status: u16, code: &str) -> Self {
        Self::json(status, &format!(r#"{{"code":"{code}","message":"A test."}}"#))
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Self::Whole { headers, .. } = &mut self {
            headers.push((name, value.into()));
        }
        self
    }
}

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

type Script = Arc<dyn Fn(usize, &Seen) -> Reply + Send + Sync>;

pub(crate) struct Peer {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Peer {
    /// Answers request number `n` (from 0) as the script says.
    pub(crate) async fn start(script: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let (leave, mut left) = tokio::sync::watch::channel(false);
        let shared = (Arc::new(script) as Script, Arc::clone(&seen), leave);
        let counter = Arc::clone(&connections);
        let accepting = tokio::spawn(async move {
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        counter.fetch_add(1, Ordering::SeqCst);
                        tokio::spawn(serve(accepted.unwrap().0, shared.clone()));
                    }
                    _ = left.changed() => return,
                }
            }
        });
        Self { url, seen, connections, accepting }
    }

    /// Answers in this order, and the last one for ever.
    pub(crate) async fn replies(replies: Vec<Reply>) -> Self {
        Self::start(move |n, _| replies.get(n).or(replies.last()).unwrap().clone()).await
    }

    /// A URL where nobody listens.
    pub(crate) async fn nobody() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut stream: TcpStream, shared: (Script, Arc<Mutex<Vec<Seen>>>, tokio::sync::watch::Sender<bool>)) {
    let (script, all, leave) = shared;
    while let Some(seen) = read(&mut stream).await {
        let number = {
            let mut all = all.lock().unwrap();
            all.push(seen.clone());
            all.len() - 1
        };
        let reply = script(number, &seen);
        if matches!(reply, Reply::Leave) {
            leave.send_replace(true);
            leave.closed().await; // the listener is gone before the client learns of the end
            return;
        }
        if !answer(&mut stream, reply).await {
            return;
        }
    }
}

/// Whether the connection goes on.
async fn answer(stream: &mut TcpStream, reply: Reply) -> bool {
    let half = |body: &str| {
        let shown = body.get(..body.len() / 2).unwrap();
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{shown}", body.len())
    };
    match reply {
        Reply::Whole { status, headers, body } => {
            let mut head = format!("HTTP/1.1 {status} Test\r\ncontent-length: {}\r\n", body.len());
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str("\r\n");
            let whole = [head.into_bytes(), body].concat();
            stream.write_all(&whole).await.is_ok()
        }
        Reply::Cut(body) => {
            let _ = stream.write_all(half(body).as_bytes()).await;
            false
        }
        Reply::Stall(body) => {
            let _ = stream.write_all(half(body).as_bytes()).await;
            pending().await
        }
        Reply::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
            while stream.write_all(b"8\r\n        \r\n").await.is_ok() {}
            false
        }
        Reply::Close | Reply::Leave => false,
        Reply::Silent => pending().await,
        Reply::Late(time, reply) => {
            tokio::time::sleep(time).await;
            Box::pin(answer(stream, *reply)).await
        }
    }
}

/// One request, or `None` when the connection ended.
async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes.get(..head)?.to_vec()).ok()?;
    let mut lines = text.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    while bytes.len() < head + 4 + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8(bytes.get(head + 4..)?.to_vec()).ok()?;
    Some(Seen { method, target, headers, body })
}
