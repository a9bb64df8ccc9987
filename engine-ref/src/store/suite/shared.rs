//! What only PostgreSQL can show: several engines on one schema, connections that die, commits whose answer is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use beepgrid::PrincipalId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{Gate, LIMIT, Place, STEPS, names, put, until};
use crate::service::refusal::Refusal;
use crate::signals::Signal;
use crate::store::{Database, Migration, StoreConfig, StoreError};

const NEWER: &[Migration] = &[STEPS[0], Migration { version: 2, name: "more", sql: "CREATE TABLE more (id BIGINT PRIMARY KEY)" }];
const CHANGED: &[Migration] = &[Migration { sql: "CREATE TABLE other (id BIGINT)", ..STEPS[0] }];

/// Runs `body` on a schema of its own, where there is PostgreSQL.
macro_rules! cases {
    ($($name:ident: $body:expr,)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            if let Some(place) = Place::postgres().await { $body(place).await; }
        }
    )+};
}

cases!(
    sequence_rises_across_two_engines: rising_sequence,
    signals_reach_the_other_engine: signals,
    writer_whose_connection_died_between_batches_goes_on: dead_between_batches,
    listener_that_lost_its_connection_wakes_everybody: dead_listener,
    reader_whose_connection_died_goes_on: dead_readers,
    connection_that_dies_in_a_piece_stores_nothing: dead_in_a_piece,
    connection_that_dies_before_the_commit_stores_nothing: dead_before_commit,
    commit_whose_answer_is_lost_is_found_to_be_kept: lost_answer,
    write_waits_for_the_other_engine: waiting_for_the_other,
    newer_and_changed_schemas_are_refused: schemas,
    engines_that_open_at_once_migrate_once: opening_at_once,
    server_that_is_away_is_unavailable: away,
);

fn address(place: &Place) -> (&str, &str) {
    match &place.database {
        Database::Postgres { url, schema } => (url, schema),
        other => panic!("not PostgreSQL: {other:?}"),
    }
}

