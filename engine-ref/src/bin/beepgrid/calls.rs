//! Calls of the engine as JSON: a command sends what it was given and prints what came back, with members that this version does not
//! know.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use beepgrid::{Client, Key, OPERATIONS, Operation};
use serde_json::Value;

use crate::failure::Refused;
use crate::job::Job;

/// An operation by its name in the table.
fn operation(name: &'static str) -> anyhow::Result<&'static Operation> {
    OPERATIONS.iter().find(|operation| operation.name == name).with_context(|| format!("{name} is no operation"))
}

/// A keyed write to the operation `name`, with `id` in its path.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    pub(crate) name: &'static str,
    pub(crate) id: Option<&'a str>,
    pub(crate) body: Value,
    pub(crate) key: Option<Key>,
    pub(crate) timeout: Duration,
}

/// Sends it; the result names the key.
pub(crate) async fn write(job: &Job, client: &Client, write: Write<'_>) -> anyhow::Result<Value> {
    let operation = operation(write.name)?;
    let path = match write.id {
        Some(id) => operation.path.replace("{id}", &encoded(id)?),
        None => operation.path.to_owned(),
    };
    let key = write.key.unwrap_or_else(Key::new);
    job.writes(Some(&key));
    let call = client.call_keyed::<Value>(operation.method, &path, Some(&write.body));
    let result = call.key(key.clone()).timeout(write.timeout).await.context(write.name)?;
    Ok(with_key(result, &key))
}

/// The result with the key under which it can be had again.
pub(crate) fn with_key(mut result: Value, key: &Key) -> Value {
    if let Value::Object(members) = &mut result {
        members.insert("idempotency_key".to_owned(), Value::from(key.as_str()));
    }
    result
}

/// One segment of a path.
fn encoded(id: &str) -> Result<String, Refused> {
    if matches!(id, "" | "." | "..") || id.len() > 800 {
        return Err(Refused::input("invalid_input", "this is not an id"));
    }
    let mut text = String::with_capacity(id.len());
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // A String takes everything.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_segment() {
        assert_eq!(encoded("req_1").expect("an id"), "req_1");
        assert_eq!(encoded("a/../b?c#d é").expect("an id"), "a%2F..%2Fb%3Fc%23d%20%C3%A9");
        for wrong in ["", ".", ".."] {
            assert!(encoded(wrong).is_err());
        }
    }
}
