//! Form: is a field within its limits and vocabulary. Every refusal names the field, the limit and, where short, what was given.

use beepgrid::{AttachmentId, ID_PREFIXES, JsonMap, Mention, Target, TargetKind};
use serde_json::Value;

use super::Refusal;
use super::limits::{
    MAX_ATTACHMENTS, MAX_BODY_BYTES, MAX_CAPABILITIES, MAX_CAPABILITY_CHARS, MAX_EXTERNAL_ID_CHARS, MAX_ID_CHARS, MAX_MENTIONS,
    MAX_METADATA_BYTES, MAX_TITLE_CHARS,
};

/// Control characters, line and paragraph separators, and the marks that turn the direction of text.
pub(crate) fn is_unsafe_in_a_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

fn chars(field: &str, text: &str, max: usize) -> Result<(), Refusal> {
    let given = text.chars().count();
    if given > max {
        return Err(Refusal::invalid(field, format!("at most {max} code points; this has {given}")));
    }
    Ok(())
}

/// A body of at most 32 KiB of UTF-8; may be empty.
pub(crate) fn body(field: &str, text: &str) -> Result<(), Refusal> {
    if text.len() > MAX_BODY_BYTES {
        return Err(Refusal::invalid(field, format!("at most {MAX_BODY_BYTES} bytes of UTF-8; this has {}", text.len())));
    }
    Ok(())
}

/// A title: at most 200 code points; may be empty.
pub(crate) fn title(field: &str, text: &str) -> Result<(), Refusal> {
    chars(field, text, MAX_TITLE_CHARS)?;
    if text.chars().any(is_unsafe_in_a_line) {
        return Err(Refusal::invalid(field, "one line without control characters or marks that turn the text's direction"));
    }
    Ok(())
}

/// A name: trimmed, 1 to 200 code points on one line. Returns it trimmed.
pub(crate) fn name(field: &str, text: &str) -> Result<String, Refusal> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(Refusal::invalid(field, format!("required, 1 to {MAX_TITLE_CHARS} code points")));
    }
    title(field, trimmed)?;
    Ok(trimmed.to_owned())
}

/// An external id: 1 to 200 code points, no control characters, not `*`, not like an id of the engine.
pub(crate) fn external_id(field: &str, text: &str) -> Result<(), Refusal> {
    if text.is_empty() || text == "*" {
        return Err(Refusal::invalid(field, format!("required, 1 to {MAX_EXTERNAL_ID_CHARS} code points, not *")));
    }
    chars(field, text, MAX_EXTERNAL_ID_CHARS)?;
    if text.chars().any(char::is_control) {
        return Err(Refusal::invalid(field, "no control characters"));
    }
    if let Some(prefix) = ID_PREFIXES.iter().find(|prefix| text.starts_with(**prefix)) {
        return Err(Refusal::invalid(field, format!("may not start with {prefix}, which the engine's own ids start with")));
    }
    Ok(())
}

/// An id or external id inside a request: not empty, not absurdly long.
pub(crate) fn id(field: &str, text: &str) -> Result<(), Refusal> {
    if text.is_empty() {
        return Err(Refusal::invalid(field, "required"));
    }
    chars(field, text, MAX_ID_CHARS)
}

/// A target with a known kind.
pub(crate) fn target(field: &str, target: &Target) -> Result<(), Refusal> {
    if !target.kind.is_known() {
        return Err(one_of(&format!("{field}.kind"), target.kind.as_str(), TargetKind::KNOWN));
    }
    id(&format!("{field}.id"), &target.id)
}

/// The refusal of a word that is not in its vocabulary.
pub(crate) fn one_of(field: &str, given: &str, known: &[&str]) -> Refusal {
    let given: String = given.chars().take(40).collect();
    Refusal::invalid(field, format!("one of {}; not {given:?}", known.join(", ")))
}

/// Application JSON of at most `max` bytes.
pub(crate) fn json(field: &str, value: &Value, max: usize) -> Result<(), Refusal> {
    let size = value.to_string().len();
    if size > max {
        return Err(Refusal::invalid(field, format!("at most {max} bytes of JSON; this has {size}")));
    }
    Ok(())
}

/// Metadata or progress: at most 16 KiB of JSON.
pub(crate) fn metadata(field: &str, map: &JsonMap) -> Result<(), Refusal> {
    json(field, &Value::Object(map.clone()), MAX_METADATA_BYTES)
}

