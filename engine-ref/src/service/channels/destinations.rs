//! Destinations of people and links to their accounts.

use beepgrid::{
    AccountLink, AccountLinkId, AccountLinkInput, ConnectionId, Destination, DestinationEdit, DestinationId, DestinationInput,
    ErrorCode, PrincipalId,
};

use super::managed;
use crate::service::actor::Actor;
use crate::service::limits::{MAX_ADDRESS_CHARS, MAX_PRIORITY, MAX_TITLE_CHARS};
use crate::service::{Refusal, checks, new_id, policies};
use crate::store::{ReadTx, WriteTx, channels, principals};

/// The parts that a destination plays, in the order in which they are tried.
pub(super) const MODES: &[&str] = &["primary", "copy", "fallback"];

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
    if policies::sees(tx, actor, &party)? { Ok(party.id) } else { Err(unseen()) }
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
    channels::delete_destination(tx, &row)?;
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
