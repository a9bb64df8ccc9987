//! The rules of requests on an open store: who may ask, read, decide and close, on SQLite and on PostgreSQL.

mod asking;
mod deciding;
mod ending;
mod reading;
mod sharing;
mod world;

/// Runs each case on every store there is.
macro_rules! on_every_store {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $case() {
                super::$case(super::super::world::World::in_memory().await).await;
            })+
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                if let Some(world) = super::super::world::World::on_postgres().await {
                    super::$case(world).await;
                }
            })+
        }
    };
}
use on_every_store;
