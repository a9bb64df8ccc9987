//! What can't be right, found before anything is sent. The engine checks everything again, and more.

use std::fmt::Display;

use crate::error::InvalidInput;
use crate::model::{
    Action, AskBatchInput, AskInput, ChatMembershipInput, EventOptions, ExecutionState, JsonMap, MAX_ANSWER_AUDIENCE,
    MAX_ANSWER_BYTES, MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS, MAX_BATCH_TARGETS, MAX_BODY_BYTES, MAX_CHOICES, MAX_EVENT_PAGE,
    MAX_MENTIONS, MAX_METADATA_BYTES, MAX_PAGE_ITEMS, MAX_SEARCH_CHARS, MAX_TITLE_CHARS, MembershipOperation, Mention,
    OverseerInput, PrincipalId, QueryInput, RedeemInput, ReplaceRequestInput, ReportInput, ResponseInput, SendBatchInput,
    SendInput, StartChatInput, Target, TargetKind,
};

type Checked = Result<(), InvalidInput>;

/// The engine keeps 200 code points of a name; this is what it reads.
const MAX_FILE_NAME_BYTES: usize = 16 * 1024;
const MAX_MEDIA_TYPE_BYTES: usize = 200;
const MAX_CAPABILITIES: usize = 50;
const MAX_CAPABILITY_CHARS: usize = 100;

fn refuse(field: impl Into<String>, problem: impl Into<String>) -> Checked {
    Err(InvalidInput::new(field, problem))
}

fn at_most(field: &str, count: usize, limit: usize, unit: impl Display) -> Checked {
    if count <= limit { Ok(()) } else { refuse(field, format!("has {count} {unit}, at most {limit} are allowed")) }
}

fn within(field: &str, value: i64, range: std::ops::RangeInclusive<i64>) -> Checked {
    if range.contains(&value) {
        return Ok(());
    }
    refuse(field, format!("is {value}, and must be {} to {}", range.start(), range.end()))
}

fn chars(field: &str, text: &str, limit: usize) -> Checked {
    at_most(field, text.chars().count(), limit, "characters")
}

fn not_empty(field: &str, text: &str) -> Checked {
    if text.is_empty() { refuse(field, "must not be empty") } else { Ok(()) }
}

fn text_and_files(field: &str, body: &str, files: usize) -> Checked {
    at_most(field, body.len(), MAX_BODY_BYTES, "bytes of UTF-8")?;
    at_most("attachment_ids", files, MAX_ATTACHMENTS, "files")
}

fn body_or_file(field: &str, body: &str, files: usize) -> Checked {
    text_and_files(field, body, files)?;
    if body.is_empty() && files == 0 { refuse(field, "must not be empty when there is no file") } else { Ok(()) }
}

fn choices(field: &str, choices: &[String]) -> Checked {
    at_most(field, choices.len(), MAX_CHOICES, "choices")?;
    for (index, choice) in choices.iter().enumerate() {
        let field = format!("{field}[{index}]");
        not_empty(&field, choice)?;
        chars(&field, choice, MAX_TITLE_CHARS)?;
    }
    Ok(())
}

fn mentions(mentions: &[Mention], body: &str) -> Checked {
    at_most("mentions", mentions.len(), MAX_MENTIONS, "mentions")?;
    let length = i64::try_from(body.chars().count()).unwrap_or(i64::MAX);
    for (index, mention) in mentions.iter().enumerate() {
        if mention.start < 0 || mention.start >= mention.end || mention.end > length {
            return refuse(format!("mentions[{index}]"), "is not a span of code points of the body");
        }
    }
    Ok(())
}

fn target(field: &str, target: &Target) -> Checked {
    not_empty(&format!("{field}.id"), &target.id)
}

fn one_audience(to: Option<&Target>, conversation: bool) -> Checked {
    match (to, conversation) {
        (Some(to), false) => target("target", to),
        (None, true) => Ok(()),
        (Some(_), true) => refuse("target", "and `conversation_id` exclude each other; give one"),
        (None, false) => refuse("target", "or `conversation_id` is needed"),
    }
}

