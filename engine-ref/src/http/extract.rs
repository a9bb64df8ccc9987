//! Extractors that answer with our error shape: strict JSON bodies, queries, keys, paths.

use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::json;
use crate::core::Core;
use crate::service::Refusal;
use crate::service::limits::MAX_REQUEST_BYTES;

/// How long a body may stand still: a caller that stalls does not hold its connection for ever.
pub(super) const STALL: Duration = Duration::from_secs(30);

/// The application's own JSON, where emptiness is a value.
const OPAQUE: &[&str] = &["answer", "result", "progress", "metadata", "arguments", "config"];
/// Lists that may be empty and mean it.
const MEANT_EMPTY: &[&str] = &["rules", "permissions", "overrides", "destinations", "capabilities", "members"];

/// A JSON body, read strictly: see `json.rs`, and every unknown member is refused by name.
#[derive(Debug)]
pub(super) struct Input<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Core> for Input<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &Core) -> Result<Self, Refusal> {
        let media_type = request.headers().get(CONTENT_TYPE).cloned();
        let bytes = read_body(request, MAX_REQUEST_BYTES).await?;
        if bytes.is_empty() {
            return parse(Value::Object(serde_json::Map::new())).map(Input);
        }
        if !media_type.as_ref().is_some_and(|value| is_json(value.as_bytes())) {
            return Err(Refusal::conflict(
                beepgrid::ErrorCode::UnsupportedMediaType,
                "the body has to be JSON: send Content-Type: application/json",
            ));
        }
        from_bytes(&bytes).map(Input)
    }
}

/// The whole body. One that is too large is read on and thrown away up to twice the limit: a client that is still sending hears why
/// it is refused, instead of finding the connection closed.
pub(super) async fn read_body(request: Request, most: usize) -> Result<Vec<u8>, Refusal> {
    let mut body = request.into_body();
    let (mut bytes, mut seen) = (Vec::new(), 0);
    let stalled = || Refusal::invalid("", format!("no more of the body came for {} seconds", STALL.as_secs()));
    while let Some(frame) = tokio::time::timeout(STALL, body.frame()).await.map_err(|_| stalled())? {
        let frame = frame.map_err(|_| Refusal::invalid("", "the body broke off"))?;
        let Some(data) = frame.data_ref() else { continue };
        seen += data.len();
        if seen <= most {
            bytes.extend_from_slice(data);
        } else if seen <= 2 * most {
            bytes = Vec::new();
        } else {
            break;
        }
    }
    if seen > most {
        return Err(Refusal::TooLarge { message: format!("a body may have at most {most} bytes here") });
    }
    Ok(bytes)
}

fn is_json(media_type: &[u8]) -> bool {
    let essence = media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(b"application/json")
        || (essence.to_ascii_lowercase().starts_with(b"application/") && essence.to_ascii_lowercase().ends_with(b"+json"))
}

fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let text = std::str::from_utf8(bytes).map_err(|_| Refusal::invalid("", "the body is not UTF-8"))?;
    if text.starts_with('\u{FEFF}') {
        return Err(Refusal::invalid("", "the body starts with a byte order mark; send plain UTF-8"));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    json::check(text)?;
    parse(value)
}

fn not_json(error: &serde_json::Error) -> Refusal {
    Refusal::invalid("", format!("the body is not JSON as the contract reads it: {error}"))
}

/// From checked JSON to the input: empty members are absent, unknown ones are refused.
fn parse<T: DeserializeOwned>(mut value: Value) -> Result<T, Refusal> {
    if !value.is_object() {
        return Err(Refusal::invalid("", "the body has to be a JSON object"));
    }
    strip_empty(&mut value);
    refuse_negative(&value, "")?;
    let mut unknown = None;
    let mut note = |path: serde_ignored::Path<'_>| {
        unknown.get_or_insert_with(|| path.to_string());
    };
    let ignored = serde_ignored::Deserializer::new(value, &mut note);
    let parsed = serde_path_to_error::deserialize(ignored).map_err(|error| {
        let path = error.path().to_string();
        Refusal::invalid(if path == "." { String::new() } else { path }, error.into_inner().to_string())
    })?;
    match unknown {
        None => Ok(parsed),
        Some(path) => Err(Refusal::invalid(path.replace(".?", ""), "there is no such field")),
    }
}

/// Refuses numbers below zero: no number that the engine itself reads has such values. The application's own JSON may.
fn refuse_negative(value: &Value, place: &str) -> Result<(), Refusal> {
    match value {
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            Err(Refusal::invalid(place, format!("a whole number from 0 on; not {number}")))
        }
        Value::Array(items) => {
            items.iter().enumerate().try_for_each(|(at, item)| refuse_negative(item, &format!("{place}[{at}]")))
        }
        Value::Object(members) => {
            members.iter().filter(|(name, _)| !OPAQUE.contains(&name.as_str())).try_for_each(|(name, member)| {
                let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                refuse_negative(member, &place)
            })
        }
        _ => Ok(()),
    }
}

