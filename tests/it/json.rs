//! Section 1: what counts as a JSON request, on both stores alike.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Answer, Members};
use beepgrid_tests::world::World;
use reqwest::Method;
use serde_json::{Value, json};

on_both_stores!(
    malformed_json_is_refused,
    nesting_ends_at_64,
    nul_and_lone_surrogates_are_refused_everywhere,
    numbers_that_lose_precision_are_refused,
    unknown_fields_are_named,
    wrong_types_are_named,
    only_whole_numbers_are_integers,
    four_mebibytes_are_the_limit,
    empty_means_absent,
    text_comes_back_as_it_was_given,
);

/// Posts a person as raw text.
async fn person(w: &World, text: impl Into<Vec<u8>>) -> Answer {
    w.owner.api.call(Method::POST, "/people").text(text).await
}

async fn malformed_json_is_refused(w: World) {
    let cases: &[&[u8]] = &[
        b"",
        b"null",
        b"[]",
        b"\"x\"",
        b"{",
        b"{\"name\": \"A\", \"external_id\": \"e1\"} x",
        b"{'name': 'A', 'external_id': 'e1'}",
        b"{\"name\": \"A\", \"external_id\": \"e1\",}",
        b"\xef\xbb\xbf{\"name\": \"A\", \"external_id\": \"e1\"}",
        b"{\"name\": \"A\", \"name\": \"A\", \"external_id\": \"e1\"}",
        b"{\"name\": \"A\", \"\\u006eame\": \"A\", \"external_id\": \"e1\"}",
        b"{\"name\": \"A\", \"external_id\": \"e1\", \"metadata\": {\"a\": {\"b\": 1, \"b\": 1}}}",
        b"{\"name\": \"A\x00\", \"external_id\": \"e1\"}",
        b"{\"name\": \"A\xff\", \"external_id\": \"e1\"}",
        b"{\"name\": \"A\nB\", \"external_id\": \"e1\"}",
        b"{\"name\": \"A\", \"external_id\": \"e1\", \"metadata\": {\"a\": NaN}}",
        b"{\"name\": \"A\", \"external_id\": \"e1\", \"metadata\": {\"a\": 01}}",
    ];
    for case in cases {
        let answer = person(&w, *case).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{:?}", String::from_utf8_lossy(case));
    }
    person(&w, "{\"name\": \"A\", \"external_id\": \"e1\"}").await.created();
}

async fn nesting_ends_at_64(w: World) {
    // The body is 1, `metadata` is 2, so 62 lists inside it are 64.
    let nested = |lists: usize, id: &str| {
        let value = format!("{}{}", "[".repeat(lists), "]".repeat(lists));
        format!("{{\"name\": \"A\", \"external_id\": \"{id}\", \"metadata\": {{\"a\": {value}}}}}")
    };
    person(&w, nested(62, "deep")).await.created();
    person(&w, nested(63, "deeper")).await.refused(400, "invalid_request");
    person(&w, nested(100_000, "deepest")).await.refused(400, "invalid_request");
}

async fn nul_and_lone_surrogates_are_refused_everywhere(w: World) {
    for text in ["\\u0000", "\\ud800", "\\udc00", "\\ud83d x", "\\udc00\\ud83d", "\\ud83d\\u0041"] {
        for body in [
            format!("{{\"name\": \"A{text}\", \"external_id\": \"e2\"}}"),
            format!("{{\"name\": \"A\", \"external_id\": \"e2{text}\"}}"),
            format!("{{\"name\": \"A\", \"external_id\": \"e2\", \"metadata\": {{\"k\": \"v{text}\"}}}}"),
            format!("{{\"name\": \"A\", \"external_id\": \"e2\", \"metadata\": {{\"k{text}\": 1}}}}"),
            format!("{{\"name\": \"A\", \"external_id\": \"e2\", \"metadata\": {{\"k\": [[\"{text}\"]]}}}}"),
        ] {
            let answer = person(&w, body.clone()).await;
            assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{body}");
        }
        let target = w.billing.target();
        for member in ["body", "title"] {
            let mut message = json!({"target": target, "body": "x", "title": "x"});
            message[member] = json!("MARK");
            let raw = message.to_string().replace("MARK", text);
            w.builder.api.call(Method::POST, "/messages").text(raw).await.refused(400, "invalid_request");
        }
        let answer = format!("{{\"outcome\": \"answered\", \"answer\": {{\"deep\": [\"{text}\"]}}, \"version\": 1}}");
        let request = w.ask(&w.builder.api, &w.billing.target(), "q").await.id();
        let path = format!("/requests/{request}/respond");
        w.billing.api.call(Method::POST, &path).text(answer).await.refused(400, "invalid_request");
    }
    // Nothing was stored and nothing blocks the inbox: only the six questions are there.
    assert_eq!(w.billing.drain().await.len(), 6);
}

