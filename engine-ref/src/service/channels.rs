//! Channels as data: connections, destinations, account links, delivery preferences, routes. Nothing here sends anything.

use beepgrid::{
    AccountLink, AccountLinkId, AccountLinkInput, ChannelPolicy, Connection, ConnectionDiagnostics, ConnectionEdit, ConnectionId,
    ConnectionInput, ConnectionSetup, DeliveryPreferences, Destination, DestinationEdit, DestinationId, DestinationInput,
    DiagnosticCheck, ErrorCode, GroupPurpose, JsonMap, PrincipalId, PrincipalKind, Route, RoutePreview, RoutePreviewInput,
    RuleAction, Target, TargetKind,
};

use super::actor::Actor;
use super::limits::{MAX_LIST, MAX_METADATA_BYTES, MAX_TITLE_CHARS};
use super::seal::SecretKey;
use super::{Refusal, audience, checks, new_id};
use crate::store::channels::{self, ConnectionRow};
use crate::store::{ReadTx, WriteTx, groups, principals};

/// The providers that this engine knows.
pub(crate) const PROVIDERS: &[&str] = &["slack", "telegram", "discord", "smtp", "webhook"];
const MODES: &[&str] = &["primary", "copy", "fallback"];
const POLICY_MODES: &[&str] = &["preferred", "all"];
const MAX_ADDRESS_CHARS: usize = 2_000;
const MAX_PRIORITY: i64 = 1_000;
const MAX_OVERRIDES: usize = 100;
const MAX_PREFERRED: usize = 20;
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 8..=4_096;

// ---- connections ----------------------------------------------------------------------------------------------------------

fn check_secret(secret: Option<&String>) -> Result<(), Refusal> {
    match secret {
        Some(secret) if !SECRET_BYTES.contains(&secret.len()) => Err(Refusal::invalid("secret", "one text of 8 to 4096 bytes")),
        _ => Ok(()),
    }
}

/// Whether a new connection has the right form.
pub(crate) fn check_connection(input: &ConnectionInput) -> Result<(), Refusal> {
    if !PROVIDERS.contains(&input.kind.as_str()) {
        return Err(checks::one_of("kind", &input.kind, PROVIDERS));
    }
    checks::name("name", &input.name)?;
    check_config(&input.config)?;
    check_secret(input.secret.as_ref())
}

/// Whether an edit of a connection has the right form.
pub(crate) fn check_connection_edit(input: &ConnectionEdit) -> Result<(), Refusal> {
    input.name.as_ref().map_or(Ok(()), |name| checks::name("name", name).map(drop))?;
    input.config.as_ref().map_or(Ok(()), check_config)?;
    check_secret(input.secret.as_ref())
}

fn check_config(config: &JsonMap) -> Result<(), Refusal> {
    checks::json("config", &serde_json::Value::Object(config.clone()), MAX_METADATA_BYTES)
}

/// The secret's bytes: base64 behind `whsec_` for webhooks, else the text itself.
fn secret_bytes(kind: &str, secret: &str) -> Result<Vec<u8>, Refusal> {
    use base64::Engine as _;
    match secret.strip_prefix("whsec_") {
        Some(encoded) if kind == "webhook" => base64::engine::general_purpose::STANDARD
            .decode(encoded)
            .ok()
            .filter(|bytes| !bytes.is_empty())
            .ok_or_else(|| Refusal::invalid("secret", "after whsec_ there has to be base64")),
        _ => Ok(secret.as_bytes().to_vec()),
    }
}

/// Makes a connection; its secret is stored sealed.
pub(crate) fn create_connection(
    tx: &WriteTx<'_>,
    actor: &Actor,
    input: &ConnectionInput,
    key: &SecretKey,
) -> Result<ConnectionId, Refusal> {
    actor.must_manage(tx, "connection")?;
    let id: ConnectionId = new_id(ConnectionId::PREFIX);
    let secret = sealed(key, &id, &input.kind, input.secret.as_deref())?;
    let row = ConnectionRow {
        id,
        kind: input.kind.clone(),
        name: checks::name("name", &input.name)?,
        config: input.config.clone(),
        secret,
        enabled: input.enabled,
        version: 1,
        created_at: tx.now(),
    };
    channels::insert_connection(tx, &row)?;
    Ok(row.id)
}

