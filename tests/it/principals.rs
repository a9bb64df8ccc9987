//! Section 2: people, agents, services: names, external ids, versions, status; the directory.

use std::time::{Duration, Instant};

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::stores::Kind;
use beepgrid_tests::world::{World, contacts, target};
use serde_json::{Value, json};

on_both_stores!(
    principals_have_their_fields,
    names_are_trimmed_lines_of_up_to_200,
    external_ids_are_checked,
    external_ids_are_unique_per_kind,
    metadata_is_bounded,
    edits_are_versioned,
    only_managers_make_and_edit,
    external_ids_are_accepted_as_target_ids,
    the_last_operator_stays,
    disabling_stops_tokens_and_keeps_history,
    the_disabled_are_out_of_reach,
    the_directory_shows_whom_one_may_view,
    the_directory_pages_and_searches,
);

async fn principals_have_their_fields(w: World) {
    for (path, prefix) in [("/people", "per_"), ("/agents", "agt_"), ("/services", "svc_")] {
        let body = json!({"name": "Nora", "external_id": "nora@example", "metadata": {"department": "ops", "n": [1]}});
        let made = w.owner.api.post(path, body).await.created();
        assert!(made.id().starts_with(prefix) && made.id().len() <= 64, "{made}");
        assert_eq!(made["name"], "Nora");
        assert_eq!(made["external_id"], "nora@example");
        assert_eq!(made["metadata"], json!({"department": "ops", "n": [1]}));
        assert_eq!((made.n("version"), made["disabled"].as_bool()), (1, Some(false)));
        assert_eq!(made["created_at"], json!(w.site.now().to_string()));
    }
}

async fn names_are_trimmed_lines_of_up_to_200(w: World) {
    let make = |name: &str, id: usize| w.owner.api.post("/people", json!({"name": name, "external_id": format!("n{id}")}));
    assert_eq!(make("  Ann  Lee \t", 1).await.created()["name"], "Ann  Lee");
    make(&"👋".repeat(200), 2).await.created();
    let bad = [
        "",
        "   ",
        &"x".repeat(201),
        "two\nlines",
        "two\r\nlines",
        "bell\u{7}",
        "\u{202e}abc",
        "a\u{202d}b",
        "line\u{2028}end",
        "del\u{7f}",
    ];
    for name in bad {
        make(name, 9).await.invalid("name");
    }
    let path = format!("/people/{}", w.ann.id);
    for name in &bad[2..] {
        w.owner.api.patch(&path, json!({"version": 1, "name": name})).await.invalid("name");
    }
    for name in &bad[1..] {
        w.owner.api.post("/groups", json!({"name": name, "purpose": "team"})).await.invalid("name");
        w.owner.api.post("/roles", json!({"name": name, "rules": []})).await.invalid("name");
        w.owner.api.post("/enroll", json!({"name": name, "agent": "n"})).await.invalid("name");
    }
}

async fn external_ids_are_checked(w: World) {
    let long = "x".repeat(201);
    let bad = ["*", "per_1", "agt_x", "svc_", "ins_1", "grp_1", "cnv_1", "evt_1", "a\nb", "a\u{0}b", "a\u{7f}", &long];
    for id in bad {
        for path in ["/people", "/agents", "/services"] {
            w.owner.api.post(path, json!({"name": "A", "external_id": id})).await.refused(400, "invalid_request");
        }
        w.owner.api.post("/enroll", json!({"name": "A", "agent": id})).await.refused(400, "invalid_request");
    }
    for id in ["x", "per", "perl_1", "a b", "ü/日本", &"👋".repeat(200)] {
        assert_eq!(w.owner.api.post("/people", json!({"name": "A", "external_id": id})).await.created()["external_id"], *id);
    }
}

async fn external_ids_are_unique_per_kind(w: World) {
    for path in ["/people", "/agents", "/services"] {
        let body = json!({"name": "A", "external_id": "same"});
        w.owner.api.post(path, body.clone()).await.created();
        w.owner.api.post(path, body).await.refused(409, "already_exists");
        w.owner.api.post(path, json!({"name": "A", "external_id": "Same"})).await.created();
    }
}

async fn metadata_is_bounded(w: World) {
    let of_size = |size: usize| json!({"k": "x".repeat(size - "{\"k\":\"\"}".len())});
    let make =
        |id: &str, metadata: Value| w.owner.api.post("/people", json!({"name": "A", "external_id": id, "metadata": metadata}));
    make("m1", of_size(16 * 1024)).await.created();
    make("m2", of_size(16 * 1024 + 1)).await.invalid("metadata");
    w.builder.api.post("/heartbeat", json!({"progress": of_size(16 * 1024)})).await.ok();
    w.builder.api.post("/heartbeat", json!({"progress": of_size(16 * 1024 + 1)})).await.invalid("progress");
}

