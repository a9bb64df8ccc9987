//! The only place that prints: results to stdout, errors to stderr.

mod notice;
mod table;

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use clap::Args;
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::notice::notice;
pub(crate) use self::table::Table;
use crate::failure::{Failure, Refused};

/// What a command results in.
#[derive(Debug)]
pub(crate) enum Output {
    /// One JSON document.
    Json(Value),
    /// Text for people.
    Text(String),
    /// It printed while it ran.
    Nothing,
    /// A result that is no success: both are told.
    Finding { output: Box<Output>, refused: Refused },
}

/// Whether anybody reads what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    There,
    Gone,
}

/// How a result that has a table is shown.
#[derive(Debug, Args)]
pub(crate) struct TableArguments {
    /// Print JSON on a terminal too, instead of a table
    #[arg(long)]
    json: bool,
}

impl Output {
    /// A result as JSON.
    pub(crate) fn json(result: &impl Serialize) -> anyhow::Result<Self> {
        Ok(Self::Json(serde_json::to_value(result)?))
    }

    /// A result as a table on a terminal, and as JSON otherwise.
    pub(crate) fn table(result: &impl Serialize, table: &Table, arguments: &TableArguments) -> anyhow::Result<Self> {
        if arguments.json || !io::stdout().is_terminal() {
            return Self::json(result);
        }
        Ok(Self::Text(table.to_string()))
    }
}

/// Prints a result.
///
/// # Errors
/// What could not be written. That nobody reads is none: whoever closed our output does not want it.
pub(crate) fn output(output: Output) -> anyhow::Result<()> {
    let text = match output {
        Output::Json(value) if io::stdout().is_terminal() => shown(&format!("{value:#}")),
        Output::Json(value) => value.to_string(),
        Output::Text(text) => text,
        Output::Nothing => return Ok(()),
        Output::Finding { output, refused } => {
            self::output(*output)?;
            return Err(refused.into());
        }
    };
    match write(&[text.trim_end()]) {
        Ok(_) => Ok(()),
        Err(error) => Err(Refused::other("output", format!("the result can't be printed: {error}")).into()),
    }
}

/// Prints lines of JSON while a command runs.
///
/// # Errors
/// What could not be written, other than that nobody reads.
pub(crate) fn lines(lines: &[String]) -> anyhow::Result<Reader> {
    let terminal = io::stdout().is_terminal();
    let lines: Vec<String> = lines.iter().map(|line| if terminal { shown(line) } else { line.clone() }).collect();
    write(&lines).map_err(|error| Refused::other("output", format!("events can't be printed: {error}")).into())
}

/// Prints a text and ends its line.
pub(crate) fn text(text: &str) {
    // A server goes on without readers.
    drop(write(&[text.trim_end()]));
}

fn write(lines: &[impl AsRef<str>]) -> io::Result<Reader> {
    let mut text = lines.iter().map(AsRef::as_ref).collect::<Vec<_>>().join("\n");
    if lines.is_empty() {
        return Ok(Reader::There);
    }
    text.push('\n');
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        written => written.map(|()| Reader::There),
    }
}

/// Prints an error as one line of JSON.
pub(crate) fn failure(failure: &Failure) {
    let line = serde_json::to_string(failure).unwrap_or_else(|_| failure.message.clone());
    drop(writeln!(io::stderr().lock(), "{}", shown(&line)));
}

/// JSON whose texts do nothing to a terminal: other people wrote them. JSON itself escapes only the oldest control characters.
fn shown(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hostile(c) && c != '\n' {
            // A String takes everything.
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a character moves, hides or reverses what stands on a terminal.
fn is_hostile(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{061c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_reaches_the_terminal_as_a_command() {
        let value = serde_json::json!({ "body": "a\u{1b}[2J\u{9b}2J\u{7f}\u{202e}é" });
        let text = shown(&format!("{value:#}"));
        assert!(text.chars().all(|c| c == '\n' || !is_hostile(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("still JSON"), value);
    }
}