fn sealed(key: &SecretKey, id: &ConnectionId, kind: &str, secret: Option<&str>) -> Result<Option<Vec<u8>>, Refusal> {
    secret.map(|secret| key.seal(id.as_str(), &secret_bytes(kind, secret)?)).transpose()
}

/// Edits a connection.
pub(crate) fn edit_connection(
    tx: &WriteTx<'_>,
    actor: &Actor,
    (id, input): &(String, ConnectionEdit),
    key: &SecretKey,
) -> Result<ConnectionId, Refusal> {
    let mut row = managed(tx, actor, id)?;
    if row.version != input.version {
        return Err(Refusal::version_conflict(row.version));
    }
    if let Some(name) = &input.name {
        row.name = checks::name("name", name)?;
    }
    if let Some(config) = &input.config {
        row.config.clone_from(config);
    }
    if input.secret.is_some() {
        row.secret = sealed(key, &row.id, &row.kind, input.secret.as_deref())?;
    }
    row.enabled = input.enabled.unwrap_or(row.enabled);
    channels::update_connection(tx, &row)?;
    Ok(row.id)
}

/// Deletes a connection with its destinations and links.
pub(crate) fn delete_connection(tx: &WriteTx<'_>, actor: &Actor, id: &str) -> Result<(), Refusal> {
    let row = managed(tx, actor, id)?;
    channels::delete_connection(tx, &row.id)?;
    Ok(())
}

/// A connection that the actor manages; for everybody else there is none.
fn managed(tx: &ReadTx<'_>, actor: &Actor, id: &str) -> Result<ConnectionRow, Refusal> {
    if !actor.manages(tx, "connection")? {
        return Err(Refusal::not_found());
    }
    channels::connection(tx, id)?.ok_or_else(Refusal::not_found)
}

/// Whether there is such a connection.
pub(crate) fn connection_exists(tx: &ReadTx<'_>, id: &ConnectionId) -> Result<bool, Refusal> {
    Ok(channels::connection(tx, id.as_str())?.is_some())
}

/// A connection as it stands, without its secret.
pub(crate) fn connection(tx: &ReadTx<'_>, id: &ConnectionId) -> Result<Connection, Refusal> {
    channels::connection(tx, id.as_str())?.map(show).ok_or_else(Refusal::not_found)
}

/// The wire form: whether there is a secret, never which.
pub(crate) fn show(row: ConnectionRow) -> Connection {
    let ConnectionRow { id, kind, name, config, secret, enabled, version, created_at } = row;
    Connection { id, kind, name, config, has_secret: secret.is_some(), enabled, version, created_at }
}

/// How to set the provider up for one connection.
pub(crate) fn setup(tx: &ReadTx<'_>, actor: &Actor, id: &str, public_url: &str) -> Result<ConnectionSetup, Refusal> {
    let row = managed(tx, actor, id)?;
    let callback_url = format!("{}/api/v1/callbacks/{}", public_url.trim_end_matches('/'), row.id);
    let steps: &[&str] = match row.kind.as_str() {
        "slack" => &[
            "Create a Slack app and give its bot the scopes chat:write and im:write.",
            "Set the request URL for events and interactivity to the callback URL.",
            "Install the app and store its bot token and signing secret in this connection.",
        ],
        "telegram" => &["Create a bot and store its token as the secret.", "Set the bot's webhook to the callback URL."],
        "discord" => &[
            "Create an application with a bot and store the bot token as the secret.",
            "Set the interactions endpoint to the callback URL.",
        ],
        "smtp" => &["Enter host, port, user and sender address in config and the password as the secret."],
        _ => &["Give the receiving service the secret; it verifies the signature of every delivery with it."],
    };
    let steps = steps.iter().map(|step| (*step).to_owned()).collect();
    let values = [("callback_url".to_owned(), callback_url.clone().into())].into_iter().collect();
    Ok(ConnectionSetup { connection_id: row.id, kind: row.kind, callback_url, steps, values })
}

