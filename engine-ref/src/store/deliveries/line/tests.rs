//! The queries of the ordered lane search the indices that they name.

use crate::store::deliveries::tests::{assert_searches, plan};

const FRONTS: &[(&str, i64)] = &[("position", 0), ("now", 0), ("limit", 10)];
const ALONG: &[(&str, i64)] = &[("position", 0), ("now", 0), ("messages", 1), ("requests", 1), ("limit", 10)];

#[tokio::test]
async fn lease_walks_fronts_and_goes_along_lines() {
    let steps = plan(fronts!("EXPLAIN QUERY PLAN "), FRONTS, &["agent", "after"]).await;
    assert_searches(
        &steps,
        &["deliveries_front (agent_id=?", "deliveries_holding (agent_id=? AND conversation_id=? AND due_at>?"],
    );
    let steps = plan(along!("EXPLAIN QUERY PLAN "), ALONG, &["agent", "conversation", "after"]).await;
    assert_searches(&steps, &["deliveries_line (agent_id=? AND conversation_id=?"]);
}

#[tokio::test]
async fn what_holds_or_waits_is_looked_up() {
    let steps = plan(
        "EXPLAIN QUERY PLAN SELECT 1 AS due FROM deliveries
         WHERE agent_id = :agent AND conversation_id = :conversation AND due_at <= :now AND lane = 2
           AND state IN ('ready', 'leased') LIMIT 1",
        &[("now", 0)],
        &["agent", "conversation"],
    );
    assert_searches(&steps.await, &["deliveries_holding (agent_id=? AND conversation_id=? AND due_at<?"]);
    let steps = plan(
        "EXPLAIN QUERY PLAN SELECT 1 AS held FROM deliveries
         WHERE agent_id = :agent AND conversation_id = :conversation AND due_at > :now AND lane = 2
           AND state IN ('ready', 'leased') AND state = 'leased' AND leased_until > :now AND leased_by <> :instance LIMIT 1",
        &[("now", 0)],
        &["agent", "conversation", "instance"],
    );
    assert_searches(&steps.await, &["deliveries_holding (agent_id=? AND conversation_id=? AND due_at>?"]);
    let steps = plan(
        // Who moves up when another has left.
        "EXPLAIN QUERY PLAN SELECT d.id FROM deliveries d
         WHERE d.agent_id = :agent AND d.conversation_id = :conversation AND d.lane = 2 AND d.state IN ('ready', 'leased')
         ORDER BY d.position, d.id LIMIT 1",
        &[],
        &["agent", "conversation"],
    );
    assert_searches(&steps.await, &["deliveries_line (agent_id=? AND conversation_id=?"]);
}