async fn edits_are_versioned(w: World) {
    let path = format!("/people/{}", w.ann.id);
    let edited = w.owner.api.patch(&path, json!({"version": 1, "name": "Anna"})).await.ok();
    assert_eq!((edited.n("version"), edited["name"].as_str()), (2, Some("Anna")));
    w.owner.api.patch(&path, json!({"version": 1, "name": "Annika"})).await.refused(409, "version_conflict");
    let edited = w.owner.api.patch(&path, json!({"version": 2, "metadata": {"a": 1}})).await.ok();
    assert_eq!((edited["name"].as_str(), &edited["metadata"]), (Some("Anna"), &json!({"a": 1})));
    w.owner.api.patch("/people/per_none", json!({"version": 1, "name": "X"})).await.not_found();
    w.owner.api.patch(&format!("/agents/{}", w.ann.id), json!({"version": 1, "name": "X"})).await.not_found();
    let status = format!("{path}/status");
    w.owner.api.post(&status, json!({"disabled": true, "version": 1})).await.refused(409, "version_conflict");
    assert_eq!(w.owner.api.post(&status, json!({"disabled": true, "version": 3})).await.ok()["disabled"], true);
}

async fn only_managers_make_and_edit(w: World) {
    for (path, body) in [
        ("/people", json!({"name": "X", "external_id": "x"})),
        ("/agents", json!({"name": "X", "external_id": "x"})),
        ("/services", json!({"name": "X", "external_id": "x"})),
        ("/enroll", json!({"name": "X", "agent": "x"})),
        ("/groups", json!({"name": "X", "purpose": "team"})),
        ("/roles", json!({"name": "X", "rules": []})),
        ("/credentials", json!({"principal_id": w.ann.id, "kind": "api"})),
    ] {
        w.ann.api.post(path, body.clone()).await.forbidden();
        w.builder.api.post(path, body).await.forbidden();
    }
    let policy = json!({"subject": w.ann.target(), "rules": [], "version": 1});
    w.ann.api.put("/contact-permissions", policy).await.forbidden();
    // One that exists is not told apart from one that does not.
    w.ann.api.post("/people", json!({"name": "X", "external_id": "bob"})).await.forbidden();
}

async fn external_ids_are_accepted_as_target_ids(w: World) {
    let (_, _) = w.send(&w.builder.api, &target("agent", "team/billing-2"), "by external id").await;
    assert_eq!(w.billing.lease_one().await["payload"]["message"]["body"], "by external id");
    w.builder.api.post("/messages", json!({"target": target("person", "team/billing-2"), "body": "x"})).await.not_found();
    let policy = w.policy(&target("person", "bob"), contacts(&[target("agent", "team/builder-7")])).await;
    // What is stored is the id.
    assert_eq!(policy["subject"]["id"], json!(w.bob.id));
    assert!(policy.list("rules").iter().all(|rule| rule["target_id"] == json!(w.builder.id)), "{policy}");
}

async fn the_last_operator_stays(w: World) {
    let me = w.owner.api.get("/me").await.ok();
    let path = format!("/people/{}/status", w.owner.id);
    let stop = json!({"disabled": true, "version": me["person"]["version"]});
    w.owner.api.post(&path, stop).await.refused(409, "last_operator");
    let own = me["credential"].id();
    w.owner.api.post(&format!("/credentials/{own}/revoke"), json!({})).await.refused(409, "last_operator");
    // Nor may it be given an end that would come by itself.
    let version =
        w.owner.api.get("/credentials").await.ok().as_array().unwrap().iter().find(|one| one.id() == own).unwrap().n("version");
    let end = json!({"version": version, "expires_at": w.after(3_600)});
    w.owner.api.patch(&format!("/credentials/{own}"), end).await.refused(409, "last_operator");
    w.owner.api.get("/me").await.ok();
}

async fn disabling_stops_tokens_and_keeps_history(w: World) {
    let (conversation, _) = w.send(&w.builder.api, &w.ann.target(), "before").await;
    w.set_disabled("agents", &w.builder.id, true).await;
    w.builder.api.get("/me").await.refused(401, "unauthorized");
    w.builder.api.post("/inbox/lease", json!({})).await.refused(401, "unauthorized");
    assert_eq!(w.bodies(&w.ann.api, &conversation).await, ["before"]);
    w.set_disabled("people", &w.ann.id, true).await;
    w.ann.api.get("/me").await.refused(401, "unauthorized");
    w.set_disabled("agents", &w.builder.id, false).await;
    w.builder.api.get("/me").await.ok();
}

