//! What the contract forbids in request JSON and a JSON parser lets pass: duplicate member names, too deep nesting, U+0000,
//! lone surrogates, numbers that would lose digits. One pass over text that is known to be JSON.

use std::collections::HashSet;

use crate::service::Refusal;
use crate::service::limits::MAX_NESTING;

/// Refuses JSON that two readers could understand differently. `text` has to be valid JSON already.
pub(super) fn check(text: &str) -> Result<(), Refusal> {
    Scanner { rest: text, open: Vec::new() }.run()
}

/// What the engine would refuse in a JSON text although a parser takes it: member names that stand twice, nesting beyond 64, U+0000, lone
/// surrogates, numbers that would lose digits. `None` when there is nothing. For programs that read JSON to send it on.
#[cfg(feature = "cli")]
pub fn json_problem(text: &str) -> Option<String> {
    match check(text) {
        Ok(()) => None,
        Err(Refusal::Invalid { field, message }) if field.is_empty() => Some(message),
        Err(Refusal::Invalid { field, message }) => Some(format!("{field}: {message}")),
        Err(_) => Some("can't be sent as it is".to_owned()),
    }
}

/// An open object with the names it has had and the one whose value is being read, or an open array.
type Container = Option<Members>;

#[derive(Default)]
struct Members {
    names: HashSet<String>,
    present: String,
}

struct Scanner<'t> {
    rest: &'t str,
    open: Vec<Container>,
}

impl Scanner<'_> {
    fn run(mut self) -> Result<(), Refusal> {
        while let Some(c) = self.rest.chars().next() {
            match c {
                '{' => self.enter(Some(Members::default()))?,
                '[' => self.enter(None)?,
                '}' | ']' => {
                    self.open.pop();
                    self.skip(1);
                }
                '"' => self.string()?,
                '-' | '0'..='9' => self.number()?,
                _ => self.skip(c.len_utf8()),
            }
        }
        Ok(())
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn enter(&mut self, container: Container) -> Result<(), Refusal> {
        self.open.push(container);
        if self.open.len() > MAX_NESTING {
            return Err(Refusal::invalid("", format!("JSON may be nested at most {MAX_NESTING} levels deep")));
        }
        self.skip(1);
        Ok(())
    }

    fn string(&mut self) -> Result<(), Refusal> {
        let end = string_end(self.rest);
        let (literal, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        // A lone surrogate does not decode: the parser has refused it, or it was never decoded because nobody wanted it.
        let text: String = serde_json::from_str(literal)
            .map_err(|_| Refusal::invalid(self.place(), "text with an unpaired surrogate can't be stored"))?;
        let is_name = rest.trim_start().starts_with(':');
        if is_name && let Some(Some(members)) = self.open.last_mut() {
            members.present.clear();
        }
        if text.contains('\0') {
            return Err(Refusal::invalid(self.place(), "text with the character U+0000 can't be stored"));
        }
        if is_name && let Some(Some(members)) = self.open.last_mut() {
            members.present.clone_from(&text);
            if !members.names.insert(text) {
                return Err(Refusal::invalid(self.place(), "this member stands twice in one object"));
            }
        }
        Ok(())
    }

    /// The member at hand with those around it, cut short: `metadata.colour`.
    fn place(&self) -> String {
        let names = self.open.iter().flatten().map(|members| members.present.as_str()).filter(|name| !name.is_empty());
        names.collect::<Vec<_>>().join(".").chars().take(60).collect()
    }

    fn number(&mut self) -> Result<(), Refusal> {
        let end = self.rest.find(|c: char| !matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9')).unwrap_or(self.rest.len());
        let (literal, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        if keeps_its_digits(literal) {
            return Ok(());
        }
        let shown: String = literal.chars().take(40).collect();
        Err(Refusal::invalid(self.place(), format!("the number {shown} has more digits than can be kept; send it as text")))
    }
}

/// Where a string literal that starts `text` ends.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Whether reading the literal as a 64-bit integer or float keeps its value to the last digit that was written.
fn keeps_its_digits(literal: &str) -> bool {
    if literal.parse::<i64>().is_ok() || literal.parse::<u64>().is_ok() {
        return true;
    }
    match literal.parse::<f64>() {
        Ok(float) if float.is_finite() => decimal(literal) == decimal(&format!("{float:e}")),
        _ => false,
    }
}

/// Significant digits and exponent of a decimal literal, without sign and without zeros that say nothing.
fn decimal(literal: &str) -> (String, i64) {
    let literal = literal.trim_start_matches('-');
    let (mantissa, exponent) = literal.split_once(['e', 'E']).unwrap_or((literal, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    let trimmed = significant.trim_end_matches('0');
    if trimmed.is_empty() {
        return (String::new(), 0);
    }
    let zeros = significant.len() - trimmed.len();
    let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX / 2);
    let shift = i64::try_from(zeros).unwrap_or(0) - i64::try_from(fraction.len()).unwrap_or(0);
    (trimmed.to_owned(), exponent.saturating_add(shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> bool {
        check(text).is_err()
    }

    #[test]
    fn ordinary_json_passes() {
        let text = r#"{"a":[1,2.5,-0,1e3,0.1,1.0,"x\"{","é",null,true],"b":{"a":{"a":18446744073709551615}}}"#;
        assert!(check(text).is_ok());
    }

    #[test]
    fn duplicate_names_are_found_however_they_are_written() {
        assert!(refused(r#"{"a":1,"a":2}"#));
        assert!(refused(r#"{"a":1,"\u0061" : 2}"#));
        assert!(refused(r#"[{"b":{"a":1,"a":1}}]"#));
        assert!(!refused(r#"{"a":{"a":1},"b":["a","a"]}"#));
    }

    #[test]
    fn nesting_counts_the_outermost_as_one() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(!refused(&nested(64)));
        assert!(refused(&nested(65)));
    }

    #[test]
    fn nul_and_lone_surrogates_are_refused() {
        assert!(refused(r#"{"a":"x\u0000y"}"#));
        assert!(refused(r#"{"\u0000":1}"#));
        assert!(refused(r#"{"a":"\ud800"}"#));
        assert!(refused(r#"{"a":"\udc00x"}"#));
        assert!(!refused(r#"{"a":"\ud83d\ude00"}"#));
    }

    #[test]
    fn the_member_at_fault_is_named() {
        let field = |text: &str| match check(text) {
            Err(Refusal::Invalid { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field(r#"{"ok":[{"a":1}],"body":"x\u0000"}"#), "body");
        assert_eq!(field(r#"{"metadata":{"k":["x\u0000"]}}"#), "metadata.k");
        assert_eq!(field(r#"{"metadata":{"a":1,"b\u0000":2}}"#), "metadata");
        assert_eq!(field(r#"{"n":{"a":1,"a":2}}"#), "n.a");
        assert_eq!(field(r#"{"n":1e400}"#), "n");
    }

    #[test]
    fn numbers_that_lose_digits_are_refused() {
        for wrong in ["18446744073709551616", "0.1234567890123456789", "1e400", "-9223372036854775809", "9007199254740993.5"] {
            assert!(refused(wrong), "{wrong}");
        }
        for right in ["9223372036854775807", "0.30000000000000004", "1E2", "100e-2", "-0.0", "123456789012345680000"] {
            assert!(!refused(right), "{right}");
        }
    }
}
