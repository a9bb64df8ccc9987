//! The OpenAPI document of everything that the engine answers, made from the table of operations and the model.

#![expect(clippy::indexing_slicing, reason = "all of these are JSON objects, which take a new member through their index")]

mod schemas;
mod shapes;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use beepgrid::{ErrorCode, Method, OPERATIONS, Operation, Replay, webhook};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use self::schemas::Schemas;
use self::shapes::{Answers, Body, SHAPES, Shape};
use super::error::status;
use crate::core::Core;

/// The routes of this file.
pub(super) fn routes() -> Router<Core> {
    Router::new().route("/openapi.json", get(document))
}

async fn document() -> Response {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| build().to_string());
    ([(CONTENT_TYPE, "application/json")], text.as_str()).into_response()
}

/// Every operation.
fn operations() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter()
}

fn shape(operation: &Operation) -> Option<&'static Shape> {
    SHAPES.iter().find(|shape| shape.name == operation.name)
}

/// The whole document.
fn build() -> Value {
    let mut schemas = Schemas::new();
    let mut paths = Map::new();
    for operation in operations() {
        let Some(shape) = shape(operation) else { continue };
        let item = paths.entry(operation.path).or_insert_with(|| json!({}));
        let method = operation.method.as_str().to_ascii_lowercase();
        match item.get_mut(&method) {
            // The second name of a route, `wait` for example: another way to call the same thing.
            Some(first) => also(first, operation, shape, &mut schemas),
            None => item[method] = describe(operation, shape, &mut schemas),
        }
    }
    for (path, summary, answers) in PROBES {
        paths.insert((*path).to_owned(), json!({ "get": probe(path, summary, answers) }));
    }
    paths.insert(CALLBACK.to_owned(), json!({ "post": callback(&mut schemas) }));
    let (mut components, requests) = schemas.finish();
    components.insert("Error".to_owned(), error_schema());
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Beepgrid",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Agents and people send each other messages, ask for decisions and get answers, reliably.",
            "description": ABOUT,
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "bearer": [] }],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": errors(),
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
    });
    if let Some(paths) = document.get_mut("paths") {
        requests.rename_in_requests(paths);
    }
    document
}

const ABOUT: &str = "Unknown members of requests are refused, naming the member; in what is answered, ignore what you don't know. A member of a \
request that is null or empty counts as absent, except in JSON of your own and where an empty list has a meaning. Where the id of a target is asked \
for, your external id for it does too. Writes with an `Idempotency-Key` may be sent again: the first success is answered again, with 200.";

/// What is answered without a token.
const PROBES: &[(&str, &str, &[u16])] = &[
    ("/healthz", "Whether the process runs", &[]),
    ("/readyz", "Whether the store can be written at the moment", &[503]),
    ("/api/v1/openapi.json", "This document", &[]),
];

fn probe(path: &str, summary: &str, refusals: &[u16]) -> Value {
    let name = path.trim_start_matches("/api/v1").trim_start_matches('/').trim_end_matches(".json");
    let mut responses =
        json!({ "200": { "description": summary, "content": { "application/json": { "schema": { "type": "object" } } } } });
    for status in refusals {
        responses[status.to_string()] = refusal(*status);
    }
    json!({ "operationId": name, "summary": summary, "tags": ["process"], "security": [], "responses": responses })
}

/// What providers call; the signature stands for the token.
const CALLBACK: &str = "/api/v1/callbacks/{id}";

fn callback(schemas: &mut Schemas) -> Value {
    let header = |name: &str, text: &str| json!({ "name": name, "in": "header", "required": true, "description": text, "schema": { "type": "string" } });
    let answer = schemas.answer(SchemaGenerator::subschema_for::<beepgrid::AckResult>);
    let mut responses =
        json!({ "200": { "description": "Stored, now or before.", "content": { "application/json": { "schema": answer } } } });
    for status in [400, 401, 413, 429, 500, 503] {
        responses[status.to_string()] = refusal(status);
    }
    json!({
        "operationId": "callback",
        "summary": "Takes a webhook that the connection's secret signed",
        "description": "Signed by the Standard Webhooks scheme over the body as it comes. A repetition under the same id is stored once.",
        "tags": [beepgrid::Family::Channels.as_str()],
        "security": [],
        "parameters": [
            { "name": "id", "in": "path", "required": true, "description": "The connection.", "schema": { "type": "string" } },
            header(webhook::ID_HEADER, "The sender's id of the message, the same at every attempt."),
            header(webhook::TIMESTAMP_HEADER, "Seconds since 1970; at most five minutes away."),
            header(webhook::SIGNATURE_HEADER, "Signatures, separated by spaces."),
        ],
        "requestBody": { "required": true, "content": { "*/*": { "schema": {} } } },
        "responses": responses,
    })
}

fn describe(operation: &Operation, shape: &Shape, schemas: &mut Schemas) -> Value {
    let mut entry = json!({
        "operationId": operation.name,
        "summary": shape.summary,
        "tags": [operation.family.as_str()],
        "parameters": parameters(operation, shape),
        "responses": responses(operation, shape, schemas),
    });
    match shape.body {
        Body::Nothing => {}
        Body::Json(schema) => {
            let content = json!({ "application/json": { "schema": schemas.request(schema) } });
            entry["requestBody"] = json!({ "required": true, "content": content });
        }
        Body::File => {
            let part = json!({ "type": "string", "contentMediaType": "application/octet-stream" });
            let form = json!({ "type": "object", "properties": { "file": part }, "required": ["file"] });
            entry["requestBody"] = json!({ "required": true, "content": { "multipart/form-data": { "schema": form } } });
        }
    }
    entry
}

