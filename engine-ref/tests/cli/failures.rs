//! Wrong usage, no engine, no answer, signals, closed pipes: each has its exit code, and says what is known of the outcome.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

use beepgrid::{AskInput, Target};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::support::{Ran, World, answered, ended, finished, scripted, signal, until};

#[tokio::test]
async fn wrong_usage_is_told_without_repeating_the_arguments() {
    let world = World::start().await;
    for arguments in [
        &[][..],
        &["nonsense"],
        &["send"],
        &["send", "agent", "id"],
        &["send", "robot", "id", "text"],
        &["send", "agent", "id", "text", "more"],
        &["send", "--input", "file", "agent", "id", "text"],
        &["send", "agent", "id", "text", "--key", "two words"],
        &["send", "agent", "id", "text", "--timeout", "0"],
        &["send", "agent", "id", "text", "--timeout", "soon"],
        &["ask"],
        &["approve", "--input"],
        &["respond", "--input", "-"],
        &["wait"],
        &["list"],
        &["api", "GET"],
        &["api", "FETCH", "/api/v1/me"],
        &["enroll", "--input", "-"],
        &["file-download", "att_1"],
        &["file-upload", "file"],
        &["trace"],
        &["inbox"],
        &["inbox", "resolve", "file", "id"],
        &["help", "nonsense"],
    ] {
        world.run("builder", arguments).await.fails(2, "usage");
    }
    let secret = "bpg_5f4dcc3b5aa765d61d8327deb882cf99";
    for arguments in [
        &["--token", secret][..],
        &["list", "agents", "--token", secret],
        &["list", "agents", &format!("--token={secret}")],
        &[secret],
        &["send", secret, "a", "b"],
        &["list", "agents", "--limit", secret],
        &["send", "agent", "a", "b", "--key", &format!("{secret} ")],
    ] {
        let ran = world.run("builder", arguments).await;
        ran.fails(2, "usage");
        assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn inputs_that_are_no_json_object_are_refused_before_anything_is_sent() {
    let world = World::start().await;
    let nowhere = async |input: &str| {
        let mut command = world.command("builder", &["ask", "--input", "-"]);
        command.env("BEEPGRID_URL", "http://127.0.0.1:9");
        finished(command, input).await
    };
    for input in
        ["", "{", "[]", "null", "\u{feff}{}", r#"{"a":1,"a":2}"#, r#"{"body":"\u0000"}"#, r#"{"n":12345678901234567890123}"#]
    {
        nowhere(input).await.fails(2, "invalid_input");
    }
    nowhere(&format!("{{\"body\":\"{}\"}}", "x".repeat(4 * 1024 * 1024))).await.fails(2, "too_large");
    world.run("builder", &["ask", "--input", "missing.json"]).await.fails(2, "invalid_input");
    world.run("builder", &["ask", "--input", "."]).await.fails(2, "invalid_input");
    std::fs::write(world.path("binary"), b"{\"body\":\"\xff\"}").expect("written");
    world.run("builder", &["ask", "--input", "binary"]).await.fails(2, "invalid_input");
    let unknown = json!({"target": {"kind": "agent", "id": "x"}, "bdoy": "x"}).to_string();
    world.feed("builder", &["ask", "--input", "-"], &unknown).await.fails(2, "invalid_request");
    // Exactly the limit is read, and it is the engine that finds the body too long.
    let frame = r#"{"body":""}"#.len();
    let longest = format!("{{\"body\":\"{}\"}}", "x".repeat(4 * 1024 * 1024 - frame));
    world.feed("builder", &["ask", "--input", "-"], &longest).await.fails(2, "invalid_request");
}

#[tokio::test]
async fn arguments_that_are_no_text_are_usage_errors() {
    let world = World::start().await;
    let bad = OsStr::from_bytes(b"\xff\xfe");
    for before in
        [&[][..], &["send", "agent"], &["list"], &["wait"], &["send", "--key"], &["api", "GET"], &["inbox", "show", "file"]]
    {
        let mut command = world.command("builder", before);
        command.arg(bad);
        finished(command, "").await.fails(2, "usage");
    }
    // A path may be anything.
    let mut command = world.command("builder", &["ask", "--input"]);
    command.arg(bad);
    finished(command, "").await.fails(2, "invalid_input");
    let mut command = world.command("builder", &["list", "agents"]);
    command.env("BEEPGRID_URL", bad);
    finished(command, "").await.fails(2, "invalid_input");
}

#[tokio::test]
async fn an_engine_that_cannot_be_reached_leaves_no_doubt() {
    let world = World::start().await;
    for arguments in
        [&["send", "agent", "team/billing-2", "x"][..], &["list", "agents"], &["api", "GET", "/api/v1/me"], &["files", "cnv_1"]]
    {
        let mut command = world.command("builder", arguments);
        command.env("BEEPGRID_URL", "http://127.0.0.1:9");
        let error = finished(command, "").await.fails(1, "transport");
        assert!(error.get("outcome_unknown").is_none() && error.get("status").is_none());
    }
    for url in ["http://beepgrid.example", "ftp://localhost", "https://user:secret@localhost", "nonsense"] {
        let mut command = world.command("builder", &["list", "agents"]);
        command.env("BEEPGRID_URL", url);
        let ran = finished(command, "").await;
        ran.fails(2, "invalid_input");
        assert!(!ran.stderr.contains("secret"));
    }
}

#[tokio::test]
async fn a_deadline_names_the_key_under_which_to_try_again() {
    let world = World::start().await;
    let silent = scripted(None).await;
    let run = async |arguments: &[&str]| {
        let mut command = world.command("builder", arguments);
        command.env("BEEPGRID_URL", &silent);
        finished(command, "").await
    };
    let error = run(&["send", "agent", "a", "b", "--timeout", "300ms", "--key", "mine"]).await.fails(4, "deadline");
    assert_eq!((&error["outcome_unknown"], &error["idempotency_key"]), (&json!(true), &json!("mine")));
    let error = run(&["send", "--timeout", "300ms", "agent", "a", "b"]).await.fails(4, "deadline");
    assert!(error["idempotency_key"].as_str().is_some_and(|key| key.parse::<beepgrid::Key>().is_ok()));
    let error = run(&["list", "agents", "--timeout", "300ms"]).await.fails(4, "deadline");
    assert!(error.get("outcome_unknown").is_none());
    std::fs::write(world.path("file"), "x").expect("written");
    let error = run(&["file-stage", "file", "--timeout", "300ms"]).await.fails(4, "deadline");
    assert_eq!((&error["outcome_unknown"], error.get("idempotency_key")), (&json!(true), None));
    run(&["wait", "req_1", "--timeout", "300ms"]).await.fails(4, "deadline");
}

#[tokio::test]
async fn a_lost_answer_is_told_and_the_same_key_recovers_it() {
    let world = World::start().await;
    let cut = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{".to_owned();
    let mut command = world.command("builder", &["send", "agent", "team/billing-2", "Once"]);
    command.env("BEEPGRID_URL", scripted(Some(cut)).await);
    let error = finished(command, "").await.fails(1, "transport");
    assert_eq!(error["outcome_unknown"], true);
    let key = error["idempotency_key"].as_str().expect("a key");
    let sent = world.run("builder", &["send", "agent", "team/billing-2", "Once", "--key", key]).await.json();
    let again = world.run("builder", &["send", "agent", "team/billing-2", "Once", "--key", key]).await.json();
    assert_eq!(sent["messages"][0]["id"], again["messages"][0]["id"]);
}

#[tokio::test]
async fn answers_that_are_none_are_failures() {
    let world = World::start().await;
    let redirect = "HTTP/1.1 302 Found\r\nLocation: https://example.com/\r\nContent-Length: 0\r\n\r\n".to_owned();
    let proxy = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\nSad.".to_owned();
    let limited =
        "HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 40\r\n\r\n{\"code\":\"rate_limited\",\"message\":\"slow\"}";
    for (answer, exit, code) in [
        (redirect, 1, "redirect"),
        (proxy, 1, "failed"),
        (answered("<html>"), 1, "decode"),
        (limited.to_owned(), 1, "rate_limited"),
    ] {
        let mut command = world.command("builder", &["list", "agents"]);
        command.env("BEEPGRID_URL", scripted(Some(answer)).await);
        let error = finished(command, "").await.fails(exit, code);
        if code == "rate_limited" {
            assert_eq!((&error["status"], &error["retry_after_seconds"]), (&json!(429), &json!(7)));
        }
    }
}

#[tokio::test]
async fn an_empty_page_keeps_its_cursor_and_large_numbers_their_digits() {
    let world = World::start().await;
    for page in [
        r#"{"items":[],"next_cursor":"c2","order":"id"}"#,
        r#"{"items":[],"next_cursor":"","order":"id"}"#,
        r#"{"items":[{"later":[9007199254740993,9223372036854775807,-9223372036854775808,0.1]}],"order":"id"}"#,
    ] {
        let mut command = world.command("builder", &["list", "agents"]);
        command.env("BEEPGRID_URL", scripted(Some(answered(page))).await);
        assert_eq!(finished(command, "").await.stdout.trim(), page);
    }
}

#[tokio::test]
async fn a_signal_ends_waiting_and_the_request_stands() {
    let world = World::start().await;
    let request = world.builder.ask(AskInput::to(Target::agent(&world.billing_id), "Well?")).await.expect("asked");
    for name in ["-INT", "-TERM"] {
        // A relay shows when the command waits: it has sent its call then.
        let (url, waits) = relay().await;
        let mut command = world.command("builder", &["wait", request.id.as_str()]);
        command.env("BEEPGRID_URL", url);
        let child = command.spawn().expect("it starts");
        waits.await.expect("a call");
        signal(&child, name).await;
        let error = ended(child).await.fails(4, "cancelled");
        assert!(error.get("outcome_unknown").is_none());
    }
    assert_eq!(world.builder.get_request(&request.id).await.expect("there").state.as_str(), "open");
}

#[tokio::test]
async fn a_signal_during_a_write_names_the_key() {
    let world = World::start().await;
    let (url, waits) = relay().await;
    let mut command = world.command("builder", &["send", "agent", "a", "b"]);
    command.env("BEEPGRID_URL", url);
    let child = command.spawn().expect("it starts");
    waits.await.expect("a call");
    signal(&child, "-INT").await;
    let error = ended(child).await.fails(4, "cancelled");
    assert_eq!(error["outcome_unknown"], true);
    assert!(error["idempotency_key"].as_str().is_some_and(|key| !key.is_empty()));
}

/// A server that takes one call and never answers; the receiver ends when the call is there.
async fn relay() -> (String, tokio::sync::oneshot::Receiver<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (there, waits) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a call");
        let mut byte = [0];
        let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut byte).await;
        let _ = there.send(());
        std::future::pending::<()>().await;
    });
    (url, waits)
}

#[tokio::test]
async fn a_signal_ends_a_command_that_still_reads_its_input() {
    let world = World::start().await;
    let mut child = world.command("builder", &["ask", "--input", "-"]).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"{").await.expect("written");
    // It catches the signal from when it reads on; before, the signal would end it too, but not with an exit code.
    let id = child.id().expect("it runs");
    until("it catches signals", async || catches_interrupt(id)).await;
    signal(&child, "-INT").await;
    let ran =
        tokio::time::timeout(crate::support::PATIENCE, child.wait_with_output()).await.expect("it ends").expect("its output");
    drop(stdin);
    assert!(Ran::of(ran).fails(4, "cancelled").get("outcome_unknown").is_none());
}

