//! Idempotency keys, validated once.

use std::fmt;
use std::str::FromStr;

/// The longest key in bytes.
const MAX_BYTES: usize = 200;

/// A name for one write: sent again under the same key, it has its effect once.
///
/// A key belongs to who calls and to the operation. Make one with [`Key::new`] and keep it until the outcome is known, or derive it
/// from something stable (`format!("reply/{delivery_id}").parse::<Key>()`) so that it survives a restart.
///
/// ```
/// use beepgrid::Key;
///
/// let key: Key = "reply/dlv_1".parse()?;
/// assert_eq!(key.as_str(), "reply/dlv_1");
/// assert!("".parse::<Key>().is_err());
/// # Ok::<(), beepgrid::KeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// The text is no key: 1 to 200 bytes of printable ASCII without spaces.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key is 1 to {MAX_BYTES} bytes of printable ASCII without spaces")]
#[non_exhaustive]
pub struct KeyError;

impl Key {
    /// Makes a fresh key that nobody else has.
    #[expect(clippy::new_without_default, reason = "every key differs; a default would suggest a fixed one")]
    pub fn new() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }

    /// The key as it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::try_from(text.to_owned())
    }
}

impl TryFrom<String> for Key {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        let fits = (1..=MAX_BYTES).contains(&text.len()) && text.bytes().all(|byte| (0x21..=0x7E).contains(&byte));
        if fits { Ok(Self(text)) } else { Err(KeyError) }
    }
}

impl TryFrom<&str> for Key {
    type Error = KeyError;

    fn try_from(text: &str) -> Result<Self, KeyError> {
        text.parse()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bounds_are_1_and_200_bytes() {
        assert!("a".parse::<Key>().is_ok());
        assert!("a".repeat(200).parse::<Key>().is_ok());
        assert_eq!("a".repeat(201).parse::<Key>(), Err(KeyError));
        assert_eq!("".parse::<Key>(), Err(KeyError));
    }

    #[test]
    fn spaces_controls_and_other_scripts_are_refused() {
        for text in ["a b", " a", "a\n", "a\t", "\0", "ключ", "é", "a\u{7f}"] {
            assert_eq!(text.parse::<Key>(), Err(KeyError), "{text:?}");
        }
    }

    #[test]
    fn fresh_keys_differ_and_are_keys() {
        let (a, b) = (Key::new(), Key::new());
        assert_ne!(a, b);
        assert_eq!(a.as_str().parse::<Key>().unwrap(), a);
    }

    proptest! {
        #[test]
        fn what_parses_is_exactly_what_the_contract_allows(text in "\\PC{0,210}") {
            let allowed = !text.is_empty() && text.len() <= 200 && text.bytes().all(|b| (0x21..=0x7e).contains(&b));
            prop_assert_eq!(text.parse::<Key>().is_ok(), allowed);
        }

        #[test]
        fn printable_ascii_round_trips(text in "[!-~]{1,200}") {
            prop_assert_eq!(text.parse::<Key>().unwrap().to_string(), text);
        }
    }
}
