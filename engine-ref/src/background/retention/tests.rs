//! Letting events go on a clock that is moved by hand, on every store that can be had.

use beepgrid::{ErrorCode, PrincipalId};
use serde_json::json;

use super::*;
use crate::clock::Clock;
use crate::core::Settings;
use crate::service::event_stream;
use crate::service::events::{Event, record};
use crate::store::{Database, Store, StoreConfig};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn core(database: Database) -> Core {
    let clock = Clock::manual("2026-12-01T08:00:00Z".parse().unwrap());
    let store = Store::open(StoreConfig::new(database), clock.clone()).await.unwrap();
    let settings = Settings::plain();
    Core::new(store, clock, settings)
}

/// Events of a conversation, each for its actor.
async fn happen(core: &Core, count: usize) {
    core.store()
        .write(move |tx| {
            for number in 0..count {
                let actor = PrincipalId::new(format!("per_{}", number % 7));
                let event = Event {
                    kind: "message.created",
                    actor_id: &actor,
                    conversation_id: "cnv_1",
                    recipient_id: "",
                    subject_id: "msg_1",
                    data: json!({}),
                };
                record(tx, &event)?;
            }
            Ok(())
        })
        .await
        .unwrap();
}

async fn count(core: &Core, sql: &'static str) -> i64 {
    core.store().read(move |tx| Ok(tx.get(sql, &[])?.int("n")?)).await.unwrap()
}

async fn start(core: &Core, after: i64) -> Result<i64, ErrorCode> {
    core.store().read(move |tx| event_stream::start(tx, after)).await.map_err(|refusal| match refusal {
        Refusal::Conflict { code, .. } => code,
        other => panic!("{other:?}"),
    })
}

async fn old_events_go_and_positions_before_them_are_refused(core: Core) {
    happen(&core, 1_200).await;
    core.clock().advance(DAY);
    happen(&core, 3).await;
    sweep(&core, DAY * 2).await.unwrap();
    assert_eq!(count(&core, "SELECT count(*) AS n FROM events").await, 1_203);
    assert_eq!(start(&core, 0).await, Ok(0));
    core.clock().advance(DAY + DAY / 2);
    sweep(&core, DAY * 2).await.unwrap();
    assert_eq!(count(&core, "SELECT count(*) AS n FROM events").await, 3);
    assert_eq!(count(&core, "SELECT count(*) AS n FROM event_readers").await, 6);
    // From the oldest that is kept; from right before it; from what is gone; from what never was.
    assert_eq!(start(&core, 0).await, Ok(1_200));
    assert_eq!(start(&core, 1_200).await, Ok(1_200));
    assert_eq!(start(&core, 1_203).await, Ok(1_203));
    for after in [1, 1_199] {
        assert_eq!(start(&core, after).await, Err(ErrorCode::CursorExpired));
    }
    for after in [1_204, i64::MAX] {
        assert_eq!(start(&core, after).await, Err(ErrorCode::InvalidCursor));
    }
    // Nothing goes twice, and nothing that is young.
    sweep(&core, DAY * 2).await.unwrap();
    assert_eq!(count(&core, "SELECT count(*) AS n FROM events").await, 3);
    core.clock().advance(DAY * 30);
    sweep(&core, DAY * 2).await.unwrap();
    assert_eq!(count(&core, "SELECT count(*) AS n FROM event_readers").await, 0);
    assert_eq!(start(&core, 0).await, Ok(1_203));
    core.store().close().await;
}

#[tokio::test]
async fn old_events_go_in_memory() {
    old_events_go_and_positions_before_them_are_refused(core(Database::Memory).await).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn old_events_go_on_postgres() {
    let Some(database) = tokio::task::spawn_blocking(crate::testing::postgres::database_or_skip).await.unwrap() else { return };
    let (url, schema) = (database.url().to_owned(), database.schema().to_owned());
    old_events_go_and_positions_before_them_are_refused(core(Database::Postgres { url, schema }).await).await;
    tokio::task::spawn_blocking(move || drop(database)).await.unwrap();
}