async fn numbers_that_lose_precision_are_refused(w: World) {
    let with =
        |number: &str, id: &str| format!("{{\"name\": \"A\", \"external_id\": \"{id}\", \"metadata\": {{\"n\": {number}}}}}");
    for number in
        ["18446744073709551616", "-9223372036854775809", "0.1234567890123456789", "1e400", "123456789012345678901234567890"]
    {
        let answer = person(&w, with(number, "n0")).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{number}");
    }
    for (at, number) in
        ["0", "-1", "9007199254740993", "9223372036854775807", "-9223372036854775808", "0.1", "1.5e3"].iter().enumerate()
    {
        let made = person(&w, with(number, &format!("n{}", at + 1))).await.created();
        assert_eq!(made["metadata"]["n"], serde_json::from_str::<Value>(number).unwrap(), "{number}");
    }
}

async fn unknown_fields_are_named(w: World) {
    w.owner.api.post("/people", json!({"name": "A", "external_id": "e3", "colour": 1})).await.invalid("colour");
    let target = json!({"kind": "agent", "id": w.billing.id, "shade": "x"});
    w.builder.api.post("/messages", json!({"target": target, "body": "x"})).await.invalid("shade");
    w.builder.api.post("/messages", json!({"target": w.billing.target(), "body": "x", "Body": "y"})).await.invalid("Body");
    w.builder.api.post("/inbox/lease", json!({"wait": 1})).await.invalid("wait");
    assert!(w.billing.lease(10).await.is_empty());
    // Inside the caller's own JSON every name is fine.
    w.owner.api.post("/people", json!({"name": "A", "external_id": "e3", "metadata": {"colour": 1}})).await.created();
}

async fn wrong_types_are_named(w: World) {
    let agent = w.billing.target();
    for (body, field) in [
        (json!({"target": agent, "body": 5}), "body"),
        (json!({"target": "agt_1", "body": "x"}), "target"),
        (json!({"target": {"kind": 1, "id": "x"}, "body": "x"}), "kind"),
        (json!({"target": {"kind": "robot", "id": "x"}, "body": "x"}), "kind"),
        (json!({"target": {"kind": "agent"}, "body": "x"}), "id"),
        (json!({"target": agent, "body": "x", "title": true}), "title"),
        (json!({"target": agent, "body": "x", "reuse_direct": "yes"}), "reuse_direct"),
        (json!({"target": agent, "body": "x", "mentions": "all"}), "mentions"),
        (json!({"target": agent, "body": "x", "mentions": [{"principal_id": "p", "start": "0", "end": 1}]}), "start"),
        (json!({"target": agent, "body": "x", "attachment_ids": [1]}), "attachment_ids"),
    ] {
        w.builder.api.post("/messages", body).await.invalid(field);
    }
    w.owner.api.post("/people", json!({"name": "A", "external_id": "e", "metadata": "x"})).await.invalid("metadata");
    w.owner.api.post("/people", json!({"name": "A", "external_id": "e", "metadata": [1]})).await.invalid("metadata");
    w.owner.api.post("/people", json!({"name": "A"})).await.invalid("external_id");
    w.owner.api.post("/people", json!({"external_id": "e"})).await.invalid("name");
    w.owner.api.post("/groups", json!({"name": "G", "purpose": "party"})).await.invalid("purpose");
    w.builder.api.post("/requests", json!({"target": agent, "body": "x", "kind": "riddle"})).await.invalid("kind");
    w.builder.api.post("/requests", json!({"target": agent, "body": "x", "expires_at": "tomorrow"})).await.invalid("expires_at");
    w.builder.api.post("/inbox/lease", json!({"kinds": ["letter"]})).await.invalid("kinds");
}

