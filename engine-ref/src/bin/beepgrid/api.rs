//! `beepgrid api`: any endpoint.

use std::path::PathBuf;

use anyhow::Context as _;
use beepgrid::{AttachmentId, Client, Key, Method, OPERATIONS, Operation, Replay};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::calls;
use crate::failure::Refused;
use crate::input;
use crate::job::{CallArguments, Job, KeyArguments};
use crate::output::NewFile;
use crate::render::Output;

/// The arguments of `api`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  beepgrid api GET /api/v1/me\n  \
                        beepgrid api POST /api/v1/query --input query.json\n  \
                        beepgrid api POST /api/v1/credentials --input credential.json --out .local/issued.json")]
pub(crate) struct ApiArguments {
    /// The method
    #[arg(value_enum, ignore_case = true, value_name = "METHOD")]
    method: Verb,
    /// The path with its query, ids encoded; /api/v1/openapi.json describes all of them
    #[arg(value_name = "/api/v1/PATH")]
    path: String,
    /// File with the body as JSON, at most 4 MiB; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Save the answer in a new file that only you can read; needed where the answer holds a token or a file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    key: KeyArguments,
    #[command(flatten)]
    call: CallArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "UPPER")]
enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl From<Verb> for Method {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Get => Self::Get,
            Verb::Post => Self::Post,
            Verb::Put => Self::Put,
            Verb::Patch => Self::Patch,
            Verb::Delete => Self::Delete,
        }
    }
}

/// Calls the endpoint once, or under a key as often as it takes.
pub(crate) async fn call(job: &Job, arguments: ApiArguments) -> anyhow::Result<Output> {
    let client = Client::from_env()?;
    let method = Method::from(arguments.method);
    let path = arguments.path.split(['?', '#']).next().unwrap_or_default();
    if !path.starts_with("/api/v1/") {
        return Err(Refused::input("usage", "the path starts with /api/v1/").into());
    }
    let operation = find(method, path);
    if answers_with_secret(method, path) && arguments.out.is_none() {
        let problem = "the answer holds a token: name a new file with --out (`beepgrid enroll` saves a token file)";
        return Err(Refused::input("usage", problem).into());
    }
    let body = match &arguments.input {
        Some(source) => Some(input::json(source).await?),
        None => None,
    };
    let new = arguments.out.as_deref().map(NewFile::prepare).transpose()?;
    let timeout = arguments.call.timeout;
    if let Some(id) = operation.filter(|operation| operation.name == "download_attachment").and_then(|_| path.split('/').nth(4)) {
        let new = new.ok_or_else(|| Refused::input("usage", "the answer is a file: name a new one with --out"))?;
        let bytes = client.download_attachment(&AttachmentId::new(id)).timeout(timeout).await?;
        return new.finish(&bytes).map(Output::Json);
    }
    let keyed = operation.is_some_and(|operation| operation.replay == Replay::Keyed);
    let reads = method == Method::Get || operation.is_some_and(|operation| operation.replay == Replay::Read);
    let key = if reads { None } else { arguments.key.key.or_else(|| keyed.then(Key::new)) };
    let call = match &key {
        Some(key) => client.call_keyed::<Value>(method, &arguments.path, body.as_ref()).key(key.clone()),
        None => client.call(method, &arguments.path, body.as_ref()),
    };
    if !reads {
        job.writes(key.as_ref());
    }
    let mut answer = call.timeout(timeout).await.context("api")?;
    if let Some(new) = new {
        let mut text = serde_json::to_vec_pretty(&answer)?;
        text.push(b'\n');
        answer = new.finish(&text)?;
    } else if operation.is_none()
        && let Some(token) = answer.get_mut("token")
    {
        // A route of a newer engine: a terminal or a log is no place for what may be a secret.
        *token = Value::from("(not shown: use --out)");
    }
    Ok(Output::Json(match &key {
        Some(key) => calls::with_key(answer, key),
        None => answer,
    }))
}

/// The operation that a path belongs to.
fn find(method: Method, path: &str) -> Option<&'static Operation> {
    let fits = |template: &str| {
        let (wanted, given) = (template.split('/'), path.split('/'));
        wanted.clone().count() == given.clone().count()
            && wanted.zip(given).all(|(wanted, given)| wanted == given || (wanted.starts_with('{') && !given.is_empty()))
    };
    let known = OPERATIONS.iter();
    // `/inbox/ack` is not the delivery `ack`.
    let mut found = known.filter(|operation| operation.method == method && fits(operation.path)).collect::<Vec<_>>();
    found.sort_by_key(|operation| operation.path.contains('{'));
    found.first().copied()
}

/// Whether the engine answers with a token there. A little wider than the routes, so that no way of writing them slips through.
fn answers_with_secret(method: Method, path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).skip(2).collect();
    method == Method::Post
        && match segments.as_slice() {
            ["enroll" | "credentials"] | ["credentials", _, "rotate"] => true,
            // Encoded letters of a route are nobody's honest spelling.
            _ => segments.first().is_some_and(|first| first.contains('%')),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_find_their_operations() {
        let name = |method, path| find(method, path).map(|operation| operation.name);
        assert_eq!(name(Method::Get, "/api/v1/me"), Some("me"));
        assert_eq!(name(Method::Post, "/api/v1/inbox/ack"), Some("ack_many"));
        assert_eq!(name(Method::Post, "/api/v1/inbox/dlv_1/ack"), Some("ack"));
        assert_eq!(name(Method::Get, "/api/v1/attachments/att_1/content"), Some("download_attachment"));
        assert_eq!(name(Method::Get, "/api/v1/later"), None);
    }

    #[test]
    fn secrets_are_known_by_their_routes() {
        for path in
            ["/api/v1/enroll", "/api/v1/credentials", "/api/v1/credentials/crd_1/rotate", "/api/v1//ENROLL/", "/api/v1/%65nroll"]
        {
            assert!(answers_with_secret(Method::Post, path), "{path}");
        }
        for path in ["/api/v1/credentials/crd_1/revoke", "/api/v1/credentials/renew", "/api/v1/messages"] {
            assert!(!answers_with_secret(Method::Post, path), "{path}");
        }
        assert!(!answers_with_secret(Method::Get, "/api/v1/credentials"));
    }
}
