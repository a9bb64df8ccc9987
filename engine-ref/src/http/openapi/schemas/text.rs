//! The client's documentation, put into words for readers of the wire: numbers for constants, members for fields.

use beepgrid::{
    MAX_ANSWER_AUDIENCE, MAX_ANSWER_BYTES, MAX_ATTACHMENTS, MAX_BATCH_TARGETS, MAX_BODY_BYTES, MAX_CHOICES, MAX_EVENT_PAGE,
    MAX_LEASE, MAX_MENTIONS, MAX_METADATA_BYTES, MAX_PAGE_ITEMS, MAX_POLICY_RULES, MAX_ROLE_RULES, MAX_SEARCH_CHARS,
    MAX_TITLE_CHARS, MAX_WAIT_MS, Timestamp,
};

/// What a constant that a description links to stands for.
fn constant(name: &str) -> Option<String> {
    #[expect(clippy::cast_possible_wrap, reason = "the largest is a few million")]
    let value = match name {
        "MAX_ANSWER_AUDIENCE" => MAX_ANSWER_AUDIENCE as i64,
        "MAX_ANSWER_BYTES" => MAX_ANSWER_BYTES as i64,
        "MAX_ATTACHMENTS" => MAX_ATTACHMENTS as i64,
        "MAX_BATCH_TARGETS" => MAX_BATCH_TARGETS as i64,
        "MAX_BODY_BYTES" => MAX_BODY_BYTES as i64,
        "MAX_CHOICES" => MAX_CHOICES as i64,
        "MAX_EVENT_PAGE" => MAX_EVENT_PAGE,
        "MAX_LEASE" => MAX_LEASE,
        "MAX_MENTIONS" => MAX_MENTIONS as i64,
        "MAX_METADATA_BYTES" => MAX_METADATA_BYTES as i64,
        "MAX_PAGE_ITEMS" => MAX_PAGE_ITEMS,
        "MAX_POLICY_RULES" => MAX_POLICY_RULES as i64,
        "MAX_ROLE_RULES" => MAX_ROLE_RULES as i64,
        "MAX_SEARCH_CHARS" => MAX_SEARCH_CHARS as i64,
        "MAX_TITLE_CHARS" => MAX_TITLE_CHARS as i64,
        "MAX_WAIT_MS" => MAX_WAIT_MS,
        "Timestamp::NEVER" => return Some(format!("`{}`", Timestamp::NEVER)),
        _ => return None,
    };
    Some(value.to_string())
}

/// A description without links to items of the client.
///
/// ``[`Request::version`]`` is the member `version`, ``[`MAX_LEASE`]`` its number. Sentences about the client alone are left out.
pub(super) fn for_the_wire(text: &str) -> String {
    let mut sentences = text.split_inclusive(". ").filter(|sentence| !is_about_the_client(sentence)).collect::<String>();
    sentences.truncate(sentences.trim_end().len());
    let mut plain = String::with_capacity(sentences.len());
    let mut rest = sentences.as_str();
    while let Some((before, (name, after))) =
        rest.split_once("[`").and_then(|(before, rest)| Some((before, rest.split_once("`]")?)))
    {
        plain.push_str(before);
        plain += &constant(name).unwrap_or_else(|| format!("`{}`", name.rsplit("::").next().unwrap_or(name)));
        rest = after;
    }
    plain + rest
}

/// About what a type of the client prints or offers.
fn is_about_the_client(sentence: &str) -> bool {
    sentence.starts_with("`Debug`") || sentence.trim_start().starts_with("See [`")
}

#[cfg(test)]
mod tests {
    use super::for_the_wire;

    #[test]
    fn links_become_numbers_and_members() {
        for (given, wire) in [
            ("At most [`MAX_LEASE`]; 10 when absent.", "At most 100; 10 when absent."),
            ("[`Request::version`] as last read.", "`version` as last read."),
            ("When it expires; [`Timestamp::NEVER`] if it does not.", "When it expires; `9999-01-01T00:00:00Z` if it does not."),
            ("A fresh session. `Debug` does not show the token.", "A fresh session."),
            ("A part is here. See [`Request::is_partial`].", "A part is here."),
            ("`queued` or `sent`.", "`queued` or `sent`."),
        ] {
            assert_eq!(for_the_wire(given), wire);
        }
    }
}
