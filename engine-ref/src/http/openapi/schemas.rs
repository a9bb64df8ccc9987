//! Schemas of requests and answers, by one generator each: what is required, and which words are allowed, differs.

mod text;

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

const PREFIX: &str = "#/components/schemas/";

/// Makes the schema of one type.
pub(super) type Maker = fn(&mut SchemaGenerator) -> Schema;

/// The schemas that were asked for, and what they refer to.
pub(super) struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

/// The definitions of requests that had to give way to one of an answer, with their new names.
pub(super) struct Renamed(BTreeMap<String, String>);

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        let requests = settings().for_deserialize().with_transform(RecursiveTransform(strict)).into_generator();
        let answers = settings().for_serialize().with_transform(RecursiveTransform(plain)).into_generator();
        Self { requests, answers }
    }

    pub(super) fn request(&mut self, maker: Maker) -> Value {
        maker(&mut self.requests).to_value()
    }

    pub(super) fn answer(&mut self, maker: Maker) -> Value {
        maker(&mut self.answers).to_value()
    }

    /// All definitions. What reads otherwise in a request than in an answer stands there twice, once with `Input` at its end.
    pub(super) fn finish(mut self) -> (Map<String, Value>, Renamed) {
        let mut all = self.answers.take_definitions(true);
        let requests = self.requests.take_definitions(true);
        let mut renamed = Renamed(BTreeMap::new());
        // A definition also differs if one that it refers to does: again until nothing changes.
        loop {
            let differs = |(name, schema): &(&String, &Value)| {
                let mut schema = (*schema).clone();
                renamed.rename(&mut schema);
                !renamed.0.contains_key(*name) && all.get(*name).is_some_and(|answer| *answer != schema)
            };
            let found: Vec<_> = requests.iter().filter(differs).map(|(name, _)| name.clone()).collect();
            if found.is_empty() {
                break;
            }
            renamed.0.extend(found.into_iter().map(|name| (name.clone(), format!("{name}Input"))));
        }
        for (name, mut schema) in requests {
            renamed.rename(&mut schema);
            all.insert(renamed.0.get(&name).cloned().unwrap_or(name), schema);
        }
        (all, renamed)
    }
}

impl Renamed {
    /// Corrects the references in every request body of the document's paths.
    pub(super) fn rename_in_requests(&self, paths: &mut Value) {
        let items = paths.as_object_mut().into_iter().flat_map(Map::values_mut);
        let operations = items.filter_map(Value::as_object_mut).flat_map(Map::values_mut);
        operations.filter_map(|operation| operation.get_mut("requestBody")).for_each(|body| self.rename(body));
    }

    fn rename(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.rename(item)),
            Value::Object(members) => {
                for (name, member) in members {
                    let renamed = member.as_str().and_then(|text| text.strip_prefix(PREFIX)).and_then(|text| self.0.get(text));
                    match renamed {
                        Some(renamed) if name == "$ref" => *member = json!(format!("{PREFIX}{renamed}")),
                        _ => self.rename(member),
                    }
                }
            }
            _ => {}
        }
    }
}

/// Requests: no other members, no negative numbers.
fn strict(schema: &mut Schema) {
    plain(schema);
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".to_owned(), json!(false));
    }
    let integer =
        |kind: &Value| kind == "integer" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "integer"));
    if schema.get("type").is_some_and(integer) && schema.get("minimum").is_none() {
        schema.insert("minimum".to_owned(), json!(0));
    }
}

/// Without what only Rust readers need: names of the client's items, and what serde puts in for absent members.
fn plain(schema: &mut Schema) {
    schema.remove("default");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text::for_the_wire(text);
    }
}
