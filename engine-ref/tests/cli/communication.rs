//! The communication commands: send, ask, approve, task, respond, wait, list, api.

use beepgrid::{AskInput, ResponseInput, SendInput, Target};
use serde_json::{Value, json};

use crate::support::{World, ended, mode};

#[tokio::test]
async fn send_takes_a_target_and_a_text_with_flags_on_either_side() {
    let world = World::start().await;
    let sent = world.run("builder", &["send", "--key", "hold/v1", "agent", "team/billing-2", "Hold the rollout."]).await.json();
    assert_eq!(sent["idempotency_key"], "hold/v1");
    assert_eq!(sent["messages"][0]["body"], "Hold the rollout.");
    let again = world.run("builder", &["send", "agent", "team/billing-2", "Hold the rollout.", "--key", "hold/v1"]).await.json();
    assert_eq!(again["messages"][0]["id"], sent["messages"][0]["id"]);
    assert_eq!(again["conversation_id"], sent["conversation_id"]);
    let other = world.run("builder", &["send", "--key", "hold/v1", "agent", "team/billing-2", "Other."]).await;
    assert_eq!(other.fails(1, "idempotency_conflict")["status"], 409);
    let to_person = world.run("builder", &["send", "person", world.owner_id.as_str(), "Hello"]).await.json();
    let fresh = to_person["idempotency_key"].as_str().expect("a key");
    assert!(fresh.parse::<beepgrid::Key>().is_ok());
}

#[tokio::test]
async fn send_reads_a_whole_input_from_a_file_or_standard_input() {
    let world = World::start().await;
    let body = "a\u{301} 👩‍👩‍👧 @Billing 2 \"x\"\r\n";
    let message =
        json!({"target": {"kind": "agent", "id": world.billing_id}, "body": body, "title": "Rollout", "mentions": null});
    let file = world.input("message.json", &message);
    let sent = world.run("builder", &["send", "--input", &file, "--key", "k"]).await.json();
    assert_eq!(sent["messages"][0]["body"], body);
    let again = world.feed("builder", &["send", "--key", "k", "--input", "-"], &message.to_string()).await.json();
    assert_eq!(again["messages"][0]["id"], sent["messages"][0]["id"]);
    let reply = json!({"conversation_id": sent["conversation_id"], "body": "Held."});
    let reply = world.feed("billing", &["send", "--input", "-"], &reply.to_string()).await.json();
    assert_eq!(reply["conversation_id"], sent["conversation_id"]);
    // Mentions count code points; counted in UTF-16 they are refused.
    for (start, exit) in [(9, 0), (12, 2)] {
        let mention = json!([{"principal_id": world.billing_id, "start": start, "end": start + 10}]);
        let mentioning = json!({"conversation_id": sent["conversation_id"], "body": body, "mentions": mention});
        assert_eq!(world.feed("builder", &["send", "--input", "-"], &mentioning.to_string()).await.exit, exit);
    }
    let group = json!({"target": {"kind": "group", "id": "grp_none"}, "body": "x"});
    world.feed("builder", &["send", "--input", "-"], &group.to_string()).await.fails(1, "not_found");
}

#[tokio::test]
async fn ask_approve_and_task_make_requests_of_their_kind() {
    let world = World::start().await;
    let input =
        |kind: Option<&str>| json!({"target": {"kind": "agent", "id": world.billing_id}, "kind": kind, "body": "Restart?"});
    for (command, given, kind) in [
        ("ask", None, "question"),
        ("ask", Some("task"), "task"),
        ("approve", None, "approval"),
        ("approve", Some("question"), "approval"),
        ("task", Some("approval"), "task"),
    ] {
        let key = format!("{command}/{kind}/{}", given.is_some());
        let asked = world.feed("builder", &[command, "--input", "-", "--key", &key], &input(given).to_string()).await.json();
        assert_eq!(
            (asked["kind"].as_str(), asked["state"].as_str(), asked["version"].as_i64()),
            (Some(kind), Some("open"), Some(1))
        );
    }
    let file = world.input("question.json", &input(None));
    let asked = world.run("builder", &["ask", "--input", &file, "--key", "q"]).await.json();
    assert_eq!(world.run("builder", &["ask", "--key", "q", "--input", &file]).await.json()["id"], asked["id"]);
}

