//! JSON Schemas of what serde's derives do not tell: ids, vocabularies, and which members of a request are always there.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An id. Where one is read from a caller, the same place may take an external id, which is longer.
pub(super) fn id(generator: &SchemaGenerator) -> Schema {
    if generator.contract().is_deserialize() {
        json_schema!({ "type": "string", "maxLength": super::MAX_EXTERNAL_ID_CHARS })
    } else {
        json_schema!({ "type": "string", "maxLength": 64 })
    }
}

/// A closed list for those who write, an open one for those who read: a newer engine may know more words.
pub(super) fn vocabulary(generator: &SchemaGenerator, meaning: &str, words: &[&str]) -> Schema {
    let meaning = meaning.trim();
    if generator.contract().is_deserialize() {
        json_schema!({ "description": meaning, "type": "string", "enum": words })
    } else {
        json_schema!({ "description": meaning, "type": "string", "examples": words })
    }
}

/// A request is written by hand: what a reader may not see is left out.
pub(super) fn request(schema: &mut Schema) {
    schema.insert("required".to_owned(), serde_json::json!(["id", "state", "version"]));
}