async fn the_disabled_are_out_of_reach(w: World) {
    let group = w.group("Both", &[&w.ann.id, &w.billing.id]).await;
    w.policy(&w.builder.target(), contacts(&[w.ann.target(), w.billing.target(), target("group", &group)])).await;
    let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "before").await;
    w.set_disabled("agents", &w.billing.id, true).await;
    for body in [
        json!({"target": w.billing.target(), "body": "x"}),
        json!({"target": w.billing.exact(), "body": "x"}),
        json!({"conversation_id": conversation, "body": "x"}),
    ] {
        w.builder.api.post("/messages", body).await.forbidden();
    }
    w.builder.api.post("/requests", json!({"target": w.billing.target(), "body": "x"})).await.forbidden();
    let sent = w.builder.api.post("/messages", json!({"target": target("group", &group), "body": "x"})).await.created();
    assert_eq!(sent.list("messages").len(), 1);
    assert_eq!(w.bodies(&w.builder.api, &conversation).await, ["before"]);
}

async fn the_directory_shows_whom_one_may_view(w: World) {
    let ids = |page: &Value| page["items"].each("id");
    let agents = w.builder.api.get("/directory?kind=agent").await.ok();
    assert!(ids(&agents).contains(&w.billing.id) && !ids(&agents).contains(&w.hidden.id), "{agents}");
    let people = w.builder.api.get("/directory?kind=person").await.ok();
    assert_eq!(ids(&people), std::slice::from_ref(&w.ann.id));
    assert!(ids(&w.builder.api.get("/directory?kind=service").await.ok()).is_empty());
    let bob = ids(&w.bob.api.get("/directory?kind=agent").await.ok());
    assert!(bob.is_empty(), "{bob:?}");
    let all = ids(&w.owner.api.get("/directory?kind=agent").await.ok());
    assert!([&w.builder.id, &w.billing.id, &w.hidden.id].iter().all(|id| all.contains(id)));
}

async fn the_directory_pages_and_searches(w: World) {
    for at in 0..7 {
        let body = json!({"name": format!("Worker Bee {at}"), "external_id": format!("bee-{at}")});
        w.owner.api.post("/services", body).await.created();
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    for _ in 0..20 {
        let next = if cursor.is_empty() { String::new() } else { format!("&cursor={cursor}") };
        let page = w.owner.api.get(&format!("/directory?kind=service&limit=3{next}")).await.ok();
        seen.extend(page["items"].each("id"));
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    let mut sorted = seen.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((seen.len(), &seen), (7, &sorted));
    let found = w.owner.api.get("/directory?kind=service&search=bee%203").await.ok();
    assert_eq!(found["items"].each("name"), ["Worker Bee 3"]);
    // A cursor belongs to its caller and its question.
    let page = w.owner.api.get("/directory?kind=service&limit=3").await.ok();
    let cursor = page.s("next_cursor");
    for other in [
        format!("kind=service&limit=4&cursor={cursor}"),
        format!("kind=agent&limit=3&cursor={cursor}"),
        format!("kind=service&limit=3&search=bee&cursor={cursor}"),
    ] {
        w.owner.api.get(&format!("/directory?{other}")).await.refused(400, "invalid_cursor");
    }
    w.ann.api.get(&format!("/directory?kind=service&limit=3&cursor={cursor}")).await.refused(400, "invalid_cursor");
    w.advance(86_401);
    w.owner.api.get(&format!("/directory?kind=service&limit=3&cursor={cursor}")).await.refused(410, "cursor_expired");
}

async fn a_disabled_agents_poll_ends(kind: Kind) {
    let w = World::real(kind).await;
    let poll = w.builder.api.post("/inbox/lease", json!({"wait_ms": 15_000}));
    let polling = tokio::spawn(async move { poll.await });
    // The poll has reached the engine once its presence shows; a fresh call of the same worker proves the token is good.
    w.builder.api.get("/me").await.ok();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = Instant::now();
    w.set_disabled("agents", &w.builder.id, true).await;
    let answer = tokio::time::timeout(Duration::from_secs(3), polling).await.expect("the poll ends").unwrap();
    assert!(began.elapsed() < Duration::from_millis(1_500), "{:?}", began.elapsed());
    assert!(answer.status == 401 || answer.text == "[]", "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disabling_ends_a_poll_within_a_second_on_sqlite() {
    a_disabled_agents_poll_ends(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disabling_ends_a_poll_within_a_second_on_postgres() {
    if beepgrid_tests::stores::is_missing(Kind::Postgres).await {
        return;
    }
    a_disabled_agents_poll_ends(Kind::Postgres).await;
}
