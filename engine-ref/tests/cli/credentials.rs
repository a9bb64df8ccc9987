//! Tokens: enroll and seed, and how credentials are chosen (field reports B29, B30).

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use beepgrid::RevokeInput;
use serde_json::{Value, json};

use crate::support::{World, beepgrid, finished, mode};

const AGENT: &str = r#"{"agent":"team/new-1","name":"New 1","connection_name":null}"#;

#[tokio::test]
async fn enroll_saves_the_token_and_shows_the_rest() {
    let world = World::start().await;
    let ran = world.feed("owner", &["enroll", "--input", "-", "--out", "private/new-token"], AGENT).await;
    let token = fs::read_to_string(world.path("private/new-token")).expect("there");
    let enrolled = ran.json();
    assert!(!ran.stdout.contains(token.trim()) && enrolled.get("token").is_none());
    assert_eq!((mode(&world.path("private")), mode(&world.path("private/new-token"))), (0o700, 0o600));
    assert_eq!(enrolled["token_file"], "private/new-token");
    let me = world.run("private/new-token", &["api", "GET", "/api/v1/me"]).await.json();
    assert_eq!((&me["agent"]["id"], &me["instance_id"]), (&enrolled["agent"]["id"], &enrolled["instance_id"]));
    let files: Vec<_> = fs::read_dir(world.path("private")).expect("a folder").collect();
    assert_eq!(files.len(), 1, "nothing is left beside it");
}

