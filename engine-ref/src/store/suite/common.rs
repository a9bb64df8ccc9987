//! Cases for every store.

use beepgrid::{ErrorCode, PrincipalId};
use futures_util::FutureExt;

use super::{Gate, LIMIT, Place, names, put, queue, until};
use crate::service::refusal::Refusal;
use crate::signals::Signal;
use crate::store::{MIGRATIONS, Store, StoreConfig, StoreError, ToValue, Value, WriteTx};

macro_rules! suite {
    ($($case:ident,)+) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(super::Place::memory()).await; })+
        }
        mod file {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(super::Place::file()).await; })+
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if let Some(place) = super::Place::postgres().await { super::$case(place).await; }
            })+
        }
    };
}

suite!(
    every_value_comes_back_as_it_was_stored,
    rows_are_read_by_name_and_type,
    parameters_and_names_must_fit,
    keys_are_ordered_by_bytes,
    refused_piece_leaves_nothing_and_its_neighbours_commit,
    refused_piece_alone_leaves_nothing,
    panic_undoes_only_its_own_piece,
    failed_statement_ends_its_piece_and_no_other,
    ignored_failure_is_not_kept,
    waiting_writes_share_commits,
    nothing_is_answered_or_seen_before_the_commit,
    signals_follow_the_commit_of_kept_pieces_only,
    sequence_rises_over_refusals_and_restarts_at_what_was_kept,
    abandoned_piece_does_not_run,
    read_can_not_write,
    reads_see_one_state,
    close_finishes_what_was_queued,
    schema_of_this_release_opens_again,
);

async fn write_value(store: &Store, name: &'static str, column: &'static str, value: Value) -> Value {
    store
        .write(move |tx| {
            let insert = match column {
                "flag" => "INSERT INTO sample (name, flag) VALUES (:name, :value)",
                "number" => "INSERT INTO sample (name, number) VALUES (:name, :value)",
                "body" => "INSERT INTO sample (name, body) VALUES (:name, :value)",
                _ => "INSERT INTO sample (name, raw) VALUES (:name, :value)",
            };
            assert_eq!(tx.execute(insert, &[("name", &name), ("value", &value)])?, 1);
            let row = tx.get("SELECT flag, number, body, raw FROM sample WHERE name = :name", &[("name", &name)])?;
            Ok(match column {
                "flag" => row.opt_bool(column)?.to_value(),
                "number" => row.opt_int(column)?.to_value(),
                "body" => row.opt_text(column)?.to_value(),
                _ => row.opt_blob(column)?.to_value(),
            })
        })
        .await
        .unwrap()
}

async fn every_value_comes_back_as_it_was_stored(place: Place) {
    let store = place.open().await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let cases = [
        ("a", "flag", Value::Bool(true)),
        ("b", "flag", Value::Bool(false)),
        ("c", "flag", Value::Null),
        ("d", "number", Value::Int(i64::MAX)),
        ("e", "number", Value::Int(i64::MIN)),
        ("f", "number", Value::Int(0)),
        ("g", "number", Value::Null),
        ("h", "body", Value::Text(String::new())),
        ("i", "body", Value::Text("Grüße \u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F466} ' \" : ? $1 \\ \r\n\t\u{1}".to_owned())),
        ("j", "body", Value::Text("x".repeat(100_000))),
        ("k", "body", Value::Null),
        ("l", "raw", Value::Blob(every_byte)),
        ("m", "raw", Value::Blob(Vec::new())),
        ("n", "raw", Value::Null),
    ];
    for (name, column, value) in cases {
        assert_eq!(write_value(&store, name, column, value.clone()).await, value, "{name}");
    }
}

