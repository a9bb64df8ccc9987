//! The SQLite inbox on a real disk: one owner, private files, contention, damage, a full disk (field reports B19, B22, B45).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![cfg(unix)]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, sync_channel};
use std::time::Duration;

use beepgrid::Timestamp;
use beepgrid_receiver::inbox::{NextState, StateChange, suite};
use beepgrid_receiver::{
    Attempt, BusyMode, Content, HeldReason, InboxErrorKind, InboxStore, InputState, Receiver, Resolution, Route, SqliteInbox,
};
use support::engine::FakeEngine;
use support::runtime::Runtime;
use support::{message, until};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inbox");
    (folder, path)
}

async fn refusal(path: &Path) -> InboxErrorKind {
    SqliteInbox::open(path).await.unwrap_err().kind()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn change(id: &str, revision: i64, to: NextState) -> Vec<StateChange> {
    vec![StateChange { id: id.into(), revision, to }]
}

fn submitting() -> NextState {
    NextState::Submitting(Attempt::new(1, "run", at(1), Route::Start))
}

#[tokio::test]
async fn folder_and_files_are_private_and_what_was_stored_is_there_after_reopening() {
    let (_kept, path) = folder();
    let inbox = SqliteInbox::open(&path).await.unwrap();
    inbox.put(vec![message("m1", "a")], at(1)).await.unwrap();
    assert_eq!(mode(&path), 0o700);
    for entry in fs::read_dir(&path).unwrap() {
        let file = entry.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    drop(inbox);
    let again = SqliteInbox::open(&path).await.unwrap();
    assert_eq!(again.pending(10).await.unwrap()[0].body(), "text of m1");
}

#[tokio::test]
async fn what_others_may_read_is_refused() {
    let (_kept, path) = folder();
    drop(SqliteInbox::open(&path).await.unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    assert_eq!(refusal(&path).await, InboxErrorKind::NotPrivate);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(path.join("inbox.db"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(refusal(&path).await, InboxErrorKind::NotPrivate);
}

// B22: one owner.

#[tokio::test]
async fn a_second_owner_is_refused_and_the_first_unaffected() {
    let (_kept, path) = folder();
    let first = SqliteInbox::open(&path).await.unwrap();
    assert_eq!(refusal(&path).await, InboxErrorKind::InUse);
    first.put(vec![message("m1", "a")], at(1)).await.unwrap();
    first.close().await.unwrap();
    SqliteInbox::open(&path).await.unwrap();
}

#[tokio::test]
async fn another_path_or_a_link_to_the_folder_is_the_same_folder() {
    let (kept, path) = folder();
    let _first = SqliteInbox::open(&path).await.unwrap();
    let link = kept.path().join("link");
    symlink(&path, &link).unwrap();
    assert_eq!(refusal(&link).await, InboxErrorKind::InUse);
    assert_eq!(refusal(&path.join("..").join("inbox")).await, InboxErrorKind::InUse);
}

#[tokio::test]
async fn a_database_reached_through_links_in_another_folder_is_refused() {
    let (kept, path) = folder();
    let _first = SqliteInbox::open(&path).await.unwrap();
    for hard in [false, true] {
        let other = kept.path().join(format!("other-{hard}"));
        fs::create_dir(&other).unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o700)).unwrap();
        let (from, to) = (path.join("inbox.db"), other.join("inbox.db"));
        if hard {
            fs::hard_link(from, to).unwrap();
        } else {
            symlink(from, to).unwrap();
        }
        assert_eq!(refusal(&other).await, InboxErrorKind::NotPrivate);
    }
}

#[tokio::test]
async fn deleting_the_lock_file_makes_no_second_owner() {
    let (_kept, path) = folder();
    let first = SqliteInbox::open(&path).await.unwrap();
    fs::remove_file(path.join("inbox.lock")).unwrap();
    assert_eq!(refusal(&path).await, InboxErrorKind::InUse);
    first.put(vec![message("m1", "a")], at(1)).await.unwrap();
}

#[tokio::test]
async fn an_owner_whose_database_was_replaced_stops_itself() {
    let (kept, path) = folder();
    let inbox = SqliteInbox::open(&path).await.unwrap();
    inbox.put(vec![message("m1", "a")], at(1)).await.unwrap();
    fs::rename(path.join("inbox.db"), kept.path().join("away.db")).unwrap();
    let refused = inbox.put(vec![message("m2", "a")], at(1)).await.unwrap_err();
    assert_eq!(refused.kind(), InboxErrorKind::LockLost);
    fs::rename(kept.path().join("away.db"), path.join("inbox.db")).unwrap();
    inbox.put(vec![message("m2", "a")], at(1)).await.unwrap();
}

// B19: every path that writes waits for another writer.

/// Holds the database's write lock from another connection until told to let go.
fn another_writer(path: &Path) -> Sender<()> {
    let (held, holding) = sync_channel(1);
    #[expect(clippy::disallowed_methods, reason = "one message")]
    let (release, released) = std::sync::mpsc::channel();
    let file = path.join("inbox.db");
    std::thread::spawn(move || {
        let db = rusqlite::Connection::open(file).unwrap();
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        held.send(()).unwrap();
        let _ = released.recv_timeout(Duration::from_secs(1));
        db.execute_batch("ROLLBACK").unwrap();
    });
    holding.recv().unwrap();
    release
}

/// Every method of the trait that writes; a new one belongs here.
const WRITERS: [&str; 5] = ["put", "mark_acked", "set_state", "resolve", "prune"];

#[tokio::test]
async fn every_write_waits_for_another_writer_and_succeeds_whole() {
    for writer in WRITERS {
        let (_kept, path) = folder();
        let inbox = SqliteInbox::open(&path).await.unwrap();
        inbox.put(vec![message("m1", "a"), message("m2", "a")], at(1)).await.unwrap();
        inbox.set_state(change("m2", 1, submitting()), at(2)).await.unwrap();
        let held = NextState::Held { state: InputState::Pending, reason: HeldReason::TooManyAttempts, detail: String::new() };
        inbox.set_state(change("m2", 2, held), at(3)).await.unwrap();
        let _held = another_writer(&path);
        let began = std::time::Instant::now();
        match writer {
            "put" => assert_eq!(inbox.put(vec![message("m3", "a"), message("m4", "a")], at(4)).await.unwrap().new, 2),
            "mark_acked" => inbox.mark_acked(vec![("m1".into(), 1)]).await.unwrap(),
            "set_state" => drop(inbox.set_state(change("m1", 1, submitting()), at(4)).await.unwrap()),
            "resolve" => inbox.resolve("m2".into(), Resolution::Retry, at(4)).await.unwrap(),
            "prune" => assert_eq!(inbox.prune(at(4)).await.unwrap(), 0),
            other => panic!("{other} is not tried"),
        }
        assert!(began.elapsed() > Duration::from_millis(500), "{writer} did not have to wait");
    }
}

#[tokio::test]
async fn a_writer_that_never_lets_go_gives_a_typed_error_and_changes_nothing() {
    let (_kept, path) = folder();
    let inbox = SqliteInbox::options(&path).busy_timeout(Duration::from_millis(50)).open().await.unwrap();
    let held = another_writer(&path);
    let refused = inbox.put(vec![message("m1", "a")], at(1)).await.unwrap_err();
    assert_eq!(refused.kind(), InboxErrorKind::Busy);
    drop(held);
    until("it works again", async || inbox.put(vec![message("m1", "a")], at(1)).await.is_ok()).await;
    assert_eq!(inbox.counts().await.unwrap().rows, 1);
}

// Damage.

#[tokio::test]
async fn a_full_disk_refuses_the_whole_batch_and_keeps_what_was_stored() {
    let (_kept, path) = folder();
    let inbox = SqliteInbox::options(&path).max_pages(40).open().await.unwrap();
    inbox.put(vec![message("m1", "a")], at(1)).await.unwrap();
    let big = |n: i64| suite::message_in(&format!("d{n}"), n, "a", &"x".repeat(30_000));
    let refused = inbox.put((2..20).map(big).collect(), at(2)).await.unwrap_err();
    assert_eq!(refused.kind(), InboxErrorKind::Full);
    assert_eq!(inbox.counts().await.unwrap().rows, 1);
    inbox.set_state(change("m1", 1, submitting()), at(3)).await.unwrap();
    inbox.set_state(change("m1", 2, NextState::Accepted), at(4)).await.unwrap();
    inbox.put(vec![big(2)], at(5)).await.unwrap();
    assert_eq!(inbox.counts().await.unwrap().rows, 2);
}

#[tokio::test]
async fn a_damaged_file_is_refused_with_a_clear_error() {
    let (_kept, path) = folder();
    let inbox = SqliteInbox::open(&path).await.unwrap();
    for n in 1..50 {
        inbox.put(vec![message(&format!("m{n}"), "a")], at(1)).await.unwrap();
    }
    inbox.close().await.unwrap();
    let file = path.join("inbox.db");
    let whole = fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    // Everything behind the first page, which is free of rows, up to the middle: whatever lies where, some of it is in use.
    damaged[4_096..middle].fill(0xAA);
    fs::write(&file, damaged).unwrap();
    assert_eq!(refusal(&path).await, InboxErrorKind::Corrupt);
    fs::write(&file, b"this is no database, and longer than a header of one hundred bytes would be ........................")
        .unwrap();
    assert_eq!(refusal(&path).await, InboxErrorKind::Corrupt);
    fs::write(&file, whole).unwrap();
    assert_eq!(SqliteInbox::open(&path).await.unwrap().counts().await.unwrap().rows, 49);
}

#[tokio::test]
async fn a_newer_schema_and_another_programs_file_are_refused_untouched() {
    let (_kept, path) = folder();
    drop(SqliteInbox::open(&path).await.unwrap());
    let file = path.join("inbox.db");
    let sql = |text: &str| rusqlite::Connection::open(&file).unwrap().execute_batch(text).unwrap();
    sql("INSERT INTO schema_version (version) VALUES (99)");
    assert_eq!(refusal(&path).await, InboxErrorKind::Newer);
    sql("DELETE FROM schema_version WHERE version = 99; PRAGMA application_id = 7");
    assert_eq!(refusal(&path).await, InboxErrorKind::Corrupt);
}

#[tokio::test]
async fn accepted_content_is_nowhere_on_disk() {
    let (_kept, path) = folder();
    let inbox = SqliteInbox::open(&path).await.unwrap();
    let secret = "the-code-is-4711-".repeat(500);
    inbox.put(vec![suite::message_in("d1", 1, "a", &secret), message("m2", "a")], at(1)).await.unwrap();
    inbox.set_state(change("d1", 1, submitting()), at(2)).await.unwrap();
    inbox.set_state(change("d1", 2, NextState::Accepted), at(3)).await.unwrap();
    inbox.prune(at(0)).await.unwrap();
    for entry in fs::read_dir(&path).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(16).any(|window| window == b"the-code-is-4711"));
    }
    assert_eq!(inbox.get("d1".into()).await.unwrap().unwrap().content, Content::Scrubbed);
}

#[tokio::test]
async fn what_is_counted_on_the_way_is_what_a_fresh_look_finds() {
    let (_kept, path) = folder();
    let inbox = SqliteInbox::open(&path).await.unwrap();
    let about = support::about;
    let mut batch: Vec<_> = (1..=6).map(|n| message(&format!("m{n}"), "a")).collect();
    batch.extend([about("d7", "request", "req_1"), about("d8", "request_result", "req_2"), about("d9", "request", "req_3")]);
    inbox.put(batch.clone(), at(1)).await.unwrap();
    inbox.put(batch, at(2)).await.unwrap();
    inbox.put(vec![about("d10", "request_withdrawn", "req_1")], at(3)).await.unwrap();
    for id in ["m1", "m2", "m3", "d8", "d9"] {
        inbox.set_state(change(id, 1, submitting()), at(4)).await.unwrap();
    }
    inbox.put(vec![about("d11", "request_withdrawn", "req_3")], at(5)).await.unwrap();
    inbox.set_state(change("m1", 2, NextState::Accepted), at(6)).await.unwrap();
    inbox.set_state(change("m1", 2, NextState::Accepted), at(6)).await.unwrap();
    let back = NextState::Pending { counted: true, next_attempt_at: None, error: None };
    inbox.set_state(change("d9", 2, back), at(7)).await.unwrap();
    for (id, state) in [("m2", InputState::Submitting), ("m3", InputState::Pending), ("d8", InputState::Submitting)] {
        let held = NextState::Held { state, reason: HeldReason::Undecided, detail: String::new() };
        inbox.set_state(change(id, 2, held), at(8)).await.unwrap();
    }
    inbox.resolve("m2".into(), Resolution::Discard, at(9)).await.unwrap();
    inbox.resolve("m3".into(), Resolution::Retry, at(9)).await.unwrap();
    inbox.mark_acked(vec![("m1".into(), 1), ("m2".into(), 1)]).await.unwrap();
    assert_eq!(inbox.prune(at(7)).await.unwrap(), 1);
    let counted = inbox.counts().await.unwrap();
    drop(inbox);
    assert_eq!(SqliteInbox::open(&path).await.unwrap().counts().await.unwrap(), counted);
    assert_eq!((counted.pending, counted.submitting, counted.held, counted.rows), (4, 0, 1, 10));
    assert_eq!((counted.open_ordinary, counted.open_results), (4, 1));
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_refused_with_a_typed_error() {
    let (kept, path) = folder();
    fs::write(kept.path().join("file"), b"").unwrap();
    assert_eq!(refusal(&kept.path().join("file").join("inbox")).await, InboxErrorKind::Storage);
    drop(SqliteInbox::open(&path).await.unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o500)).unwrap();
    // Some may write everywhere, whatever the mode says.
    if fs::write(path.join("probe"), b"").is_err() {
        assert_eq!(refusal(&path).await, InboxErrorKind::Storage);
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
}

// B45: a row that can't be read blocks nothing.

#[tokio::test]
async fn an_unreadable_row_is_held_and_the_rest_goes_on() {
    let (_kept, path) = folder();
    let inbox = SqliteInbox::open(&path).await.unwrap();
    inbox.put(vec![message("m1", "a"), message("m2", "a")], at(1)).await.unwrap();
    inbox.close().await.unwrap();
    rusqlite::Connection::open(path.join("inbox.db"))
        .unwrap()
        .execute("UPDATE inputs SET payload = replace(payload, 'text of m1', '\\ud83d') WHERE id = 'm1'", [])
        .unwrap();
    let inbox = std::sync::Arc::new(SqliteInbox::open(&path).await.unwrap());
    assert_eq!(inbox.pending(10).await.unwrap().len(), 2);
    let runtime = Runtime::new().able(|able| able.reports_idle = false);
    let receiver = Receiver::builder(FakeEngine::new(), inbox.clone(), runtime.clone()).mode(BusyMode::Steer).build().unwrap();
    let cancel = CancellationToken::new();
    let run = tokio::spawn(receiver.run(cancel.clone()));
    until("m2 went on", async || runtime.history() == ["m2"]).await;
    let held = inbox.held(10).await.unwrap();
    assert_eq!(held[0].held.as_ref().unwrap().reason, HeldReason::Unreadable);
    cancel.cancel();
    run.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_batch_of_fifty_is_one_commit() {
    let (_kept, path) = folder();
    let inbox = SqliteInbox::open(&path).await.unwrap();
    let log = || fs::metadata(path.join("inbox.db-wal")).map_or(0, |found| found.len());
    let before = log();
    inbox.put((1..=50).map(|n| message(&format!("m{n}"), "a")).collect(), at(1)).await.unwrap();
    // One frame for each changed page, not fifty times.
    let frames = (log() - before) / 4_120;
    assert!(frames < 40, "{frames} frames");
}
