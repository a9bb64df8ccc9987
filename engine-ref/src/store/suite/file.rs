//! What only a SQLite file can show: its owner, its privacy, its log, its failures.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{LIMIT, Place, STEPS, names, put, until};
use crate::service::refusal::Refusal;
use crate::store::{Database, Migration, StoreConfig, StoreError, WriteTx};

const NEXT: Migration = Migration { version: 2, name: "more", sql: "CREATE TABLE more (id BIGINT PRIMARY KEY)" };
const NEWER: &[Migration] = &[STEPS[0], NEXT];
const CHANGED: &[Migration] = &[Migration { sql: "CREATE TABLE other (id BIGINT)", ..STEPS[0] }];
const BROKEN: &[Migration] = &[STEPS[0], Migration { sql: "CREATE TABLE half (id BIGINT); SELECT nonsense", ..NEXT }];

fn refusal_to_open(result: Result<crate::store::Store, StoreError>) -> String {
    match result {
        Err(error @ StoreError::Open(_)) => error.to_string(),
        other => panic!("expected a refusal to open, got {other:?}"),
    }
}

#[tokio::test]
async fn second_engine_is_refused_under_every_name() {
    let place = Place::file();
    let store = place.open().await;
    put(&store, "a").await.unwrap();
    let folder = place.path().parent().unwrap();
    symlink(place.path(), folder.join("link.db")).unwrap();
    symlink(folder, folder.join("around")).unwrap();
    for other in
        [place.path().to_owned(), folder.join("link.db"), folder.join("around").join("beepgrid.db"), folder.join("./beepgrid.db")]
    {
        let config = StoreConfig { database: Database::Sqlite(other), ..place.config() };
        refusal_to_open(crate::store::Store::open(config, crate::clock::Clock::system()).await);
    }
    put(&store, "b").await.unwrap();
    store.close().await;
    assert_eq!(names(&place.open().await).await, ["a", "b"]);
}

#[tokio::test]
async fn removed_lock_file_stops_its_owner() {
    let place = Place::file();
    let store = place.open().await;
    put(&store, "a").await.unwrap();
    fs::remove_file(place.path().with_extension("db.lock")).unwrap();
    assert!(matches!(put(&store, "b").await, Err(Refusal::Unavailable { .. })));
    let second = place.open().await;
    assert!(matches!(put(&store, "c").await, Err(Refusal::Unavailable { .. })));
    assert_eq!(names(&second).await, ["a"]);
}

#[tokio::test]
async fn every_file_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folder/beepgrid.db");
    let place = Place { database: Database::Sqlite(path.clone()), keep: Box::new(folder) };
    let store = place.open().await;
    put(&store, "a").await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    store.close().await;
    let store = place.try_open(|config| config.migrations = NEWER).await.unwrap();
    put(&store, "b").await.unwrap();
    let mut seen = Vec::new();
    for file in fs::read_dir(path.parent().unwrap()).unwrap() {
        let file = file.unwrap().path();
        // Uploaded bytes stand in a folder of their own.
        let wanted = if file.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&file), wanted, "{}", file.display());
        seen.push(file.file_name().unwrap().to_str().unwrap().to_owned());
    }
    seen.sort_unstable();
    let expected =
        ["beepgrid.db", "beepgrid.db-shm", "beepgrid.db-wal", "beepgrid.db.before-2", "beepgrid.db.files", "beepgrid.db.lock"];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn newer_changed_and_foreign_schemas_are_refused() {
    let place = Place::file();
    place.try_open(|config| config.migrations = NEWER).await.unwrap().close().await;
    let newer = refusal_to_open(place.try_open(|_| ()).await);
    assert!(newer.contains("newer"), "{newer}");
    let changed = refusal_to_open(place.try_open(|config| config.migrations = CHANGED).await);
    assert!(changed.contains("changed"), "{changed}");

    let foreign = Place::file();
    let other = rusqlite::Connection::open(foreign.path()).unwrap();
    other.execute_batch("CREATE TABLE notes (id INTEGER)").unwrap();
    drop(other);
    let refused = refusal_to_open(foreign.try_open(|_| ()).await);
    assert!(refused.contains("notes"), "{refused}");
}