async fn rows_are_read_by_name_and_type(place: Place) {
    let store = place.open().await;
    write_value(&store, "a", "number", Value::Int(7)).await;
    let read = store.read(|tx| {
        let row = tx.get("SELECT name, number AS many, body, CAST(count(*) OVER () AS BIGINT) AS n FROM sample", &[])?;
        assert_eq!((row.text("name")?, row.int("many")?, row.int("n")?), ("a".to_owned(), 7, 1));
        assert!(matches!(row.text("number"), Err(StoreError::Column { .. })));
        assert!(matches!(row.text("many"), Err(StoreError::Column { .. })));
        assert!(matches!(row.bool("many"), Err(StoreError::Column { .. })));
        assert!(matches!(row.text("body"), Err(StoreError::Column { .. })));
        assert_eq!(row.opt_text("body")?, None);
        assert!(tx.find("SELECT name FROM sample WHERE name = 'z'", &[])?.is_none());
        assert!(matches!(tx.get("SELECT name FROM sample WHERE name = 'z'", &[]), Err(StoreError::NoRow { .. })));
        assert_eq!(tx.now().as_micros(), 1_000_000);
        let nothing: Option<String> = None;
        let all = "SELECT name FROM sample WHERE CAST(:name AS TEXT) IS NULL OR name = :name LIMIT :limit";
        Ok(tx.query(all, &[("name", &nothing), ("limit", &5_i64)])?.len())
    });
    assert_eq!(read.await.unwrap(), 1);
}

async fn parameters_and_names_must_fit(place: Place) {
    let store = place.open().await;
    let missing = store.read(|tx| Ok(tx.find("SELECT name FROM sample WHERE name = :name", &[]).err()));
    assert!(matches!(missing.await.unwrap_err(), Refusal::Internal { .. }));
    let extra = store.read(|tx| Ok(tx.find("SELECT name FROM sample", &[("name", &"a")])?.is_some()));
    assert!(matches!(extra.await.unwrap_err(), Refusal::Internal { .. }));
    let unknown = store.read(|tx| Ok(tx.find("SELECT nothing FROM sample", &[])?.is_some()));
    assert!(matches!(unknown.await.unwrap_err(), Refusal::Internal { .. }));
    assert!(names(&store).await.is_empty());
}

async fn keys_are_ordered_by_bytes(place: Place) {
    let store = place.open().await;
    for name in ["b", "B", "a", "Z", "ä", "_", "1"] {
        put(&store, name).await.unwrap();
    }
    assert_eq!(names(&store).await, ["1", "B", "Z", "_", "a", "b", "ä"]);
}

/// Writes `name`, and then does what the word says.
async fn put_and(store: Store, name: &'static str, then: &'static str) -> Result<(), Refusal> {
    let piece = move |tx: &WriteTx<'_>| {
        tx.execute("INSERT INTO sample (name) VALUES (:name)", &[("name", &name)])?;
        tx.signal(Signal::Work { agent: PrincipalId::new(name) });
        tx.signal(Signal::Event { sequence: tx.next_sequence()? });
        match then {
            "refuse" => Err(Refusal::conflict(ErrorCode::VersionConflict, "no")),
            "panic" => panic!("on purpose"),
            "fail" => {
                tx.execute("INSERT INTO sample (name) VALUES (:name)", &[("name", &name)])?;
                Ok(())
            }
            "ignore" => {
                let again = tx.execute("INSERT INTO sample (name) VALUES (:name)", &[("name", &name)]);
                assert!(matches!(again, Err(StoreError::Constraint(_))), "{again:?}");
                let more = tx.execute("INSERT INTO sample (name) VALUES ('more')", &[]);
                assert!(matches!(more, Err(StoreError::Aborted)), "{more:?}");
                Ok(())
            }
            _ => Ok(()),
        }
    };
    store.write(piece).await
}

/// Queues three pieces, of which the middle one ends as the word says, and returns its refusal.
async fn three_of_which_the_middle(store: &Store, then: &'static str) -> Refusal {
    let gate = Gate::close(store).await;
    let before = store.commits();
    let pieces = vec![
        put_and(store.clone(), "first", "go on"),
        put_and(store.clone(), "middle", then),
        put_and(store.clone(), "last", "go on"),
    ];
    let mut tasks = queue(pieces).await.into_iter();
    gate.open().await;
    tasks.next().unwrap().await.unwrap().unwrap();
    let refusal = tasks.next().unwrap().await.unwrap().unwrap_err();
    tasks.next().unwrap().await.unwrap().unwrap();
    assert_eq!(store.commits() - before, 2, "one for the gate, one for all three");
    assert_eq!(names(store).await, ["first", "last"]);
    refusal
}

