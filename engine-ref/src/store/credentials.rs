//! Credentials: digests, never tokens.

pub(crate) mod pages;

use beepgrid::{CredentialId, CredentialKind, InstanceId, Permission, PrincipalId, PrincipalKind, Timestamp};

use super::{ReadTx, Row, StoreError, WriteTx};

/// A credential as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct CredentialRow {
    pub(crate) id: CredentialId,
    pub(crate) principal_id: PrincipalId,
    pub(crate) instance_id: Option<InstanceId>,
    pub(crate) owner_name: String,
    pub(crate) kind: CredentialKind,
    pub(crate) name: String,
    pub(crate) prefix: String,
    pub(crate) token_hint: String,
    pub(crate) permissions: Option<Vec<Permission>>,
    pub(crate) created_at: Timestamp,
    pub(crate) last_used_at: Option<Timestamp>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) renewable_until: Option<Timestamp>,
    pub(crate) previous_until: Option<Timestamp>,
    pub(crate) version: i64,
    pub(crate) revoked: bool,
    pub(crate) parent_id: Option<CredentialId>,
}

/// A credential found by a token's digest, and the identity behind it.
#[derive(Clone, Debug)]
pub(crate) struct Presented {
    pub(crate) credential: CredentialRow,
    pub(crate) matched_digest: Vec<u8>,
    pub(crate) principal_id: PrincipalId,
    pub(crate) principal_kind: PrincipalKind,
    pub(crate) principal_name: String,
    pub(crate) operator: bool,
    pub(crate) disabled: bool,
    pub(crate) instance_id: Option<InstanceId>,
    pub(crate) epoch: String,
    pub(crate) on_hold: bool,
}

impl Presented {
    /// Whether the token works at `now`.
    pub(crate) fn is_valid(&self, now: Timestamp) -> bool {
        !self.credential.revoked && !self.disabled && self.credential.expires_at.is_none_or(|end| end > now)
    }
}

pub(super) fn opt_time(row: &Row, column: &'static str) -> Result<Option<Timestamp>, StoreError> {
    Ok(row.opt_int(column)?.map(Timestamp::from_micros))
}

pub(super) fn time(row: &Row, column: &'static str) -> Result<Timestamp, StoreError> {
    Ok(Timestamp::from_micros(row.int(column)?))
}

fn credential(row: &Row) -> Result<CredentialRow, StoreError> {
    Ok(CredentialRow {
        id: row.text("id")?.into(),
        principal_id: row.text("principal_id")?.into(),
        instance_id: row.opt_text("instance_id")?.map(Into::into),
        owner_name: row.text("owner_name")?,
        kind: row.text("kind")?.as_str().into(),
        name: row.text("name")?,
        prefix: row.text("prefix")?,
        token_hint: row.text("token_hint")?,
        permissions: row.opt_text("permissions")?.map(|words| words.split(' ').map(Into::into).collect()),
        created_at: time(row, "created_at")?,
        last_used_at: opt_time(row, "last_used_at")?,
        expires_at: opt_time(row, "expires_at")?,
        renewable_until: opt_time(row, "renewable_until")?,
        previous_until: opt_time(row, "previous_until")?,
        version: row.int("version")?,
        revoked: row.bool("revoked")?,
        parent_id: row.opt_text("parent_id")?.map(Into::into),
    })
}

fn presented(row: &Row, digest_column: &'static str) -> Result<Presented, StoreError> {
    Ok(Presented {
        credential: credential(row)?,
        matched_digest: row.blob(digest_column)?,
        principal_id: row.text("principal_id")?.into(),
        principal_kind: row.text("principal_kind")?.as_str().into(),
        principal_name: row.text("owner_name")?,
        operator: row.bool("operator")?,
        disabled: row.bool("disabled")?,
        instance_id: row.opt_text("instance_id")?.map(Into::into),
        epoch: row.text("epoch")?,
        on_hold: row.bool("on_hold")?,
    })
}

/// The credential whose present token, or whose token before the last rotation within its overlap, has this digest.
pub(crate) fn by_digest(tx: &ReadTx<'_>, digest: &[u8; 32]) -> Result<Option<Presented>, StoreError> {
    // Index: credentials_digest, then credentials_previous.
    let found = tx.find(
        "SELECT c.*, p.name AS owner_name, p.kind AS principal_kind, p.operator, p.disabled, w.epoch, w.on_hold
         FROM credentials c JOIN principals p ON p.id = c.principal_id CROSS JOIN workspace w
         WHERE c.digest = :digest",
        &[("digest", digest)],
    )?;
    if let Some(row) = found {
        return presented(&row, "digest").map(Some);
    }
    let previous = tx.find(
        "SELECT c.*, p.name AS owner_name, p.kind AS principal_kind, p.operator, p.disabled, w.epoch, w.on_hold
         FROM credentials c JOIN principals p ON p.id = c.principal_id CROSS JOIN workspace w
         WHERE c.previous_digest IS NOT NULL AND c.previous_digest = :digest AND c.previous_until > :now",
        &[("digest", digest), ("now", &tx.now())],
    )?;
    previous.map(|row| presented(&row, "previous_digest")).transpose()
}

/// One credential.
pub(crate) fn by_id(tx: &ReadTx<'_>, id: &str) -> Result<Option<CredentialRow>, StoreError> {
    // Index: primary key.
    tx.find(
        "SELECT c.*, p.name AS owner_name FROM credentials c JOIN principals p ON p.id = c.principal_id WHERE c.id = :id",
        &[("id", &id)],
    )?
    .map(|row| credential(&row))
    .transpose()
}