/// Takes out members that are empty and so count as absent; not from the application's own JSON.
fn strip_empty(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(strip_empty),
        Value::Object(members) => {
            let opaque = |name: &str| OPAQUE.contains(&name);
            members.iter_mut().filter(|(name, _)| !opaque(name)).for_each(|(_, member)| strip_empty(member));
            members.retain(|name, member| match member {
                Value::Null => false,
                _ if opaque(name) => true,
                Value::Array(items) => !items.is_empty() || MEANT_EMPTY.contains(&name.as_str()),
                Value::String(text) => !text.is_empty(),
                Value::Object(members) => !members.is_empty(),
                _ => true,
            });
        }
        _ => {}
    }
}

/// The query string; unknown parameters are refused by name.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Core> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, core: &Core) -> Result<Self, Refusal> {
        let Query(pairs) = Query::<Vec<(String, String)>>::from_request_parts(parts, core)
            .await
            .map_err(|_| Refusal::invalid("", "the query string can't be read"))?;
        let mut members = serde_json::Map::new();
        for (name, text) in pairs {
            if text.contains('\0') {
                return Err(Refusal::invalid(name, "text with the character U+0000 can't be used"));
            }
            if members.contains_key(&name) {
                return Err(Refusal::invalid(name, "this parameter stands twice"));
            }
            members.insert(name, Value::String(text));
        }
        parse(Value::Object(members)).map(Params)
    }
}

/// A whole number in a query string.
pub(super) fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let text = <Option<String> as serde::Deserialize>::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(|_| serde::de::Error::custom("a whole number"))).transpose()
}

/// The id that the path names.
#[derive(Debug)]
pub(super) struct PathId(pub(super) String);

impl FromRequestParts<Core> for PathId {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, core: &Core) -> Result<Self, Refusal> {
        // An id that can't be read is one that does not exist.
        let Path(id) = Path::<String>::from_request_parts(parts, core).await.map_err(|_| Refusal::not_found())?;
        if id.contains('\0') { Err(Refusal::not_found()) } else { Ok(Self(id)) }
    }
}

/// The header that names a key.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const KEY_FORM: &str = "1 to 200 bytes of printable ASCII without spaces";

/// The caller's idempotency key, if it sent one.
#[derive(Debug)]
pub(super) struct MaybeKey(pub(super) Option<String>);

impl FromRequestParts<Core> for MaybeKey {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Core) -> Result<Self, Refusal> {
        let mut values = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = values.next() else { return Ok(Self(None)) };
        let bytes = value.as_bytes();
        let well_formed = (1..=200).contains(&bytes.len()) && bytes.iter().all(|byte| (0x21..=0x7E).contains(byte));
        if values.next().is_some() || !well_formed {
            return Err(Refusal::invalid("Idempotency-Key", KEY_FORM));
        }
        Ok(Self(value.to_str().ok().map(str::to_owned)))
    }
}

/// Refuses a key where it would promise what the route does not keep.
#[derive(Debug)]
pub(super) struct NoKey;

impl FromRequestParts<Core> for NoKey {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Core) -> Result<Self, Refusal> {
        if parts.headers.contains_key(IDEMPOTENCY_KEY) {
            return Err(Refusal::invalid("Idempotency-Key", "this route takes no key: it can't be repeated safely"));
        }
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use beepgrid::{AskInput, HeartbeatInput, SendInput};

    fn field_of(refusal: Refusal) -> String {
        match refusal {
            Refusal::Invalid { field, message } => format!("{field}: {message}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn empty_members_are_absent() {
        let input: SendInput = from_bytes(
            br#"{"target":{"kind":"","id":""},"conversation_id":"cnv_1","body":"x","title":"","mentions":[],"attachment_ids":null}"#,
        )
        .unwrap();
        assert_eq!(input, SendInput::reply(&"cnv_1".into(), "x"));
        let heartbeat: HeartbeatInput = from_bytes(br#"{"capabilities":[],"progress":{"a":""}}"#).unwrap();
        assert_eq!(heartbeat.capabilities, Some(vec![]));
        assert_eq!(heartbeat.progress.unwrap()["a"], "");
    }

    #[test]
    fn unknown_members_are_named_with_their_place() {
        let top = from_bytes::<SendInput>(br#"{"body":"x","bodyy":1}"#).unwrap_err();
        assert!(field_of(top).starts_with("bodyy:"));
        let inner = from_bytes::<AskInput>(br#"{"target":{"kind":"agent","id":"a","name":"b"},"body":"x"}"#).unwrap_err();
        assert!(field_of(inner).starts_with("target.name:"));
    }

    #[test]
    fn a_wrong_type_names_its_field() {
        let wrong = from_bytes::<SendInput>(br#"{"body":1}"#).unwrap_err();
        assert!(field_of(wrong).starts_with("body:"));
        for number in ["1.0", "1e3", "\"1\"", "-1", "9223372036854775808"] {
            let body = format!(r#"{{"outcome":"answered","version":{number}}}"#);
            assert!(
                field_of(from_bytes::<beepgrid::ResponseInput>(body.as_bytes()).unwrap_err()).starts_with("version:"),
                "{number}"
            );
        }
    }
}
