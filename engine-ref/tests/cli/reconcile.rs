//! reconcile: a restored workspace on hold, and off it again.

use std::fs;

use beepgrid::{Client, EnrollInput};
use beepgrid_engine_ref::Engine;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Ran, beepgrid, finished, mode};

struct Restored {
    folder: TempDir,
}

impl Restored {
    async fn engine(&self) -> Engine {
        Engine::builder().sqlite(self.folder.path().join("data.db")).create_owner(false).start().await.expect("an engine")
    }

    async fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = beepgrid(self.folder.path(), arguments);
        command.env("BEEPGRID_DATABASE_URL", "sqlite:data.db");
        finished(command, "").await
    }

    /// A client command with the credential in this file.
    async fn call(&self, engine: &Engine, who: &str, arguments: &[&str]) -> Ran {
        let mut command = beepgrid(self.folder.path(), arguments);
        command.env("BEEPGRID_URL", engine.url()).env("BEEPGRID_TOKEN_FILE", self.folder.path().join(who));
        finished(command, "").await
    }
}

/// A database with an owner and a worker, as it comes out of a backup.
async fn restored() -> Restored {
    let folder = TempDir::new().expect("a folder");
    let engine = Engine::builder().sqlite(folder.path().join("data.db")).start().await.expect("an engine");
    let worker = engine.owner().enroll(EnrollInput::new("team/worker", "Worker")).await.expect("enrolled");
    beepgrid::save_token(folder.path().join("owner"), engine.owner_token()).expect("saved");
    beepgrid::save_token(folder.path().join("worker"), worker.token).expect("saved");
    engine.stop().await;
    Restored { folder }
}

#[tokio::test]
async fn a_restored_workspace_is_on_hold_until_it_is_resumed() {
    let restored = restored().await;
    let ran = restored.run(&["reconcile", "--restored"]).await;
    assert_eq!(ran.json(), json!({"on_hold": true, "token_file": ".local/restored-owner-token"}));
    let file = restored.folder.path().join(".local/restored-owner-token");
    assert_eq!(mode(&file), 0o600);
    assert!(!ran.stdout.contains(fs::read_to_string(&file).expect("there").trim()));

    let engine = restored.engine().await;
    for old in ["owner", "worker"] {
        restored.call(&engine, old, &["api", "GET", "/api/v1/me"]).await.fails(3, "unauthorized");
    }
    let owner = ".local/restored-owner-token";
    assert_eq!(restored.call(&engine, owner, &["api", "GET", "/api/v1/me"]).await.json()["operator"], true);
    let held = restored.call(&engine, owner, &["send", "agent", "team/worker", "x"]).await.fails(1, "unavailable");
    assert_eq!(held["status"], 503);
    assert!(held["retry_after_seconds"].is_u64());
    let diagnosed = restored.call(&engine, owner, &["diagnose"]).await;
    let error: serde_json::Value = serde_json::from_str(&diagnosed.stderr).expect("one object");
    assert_eq!((diagnosed.exit, &error["code"], &error["message"]), (1, &json!("unhealthy"), &json!("not in order: hold")));
    // The file is the engine's as long as it runs.
    restored.run(&["reconcile", "--resume"]).await.fails(1, "store");
    engine.stop().await;

    assert_eq!(restored.run(&["reconcile", "--resume"]).await.json(), json!({"on_hold": false, "resumed": true}));
    assert_eq!(restored.run(&["reconcile", "--resume"]).await.json(), json!({"on_hold": false, "resumed": false}));
    let engine = restored.engine().await;
    restored.call(&engine, owner, &["send", "agent", "team/worker", "x"]).await.json();
    engine.stop().await;
}

#[tokio::test]
async fn reconcile_takes_one_step_and_changes_nothing_when_it_cannot_keep_the_token() {
    let restored = restored().await;
    for arguments in [&["reconcile"][..], &["reconcile", "--restored", "--resume"], &["reconcile", "--resume", "--out", "x"]] {
        restored.run(arguments).await.fails(2, "usage");
    }
    restored.run(&["reconcile", "--restored", "--out", "owner"]).await.fails(2, "output_file");
    restored.run(&["reconcile", "--restored", "--out", "owner/below"]).await.fails(2, "output_file");
    let engine = restored.engine().await;
    restored.run(&["reconcile", "--restored", "--out", "new"]).await.fails(1, "store");
    assert!(!restored.folder.path().join("new").exists(), "what is not in force is not left");
    let owner = beepgrid::read_token(restored.folder.path().join("owner")).expect("a token");
    assert!(Client::new(engine.url(), owner).expect("a client").me().await.expect("still the owner").operator);
    engine.stop().await;
}

#[tokio::test]
async fn reconcile_of_a_database_that_is_none_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let mut command = beepgrid(folder.path(), &["reconcile", "--restored", "--out", "new"]);
    command.env("BEEPGRID_DATABASE_URL", "sqlite:empty.db");
    assert_eq!(finished(command, "").await.exit, 1);
    assert!(!folder.path().join("new").exists());
}
