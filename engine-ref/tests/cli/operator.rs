//! trace, diagnose, migrate.

use beepgrid::{AskInput, Client, Target};
use beepgrid_engine_ref::Engine;
use serde_json::json;

use crate::support::{World, beepgrid, finished, scripted};

#[tokio::test]
async fn trace_shows_the_requester_what_became_of_a_request() {
    let world = World::start().await;
    let request = world.builder.ask(AskInput::to(Target::agent(&world.billing_id), "Well?")).await.expect("asked");
    let id = request.id.as_str();
    let trace = world.run("builder", &["trace", id]).await.json();
    assert_eq!((&trace["request"]["id"], &trace["deliveries"][0]["recipient_id"]), (&json!(id), &json!(world.billing_id)));
    assert_eq!(trace["executions"], json!([]));
    assert_eq!(world.run("owner", &["trace", "--json", id]).await.json()["request"]["id"], id);
    world.run("billing", &["trace", id]).await.fails(3, "forbidden");
    world.run("builder", &["trace", "req_none"]).await.fails(1, "not_found");
}

#[tokio::test]
async fn diagnose_reports_to_operators_and_changes_nothing() {
    let world = World::start().await;
    let report = world.run("owner", &["diagnose"]).await.json();
    assert_eq!(report["ok"], true);
    let names: Vec<&str> =
        report["checks"].as_array().expect("checks").iter().filter_map(|check| check["name"].as_str()).collect();
    for name in ["ready", "limits", "agents", "parked_deliveries", "credentials"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert_eq!(report["workspace"]["scope"], "local");
    world.run("builder", &["diagnose"]).await.fails(3, "forbidden");
}

#[tokio::test]
async fn diagnose_fails_when_something_is_not_in_order() {
    let world = World::start().await;
    // Two agents that wait for each other.
    for (from, to) in [(&world.builder, &world.billing_id), (&world.billing, &world.builder_id)] {
        from.ask(AskInput::to(Target::agent(to), "Well?").blocking(true)).await.expect("asked");
    }
    let ran = world.run("owner", &["diagnose"]).await;
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("the report is printed all the same");
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).expect("one object");
    assert_eq!((ran.exit, &report["ok"], &error["code"]), (1, &json!(false), &json!("unhealthy")));
}

#[tokio::test]
async fn diagnose_of_nobody_is_a_transport_failure() {
    let world = World::start().await;
    let mut command = world.command("owner", &["diagnose"]);
    command.env("BEEPGRID_URL", "http://127.0.0.1:9");
    finished(command, "").await.fails(1, "transport");
    let mut command = world.command("owner", &["diagnose", "--timeout", "300ms"]);
    command.env("BEEPGRID_URL", scripted(None).await);
    finished(command, "").await.fails(4, "deadline");
}

#[tokio::test]
async fn migrate_makes_the_database_and_repeats_without_effect() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = async |url: Option<&str>, arguments: &[&str]| {
        let mut command = beepgrid(folder.path(), arguments);
        if let Some(url) = url {
            command.env("BEEPGRID_DATABASE_URL", url);
        }
        finished(command, "").await
    };
    let made = run(Some("sqlite:data.db"), &["migrate"]).await.json();
    assert_eq!(made["database"], "sqlite");
    assert!(made["schema_version"].as_i64().is_some_and(|version| version >= 5));
    assert_eq!(run(None, &["migrate", "--database-url", "sqlite:data.db"]).await.json(), made);
    let engine = Engine::builder().sqlite(folder.path().join("data.db")).start().await.expect("an engine");
    assert!(Client::new(engine.url(), engine.owner_token()).expect("a client").me().await.expect("me").operator);
    run(Some("sqlite:data.db"), &["migrate"]).await.fails(1, "store");
    engine.stop().await;
    run(Some("mysql://x"), &["migrate"]).await.fails(2, "invalid_setting");
    run(None, &["migrate", "--database-url", "postgres://u:secret@localhost/db"]).await.fails(2, "invalid_setting");
    std::fs::write(folder.path().join("other.db"), "no database at all, just some text that is long enough").expect("written");
    run(Some("sqlite:other.db"), &["migrate"]).await.fails(1, "store");
}

#[cfg(all(feature = "postgres", feature = "testing"))]
#[tokio::test(flavor = "multi_thread")]
async fn migrate_prepares_a_postgres_schema() {
    let database =
        tokio::task::spawn_blocking(beepgrid_engine_ref::testing::postgres::database_or_skip).await.expect("a database");
    let Some(database) = database else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = beepgrid(folder.path(), &["migrate", "--schema", database.schema()]);
    command.env("BEEPGRID_DATABASE_URL", database.url());
    let made = finished(command, "").await.json();
    assert_eq!((&made["database"], &made["schema"]), (&json!("postgres"), &json!(database.schema())));
    let engine = Engine::builder().postgres(database.url(), database.schema()).migrate(false).start().await.expect("migrated");
    engine.stop().await;
    tokio::task::spawn_blocking(move || drop(database)).await.expect("dropped");
}