/// The newest credentials, of one principal or of all, newest first.
pub(crate) fn newest(tx: &ReadTx<'_>, principal: Option<&PrincipalId>, limit: i64) -> Result<Vec<CredentialRow>, StoreError> {
    // Index: credentials_principal for one principal, the primary key otherwise.
    let rows = match principal {
        Some(principal) => tx.query(
            "SELECT c.*, p.name AS owner_name FROM credentials c JOIN principals p ON p.id = c.principal_id
             WHERE c.principal_id = :principal ORDER BY c.id DESC LIMIT :limit",
            &[("principal", principal), ("limit", &limit)],
        )?,
        None => tx.query(
            "SELECT c.*, p.name AS owner_name FROM credentials c JOIN principals p ON p.id = c.principal_id
             ORDER BY c.id DESC LIMIT :limit",
            &[("limit", &limit)],
        )?,
    };
    rows.iter().map(credential).collect()
}

/// The valid credentials of operators besides `except`: the last one can't go.
pub(crate) fn other_operator_credentials(tx: &ReadTx<'_>, except: &CredentialId, at: Timestamp) -> Result<i64, StoreError> {
    // Few: operators are one person in version 1. Index: credentials_principal.
    tx.get(
        "SELECT count(*) AS n FROM credentials c JOIN principals p ON p.id = c.principal_id
         WHERE p.operator = TRUE AND p.disabled = FALSE AND c.id <> :except AND c.revoked = FALSE
           AND c.kind = 'owner' AND (c.expires_at IS NULL OR c.expires_at > :at)",
        &[("except", except), ("at", &at)],
    )?
    .int("n")
}

/// Stores a credential of which only the digest is known.
pub(crate) fn insert(tx: &WriteTx<'_>, row: &CredentialRow, digest: &[u8; 32]) -> Result<(), StoreError> {
    let permissions = row.permissions.as_ref().map(|words| join(words));
    tx.execute(
        "INSERT INTO credentials (id, principal_id, instance_id, kind, name, prefix, digest, token_hint, permissions, created_at,
                                  expires_at, renewable_until, version, revoked, parent_id)
         VALUES (:id, :principal, :instance, :kind, :name, :prefix, :digest, :hint, :permissions, :now,
                 :expires, :renewable, :version, :revoked, :parent)",
        &[
            ("id", &row.id),
            ("principal", &row.principal_id),
            ("instance", &row.instance_id),
            ("kind", &row.kind.as_str()),
            ("name", &row.name),
            ("prefix", &row.prefix),
            ("digest", digest),
            ("hint", &row.token_hint),
            ("permissions", &permissions),
            ("now", &row.created_at),
            ("expires", &row.expires_at),
            ("renewable", &row.renewable_until),
            ("version", &row.version),
            ("revoked", &row.revoked),
            ("parent", &row.parent_id),
        ],
    )?;
    Ok(())
}

/// A ceiling as it is stored.
pub(crate) fn join(words: &[Permission]) -> String {
    words.iter().map(Permission::as_str).collect::<Vec<_>>().join(" ")
}

/// Revokes one credential. Returns whether it was not revoked before.
pub(crate) fn revoke(tx: &WriteTx<'_>, id: &CredentialId) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "UPDATE credentials SET revoked = TRUE, version = version + 1 WHERE id = :id AND revoked = FALSE",
        &[("id", id)],
    )?;
    Ok(changed == 1)
}

/// The workers that were enrolled with a credential and are not revoked.
pub(crate) fn live_workers_of(tx: &ReadTx<'_>, parent: &CredentialId) -> Result<Vec<CredentialRow>, StoreError> {
    // Index: credentials_parent.
    tx.query(
        "SELECT c.*, p.name AS owner_name FROM credentials c JOIN principals p ON p.id = c.principal_id
         WHERE c.parent_id = :parent AND c.revoked = FALSE",
        &[("parent", parent)],
    )?
    .iter()
    .map(credential)
    .collect()
}

/// Moves the end of a renewable lease.
pub(crate) fn set_expiry(tx: &WriteTx<'_>, id: &CredentialId, expires_at: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE credentials SET expires_at = :expires, version = version + 1 WHERE id = :id",
        &[("expires", &expires_at), ("id", id)],
    )?;
    Ok(())
}

/// Moves `last_used_at` forward; an older time changes nothing.
pub(crate) fn touch(tx: &WriteTx<'_>, id: &CredentialId, used: Timestamp) -> Result<(), StoreError> {
    // Index: primary key.
    let sql = "UPDATE credentials SET last_used_at = :used WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :used)";
    tx.execute(sql, &[("id", id), ("used", &used)])?;
    Ok(())
}

/// Stores name, ceiling and ends of a credential under its next version.
pub(crate) fn update(tx: &WriteTx<'_>, row: &CredentialRow) -> Result<(), StoreError> {
    let permissions = row.permissions.as_ref().map(|words| join(words));
    tx.execute(
        "UPDATE credentials SET name = :name, permissions = :permissions, expires_at = :expires, renewable_until = :renewable,
                version = version + 1
         WHERE id = :id",
        &[
            ("name", &row.name),
            ("permissions", &permissions),
            ("expires", &row.expires_at),
            ("renewable", &row.renewable_until),
            ("id", &row.id),
        ],
    )?;
    Ok(())
}

/// Gives a credential a new token; the one before works until `previous_until`, the one before that no more.
pub(crate) fn rotate(
    tx: &WriteTx<'_>,
    id: &CredentialId,
    digest: &[u8; 32],
    hint: &str,
    previous_until: Option<Timestamp>,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE credentials
         SET previous_digest = CASE WHEN CAST(:until AS BIGINT) IS NULL THEN NULL ELSE digest END, previous_until = :until,
             digest = :digest, token_hint = :hint, version = version + 1
         WHERE id = :id",
        &[("until", &previous_until), ("digest", digest), ("hint", &hint), ("id", id)],
    )?;
    Ok(())
}
