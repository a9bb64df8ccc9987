//! Enrollment and credentials: who may issue what, and that no credential makes a stronger or longer one.

mod changes;

use std::time::Duration;

use beepgrid::{
    Credential, CredentialId, CredentialInput, CredentialKind, EnrollInput, ErrorCode, InstanceId, IssuedCredential, JsonMap,
    Permission, PrincipalId, PrincipalKind, RevokeInput, RevokeResult, Session, Timestamp,
};
use serde_json::json;

use super::actor::{Actor, Need, TokenDigest};
use super::audience::Party;
use super::events::{self, Event};
use super::identity::{self, Principal};
use super::limits::{CREDENTIAL_LIFE, MAX_INSTANCES, MAX_LIST, RENEWAL};
use super::{Refusal, checks, cursor, new_id, policies};
use crate::signals::Signal;
use crate::store::credentials::{self, CredentialRow};
use crate::store::instances::{self, InstanceRow};
use crate::store::principals::{self, PrincipalRow};
use crate::store::{ReadTx, WriteTx};

pub(crate) use changes::{check_edit, check_rotate, edit, for_author, rotate};

/// A fresh token: 256 random bits behind a prefix that scanners for leaked secrets can look for.
pub(crate) fn new_token() -> Result<String, Refusal> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| Refusal::internal(format!("no random numbers: {e}")))?;
    Ok(format!("bpg_{}", cursor::hex(&bytes)))
}

/// The last four characters.
pub(crate) fn hint(token: &str) -> String {
    let skip = token.chars().count().saturating_sub(4);
    token.chars().skip(skip).collect()
}

/// Whether an enrollment has the right form.
pub(crate) fn check_enroll(input: &EnrollInput) -> Result<(), Refusal> {
    checks::external_id("agent", &input.agent)?;
    checks::name("name", &input.name)?;
    checks::title("connection_name", &input.connection_name)?;
    checks::capabilities("capabilities", &input.capabilities)?;
    checks::metadata("metadata", &input.metadata)?;
    if input.never_expires && (input.expires_at.is_some() || input.renewable) {
        return Err(Refusal::invalid("never_expires", "not together with expires_at or renewable"));
    }
    if input.renewable && input.expires_at.is_none_or(|end| end == Timestamp::NEVER) {
        return Err(Refusal::invalid("renewable", "needs expires_at, the hard deadline that no renewal passes"));
    }
    Ok(())
}

/// When a credential ends: as asked, never, or in 30 days.
fn expiry(now: Timestamp, never: bool, asked: Option<Timestamp>) -> Result<Option<Timestamp>, Refusal> {
    match asked {
        _ if never => Ok(None),
        Some(Timestamp::NEVER) => Ok(None),
        Some(end) if end <= now => Err(Refusal::invalid("expires_at", "must be in the future")),
        Some(end) => Ok(Some(end)),
        None => Ok(Some(now.plus(CREDENTIAL_LIFE))),
    }
}

/// Enrolls a runtime of an agent, which is made if it does not exist.
pub(crate) fn enroll(tx: &WriteTx<'_>, actor: &Actor, input: &EnrollInput) -> Result<Session, Refusal> {
    may_enroll(actor, &input.agent)?;
    let now = tx.now();
    let agent = match principals::by_external_id(tx, "agent", &input.agent)? {
        Some(agent) if agent.disabled => return Err(outside()),
        Some(agent) => agent,
        None => new_agent(tx, actor, input)?,
    };
    if instances::count_live(tx, &agent.id)? >= MAX_INSTANCES {
        return Err(Refusal::RateLimited {
            message: format!("agent: it has {MAX_INSTANCES} live runtime connections, the most there may be; revoke some"),
            retry_after: Duration::from_secs(60),
        });
    }
    let hard = expiry(now, input.never_expires, input.expires_at)?;
    let instance = InstanceRow {
        id: new_id(InstanceId::PREFIX),
        agent_id: agent.id.clone(),
        name: input.connection_name.clone(),
        capabilities: input.capabilities.clone(),
        progress: JsonMap::new(),
        created_at: now,
        last_seen: now,
    };
    instances::insert(tx, &instance)?;
    let token = new_token()?;
    let row = CredentialRow {
        instance_id: Some(instance.id.clone()),
        expires_at: if input.renewable { hard.map(|end| end.min(now.plus(RENEWAL))) } else { hard },
        renewable_until: hard.filter(|_| input.renewable),
        parent_id: Some(actor.credential.id.clone()),
        ..fresh(agent.id.clone(), CredentialKind::Worker, &input.connection_name, &token, now)
    };
    credentials::insert(tx, &row, TokenDigest::of(&token).as_bytes())?;
    updated(tx, actor, &agent.id)?;
    let Principal::Agent(agent) = identity::principal(agent, actor.operator) else {
        return Err(Refusal::internal("an agent was read as another kind"));
    };
    Ok(Session { token, agent, instance_id: instance.id, expires_at: row.expires_at })
}