#[tokio::test]
async fn enroll_does_nothing_if_the_file_cannot_be_made() {
    let world = World::start().await;
    let runtimes = async || {
        let page = world.owner.query(beepgrid::QueryInput::new("instances")).await.expect("a page");
        page.items.len()
    };
    let before = runtimes().await;
    world.secret("taken", "another's");
    symlink("nowhere", world.path("link")).expect("a link");
    for out in ["taken", "link", "taken/below", "folder/", "."] {
        world.feed("owner", &["enroll", "--input", "-", "--out", out], AGENT).await.fails(2, "output_file");
    }
    assert_eq!(fs::read(world.path("taken")).expect("there"), b"another's");
    for wrong in
        ["[]", "", "{", r#"{"agent":"a","name":"b","nmae":"c"}"#, r#"{"agent":"a","agent":"b","name":"c"}"#, r#"{"name":"c"}"#]
    {
        world.feed("owner", &["enroll", "--input", "-", "--out", "new"], wrong).await.fails(2, "invalid_input");
    }
    world.feed("builder", &["enroll", "--input", "-", "--out", "new"], AGENT).await.fails(3, "forbidden");
    assert!(!world.path("new").exists());
    assert_eq!(runtimes().await, before);
    world.feed("owner", &["enroll", "--input", "-"], AGENT).await.fails(2, "usage");
    world.feed("owner", &["enroll", "--input", "-", "--out", "new", "--key", "k"], AGENT).await.fails(2, "usage");
}

#[tokio::test]
async fn seed_makes_a_launcher_for_one_prefix_with_the_local_owners_token() {
    let world = World::start().await;
    fs::create_dir(world.path(".local")).expect("a folder");
    world.secret(".local/owner-token", world.engine.owner_token());
    let mut command = beepgrid(&world.path("."), &["seed"]);
    command.env("BEEPGRID_URL", world.engine.url());
    let ran = finished(command, "").await;
    let seeded = ran.json();
    assert_eq!((&seeded["prefix"], &seeded["service"]["name"]), (&json!("examples/"), &json!("Local launcher")));
    let launcher = ".local/launcher-token";
    assert_eq!(mode(&world.path(launcher)), 0o600);
    let token = fs::read_to_string(world.path(launcher)).expect("there");
    assert!(!ran.stdout.contains(token.trim()));
    let inside = r#"{"agent":"examples/a","name":"A"}"#;
    world.feed(launcher, &["enroll", "--input", "-", "--out", "a"], inside).await.json();
    world.feed(launcher, &["enroll", "--input", "-", "--out", "b"], AGENT).await.fails(3, "forbidden");
    let again = world.run("owner", &["seed", "--out", "second", "--name", "Other"]).await.json();
    assert_eq!(again["service"]["id"], seeded["service"]["id"], "one launcher for one prefix");
    let other = world.run("owner", &["seed", "--prefix", "team/", "--out", "third", "--name", "Team"]).await.json();
    assert_ne!(other["service"]["id"], seeded["service"]["id"]);
    world.run("owner", &["seed", "--out", "second"]).await.fails(2, "output_file");
    world.run("owner", &["seed", "--prefix", "no-slash", "--out", "fourth"]).await.fails(2, "invalid_request");
    world.run("builder", &["seed", "--out", "fourth"]).await.fails(3, "forbidden");
    assert!(!world.path("fourth").exists());
}

#[tokio::test]
async fn the_owners_token_is_taken_by_operators_commands_alone_and_stays_here() {
    let world = World::start().await;
    fs::create_dir(world.path(".local")).expect("a folder");
    world.secret(".local/owner-token", world.engine.owner_token());
    let run = async |arguments: &[&str], url: &str| {
        let mut command = beepgrid(&world.path("."), arguments);
        command.env("BEEPGRID_URL", url);
        finished(command, "").await
    };
    let url = world.engine.url();
    assert_eq!(run(&["diagnose"], url).await.json()["ok"], true);
    run(&["trace", "req_none"], url).await.fails(1, "not_found");
    run(&["list", "agents"], url).await.fails(2, "invalid_input");
    run(&["api", "GET", "/api/v1/me"], url).await.fails(2, "invalid_input");
    run(&["enroll", "--input", "-", "--out", "x"], url).await.fails(2, "invalid_input");
    run(&["diagnose"], "https://beepgrid.example").await.fails(2, "invalid_input");
    let mut chosen = world.command("builder", &["diagnose"]);
    chosen.env("BEEPGRID_TOKEN", "");
    finished(chosen, "").await.fails(3, "forbidden");
}

#[tokio::test]
async fn only_a_token_is_a_token_file() {
    let world = World::start().await;
    let token = world.engine.owner_token().to_owned();
    for ending in ["", "\n", "\r\n"] {
        world.secret("file", format!("{token}{ending}"));
        world.run("file", &["api", "GET", "/api/v1/me"]).await.json();
    }
    let utf16: Vec<u8> = [0xFF, 0xFE].into_iter().chain(token.bytes().flat_map(|byte| [byte, 0])).collect();
    let wrong: Vec<Vec<u8>> = vec![
        format!("{token}\n\n").into(),
        format!(" {token}").into(),
        format!("{token} ").into(),
        format!("\u{feff}{token}").into(),
        utf16,
        Vec::new(),
        b"\n".to_vec(),
        format!("{token}\n{token}\n").into(),
        format!("{token}\0").into(),
        vec![b'a'; 1 << 20],
    ];
    for content in wrong {
        let path = world.secret("file", &content);
        let failed = world.run("file", &["api", "GET", "/api/v1/me"]).await;
        let message = failed.fails(2, "invalid_input")["message"].to_string();
        assert!(message.contains(path.to_str().expect("a path")), "{message}");
        assert!(!failed.stderr.contains(&token));
    }
    let path = world.secret("file", &token);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("opened");
    world.run("file", &["api", "GET", "/api/v1/me"]).await.fails(2, "invalid_input");
    world.run("none", &["api", "GET", "/api/v1/me"]).await.fails(2, "invalid_input");
}

#[tokio::test]
async fn wrong_and_revoked_tokens_are_authentication_failures() {
    let world = World::start().await;
    world.secret("wrong", "bpg_0000000000000000000000000000000000000000");
    let failed = world.run("wrong", &["list", "agents"]).await;
    assert_eq!(failed.fails(3, "unauthorized")["status"], 401);
    assert!(!failed.stderr.contains("bpg_"));
    let credential = world.builder.me().await.expect("me").credential.id;
    world.owner.revoke_credential(&credential, RevokeInput::new(false)).await.expect("revoked");
    world.run("builder", &["send", "agent", "team/billing-2", "x"]).await.fails(3, "unauthorized");
    world.run("builder", &["wait", "req_none"]).await.fails(3, "unauthorized");
    world.run("builder", &["events"]).await.fails(3, "unauthorized");
}

#[tokio::test]
async fn the_environments_token_wins_with_a_warning_that_is_json_too() {
    let world = World::start().await;
    let mut command = world.command("billing", &["api", "GET", "/api/v1/me"]);
    command.env("BEEPGRID_TOKEN", world.engine.owner_token());
    let ran = finished(command, "").await;
    assert_eq!(ran.exit, 0);
    let me: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(me["operator"], true);
    let warning: Value = serde_json::from_str(ran.stderr.trim()).expect("one line of JSON");
    assert_eq!(warning["level"], "WARN");
    assert!(!ran.stderr.contains(world.engine.owner_token()));
}

#[tokio::test]
async fn output_files_are_private_whatever_the_umask_is() {
    let world = World::start().await;
    let program = env!("CARGO_BIN_EXE_beepgrid");
    for (umask, name) in [("000", "a"), ("777", "b")] {
        let mut command = tokio::process::Command::new("sh");
        command.arg("-c").arg(format!("umask {umask}; exec '{program}' api GET /api/v1/me --out {name}"));
        command
            .current_dir(world.path("."))
            .env("BEEPGRID_URL", world.engine.url())
            .env("BEEPGRID_TOKEN_FILE", world.path("builder"));
        let output = command.output().await.expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(mode(&world.path(name)), 0o600);
    }
}