/// What can be checked without sending anything.
pub(crate) fn diagnostics(tx: &ReadTx<'_>, actor: &Actor, id: &str, key: &SecretKey) -> Result<ConnectionDiagnostics, Refusal> {
    let row = managed(tx, actor, id)?;
    let check = |name: &str, ok: bool, right: &str, wrong: &str| DiagnosticCheck {
        name: name.to_owned(),
        ok,
        detail: if ok { right } else { wrong }.to_owned(),
    };
    let opens = match &row.secret {
        Some(sealed) => key.open(row.id.as_str(), sealed)?.is_some(),
        None => false,
    };
    let checks = vec![
        check("enabled", row.enabled, "in use", "not in use: set enabled"),
        check("secret", row.secret.is_some(), "stored", "none stored: edit the connection"),
        check("secret_opens", opens, "opens with this engine's key", "does not open: enter it again"),
    ];
    Ok(ConnectionDiagnostics { connection_id: row.id, observed_at: tx.now(), ok: checks.iter().all(|check| check.ok), checks })
}

// ---- destinations and links -----------------------------------------------------------------------------------------------

fn check_address(address: &str) -> Result<(), Refusal> {
    let length = address.chars().count();
    if !(1..=MAX_ADDRESS_CHARS).contains(&length) || address.chars().any(char::is_control) {
        return Err(Refusal::invalid("address", format!("1 to {MAX_ADDRESS_CHARS} code points without control characters")));
    }
    Ok(())
}

fn check_mode(mode: &str) -> Result<(), Refusal> {
    if MODES.contains(&mode) { Ok(()) } else { Err(checks::one_of("mode", mode, MODES)) }
}

/// Whether a new destination has the right form.
pub(crate) fn check_destination(input: &DestinationInput) -> Result<(), Refusal> {
    checks::id("connection_id", input.connection_id.as_str())?;
    checks::id("principal_id", input.principal_id.as_str())?;
    check_address(&input.address)?;
    check_mode(&input.mode)?;
    checks::range("priority", input.priority, 0, MAX_PRIORITY)
}

/// Whether an edit of a destination has the right form.
pub(crate) fn check_destination_edit(input: &DestinationEdit) -> Result<(), Refusal> {
    input.address.as_ref().map_or(Ok(()), |address| check_address(address))?;
    input.mode.as_ref().map_or(Ok(()), |mode| check_mode(mode))?;
    input.priority.map_or(Ok(()), |priority| checks::range("priority", priority, 0, MAX_PRIORITY))
}

/// Makes a destination of a person.
pub(crate) fn create_destination(tx: &WriteTx<'_>, actor: &Actor, input: &DestinationInput) -> Result<DestinationId, Refusal> {
    let person = person_over(tx, actor, &input.connection_id, &input.principal_id)?;
    let row = Destination {
        id: new_id(DestinationId::PREFIX),
        connection_id: input.connection_id.clone(),
        principal_id: person,
        address: input.address.clone(),
        mode: input.mode.clone(),
        priority: input.priority,
        version: 1,
        created_at: tx.now(),
    };
    channels::insert_destination(tx, &row)?;
    Ok(row.id)
}

/// A person and a connection that the actor manages.
fn person_over(
    tx: &ReadTx<'_>,
    actor: &Actor,
    connection: &ConnectionId,
    principal: &PrincipalId,
) -> Result<PrincipalId, Refusal> {
    managed(tx, actor, connection.as_str()).map_err(|r| r.at("connection_id"))?;
    let unseen = || Refusal::not_found().at("principal_id");
    let party = principals::party_by_any_id(tx, "person", principal.as_str())?.ok_or_else(unseen)?;
    if super::policies::sees(tx, actor, &party)? { Ok(party.id) } else { Err(unseen()) }
}

