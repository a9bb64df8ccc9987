//! The headers of a part: its name, the file's name with every letter of it, its media type.

use super::malformed;
use crate::service::{Refusal, file_names};

/// What a part says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) file_name: String,
    pub(super) media_type: String,
}

impl Part {
    pub(super) fn parse(headers: &[u8]) -> Result<Self, Refusal> {
        let (mut disposition, mut media_type) = (None, None);
        for line in headers.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = line.split_at(colon);
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            match name.trim_ascii().to_ascii_lowercase().as_slice() {
                b"content-disposition" => disposition = Some(value),
                b"content-type" => media_type = Some(value),
                b"content-transfer-encoding" if !is_plain_encoding(value) => {
                    return Err(malformed("send the bytes as they are, without a Content-Transfer-Encoding"));
                }
                _ => {}
            }
        }
        let (form, parameters) = split_parameters(disposition.unwrap_or_default());
        let parameter = |wanted: &str| parameters.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_slice());
        if !form.eq_ignore_ascii_case("form-data") || parameter("name") != Some(b"file") {
            return Err(malformed("required: one part named `file` and no other"));
        }
        let name = match parameter("filename*") {
            Some(extended) => from_extended(extended)?,
            None => from_plain(parameter("filename").unwrap_or_default())?,
        };
        let media_type =
            std::str::from_utf8(media_type.unwrap_or_default()).map_err(|_| malformed("its Content-Type is not UTF-8"))?;
        Ok(Self { file_name: file_names::file_name(&name)?, media_type: file_names::media_type(media_type)? })
    }
}

fn is_plain_encoding(value: &[u8]) -> bool {
    [&b"binary"[..], b"8bit", b"7bit"].iter().any(|plain| value.eq_ignore_ascii_case(plain))
}

/// A name as forms carry it: raw UTF-8 in which browsers write the three characters that would end it as `%22`, `%0D`, `%0A`.
fn from_plain(name: &[u8]) -> Result<String, Refusal> {
    let name = std::str::from_utf8(name).map_err(|_| not_utf8())?;
    Ok(name.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n"))
}

/// A name as RFC 8187 writes it: `UTF-8''` and percent-encoded bytes.
fn from_extended(value: &[u8]) -> Result<String, Refusal> {
    let text = std::str::from_utf8(value).map_err(|_| not_utf8())?;
    let mut pieces = text.splitn(3, '\'');
    let (Some(charset), Some(_), Some(encoded)) = (pieces.next(), pieces.next(), pieces.next()) else {
        return Err(malformed("filename* has to be UTF-8'' and the encoded name"));
    };
    if !charset.eq_ignore_ascii_case("utf-8") {
        return Err(not_utf8());
    }
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let (byte, next) = match (first, after) {
            (b'%', [high, low, next @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, next),
                _ => (*first, after),
            },
            _ => (*first, after),
        };
        bytes.push(byte);
        rest = next;
    }
    String::from_utf8(bytes).map_err(|_| not_utf8())
}

fn digit(hex: u8) -> Option<u8> {
    char::from(hex).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn not_utf8() -> Refusal {
    malformed("the file name is not UTF-8")
}

/// The first word of a header's value, and its parameters with their quotes undone.
pub(super) fn split_parameters(value: &[u8]) -> (String, Vec<(String, Vec<u8>)>) {
    let mut pieces = Pieces(value);
    let word = String::from_utf8_lossy(pieces.until(b";")).trim().to_owned();
    let mut parameters = Vec::new();
    while pieces.skip() {
        let name = String::from_utf8_lossy(pieces.until(b"=;")).trim().to_ascii_lowercase();
        let value = if pieces.0.first() == Some(&b'=') {
            pieces.skip();
            pieces.value()
        } else {
            Vec::new()
        };
        parameters.push((name, value));
    }
    (word, parameters)
}

struct Pieces<'v>(&'v [u8]);

impl<'v> Pieces<'v> {
    fn until(&mut self, ends: &[u8]) -> &'v [u8] {
        let at = self.0.iter().position(|byte| ends.contains(byte)).unwrap_or(self.0.len());
        let (piece, rest) = self.0.split_at(at);
        self.0 = rest;
        piece
    }

    /// Passes one byte; false at the end.
    fn skip(&mut self) -> bool {
        match self.0.split_first() {
            Some((_, rest)) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> Vec<u8> {
        self.0 = self.0.trim_ascii_start();
        if self.0.first() != Some(&b'"') {
            return self.until(b";").trim_ascii().to_vec();
        }
        let mut value = Vec::new();
        self.skip();
        loop {
            match self.0 {
                // Only these two are escaped by anybody; before others a backslash is one, as in a path of Windows.
                [b'\\', escaped @ (b'"' | b'\\'), rest @ ..] => {
                    value.push(*escaped);
                    self.0 = rest;
                }
                [b'"', rest @ ..] => {
                    self.0 = rest;
                    self.until(b";");
                    return value;
                }
                [byte, rest @ ..] => {
                    value.push(*byte);
                    self.0 = rest;
                }
                [] => return value,
            }
        }
    }
}
