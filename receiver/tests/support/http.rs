//! The smallest engine that speaks HTTP: leases and acknowledgements over a real socket, so that a process can be killed behind it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use beepgrid_receiver::LiveInput;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// Much shorter than the real one, so that a redelivery need not be waited for.
const LEASE: Duration = Duration::from_millis(400);

struct Item {
    input: LiveInput,
    generation: i64,
    leased_until: Option<Instant>,
    acked: bool,
}

#[derive(Clone)]
pub(crate) struct HttpEngine {
    items: Arc<Mutex<Vec<Item>>>,
    url: String,
}

impl HttpEngine {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let engine = Self { items: Arc::default(), url };
        let serving = engine.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let engine = serving.clone();
                tokio::spawn(async move { engine.serve(stream).await });
            }
        });
        engine
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn deliver(&self, input: LiveInput) {
        self.items.lock().unwrap().push(Item { input, generation: 0, leased_until: None, acked: false });
    }

    /// The ids that were acknowledged.
    pub(crate) fn acked(&self) -> Vec<String> {
        let items = self.items.lock().unwrap();
        items.iter().filter(|item| item.acked).map(|item| item.input.id.to_string()).collect()
    }

    /// How often a delivery was leased.
    pub(crate) fn generation(&self, id: &str) -> i64 {
        let items = self.items.lock().unwrap();
        items.iter().find(|item| item.input.id.as_str() == id).map_or(0, |item| item.generation)
    }

    async fn serve(self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        while let Some((path, body)) = read_request(&mut stream).await {
            let answer = match path.as_str() {
                "/api/v1/me" => me(),
                "/api/v1/inbox/lease" => self.lease(&body).await,
                "/api/v1/inbox/ack" => self.ack(&body),
                other => panic!("the receiver asked for {other}"),
            }
            .to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", answer.len());
            if stream.write_all(format!("{head}{answer}").as_bytes()).await.is_err() {
                return;
            }
        }
    }

    async fn lease(&self, body: &Value) -> Value {
        let end = Instant::now() + Duration::from_millis(body["wait_ms"].as_u64().unwrap_or(0).min(500));
        loop {
            let leased = self.lease_now(body["limit"].as_u64().unwrap_or(10));
            if !leased.is_empty() || Instant::now() >= end {
                return Value::Array(leased);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn lease_now(&self, limit: u64) -> Vec<Value> {
        let now = Instant::now();
        let mut items = self.items.lock().unwrap();
        let (mut leased, mut held_back) = (Vec::new(), BTreeSet::new());
        for item in items.iter_mut().filter(|item| !item.acked) {
            if item.leased_until.is_some_and(|until| until > now) {
                // A lease from an earlier call (of a process that died) holds back the rest of its conversation.
                held_back.insert(item.input.conversation_id.clone());
            } else if !held_back.contains(&item.input.conversation_id) && leased.len() < usize::try_from(limit).unwrap() {
                item.generation += 1;
                item.leased_until = Some(now + LEASE);
                let mut delivery = item.input.delivery.clone();
                delivery.generation = item.generation;
                leased.push(serde_json::to_value(delivery).unwrap());
            }
        }
        leased
    }

    fn ack(&self, body: &Value) -> Value {
        let mut items = self.items.lock().unwrap();
        let results: Vec<Value> = body["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|ack| match items.iter_mut().find(|item| item.input.id.as_str() == ack["id"]) {
                Some(item) if item.generation == ack["generation"] => {
                    item.acked = true;
                    json!({ "id": ack["id"], "received": true })
                }
                Some(_) => json!({ "id": ack["id"], "code": "stale_generation" }),
                None => json!({ "id": ack["id"], "code": "not_found" }),
            })
            .collect();
        json!({ "results": results })
    }
}

fn me() -> Value {
    json!({
        "identity_type": "agent",
        "agent": { "id": "agt_1", "name": "Builder 7", "external_id": "builder-7", "metadata": {} },
        "instance_id": "ins_1",
        "operator": false,
        "credential": { "id": "crd_1", "kind": "worker", "name": "test", "expires_at": null },
    })
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut line = String::new();
    if stream.read_line(&mut line).await.ok()? == 0 {
        return None;
    }
    let path = line.split(' ').nth(1)?.to_owned();
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