/// An owner enrols anywhere, a launcher within its prefix. Everything else is the same 403, whatever exists.
fn may_enroll(actor: &Actor, external_id: &str) -> Result<(), Refusal> {
    if actor.credential.kind == CredentialKind::Enrollment {
        return if external_id.starts_with(&actor.credential.prefix) { Ok(()) } else { Err(outside()) };
    }
    actor.need(&Need::Ceiling(Permission::Manage))?;
    if actor.operator { Ok(()) } else { Err(outside()) }
}

fn outside() -> Refusal {
    Refusal::forbidden("agent: this credential may not enroll it")
}

fn new_agent(tx: &WriteTx<'_>, actor: &Actor, input: &EnrollInput) -> Result<PrincipalRow, Refusal> {
    let parent_id = input.parent_id.as_ref().map(|parent| parent_of(tx, actor, parent)).transpose()?;
    let row = PrincipalRow {
        id: new_id(PrincipalId::PREFIX),
        kind: PrincipalKind::Agent,
        name: checks::name("name", &input.name)?,
        external_id: input.agent.clone(),
        metadata: input.metadata.clone(),
        version: 1,
        disabled: false,
        operator: false,
        parent_id,
        enrolled_by: Some(actor.id.clone()),
        created_at: tx.now(),
    };
    if !principals::insert(tx, &row)? {
        return Err(Refusal::internal("an external id was taken within one transaction"));
    }
    Ok(row)
}

fn parent_of(tx: &ReadTx<'_>, actor: &Actor, parent: &PrincipalId) -> Result<PrincipalId, Refusal> {
    let unseen = || Refusal::not_found().at("parent_id");
    let by_id = principals::by_id(tx, parent.as_str())?.filter(|row| row.kind == PrincipalKind::Agent);
    let row = match by_id {
        Some(row) => row,
        None => principals::by_external_id(tx, "agent", parent.as_str())?.ok_or_else(unseen)?,
    };
    let launched = actor.credential.kind == CredentialKind::Enrollment && row.external_id.starts_with(&actor.credential.prefix);
    if launched || actor.may_view(tx, &row.as_party())? { Ok(row.id) } else { Err(unseen()) }
}

fn fresh(principal: PrincipalId, kind: CredentialKind, name: &str, token: &str, now: Timestamp) -> CredentialRow {
    CredentialRow {
        id: new_id(CredentialId::PREFIX),
        principal_id: principal,
        instance_id: None,
        owner_name: String::new(),
        kind,
        name: name.to_owned(),
        prefix: String::new(),
        token_hint: hint(token),
        permissions: None,
        created_at: now,
        last_used_at: None,
        expires_at: None,
        renewable_until: None,
        previous_until: None,
        version: 1,
        revoked: false,
        parent_id: None,
    }
}

fn updated(tx: &WriteTx<'_>, actor: &Actor, id: &PrincipalId) -> Result<(), Refusal> {
    events::record(
        tx,
        &Event {
            kind: "identity.updated",
            actor_id: &actor.id,
            conversation_id: "",
            recipient_id: "",
            subject_id: id.as_str(),
            data: json!({ "id": id }),
        },
    )
    .map(drop)
}

/// Whether the workspace has its owner already.
pub(crate) fn has_owner(tx: &ReadTx<'_>) -> Result<bool, Refusal> {
    Ok(principals::by_external_id(tx, "person", "owner")?.is_some() || principals::live_operators(tx)? > 0)
}

/// Makes the owner of a new workspace, with this token. Returns whether there was none before.
pub(crate) fn bootstrap(tx: &WriteTx<'_>, name: &str, token: &str) -> Result<bool, Refusal> {
    if has_owner(tx)? {
        return Ok(false);
    }
    let now = tx.now();
    let owner = PrincipalRow {
        id: new_id(identity::prefix(&PrincipalKind::Person)),
        kind: PrincipalKind::Person,
        name: checks::name("owner", name)?,
        external_id: "owner".to_owned(),
        metadata: JsonMap::new(),
        version: 1,
        disabled: false,
        operator: true,
        parent_id: None,
        enrolled_by: None,
        created_at: now,
    };
    principals::insert(tx, &owner)?;
    issue_owner(tx, owner.id, token)?;
    Ok(true)
}

