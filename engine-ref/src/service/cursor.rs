//! Cursors: opaque, authenticated, bound to what they were made for, good for 24 hours.

use beepgrid::{ErrorCode, Timestamp};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Sha256;

use super::Refusal;
use super::limits::CURSOR_LIFE;

/// The secret that authenticates cursors: the same on every engine process of a workspace.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    fn mac(&self, scope: &Value, payload: &[u8]) -> Result<Hmac<Sha256>, Refusal> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0)
            .map_err(|_| Refusal::internal("the secret for cursors has a length that HMAC refuses"))?;
        mac.update(scope.to_string().as_bytes());
        mac.update(&[0]);
        mac.update(payload);
        Ok(mac)
    }

    /// Hides or shows a payload: the place where a page ended may be a record that its reader does not see. The tag, which depends
    /// on all of the payload, makes the mask.
    fn mask(&self, tag: &[u8], payload: &mut [u8]) -> Result<(), Refusal> {
        for (at, block) in payload.chunks_mut(32).enumerate() {
            let mask = self.mac(&serde_json::json!(["mask", at]), tag)?.finalize().into_bytes();
            block.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        }
        Ok(())
    }
}

/// A place in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cursor {
    /// The last item that was looked at.
    pub(crate) after: String,
    /// When it was made.
    pub(crate) issued_at: Timestamp,
}

impl Cursor {
    /// The text of the cursor, for one actor, list, filter and page size: the `scope`.
    pub(crate) fn seal(&self, scope: &Value, key: &Key) -> Result<String, Refusal> {
        let mut payload = serde_json::to_vec(self).map_err(|e| Refusal::internal(format!("a cursor can't be written: {e}")))?;
        let tag = key.mac(scope, &payload)?.finalize().into_bytes();
        key.mask(&tag, &mut payload)?;
        Ok(format!("{}{}", hex(&tag), hex(&payload)))
    }

    /// Reads a cursor that was made for this scope.
    pub(crate) fn open(text: &str, scope: &Value, key: &Key, now: Timestamp) -> Result<Self, Refusal> {
        let foreign = || {
            let message = "cursor: not one that was made for this caller, list, search, filters and limit";
            Refusal::conflict(ErrorCode::InvalidCursor, message)
        };
        let bytes = unhex(text).ok_or_else(foreign)?;
        let (tag, payload) = bytes.split_at_checked(32).ok_or_else(foreign)?;
        let mut payload = payload.to_vec();
        key.mask(tag, &mut payload)?;
        key.mac(scope, &payload)?.verify_slice(tag).map_err(|_| foreign())?;
        let cursor: Self = serde_json::from_slice(&payload).map_err(|_| foreign())?;
        if now.since(cursor.issued_at) > CURSOR_LIFE {
            return Err(Refusal::conflict(ErrorCode::CursorExpired, "cursor: older than 24 hours; start the list again"));
        }
        Ok(cursor)
    }
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Hexadecimal digits as bytes.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cursor_opens_only_for_its_scope_and_within_a_day() {
        let (key, now) = (Key::new([7; 32]), Timestamp::from_micros(1_000_000));
        let cursor = Cursor { after: "agt_1".into(), issued_at: now };
        let text = cursor.seal(&json!(["a"]), &key).unwrap();
        assert_eq!(Cursor::open(&text, &json!(["a"]), &key, now).unwrap(), cursor);
        assert!(!text.contains(&hex(b"agt_1")), "a cursor says where it stands");
        let code = |refusal| match refusal {
            Refusal::Conflict { code, .. } => code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(Cursor::open(&text, &json!(["b"]), &key, now).unwrap_err()), ErrorCode::InvalidCursor);
        assert_eq!(code(Cursor::open(&text, &json!(["a"]), &Key::new([8; 32]), now).unwrap_err()), ErrorCode::InvalidCursor);
        assert_eq!(code(Cursor::open("zz", &json!(["a"]), &key, now).unwrap_err()), ErrorCode::InvalidCursor);
        let late = now.plus(CURSOR_LIFE).plus(std::time::Duration::from_secs(1));
        assert_eq!(code(Cursor::open(&text, &json!(["a"]), &key, late).unwrap_err()), ErrorCode::CursorExpired);
    }
}
