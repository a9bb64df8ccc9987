//! As much of HTTP as the scripted server needs.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

pub(super) struct Request {
    pub(super) path: String,
    pub(super) after: u64,
    pub(super) limit: usize,
    pub(super) authorization: Option<String>,
    pub(super) body: Value,
}

pub(super) async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    if stream.read_line(&mut line).await.ok()? == 0 {
        return None;
    }
    let target = line.split(' ').nth(1)?.to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let parameter =
        |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok());
    let (mut length, mut authorization) = (0, None);
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        let header = header.trim_end();
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => authorization = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request {
        path: path.to_owned(),
        after: parameter("after").unwrap_or(0),
        limit: parameter("limit").map_or(usize::MAX, |limit| usize::try_from(limit).unwrap()),
        authorization,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    })
}

pub(super) async fn answer(stream: &mut BufReader<TcpStream>, status: u16, body: &str) {
    let head = format!("HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    // A caller that has gone away is its own business.
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}
