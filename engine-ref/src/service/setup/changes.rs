//! Changing a credential that exists: its metadata, or its token.

use std::time::Duration;

use beepgrid::{Credential, CredentialEdit, CredentialId, CredentialKind, CredentialReplacement, RotateInput, Timestamp};

use super::{check_ceiling, credential, expiry, hint, must_cover, new_token};
use crate::service::actor::{Actor, TokenDigest};
use crate::service::limits::MAX_OVERLAP;
use crate::service::{Refusal, checks};
use crate::signals::Signal;
use crate::store::credentials::{self, CredentialRow};
use crate::store::{ReadTx, WriteTx, principals};

/// Whether an edit of a credential has the right form.
pub(crate) fn check_edit(input: &CredentialEdit) -> Result<(), Refusal> {
    input.name.as_ref().map_or(Ok(()), |name| checks::title("name", name))?;
    if input.never_expires && input.expires_at.is_some() {
        return Err(Refusal::invalid("never_expires", "not together with expires_at"));
    }
    if input.clear_permissions && input.permissions.is_some() {
        return Err(Refusal::invalid("clear_permissions", "not together with permissions"));
    }
    check_ceiling(input.permissions.as_deref())
}

/// A credential that the actor may change: visible, managed, and neither stronger nor longer than its own.
fn changeable(tx: &ReadTx<'_>, actor: &Actor, id: &str, version: i64) -> Result<CredentialRow, Refusal> {
    let row = credentials::by_id(tx, id)?.ok_or_else(Refusal::not_found)?;
    let manager = actor.manages(tx, "credential")?;
    if row.principal_id != actor.id && !manager {
        return Err(Refusal::not_found());
    }
    if !manager {
        return Err(Refusal::forbidden("needs the right to manage credential"));
    }
    let party = principals::party_by_id(tx, &row.principal_id)?.ok_or_else(Refusal::not_found)?;
    must_cover(tx, actor, &party)?;
    within_own(actor, &row)?;
    if row.revoked {
        return Err(Refusal::forbidden("this credential is revoked"));
    }
    if row.version != version {
        return Err(Refusal::version_conflict(row.version));
    }
    Ok(row)
}

/// Refuses what can do more or lasts longer than the actor's own credential.
fn within_own(actor: &Actor, row: &CredentialRow) -> Result<(), Refusal> {
    let own = &actor.credential;
    let stronger = match (&own.ceiling, &row.permissions) {
        (None, _) => false,
        (Some(_), None) => row.kind != CredentialKind::Enrollment,
        (Some(own), Some(other)) => !other.iter().all(|word| own.contains(word)),
    };
    let end = |expires: Option<Timestamp>| expires.unwrap_or(Timestamp::MAX);
    let longer = end(row.renewable_until.or(row.expires_at)) > end(own.expires_at);
    if own.id != row.id && (stronger || longer) {
        return Err(Refusal::forbidden("this credential can do more or lasts longer than yours"));
    }
    Ok(())
}

/// Edits a credential.
pub(crate) fn edit(tx: &WriteTx<'_>, actor: &Actor, (id, input): &(String, CredentialEdit)) -> Result<CredentialId, Refusal> {
    let mut row = changeable(tx, actor, id, input.version)?;
    if input.permissions.is_some() && row.kind != CredentialKind::Api {
        return Err(Refusal::invalid("permissions", "only an api credential has a ceiling"));
    }
    if let Some(name) = &input.name {
        row.name.clone_from(name);
    }
    if let Some(permissions) = &input.permissions {
        row.permissions = Some(permissions.clone());
    } else if input.clear_permissions {
        row.permissions = None;
    }
    if input.never_expires || input.expires_at.is_some() {
        let end = expiry(tx.now(), input.never_expires, input.expires_at)?;
        if row.renewable_until.is_some() {
            if end.is_none() {
                return Err(Refusal::invalid("never_expires", "a renewable lease keeps a hard deadline"));
            }
            row.renewable_until = end;
            row.expires_at = row.expires_at.min(end);
        } else {
            row.expires_at = end;
        }
    }
    within_own(actor, &row)?;
    if row.expires_at.is_some() {
        // Every end comes: another has to be without one.
        super::must_leave_an_operator(tx, &row, Timestamp::NEVER)?;
    }
    credentials::update(tx, &row)?;
    tx.signal(Signal::Access { principal: row.principal_id.clone() });
    Ok(row.id)
}

/// A credential as it stands, for who changed it.
pub(crate) fn for_author(tx: &ReadTx<'_>, id: &CredentialId) -> Result<Credential, Refusal> {
    credentials::by_id(tx, id.as_str())?.map(credential).ok_or_else(Refusal::not_found)
}

/// The usual overlap of a rotation, in seconds.
const DEFAULT_OVERLAP: i64 = 3_600;

/// Whether a rotation has the right form.
pub(crate) fn check_rotate(input: &RotateInput) -> Result<(), Refusal> {
    checks::range("overlap_seconds", input.overlap_seconds.unwrap_or(DEFAULT_OVERLAP), 0, MAX_OVERLAP)
}

/// Gives a credential a new token; id and instance stay. The token before works for the overlap, an older one no more.
pub(crate) fn rotate(
    tx: &WriteTx<'_>,
    actor: &Actor,
    (id, input): &(String, RotateInput),
) -> Result<CredentialReplacement, Refusal> {
    let row = changeable(tx, actor, id, input.version)?;
    let token = new_token()?;
    let overlap = u64::try_from(input.overlap_seconds.unwrap_or(DEFAULT_OVERLAP)).unwrap_or(0);
    let previous_until = (overlap > 0).then(|| tx.now().plus(Duration::from_secs(overlap)));
    credentials::rotate(tx, &row.id, TokenDigest::of(&token).as_bytes(), &hint(&token), previous_until)?;
    tx.signal(Signal::Access { principal: row.principal_id });
    Ok(CredentialReplacement { token, credential: for_author(tx, &row.id)? })
}
