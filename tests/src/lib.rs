//! Harness of the tests that cross crates: raw HTTP, stores, a populated workspace, a proxy that misbehaves.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a harness: whatever fails here is a failed test and should stop it on the spot"
)]

pub mod model;
pub mod proxy;
pub mod raw;
pub mod stores;
pub mod stream;
pub mod wait;
pub mod world;

/// Runs every named case on SQLite and on PostgreSQL, each on a workspace of its own with a clock that the case moves.
#[macro_export]
macro_rules! on_both_stores {
    ($($case:ident),+ $(,)?) => {
        $crate::on_both_stores!(in $crate::world::World::open; $($case),+);
    };
    (in $open:path; $($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case($open($crate::stores::Kind::Sqlite).await).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if $crate::stores::is_missing($crate::stores::Kind::Postgres).await {
                    return;
                }
                super::$case($open($crate::stores::Kind::Postgres).await).await;
            })+
        }
    };
}