async fn refused_piece_leaves_nothing_and_its_neighbours_commit(place: Place) {
    let refusal = three_of_which_the_middle(&place.open().await, "refuse").await;
    assert!(matches!(refusal, Refusal::Conflict { code: ErrorCode::VersionConflict, .. }), "{refusal:?}");
}

async fn refused_piece_alone_leaves_nothing(place: Place) {
    let store = place.open().await;
    for then in ["refuse", "panic", "fail", "ignore"] {
        put_and(store.clone(), "alone", then).await.unwrap_err();
        assert!(names(&store).await.is_empty());
    }
    put_and(store.clone(), "alone", "go on").await.unwrap();
    assert_eq!(names(&store).await, ["alone"]);
}

async fn panic_undoes_only_its_own_piece(place: Place) {
    let refusal = three_of_which_the_middle(&place.open().await, "panic").await;
    assert!(matches!(refusal, Refusal::Internal { .. }), "{refusal:?}");
}

async fn failed_statement_ends_its_piece_and_no_other(place: Place) {
    let refusal = three_of_which_the_middle(&place.open().await, "fail").await;
    assert!(matches!(refusal, Refusal::Internal { .. }), "{refusal:?}");
}

async fn ignored_failure_is_not_kept(place: Place) {
    let refusal = three_of_which_the_middle(&place.open().await, "ignore").await;
    assert!(matches!(refusal, Refusal::Internal { .. }), "{refusal:?}");
}

async fn waiting_writes_share_commits(place: Place) {
    let store = place.open().await;
    let gate = Gate::close(&store).await;
    let before = store.commits();
    let writes = (0..64).map(|number| {
        let store = store.clone();
        async move { put(&store, &format!("{number:02}")).await }
    });
    let tasks = queue(writes.collect()).await;
    gate.open().await;
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(names(&store).await.len(), 64);
    // The gate's, one of sixty, and one of what was left.
    assert_eq!(store.commits() - before, 3);
}

async fn nothing_is_answered_or_seen_before_the_commit(place: Place) {
    let (reached, at_hook) = std::sync::mpsc::sync_channel(1);
    let (go, wait) = std::sync::mpsc::sync_channel(1);
    let wait = std::sync::Mutex::new(wait);
    let store = place
        .open_with_hook(move || {
            reached.send(()).unwrap();
            wait.lock().unwrap().recv_timeout(LIMIT).unwrap();
        })
        .await;
    let mut work = store.signals().work(&PrincipalId::new("a"));
    let mut write = Box::pin(put_and(store.clone(), "a", "go on"));
    assert!((&mut write).now_or_never().is_none());
    tokio::task::spawn_blocking(move || at_hook.recv_timeout(LIMIT).unwrap()).await.unwrap();
    assert!((&mut write).now_or_never().is_none());
    assert!(work.next().now_or_never().is_none());
    // In memory, reads wait for the writer and see nothing either way.
    if !place.is_memory() {
        assert!(names(&store).await.is_empty());
    }
    go.send(()).unwrap();
    write.await.unwrap();
    assert!(work.next().now_or_never().is_some());
    assert_eq!(names(&store).await, ["a"]);
}

async fn signals_follow_the_commit_of_kept_pieces_only(place: Place) {
    let store = place.open().await;
    let mut first = store.signals().work(&PrincipalId::new("first"));
    let mut middle = store.signals().work(&PrincipalId::new("middle"));
    let events = store.signals().events();
    three_of_which_the_middle(&store, "refuse").await;
    assert!(first.next().now_or_never().is_some());
    assert!(middle.next().now_or_never().is_none());
    // The refused piece had taken a number of its own.
    assert_eq!(*events.borrow(), 3);
}