/// Gives an operator a credential without end, with this token.
pub(crate) fn issue_owner(tx: &WriteTx<'_>, owner: PrincipalId, token: &str) -> Result<(), Refusal> {
    let row = fresh(owner, CredentialKind::Owner, "Owner", token, tx.now());
    Ok(credentials::insert(tx, &row, TokenDigest::of(token).as_bytes())?)
}

/// Whether a new credential has the right form.
pub(crate) fn check_credential(input: &CredentialInput) -> Result<(), Refusal> {
    checks::id("principal_id", input.principal_id.as_str())?;
    checks::title("name", &input.name)?;
    if input.never_expires && input.expires_at.is_some() {
        return Err(Refusal::invalid("never_expires", "not together with expires_at"));
    }
    match input.kind {
        CredentialKind::Api if !input.prefix.is_empty() => Err(Refusal::invalid("prefix", "only with the kind enrollment")),
        CredentialKind::Api => check_ceiling(input.permissions.as_deref()),
        CredentialKind::Enrollment if input.permissions.is_some() => {
            Err(Refusal::invalid("permissions", "only with the kind api: an enrollment credential does nothing but enroll"))
        }
        CredentialKind::Enrollment => {
            checks::external_id("prefix", &input.prefix)?;
            if input.prefix.ends_with('/') { Ok(()) } else { Err(Refusal::invalid("prefix", "must end with /")) }
        }
        _ => Err(checks::one_of("kind", input.kind.as_str(), &["api", "enrollment"])),
    }
}

fn check_ceiling(permissions: Option<&[Permission]>) -> Result<(), Refusal> {
    let Some(permissions) = permissions else { return Ok(()) };
    if permissions.is_empty() {
        return Err(Refusal::invalid("permissions", "leave it out for no ceiling; an empty one would allow nothing"));
    }
    checks::count("permissions", permissions.len(), Permission::KNOWN.len())?;
    match permissions.iter().position(|permission| !permission.is_known()) {
        Some(i) => Err(checks::one_of(
            &format!("permissions[{i}]"),
            permissions.get(i).map_or("", Permission::as_str),
            Permission::KNOWN,
        )),
        None => Ok(()),
    }
}

/// Issues a credential.
pub(crate) fn create_credential(tx: &WriteTx<'_>, actor: &Actor, input: &CredentialInput) -> Result<IssuedCredential, Refusal> {
    let unseen = || Refusal::not_found().at("principal_id");
    let party = principals::party_by_id(tx, &input.principal_id)?.ok_or_else(unseen)?;
    if !actor.may_view(tx, &party)? && !actor.manages(tx, "credential")? {
        return Err(unseen());
    }
    actor.must_manage(tx, "credential")?;
    must_cover(tx, actor, &party)?;
    if party.disabled {
        return Err(Refusal::forbidden(format!("principal_id: this {} is disabled", party.kind)));
    }
    if input.kind == CredentialKind::Enrollment {
        actor.must_manage(tx, "identity")?;
    }
    let permissions = ceiling(actor, input)?;
    let expires_at = bounded_expiry(tx.now(), actor, input)?;
    let token = new_token()?;
    let row = CredentialRow {
        prefix: input.prefix.clone(),
        permissions,
        expires_at,
        parent_id: Some(actor.credential.id.clone()),
        ..fresh(party.id, input.kind.clone(), &input.name, &token, tx.now())
    };
    credentials::insert(tx, &row, TokenDigest::of(&token).as_bytes())?;
    Ok(IssuedCredential { token, id: row.id, kind: row.kind, expires_at })
}

/// Only operators touch operators' credentials, a delegate only those of principals whose whole authority it holds.
fn must_cover(tx: &ReadTx<'_>, actor: &Actor, party: &Party) -> Result<(), Refusal> {
    if actor.operator || party.id == actor.id {
        return Ok(());
    }
    if party.operator || !policies::holds_all_of(tx, actor, &party.id)? {
        return Err(Refusal::forbidden("this principal may do more than you"));
    }
    Ok(())
}

/// A ceiling is passed on or narrowed by whoever is under one.
fn ceiling(actor: &Actor, input: &CredentialInput) -> Result<Option<Vec<Permission>>, Refusal> {
    let mut asked = input.permissions.clone();
    if let Some(asked) = &mut asked {
        asked.sort_by_key(|word| Permission::KNOWN.iter().position(|known| *known == word.as_str()));
        asked.dedup();
    }
    let Some(own) = &actor.credential.ceiling else { return Ok(asked) };
    if input.kind == CredentialKind::Enrollment {
        return Ok(None);
    }
    match asked {
        Some(asked) if asked.iter().all(|word| own.contains(word)) => Ok(Some(asked)),
        _ => Err(Refusal::forbidden("permissions: no more than this credential has itself")),
    }
}