/// Declared capabilities: at most 50 of 1 to 100 code points.
pub(crate) fn capabilities(field: &str, capabilities: &[String]) -> Result<(), Refusal> {
    count(field, capabilities.len(), MAX_CAPABILITIES)?;
    for (i, capability) in capabilities.iter().enumerate() {
        let field = format!("{field}[{i}]");
        if capability.is_empty() {
            return Err(Refusal::invalid(field, format!("1 to {MAX_CAPABILITY_CHARS} code points")));
        }
        chars(&field, capability, MAX_CAPABILITY_CHARS)?;
    }
    Ok(())
}

/// A list of at most `max` items.
pub(crate) fn count(field: &str, given: usize, max: usize) -> Result<(), Refusal> {
    if given > max {
        return Err(Refusal::invalid(field, format!("at most {max} items; this has {given}")));
    }
    Ok(())
}

/// Files of one operation: at most five different ids.
pub(crate) fn attachments(field: &str, ids: &[AttachmentId]) -> Result<(), Refusal> {
    count(field, ids.len(), MAX_ATTACHMENTS)?;
    for (i, attachment) in ids.iter().enumerate() {
        let place = format!("{field}[{i}]");
        id(&place, attachment.as_str())?;
        if ids.iter().take(i).any(|other| other == attachment) {
            return Err(Refusal::invalid(place, "the same file stands there twice"));
        }
    }
    Ok(())
}

/// A whole number between two bounds.
pub(crate) fn range(field: &str, given: i64, min: i64, max: i64) -> Result<(), Refusal> {
    if (min..=max).contains(&given) {
        return Ok(());
    }
    Err(Refusal::invalid(field, format!("from {min} to {max}; not {given}")))
}

/// Mentions whose spans lie inside `body` and begin with `@`. Whom they name is checked against the participants later.
pub(crate) fn mentions(field: &str, mentions: &[Mention], body: &str) -> Result<(), Refusal> {
    count(field, mentions.len(), MAX_MENTIONS)?;
    for (i, mention) in mentions.iter().enumerate() {
        id(&format!("{field}[{i}].principal_id"), mention.principal_id.as_str())?;
        if span(body, mention).is_none_or(|token| !token.starts_with('@')) {
            return Err(bad_span(field, i));
        }
    }
    Ok(())
}

/// The refusal of a mention whose span is not exactly `@` and the principal's name.
pub(crate) fn bad_span(field: &str, index: usize) -> Refusal {
    Refusal::invalid(
        format!("{field}[{index}]"),
        "start (inclusive) and end (exclusive) count code points of body, and the span is exactly @ and the participant's name",
    )
}

/// The code points `start..end` of `body`, if there are such.
pub(crate) fn span<'b>(body: &'b str, mention: &Mention) -> Option<&'b str> {
    let (start, end) = (usize::try_from(mention.start).ok()?, usize::try_from(mention.end).ok()?);
    if start >= end {
        return None;
    }
    let at = |n: usize| body.char_indices().map(|(at, _)| at).chain([body.len()]).nth(n);
    body.get(at(start)?..at(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use beepgrid::PrincipalId;

    fn mention(start: i64, end: i64) -> Mention {
        Mention { principal_id: PrincipalId::new("agt_1"), start, end }
    }

    #[test]
    fn spans_count_code_points() {
        let body = "👨‍👩‍👧 @Billing 2 ok";
        let found = Mention::find(body, 0, &PrincipalId::new("agt_1"), "Billing 2").unwrap();
        assert_eq!(span(body, &found), Some("@Billing 2"));
        assert_eq!(span("@a", &mention(0, 2)), Some("@a"));
        for wrong in [mention(0, 3), mention(1, 1), mention(2, 1), mention(-1, 2), mention(5, 6)] {
            assert_eq!(span("@a", &wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn names_are_trimmed_and_stay_on_one_line() {
        assert_eq!(name("name", "  Ana  ").unwrap(), "Ana");
        for wrong in ["", "   ", "a\nb", "a\u{202E}b", &"x".repeat(201)] {
            assert!(name("name", wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn external_ids_never_look_like_ours() {
        assert!(external_id("external_id", "team/builder").is_ok());
        for wrong in ["", "*", "agt_1", "per_x", "a\u{7}b"] {
            assert!(external_id("external_id", wrong).is_err(), "{wrong:?}");
        }
    }
}