#[tokio::test]
async fn respond_decides_at_the_version_read_and_wait_returns_the_final_request() {
    let world = World::start().await;
    let ask = AskInput::to(Target::agent(&world.billing_id), "Which region?").choices(["EU", "US"]);
    let request = world.builder.ask(ask).await.expect("asked");
    let mut waiting = world.command("builder", &["wait", "--timeout", "50s", request.id.as_str()]);
    let waiting = waiting.spawn().expect("it starts");
    let id = request.id.as_str();
    let stale = json!({"version": 7, "outcome": "answered", "answer": "EU"}).to_string();
    world.feed("billing", &["respond", "--input", "-", id], &stale).await.fails(1, "version_conflict");
    let wrong = json!({"version": 1, "outcome": "answered", "answer": "Mars"}).to_string();
    assert_eq!(world.feed("billing", &["respond", id, "--input", "-"], &wrong).await.fails(2, "invalid_request")["status"], 400);
    let file = world.input("response.json", &json!({"version": 1, "outcome": "answered", "answer": "EU"}));
    let decided = world.run("billing", &["respond", "--input", &file, id, "--key", "decide"]).await.json();
    assert_eq!((decided["state"].as_str(), decided["response"]["answer"].as_str()), (Some("resolved"), Some("EU")));
    let waited = ended(waiting).await.json();
    assert_eq!((waited["id"].as_str(), waited["response"]["answer"].as_str()), (Some(id), Some("EU")));
    let again = world.run("billing", &["respond", "--key", "decide", "--input", &file, id]).await.json();
    assert_eq!(again["version"], decided["version"]);
    let closed = world.run("billing", &["respond", "--input", &file, id]).await;
    closed.fails(1, "request_closed");
    world.run("builder", &["respond", "--input", &file, "../me"]).await.fails(1, "not_found");
}

#[tokio::test]
async fn wait_returns_a_cancelled_request_as_a_success_and_stops_at_its_deadline() {
    let world = World::start().await;
    let ask = || world.builder.ask(AskInput::to(Target::agent(&world.billing_id), "Well?"));
    let cancelled = ask().await.expect("asked");
    world.builder.cancel(&cancelled.id, cancelled.version).await.expect("cancelled");
    let waited = world.run("builder", &["wait", cancelled.id.as_str()]).await.json();
    assert_eq!(waited["state"], "cancelled");
    let open = ask().await.expect("asked");
    let late = world.run("builder", &["wait", open.id.as_str(), "--timeout", "200ms"]).await;
    assert!(late.fails(4, "deadline").get("outcome_unknown").is_none());
    let still = world.builder.get_request(&open.id).await.expect("there");
    world.billing.respond(&open.id, ResponseInput::answered(still.version, "yes")).await.expect("still open");
    world.run("builder", &["wait", "req_none"]).await.fails(1, "not_found");
}

#[tokio::test]
async fn list_pages_through_a_collection() {
    let world = World::start().await;
    let found = world.run("builder", &["list", "--search", "Billing", "agents"]).await.json();
    assert_eq!(found["items"][0]["id"], world.billing_id.as_str());
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1));
    for index in 0..5 {
        world.builder.send(SendInput::to(Target::agent(&world.billing_id), format!("{index}"))).await.expect("sent");
    }
    let mut seen = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut arguments = vec!["list", "--limit", "2", "conversations"];
        if let Some(cursor) = &cursor {
            arguments.extend(["--cursor", cursor]);
        }
        let page = world.run("builder", &arguments).await.json();
        seen.extend(page["items"].as_array().expect("items").iter().map(|item| item["id"].as_str().expect("an id").to_owned()));
        match page.get("next_cursor").and_then(Value::as_str) {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 5);
    let open = world.run("builder", &["list", "requests", "--filter", "state=open", "--json"]).await.json();
    assert_eq!(open["items"], json!([]));
    world.run("builder", &["list", "nonsense"]).await.fails(2, "invalid_request");
    world.run("builder", &["list", "agents", "--cursor", "nonsense"]).await.fails(2, "invalid_cursor");
    world.run("builder", &["list", "agents", "--filter", "nonsense"]).await.fails(2, "usage");
    for limit in ["0", "201", "-1", "x"] {
        world.run("builder", &["list", "agents", "--limit", limit]).await.fails(2, "usage");
    }
}