/// Edits a destination: a manager of connections any, a person its own.
pub(crate) fn edit_destination(
    tx: &WriteTx<'_>,
    actor: &Actor,
    (id, input): &(String, DestinationEdit),
) -> Result<DestinationId, Refusal> {
    let mut row = own_destination(tx, actor, id)?;
    if row.version != input.version {
        return Err(Refusal::version_conflict(row.version));
    }
    if let Some(address) = &input.address {
        // The address says where things go: whoever sets it vouches for it.
        actor.must_manage(tx, "connection")?;
        row.address.clone_from(address);
    }
    if let Some(mode) = &input.mode {
        row.mode.clone_from(mode);
    }
    row.priority = input.priority.unwrap_or(row.priority);
    channels::update_destination(tx, &row)?;
    Ok(row.id)
}

/// Deletes a destination.
pub(crate) fn delete_destination(tx: &WriteTx<'_>, actor: &Actor, id: &str) -> Result<(), Refusal> {
    let row = own_destination(tx, actor, id)?;
    channels::delete_destination(tx, &row.id)?;
    Ok(())
}

fn own_destination(tx: &ReadTx<'_>, actor: &Actor, id: &str) -> Result<Destination, Refusal> {
    let row = channels::destination(tx, id)?.ok_or_else(Refusal::not_found)?;
    if row.principal_id == actor.id || actor.manages(tx, "connection")? { Ok(row) } else { Err(Refusal::not_found()) }
}

/// A destination as it stands.
pub(crate) fn destination(tx: &ReadTx<'_>, id: &DestinationId) -> Result<Destination, Refusal> {
    channels::destination(tx, id.as_str())?.ok_or_else(Refusal::not_found)
}

/// Whether a link has the right form.
pub(crate) fn check_link(input: &AccountLinkInput) -> Result<(), Refusal> {
    checks::id("connection_id", input.connection_id.as_str())?;
    checks::id("principal_id", input.principal_id.as_str())?;
    let length = input.provider_account.chars().count();
    if !(1..=MAX_TITLE_CHARS).contains(&length) || input.provider_account.chars().any(char::is_control) {
        return Err(Refusal::invalid(
            "provider_account",
            format!("1 to {MAX_TITLE_CHARS} code points without control characters"),
        ));
    }
    Ok(())
}

/// Links a provider's account to a person.
pub(crate) fn create_link(tx: &WriteTx<'_>, actor: &Actor, input: &AccountLinkInput) -> Result<AccountLinkId, Refusal> {
    let person = person_over(tx, actor, &input.connection_id, &input.principal_id)?;
    let row = AccountLink {
        id: new_id(AccountLinkId::PREFIX),
        connection_id: input.connection_id.clone(),
        principal_id: person,
        provider_account: input.provider_account.clone(),
        created_at: tx.now(),
    };
    if !channels::insert_link(tx, &row)? {
        return Err(Refusal::conflict(ErrorCode::AlreadyExists, "provider_account: it is linked over this connection already"));
    }
    Ok(row.id)
}

/// Unlinks an account: a manager of connections any, a person its own.
pub(crate) fn delete_link(tx: &WriteTx<'_>, actor: &Actor, id: &str) -> Result<(), Refusal> {
    let row = channels::link(tx, id)?.ok_or_else(Refusal::not_found)?;
    if row.principal_id != actor.id && !actor.manages(tx, "connection")? {
        return Err(Refusal::not_found());
    }
    channels::delete_link(tx, &row.id)?;
    Ok(())
}

/// A link as it stands.
pub(crate) fn link(tx: &ReadTx<'_>, id: &AccountLinkId) -> Result<AccountLink, Refusal> {
    channels::link(tx, id.as_str())?.ok_or_else(Refusal::not_found)
}

// ---- preferences and routes -----------------------------------------------------------------------------------------------

