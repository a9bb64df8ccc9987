//! The form of what is asked, answered and replaced: everything that can be told without looking at the store.

use beepgrid::{
    Action, AskBatchInput, AskInput, Outcome, ReplaceRequestInput, RequestKind, ResponseInput, Target, TargetKind, Timestamp,
};
use serde_json::Value;

use crate::service::limits::{
    MAX_ANSWER_BYTES, MAX_BATCH_TARGETS, MAX_CHOICES, MAX_PREVIEW_TOKEN_BYTES, MAX_RESOURCE_CHARS, MAX_TITLE_CHARS,
};
use crate::service::{Refusal, checks};

/// The kind that is asked for.
pub(crate) fn kind(input: &AskInput) -> RequestKind {
    input.kind.clone().unwrap_or(RequestKind::Question)
}

/// An ask to one target or within one conversation. Returns it with what only repeats a default left out.
pub(crate) fn ask(input: AskInput) -> Result<AskInput, Refusal> {
    match (&input.target, &input.conversation_id) {
        (Some(target), None) => checks::target("target", target)?,
        (None, Some(id)) => checks::id("conversation_id", id.as_str())?,
        _ => return Err(Refusal::invalid("target", "exactly one of target and conversation_id")),
    }
    refuse(input.reuse_direct && input.target.is_none(), "reuse_direct", "only with target")?;
    if input.target.as_ref().is_some_and(is_group) {
        refuse(input.blocking, "blocking", "not for a group: only one individual agent can be waited for")?;
        refuse(input.action.is_some(), "action", "not for a group")?;
    }
    content(&input)?;
    Ok(canonical(input))
}

/// One request, one digest under its key: a default that is spelled out is the same as none.
fn canonical(mut input: AskInput) -> AskInput {
    input.kind = input.kind.filter(|kind| *kind != RequestKind::Question);
    if input.action.is_none() {
        input.expires_at = input.expires_at.filter(|at| *at != Timestamp::NEVER);
    }
    input
}

/// The same ask to several individual targets.
pub(crate) fn ask_batch(mut input: AskBatchInput) -> Result<AskBatchInput, Refusal> {
    if input.targets.is_empty() {
        return Err(Refusal::invalid("targets", format!("required, 1 to {MAX_BATCH_TARGETS} individual targets")));
    }
    checks::count("targets", input.targets.len(), MAX_BATCH_TARGETS)?;
    for (i, target) in input.targets.iter().enumerate() {
        let field = format!("targets[{i}]");
        checks::target(&field, target)?;
        refuse(is_group(target), &format!("{field}.kind"), "a batch takes individual targets; ask a group by itself")?;
    }
    let request = &input.request;
    refuse(request.target.is_some(), "request.target", "not in a batch: targets says whom")?;
    refuse(request.conversation_id.is_some(), "request.conversation_id", "not in a batch: targets says whom")?;
    refuse(!request.preview_token.is_empty(), "request.preview_token", "not in a batch: it stands beside targets")?;
    preview_token(&input.preview_token)?;
    content(request).map_err(|refusal| refusal.at("request"))?;
    input.request = canonical(input.request);
    Ok(input)
}

/// A decision, as far as it can be told without the request.
pub(crate) fn response(input: &ResponseInput) -> Result<(), Refusal> {
    if !input.outcome.is_known() {
        return Err(checks::one_of("outcome", input.outcome.as_str(), Outcome::KNOWN));
    }
    input.answer.as_ref().map_or(Ok(()), |answer| checks::json("answer", answer, MAX_ANSWER_BYTES))
}

/// The text of a replacement.
pub(crate) fn replace(input: &ReplaceRequestInput) -> Result<(), Refusal> {
    body(&input.body)?;
    checks::mentions("mentions", &input.mentions, &input.body)
}

/// Choices: at most 20 different texts of 1 to 200 code points.
pub(crate) fn choices(field: &str, choices: &[String]) -> Result<(), Refusal> {
    checks::count(field, choices.len(), MAX_CHOICES)?;
    for (i, choice) in choices.iter().enumerate() {
        let place = format!("{field}[{i}]");
        refuse(choice.trim().is_empty(), &place, "a choice is not empty")?;
        let count = choice.chars().count();
        refuse(count > MAX_TITLE_CHARS, &place, &format!("at most {MAX_TITLE_CHARS} code points; this has {count}"))?;
        let earlier = choices.iter().take(i).any(|other| other == choice);
        refuse(earlier, &place, "the same choice stands there twice")?;
    }
    Ok(())
}

