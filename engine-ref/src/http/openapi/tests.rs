use std::collections::BTreeSet;
use std::path::Path;

use super::*;

#[test]
fn every_operation_has_a_shape_and_every_shape_an_operation() {
    let operations: Vec<_> = operations().map(|operation| operation.name).collect();
    let shapes: Vec<_> = SHAPES.iter().map(|shape| shape.name).collect();
    let (a, b): (BTreeSet<_>, BTreeSet<_>) = (operations.iter().collect(), shapes.iter().collect());
    assert_eq!(a, b);
    assert_eq!(operations.len(), shapes.len(), "none stands twice");
}

#[test]
fn every_operation_stands_in_the_document() {
    let document = build();
    for operation in operations() {
        let entry = &document["paths"][operation.path][operation.method.as_str().to_ascii_lowercase()];
        let named = entry["operationId"] == operation.name
            || entry["x-also"].as_array().is_some_and(|also| also.contains(&json!(operation.name)));
        assert!(named, "{}", operation.name);
        assert!(entry["responses"][operation.status.to_string()].is_object(), "{}", operation.name);
    }
}

#[test]
fn every_reference_leads_somewhere_and_no_definition_is_left_over() {
    let document = build();
    let mut wanted = BTreeSet::new();
    collect(&document, &mut wanted);
    for reference in &wanted {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
    for part in ["schemas", "responses"] {
        for name in document["components"][part].as_object().unwrap().keys() {
            let used = wanted.contains(&format!("#/components/{part}/{name}"));
            // 405 belongs to no operation.
            assert!(used || matches!(name.as_str(), "Error405"), "{name}");
        }
    }
}

#[test]
fn requests_are_closed_and_answers_open() {
    let document = build();
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["SendInput"]["additionalProperties"], false);
    assert!(schemas["Message"].get("additionalProperties").is_none());
    assert!(schemas["RequestKind"].get("enum").is_none());
    assert!(schemas["RequestKindInput"]["enum"].is_array());
    assert_eq!(schemas["Request"]["required"], json!(["id", "state", "version"]));
}

/// Readers of the document do not read Rust.
#[test]
fn no_text_names_an_item_of_the_client() {
    const HEADERS: &[&str] =
        &["Accept", "Accept: text/event-stream", "Prefer: return=minimal", "Idempotency-Key", "Last-Event-ID"];
    let mut texts = Vec::new();
    collect_texts(&build(), &mut texts);
    assert!(texts.len() > 500);
    for text in texts {
        for (at, code) in text.split('`').enumerate().filter(|(at, _)| at % 2 == 1) {
            let time = code.parse::<beepgrid::Timestamp>().is_ok();
            let item = code.contains("::") || code.starts_with(|letter: char| letter.is_ascii_uppercase());
            assert!(!item || time || HEADERS.contains(&code), "{at}: {text}");
        }
        assert!(!text.contains("[`"), "{text}");
    }
}

/// The document in the repository is what the code says. `BEEPGRID_UPDATE_OPENAPI=1` writes it anew.
#[test]
fn the_document_in_the_repository_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let built = build();
    if std::env::var_os("BEEPGRID_UPDATE_OPENAPI").is_some() {
        std::fs::write(&path, format!("{built:#}\n")).unwrap();
    }
    let kept: Value = std::fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    assert!(
        kept == built,
        "engine-ref/openapi.json is out of date; look at the change after\n    \
         BEEPGRID_UPDATE_OPENAPI=1 cargo test -p beepgrid-engine-ref --lib openapi"
    );
}

fn collect_texts(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, into)),
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_str() {
                    Some(text) if matches!(name.as_str(), "description" | "summary") => into.push(text.to_owned()),
                    _ => collect_texts(member, into),
                }
            }
        }
        _ => {}
    }
}

fn collect(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_str() {
                    Some(text) if name == "$ref" => _ = into.insert(text.to_owned()),
                    _ => collect(member, into),
                }
            }
        }
        _ => {}
    }
}
