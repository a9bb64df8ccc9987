//! A raw reader of event streams: every frame and comment as it came.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::Value;

use crate::raw::{Answer, Api};

/// What a stream is given at most to show something.
const PATIENCE: Duration = Duration::from_secs(20);

/// One block of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// An event, with its id line.
    Event(String, Value),
    /// A cursor frame's sequence.
    Cursor(i64),
    /// A comment.
    Comment,
}

/// An open stream. Dropping it closes the connection.
pub struct Stream {
    body: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    text: Vec<u8>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("unread", &self.text.len()).finish_non_exhaustive()
    }
}

/// Opens a stream; `query` stands after `/events?`. A refusal comes back as it is.
pub async fn open(api: &Api, query: &str) -> Result<Stream, Answer> {
    open_with(api, query, &[]).await
}

/// The same with further headers.
pub async fn open_with(api: &Api, query: &str, headers: &[(&str, &str)]) -> Result<Stream, Answer> {
    let http = crate::raw::plain_http().no_proxy().build().expect("a plain client builds");
    let mut request = http.get(format!("{}/api/v1/events?{query}", api.url())).bearer_auth(api.token());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.expect("the engine answers");
    if response.status() != 200 {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        return Err(Answer { status, headers, text: response.text().await.expect("a body") });
    }
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-store");
    Ok(Stream { body: response.bytes_stream().boxed(), text: Vec::new() })
}

impl Stream {
    /// The next block; `None` at a clean end.
    ///
    /// # Panics
    /// When nothing comes for a while, and on blocks that the contract does not know.
    pub async fn next(&mut self) -> Option<Block> {
        tokio::time::timeout(PATIENCE, self.block()).await.expect("the stream shows something in time")
    }

    async fn block(&mut self) -> Option<Block> {
        loop {
            if let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.text.drain(..end + 2).collect();
                return Some(parse(std::str::from_utf8(&block).expect("UTF-8").trim_end()));
            }
            match self.body.next().await {
                Some(bytes) => self.text.extend_from_slice(&bytes.expect("a clean body")),
                None => {
                    assert_eq!(self.text, b"", "half a block at a clean end");
                    return None;
                }
            }
        }
    }

    /// The next event, past comments and cursors; `None` at the end.
    pub async fn event(&mut self) -> Option<Value> {
        loop {
            if let Block::Event(_, event) = self.next().await? {
                return Some(event);
            }
        }
    }

    /// The sequence of the next cursor frame. No event may come before it.
    pub async fn cursor(&mut self) -> i64 {
        loop {
            match self.next().await {
                Some(Block::Cursor(sequence)) => return sequence,
                Some(Block::Comment) => {}
                other => panic!("no cursor but {other:?}"),
            }
        }
    }

    /// Reads to the end and gives what came before it.
    pub async fn rest(&mut self) -> Vec<Block> {
        let mut blocks = Vec::new();
        while let Some(block) = self.next().await {
            blocks.push(block);
        }
        blocks
    }
}

fn parse(block: &str) -> Block {
    if block.lines().all(|line| line.starts_with(':')) {
        return Block::Comment;
    }
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned));
    let data: Value = serde_json::from_str(&field("data").expect("data")).expect("JSON");
    match field("event").as_deref() {
        None => {
            let id = field("id").expect("an id");
            assert_eq!(Some(id.parse().expect("a number")), data["sequence"].as_i64());
            Block::Event(id, data)
        }
        Some("cursor") => Block::Cursor(data["sequence"].as_i64().expect("a sequence")),
        other => panic!("an unknown frame {other:?}"),
    }
}