/// Whether delivery preferences have the right form.
pub(crate) fn check_preferences(id: &str, input: &DeliveryPreferences) -> Result<(), Refusal> {
    if !input.person_id.is_empty() && input.person_id.as_str() != id {
        return Err(Refusal::invalid("person_id", "absent, or the same as in the path"));
    }
    checks::range("version", input.version, 0, i64::MAX)?;
    input.default.as_ref().map_or(Ok(()), |policy| check_policy("default", policy))?;
    checks::count("overrides", input.overrides.len(), MAX_OVERRIDES)?;
    for (i, one) in input.overrides.iter().enumerate() {
        let place = format!("overrides[{i}]");
        checks::target(&format!("{place}.source"), &one.source)?;
        if !matches!(one.source.kind, TargetKind::Agent | TargetKind::Group) {
            return Err(Refusal::invalid(format!("{place}.source.kind"), "an agent, or a group with the purpose agent_role"));
        }
        check_policy(&format!("{place}.policy"), &one.policy)?;
    }
    Ok(())
}

fn check_policy(place: &str, policy: &ChannelPolicy) -> Result<(), Refusal> {
    if !POLICY_MODES.contains(&policy.mode.as_str()) {
        return Err(checks::one_of(&format!("{place}.mode"), &policy.mode, POLICY_MODES));
    }
    checks::count(&format!("{place}.destinations"), policy.destinations.len(), MAX_PREFERRED)?;
    if policy.followup_seconds != 0 {
        checks::range(&format!("{place}.followup_seconds"), policy.followup_seconds, 5, 900)
            .map_err(|_| Refusal::invalid(format!("{place}.followup_seconds"), "0, or from 5 to 900"))?;
    }
    Ok(())
}

/// The person whose preferences these are: the actor itself, or anybody for a manager of identities.
fn preferences_of(tx: &ReadTx<'_>, actor: &Actor, id: &str) -> Result<PrincipalId, Refusal> {
    let party = principals::party_by_any_id(tx, "person", id)?.ok_or_else(Refusal::not_found)?;
    if party.id != actor.id && !actor.manages(tx, "identity")? {
        return Err(Refusal::not_found());
    }
    Ok(party.id)
}

/// A person's delivery preferences; version 0 when never saved.
pub(crate) fn preferences(tx: &ReadTx<'_>, actor: &Actor, id: &str) -> Result<DeliveryPreferences, Refusal> {
    let person_id = preferences_of(tx, actor, id)?;
    let saved = channels::preferences(tx, &person_id)?;
    Ok(saved.unwrap_or(DeliveryPreferences { person_id, version: 0, default: None, overrides: Vec::new() }))
}

/// Saves a person's delivery preferences: own destinations only, sources that are visible.
pub(crate) fn save_preferences(
    tx: &WriteTx<'_>,
    actor: &Actor,
    (id, input): &(String, DeliveryPreferences),
) -> Result<DeliveryPreferences, Refusal> {
    let saved = preferences(tx, actor, id)?;
    if saved.version != input.version {
        return Err(Refusal::version_conflict(saved.version));
    }
    let mut policies: Vec<(String, &ChannelPolicy)> = input.default.iter().map(|policy| ("default".to_owned(), policy)).collect();
    let mut overrides = input.overrides.clone();
    for (i, one) in overrides.iter_mut().enumerate() {
        one.source.id = source(tx, actor, &one.source).map_err(|r| r.at(&format!("overrides[{i}].source")))?;
    }
    policies.extend(input.overrides.iter().enumerate().map(|(i, one)| (format!("overrides[{i}].policy"), &one.policy)));
    for (place, policy) in policies {
        for (i, destination) in policy.destinations.iter().enumerate() {
            let own = channels::destination(tx, destination.as_str())?.is_some_and(|row| row.principal_id == saved.person_id);
            if !own {
                return Err(Refusal::not_found().at(&format!("{place}.destinations[{i}]")));
            }
        }
    }
    let preferences =
        DeliveryPreferences { person_id: saved.person_id, version: saved.version + 1, default: input.default.clone(), overrides };
    channels::save_preferences(tx, &preferences)?;
    Ok(preferences)
}