async fn only_whole_numbers_are_integers(w: World) {
    let path = format!("/people/{}", w.ann.id);
    for version in ["1.0", "1e3", "\"1\"", "-1", "true", "[1]", "9223372036854775808", "null", "1.5"] {
        let text = format!("{{\"version\": {version}, \"name\": \"Anna\"}}");
        w.owner.api.call(Method::PATCH, &path).text(text).await.invalid("version");
    }
    w.owner.api.patch(&path, json!({"name": "Anna"})).await.invalid("version");
    // A whole number that is merely not the present version is a conflict.
    w.owner.api.patch(&path, json!({"version": i64::MAX, "name": "Anna"})).await.refused(409, "version_conflict");
    for (body, field) in [
        ("{\"generation\": 1.0}", "generation"),
        ("{\"generation\": \"1\"}", "generation"),
        ("{\"generation\": 1e0}", "generation"),
        ("{}", "generation"),
    ] {
        w.builder.api.call(Method::POST, "/inbox/dlv_x/ack").text(body).await.invalid(field);
    }
    for limit in ["1.0", "0", "101", "-1", "\"5\""] {
        w.builder.api.call(Method::POST, "/inbox/lease").text(format!("{{\"limit\": {limit}}}")).await.invalid("limit");
    }
    for wait in ["15001", "-1", "0.5"] {
        w.builder.api.call(Method::POST, "/inbox/lease").text(format!("{{\"wait_ms\": {wait}}}")).await.invalid("wait_ms");
    }
}

async fn four_mebibytes_are_the_limit(w: World) {
    let limit = 4 * 1024 * 1024;
    let padded = |id: &str, size: usize| {
        let mut text = format!("{{\"name\": \"A\", \"external_id\": \"{id}\"}}").into_bytes();
        text.resize(size, b' ');
        text
    };
    person(&w, padded("big-1", limit)).await.created();
    person(&w, padded("big-2", limit + 1)).await.refused(413, "too_large");
    // One field over its own limit is not "too large" but wrong.
    let body = "x".repeat(1024 * 1024);
    w.builder.api.post("/messages", json!({"target": w.billing.target(), "body": body})).await.invalid("body");
}

async fn empty_means_absent(w: World) {
    let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "first").await;
    for absent in [json!(null), json!({}), json!({"kind": "", "id": ""})] {
        let body = json!({
            "target": absent, "conversation_id": conversation, "body": "x", "title": "", "mentions": [], "attachment_ids": null,
            "preview_token": "", "reuse_direct": null,
        });
        w.builder.api.post("/messages", body).await.created();
    }
    for absent in [json!(null), json!("")] {
        let body = json!({"target": w.billing.target(), "conversation_id": absent, "body": "x", "attachment_ids": []});
        w.builder.api.post("/messages", body).await.created();
        let ask = json!({
            "target": w.billing.target(), "conversation_id": absent, "body": "q", "kind": absent, "expires_at": absent,
            "choices": [], "action": {}, "shared_key": absent, "mentions": null, "blocking": null,
        });
        let asked = w.builder.api.post("/requests", ask).await.created();
        assert_eq!((asked["kind"].as_str(), asked["expires_at"].as_str()), (Some("question"), Some("9999-01-01T00:00:00Z")));
    }
    // A required member that is empty is absent too.
    w.builder.api.post("/messages", json!({"target": {}, "body": "x"})).await.refused(400, "invalid_request");
    w.owner.api.post("/people", json!({"name": "", "external_id": "e4"})).await.invalid("name");
    w.owner.api.post("/people", json!({"name": "A", "external_id": "e4", "metadata": {}})).await.created();
    w.builder.api.post("/inbox/lease", json!({"wait_ms": null, "limit": null, "kinds": []})).await.ok();
}

async fn text_comes_back_as_it_was_given(w: World) {
    let texts = [
        "plain",
        "e\u{301} ü 日本語",
        "👨‍👩‍👧 🇩🇪 👋🏽",
        "\r\n\ttabs \"quotes\" \\ / <b>&amp;",
        "\u{1}\u{7f}\u{2028}\u{202e}abc",
        "  spaces  ",
    ];
    for text in texts {
        let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), text).await;
        assert_eq!(w.bodies(&w.builder.api, &conversation).await, [text]);
    }
    let received: Vec<_> = w.billing.drain().await.iter().map(|d| d["payload"]["message"].s("body")).collect();
    assert_eq!(received, texts);
    let raw = format!("{{\"target\": {}, \"body\": \"\\ud83d\\udc4b \\u00e9\"}}", w.billing.target());
    w.builder.api.call(Method::POST, "/messages").text(raw).await.created();
    assert_eq!(w.billing.lease_one().await["payload"]["message"].s("body"), "👋 é");
}
