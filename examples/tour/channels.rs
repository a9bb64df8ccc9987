//! Channels as data: nothing is sent outside.

use beepgrid::{
    AccountLinkInput, CapabilityInput, ChannelPolicy, Connection, ConnectionEdit, ConnectionTestInput, DeliveryAttempt,
    DeliveryPreferences, DestinationEdit, DestinationInput, QueryInput, RoutePreviewInput, Target,
};

use crate::stage::{Log, Stage, check, same};

pub(crate) async fn visit(log: &mut Log, stage: &Stage, connection: Connection) -> anyhow::Result<()> {
    Log::region("Channels");
    let (owner, me) = (&stage.owner, &stage.me.id);
    let preferences = log.call("how the owner is reached outside", owner.delivery_preferences(me)).await?;
    let policy = ChannelPolicy { mode: "preferred".to_owned(), destinations: Vec::new(), followup_seconds: 0 };
    let wanted = DeliveryPreferences { default: Some(policy), overrides: Vec::new(), ..preferences.clone() };
    let saved = log.call("saved", owner.save_delivery_preferences(me, wanted)).await?;
    check("the version grew", saved.version > preferences.version)?;

    let edit = ConnectionEdit::new(connection.version).enabled(true);
    let connection = log.call("the webhook is switched on", owner.edit_connection(&connection.id, edit)).await?;
    check("it is on", connection.enabled)?;
    let open = log.call("what is open on it", owner.capabilities(CapabilityInput::connection(&connection.id))).await?;
    same("managing", &open.operations.get("manage"), &Some(&true))?;
    let diagnostics = log.call("looked over, without sending", owner.connection_diagnostics(&connection.id)).await?;
    check("something was looked at", !diagnostics.checks.is_empty())?;

    let input = DestinationInput::new(&connection.id, me, "https://example.com/beepgrid/owner");
    let destination = log.call("where the owner is reached", owner.create_destination(input)).await?;
    let edit = DestinationEdit::new(destination.version).priority(2);
    let destination = log.call("in second place", owner.edit_destination(&destination.id, edit)).await?;
    same("the priority", &destination.priority, &2)?;
    let input = AccountLinkInput::new(&connection.id, me, stage.name("account"));
    let link = log.call("an account that is the owner's", owner.create_account_link(input)).await?;
    let policy = ChannelPolicy { mode: "preferred".to_owned(), destinations: vec![destination.id.clone()], followup_seconds: 0 };
    let wanted = DeliveryPreferences { default: Some(policy), ..saved };
    let chosen = log.call("the owner prefers it", owner.save_delivery_preferences(me, wanted)).await?;
    let input = RoutePreviewInput::new(Target::person(me), "message");
    let routes = log.call("where a message would go", owner.preview_route(input)).await?;
    check("the workspace, always", routes.workspace)?;
    check("and the webhook", routes.routes.iter().any(|route| route.destination_id == destination.id))?;

    let input = ConnectionTestInput::new(&destination.id);
    let test = log.call("a test, which waits until channels send", owner.test_connection(&connection.id, input)).await?;
    same("accepted here, sent nowhere yet", &test.state.as_str(), &"queued")?;
    let attempts = QueryInput::new("delivery_attempts").filter("delivery_id", &test.id);
    let attempts = log.call("its attempts", owner.query_as::<DeliveryAttempt>(attempts)).await?;
    same("the first", &attempts.items.iter().map(|attempt| attempt.number).collect::<Vec<_>>(), &vec![1])?;

    let restored = DeliveryPreferences { version: chosen.version, ..preferences };
    log.call("as they were", owner.save_delivery_preferences(me, restored)).await?;
    log.call("unlinked", owner.delete_account_link(&link.id)).await?;
    log.call("gone", owner.delete_destination(&destination.id)).await?;
    log.call("gone", owner.delete_connection(&connection.id)).await
}