/// Whether a process has a handler for SIGINT, as the system tells.
fn catches_interrupt(id: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{id}/status")) else { return true };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim).unwrap_or_default();
    u64::from_str_radix(mask, 16).is_ok_and(|mask| mask & 0b10 != 0)
}

#[tokio::test]
async fn closed_output_ends_quietly_and_full_output_does_not() {
    let world = World::start().await;
    let program = env!("CARGO_BIN_EXE_beepgrid");
    let shell = async |script: &str| {
        let mut run = tokio::process::Command::new("sh");
        run.arg("-c").arg(script).current_dir(world.path(".")).stdin(Stdio::null());
        run.env("BEEPGRID_URL", world.engine.url()).env("BEEPGRID_TOKEN_FILE", world.path("builder")).env("P", program);
        let output = run.output().await.expect("it runs");
        Ran::of(output)
    };
    // The reader is gone before anything is printed.
    let gone =
        shell("{ sleep 0.3; \"$P\" list agents; echo $? >code; } | true; while [ ! -s code ]; do sleep 0.05; done; cat code")
            .await;
    assert_eq!((gone.stdout.trim(), gone.stderr.as_str()), ("0", ""));
    let closed = shell("\"$P\" list agents >&-").await;
    assert_eq!((closed.exit, closed.stderr.as_str()), (0, ""));
    if std::path::Path::new("/dev/full").exists() {
        let full = shell("\"$P\" list agents >/dev/full").await;
        full.fails(1, "output");
    }
}
