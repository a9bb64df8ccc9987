//! Credentials: issued, edited, rotated, revoked, renewed.

use std::time::Duration;

use anyhow::Context as _;
use beepgrid::{CredentialEdit, CredentialInput, EnrollInput, ErrorCode, Permission, RevokeInput, RotateInput};

use crate::stage::{Log, Stage, check, refused, same};

pub(crate) async fn visit(log: &mut Log, stage: &Stage) -> anyhow::Result<()> {
    Log::region("Credentials");
    let owner = &stage.owner;
    let wanted = CredentialInput::api(&stage.builder_id).name("Tour key").never_expires(true).permissions(vec![Permission::Read]);
    let issued = log.call("a key of Builder's that only reads", owner.create_credential(wanted)).await?;
    let listed = log.call("finds it, without its token", owner.credentials()).await?;
    let metadata = listed.into_iter().find(|one| one.id == issued.id).context("the new credential is not listed")?;
    same("its ceiling", &metadata.permissions, &Some(vec![Permission::Read]))?;
    let edit = CredentialEdit::new(metadata.version).name("Renamed tour key");
    let edited = log.call("gets another name", owner.edit_credential(&issued.id, edit)).await?;
    same("its name", &edited.name.as_str(), &"Renamed tour key")?;
    let rotation = RotateInput::new(edited.version).overlap_seconds(0);
    let rotated = log.call("a new token, the old one ends at once", owner.rotate_credential(&issued.id, rotation)).await?;
    same("the id", &rotated.credential.id, &issued.id)?;
    refused("the old token", owner.with_token(issued.token)?.me().await, &ErrorCode::Unauthorized)?;
    let reader = owner.with_token(rotated.token)?;
    same("who has it", &reader.me().await?.id().cloned(), &Some(stage.builder_id.clone()))?;
    log.call("ends it for good", owner.revoke_credential(&issued.id, RevokeInput::new(false))).await?;
    refused("the revoked token", reader.me().await, &ErrorCode::Unauthorized)?;

    // Two days from when the engine made the key, so that this machine's clock plays no part.
    let deadline = metadata.created_at.plus(Duration::from_secs(48 * 3600));
    let input = EnrollInput::new(stage.name("lease"), "Lease example").renewable(true).expires_at(deadline);
    let lease = log.call("a runtime with a lease to renew", owner.enroll(input)).await?;
    let renewed = log.call("moves its end towards the deadline", owner.with_token(lease.token)?.renew_credential()).await?;
    same("the deadline", &renewed.renewable_until, &Some(deadline))?;
    check("it ends by then", renewed.expires_at.is_some_and(|end| end <= deadline))
}
