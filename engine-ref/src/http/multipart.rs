//! The one file of an upload, out of its multipart form.
//!
//! Read by hand because of what has to hold: the limit counts the file's bytes and nothing around them, never more than it is in
//! memory, what is too much is refused before it is read, and a name arrives with every letter it had.

mod part;

use axum::body::{Body, BodyDataStream, HttpBody};
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, EXPECT};
use bytes::{Buf, Bytes, BytesMut};
use futures_util::StreamExt;

use self::part::{Part, split_parameters};
use super::extract::STALL;
use crate::service::Refusal;
use crate::service::limits::MAX_ATTACHMENT_BYTES;
use crate::service::uploads::Received;

/// Bytes of the headers of a part: room for a very long name.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Bytes before the first part and after the last one.
const MAX_MARGIN_BYTES: usize = 8 * 1024;
/// A body beyond this has too large a file or too much around it, whatever is in it.
const MAX_BODY_BYTES: u64 = (MAX_ATTACHMENT_BYTES + MAX_HEADER_BYTES + 2 * MAX_MARGIN_BYTES + 1024) as u64;
/// A boundary is no longer (RFC 2046).
const MAX_BOUNDARY_BYTES: usize = 70;
/// What of a refused body is still taken and dropped, so that a sender who does not listen yet gets its answer.
const MAX_DRAINED_BYTES: u64 = 16 * 1024 * 1024;
/// And for how long.
const MAX_DRAIN: std::time::Duration = std::time::Duration::from_secs(5);

/// Reads the form: exactly one part `file`, 1 byte to 5 MiB.
pub(super) async fn receive(request: Request) -> Result<Received, Refusal> {
    let boundary = boundary(request.headers())?;
    let expects = request.headers().contains_key(EXPECT);
    let announced = HttpBody::size_hint(request.body()).lower();
    let mut form = Form::new(request.into_body(), &boundary);
    let received = if announced > MAX_BODY_BYTES { Err(too_large()) } else { form.file().await };
    if received.is_err() && !expects {
        // Beside the answer, which must not wait for it.
        tokio::spawn(form.drain());
    }
    received
}

fn boundary(headers: &HeaderMap) -> Result<Vec<u8>, Refusal> {
    let wrong = || {
        let message = "the body has to be a form with a file: send Content-Type: multipart/form-data with a boundary";
        Refusal::conflict(beepgrid::ErrorCode::UnsupportedMediaType, message)
    };
    let value = headers.get(CONTENT_TYPE).ok_or_else(wrong)?;
    let (media_type, parameters) = split_parameters(value.as_bytes());
    let boundary = parameters.into_iter().find(|(name, _)| name == "boundary").map(|(_, value)| value).unwrap_or_default();
    let usable = (1..=MAX_BOUNDARY_BYTES).contains(&boundary.len()) && boundary.iter().all(|byte| (0x20..=0x7E).contains(byte));
    if !media_type.eq_ignore_ascii_case("multipart/form-data") || !usable {
        return Err(wrong());
    }
    Ok(boundary)
}

fn too_large() -> Refusal {
    Refusal::TooLarge { message: format!("a file may have at most {MAX_ATTACHMENT_BYTES} bytes") }
}

fn malformed(problem: &str) -> Refusal {
    Refusal::invalid("file", problem)
}

/// A form that is being read: what has come and was not looked at yet.
struct Form {
    body: BodyDataStream,
    buffer: BytesMut,
    /// A line end, two dashes and the boundary.
    delimiter: Vec<u8>,
}

impl Form {
    fn new(body: Body, boundary: &[u8]) -> Self {
        // The first delimiter needs no line end before it: this is the one.
        Self { body: body.into_data_stream(), buffer: BytesMut::from(&b"\r\n"[..]), delimiter: [b"\r\n--", boundary].concat() }
    }

    async fn file(&mut self) -> Result<Received, Refusal> {
        self.preamble().await?;
        if self.is_last().await? {
            return Err(malformed("required: the form has no part `file`"));
        }
        let Part { file_name, media_type } = Part::parse(&self.headers().await?)?;
        let bytes = self.content().await?;
        if !self.is_last().await? {
            return Err(malformed("the form has to have one part and no more"));
        }
        self.epilogue().await?;
        if bytes.is_empty() {
            return Err(malformed(&format!("1 to {MAX_ATTACHMENT_BYTES} bytes; this has none")));
        }
        Ok(Received { file_name, media_type, bytes })
    }

