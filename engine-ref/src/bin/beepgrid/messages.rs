//! `beepgrid send`.

use std::path::PathBuf;

use beepgrid::Client;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::calls::{self, Write};
use crate::input;
use crate::job::{CallArguments, Job, KeyArguments};
use crate::render::Output;

/// The arguments of `send`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  beepgrid send --key checkout/hold/v1 agent AGENT_ID \"Hold the rollout.\"\n  \
                        beepgrid send --input message.json")]
pub(crate) struct SendArguments {
    /// What the target is
    #[arg(required_unless_present = "input", value_enum, value_name = "KIND")]
    kind: Option<Kind>,
    /// The target: its id, or its external id
    #[arg(required_unless_present = "input", value_name = "ID")]
    id: Option<String>,
    /// The text
    #[arg(required_unless_present = "input", value_name = "MESSAGE")]
    message: Option<String>,
    /// File with a whole SendInput as JSON, at most 4 MiB; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "id", "message"])]
    input: Option<PathBuf>,
    #[command(flatten)]
    key: KeyArguments,
    #[command(flatten)]
    call: CallArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Agent,
    Person,
    Group,
    Service,
    Instance,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Person => "person",
            Self::Group => "group",
            Self::Service => "service",
            Self::Instance => "instance",
        }
    }
}

/// Sends one message.
pub(crate) async fn send(job: &Job, arguments: SendArguments) -> anyhow::Result<Output> {
    let client = Client::from_env()?;
    let body = match (&arguments.input, arguments.kind) {
        (Some(source), _) => Value::Object(input::object(source).await?),
        (None, kind) => json!({
            "target": { "kind": kind.map(Kind::as_str), "id": arguments.id },
            "body": arguments.message,
        }),
    };
    let (key, timeout) = (arguments.key.key, arguments.call.timeout);
    calls::write(job, &client, Write { name: "send", id: None, body, key, timeout }).await.map(Output::Json)
}
