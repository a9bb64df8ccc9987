//! What a command reads: JSON from a file or standard input, and files to upload.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use beepgrid::MAX_ATTACHMENT_BYTES;
use beepgrid_engine_ref::json_problem;
use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::Refused;

/// The engine takes no larger JSON.
const MAX_JSON_BYTES: usize = 4 * 1024 * 1024;

/// Where the JSON of a command comes from.
#[derive(Debug, Args)]
pub(crate) struct InputArguments {
    /// File with the input as JSON, at most 4 MiB; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) input: PathBuf,
}

/// Reads a JSON value that the engine could take.
pub(crate) async fn json(source: &Path) -> anyhow::Result<Value> {
    let bytes = bytes(source, MAX_JSON_BYTES).await?;
    let refuse = |problem: String| Refused::input("invalid_input", format!("{}: {problem}", name(source)));
    if bytes.len() > MAX_JSON_BYTES {
        return Err(Refused::input("too_large", format!("{}: is larger than 4 MiB", name(source))).into());
    }
    let text = String::from_utf8(bytes).map_err(|_| refuse("is not UTF-8".to_owned()))?;
    if text.starts_with('\u{feff}') {
        return Err(refuse("starts with a byte order mark; save it without".to_owned()).into());
    }
    let value = serde_json::from_str(&text).map_err(|error| refuse(format!("is not JSON: {error}")))?;
    // What a parser lets pass and the engine refuses would be changed by being read here.
    match json_problem(&text) {
        Some(problem) => Err(refuse(problem).into()),
        None => Ok(value),
    }
}

/// Reads a JSON object.
pub(crate) async fn object(source: &Path) -> anyhow::Result<Map<String, Value>> {
    match json(source).await? {
        Value::Object(members) => Ok(members),
        _ => Err(Refused::input("invalid_input", format!("{}: is not a JSON object", name(source))).into()),
    }
}

/// Reads a JSON object as `T`; what `T` does not have is refused.
pub(crate) async fn typed<T: DeserializeOwned>(source: &Path) -> anyhow::Result<T> {
    let mut members = object(source).await?;
    // Null counts as absent, as the engine has it.
    members.retain(|_, value| !value.is_null());
    let mut unknown = None;
    let read = serde_ignored::deserialize(Value::Object(members), |path| unknown = Some(path.to_string()));
    let refuse = |problem: String| Refused::input("invalid_input", format!("{}: {problem}", name(source)));
    let read = read.map_err(|error| refuse(error.to_string()))?;
    match unknown {
        Some(member) => Err(refuse(format!("has the unknown member {member}")).into()),
        None => Ok(read),
    }
}

/// A file to upload: its bytes and the name that it goes by.
pub(crate) async fn file(path: &Path) -> anyhow::Result<(String, Vec<u8>)> {
    let known = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if !known.is_file() {
        return Err(Refused::input("invalid_input", format!("{}: is not a file", path.display())).into());
    }
    let bytes = bytes(path, MAX_ATTACHMENT_BYTES).await?;
    if bytes.len() > MAX_ATTACHMENT_BYTES {
        return Err(Refused::input("too_large", format!("{}: is larger than 5 MiB", path.display())).into());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((name, bytes))
}

/// At most one byte more than the limit.
async fn bytes(source: &Path, limit: usize) -> anyhow::Result<Vec<u8>> {
    let path = source.to_owned();
    // On a thread of its own: opening a pipe and reading standard input may take for ever.
    let read = tokio::task::spawn_blocking(move || {
        if path.as_os_str() == "-" {
            take(io::stdin().lock(), limit)
        } else {
            File::open(&path).and_then(|file| take(file, limit))
        }
    });
    read.await.context("reading the input")?.map_err(|error| unreadable(source, &error).into())
}

fn take(from: impl Read, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &io::Error) -> Refused {
    Refused::input("invalid_input", format!("{}: can't be read: {error}", name(path)))
}

fn name(source: &Path) -> String {
    if source.as_os_str() == "-" { "standard input".to_owned() } else { source.display().to_string() }
}