fn bounded_expiry(now: Timestamp, actor: &Actor, input: &CredentialInput) -> Result<Option<Timestamp>, Refusal> {
    let asked = expiry(now, input.never_expires, input.expires_at)?;
    let Some(own) = actor.credential.expires_at else { return Ok(asked) };
    match asked {
        Some(end) if end <= own => Ok(Some(end)),
        Some(_) if input.expires_at.is_none() => Ok(Some(own)),
        _ => Err(Refusal::forbidden("expires_at: no later than this credential's own end")),
    }
}

/// The newest credentials that the actor may see, and whether there are more.
pub(crate) fn list(tx: &ReadTx<'_>, actor: &Actor) -> Result<(Vec<Credential>, bool), Refusal> {
    let own = if actor.manages(tx, "credential")? { None } else { Some(&actor.id) };
    let mut rows = credentials::newest(tx, own, MAX_LIST + 1)?;
    let most = usize::try_from(MAX_LIST).unwrap_or(usize::MAX);
    let more = rows.len() > most;
    rows.truncate(most);
    Ok((rows.into_iter().map(credential).collect(), more))
}

/// The metadata of a credential as it is shown.
pub(crate) fn credential(row: CredentialRow) -> Credential {
    Credential {
        id: row.id,
        principal_id: row.principal_id,
        name: row.name,
        owner_name: row.owner_name,
        kind: row.kind,
        prefix: row.prefix,
        token_hint: row.token_hint,
        created_at: row.created_at,
        last_used_at: row.last_used_at,
        expires_at: row.expires_at,
        renewable_until: row.renewable_until,
        previous_until: row.previous_until,
        permissions: row.permissions,
        version: row.version,
        revoked: row.revoked,
        parent_credential_id: row.parent_id,
    }
}

/// Revokes a credential and, when asked, the workers that were enrolled with it.
pub(crate) fn revoke(tx: &WriteTx<'_>, actor: &Actor, (id, input): &(String, RevokeInput)) -> Result<RevokeResult, Refusal> {
    let row = credentials::by_id(tx, id)?.ok_or_else(Refusal::not_found)?;
    let own = row.principal_id == actor.id;
    if !own && !actor.manages(tx, "credential")? {
        return Err(Refusal::not_found());
    }
    let party = principals::party_by_id(tx, &row.principal_id)?.ok_or_else(Refusal::not_found)?;
    must_cover(tx, actor, &party)?;
    must_leave_an_operator(tx, &row, tx.now())?;
    stop(tx, &row)?;
    if input.revoke_workers {
        for worker in credentials::live_workers_of(tx, &row.id)? {
            stop(tx, &worker)?;
        }
    }
    Ok(RevokeResult { revoked: true })
}

/// Refuses to end the last credential of an operator that would still work at that time: nobody could come back.
fn must_leave_an_operator(tx: &ReadTx<'_>, row: &CredentialRow, at: Timestamp) -> Result<(), Refusal> {
    let counts = row.kind == CredentialKind::Owner && !row.revoked;
    if counts && credentials::other_operator_credentials(tx, &row.id, at)? == 0 {
        return Err(Refusal::conflict(ErrorCode::LastOperator, "the last operator's last credential can't be ended"));
    }
    Ok(())
}

fn stop(tx: &WriteTx<'_>, row: &CredentialRow) -> Result<(), Refusal> {
    credentials::revoke(tx, &row.id)?;
    tx.signal(Signal::Access { principal: row.principal_id.clone() });
    Ok(())
}

/// Moves the caller's own renewable lease forward, never past its hard deadline.
pub(crate) fn renew(tx: &WriteTx<'_>, actor: &Actor) -> Result<Credential, Refusal> {
    if actor.credential.kind == CredentialKind::Enrollment {
        return Err(Refusal::forbidden("an enrollment credential may only enroll and read /me"));
    }
    let row = credentials::by_id(tx, actor.credential.id.as_str())?.ok_or(Refusal::Unauthorized)?;
    let Some(hard) = row.renewable_until else {
        return Err(Refusal::conflict(ErrorCode::NotRenewable, "this credential is not a renewable lease"));
    };
    credentials::set_expiry(tx, &row.id, hard.min(tx.now().plus(RENEWAL)))?;
    let renewed = credentials::by_id(tx, row.id.as_str())?.ok_or(Refusal::Unauthorized)?;
    Ok(credential(renewed))
}
