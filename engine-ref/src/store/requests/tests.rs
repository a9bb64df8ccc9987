//! Which indexes the queries use that grow with data. How they behave is tested with the rules, on both databases.

use crate::clock::Clock;
use crate::store::{Database, Store, StoreConfig, ToValue};

/// The steps of a plan, as SQLite tells them.
async fn plan(sql: &'static str, values: &'static [(&'static str, &'static (dyn ToValue + Sync))]) -> Vec<String> {
    let store = Store::open(StoreConfig::new(Database::Memory), Clock::system()).await.unwrap();
    store
        .read(move |tx| {
            let values: Vec<(&'static str, &dyn ToValue)> =
                values.iter().map(|(name, value)| (*name, *value as &dyn ToValue)).collect();
            tx.query(sql, &values)?.iter().map(|row| Ok(row.text("detail")?)).collect()
        })
        .await
        .unwrap()
}

fn uses(steps: &[String], index: &str) -> bool {
    steps.iter().any(|step| step.contains(index))
}

#[tokio::test]
async fn due_requests_are_found_at_the_near_end_of_their_index() {
    let steps = plan(due!("EXPLAIN QUERY PLAN "), &[("now", &0_i64), ("limit", &1_i64)]).await;
    assert!(uses(&steps, "requests_due (expires_at<?)"), "{steps:?}");
    assert!(!uses(&steps, "TEMP B-TREE"), "{steps:?}");
}

#[tokio::test]
async fn blocking_requests_are_counted_by_their_own_index() {
    let steps = plan(blocking!("EXPLAIN QUERY PLAN "), &[("requester", &"agt_1"), ("now", &0_i64)]).await;
    assert!(uses(&steps, "requests_blocking (requester_id=?)"), "{steps:?}");
}

#[tokio::test]
async fn conversation_walks_its_newest_requests_only() {
    let values: &[(&str, &(dyn ToValue + Sync))] =
        &[("conversation", &"cnv_1"), ("reader", &"per_1"), ("before", &"req_~"), ("limit", &200_i64)];
    let steps = plan(page!("EXPLAIN QUERY PLAN "), values).await;
    assert!(uses(&steps, "request_audience_conversation (conversation_id=? AND request_id<?)"), "{steps:?}");
    assert!(!steps.iter().any(|step| step.starts_with("SCAN") || step.contains("DISTINCT")), "{steps:?}");
}
