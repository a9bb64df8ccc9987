//! Every operation of the table: routed, refused without a token and without the right, strict, true to its key, documented.

use std::collections::BTreeSet;
use std::path::Path;

use beepgrid::{OPERATIONS, Operation, Replay};
use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Answer, Api, Call, Members};
use beepgrid_tests::world::World;
use reqwest::Method;
use serde_json::{Value, json};

on_both_stores!(
    every_operation_is_routed_and_refused_without_a_token,
    every_operation_is_refused_without_the_right,
    every_body_is_refused_with_an_unknown_member,
    every_operation_takes_or_refuses_a_key_as_the_table_says,
    every_operation_stands_in_the_document,
    every_route_stands_in_the_document,
);

fn operations() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter()
}

/// A body with the right form, so that what is refused is refused for the reason that is looked at.
fn sample(name: &str) -> Option<Value> {
    let target = json!({"kind": "agent", "id": "somebody"});
    let rule = json!({"action": "view", "target_kind": "agent", "target_id": "*"});
    let action = json!({"name": "deploy", "executor_id": "agt_1", "resource": "web", "operation_key": "one"});
    let ask = json!({"target": target, "body": "?"});
    Some(match name {
        "enroll" => json!({"agent": "covered/one", "name": "One"}),
        "create_credential" => json!({"principal_id": "per_1", "kind": "api"}),
        "edit_credential" => json!({"version": 1, "name": "New"}),
        "revoke_credential" | "invalidate_answer" | "heartbeat" | "inbox" | "requeue_delivery" => json!({}),
        "rotate_credential" => json!({"version": 1}),
        "send" | "send_minimal" => json!({"target": target, "body": "x"}),
        "send_batch" => json!({"targets": [target], "body": "x"}),
        "dispatch_preview" => json!({"operation": "message", "targets": [target]}),
        "start_chat" => json!({"targets": [target], "title": "Chat", "body": "x"}),
        "change_chat_membership" => json!({"version": 1, "operation": "rename", "title": "New"}),
        "ask" => ask,
        "ask_batch" => json!({"targets": [target], "request": {"body": "?"}}),
        "respond" => json!({"outcome": "answered", "answer": "yes", "version": 1}),
        "cancel" | "supersede" => json!({"version": 1}),
        "replace_request" => json!({"version": 1, "body": "?"}),
        "set_request_blocking" => json!({"blocking": true}),
        "publish_answer" => json!({"request_id": "req_1", "key": "k", "audience": ["per_1"]}),
        "answer_and_share" => json!({"version": 1, "outcome": "answered", "answer": "x", "key": "k", "audience": ["per_1"]}),
        "redeem" => json!({"action": action}),
        "report_execution" => json!({"state": "running"}),
        "ack" => json!({"generation": 1}),
        "ack_many" => json!({"items": [{"id": "dlv_1", "generation": 1}]}),
        "extend" => json!({"generation": 1, "seconds": 60}),
        "release" => json!({"generation": 1}),
        "create_person" | "create_agent" | "create_service" => json!({"name": "N", "external_id": "covered"}),
        "edit_person" | "edit_agent" | "edit_service" | "edit_group" | "edit_role" => json!({"version": 1, "name": "New"}),
        "set_person_status" | "set_agent_status" | "set_service_status" => json!({"version": 1, "disabled": true}),
        "create_group" => json!({"name": "G", "purpose": "contacts", "members": []}),
        "create_role" => json!({"name": "R", "rules": [rule]}),
        "bind_role" => json!({"role_id": "rol_1", "subject_kind": "principal", "subject_id": "per_1"}),
        "preview_role" => json!({"rules": [rule]}),
        "explain_permission" => json!({"action": "view", "target": target}),
        "save_contact_permissions" => json!({"subject": target, "rules": [rule], "version": 0}),
        "preview_contact_permissions" => json!({"subject": target, "rules": [rule], "version": 0}),
        "query" => json!({"collection": "agents"}),
        "capabilities" => json!({"target": target}),
        "create_connection" => json!({"kind": "webhook", "name": "Hook", "config": {"url": "https://example.com/hook"}}),
        "edit_connection" => json!({"version": 1, "name": "New"}),
        "create_destination" => {
            json!({"connection_id": "con_1", "principal_id": "per_1", "address": "a@example.com", "mode": "primary"})
        }
        "test_connection" => json!({"destination_id": "dst_1"}),
        "edit_destination" => json!({"version": 1, "priority": 1}),
        "create_account_link" => json!({"connection_id": "con_1", "principal_id": "per_1", "provider_account": "x"}),
        "preview_route" => json!({"target": target, "operation": "message"}),
        "save_delivery_preferences" => {
            json!({"version": 0, "default": {"mode": "preferred", "destinations": [], "followup_seconds": 0}})
        }
        "update_assistance" => json!({"overseer": true}),
        "plan_overseer" | "coordinate" => json!({"prompt": "Who is there?"}),
        "confirm_overseer" => json!({"plan_id": "pln_1"}),
        "requeue_deliveries" => json!({"agent_id": "agt_1"}),
        _ => return None,
    })
}

