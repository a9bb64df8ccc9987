//! A TCP proxy that misbehaves in chosen ways, one HTTP exchange per connection.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What the proxy does with one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Hands the answer on.
    Pass,
    /// The engine acts; the client's connection is closed without an answer.
    DropAnswer,
    /// The engine acts; the head and half the body come through, then the connection is closed.
    CutBody,
    /// The engine acts; the client hears nothing, and the connection stays open.
    Stall,
    /// The engine acts; the client gets a gateway's 502.
    BadGateway,
    /// The connection is closed before the engine sees anything.
    Refuse,
}

/// The proxy. Its tasks end with it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: String,
    plan: Mutex<VecDeque<Fault>>,
    otherwise: Mutex<Fault>,
    seen: Mutex<Vec<String>>,
    exchanges: AtomicUsize,
}

impl Proxy {
    /// A proxy in front of the engine at `url`, which passes until it is told otherwise.
    pub async fn before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let upstream = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let shared = Arc::new(Shared {
            upstream,
            plan: Mutex::default(),
            otherwise: Mutex::new(Fault::Pass),
            seen: Mutex::default(),
            exchanges: AtomicUsize::new(0),
        });
        let serving = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(exchange(Arc::clone(&serving), client));
            }
        });
        Self { address, shared, accepting }
    }

    /// The proxy's address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What happens to the next exchanges, in order; after them all pass again.
    pub fn plan(&self, faults: &[Fault]) {
        *self.shared.plan.lock().expect("not poisoned") = faults.iter().copied().collect();
    }

    /// What happens to every exchange that no plan covers.
    pub fn always(&self, fault: Fault) {
        *self.shared.otherwise.lock().expect("not poisoned") = fault;
    }

    /// How many exchanges were begun since the last call.
    pub fn take_count(&self) -> usize {
        self.shared.seen.lock().expect("not poisoned").clear();
        self.shared.exchanges.swap(0, Ordering::SeqCst)
    }

    /// The heads of the requests since the last count, in lower case.
    pub fn heads(&self) -> Vec<String> {
        self.shared.seen.lock().expect("not poisoned").clone()
    }

    /// The idempotency keys of the requests since the last count.
    pub fn keys(&self) -> Vec<Option<String>> {
        let key =
            |head: String| head.lines().find_map(|line| line.strip_prefix("idempotency-key:").map(|key| key.trim().to_owned()));
        self.heads().into_iter().map(key).collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn exchange(shared: Arc<Shared>, mut client: TcpStream) {
    let planned = shared.plan.lock().expect("not poisoned").pop_front();
    let fault = planned.unwrap_or(*shared.otherwise.lock().expect("not poisoned"));
    let Some(request) = read_message(&mut client).await else { return };
    shared.exchanges.fetch_add(1, Ordering::SeqCst);
    let head_end = find(&request, b"\r\n\r\n").unwrap_or(request.len());
    shared.seen.lock().expect("not poisoned").push(String::from_utf8_lossy(&request[..head_end]).to_lowercase());
    if fault == Fault::Refuse {
        return;
    }
    let Ok(mut upstream) = TcpStream::connect(&shared.upstream).await else { return };
    if upstream.write_all(&one_shot(&request)).await.is_err() {
        return;
    }
    let mut answer = Vec::new();
    let _ = upstream.read_to_end(&mut answer).await;
    match fault {
        Fault::Pass => drop(client.write_all(&answer).await),
        Fault::DropAnswer | Fault::Refuse => {}
        Fault::CutBody => {
            let head = find(&answer, b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
            let cut = head + (answer.len() - head) / 2;
            drop(client.write_all(&answer[..cut]).await);
        }
        Fault::Stall => {
            // Hold the line until the client gives up.
            let mut nothing = [0; 1];
            let _ = client.read(&mut nothing).await;
        }
        Fault::BadGateway => {
            let page = b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 11\r\nconnection: close\r\n\r\nBad gateway";
            drop(client.write_all(page).await);
        }
    }
    let _ = client.shutdown().await;
}

/// The request with a header that makes the engine close the connection after its answer.
fn one_shot(request: &[u8]) -> Vec<u8> {
    let line_end = find(request, b"\r\n").map_or(request.len(), |at| at + 2);
    let mut out = request[..line_end].to_vec();
    out.extend_from_slice(b"connection: close\r\n");
    let head_end = find(request, b"\r\n\r\n").unwrap_or(request.len());
    for line in String::from_utf8_lossy(&request[line_end..head_end]).split("\r\n") {
        if !line.is_empty() && !line.to_lowercase().starts_with("connection:") {
            out.extend_from_slice(line.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(request.get(head_end + 4..).unwrap_or_default());
    out
}

async fn read_message(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    let mut chunk = vec![0; 16 * 1024];
    loop {
        if let Some(end) = find(&read, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
            if read.len() >= end + 4 + length.unwrap_or(0) {
                return Some(read);
            }
        }
        match client.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => read.extend_from_slice(&chunk[..n]),
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
