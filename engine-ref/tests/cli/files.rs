//! files, file-stage, file-upload, file-download (field reports B33, B34).

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use beepgrid::{SendInput, Target};
use serde_json::json;

use crate::support::{World, answered, beepgrid, finished, mode, scripted};

const LIMIT: usize = 5 * 1024 * 1024;

#[tokio::test]
async fn a_file_goes_from_one_agent_to_the_other() {
    let world = World::start().await;
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    fs::write(world.path("заказ 🚀.pdf"), &bytes).expect("written");
    let draft = world.run("builder", &["file-stage", "--media", "application/pdf", "заказ 🚀.pdf"]).await.json();
    assert_eq!(
        (&draft["file_name"], &draft["media_type"], &draft["size"]),
        (&json!("заказ 🚀.pdf"), &json!("application/pdf"), &json!(100_000))
    );
    let message = json!({"target": {"kind": "agent", "id": world.billing_id}, "body": "See", "attachment_ids": [draft["id"]]});
    let sent = world.feed("builder", &["send", "--input", "-"], &message.to_string()).await.json();
    let conversation = sent["conversation_id"].as_str().expect("an id");
    fs::write(world.path("notes.txt"), "Orders").expect("written");
    let uploaded = world.run("billing", &["file-upload", "notes.txt", "--conversation", conversation]).await.json();
    assert_eq!(uploaded["conversation_id"], conversation);
    let listed = world.run("billing", &["files", conversation]).await.json();
    let names: Vec<_> = listed.as_array().expect("a list").iter().map(|file| file["file_name"].clone()).collect();
    assert_eq!(names, [json!("заказ 🚀.pdf"), json!("notes.txt")]);
    let id = listed[0]["id"].as_str().expect("an id");
    let receipt = world.run("billing", &["file-download", "--out", "got.pdf", id]).await.json();
    assert_eq!((&receipt["saved"], &receipt["bytes"]), (&json!("got.pdf"), &json!(100_000)));
    assert_eq!(fs::read(world.path("got.pdf")).expect("there"), bytes);
    assert_eq!(mode(&world.path("got.pdf")), 0o600);
    let through_api = format!("/api/v1/attachments/{id}/content");
    world.run("billing", &["api", "GET", &through_api]).await.fails(2, "usage");
    world.run("billing", &["api", "GET", &through_api, "--out", "again.pdf"]).await.json();
    assert_eq!(fs::read(world.path("again.pdf")).expect("there"), bytes);
    world.run("builder", &["file-download", "--out", "none", "att_none"]).await.fails(1, "not_found");
    assert!(!world.path("none").exists());
    world.run("builder", &["files", "cnv_none"]).await.fails(1, "not_found");
}

#[tokio::test]
async fn sizes_are_checked_before_anything_is_sent() {
    let world = World::start().await;
    for (size, exit) in [(0, 2), (1, 0), (LIMIT, 0), (LIMIT + 1, 2), (LIMIT * 3, 2)] {
        fs::write(world.path("file"), vec![7; size]).expect("written");
        let ran = world.run("builder", &["file-stage", "file"]).await;
        assert_eq!(ran.exit, exit, "{size}: {}", ran.stderr);
    }
    // Nobody listens there: what is refused was not sent.
    let nowhere = async |arguments: &[&str]| {
        let mut command = world.command("builder", arguments);
        command.env("BEEPGRID_URL", "http://127.0.0.1:9");
        finished(command, "").await
    };
    nowhere(&["file-stage", "file"]).await.fails(2, "too_large");
    nowhere(&["file-stage", "missing"]).await.fails(2, "invalid_input");
    nowhere(&["file-stage", "."]).await.fails(2, "invalid_input");
    nowhere(&["file-upload", "file"]).await.fails(2, "usage");
}

#[tokio::test]
async fn an_existing_path_is_never_overwritten_and_no_link_followed() {
    let world = World::start().await;
    let draft = world.builder.stage_attachment("../../evil", "text/plain", "bytes").await.expect("staged");
    let message = SendInput::to(Target::agent(&world.billing_id), "x").attachment_ids(vec![draft.id]);
    let sent = world.builder.send(message).await.expect("sent");
    let id = world.billing.attachments(&sent.conversation_id).await.expect("files").remove(0).id;
    fs::write(world.path("mine"), "keep").expect("written");
    symlink("elsewhere", world.path("link")).expect("a link");
    for out in ["mine", "link", ".", "no/such/folder/file"] {
        world.run("billing", &["file-download", "--out", out, id.as_str()]).await.fails(2, "output_file");
    }
    assert_eq!(fs::read(world.path("mine")).expect("there"), b"keep");
    assert!(!world.path("elsewhere").exists());
    world.run("billing", &["file-download", "--out", "here", id.as_str()]).await.json();
    assert_eq!(fs::read(world.path("here")).expect("there"), b"bytes");
}

#[tokio::test]
async fn a_download_that_breaks_off_leaves_nothing() {
    let world = World::start().await;
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nETag: \"00\"\r\n\r\nhalf".to_owned();
    for answer in [cut, answered("{}")] {
        let mut command = world.command("builder", &["file-download", "--out", "broken", "att_1"]);
        command.env("BEEPGRID_URL", scripted(Some(answer)).await);
        assert_eq!(finished(command, "").await.exit, 1);
        assert!(!world.path("broken").exists());
    }
    let left: Vec<_> = fs::read_dir(world.path(".")).expect("a folder").map(|file| file.expect("a file").file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".beepgrid")), "{left:?}");
}

#[tokio::test]
async fn a_file_name_that_is_no_text_is_uploaded_under_one_that_is() {
    let world = World::start().await;
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    if fs::write(world.path(".").join(name), "x").is_err() {
        return; // this file system has no such names
    }
    let mut command = beepgrid(&world.path("."), &["file-stage"]);
    command.arg(name).env("BEEPGRID_URL", world.engine.url()).env("BEEPGRID_TOKEN_FILE", world.path("builder"));
    let draft = finished(command, "").await.json();
    assert_eq!(draft["file_name"], "caf\u{fffd}.txt");
}