/// What a query string has to say for the operation to be looked at.
fn parameters(name: &str) -> &'static str {
    match name {
        "directory" => "?kind=agent",
        "role_bindings" => "?subject_id=per_1",
        _ => "",
    }
}

fn is_upload(operation: &Operation) -> bool {
    matches!(operation.name, "stage_attachment" | "upload_attachment")
}

fn bare(api: &Api, operation: &Operation) -> Call {
    let path = operation.path.strip_prefix("/api/v1").expect("under the base").replace("{id}", "none_1");
    let method: Method = operation.method.as_str().parse().expect("a method");
    api.call(method, &format!("{path}{}", parameters(operation.name)))
}

/// The call with a body of the right form, where it takes one.
fn whole(api: &Api, operation: &Operation) -> Call {
    let call = bare(api, operation);
    let call = if operation.name == "replace_request" { call.key("covered") } else { call };
    if is_upload(operation) {
        let form = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\ncontent-type: text/plain\r\n\r\nx\r\n--b--\r\n";
        return call.header("content-type", "multipart/form-data; boundary=b").bytes(form);
    }
    match sample(operation.name) {
        Some(body) => call.json(&body),
        None => call,
    }
}

/// What is wrong with an answer that should be this refusal and name `word`.
fn fault(operation: &Operation, answer: &Answer, (status, code): (u16, &str), word: &str) -> Option<String> {
    let right = (answer.status, answer.code().as_str()) == (status, code) && answer.text.contains(word);
    (!right).then(|| format!("{}: {} {}", operation.name, answer.status, answer.text))
}

fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn complains_of_the_key(answer: &Answer) -> bool {
    answer.status == 400 && answer.text.contains("Idempotency-Key")
}

async fn every_operation_is_routed_and_refused_without_a_token(w: World) {
    let mut faults = Vec::new();
    for operation in operations() {
        // 404 and 405 are what answers when nothing is routed there.
        faults.extend(fault(operation, &whole(&w.owner.api.nobody(), operation).await, (401, "unauthorized"), ""));
    }
    assert_none(&faults);
}

async fn every_operation_is_refused_without_the_right(w: World) {
    let body = json!({"principal_id": w.ann.id, "kind": "enrollment", "prefix": "covered/"});
    let launcher = w.owner.api.with(&w.owner.api.post("/credentials", body).await.created().s("token"));
    let mut faults = Vec::new();
    for operation in operations() {
        // What a launcher may do is refused to somebody else, or says no more than who asks.
        let (api, refusal) = match operation.name {
            "me" => (&launcher, (200, "")),
            "enroll" => (&w.ann.api, (403, "forbidden")),
            _ => (&launcher, (403, "forbidden")),
        };
        faults.extend(fault(operation, &whole(api, operation).await, refusal, ""));
    }
    assert_none(&faults);
}

async fn every_body_is_refused_with_an_unknown_member(w: World) {
    let document = w.owner.api.nobody().get("/openapi.json").await.ok();
    let mut faults = Vec::new();
    for operation in operations() {
        let documented = !entry(&document, operation)["requestBody"].is_null();
        let Some(mut body) = sample(operation.name) else {
            assert!(!documented || is_upload(operation), "{} takes a body, but has no sample", operation.name);
            continue;
        };
        body["no_such_member"] = json!(1);
        let call = bare(&w.owner.api, operation);
        let call = if operation.name == "replace_request" { call.key("covered") } else { call };
        let answer = call.json(&body).await;
        faults.extend(fault(operation, &answer, (400, "invalid_request"), "no_such_member"));
    }
    assert_none(&faults);
}

