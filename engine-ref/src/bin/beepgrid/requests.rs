//! `beepgrid ask`, `approve`, `task`, `respond` and `wait`.

use std::time::Duration;

use beepgrid::{Client, RequestId};
use clap::Args;
use serde_json::Value;

use crate::calls::{self, Write};
use crate::input::{self, InputArguments};
use crate::job::{CallArguments, Job, KeyArguments, duration};
use crate::render::Output;

/// The arguments of `ask`, `approve` and `task`.
#[derive(Debug, Args)]
pub(crate) struct AskArguments {
    #[command(flatten)]
    input: InputArguments,
    #[command(flatten)]
    key: KeyArguments,
    #[command(flatten)]
    call: CallArguments,
}

/// The arguments of `respond`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  echo '{\"version\":1,\"outcome\":\"approved\"}' | beepgrid respond --input - REQUEST_ID")]
pub(crate) struct RespondArguments {
    /// The request to decide
    #[arg(value_name = "REQUEST_ID")]
    id: String,
    #[command(flatten)]
    input: InputArguments,
    #[command(flatten)]
    key: KeyArguments,
    #[command(flatten)]
    call: CallArguments,
}

/// The arguments of `wait`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  beepgrid wait --timeout 5m REQUEST_ID")]
pub(crate) struct WaitArguments {
    /// The request to wait for
    #[arg(value_name = "REQUEST_ID")]
    id: String,
    /// Stop waiting after this long; the request stays as it is
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

/// Asks, as the given kind whatever the input says; `None` leaves it as it is.
pub(crate) async fn ask(job: &Job, arguments: AskArguments, kind: Option<&'static str>) -> anyhow::Result<Output> {
    let client = Client::from_env()?;
    let mut body = input::object(&arguments.input.input).await?;
    if let Some(kind) = kind {
        body.insert("kind".to_owned(), Value::from(kind));
    }
    let (body, key, timeout) = (Value::Object(body), arguments.key.key, arguments.call.timeout);
    calls::write(job, &client, Write { name: "ask", id: None, body, key, timeout }).await.map(Output::Json)
}

/// Decides a request.
pub(crate) async fn respond(job: &Job, arguments: RespondArguments) -> anyhow::Result<Output> {
    let client = Client::from_env()?;
    let body = Value::Object(input::object(&arguments.input.input).await?);
    let (key, timeout) = (arguments.key.key, arguments.call.timeout);
    let write = Write { name: "respond", id: Some(&arguments.id), body, key, timeout };
    calls::write(job, &client, write).await.map(Output::Json)
}

/// Waits for a request's final state.
pub(crate) async fn wait(arguments: WaitArguments) -> anyhow::Result<Output> {
    let client = Client::from_env()?;
    let request = client.wait(&RequestId::new(arguments.id)).timeout(arguments.timeout).await?;
    Output::json(&request)
}
