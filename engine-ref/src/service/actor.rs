//! Who calls: loaded from the presented token inside the transaction of the effect, so that a revoked credential or a
//! disabled identity is refused there too.

use beepgrid::{CredentialId, CredentialKind, InstanceId, Permission, PrincipalId, PrincipalKind, Timestamp};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::permissions::{Rules, RulesCache};
use super::{Refusal, audience::Party};
use crate::store::ReadTx;
use crate::store::credentials::{self, CredentialRow};

/// The SHA-256 digest of a bearer token: all that the engine keeps of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TokenDigest([u8; 32]);

impl TokenDigest {
    pub(crate) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenDigest(..)")
    }
}

/// Proof that a valid token was presented before the request's body was read. Only the extractor makes one.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) digest: TokenDigest,
    /// For the limits on holding and for signals; the transaction looks the rest up anew.
    pub(crate) principal_id: PrincipalId,
}

/// What a call needs of the credential, before any rule is asked.
#[derive(Clone, Debug)]
pub(crate) enum Need {
    /// Nothing more than being valid.
    Any,
    /// This part of the API within the credential's ceiling.
    Ceiling(Permission),
    /// A worker credential.
    Worker,
}

/// The credential in use.
#[derive(Clone, Debug)]
pub(crate) struct ActorCredential {
    pub(crate) id: CredentialId,
    pub(crate) kind: CredentialKind,
    pub(crate) name: String,
    pub(crate) prefix: String,
    pub(crate) ceiling: Option<Vec<Permission>>,
    pub(crate) expires_at: Option<Timestamp>,
}

/// The identity behind a call, as it stands in this transaction.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) id: PrincipalId,
    pub(crate) kind: PrincipalKind,
    pub(crate) name: String,
    /// Operator authority; what a ceiling leaves of it is checked by [`Need`].
    pub(crate) operator: bool,
    pub(crate) instance_id: Option<InstanceId>,
    pub(crate) credential: ActorCredential,
    pub(crate) rules: Rules,
    /// Whether the workspace is on hold after a restore.
    pub(crate) on_hold: bool,
    /// Authenticates preview tokens; absent where no call stands behind the actor.
    pub(crate) cursor_key: Option<super::cursor::Key>,
}

impl Actor {
    /// Loads the actor; every reason why the token does not work is the same 401.
    pub(crate) fn load(tx: &ReadTx<'_>, digest: &TokenDigest, cache: &RulesCache) -> Result<Self, Refusal> {
        let row = credentials::by_digest(tx, digest.as_bytes())?.ok_or(Refusal::Unauthorized)?;
        if !row.is_valid(tx.now()) || !bool::from(row.matched_digest.ct_eq(digest.as_bytes())) {
            return Err(Refusal::Unauthorized);
        }
        let rules = Rules::new(cache, row.epoch.clone());
        let CredentialRow { id, kind, name, prefix, permissions, expires_at, .. } = row.credential;
        Ok(Self {
            id: row.principal_id,
            kind: row.principal_kind,
            name: row.principal_name,
            operator: row.operator,
            instance_id: row.instance_id,
            credential: ActorCredential { id, kind, name, prefix, ceiling: permissions, expires_at },
            rules,
            on_hold: row.on_hold,
            cursor_key: None,
        })
    }

    /// Refuses what lies outside the credential, whatever the identity may do; while the workspace is on hold, everything but an
    /// operator's reading and managing.
    pub(crate) fn need(&self, need: &Need) -> Result<(), Refusal> {
        let managing = matches!(need, Need::Any | Need::Ceiling(Permission::Read | Permission::Manage));
        if self.on_hold && !(self.operator && managing) {
            return Err(Refusal::OnHold);
        }
        if self.credential.kind == CredentialKind::Enrollment && !matches!(need, Need::Any) {
            return Err(Refusal::forbidden("an enrollment credential may only enroll and read /me"));
        }
        match need {
            Need::Any => Ok(()),
            Need::Ceiling(part) => match &self.credential.ceiling {
                Some(ceiling) if !ceiling.contains(part) => {
                    Err(Refusal::forbidden(format!("this credential's permissions do not include {part}")))
                }
                _ => Ok(()),
            },
            Need::Worker => {
                if self.credential.kind == CredentialKind::Worker && self.instance_id.is_some() {
                    return Ok(());
                }
                Err(Refusal::forbidden("only a worker credential, bound to a runtime connection, has an inbox"))
            }
        }
    }

    /// The runtime connection of a worker.
    pub(crate) fn instance(&self) -> Result<&InstanceId, Refusal> {
        self.instance_id.as_ref().ok_or_else(|| Refusal::forbidden("only a worker credential has a runtime connection"))
    }

    /// Refuses an identity that is neither operator nor manager of `kind`.
    pub(crate) fn must_manage(&self, tx: &ReadTx<'_>, kind: &str) -> Result<(), Refusal> {
        if self.manages(tx, kind)? {
            return Ok(());
        }
        Err(Refusal::forbidden(format!("needs the right to manage {kind}")))
    }

    /// Whether it is an operator or may manage resources of `kind`.
    pub(crate) fn manages(&self, tx: &ReadTx<'_>, kind: &str) -> Result<bool, Refusal> {
        Ok(self.operator || self.rules.manages(tx, &self.id, kind)?)
    }

    /// Whether it may know that `party` exists.
    pub(crate) fn may_view(&self, tx: &ReadTx<'_>, party: &Party) -> Result<bool, Refusal> {
        Ok(self.operator || party.id == self.id || self.rules.views(tx, &self.id, party)?)
    }
}