/// Adds the second name of a route: its summary, and its answer where that differs.
fn also(entry: &mut Value, operation: &Operation, shape: &Shape, schemas: &mut Schemas) {
    entry["description"] = json!(format!("Also `{}`: {}.", operation.name, shape.summary));
    entry["x-also"] = json!([operation.name]);
    for status in successes(operation) {
        let Some(content) = entry.pointer_mut(&format!("/responses/{status}/content")) else { continue };
        let (media_type, schema) = content_of(shape, schemas);
        match content.get_mut(media_type).and_then(|media| media.get_mut("schema")) {
            Some(present) if *present != schema => *present = json!({ "anyOf": [present.take(), schema] }),
            Some(_) => {}
            None => content[media_type] = json!({ "schema": schema }),
        }
    }
}

fn parameters(operation: &Operation, shape: &Shape) -> Vec<Value> {
    let mut parameters = Vec::new();
    if operation.path.contains("{id}") {
        parameters.push(json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }));
    }
    for parameter in shape.parameters {
        parameters.push(parameter.describe());
    }
    if operation.replay == Replay::Keyed {
        // A replacement is the one write that is refused without a key.
        let required = operation.name == "replace_request";
        parameters.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": required,
            "description": "Makes it safe to send this again. Kept for as long as what it made.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$" },
        }));
    }
    parameters
}

/// The statuses of a success: what a key protects answers a replay with 200.
fn successes(operation: &Operation) -> Vec<u16> {
    if operation.status == 201 && operation.replay == Replay::Keyed { vec![201, 200] } else { vec![operation.status] }
}

fn content_of(shape: &Shape, schemas: &mut Schemas) -> (&'static str, Value) {
    match shape.answers {
        Answers::Json(schema) => ("application/json", schemas.answer(schema)),
        Answers::Bytes => {
            ("application/octet-stream", json!({ "type": "string", "contentMediaType": "application/octet-stream" }))
        }
        Answers::Events => ("text/event-stream", json!({ "type": "string" })),
    }
}

fn responses(operation: &Operation, shape: &Shape, schemas: &mut Schemas) -> Value {
    let mut responses = json!({});
    for status in successes(operation) {
        let (media_type, schema) = content_of(shape, schemas);
        let description = match status {
            201 => "Made now.",
            200 if operation.status == 201 => "Made before, under the same key.",
            _ => "Done.",
        };
        // Only the bytes of a file come under their own type.
        let media_type = if matches!(shape.answers, Answers::Bytes) { "*/*" } else { media_type };
        responses[status.to_string()] = json!({ "description": description, "content": { media_type: { "schema": schema } } });
    }
    for status in refusals(operation, shape) {
        responses[status.to_string()] = refusal(status);
    }
    responses
}

/// The statuses of refusals that this operation can answer with.
fn refusals(operation: &Operation, shape: &Shape) -> Vec<u16> {
    let mut statuses = vec![400, 401, 403, 404, 429, 500, 503];
    if operation.is_write() || operation.name == "dispatch_preview" {
        statuses.push(409);
    }
    if matches!(operation.name, "list_events" | "query" | "directory" | "request_trace") {
        statuses.push(410);
    }
    if operation.method != Method::Get && !matches!(shape.body, Body::Nothing) || operation.method == Method::Post {
        statuses.extend([413, 415]);
    }
    if matches!(operation.name, "plan_overseer" | "coordinate") {
        statuses.extend([502, 504]);
    }
    statuses.sort_unstable();
    statuses
}

fn refusal(status: u16) -> Value {
    json!({ "$ref": format!("#/components/responses/Error{status}") })
}

/// A response for each status, naming its codes.
fn errors() -> Map<String, Value> {
    let mut codes = std::collections::BTreeMap::<u16, Vec<&str>>::new();
    for code in ErrorCode::KNOWN {
        codes.entry(status(&ErrorCode::from(*code)).as_u16()).or_default().push(code);
    }
    let answer = |(status, codes): (u16, Vec<&str>)| {
        let listed: Vec<_> = codes.iter().map(|code| format!("`{code}`")).collect();
        let schema = json!({ "$ref": "#/components/schemas/Error" });
        let mut response = json!({ "description": listed.join(", "), "content": { "application/json": { "schema": schema } } });
        if matches!(status, 429 | 503) {
            let seconds = json!({ "description": "Seconds to wait.", "schema": { "type": "integer", "minimum": 1 } });
            response["headers"] = json!({ "Retry-After": seconds });
        }
        (format!("Error{status}"), response)
    };
    codes.into_iter().map(answer).collect()
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "description": "Why a call was refused.",
        "properties": {
            "code": { "type": "string", "description": "What went wrong, for programs.", "examples": ErrorCode::KNOWN },
            "message": { "type": "string", "description": "What went wrong, for people. Names the field where there is one." },
        },
        "required": ["code", "message"],
    })
}