/// Whether a decision fits the request that it is about: outcome by kind, answer by choices.
pub(crate) fn fits(input: &ResponseInput, kind: &RequestKind, choices: &[String]) -> Result<(), Refusal> {
    let allowed = outcomes(kind);
    if !allowed.contains(&input.outcome) {
        let words: Vec<&str> = allowed.iter().map(Outcome::as_str).collect();
        return Err(Refusal::invalid(
            "outcome",
            format!("a {kind} ends with one of {}; not {}", words.join(", "), input.outcome),
        ));
    }
    if choices.is_empty() || !matches!(input.outcome, Outcome::Answered | Outcome::Approved) {
        return Ok(());
    }
    match &input.answer {
        Some(Value::String(answer)) if choices.contains(answer) => Ok(()),
        None if *kind != RequestKind::Question => Ok(()),
        None => Err(Refusal::invalid("answer", "required: exactly one of the request's choices")),
        Some(_) => Err(Refusal::invalid("answer", "exactly one of the request's choices")),
    }
}

/// How a request of this kind may be decided.
pub(super) fn outcomes(kind: &RequestKind) -> &'static [Outcome] {
    match kind {
        RequestKind::Question => &[Outcome::Answered],
        RequestKind::Approval => &[Outcome::Approved, Outcome::Denied],
        RequestKind::Task => &[Outcome::Completed, Outcome::Failed, Outcome::Rejected],
        _ => &[],
    }
}

fn content(input: &AskInput) -> Result<(), Refusal> {
    let kind = kind(input);
    if !kind.is_known() {
        return Err(checks::one_of("kind", kind.as_str(), RequestKind::KNOWN));
    }
    checks::title("title", &input.title)?;
    body(&input.body)?;
    choices("choices", &input.choices)?;
    checks::mentions("mentions", &input.mentions, &input.body)?;
    checks::attachments("attachment_ids", &input.attachment_ids)?;
    preview_token(&input.preview_token)?;
    if !input.shared_key.is_empty() {
        refuse(kind != RequestKind::Question, "shared_key", "only for questions: approvals and tasks are never reused")?;
        shared_key("shared_key", &input.shared_key)?;
    }
    match &input.action {
        Some(_) if kind != RequestKind::Approval => Err(Refusal::invalid("action", "only an approval binds an action")),
        Some(described) => action(described).map_err(|refusal| refusal.at("action")),
        None => Ok(()),
    }
}

/// The key of a reusable answer: 1 to 200 code points without control characters.
pub(crate) fn shared_key(field: &str, given: &str) -> Result<(), Refusal> {
    text(field, given, MAX_TITLE_CHARS)
}

fn body(given: &str) -> Result<(), Refusal> {
    refuse(given.trim().is_empty(), "body", "required: what is asked")?;
    checks::body("body", given)
}

/// An action, as far as it can be told without the store.
pub(crate) fn action(action: &Action) -> Result<(), Refusal> {
    text("name", &action.name, MAX_TITLE_CHARS)?;
    checks::id("executor_id", action.executor_id.as_str())?;
    text("resource", &action.resource, MAX_RESOURCE_CHARS)?;
    if !action.resource_version.is_empty() {
        text("resource_version", &action.resource_version, MAX_TITLE_CHARS)?;
    }
    text("operation_key", &action.operation_key, MAX_TITLE_CHARS)?;
    checks::json("arguments", &Value::Object(action.arguments.clone()), MAX_ANSWER_BYTES)
}

/// Text that an identity, a rule or an answer is compared with: kept as it is, so nothing that can't be seen in it.
fn text(field: &str, given: &str, max: usize) -> Result<(), Refusal> {
    refuse(given.trim().is_empty(), field, &format!("required, 1 to {max} code points"))?;
    let count = given.chars().count();
    if count > max {
        return Err(Refusal::invalid(field, format!("at most {max} code points; this has {count}")));
    }
    refuse(given.chars().any(char::is_control), field, "no control characters")
}

fn preview_token(token: &str) -> Result<(), Refusal> {
    refuse(token.len() > MAX_PREVIEW_TOKEN_BYTES, "preview_token", &format!("at most {MAX_PREVIEW_TOKEN_BYTES} bytes"))
}

fn is_group(target: &Target) -> bool {
    target.kind == TargetKind::Group
}

fn refuse(wrong: bool, field: &str, message: &str) -> Result<(), Refusal> {
    if wrong { Err(Refusal::invalid(field, message)) } else { Ok(()) }
}