#[tokio::test]
async fn old_schema_is_migrated_only_on_demand_and_after_a_backup() {
    let place = Place::file();
    let store = place.open().await;
    put(&store, "a").await.unwrap();
    store.close().await;
    let waiting = |config: &mut StoreConfig| (config.migrations, config.migrate) = (NEWER, false);
    assert!(refusal_to_open(place.try_open(waiting).await).contains("beepgrid migrate"));
    place.try_open(|config| config.migrations = NEWER).await.unwrap().close().await;
    let copy = place.path().with_extension("db.before-2");
    let copy = rusqlite::Connection::open_with_flags(copy, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let name: String = copy.query_row("SELECT name FROM sample", [], |row| row.get(0)).unwrap();
    assert_eq!(name, "a");
    copy.query_row("SELECT count(*) FROM more", [], |row| row.get::<_, i64>(0)).unwrap_err();
}

#[tokio::test]
async fn step_that_fails_leaves_the_old_schema() {
    let place = Place::file();
    place.open().await.close().await;
    place.try_open(|config| config.migrations = BROKEN).await.unwrap_err();
    let store = place.open().await;
    put(&store, "a").await.unwrap();
    store.close().await;
    place.try_open(|config| config.migrations = NEWER).await.unwrap();
}

#[tokio::test]
async fn what_is_no_usable_file_is_refused() {
    let place = Place::file();
    fs::write(place.path(), b"This is a text and no database, long enough for a header. ".repeat(100)).unwrap();
    refusal_to_open(place.try_open(|_| ()).await);

    let folder = Place::file();
    fs::create_dir(folder.path()).unwrap();
    refusal_to_open(folder.try_open(|_| ()).await);

    let link = Place::file();
    symlink("/nowhere/at/all", link.path()).unwrap();
    refusal_to_open(link.try_open(|_| ()).await);

    let twin = Place::file();
    twin.open().await.close().await;
    fs::hard_link(twin.path(), twin.path().with_extension("twin")).unwrap();
    refusal_to_open(twin.try_open(|_| ()).await);

    let damaged = Place::file();
    damaged.open().await.close().await;
    let mut bytes = fs::read(damaged.path()).unwrap();
    bytes[100..200].fill(0xAA);
    fs::write(damaged.path(), bytes).unwrap();
    damaged.try_open(|_| ()).await.unwrap_err();
}

/// B19: a write waits for another program's transaction, whatever it reads first.
#[tokio::test]
async fn write_waits_for_another_programs_transaction() {
    let place = Place::file();
    let store = place.open().await;
    let other = rusqlite::Connection::open(place.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; INSERT INTO sample (name) VALUES ('theirs')").unwrap();
    let began = Instant::now();
    let hold = Duration::from_secs(2);
    let release = async {
        tokio::time::sleep(hold).await;
        other.execute_batch("COMMIT").unwrap();
    };
    let write = store.write(|tx| {
        let before = tx.get("SELECT count(*) AS n FROM sample", &[])?.int("n")?;
        tx.execute("INSERT INTO sample (name) VALUES ('ours')", &[])?;
        Ok(before)
    });
    let ((), before) = tokio::join!(release, write);
    assert_eq!(before.unwrap(), 1);
    assert!(began.elapsed() >= hold);
    assert_eq!(names(&store).await, ["ours", "theirs"]);
}

async fn fill(store: &crate::store::Store, count: i64) -> Result<(), Refusal> {
    let piece = move |tx: &WriteTx<'_>| {
        let body = "x".repeat(10_000);
        for number in 0..count {
            let name = format!("{number:06}");
            let insert = "INSERT INTO sample (name, body) VALUES (:name, :body) ON CONFLICT (name) DO UPDATE SET body = :body";
            tx.execute(insert, &[("name", &name), ("body", &body)])?;
        }
        Ok(())
    };
    store.write(piece).await
}

#[tokio::test]
async fn full_disk_refuses_the_write_and_keeps_the_rest() {
    let place = Place::file();
    let store = place.open().await;
    put(&store, "kept").await.unwrap();
    store.write(|tx| Ok(tx.script("PRAGMA max_page_count = 20")?)).await.unwrap();
    assert!(matches!(fill(&store, 100).await, Err(Refusal::Unavailable { .. })));
    assert_eq!(names(&store).await, ["kept"]);
    store.write(|tx| Ok(tx.script("PRAGMA max_page_count = 1000000")?)).await.unwrap();
    fill(&store, 100).await.unwrap();
    assert_eq!(names(&store).await.len(), 101);
}

#[tokio::test]
async fn log_is_copied_beside_the_writer() {
    let place = Place::file();
    let store = place.open().await;
    let database = place.path().to_owned();
    let small = fs::metadata(&database).unwrap().len();
    fill(&store, 1000).await.unwrap();
    until(|| async { fs::metadata(&database).unwrap().len() > small + 5_000_000 }).await;
}

#[tokio::test]
async fn log_that_grew_too_large_starts_anew() {
    let place = Place::file();
    let store = place.open().await;
    let log = place.path().with_extension("db-wal");
    fill(&store, 9000).await.unwrap();
    assert!(fs::metadata(&log).unwrap().len() > 64 << 20);
    let smaller = || async {
        put(&store, &uuid::Uuid::now_v7().to_string()).await.unwrap();
        fs::metadata(&log).unwrap().len() < 16 << 20
    };
    tokio::time::timeout(LIMIT, until(smaller)).await.unwrap();
}