async fn sequence_rises_over_refusals_and_restarts_at_what_was_kept(place: Place) {
    let store = place.open().await;
    let next = |store: Store, keep: bool| async move {
        let piece = move |tx: &WriteTx<'_>| {
            let sequence = tx.next_sequence()?;
            if keep { Ok(sequence) } else { Err(Refusal::internal("no")) }
        };
        store.write(piece).await.ok()
    };
    assert_eq!(next(store.clone(), true).await, Some(1));
    let gate = Gate::close(&store).await;
    let pieces = [true, false, true].map(|keep| {
        let next = next(store.clone(), keep);
        async move { Ok(next.await) }
    });
    let tasks = queue(pieces.into()).await;
    gate.open().await;
    let mut kept = Vec::new();
    for task in tasks {
        kept.extend(task.await.unwrap().unwrap());
    }
    assert!(kept[0] > 1 && kept[1] > kept[0], "{kept:?}");
    let skipped = store.write(|tx| Ok(tx.skip_sequences(1_000_000)?)).await.unwrap();
    assert_eq!(skipped, kept[1] + 1_000_000);
    if place.is_memory() {
        return;
    }
    store.close().await;
    let store = place.open().await;
    assert_eq!(*store.signals().events().borrow(), skipped);
    assert_eq!(next(store, true).await, Some(skipped + 1));
}

async fn abandoned_piece_does_not_run(place: Place) {
    let store = place.open().await;
    let gate = Gate::close(&store).await;
    let tasks = queue(vec![put_and(store.clone(), "gone", "go on"), put_and(store.clone(), "here", "go on")]).await;
    tasks[0].abort();
    until(|| async { tasks[0].is_finished() }).await;
    gate.open().await;
    for task in tasks.into_iter().skip(1) {
        task.await.unwrap().unwrap();
    }
    assert_eq!(names(&store).await, ["here"]);
}

async fn read_can_not_write(place: Place) {
    let store = place.open().await;
    let written = store.read(|tx| Ok(tx.query("INSERT INTO sample (name) VALUES ('a') RETURNING name", &[])?.len()));
    written.await.unwrap_err();
    assert!(names(&store).await.is_empty());
    put(&store, "a").await.unwrap();
}

async fn reads_see_one_state(place: Place) {
    if place.is_memory() {
        return;
    }
    let store = place.open().await;
    let (first, looked) = tokio::sync::oneshot::channel();
    let (go, wait) = std::sync::mpsc::sync_channel(1);
    let reader = store.clone();
    let read = tokio::spawn(async move {
        let piece = move |tx: &super::super::ReadTx<'_>| {
            let count = "SELECT count(*) AS n FROM sample";
            let before = tx.get(count, &[])?.int("n")?;
            first.send(()).unwrap();
            wait.recv_timeout(LIMIT).unwrap();
            Ok((before, tx.get(count, &[])?.int("n")?))
        };
        reader.read(piece).await
    });
    looked.await.unwrap();
    put(&store, "a").await.unwrap();
    go.send(()).unwrap();
    assert_eq!(read.await.unwrap().unwrap(), (0, 0));
    assert_eq!(names(&store).await, ["a"]);
}

async fn close_finishes_what_was_queued(place: Place) {
    let store = place.open().await;
    let gate = Gate::close(&store).await;
    let tasks = queue(vec![put_and(store.clone(), "queued", "go on")]).await;
    let closing = tokio::spawn({
        let store = store.clone();
        async move { store.close().await }
    });
    gate.open().await;
    closing.await.unwrap();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert!(matches!(put(&store, "late").await, Err(Refusal::Unavailable { .. })));
    let late = store.read(|_| Ok(())).await;
    assert!(matches!(late, Err(Refusal::Unavailable { .. })));
    if !place.is_memory() {
        assert_eq!(names(&place.open().await).await, ["queued"]);
    }
}

async fn schema_of_this_release_opens_again(place: Place) {
    let real = |config: &mut StoreConfig| config.migrations = MIGRATIONS;
    let store = place.try_open(real).await.unwrap();
    assert_eq!(store.write(|tx| Ok(tx.next_sequence()?)).await.unwrap(), 1);
    store.close().await;
    if !place.is_memory() {
        place.try_open(real).await.unwrap();
    }
}
