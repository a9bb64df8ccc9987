//! What `diagnose` looks at: reads only, each an ordinary call.

use beepgrid::{Client, Credential, DeliveryRecord, ErrorCode, QueryInput};
use beepgrid_engine_ref::Clock;
use serde::Serialize;
use serde_json::Value;

/// A credential that ends sooner is told of.
const SOON: std::time::Duration = std::time::Duration::from_secs(7 * 24 * 60 * 60);

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) name: String,
    pub(super) ok: bool,
    /// What is wrong and what to do, or what is right.
    pub(super) detail: String,
}

impl Check {
    pub(super) fn new(name: impl Into<String>, ok: bool, detail: impl Into<String>) -> Self {
        Self { name: name.into(), ok, detail: detail.into() }
    }
}

/// Everything but whether the engine is ready.
pub(super) async fn all(client: &Client) -> Result<Vec<Check>, beepgrid::Error> {
    let mut checks = Vec::new();
    checks.push(limits(client).await?);
    checks.push(agents(client).await?);
    checks.push(parked(client).await?);
    checks.extend(unknown_sends(client).await?);
    checks.push(credentials(client).await?);
    checks.extend(connections(client).await?);
    Ok(checks)
}

async fn limits(client: &Client) -> Result<Check, beepgrid::Error> {
    let account = client.account().await?;
    let detail = format!("{} limits are in force; `beepgrid api GET /api/v1/account` shows them", account.limits.0.len());
    Ok(Check::new("limits", account.applied, detail))
}

async fn agents(client: &Client) -> Result<Check, beepgrid::Error> {
    let fleet = client.fleet_status().await?;
    let connected = fleet.agents.iter().filter(|agent| agent.fresh).count();
    let more = if fleet.truncated { " or more" } else { "" };
    let mut detail = format!("{connected} of {}{more} agents are connected", fleet.agents.len());
    if !fleet.cycles.is_empty() {
        detail = format!(
            "{detail}; {} rings of agents wait for each other (`beepgrid api GET /api/v1/fleet/status`)",
            fleet.cycles.len()
        );
    }
    Ok(Check::new("agents", fleet.cycles.is_empty(), detail))
}

async fn parked(client: &Client) -> Result<Check, beepgrid::Error> {
    let page = client.query_as::<DeliveryRecord>(QueryInput::new("deliveries").filter("state", "parked").limit(200)).await?;
    let detail = match (page.items.len(), page.next_cursor.is_some()) {
        (0, false) => "no delivery is set aside".to_owned(),
        (count, more) => {
            let more = if more { " or more" } else { "" };
            format!(
                "{count}{more} deliveries were given up and wait: `beepgrid list deliveries --filter state=parked`, then \
                 `beepgrid api POST /api/v1/deliveries/ID/requeue`"
            )
        }
    };
    Ok(Check::new("parked_deliveries", page.items.is_empty() && page.next_cursor.is_none(), detail))
}

/// Sends outside of which nobody knows whether they arrived; they are never repeated by themselves.
async fn unknown_sends(client: &Client) -> Result<Option<Check>, beepgrid::Error> {
    let query = QueryInput::new("deliveries").filter("state", "unknown").limit(200);
    match client.query(query).await {
        Ok(page) => {
            let count = page.items.len();
            let detail = if count == 0 {
                "no send outside is in doubt".to_owned()
            } else {
                format!("{count} sends outside may or may not have arrived: `beepgrid list deliveries --filter state=unknown`")
            };
            Ok(Some(Check::new("unknown_sends", count == 0, detail)))
        }
        // An engine that knows no such state sends nothing outside.
        Err(error) if error.code() == Some(&ErrorCode::InvalidRequest) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn credentials(client: &Client) -> Result<Check, beepgrid::Error> {
    let now = Clock::system().now();
    let mut ending: Vec<Credential> = client.credentials().await?;
    ending.retain(|credential| credential.expires_at.is_some_and(|end| end > now && end < now.plus(SOON)));
    // A renewable lease is moved by whoever holds it.
    ending.retain(|credential| credential.renewable_until.is_none());
    let detail = match ending.first() {
        None => "no credential ends within seven days".to_owned(),
        Some(first) => {
            format!("{} credentials end within seven days, the first listed is {} ({})", ending.len(), first.id, first.name)
        }
    };
    Ok(Check::new("credentials", true, detail))
}

async fn connections(client: &Client) -> Result<Vec<Check>, beepgrid::Error> {
    let mut checks = Vec::new();
    let mut connections = client.query_stream::<Value>(QueryInput::new("connections").limit(200));
    while let Some(connection) = connections.next().await {
        let connection = connection?;
        let text = |name: &str| connection.get(name).and_then(Value::as_str).unwrap_or_default();
        if connection.get("enabled") == Some(&Value::Bool(false)) {
            continue;
        }
        let found = client.connection_diagnostics(&text("id").into()).await?;
        let wrong: Vec<String> =
            found.checks.iter().filter(|check| !check.ok).map(|check| format!("{}: {}", check.name, check.detail)).collect();
        let detail = if wrong.is_empty() { "every check passed".to_owned() } else { wrong.join("; ") };
        checks.push(Check::new(format!("connection {}", text("id")), found.ok, detail));
    }
    Ok(checks)
}