    /// More of the body; false at its end.
    async fn fill(&mut self) -> Result<bool, Refusal> {
        match tokio::time::timeout(STALL, self.body.next()).await {
            Ok(Some(Ok(bytes))) => {
                self.buffer.extend_from_slice(&bytes);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Ok(Some(Err(_))) => Err(broke_off()),
            Err(_) => Err(malformed(&format!("no more of the body came for {} seconds", STALL.as_secs()))),
        }
    }

    /// Skips what stands before the first delimiter.
    async fn preamble(&mut self) -> Result<(), Refusal> {
        let mut skipped = 0;
        while let Found::No { passed } = self.up_to_delimiter() {
            skipped += passed.len();
            if skipped > MAX_MARGIN_BYTES || !self.fill().await? {
                return Err(malformed("the body is not the form that its Content-Type announces"));
            }
        }
        Ok(())
    }

    /// The content of a part, its delimiter consumed.
    async fn content(&mut self) -> Result<Bytes, Refusal> {
        let mut content = BytesMut::new();
        loop {
            let found = self.up_to_delimiter();
            let (Found::Yes { passed } | Found::No { passed }) = &found;
            if content.len() + passed.len() > MAX_ATTACHMENT_BYTES {
                return Err(too_large());
            }
            content.extend_from_slice(passed);
            match found {
                Found::Yes { .. } => return Ok(content.freeze()),
                Found::No { .. } if self.fill().await? => {}
                Found::No { .. } => return Err(broke_off()),
            }
        }
    }

    /// Takes what surely stands before the next delimiter out of the buffer.
    fn up_to_delimiter(&mut self) -> Found {
        match find(&self.buffer, &self.delimiter) {
            Some(at) => {
                let passed = self.buffer.split_to(at);
                self.buffer.advance(self.delimiter.len());
                Found::Yes { passed }
            }
            // The end may be the beginning of a delimiter.
            None => {
                let sure = self.buffer.len().saturating_sub(self.delimiter.len() - 1);
                Found::No { passed: self.buffer.split_to(sure) }
            }
        }
    }

    /// Whether the delimiter that was just read is the last one, which two dashes follow; otherwise the headers of a part do.
    async fn is_last(&mut self) -> Result<bool, Refusal> {
        let mut blanks = 0;
        loop {
            match self.buffer.as_ref() {
                [b'-', b'-', ..] => {
                    self.buffer.advance(2);
                    return Ok(true);
                }
                [b'\r', b'\n', ..] => return Ok(false),
                [b' ' | b'\t', ..] if blanks < MAX_BOUNDARY_BYTES => {
                    blanks += 1;
                    self.buffer.advance(1);
                }
                [] | [b'-' | b'\r'] => {
                    if !self.fill().await? {
                        return Err(broke_off());
                    }
                }
                _ => return Err(malformed("the boundary of the form stands in the middle of something else")),
            }
        }
    }

    /// The headers of a part, from the line end of its delimiter to the blank line.
    async fn headers(&mut self) -> Result<Bytes, Refusal> {
        loop {
            let end = find(&self.buffer, b"\r\n\r\n");
            if end.unwrap_or(self.buffer.len()) > MAX_HEADER_BYTES {
                return Err(malformed(&format!("the headers of the part may have at most {MAX_HEADER_BYTES} bytes")));
            }
            if let Some(at) = end {
                let headers = self.buffer.split_to(at).freeze();
                self.buffer.advance(4);
                return Ok(headers);
            }
            if !self.fill().await? {
                return Err(broke_off());
            }
        }
    }

    /// Reads on to the end of the body: a sender whose connection broke has sent no whole form.
    async fn epilogue(&mut self) -> Result<(), Refusal> {
        let mut skipped = self.buffer.len();
        self.buffer.clear();
        loop {
            if skipped > MAX_MARGIN_BYTES {
                return Err(malformed("too much stands after the end of the form"));
            }
            if !self.fill().await? {
                return Ok(());
            }
            skipped += self.buffer.len();
            self.buffer.clear();
        }
    }

    async fn drain(mut self) {
        let mut drained = 0;
        let draining = async {
            while drained <= MAX_DRAINED_BYTES
                && let Some(Ok(bytes)) = self.body.next().await
            {
                drained += bytes.len() as u64;
            }
        };
        // What does not end is cut off with the connection.
        let _ = tokio::time::timeout(MAX_DRAIN, draining).await;
    }
}

enum Found {
    Yes { passed: BytesMut },
    No { passed: BytesMut },
}

fn broke_off() -> Refusal {
    malformed("the body broke off; nothing was stored")
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(at) = haystack.get(from..)?.iter().position(|byte| *byte == first) {
        if haystack.get(from + at..)?.starts_with(needle) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[cfg(test)]
mod tests;
