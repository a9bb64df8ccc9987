//! Queries, access and status.

use beepgrid::{CapabilityInput, Connection, ConnectionInput, JsonMap, Key, Message, QueryInput, RequestId, SendResult};

use crate::stage::{Log, Stage, check, same};

/// Returns the webhook connection that it makes.
pub(crate) async fn visit(log: &mut Log, stage: &Stage, sent: &SendResult, blocking: &RequestId) -> anyhow::Result<Connection> {
    Log::region("Queries and status");
    let owner = &stage.owner;
    let messages = || QueryInput::new("messages").filter("conversation_id", &sent.conversation_id).limit(1);
    let mut page = log.call("the first page of a conversation", owner.query(messages())).await?;
    let mut seen = page.items.len();
    while let Some(cursor) = page.next_cursor {
        page = log.call("and the next one", owner.query(messages().cursor(cursor))).await?;
        seen += page.items.len();
    }
    same("the number of messages", &seen, &2)?;
    let all = owner.query_stream::<Message>(messages()).all().await?;
    log.did("query", "the same as one stream");
    same("the number of messages", &all.len(), &2)?;

    let open = log.call("what is open to the owner now", owner.capabilities(CapabilityInput::request(blocking))).await?;
    same("cancelling", &open.operations.get("cancel"), &Some(&true))?;
    check("the owner is an operator", log.call("the owner's own", owner.access(None)).await?.operator)?;
    let access = log.call("Builder's, as the owner sees it", owner.access(Some(&stage.builder_id))).await?;
    check("Builder has its role", access.roles.iter().any(|role| role.role.name == stage.name("Builder 7")))?;
    let trace = log.call("what became of Builder's request", owner.request_trace(blocking, None)).await?;
    same("its request", &trace.request.id, blocking)?;
    check("it is on its way to Billing", trace.deliveries.iter().any(|one| one.recipient_id == stage.billing_id))?;
    let workspace = log.call("the engine is self-hosted", owner.workspace()).await?;
    same("the deployment", &workspace.deployment.as_str(), &"self_hosted")?;
    let account = log.call("what the engine is limited to", owner.account()).await?;
    check("the limits apply", account.applied)?;
    let fleet = log.call("who is there and who waits for whom", owner.fleet_status()).await?;
    same("the mode", &fleet.mode.as_str(), &"read_only")?;
    check("Builder is shown", fleet.agents.iter().any(|one| one.agent.id == stage.builder_id))?;

    let providers = log.call("what can be connected", owner.provider_catalog()).await?;
    check("webhooks can", providers.iter().any(|provider| provider.kind == "webhook"))?;
    let mut config = JsonMap::new();
    config.insert("url".to_owned(), "https://example.com/beepgrid".into());
    let input = ConnectionInput::new("webhook", stage.name("webhook")).config(config).secret(Key::new().as_str());
    let connection = log.call("a webhook, switched off", owner.create_connection(input)).await?;
    check("its secret is kept", connection.has_secret && !connection.enabled)?;
    let setup = log.call("how to set it up", owner.connection_setup(&connection.id)).await?;
    check("there are steps", !setup.steps.is_empty())?;
    Ok(connection)
}
