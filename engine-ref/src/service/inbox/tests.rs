//! The rules of leases, each on every store that can be had here.

#![expect(clippy::cloned_ref_to_slice_refs, reason = "ids are compared with owned ones")]

use std::time::Duration;

use beepgrid::{AckItem, DeliveryKind, ErrorCode, InboxInput};

use super::bed::{Bed, code, start};
use super::*;
use crate::store::deliveries::State;

const ALL: Kinds = Kinds { messages: true, requests: true, results: true, withdrawals: true };

fn is_stale<T: std::fmt::Debug>(result: Result<T, Refusal>) -> bool {
    code(&result.unwrap_err()) == Some(&ErrorCode::StaleGeneration)
}

#[test]
fn first_redelivery_is_at_once_and_later_ones_double_up_to_300_seconds() {
    let waits: Vec<u64> = (1..=12).map(|attempts| backoff(attempts).as_secs()).collect();
    assert_eq!(waits, [0, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    for odd in [i64::MIN, -1, 0] {
        assert_eq!(backoff(odd), Duration::ZERO);
    }
    assert_eq!(backoff(i64::MAX), LONGEST_BACKOFF);
}

#[test]
fn input_outside_the_limits_names_its_field() {
    let field = |input: &InboxInput| match Want::from_input(input).unwrap_err() {
        Refusal::Invalid { field, .. } => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(&InboxInput::new().wait_ms(15_001)), "wait_ms");
    assert_eq!(field(&InboxInput::new().wait_ms(-1)), "wait_ms");
    assert_eq!(field(&InboxInput::new().limit(0)), "limit");
    assert_eq!(field(&InboxInput::new().limit(101)), "limit");
    assert_eq!(field(&InboxInput::new().kinds(vec!["letter".into()])), "kinds");
    let want = Want::from_input(&InboxInput::new()).unwrap();
    assert_eq!((want.wait, want.limit, want.kinds), (Duration::ZERO, 10, ALL));
    assert!(check_items(&[]).is_err());
    let many = vec![AckItem { id: "dlv_1".into(), generation: 1 }; 101];
    assert!(check_items(&many).is_err());
    assert!(check_items(&many[..100]).is_ok());
    for (seconds, fine) in [(0, false), (1, true), (300, true), (301, false)] {
        assert_eq!(check_extension(&ExtendInput::new(1, seconds)).is_ok(), fine);
    }
    for (delay, fine) in [(-1, false), (0, true), (3_600, true), (3_601, false)] {
        assert_eq!(check_release(&ReleaseInput::new(1).delay_seconds(delay)).is_ok(), fine);
    }
}

#[tokio::test]
async fn one_lease_takes_several_of_one_conversation_in_order() {
    for bed in Bed::each().await {
        let mut sent = Vec::new();
        for _ in 0..5 {
            sent.push(bed.message("cnv_1").await);
        }
        let first = bed.lease_with("ins_a", InboxInput::new().limit(2)).await;
        assert_eq!(first.iter().map(|delivery| delivery.id.clone()).collect::<Vec<_>>(), sent[..2]);
        let one = &first[0];
        assert_eq!((one.generation, one.attempt, one.leased_until), (1, 1, start().plus(LEASE)));
        assert_eq!(one.kind, one.payload.r#type);
        // Nobody gets more of it before that is settled, its holder included.
        assert_eq!(bed.ids("ins_b").await, []);
        assert_eq!(bed.ids("ins_a").await, []);
        bed.ack("ins_a", &sent[0], 1).await.unwrap();
        assert_eq!(bed.ids("ins_a").await, []);
        bed.ack("ins_a", &sent[1], 1).await.unwrap();
        assert_eq!(bed.ids("ins_a").await, sent[2..]);
    }
}

#[tokio::test]
async fn lease_whose_answer_was_lost_is_overtaken_by_nothing() {
    for bed in Bed::each().await {
        let one = bed.message("cnv_1").await;
        // As if the process died before it read the answer.
        drop(bed.lease("ins_a").await);
        let two = bed.message("cnv_1").await;
        assert_eq!(bed.ids("ins_a").await, []);
        bed.advance(29);
        assert_eq!(bed.ids("ins_a").await, []);
        bed.advance(1);
        assert_eq!(bed.ids("ins_a").await, [one, two]);
    }
}

#[tokio::test]
async fn other_conversations_go_to_other_instances() {
    for bed in Bed::each().await {
        let one = bed.message("cnv_1").await;
        assert_eq!(bed.ids("ins_a").await, [one.clone()]);
        let two = bed.message("cnv_2").await;
        let behind = bed.message("cnv_1").await;
        assert_eq!(bed.ids("ins_b").await, [two]);
        // Acknowledged, it holds nothing back.
        bed.ack("ins_a", &one, 1).await.unwrap();
        assert_eq!(bed.ids("ins_b").await, [behind]);
    }
}

#[tokio::test]
async fn lease_that_runs_out_comes_back_in_its_place_with_the_next_generation() {
    for bed in Bed::each().await {
        let one = bed.message("cnv_1").await;
        assert_eq!(bed.ids("ins_a").await, [one.clone()]);
        let two = bed.message("cnv_1").await;
        bed.advance(29);
        assert_eq!(bed.ids("ins_b").await, []);
        assert_eq!(bed.next_due().await, Some(start().plus(LEASE)));
        bed.advance(1);
        let again = bed.lease("ins_b").await;
        assert_eq!(again.iter().map(|d| (d.id.clone(), d.generation, d.attempt)).collect::<Vec<_>>(), [(one, 2, 2), (two, 1, 1)]);
    }
}

#[tokio::test]
async fn waiting_redelivery_holds_back_what_follows_it_from_everybody() {
    for bed in Bed::each().await {
        let one = bed.message("cnv_1").await;
        bed.lease("ins_a").await;
        bed.advance(30);
        bed.lease("ins_a").await;
        bed.message("cnv_1").await;
        bed.advance(30); // the second lease is over, the wait of 2 seconds is not
        assert_eq!(bed.ids("ins_a").await, []);
        assert_eq!(bed.ids("ins_b").await, []);
        bed.advance(2);
        assert_eq!(bed.ids("ins_b").await.first(), Some(&one));
    }
}

#[tokio::test]
async fn redeliveries_wait_as_the_backoff_says() {
    let bed = Bed::memory().await;
    bed.message("cnv_1").await;
    for wait in [0, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
        assert_eq!(bed.lease("ins_a").await.len(), 1, "{wait}");
        if wait > 0 {
            bed.advance(30 + wait - 1);
            assert_eq!(bed.ids("ins_a").await, [], "{wait}");
            bed.advance(1);
        } else {
            bed.advance(30);
        }
    }
}

#[tokio::test]
async fn stale_generation_cannot_ack_extend_or_release() {
    for bed in Bed::each().await {
        let one = bed.message("cnv_1").await;
        bed.lease("ins_a").await;
        bed.advance(30);
        assert_eq!(bed.lease("ins_b").await[0].generation, 2);
        for (instance, generation) in [("ins_a", 1), ("ins_a", 2), ("ins_b", 1), ("ins_b", 3), ("ins_b", 0)] {
            assert!(is_stale(bed.ack(instance, &one, generation).await));
            assert!(is_stale(bed.extend(instance, &one, generation, 10).await));
            assert!(is_stale(bed.release(instance, &one, generation, 0).await));
        }
        bed.ack("ins_b", &one, 2).await.unwrap();
        bed.ack("ins_b", &one, 2).await.unwrap();
        assert!(is_stale(bed.extend("ins_b", &one, 2, 10).await));
        assert!(is_stale(bed.release("ins_b", &one, 2, 0).await));
        bed.advance(100_000);
        assert_eq!(bed.ids("ins_a").await, []);
    }
}

#[tokio::test]
async fn unknown_deliveries_and_those_of_others_are_not_found() {
    let bed = Bed::memory().await;
    let unknown = beepgrid::DeliveryId::new("dlv_nothing");
    assert!(matches!(bed.ack("ins_a", &unknown, 1).await, Err(Refusal::NotFound { .. })));
    let one = bed.message("cnv_1").await;
    bed.lease("ins_a").await;
    let id = one.clone();
    let foreign = bed.store.write(move |tx| {
        let (agent, instance) = ("agt_2".into(), "ins_a".into());
        ack(tx, &Worker { agent: &agent, instance: &instance }, &id, &AckInput::new(1))
    });
    assert!(matches!(foreign.await, Err(Refusal::NotFound { .. })));
}

#[tokio::test]
async fn late_ack_counts_while_nobody_else_has_leased() {
    for bed in Bed::each().await {
        let one = bed.message("cnv_1").await;
        bed.lease("ins_a").await;
        bed.advance(31);
        bed.ack("ins_a", &one, 1).await.unwrap();
        assert_eq!(bed.ids("ins_b").await, []);
        assert_eq!(bed.row(&one).await.state, State::Acked);
    }
}

#[tokio::test]
async fn each_item_of_a_list_is_acknowledged_by_itself() {
    for bed in Bed::each().await {
        let (one, two) = (bed.message("cnv_1").await, bed.message("cnv_2").await);
        bed.lease("ins_a").await;
        let item = |id: &beepgrid::DeliveryId, generation| AckItem { id: id.clone(), generation };
        let items = vec![item(&one, 1), item(&two, 7), item(&"dlv_x".into(), 1), item(&one, 1)];
        let acked = bed.store.write(move |tx| {
            let (agent, instance) = ("agt_1".into(), "ins_a".into());
            ack_many(tx, &Worker { agent: &agent, instance: &instance }, &items)
        });
        let codes: Vec<_> = acked.await.unwrap().into_iter().map(|item| (item.received, item.code)).collect();
        let refused = |code| (false, Some(code));
        let fine = (true, None);
        assert_eq!(codes, [fine.clone(), refused(ErrorCode::StaleGeneration), refused(ErrorCode::NotFound), fine]);
        assert_eq!(bed.row(&two).await.state, State::Leased);
    }
}

#[tokio::test]
async fn extension_counts_from_now_and_ends_12_hours_after_the_lease() {
    for bed in Bed::each().await {
        let one = bed.message("cnv_1").await;
        bed.lease("ins_a").await;
        bed.advance(20);
        assert_eq!(bed.extend("ins_a", &one, 1, 300).await.unwrap(), start().plus(Duration::from_secs(320)));
        assert_eq!(bed.extend("ins_a", &one, 1, 5).await.unwrap(), start().plus(Duration::from_secs(25)));
        assert_eq!(bed.next_due().await, Some(start().plus(Duration::from_secs(25))));
        let end = start().plus(LONGEST_LEASE);
        for _ in 0..143 {
            bed.extend("ins_a", &one, 1, 300).await.unwrap();
            bed.advance(299);
            assert_eq!(bed.ids("ins_b").await, []);
        }
        bed.advance(43_200 - 20 - 143 * 299 - 10);
        assert_eq!(bed.extend("ins_a", &one, 1, 300).await.unwrap(), end);
        bed.advance(10);
        assert!(is_stale(bed.extend("ins_a", &one, 1, 1).await));
        assert_eq!(bed.ids("ins_b").await, [one]);
    }
}

#[tokio::test]
async fn lapsed_lease_is_taken_up_again_while_nobody_else_has_it() {
    for bed in Bed::each().await {
        let one = bed.message("cnv_1").await;
        bed.lease("ins_a").await;
        bed.advance(40);
        bed.extend("ins_a", &one, 1, 30).await.unwrap();
        assert_eq!(bed.ids("ins_b").await, []);
    }
}

#[tokio::test]
async fn lapsed_lease_is_not_taken_up_beside_another_instance_in_the_conversation() {
    for bed in Bed::each().await {
        let (one, two) = (bed.message("cnv_1").await, bed.message("cnv_1").await);
        for _ in 0..2 {
            assert_eq!(bed.ids("ins_a").await, [one.clone(), two.clone()]);
            bed.advance(30);
        }
        // Both wait for 2 seconds; the earlier one is given back and goes to another instance.
        bed.release("ins_a", &one, 2, 0).await.unwrap();
        assert_eq!(bed.ids("ins_b").await, [one.clone()]);
        assert!(is_stale(bed.extend("ins_a", &two, 2, 30).await));
        bed.ack("ins_b", &one, 3).await.unwrap();
        bed.extend("ins_a", &two, 2, 30).await.unwrap();
    }
}

#[tokio::test]
async fn released_delivery_comes_back_after_its_delay_and_counts_no_attempt() {
    for bed in Bed::each().await {
        let one = bed.message("cnv_1").await;
        let two = bed.message("cnv_1").await;
        bed.lease("ins_a").await;
        bed.release("ins_a", &two, 1, 0).await.unwrap();
        bed.release("ins_a", &one, 1, 60).await.unwrap();
        assert!(is_stale(bed.ack("ins_a", &one, 1).await));
        assert!(is_stale(bed.release("ins_a", &one, 1, 0).await));
        bed.advance(59);
        assert_eq!(bed.ids("ins_a").await, [], "a delayed one holds back what follows");
        bed.advance(1);
        let again = bed.lease("ins_b").await;
        assert_eq!(again.iter().map(|d| (d.id.clone(), d.generation, d.attempt)).collect::<Vec<_>>(), [(one, 2, 1), (two, 2, 1)]);
    }
}

#[tokio::test]
async fn results_go_first_and_stand_outside_order_and_affinity() {
    for bed in Bed::each().await {
        let held = bed.message("cnv_1").await;
        assert_eq!(bed.ids("ins_a").await, [held.clone()]);
        let plain = bed.message("cnv_2").await;
        let own = bed.make(DeliveryKind::Message, "cnv_1", "msg_2", Some(("ins_b", true))).await;
        let result = bed.make(DeliveryKind::RequestResult, "cnv_1", "req_closed", None).await;
        let withdrawn = bed.make(DeliveryKind::RequestWithdrawn, "cnv_1", "req_closed", None).await;
        assert_eq!(bed.ids("ins_b").await, [result, withdrawn, own, plain]);
        // What is out of order holds nothing back either.
        bed.ack("ins_a", &held, 1).await.unwrap();
        bed.message("cnv_1").await;
        assert_eq!(bed.ids("ins_a").await.len(), 1);
    }
}

#[tokio::test]
async fn only_the_kinds_that_were_asked_for_are_leased() {
    for bed in Bed::each().await {
        let request = bed.make(DeliveryKind::Request, "cnv_1", "req_1", None).await;
        let message = bed.message("cnv_1").await;
        let result = bed.make(DeliveryKind::RequestResult, "cnv_1", "req_closed", None).await;
        let withdrawn = bed.make(DeliveryKind::RequestWithdrawn, "cnv_1", "req_closed", None).await;
        for (kind, id) in [
            (DeliveryKind::RequestWithdrawn, withdrawn),
            (DeliveryKind::RequestResult, result),
            (DeliveryKind::Message, message),
            (DeliveryKind::Request, request),
        ] {
            let leased = bed.lease_with("ins_a", InboxInput::new().kinds(vec![kind.clone()])).await;
            assert_eq!(leased.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&id], "{kind}");
            bed.ack("ins_a", &id, 1).await.unwrap();
        }
    }
}

#[tokio::test]
async fn pinned_to_one_instance_is_given_to_no_other() {
    for bed in Bed::each().await {
        let own = bed.make(DeliveryKind::Message, "cnv_1", "msg_1", Some(("ins_a", true))).await;
        bed.advance(400_000);
        assert_eq!(bed.ids("ins_b").await, []);
        assert_eq!(bed.ids("ins_a").await, [own]);
    }
}

#[tokio::test]
async fn result_is_kept_for_who_asked_while_it_was_seen_within_a_day() {
    for bed in Bed::each().await {
        let result = bed.make(DeliveryKind::RequestResult, "cnv_1", "req_closed", Some(("ins_a", false))).await;
        bed.advance(86_400);
        assert_eq!(bed.ids("ins_b").await, []);
        bed.clock.advance(Duration::from_micros(1));
        assert_eq!(bed.ids("ins_b").await, [result]);
    }
}

#[tokio::test]
async fn result_goes_to_any_instance_once_the_credential_of_who_asked_has_ended() {
    for (how, sql) in [
        ("revoked", "UPDATE credentials SET revoked = TRUE WHERE id = 'crd_a'"),
        ("expired", "UPDATE credentials SET expires_at = 1 WHERE id = 'crd_a'"),
    ] {
        for bed in Bed::each().await {
            let result = bed.make(DeliveryKind::RequestResult, "cnv_1", "req_closed", Some(("ins_a", false))).await;
            assert_eq!(bed.ids("ins_b").await, [], "{how}");
            bed.store.write(move |tx| Ok(tx.execute(sql, &[])?)).await.unwrap();
            assert_eq!(bed.ids("ins_b").await, [result], "{how}");
        }
    }
}

#[tokio::test]
async fn what_may_no_longer_be_seen_or_decided_is_withdrawn_and_holds_nothing_back() {
    for bed in Bed::each().await {
        let hidden = bed.make(DeliveryKind::Message, "cnv_1", "msg_hidden", None).await;
        let closed = bed.make(DeliveryKind::Request, "cnv_1", "req_closed", None).await;
        let plain = bed.message("cnv_1").await;
        let leased = bed.lease_with("ins_a", InboxInput::new().limit(1)).await;
        assert_eq!(leased[0].id, plain);
        bed.check_lines().await;
        let reason = |row: DeliveryRow| (row.state, row.reason, row.generation);
        assert_eq!(reason(bed.row(&hidden).await), (State::Withdrawn, Some("no_access".to_owned()), 0));
        assert_eq!(reason(bed.row(&closed).await), (State::Withdrawn, Some("closed".to_owned()), 0));
    }
}

#[tokio::test]
async fn exhausted_delivery_is_parked_at_the_lease_and_not_given_again() {
    for bed in Bed::each().await {
        let one = bed.message("cnv_1").await;
        bed.wear("ins_a", 20).await;
        // Twenty attempts are over within an hour and a half: it goes on until the day is over.
        assert_eq!(bed.lease("ins_a").await[0].attempt, 21);
        bed.advance(86_400);
        let behind = bed.message("cnv_1").await;
        assert_eq!(bed.ids("ins_a").await, [behind]);
        bed.check_lines().await;
        let row = bed.row(&one).await;
        assert_eq!((row.state, row.reason.as_deref()), (State::Parked, Some("attempts")));
        // Who had it last may still say that it was done.
        bed.ack("ins_a", &one, 21).await.unwrap();
        assert_eq!(bed.row(&one).await.state, State::Acked);
    }
}

#[tokio::test]
async fn day_alone_or_attempts_alone_park_nothing() {
    let bed = Bed::memory().await;
    let one = bed.message("cnv_1").await;
    for _ in 0..30 {
        let leased = bed.lease("ins_a").await;
        assert_eq!(leased[0].attempt, 1);
        bed.release("ins_a", &one, leased[0].generation, 3_600).await.unwrap();
        bed.advance(3_600);
    }
    assert_eq!(bed.lease("ins_a").await[0].attempt, 1);
}

#[tokio::test]
async fn of_two_leases_at_once_one_gets_the_conversation() {
    for bed in Bed::each().await {
        for _ in 0..20 {
            let sent = bed.message("cnv_1").await;
            let (a, b) = tokio::join!(bed.lease("ins_a"), bed.lease("ins_b"));
            let winner = if a.is_empty() { "ins_b" } else { "ins_a" };
            let got: Vec<_> = a.into_iter().chain(b).collect();
            assert_eq!(got.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&sent]);
            // An acknowledgement and a lease in the same instant: one of the two wins.
            bed.advance(30);
            let loser = if winner == "ins_a" { "ins_b" } else { "ins_a" };
            let (acked, again) = tokio::join!(bed.ack(winner, &sent, 1), bed.lease(loser));
            assert_ne!(acked.is_ok(), again.len() == 1);
            if let Some(delivery) = again.first() {
                bed.ack(loser, &delivery.id, delivery.generation).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn look_finds_nothing_in_a_conversation_that_another_holds() {
    let bed = Bed::memory().await;
    bed.message("cnv_1").await;
    bed.lease("ins_a").await;
    bed.message("cnv_1").await;
    let seen = bed.store.read(|tx| {
        let (agent, instance) = ("agt_1".into(), "ins_b".into());
        glimpse(tx, &Worker { agent: &agent, instance: &instance }, ALL)
    });
    assert_eq!(seen.await.unwrap(), Glimpse { ready: false, next_due: Some(start().plus(LEASE)) });
}

#[tokio::test]
async fn conversation_that_is_held_back_costs_a_lease_one_step() {
    let bed = Bed::memory().await;
    bed.message("cnv_1").await;
    let held = bed.lease("ins_a").await.swap_remove(0);
    bed.release("ins_a", &held.id, 1, 3_600).await.unwrap();
    for _ in 0..50 {
        bed.message("cnv_1").await;
    }
    let free = bed.message("cnv_2").await;
    let fronts = bed.store.read(|tx| {
        let agent = "agt_1".into();
        Ok(line::fronts(tx, &agent, &Place::START, 100)?)
    });
    assert_eq!(fronts.await.unwrap().into_iter().map(|row| row.id).collect::<Vec<_>>(), [free.clone()]);
    assert_eq!(bed.ids("ins_b").await, [free.clone()]);
    bed.ack("ins_b", &free, 1).await.unwrap();
    bed.advance(3_600);
    assert_eq!(bed.ids("ins_b").await.len(), 51);
}
