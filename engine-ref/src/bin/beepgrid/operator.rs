//! `beepgrid trace` and `beepgrid diagnose`: what operators look at. Nothing is changed.

mod checks;

use anyhow::Context as _;
use beepgrid::{Method, RequestId, RequestTrace};
use clap::Args;
use serde_json::{Value, json};

use self::checks::Check;
use crate::client;
use crate::failure::Refused;
use crate::job::CallArguments;
use crate::render::{Output, Table, TableArguments};

/// A trace has at most so many pages of deliveries: more than a group can have members.
const MAX_PAGES: usize = 200;

/// The arguments of `trace`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  beepgrid trace REQUEST_ID\n\nWithout a credential in the environment .local/owner-token is used."
)]
pub(crate) struct TraceArguments {
    /// The request
    #[arg(value_name = "REQUEST_ID")]
    id: String,
    #[command(flatten)]
    table: TableArguments,
    #[command(flatten)]
    call: CallArguments,
}

/// The arguments of `diagnose`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  beepgrid diagnose\n\nExits with 1 if a check fails. Without a credential in the environment \
                        .local/owner-token is used."
)]
pub(crate) struct DiagnoseArguments {
    #[command(flatten)]
    table: TableArguments,
    #[command(flatten)]
    call: CallArguments,
}

/// Reads what became of a request, with all pages of its deliveries.
pub(crate) async fn trace(arguments: TraceArguments) -> anyhow::Result<Output> {
    let client = client::operator()?;
    let id = RequestId::new(arguments.id);
    let timeout = arguments.call.timeout;
    let mut trace = client.request_trace(&id, None).timeout(timeout).await?;
    for _ in 1..MAX_PAGES {
        let Some(cursor) = trace.next_cursor.take() else { break };
        let page = client.request_trace(&id, Some(&cursor)).timeout(timeout).await?;
        trace.deliveries.extend(page.deliveries);
        trace.next_cursor = page.next_cursor;
    }
    let table = table(&trace);
    Output::table(&trace, &table, &arguments.table)
}

fn table(trace: &RequestTrace) -> Table {
    let request = &trace.request;
    let mut table = Table::new(["what", "id", "who", "state", "attempt", "at"]).row(&[
        "request".to_owned(),
        request.id.to_string(),
        request.requester_id.to_string(),
        request.state.to_string(),
        String::new(),
        request.created_at.to_string(),
    ]);
    for delivery in &trace.deliveries {
        let (id, to) = (delivery.id.to_string(), delivery.recipient_id.to_string());
        table = table.row(&[
            "delivery".to_owned(),
            id,
            to,
            delivery.state.clone(),
            delivery.attempt.to_string(),
            delivery.at.to_string(),
        ]);
    }
    for execution in &trace.executions {
        let value = serde_json::to_value(execution).unwrap_or_default();
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        table = table.row(&[
            "execution".to_owned(),
            text("id"),
            text("executor_id"),
            text("state"),
            String::new(),
            text("updated_at"),
        ]);
    }
    table
}

/// Looks at everything that can be looked at without changing anything.
pub(crate) async fn diagnose(arguments: DiagnoseArguments) -> anyhow::Result<Output> {
    let client = client::operator()?;
    let timeout = arguments.call.timeout;
    let me = client.me().timeout(timeout).await?;
    if !me.operator {
        return Err(Refused::forbidden("diagnose is for operators").into());
    }
    let workspace = client.workspace().timeout(timeout).await?;
    let ready = client.call::<Value>(Method::Get, "/readyz", None).timeout(timeout).await;
    let mut checks = vec![match ready {
        Ok(_) => Check::new("ready", true, "the store can be written"),
        Err(error) if error.api().is_some() => {
            Check::new("ready", false, "the store can't be written at the moment; see the engine's log")
        }
        Err(error) => return Err(error.into()),
    }];
    if workspace.on_hold {
        checks.push(Check::new("hold", false, "the workspace is on hold after a restore; `beepgrid reconcile --resume` ends it"));
    }
    checks.extend(tokio::time::timeout(timeout, checks::all(&client)).await.context("the checks took too long")??);
    let failed: Vec<&str> = checks.iter().filter(|check| !check.ok).map(|check| check.name.as_str()).collect();
    let report = json!({ "ok": failed.is_empty(), "url": client.url(), "workspace": workspace, "checks": checks });
    let mut table = Table::new(["check", "ok", "detail"]);
    for check in &checks {
        table = table.row(&[check.name.clone(), if check.ok { "yes" } else { "NO" }.to_owned(), check.detail.clone()]);
    }
    let output = Output::table(&report, &table, &arguments.table)?;
    if failed.is_empty() {
        return Ok(output);
    }
    let refused = Refused::other("unhealthy", format!("not in order: {}", failed.join(", ")));
    Ok(Output::Finding { output: Box::new(output), refused })
}
