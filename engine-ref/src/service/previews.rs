//! Dispatch previews: who a send or ask would reach and over which routes, and a token that holds only while that stays so.

use beepgrid::{
    Action, DispatchPreview, DispatchPreviewInput, ErrorCode, PreviewRecipient, PrincipalKind, RuleAction, Target, TargetKind,
};
use serde_json::{Value, json};

use super::actor::Actor;
use super::audience::{self, Party};
use super::cursor::{self, Cursor};
use super::{Refusal, channels, checks, limits};
use crate::store::ReadTx;

const OPERATIONS: &[&str] = &["message", "ask"];

/// Whether a preview has the right form.
pub(crate) fn check_form(input: &DispatchPreviewInput) -> Result<(), Refusal> {
    if !OPERATIONS.contains(&input.operation.as_str()) {
        return Err(checks::one_of("operation", &input.operation, OPERATIONS));
    }
    if input.targets.is_empty() {
        return Err(Refusal::invalid("targets", format!("required, 1 to {} targets", limits::MAX_BATCH_TARGETS)));
    }
    checks::count("targets", input.targets.len(), limits::MAX_BATCH_TARGETS)?;
    for (i, target) in input.targets.iter().enumerate() {
        checks::target(&format!("targets[{i}]"), target)?;
        if target.kind == TargetKind::Group && input.targets.len() > 1 {
            return Err(Refusal::invalid(format!("targets[{i}].kind"), "a group is sent to by itself, not in a batch"));
        }
    }
    Ok(())
}

/// Whom something would reach now.
pub(crate) fn preview(
    tx: &ReadTx<'_>,
    actor: &Actor,
    input: &DispatchPreviewInput,
    key: &cursor::Key,
) -> Result<DispatchPreview, Refusal> {
    let audience = resolve(tx, actor, &input.targets, &input.operation, input.descriptor.as_ref())?;
    let (mut recipients, mut hidden) = (Vec::new(), 0);
    for party in &audience {
        if !actor.may_view(tx, party)? {
            hidden += 1;
            continue;
        }
        let target = match &party.instance_id {
            Some(instance) => Target::instance(instance),
            None => Target::new(party.kind.clone().into(), party.id.as_str()),
        };
        let routes = routes(tx, actor, party)?;
        recipients.push(PreviewRecipient { target, name: party.name.clone(), routes });
    }
    let scope = scope(tx, actor, &input.operation, &input.targets, &audience)?;
    let token = Cursor { after: String::new(), issued_at: tx.now() }.seal(&scope, key)?;
    Ok(DispatchPreview {
        recipients,
        count: i64::try_from(audience.len()).unwrap_or(i64::MAX),
        hidden_recipients: hidden,
        token,
        expires_at: tx.now().plus(limits::PREVIEW_LIFE),
        sends: false,
    })
}

/// Refuses a token unless it was made for this caller, operation and targets, and everybody and every route is as it was.
pub(crate) fn check(
    tx: &ReadTx<'_>,
    actor: &Actor,
    token: &str,
    targets: &[Target],
    operation: &str,
    descriptor: Option<&Action>,
) -> Result<(), Refusal> {
    if token.is_empty() {
        return Ok(());
    }
    let stale = || Refusal::conflict(ErrorCode::PreviewStale, "preview_token: the preview no longer holds; preview again");
    let key = actor.cursor_key.as_ref().ok_or_else(stale)?;
    let audience = match resolve(tx, actor, targets, operation, descriptor) {
        Ok(audience) => audience,
        // Nobody can be reached any more: the operation itself says so, with the code that it would have without a preview.
        Err(Refusal::NotFound { .. } | Refusal::Forbidden { .. }) => return Ok(()),
        Err(other) => return Err(other),
    };
    let scope = scope(tx, actor, operation, targets, &audience)?;
    match Cursor::open(token, &scope, key, tx.now()) {
        Ok(cursor) if tx.now().since(cursor.issued_at) <= limits::PREVIEW_LIFE => Ok(()),
        Ok(_) | Err(Refusal::Conflict { .. }) => Err(stale()),
        Err(other) => Err(other),
    }
}

/// The parties in the order of the targets, each once.
fn resolve(
    tx: &ReadTx<'_>,
    actor: &Actor,
    targets: &[Target],
    operation: &str,
    descriptor: Option<&Action>,
) -> Result<Vec<Party>, Refusal> {
    let action = if operation == "ask" { RuleAction::Ask } else { RuleAction::Message };
    let mut audience: Vec<Party> = Vec::new();
    for (i, target) in targets.iter().enumerate() {
        let place = format!("targets[{i}]");
        let reached = if target.kind == TargetKind::Group {
            audience::reach_group(tx, actor, target, &action).map_err(|r| r.at(&place))?
        } else {
            vec![audience::reach(tx, actor, target, &action, descriptor).map_err(|r| r.at(&place))?]
        };
        for party in reached {
            if !audience.iter().any(|other| other.id == party.id && other.instance_id == party.instance_id) {
                audience.push(party);
            }
        }
    }
    Ok(audience)
}

fn routes(tx: &ReadTx<'_>, actor: &Actor, party: &Party) -> Result<Vec<beepgrid::Route>, Refusal> {
    if party.kind == PrincipalKind::Person { channels::routes(tx, actor, &party.id) } else { Ok(Vec::new()) }
}

/// What the token is bound to.
fn scope(tx: &ReadTx<'_>, actor: &Actor, operation: &str, targets: &[Target], audience: &[Party]) -> Result<Value, Refusal> {
    let group = targets.iter().any(|target| target.kind == TargetKind::Group);
    let mut reached = Vec::new();
    for party in audience {
        reached.push(json!([party.id, party.instance_id, routes(tx, actor, party)?]));
    }
    Ok(json!(["preview", actor.id, operation, group, reached]))
}