/// Runs a statement on a connection of its own and returns the first column as text.
async fn admin(place: &Place, sql: String) -> Vec<String> {
    let (url, schema) = address(place);
    let (url, schema) = (url.to_owned(), schema.to_owned());
    let run = move || {
        let mut client = ::postgres::Client::connect(&url, ::postgres::NoTls).unwrap();
        client.batch_execute(&format!("SET search_path TO {schema}")).unwrap();
        let answer = client.simple_query(&sql).unwrap();
        let first = |message: &::postgres::SimpleQueryMessage| match message {
            ::postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        answer.iter().filter_map(first).collect()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// Ends the connections of a role and returns once they are gone.
async fn kill(place: &Place, role: &str) {
    let which = format!("application_name = 'beepgrid {role} {}'", address(place).1);
    // The inner query stands alone, or the server would end more than those.
    let which = format!("SELECT pid FROM pg_stat_activity WHERE {which} OFFSET 0");
    let killed = admin(place, format!("SELECT pid FROM ({which}) AS them WHERE pg_terminate_backend(pid)")).await;
    assert!(!killed.is_empty(), "no {role} to end");
    let pids = killed.join(",");
    let gone = format!("SELECT pid FROM pg_stat_activity WHERE pid IN ({pids})");
    until(|| async { admin(place, gone.clone()).await.is_empty() }).await;
}

async fn rising_sequence(place: Place) {
    let (one, two) = (place.open().await, place.open().await);
    let mut writers = Vec::new();
    for store in [one.clone(), two.clone(), one.clone(), two.clone()] {
        writers.push(tokio::spawn(async move {
            for round in 0..50 {
                let piece = move |tx: &crate::store::WriteTx<'_>| {
                    let sequence = tx.next_sequence()?;
                    // What others committed before is all below: nobody who read up to there misses this one.
                    let newest = tx.get("SELECT COALESCE(max(number), 0) AS n FROM sample", &[])?.int("n")?;
                    assert!(newest < sequence, "{newest} {sequence}");
                    if round % 3 == 0 {
                        return Err(Refusal::internal("no"));
                    }
                    let name = format!("{sequence:09}");
                    tx.execute(
                        "INSERT INTO sample (name, number) VALUES (:name, :number)",
                        &[("name", &name), ("number", &sequence)],
                    )?;
                    Ok(())
                };
                let outcome = store.write(piece).await;
                let text = format!("{outcome:?}");
                assert!(outcome.is_ok() == (round % 3 != 0) && !text.contains("panic"), "{text}");
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(names(&one).await.len(), 4 * 33);
}

async fn signals(place: Place) {
    let (one, two) = (place.open().await, place.open().await);
    let agent = PrincipalId::new("agt_1");
    let mut work = two.signals().work(&agent);
    let mut other = two.signals().work(&PrincipalId::new("agt_2"));
    let mut events = two.signals().events();
    let write = one.write(move |tx| {
        tx.signal(Signal::Work { agent });
        tx.signal(Signal::Event { sequence: tx.next_sequence()? });
        Ok(())
    });
    write.await.unwrap();
    tokio::time::timeout(LIMIT, work.next()).await.unwrap();
    tokio::time::timeout(LIMIT, events.wait_for(|newest| *newest == 1)).await.unwrap().unwrap();
    assert!(futures_util::FutureExt::now_or_never(other.next()).is_none());
}

async fn dead_between_batches(place: Place) {
    let store = place.open().await;
    put(&store, "a").await.unwrap();
    kill(&place, "writer").await;
    put(&store, "b").await.unwrap();
    assert_eq!(names(&store).await, ["a", "b"]);
}

async fn dead_listener(place: Place) {
    let (one, two) = (place.open().await, place.open().await);
    let mut forever = one.signals().work(&PrincipalId::new("agt_1"));
    kill(&place, "listener").await;
    tokio::time::timeout(LIMIT, forever.next()).await.unwrap();
    let write = two.write(|tx| {
        tx.signal(Signal::Work { agent: PrincipalId::new("agt_1") });
        Ok(())
    });
    write.await.unwrap();
    tokio::time::timeout(LIMIT, forever.next()).await.unwrap();
}

async fn dead_readers(place: Place) {
    let store = place.open().await;
    put(&store, "a").await.unwrap();
    kill(&place, "reader").await;
    for _ in 0..8 {
        assert_eq!(names(&store).await, ["a"]);
    }
}

async fn dead_in_a_piece(place: Place) {
    let store = place.open().await;
    let gate = Gate::close(&store).await;
    let before = store.commits();
    let (began, running) = tokio::sync::oneshot::channel();
    let (go, wait) = std::sync::mpsc::sync_channel(1);
    let blocked = {
        let store = store.clone();
        async move {
            let piece = move |tx: &crate::store::WriteTx<'_>| {
                began.send(()).unwrap();
                wait.recv_timeout(LIMIT).unwrap();
                tx.execute("INSERT INTO sample (name) VALUES ('middle')", &[])?;
                Ok(())
            };
            store.write(piece).await
        }
    };
    let first = super::queue(vec![{
        let store = store.clone();
        async move { put(&store, "first").await }
    }]);
    let mut tasks = first.await;
    tasks.extend(super::queue(vec![blocked]).await);
    tasks.extend(
        super::queue(vec![{
            let store = store.clone();
            async move { put(&store, "last").await }
        }])
        .await,
    );
    gate.open().await;
    running.await.unwrap();
    kill(&place, "writer").await;
    go.send(()).unwrap();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await.unwrap());
    }
    assert!(matches!(outcomes[0], Err(Refusal::Unavailable { .. })), "{outcomes:?}");
    assert!(matches!(outcomes[1], Err(Refusal::Unavailable { .. })), "{outcomes:?}");
    assert!(outcomes[2].is_ok(), "the piece that had not begun goes with the next batch: {outcomes:?}");
    assert_eq!(names(&store).await, ["last"]);
    assert_eq!(store.commits() - before, 2);
}

async fn dead_before_commit(place: Place) {
    let once = AtomicBool::new(true);
    let (reached, at_hook) = std::sync::mpsc::sync_channel(1);
    let (go, wait) = std::sync::mpsc::sync_channel(1);
    let wait = std::sync::Mutex::new(wait);
    let store = place
        .open_with_hook(move || {
            if once.swap(false, Ordering::SeqCst) {
                reached.send(()).unwrap();
                wait.lock().unwrap().recv_timeout(LIMIT).unwrap();
            }
        })
        .await;
    let write = tokio::spawn({
        let store = store.clone();
        async move { put(&store, "a").await }
    });
    tokio::task::spawn_blocking(move || at_hook.recv_timeout(LIMIT).unwrap()).await.unwrap();
    kill(&place, "writer").await;
    go.send(()).unwrap();
    let outcome = write.await.unwrap();
    assert!(matches!(outcome, Err(Refusal::Unavailable { .. })), "{outcome:?}");
    assert!(names(&store).await.is_empty());
    put(&store, "b").await.unwrap();
    assert_eq!(names(&store).await, ["b"]);
}

/// Passes everything on; once armed, it swallows the next answer and cuts that connection.
async fn swallowing_proxy(to: String, armed: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (to, armed) = (to.clone(), Arc::clone(&armed));
            tokio::spawn(async move {
                let server = TcpStream::connect(to).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let forward = tokio::io::copy(&mut from_client, &mut to_server);
                let back = async {
                    let mut buffer = vec![0; 65_536];
                    while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
                        if armed.swap(false, Ordering::SeqCst) || to_client.write_all(&buffer[..read]).await.is_err() {
                            break;
                        }
                    }
                };
                tokio::select! { _ = forward => {}, () = back => {} }
            });
        }
    });
    port
}

