//! `beepgrid enroll` and `beepgrid seed`: what makes credentials. Tokens go into new files for their owner only, nowhere else.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use beepgrid::{Client, CredentialInput, EnrollInput, ErrorCode, PrincipalInput, QueryInput, Service};
use clap::Args;
use serde_json::{Value, json};

use crate::client;
use crate::input::{self, InputArguments};
use crate::job::{CallArguments, Job};
use crate::output::NewFile;
use crate::render::Output;

/// The arguments of `enroll`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  echo '{\"agent\":\"team/builder-7\",\"name\":\"Builder 7\"}' | \
                        beepgrid enroll --input - --out .local/builder-7-token\n\n\
                        Sent once: a repeat makes a second runtime. The token goes into the file and nowhere else.")]
pub(crate) struct EnrollArguments {
    #[command(flatten)]
    input: InputArguments,
    /// Where the token goes: a new file that only you can read; its folder is made if needed
    #[arg(long, value_name = "TOKEN_FILE")]
    out: PathBuf,
    #[command(flatten)]
    call: CallArguments,
}

/// The arguments of `seed`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  beepgrid seed --prefix team/ --out .local/launcher-token\n\n\
                        Needs an operator's credential; without one in the environment .local/owner-token is used.")]
pub(crate) struct SeedArguments {
    /// What the external ids of agents that the launcher enrolls begin with; ends with /
    #[arg(long, value_name = "PREFIX", default_value = "examples/")]
    prefix: String,
    /// The launcher's name
    #[arg(long, value_name = "NAME", default_value = "Local launcher")]
    name: String,
    /// Where the token goes: a new file that only you can read
    #[arg(long, value_name = "TOKEN_FILE", default_value = ".local/launcher-token")]
    out: PathBuf,
    #[command(flatten)]
    call: CallArguments,
}

/// Enrolls a runtime and keeps its token.
pub(crate) async fn enroll(job: &Job, arguments: EnrollArguments) -> anyhow::Result<Output> {
    let client = Client::from_env()?;
    let input: EnrollInput = input::typed(&arguments.input.input).await?;
    let new = NewFile::prepare_secret(&arguments.out)?;
    job.writes(None);
    let session = client.enroll(input).timeout(arguments.call.timeout).await?;
    save(new, &arguments.out, &session.token)
        .with_context(|| format!("the connection {} stands without a token that anybody has; revoke it", session.instance_id))?;
    Ok(Output::Json(json!({
        "agent": session.agent,
        "instance_id": session.instance_id,
        "expires_at": session.expires_at,
        "token_file": shown(&arguments.out),
    })))
}

/// Makes a launcher that enrolls agents under one prefix.
pub(crate) async fn seed(job: &Job, arguments: SeedArguments) -> anyhow::Result<Output> {
    let client = client::operator()?;
    let timeout = arguments.call.timeout;
    let new = NewFile::prepare_secret(&arguments.out)?;
    let service = launcher(&client, &arguments).await?;
    let input = CredentialInput::enrollment(&service.id, &arguments.prefix).name(&arguments.name);
    job.writes(None);
    let issued = client.create_credential(input).timeout(timeout).await?;
    save(new, &arguments.out, &issued.token)
        .with_context(|| format!("the credential {} stands without a token that anybody has; revoke it", issued.id))?;
    Ok(Output::Json(json!({
        "service": service,
        "credential_id": issued.id,
        "prefix": arguments.prefix,
        "expires_at": issued.expires_at,
        "token_file": shown(&arguments.out),
    })))
}

/// The service that is the launcher of this prefix; made the first time.
async fn launcher(client: &Client, arguments: &SeedArguments) -> anyhow::Result<Service> {
    let external_id = format!("launcher/{}", arguments.prefix.trim_end_matches('/'));
    let timeout = arguments.call.timeout;
    match client.create_service(PrincipalInput::new(&arguments.name, &external_id)).timeout(timeout).await {
        Err(error) if error.code() == Some(&ErrorCode::AlreadyExists) => {
            let mut found = client.query_stream::<Service>(QueryInput::new("services").search(&external_id).limit(200));
            while let Some(service) = found.next().await {
                let service = service?;
                if service.external_id == external_id {
                    return Ok(service);
                }
            }
            Err(error.into())
        }
        made => Ok(made?),
    }
}

fn save(new: NewFile, out: &Path, token: &str) -> anyhow::Result<()> {
    // Whoever reads the file takes one line end away.
    new.finish(format!("{token}\n").as_bytes())?;
    tracing::debug!(file = %out.display(), "token saved");
    Ok(())
}

fn shown(path: &Path) -> Value {
    Value::from(path.to_string_lossy())
}