/// The id of a visible agent or agent role.
fn source(tx: &ReadTx<'_>, actor: &Actor, source: &Target) -> Result<String, Refusal> {
    if source.kind == TargetKind::Group {
        let group = groups::by_id(tx, &source.id)?.ok_or_else(Refusal::not_found)?;
        if !audience::sees_group(tx, actor, &group.id)? {
            return Err(Refusal::not_found());
        }
        if group.purpose != GroupPurpose::AgentRole {
            return Err(Refusal::invalid("kind", "a group with the purpose agent_role"));
        }
        return Ok(group.id.as_str().to_owned());
    }
    let party = audience::find(tx, source)?.ok_or_else(Refusal::not_found)?;
    if super::policies::sees(tx, actor, &party)? { Ok(party.id.as_str().to_owned()) } else { Err(Refusal::not_found()) }
}

/// Whether a route preview has the right form.
pub(crate) fn check_route(input: &RoutePreviewInput) -> Result<(), Refusal> {
    checks::target("target", &input.target)?;
    match input.operation.as_str() {
        "message" | "ask" => Ok(()),
        other => Err(checks::one_of("operation", other, &["message", "ask"])),
    }
}

/// Where something of the actor's would go outside; it always stands in the workspace.
pub(crate) fn preview_route(tx: &ReadTx<'_>, actor: &Actor, input: &RoutePreviewInput) -> Result<RoutePreview, Refusal> {
    let action = if input.operation == "ask" { RuleAction::Ask } else { RuleAction::Message };
    let party = audience::reach(tx, actor, &input.target, &action, None).map_err(|r| r.at("target"))?;
    let routes = if party.kind == PrincipalKind::Person { routes(tx, actor, &party.id)? } else { Vec::new() };
    Ok(RoutePreview { target: input.target.clone(), workspace: true, routes })
}

/// The routes to a person for this sender: by its preferences, else by its destinations in order of priority.
pub(crate) fn routes(tx: &ReadTx<'_>, actor: &Actor, person: &PrincipalId) -> Result<Vec<Route>, Refusal> {
    let all = channels::destinations_of(tx, person, MAX_LIST)?;
    let policy = match channels::preferences(tx, person)? {
        Some(preferences) => policy_for(tx, actor, preferences)?,
        None => None,
    };
    let chosen: Vec<Destination> = match policy {
        Some(policy) => policy
            .destinations
            .iter()
            .filter_map(|id| all.iter().find(|destination| destination.id == *id).cloned())
            .take(if policy.mode == "all" { usize::MAX } else { 1 })
            .collect(),
        None => by_mode(all),
    };
    let mut routes = Vec::new();
    for destination in chosen {
        let Some(connection) = channels::connection(tx, destination.connection_id.as_str())? else { continue };
        if connection.enabled {
            routes.push(Route {
                destination_id: destination.id,
                connection_id: connection.id,
                kind: connection.kind,
                mode: destination.mode,
            });
        }
    }
    Ok(routes)
}

/// Primary destinations first, then copies, then fallbacks; within each by priority.
fn by_mode(mut all: Vec<Destination>) -> Vec<Destination> {
    let rank = |mode: &str| MODES.iter().position(|known| *known == mode);
    all.sort_by_key(|destination| (rank(&destination.mode), destination.priority));
    all
}

/// An exact agent comes before its roles, and those before the usual policy.
fn policy_for(tx: &ReadTx<'_>, actor: &Actor, preferences: DeliveryPreferences) -> Result<Option<ChannelPolicy>, Refusal> {
    let exact = preferences.overrides.iter().find(|one| one.source.id == actor.id.as_str());
    if let Some(exact) = exact {
        return Ok(Some(exact.policy.clone()));
    }
    let of_actor = groups::ids_of_member(tx, &actor.id)?;
    let role = preferences.overrides.iter().find(|one| of_actor.iter().any(|group| group.as_str() == one.source.id));
    Ok(role.map(|one| one.policy.clone()).or(preferences.default))
}