async fn lost_answer(place: Place) {
    let (url, schema) = address(&place);
    let config: ::postgres::Config = url.parse().unwrap();
    let ::postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else { return };
    let server = config.get_ports()[0];
    let armed = Arc::new(AtomicBool::new(false));
    let port = swallowing_proxy(format!("{host}:{server}"), Arc::clone(&armed)).await;
    let through = url.replace(&format!(":{server}/"), &format!(":{port}/"));
    assert_ne!(through, url);
    let database = Database::Postgres { url: through, schema: schema.to_owned() };
    let store = place
        .try_open(move |config| {
            config.database = database;
            let armed_once = AtomicBool::new(false);
            // The second commit's answer is the one to lose: the first shows that the proxy passes.
            config.hooks.before_commit = Some(Arc::new(move || {
                armed.store(armed_once.swap(true, Ordering::SeqCst), Ordering::SeqCst);
            }));
        })
        .await
        .unwrap();
    put(&store, "a").await.unwrap();
    put(&store, "b").await.unwrap();
    assert_eq!(store.commits(), 2);
    assert_eq!(names(&store).await, ["a", "b"]);
}

async fn waiting_for_the_other(place: Place) {
    let (one, two) = (place.open().await, place.open().await);
    let gate = Gate::close(&one).await;
    let mut write = super::queue(vec![async move { put(&two, "b").await }]).await;
    let waiting = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    until(|| async { !admin(&place, waiting.to_owned()).await.is_empty() }).await;
    assert!(names(&one).await.is_empty());
    gate.open().await;
    write.remove(0).await.unwrap().unwrap();
    assert_eq!(names(&one).await, ["b"]);
}

fn is_refused(result: Result<crate::store::Store, StoreError>, word: &str) {
    match result {
        Err(StoreError::Open(text)) => assert!(text.contains(word), "{text}"),
        other => panic!("expected a refusal to open, got {other:?}"),
    }
}

async fn schemas(place: Place) {
    is_refused(place.try_open(|config| config.migrate = false).await, "beepgrid migrate");
    place.open().await.close().await;
    place.try_open(|config| config.migrate = false).await.unwrap().close().await;
    let waiting = |config: &mut StoreConfig| (config.migrations, config.migrate) = (NEWER, false);
    is_refused(place.try_open(waiting).await, "beepgrid migrate");
    is_refused(place.try_open(|config| config.migrations = CHANGED).await, "changed");
    place.try_open(|config| config.migrations = NEWER).await.unwrap().close().await;
    is_refused(place.try_open(|_| ()).await, "newer");
    for schema in ["pg_temp", "with\"quote", "Upper", "", "1st"] {
        let database = Database::Postgres { url: address(&place).0.to_owned(), schema: schema.to_owned() };
        is_refused(place.try_open(|config| config.database = database).await, "schema");
    }
}

async fn opening_at_once(place: Place) {
    let open = || place.try_open(|config| config.migrations = NEWER);
    let (one, two, three, four) = tokio::join!(open(), open(), open(), open());
    for store in [one, two, three, four] {
        store.unwrap();
    }
    assert_eq!(admin(&place, "SELECT version FROM schema_migrations".to_owned()).await.len(), 2);
}

async fn away(place: Place) {
    // Nobody listens on a port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let database = Database::Postgres { url: format!("postgresql://x@127.0.0.1:{port}/x"), schema: "x".to_owned() };
    let refused = place.try_open(|config| config.database = database).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
}