fn individuals(targets: &[Target]) -> Checked {
    if targets.is_empty() {
        return refuse("targets", "must not be empty");
    }
    at_most("targets", targets.len(), MAX_BATCH_TARGETS, "targets")?;
    for (index, one) in targets.iter().enumerate() {
        let field = format!("targets[{index}]");
        target(&field, one)?;
        if one.kind == TargetKind::Group {
            return refuse(format!("{field}.kind"), "must be an individual, not a group");
        }
    }
    Ok(())
}

pub(super) fn send(input: &SendInput) -> Checked {
    one_audience(input.target.as_ref(), input.conversation_id.as_ref().is_some_and(|id| !id.is_empty()))?;
    body_or_file("body", &input.body, input.attachment_ids.len())?;
    chars("title", &input.title, MAX_TITLE_CHARS)?;
    mentions(&input.mentions, &input.body)
}

pub(super) fn send_batch(input: &SendBatchInput) -> Checked {
    individuals(&input.targets)?;
    body_or_file("body", &input.body, input.attachment_ids.len())?;
    chars("title", &input.title, MAX_TITLE_CHARS)
}

pub(super) fn start_chat(input: &StartChatInput) -> Checked {
    individuals(&input.targets)?;
    body_or_file("body", &input.body, input.attachment_ids.len())?;
    chars("title", &input.title, MAX_TITLE_CHARS)?;
    choices("choices", &input.choices)?;
    mentions(&input.mentions, &input.body)
}

pub(super) fn membership(input: &ChatMembershipInput) -> Checked {
    at_most("members", input.members.len(), MAX_BATCH_TARGETS, "members")?;
    chars("title", &input.title, MAX_TITLE_CHARS)?;
    let changes_members = matches!(input.operation, MembershipOperation::Add | MembershipOperation::Remove);
    if changes_members && input.members.is_empty() {
        return refuse("members", "must not be empty");
    }
    if input.operation == MembershipOperation::Rename { not_empty("title", &input.title) } else { Ok(()) }
}

fn question(prefix: &str, input: &AskInput) -> Checked {
    text_and_files(&format!("{prefix}body"), &input.body, input.attachment_ids.len())?;
    // Neither a title nor a file says what is asked.
    not_empty(&format!("{prefix}body"), input.body.trim())?;
    chars(&format!("{prefix}title"), &input.title, MAX_TITLE_CHARS)?;
    choices(&format!("{prefix}choices"), &input.choices)?;
    mentions(&input.mentions, &input.body)?;
    match &input.action {
        Some(described) => action(&format!("{prefix}action"), described),
        None => Ok(()),
    }
}

fn action(prefix: &str, action: &Action) -> Checked {
    json(&format!("{prefix}.arguments"), &action.arguments, MAX_ANSWER_BYTES)?;
    not_empty(&format!("{prefix}.operation_key"), &action.operation_key)
}

pub(super) fn ask(input: &AskInput) -> Checked {
    one_audience(input.target.as_ref(), input.conversation_id.as_ref().is_some_and(|id| !id.is_empty()))?;
    question("", input)
}

pub(super) fn ask_batch(input: &AskBatchInput) -> Checked {
    individuals(&input.targets)?;
    if input.request.target.is_some() || input.request.conversation_id.is_some() {
        return refuse("request.target", "must be absent; the batch has its own targets");
    }
    question("request.", &input.request)
}

pub(super) fn respond(input: &ResponseInput) -> Checked {
    within("version", input.version, 1..=i64::MAX)?;
    match &input.answer {
        Some(answer) => json("answer", answer, MAX_ANSWER_BYTES),
        None => Ok(()),
    }
}

pub(super) fn redeem(input: &RedeemInput) -> Checked {
    action("action", &input.action)
}

pub(super) fn report(input: &ReportInput) -> Checked {
    if input.state == ExecutionState::Authorized {
        return refuse("state", "is what redeeming says; report running, succeeded, failed or unknown");
    }
    json("result", &input.result, MAX_ANSWER_BYTES)
}