#[tokio::test]
async fn api_reaches_any_endpoint() {
    let world = World::start().await;
    let me = world.run("builder", &["api", "GET", "/api/v1/me"]).await.json();
    assert_eq!(me["agent"]["id"], world.builder_id.as_str());
    let body = json!({"target": {"kind": "agent", "id": world.billing_id}, "body": "Hi"}).to_string();
    let sent = world.feed("builder", &["api", "post", "/api/v1/messages", "--input", "-", "--key", "k"], &body).await.json();
    let again = world.feed("builder", &["api", "POST", "/api/v1/messages", "--key", "k", "--input", "-"], &body).await.json();
    assert_eq!((&again["messages"][0]["id"], &again["idempotency_key"]), (&sent["messages"][0]["id"], &json!("k")));
    let query =
        world.feed("builder", &["api", "POST", "/api/v1/query", "--input", "-"], r#"{"collection":"agents"}"#).await.json();
    assert!(query.get("idempotency_key").is_none());
    let group = json!({"name": "Team", "purpose": "team", "members": []}).to_string();
    let group = world.feed("owner", &["api", "POST", "/api/v1/groups", "--input", "-"], &group).await.json();
    let id = group["id"].as_str().expect("an id");
    let deleted = world.run("owner", &["api", "DELETE", &format!("/api/v1/groups/{id}")]).await.json();
    assert_eq!(deleted["deleted"], true);
    world.run("builder", &["api", "GET", "/api/v1/nothing"]).await.fails(1, "not_found");
    world.run("builder", &["api", "DELETE", "/api/v1/me"]).await.fails(2, "method_not_allowed");
    for path in ["/metrics", "api/v1/me", "https://example.com/api/v1/me", "/api/v1/../x"] {
        let wrong = world.run("builder", &["api", "GET", path]).await;
        assert_eq!(wrong.exit, 2, "{}", wrong.stderr);
    }
}

#[tokio::test]
async fn api_saves_answers_in_new_private_files() {
    let world = World::start().await;
    let receipt = world.run("builder", &["api", "GET", "/api/v1/me", "--out", "me.json"]).await.json();
    let path = world.path("me.json");
    assert_eq!(receipt["saved"], "me.json");
    assert_eq!(receipt["bytes"], std::fs::metadata(&path).expect("there").len());
    assert_eq!(mode(&path), 0o600);
    let saved: Value = serde_json::from_slice(&std::fs::read(&path).expect("there")).expect("JSON");
    assert_eq!(saved["agent"]["id"], world.builder_id.as_str());
    world.run("builder", &["api", "GET", "/api/v1/me", "--out", "me.json"]).await.fails(2, "output_file");
}

#[tokio::test]
async fn api_keeps_tokens_off_the_terminal() {
    let world = World::start().await;
    let credential = json!({"principal_id": world.owner_id, "kind": "api", "name": "CI"}).to_string();
    let before = world.owner.credentials().await.expect("credentials").len();
    for path in ["/api/v1/credentials", "/api/v1/credentials/", "/api/v1/CREDENTIALS", "/api/v1/%63redentials", "/api/v1/enroll"]
    {
        world.feed("owner", &["api", "POST", path, "--input", "-"], &credential).await.fails(2, "usage");
    }
    assert_eq!(world.owner.credentials().await.expect("credentials").len(), before);
    let made =
        world.feed("owner", &["api", "POST", "/api/v1/credentials", "--input", "-", "--out", "issued.json"], &credential).await;
    let saved: Value = serde_json::from_slice(&std::fs::read(world.path("issued.json")).expect("there")).expect("JSON");
    let token = saved["token"].as_str().expect("a token");
    assert!(!made.json().to_string().contains(token));
    assert_eq!(mode(&world.path("issued.json")), 0o600);
    let rotate = format!("/api/v1/credentials/{}/rotate", saved["id"].as_str().expect("an id"));
    world.feed("owner", &["api", "POST", &rotate, "--input", "-"], r#"{"version":1}"#).await.fails(2, "usage");
    let occupied =
        world.feed("owner", &["api", "POST", &rotate, "--input", "-", "--out", "issued.json"], r#"{"version":1}"#).await;
    occupied.fails(2, "output_file");
    world.secret("ci", token);
    assert_eq!(world.run("ci", &["api", "GET", "/api/v1/me"]).await.json()["person"]["id"], world.owner_id.as_str());
}