async fn every_operation_takes_or_refuses_a_key_as_the_table_says(w: World) {
    for operation in operations() {
        let (good, wrong) = (format!("covered-{}", operation.name), "not a key");
        let with = |key: &str| whole(&w.owner.api, operation).key(key);
        match operation.replay {
            Replay::Read => assert!(!complains_of_the_key(&with(wrong).await), "{}", operation.name),
            Replay::Once => assert!(complains_of_the_key(&with(&good).await), "{}", operation.name),
            Replay::Keyed => {
                assert!(complains_of_the_key(&with(wrong).await), "{}", operation.name);
                let (first, again) = (with(&good).await, with(&good).await);
                assert!(!complains_of_the_key(&first), "{}", operation.name);
                // What was done is answered again; what was refused is looked at again.
                if first.status < 300 {
                    assert_eq!((again.status, again.text), (200, first.text), "{}", operation.name);
                }
            }
        }
    }
}

async fn every_operation_stands_in_the_document(w: World) {
    let document = w.owner.api.nobody().get("/openapi.json").await.ok();
    assert_eq!(document["openapi"], "3.1.0");
    for operation in operations() {
        let entry = entry(&document, operation);
        let also = entry["x-also"].as_array().is_some_and(|names| names.contains(&json!(operation.name)));
        assert!(also || entry["operationId"] == operation.name, "{}", operation.name);
        assert_eq!(entry["tags"], json!([operation.family.as_str()]), "{}", operation.name);
        let keyed = entry["parameters"].as_array().unwrap().iter().any(|parameter| parameter["name"] == "Idempotency-Key");
        assert_eq!(keyed, operation.replay == Replay::Keyed, "{}", operation.name);
        for status in [operation.status.to_string().as_str(), "400", "401", "403"] {
            assert!(entry["responses"][status].is_object(), "{} {status}", operation.name);
        }
    }
}

fn entry<'d>(document: &'d Value, operation: &Operation) -> &'d Value {
    &document["paths"][operation.path][operation.method.as_str().to_ascii_lowercase()]
}

/// The router can't be listed: every text in the engine's sources that could be a path is tried with every method. What is found there
/// stands in the document, and what stands in the document is there.
async fn every_route_stands_in_the_document(w: World) {
    let document = w.owner.api.nobody().get("/openapi.json").await.ok();
    let known: BTreeSet<(String, String)> = document["paths"].as_object().unwrap().iter().flat_map(methods_of).collect();
    let nobody = w.owner.api.nobody();
    let mut found = BTreeSet::new();
    for path in paths_in_the_sources() {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let answer = nobody.call(method.parse().unwrap(), &path.replace("{id}", "none_1")).await;
            // Without a route another answers than the operation that finds nothing.
            if answer.status != 405 && !answer.text.contains("no such path") {
                found.insert((method.to_owned(), format!("/api/v1{path}")));
            }
        }
    }
    assert_eq!(found, known);
}

/// The methods of a path under the API's base.
fn methods_of((path, item): (&String, &Value)) -> Vec<(String, String)> {
    let item = item.as_object().filter(|_| path.starts_with("/api/v1")).cloned().unwrap_or_default();
    item.keys().map(|method| (method.to_ascii_uppercase(), path.clone())).collect()
}

fn paths_in_the_sources() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine-ref/src/http");
    let mut paths = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        for literal in text.split('"').filter(|literal| is_path(literal)) {
            // The principals' routes are put together from the path of their collection.
            paths.extend(["", "/{id}", "/{id}/status"].map(|end| format!("{literal}{end}")));
        }
    }
    paths
}

fn is_path(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || b"/{}-.".contains(&byte);
    text.len() > 1 && text.starts_with('/') && !text.ends_with('/') && !text.contains("//") && text.bytes().all(plain)
}
