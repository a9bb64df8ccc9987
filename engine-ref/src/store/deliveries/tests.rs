//! What SQLite plans for the queries that grow with an inbox: a search in the index that they name, never a scan or a sort.

use beepgrid::{ConversationId, DeliveryId, DeliveryKind};

use super::*;
use crate::service::inbox::bed::Bed;

/// The steps of a plan.
pub(super) async fn plan(
    sql: &'static str,
    values: &'static [(&'static str, i64)],
    texts: &'static [&'static str],
) -> Vec<String> {
    let bed = Bed::memory().await;
    let read = bed.store.read(move |tx| {
        let mut params: Vec<(&'static str, &dyn crate::store::ToValue)> = Vec::new();
        for (name, value) in values {
            params.push((name, value));
        }
        for name in texts {
            params.push((name, name));
        }
        let rows = tx.query(sql, &params)?;
        Ok(rows.iter().map(|row| row.text("detail")).collect::<Result<Vec<_>, _>>()?)
    });
    read.await.unwrap()
}

pub(super) fn assert_searches(steps: &[String], indices: &[&str]) {
    let text = steps.join("\n");
    assert!(!text.contains("SCAN"), "{text}");
    assert!(!text.contains("TEMP B-TREE"), "{text}");
    for index in indices {
        assert!(text.contains(index), "{index} is not used:\n{text}");
    }
}

const UNORDERED: &[(&str, i64)] = &[
    ("lane", 0),
    ("position", 0),
    ("now", 0),
    ("messages", 1),
    ("requests", 1),
    ("results", 1),
    ("withdrawals", 1),
    ("lately", 0),
    ("limit", 10),
];

#[tokio::test]
async fn results_are_found_in_their_index_and_pins_looked_up() {
    let steps = plan(unordered!("EXPLAIN QUERY PLAN "), UNORDERED, &["agent", "instance", "after"]).await;
    assert_searches(&steps, &["deliveries_unordered (agent_id=? AND lane=?", "credentials_instance"]);
}

macro_rules! plans {
    ($($name:literal: $sql:literal, $values:expr, $texts:expr => $index:literal;)+) => {
        #[tokio::test]
        async fn what_stands_beside_the_lease_searches_its_index_too() {
            $(
                let steps = plan(concat!("EXPLAIN QUERY PLAN ", $sql), $values, $texts).await;
                let text = steps.join("\n");
                assert!(!text.contains("SCAN deliveries") && !text.contains("TEMP B-TREE"), "{}: {text}", $name);
                assert!(text.contains($index), "{}: {text}", $name);
            )+
        }
    };
}

plans! {
    "next_due": "SELECT due_at FROM deliveries WHERE agent_id = :agent AND due_at > :now AND state IN ('ready', 'leased')
         ORDER BY due_at LIMIT 1", &[("now", 0)], &["agent"] => "deliveries_held (agent_id=? AND due_at>?";
    "parked": "SELECT * FROM deliveries WHERE agent_id = :agent AND state = 'parked' AND (position, id) > (:position, :after)
         ORDER BY position, id LIMIT :limit", &[("position", 0), ("limit", 1)], &["agent", "after"] => "deliveries_parked (agent_id=?";
    "exhausted": "SELECT * FROM deliveries WHERE state IN ('ready', 'leased') AND attempts >= 20 AND first_leased_at <= :before
           AND (state = 'ready' OR leased_until <= :now)
         ORDER BY first_leased_at LIMIT :limit", &[("before", 0), ("now", 0), ("limit", 1)], &[] => "deliveries_worn";
    "next_pinned": "SELECT instance_id FROM deliveries WHERE instance_id > :after AND pin IS NOT NULL AND state IN ('ready', 'leased')
         ORDER BY instance_id LIMIT 1", &[], &["after"] => "deliveries_pinned (instance_id>?";
    "pinned_to": "SELECT * FROM deliveries WHERE instance_id = :id AND pin IS NOT NULL AND pin = :pin AND state IN ('ready', 'leased')
         LIMIT :limit", &[("limit", 1)], &["id", "pin"] => "deliveries_pinned (instance_id=?";
}

#[tokio::test]
async fn rows_come_back_as_they_were_stored() {
    for bed in Bed::each().await {
        let id = bed.make(DeliveryKind::RequestResult, "cnv_1", "req_closed", Some(("ins_a", false))).await;
        let row = bed.row(&id).await;
        assert_eq!((row.lane, row.pin, row.instance_id), (Lane::Results, Some(PinKind::Soft), Some("ins_a".into())));
        assert_eq!((row.generation, row.attempts, row.state), (0, 0, State::Ready));
        assert_eq!(bed.counted().await, (0, 0));
        let of_request = bed.store.read(|tx| Ok(of_request(tx, &"req_closed".into())?)).await.unwrap();
        assert_eq!(of_request.iter().map(|row| row.id.clone()).collect::<Vec<DeliveryId>>(), [id]);
    }
}

#[tokio::test]
async fn backlog_counts_live_messages_and_requests_of_one_sender() {
    for bed in Bed::each().await {
        let first = bed.message("cnv_1").await;
        for n in 0..4 {
            bed.message(&format!("cnv_{n}")).await;
        }
        let hidden = bed.make(DeliveryKind::Message, "cnv_9", "msg_hidden", None).await;
        bed.make(DeliveryKind::Request, "cnv_1", "req_1", None).await;
        let count = |sender: &'static str| bed.store.read(move |tx| Ok(backlog(tx, &sender.into(), &"agt_1".into())?));
        assert_eq!(count("per_1").await.unwrap(), 7);
        bed.lease("ins_a").await;
        assert_eq!(bed.row(&hidden).await.state, State::Withdrawn);
        assert_eq!(count("per_1").await.unwrap(), 6);
        for _ in 0..2 {
            bed.ack("ins_a", &first, 1).await.unwrap();
            assert_eq!(count("per_1").await.unwrap(), 5);
        }
        assert_eq!(count("per_2").await.unwrap(), 0);
        let due = bed.store.read(|tx| Ok(line::has_due(tx, &"agt_1".into(), &ConversationId::new("cnv_1"))?));
        assert!(!due.await.unwrap());
    }
}
