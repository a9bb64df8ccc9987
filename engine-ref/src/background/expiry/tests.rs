//! The sweeper on a clock that is moved by hand.

use beepgrid::{AskInput, Request, RequestState, Target};

use super::*;
use crate::clock::Clock;
use crate::core::Settings;
use crate::service::actor::{Need, TokenDigest};
use crate::service::setup;
use crate::store::{Database, Store, StoreConfig};

const TOKEN: &str = "a token that is long enough for an owner";
const PATIENCE: Duration = Duration::from_secs(30);

async fn core(clock: &Clock) -> Core {
    let store = Store::open(StoreConfig::new(Database::Memory), clock.clone()).await.unwrap();
    store.write(|tx| setup::bootstrap(tx, "Olga", TOKEN)).await.unwrap();
    let settings = Settings::plain();
    Core::new(store, clock.clone(), settings)
}

async fn ask(core: &Core, seconds: u64) -> Request {
    let caller = core.caller(TokenDigest::of(TOKEN)).await.unwrap();
    let expires = core.clock().now().plus(Duration::from_secs(seconds));
    let input = AskInput::to(Target::person(&caller.principal_id), "Ready?").expires_at(expires);
    core.write(&caller, Need::Any, move |tx, actor| {
        let id = requests::open(tx, actor, &input)?;
        requests::get(tx, actor, &id)
    })
    .await
    .unwrap()
}

async fn stored(core: &Core, id: &RequestId) -> (RequestState, i64) {
    let id = id.clone();
    let row = core.store().read(move |tx| Ok(store::requests::find(tx, &id)?)).await.unwrap().unwrap();
    (row.state, row.version)
}

#[tokio::test]
async fn sweeper_closes_what_is_due_and_leaves_the_rest() {
    let clock = Clock::manual("2026-12-01T08:00:00Z".parse().unwrap());
    let core = core(&clock).await;
    let mut due = Vec::new();
    for _ in 0..=BATCH {
        due.push(ask(&core, 10).await);
    }
    let later = ask(&core, 100).await;
    let sweeper = tokio::spawn(run(core.clone()));
    clock.advance(Duration::from_secs(10));
    let all_closed = async {
        for request in &due {
            while stored(&core, &request.id).await != (RequestState::Expired, 2) {
                tokio::task::yield_now().await;
            }
        }
    };
    tokio::time::timeout(PATIENCE, all_closed).await.expect("everything due is closed");
    assert_eq!(stored(&core, &later.id).await, (RequestState::Open, 1));
    core.stopping().cancel();
    tokio::time::timeout(PATIENCE, sweeper).await.expect("the sweeper ends with the engine").unwrap();
}

#[tokio::test]
async fn one_that_cannot_be_closed_does_not_keep_the_others_open() {
    let clock = Clock::manual("2026-12-01T08:00:00Z".parse().unwrap());
    let core = core(&clock).await;
    let broken = ask(&core, 5).await;
    let whole = ask(&core, 6).await;
    let id = broken.id.clone();
    let damage =
        move |tx: &store::WriteTx<'_>| Ok(tx.execute("UPDATE requests SET choices = '{' WHERE id = :id", &[("id", &id)])?);
    core.store().write(damage).await.unwrap();
    clock.advance(Duration::from_secs(10));
    assert!(!sweep(&core).await.unwrap());
    assert_eq!(stored(&core, &whole.id).await, (RequestState::Expired, 2));
}