pub(super) fn publication(key: &str, audience: &[PrincipalId]) -> Checked {
    not_empty("key", key)?;
    chars("key", key, MAX_TITLE_CHARS)?;
    if audience.is_empty() {
        return refuse("audience", "must not be empty");
    }
    at_most("audience", audience.len(), MAX_ANSWER_AUDIENCE, "identities")
}

pub(super) fn version(version: i64) -> Checked {
    within("version", version, 1..=i64::MAX)
}

pub(super) fn replace(input: &ReplaceRequestInput) -> Checked {
    version(input.version)?;
    at_most("body", input.body.len(), MAX_BODY_BYTES, "bytes of UTF-8")?;
    not_empty("body", input.body.trim())?;
    mentions(&input.mentions, &input.body)
}

pub(super) fn name(name: &str) -> Checked {
    not_empty("name", name.trim())?;
    chars("name", name.trim(), MAX_TITLE_CHARS)
}

pub(super) fn external_id(field: &str, id: &str) -> Checked {
    not_empty(field, id)?;
    chars(field, id, crate::model::MAX_EXTERNAL_ID_CHARS)
}

pub(super) fn metadata(field: &str, metadata: &JsonMap) -> Checked {
    json(field, metadata, MAX_METADATA_BYTES)
}

pub(super) fn capabilities(capabilities: &[String]) -> Checked {
    at_most("capabilities", capabilities.len(), MAX_CAPABILITIES, "capabilities")?;
    for (index, capability) in capabilities.iter().enumerate() {
        chars(&format!("capabilities[{index}]"), capability, MAX_CAPABILITY_CHARS)?;
    }
    Ok(())
}

pub(super) fn rules(count: usize, limit: usize) -> Checked {
    at_most("rules", count, limit, "rules")
}

pub(super) fn count(field: &str, count: usize, limit: usize) -> Checked {
    at_most(field, count, limit, "items")
}

pub(super) fn range(field: &str, value: Option<i64>, range: std::ops::RangeInclusive<i64>) -> Checked {
    value.map_or(Ok(()), |value| within(field, value, range))
}

fn json(field: &str, value: &impl serde::Serialize, limit: usize) -> Checked {
    // A counter instead of a text: the value is written once more when it is sent.
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => at_most(field, counter.0, limit, "bytes of JSON"),
        Err(_) => refuse(field, "can't be written as JSON"),
    }
}

/// A page of a collection.
pub(super) fn query(input: &QueryInput) -> Checked {
    not_empty("collection", &input.collection)?;
    chars("search", &input.search, MAX_SEARCH_CHARS)?;
    input.limit.map_or(Ok(()), |limit| within("limit", limit, 1..=MAX_PAGE_ITEMS))
}

/// A page of events.
pub(super) fn events(options: &EventOptions) -> Checked {
    within("after", options.after, 0..=i64::MAX)?;
    options.limit.map_or(Ok(()), |limit| within("limit", limit, 1..=MAX_EVENT_PAGE))
}

pub(super) fn file(name: &str, media_type: &str, bytes: usize) -> Checked {
    if name.contains('\0') {
        return refuse("file_name", "has the character U+0000, which no text may have");
    }
    at_most("file_name", name.len(), MAX_FILE_NAME_BYTES, "bytes of UTF-8")?;
    if media_type.len() > MAX_MEDIA_TYPE_BYTES || !media_type.bytes().all(|byte| (0x20..=0x7E).contains(&byte)) {
        return refuse("media_type", "is not a media type such as text/plain; leave it empty for bytes of no known kind");
    }
    if bytes == 0 {
        refuse("file", "has no bytes, and must have at least one")
    } else {
        at_most("file", bytes, MAX_ATTACHMENT_BYTES, "bytes")
    }
}

/// Something to do, and where to look.
pub(super) fn overseer(input: &OverseerInput) -> Checked {
    not_empty("prompt", &input.prompt)?;
    at_most("prompt", input.prompt.len(), MAX_BODY_BYTES, "bytes of UTF-8")?;
    match input.target.as_ref().map(|target| &target.kind) {
        None | Some(TargetKind::Agent | TargetKind::Group | TargetKind::Other(_)) => Ok(()),
        Some(_) => refuse("target.kind", "must be agent or group"),
    }
}
