//! The way to one process of a runtime: its two streams, who it is, and its end.

use std::fmt;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader};
use tokio::process::{Child, Command};

/// A longer line is skipped: results can carry whole files and pictures.
pub(super) const MAX_LINE: usize = 32 * 1024 * 1024;

pub(super) type Output = BufReader<Box<dyn AsyncRead + Send + Unpin>>;
pub(super) type Input = Box<dyn AsyncWrite + Send + Unpin>;

/// The streams of one process. When its output ends the process counts as dead.
pub struct Link {
    pub(super) output: Output,
    pub(super) input: Input,
    pub(super) process: String,
    pub(super) life: Life,
}

/// Holds the process.
pub(super) struct Life(Option<Child>);

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Link {
    /// What it writes, what it reads, and a name that no other process ever has.
    pub fn new(
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        process: impl Into<String>,
    ) -> Self {
        let output: Box<dyn AsyncRead + Send + Unpin> = Box::new(output);
        Self { output: BufReader::new(output), input: Box::new(input), process: process.into(), life: Life(None) }
    }
}

impl Life {
    /// Waits for the end of the process, after its input was closed; ends it when it takes longer than `grace`.
    pub(super) async fn end(&mut self, grace: Duration) {
        let Some(child) = &mut self.0 else { return };
        if tokio::time::timeout(grace, child.wait()).await.is_err()
            && let Err(error) = child.kill().await
        {
            tracing::warn!(%error, "the process can't be ended");
        }
    }
}

/// Starts a child process that ends with its [`Link`]; what it complains about goes to the log under `name`.
pub(super) fn spawn(command: &mut Command, name: &'static str) -> io::Result<Link> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let missing = || io::Error::other("the process has no pipes");
    let (output, input) = (child.stdout.take().ok_or_else(missing)?, child.stdin.take().ok_or_else(missing)?);
    if let Some(errors) = child.stderr.take() {
        tokio::spawn(log_lines(errors, name));
    }
    let pid = child.id().unwrap_or_default();
    let started = started_at(pid).unwrap_or_else(crate::receiver::run_name);
    let mut link = Link::new(output, input, format!("{pid}@{started}"));
    link.life = Life(Some(child));
    Ok(link)
}

async fn log_lines(errors: impl AsyncRead + Unpin, name: &'static str) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    while let Ok(Line::Text) = read_line(&mut errors, &mut line, 64 * 1024).await {
        tracing::info!(target: "beepgrid_receiver::runtime", "{name}: {}", String::from_utf8_lossy(&line).trim_end());
    }
}

/// What a read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line stands in the buffer.
    Text,
    /// A line was too long and is gone.
    TooLong,
    /// There is nothing more.
    End,
}

/// Reads one line into `line`, which never grows over `max`. A last line without an end is dropped: it is half of something.
pub(super) async fn read_line(
    reader: &mut (impl tokio::io::AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    max: usize,
) -> io::Result<Line> {
    line.clear();
    let mut too_long = false;
    loop {
        let buffer = reader.fill_buf().await?;
        if buffer.is_empty() {
            return Ok(Line::End);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |end| end + 1);
        if line.len().saturating_add(used) > max {
            too_long = true;
            line.clear();
        } else if !too_long {
            line.extend(buffer.iter().take(used));
        }
        reader.consume(used);
        if end.is_some() {
            return Ok(if too_long { Line::TooLong } else { Line::Text });
        }
    }
}

/// When a process began, in the kernel's words; tells two processes with one number apart.
fn started_at(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in the second field can hold anything, also a bracket.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

/// Whether a process that was named by [`spawn`] still runs. Not to be said where there is no `/proc`.
pub(super) fn is_alive(process: &str) -> bool {
    let Some((pid, started)) = process.split_once('@') else { return false };
    let Ok(pid) = pid.parse() else { return false };
    started_at(pid).is_some_and(|now| now == started) && !is_zombie(pid)
}

fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.split_whitespace().next() == Some("Z"))
}

/// Another Claude process with this session: one that outlived the host that started it and finishes what it has in its queue.
#[cfg(feature = "claude")]
pub(super) fn holder_of(session: &str) -> Option<u32> {
    let own = std::process::id();
    let processes = std::fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok().filter(|pid| *pid != own)?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let has = |word: &str| line.split(|byte| *byte == 0).any(|arg| arg == word.as_bytes());
        (has(session) && has("stream-json") && !is_zombie(pid)).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_lines_are_skipped_and_half_ones_dropped() {
        let text = format!("one\n{}\ntwo\nhalf", "x".repeat(100));
        let mut reader = BufReader::with_capacity(8, text.as_bytes());
        let mut line = Vec::new();
        let mut read = Vec::new();
        loop {
            match read_line(&mut reader, &mut line, 16).await.unwrap() {
                Line::End => break,
                Line::Text => read.push(String::from_utf8(line.clone()).unwrap()),
                Line::TooLong => read.push("too long".to_owned()),
            }
        }
        assert_eq!(read, ["one\n", "too long", "two\n"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_known_by_number_and_start() {
        let pid = std::process::id();
        let started = started_at(pid).unwrap();
        assert!(is_alive(&format!("{pid}@{started}")));
        assert!(!is_alive(&format!("{pid}@{started}0")));
        assert!(!is_alive("scripted"));
        #[cfg(feature = "claude")]
        assert_eq!(holder_of("no such session"), None);
    }
}
