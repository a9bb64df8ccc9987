//! Bytes of an event stream -> frames, with a limit for each. Pure: no clock, no HTTP.
//!
//! The parser behind it panics on a byte order mark, falls silent for ever after a broken byte, holds events back and takes quadratic
//! time, unless it gets exactly one whole block of clean lines at a time. That is what the guard here hands it. Decoding comes
//! after framing, so no chunk edge can hurt a character.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use eventsource_stream::EventStream as Parser;
use futures_util::{Stream, StreamExt as _};

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One dispatched frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its type; `message` unless the sender says otherwise.
    pub event: String,
    /// Its data lines, joined.
    pub data: String,
}

/// What came instead of a frame. After `TooLarge` the stream is over; the others are followed by what comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum FrameFault<E> {
    /// The body itself failed.
    Body(E),
    /// A block that is no UTF-8.
    NotUtf8 {
        /// The sequence that its `id` line names.
        id: Option<i64>,
    },
    /// A block beyond the limit.
    TooLarge,
}

/// The frames in a body. What is unfinished at its end is dropped; `id` lines are not looked at: the position is the reader's own.
pub fn frames<S, E>(body: S, limit: usize) -> impl Stream<Item = Result<Frame, FrameFault<E>>>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    Parser::new(Guarded { body, input: Bytes::new(), guard: Guard::new(limit), started: false }).map(|item| match item {
        Ok(event) => Ok(Frame { event: event.event, data: event.data }),
        Err(eventsource_stream::EventStreamError::Transport(fault)) => Err(fault),
        // The guard lets only whole blocks of valid text through.
        Err(_) => Err(FrameFault::NotUtf8 { id: None }),
    })
}

/// A body as the parser can take it: one block per chunk.
struct Guarded<S> {
    body: S,
    input: Bytes,
    guard: Guard,
    started: bool,
}

impl<S, E> Stream for Guarded<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    type Item = Result<Bytes, FrameFault<E>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if !this.started {
            // The parser looks for a byte order mark in what comes first, and must not find any text there.
            this.started = true;
            return Poll::Ready(Some(Ok(Bytes::from_static(b":\n"))));
        }
        loop {
            match this.guard.next_block(&mut this.input) {
                Some(Ok(block)) => return Poll::Ready(Some(Ok(block))),
                Some(Err(Refused::NotUtf8(id))) => return Poll::Ready(Some(Err(FrameFault::NotUtf8 { id }))),
                Some(Err(Refused::TooLarge)) => return Poll::Ready(Some(Err(FrameFault::TooLarge))),
                None if this.guard.over => return Poll::Ready(None),
                None => {}
            }
            match ready!(this.body.poll_next_unpin(cx)) {
                Some(Ok(bytes)) => this.input = bytes,
                Some(Err(error)) => return Poll::Ready(Some(Err(FrameFault::Body(error)))),
                None => {
                    this.guard.over = true;
                    this.input.clear();
                }
            }
        }
    }
}

enum Refused {
    NotUtf8(Option<i64>),
    TooLarge,
}

/// Collects lines into blocks.
struct Guard {
    limit: usize,
    /// How many bytes of a byte order mark were seen; `None` once it is known whether there is one.
    bom: Option<usize>,
    /// The line end was a CR: an LF right after it belongs to it.
    after_cr: bool,
    line: Vec<u8>,
    block: Vec<u8>,
    over: bool,
}

impl Guard {
    fn new(limit: usize) -> Self {
        Self { limit, bom: Some(0), after_cr: false, line: Vec::new(), block: Vec::new(), over: false }
    }

    /// The next whole block, taken from `input`; `None` when there is none in it.
    fn next_block(&mut self, input: &mut Bytes) -> Option<Result<Bytes, Refused>> {
        self.skip_bom(input);
        while !input.is_empty() && !self.over {
            if std::mem::take(&mut self.after_cr) && input.first() == Some(&b'\n') {
                drop(input.split_to(1));
                continue;
            }
            let end = input.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let text = input.split_to(end.unwrap_or(input.len()));
            if self.block.len() + self.line.len() + text.len() > self.limit {
                self.over = true;
                return Some(Err(Refused::TooLarge));
            }
            self.line.extend_from_slice(&text);
            if end.is_some() {
                self.after_cr = input.split_to(1).first() == Some(&b'\r');
                if let Some(block) = self.end_line() {
                    return Some(block);
                }
            }
        }
        None
    }

    fn skip_bom(&mut self, input: &mut Bytes) {
        while let (Some(seen), Some(byte)) = (self.bom, input.first()) {
            if BOM.get(seen) == Some(byte) {
                drop(input.split_to(1));
                self.bom = if seen + 1 == BOM.len() { None } else { Some(seen + 1) };
            } else {
                // It only looked like one so far.
                self.line.extend(BOM.iter().take(seen));
                self.bom = None;
            }
        }
    }

    /// Puts a finished line into the block, or ends the block with an empty one. Comments end here: they are only a sign of life.
    fn end_line(&mut self) -> Option<Result<Bytes, Refused>> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            if !line.starts_with(b":") {
                self.block.extend_from_slice(&line);
                self.block.push(b'\n');
            }
            // The room is used again for the next line.
            self.line = line;
            self.line.clear();
            return None;
        }
        self.line = line;
        if self.block.is_empty() {
            return None;
        }
        let mut block = std::mem::take(&mut self.block);
        if std::str::from_utf8(&block).is_err() {
            return Some(Err(Refused::NotUtf8(id_of(&block))));
        }
        block.push(b'\n');
        Some(Ok(block.into()))
    }
}

/// The sequence that a block's last `id` line names.
fn id_of(block: &[u8]) -> Option<i64> {
    let mut lines = block.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"id:"));
    std::str::from_utf8(lines.next_back()?).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
