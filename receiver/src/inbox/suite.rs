//! What every inbox must show, written once. `inbox_suite!(open)` runs all of it; `open` is an async function that returns a fresh inbox and
//! whatever must live as long.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "test code that lives outside of test targets"
)]

use beepgrid::{Delivery, DeliveryId, Timestamp};
use serde_json::{Value, json};

use super::{Applied, InboxErrorKind, InboxStore, NextState, PutReport, StateChange};
use crate::input::{Attempt, Content, HeldReason, InputState, LiveInput, Resolution, Route};

/// Makes a test of each case for the inbox that `$open` gives.
#[macro_export]
macro_rules! inbox_suite {
    ($open:path) => {
        $crate::inbox_suite!(@ $open:
            a_batch_is_pending_and_unacked,
            a_repeated_batch_adds_nothing,
            a_higher_generation_is_kept_for_the_ack_and_leaves_the_state,
            a_lower_generation_of_a_restored_engine_is_kept_for_the_ack,
            an_ack_of_an_older_generation_is_not_an_ack,
            order_is_that_of_creation_whatever_came_first,
            only_a_pending_row_is_marked_and_only_once,
            a_change_decided_on_an_older_revision_changes_nothing,
            a_not_now_is_no_attempt,
            acceptance_removes_the_content_and_is_final,
            acceptance_goes_through_at_any_revision,
            a_held_row_is_listed_apart_until_resolved,
            evidence_ends_a_doubt,
            a_row_that_is_not_held_cannot_be_resolved,
            a_withdrawal_closes_the_pending_request,
            a_request_that_comes_after_its_withdrawal_is_closed,
            a_withdrawal_leaves_a_request_that_is_with_the_runtime,
            a_request_that_comes_back_meets_its_withdrawal,
            pruning_keeps_what_is_open_unacked_or_young,
            a_scrubbed_id_is_still_recognised,
            a_conversation_stays_with_its_first_session,
            a_closed_inbox_refuses_everything
        );
    };
    (@ $open:path: $($case:ident),+) => {
        $(
            #[tokio::test]
            async fn $case() {
                let (inbox, _kept) = $open().await;
                $crate::inbox::suite::$case(inbox).await;
            }
        )+
    };
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn input(id: &str, created: i64, payload: Value) -> LiveInput {
    let mut payload = payload;
    payload["conversation_id"] = json!("cnv_1");
    let delivery = json!({
        "id": id, "generation": 1, "kind": payload["type"], "attempt": 1, "created_at": at(created), "leased_until": at(created),
        "payload": payload,
    });
    LiveInput::from(serde_json::from_value::<Delivery>(delivery).expect("the suite's own delivery"))
}

/// A message for tests: its id, when it was made, its conversation and text.
pub fn message_in(id: &str, created: i64, conversation: &str, body: &str) -> LiveInput {
    let message = json!({ "id": format!("msg_{id}"), "conversation_id": conversation, "sender_id": "agt_peer", "body": body });
    let mut input = input(id, created, json!({ "type": "message", "message": message }));
    input.conversation_id = conversation.into();
    input.delivery.payload.conversation_id = conversation.into();
    input
}

fn message(id: &str, created: i64) -> LiveInput {
    message_in(id, created, "cnv_1", "secret text")
}

/// A delivery about a request, for tests; `kind` is `request`, `request_result` or `request_withdrawn`.
pub fn about_request(id: &str, created: i64, kind: &str, request: &str) -> LiveInput {
    let state = if kind == "request" { "open" } else { "cancelled" };
    let request = json!({ "id": request, "state": state, "version": 1, "title": "Ship it?" });
    input(id, created, json!({ "type": kind, "request": request }))
}

fn attempt() -> Attempt {
    Attempt::new(1, "run", at(5), Route::Start)
}

async fn change<I: InboxStore>(inbox: &I, id: &str, revision: i64, to: NextState) -> Applied {
    let change = StateChange { id: id.into(), revision, to };
    inbox.set_state(vec![change], at(100)).await.expect("the inbox takes changes")[0]
}

async fn revision<I: InboxStore>(inbox: &I, id: &str) -> i64 {
    inbox.get(id.into()).await.expect("readable").expect("known").revision
}

async fn mark<I: InboxStore>(inbox: &I, id: &str) {
    let revision = revision(inbox, id).await;
    assert!(matches!(change(inbox, id, revision, NextState::Submitting(attempt())).await, Applied::Done { .. }));
}

async fn state<I: InboxStore>(inbox: &I, id: &str) -> InputState {
    inbox.get(id.into()).await.expect("readable").expect("known").state
}

async fn pending<I: InboxStore>(inbox: &I) -> Vec<String> {
    let rows = inbox.pending(100).await.expect("readable");
    rows.iter().map(|row| row.id.to_string()).collect()
}

/// A stored batch waits, and the engine does not know yet.
pub async fn a_batch_is_pending_and_unacked<I: InboxStore>(inbox: I) {
    let report = inbox.put(vec![message("d1", 1), message("d2", 2)], at(10)).await.unwrap();
    assert_eq!(report, PutReport { new: 2, known: 0, withdrawn: 0 });
    assert_eq!(pending(&inbox).await, ["d1", "d2"]);
    assert_eq!(inbox.unacked(10).await.unwrap(), [("d1".into(), 1), ("d2".into(), 1)]);
    inbox.mark_acked(vec![("d1".into(), 1)]).await.unwrap();
    assert_eq!(inbox.unacked(10).await.unwrap(), [(DeliveryId::new("d2"), 1)]);
    let stored = inbox.get("d1".into()).await.unwrap().unwrap();
    assert_eq!((stored.body(), stored.content, stored.acked), ("secret text", Content::Present, true));
    let counts = inbox.counts().await.unwrap();
    assert_eq!((counts.pending, counts.open_ordinary, counts.open_results, counts.rows), (2, 2, 0, 2));
}

/// The same ids again make no second row.
pub async fn a_repeated_batch_adds_nothing<I: InboxStore>(inbox: I) {
    inbox.put(vec![message("d1", 1)], at(10)).await.unwrap();
    let report = inbox.put(vec![message("d1", 1), message("d1", 1)], at(11)).await.unwrap();
    assert_eq!(report, PutReport { new: 0, known: 2, withdrawn: 0 });
    assert_eq!(inbox.counts().await.unwrap().rows, 1);
}

/// A redelivery is acknowledged under its own number and changes nothing else.
pub async fn a_higher_generation_is_kept_for_the_ack_and_leaves_the_state<I: InboxStore>(inbox: I) {
    inbox.put(vec![message("d1", 1)], at(10)).await.unwrap();
    inbox.mark_acked(vec![("d1".into(), 1)]).await.unwrap();
    mark(&inbox, "d1").await;
    let mut again = message("d1", 1);
    again.delivery.generation = 4;
    inbox.put(vec![again], at(20)).await.unwrap();
    let stored = inbox.get("d1".into()).await.unwrap().unwrap();
    assert_eq!((stored.state, stored.generation, stored.acked), (InputState::Submitting, 4, false));
    assert_eq!(inbox.unacked(10).await.unwrap(), [(DeliveryId::new("d1"), 4)]);
}

/// An engine that was restored counts from an older number; what it hands out again has no ack there, whatever it had before.
pub async fn a_lower_generation_of_a_restored_engine_is_kept_for_the_ack<I: InboxStore>(inbox: I) {
    let mut fifth = message("d1", 1);
    fifth.delivery.generation = 5;
    inbox.put(vec![fifth], at(10)).await.unwrap();
    inbox.mark_acked(vec![("d1".into(), 5)]).await.unwrap();
    for lower in [5, 2] {
        let mut again = message("d1", 1);
        again.delivery.generation = lower;
        assert_eq!(inbox.put(vec![again], at(20)).await.unwrap().known, 1);
        assert_eq!(inbox.unacked(10).await.unwrap(), [(DeliveryId::new("d1"), lower)]);
        inbox.mark_acked(vec![("d1".into(), lower)]).await.unwrap();
        assert_eq!(inbox.unacked(10).await.unwrap(), []);
    }
}

/// The row stays unacked if it was leased again while the ack was on its way.
pub async fn an_ack_of_an_older_generation_is_not_an_ack<I: InboxStore>(inbox: I) {
    let mut again = message("d1", 1);
    again.delivery.generation = 2;
    inbox.put(vec![message("d1", 1), again], at(10)).await.unwrap();
    inbox.mark_acked(vec![("d1".into(), 1)]).await.unwrap();
    assert_eq!(inbox.unacked(10).await.unwrap(), [(DeliveryId::new("d1"), 2)]);
}

/// A redelivered earlier message goes before a later one that came first.
pub async fn order_is_that_of_creation_whatever_came_first<I: InboxStore>(inbox: I) {
    inbox.put(vec![message("d3", 3)], at(10)).await.unwrap();
    inbox.put(vec![message("d2", 2), message("d1", 2)], at(11)).await.unwrap();
    assert_eq!(pending(&inbox).await, ["d1", "d2", "d3"]);
    let open: Vec<String> = inbox.open().await.unwrap().iter().map(|row| row.id.to_string()).collect();
    assert_eq!(open, ["d1", "d2", "d3"]);
}

/// Picking and marking are one step.
pub async fn only_a_pending_row_is_marked_and_only_once<I: InboxStore>(inbox: I) {
    inbox.put(vec![message("d1", 1)], at(10)).await.unwrap();
    mark(&inbox, "d1").await;
    assert_eq!(change(&inbox, "d1", 1, NextState::Submitting(attempt())).await, Applied::Superseded);
    assert_eq!(change(&inbox, "d1", 2, NextState::Submitting(attempt())).await, Applied::Superseded);
    let stored = inbox.get("d1".into()).await.unwrap().unwrap();
    assert_eq!((stored.attempts, stored.attempt), (1, Some(attempt())));
    assert_eq!(change(&inbox, "d9", 1, NextState::Submitting(attempt())).await, Applied::Superseded);
}

/// Two writers never overwrite each other.
pub async fn a_change_decided_on_an_older_revision_changes_nothing<I: InboxStore>(inbox: I) {
    inbox.put(vec![message("d1", 1)], at(10)).await.unwrap();
    mark(&inbox, "d1").await;
    let back = NextState::Pending { counted: true, next_attempt_at: None, error: None };
    assert_eq!(change(&inbox, "d1", 1, back.clone()).await, Applied::Superseded);
    assert_eq!(state(&inbox, "d1").await, InputState::Submitting);
    assert!(matches!(change(&inbox, "d1", 2, back).await, Applied::Done { revision: 3, attempts: 1 }));
}

/// Only real refusals count towards the limit.
pub async fn a_not_now_is_no_attempt<I: InboxStore>(inbox: I) {
    inbox.put(vec![message("d1", 1)], at(10)).await.unwrap();
    mark(&inbox, "d1").await;
    let later = Some(at(500));
    let back = NextState::Pending { counted: false, next_attempt_at: later, error: None };
    assert!(matches!(change(&inbox, "d1", 2, back).await, Applied::Done { attempts: 0, .. }));
    assert_eq!(inbox.open().await.unwrap()[0].next_attempt_at, later);
}

/// Accepted is accepted.
pub async fn acceptance_removes_the_content_and_is_final<I: InboxStore>(inbox: I) {
    inbox.put(vec![message("d1", 1)], at(10)).await.unwrap();
    mark(&inbox, "d1").await;
    change(&inbox, "d1", 2, NextState::Accepted).await;
    let stored = inbox.get("d1".into()).await.unwrap().unwrap();
    assert_eq!((stored.state, stored.content, stored.body()), (InputState::Accepted, Content::Scrubbed, ""));
    assert_eq!(stored.conversation_id.as_str(), "cnv_1");
    let back = NextState::Pending { counted: true, next_attempt_at: None, error: None };
    assert_eq!(change(&inbox, "d1", 3, back).await, Applied::Superseded);
    assert!(matches!(change(&inbox, "d1", 0, NextState::Accepted).await, Applied::Done { .. }));
    assert_eq!(inbox.open().await.unwrap(), []);
}

/// Proof counts whatever else was decided meanwhile.
pub async fn acceptance_goes_through_at_any_revision<I: InboxStore>(inbox: I) {
    inbox.put(vec![message("d1", 1)], at(10)).await.unwrap();
    assert!(matches!(change(&inbox, "d1", -7, NextState::Accepted).await, Applied::Done { .. }));
    assert_eq!(state(&inbox, "d1").await, InputState::Accepted);
}

/// Held rows wait for a person, apart from the others.
pub async fn a_held_row_is_listed_apart_until_resolved<I: InboxStore>(inbox: I) {
    let batch = (1..=3).map(|n| message(&format!("d{n}"), n)).collect();
    inbox.put(batch, at(10)).await.unwrap();
    for id in ["d1", "d2", "d3"] {
        mark(&inbox, id).await;
        let held = NextState::Held { state: InputState::Submitting, reason: HeldReason::Undecided, detail: "?".to_owned() };
        assert!(matches!(change(&inbox, id, 2, held).await, Applied::Done { revision: 3, .. }));
    }
    assert_eq!(pending(&inbox).await, Vec::<String>::new());
    let held = inbox.held(10).await.unwrap();
    let first = held[0].held.as_ref().unwrap();
    assert_eq!((held.len(), first.reason, first.since), (3, HeldReason::Undecided, at(100)));
    assert_eq!(inbox.counts().await.unwrap().held, 3);
    inbox.resolve("d1".into(), Resolution::Accepted, at(200)).await.unwrap();
    inbox.resolve("d2".into(), Resolution::Retry, at(200)).await.unwrap();
    inbox.resolve("d3".into(), Resolution::Discard, at(200)).await.unwrap();
    assert_eq!(pending(&inbox).await, ["d2"]);
    assert_eq!((state(&inbox, "d1").await, state(&inbox, "d3").await), (InputState::Accepted, InputState::Accepted));
    let retried = inbox.get("d2".into()).await.unwrap().unwrap();
    assert_eq!((retried.attempts, retried.held.is_none(), retried.body()), (0, true, "secret text"));
}

/// News of a row in doubt takes it from the person's list.
pub async fn evidence_ends_a_doubt<I: InboxStore>(inbox: I) {
    inbox.put(vec![message("d1", 1)], at(10)).await.unwrap();
    mark(&inbox, "d1").await;
    let held = NextState::Held { state: InputState::Submitting, reason: HeldReason::Undecided, detail: "?".to_owned() };
    change(&inbox, "d1", 2, held).await;
    assert!(matches!(change(&inbox, "d1", 3, NextState::Evidence(attempt())).await, Applied::Done { revision: 4, .. }));
    let refused = inbox.resolve("d1".into(), Resolution::Retry, at(20)).await.unwrap_err();
    assert_eq!(refused.kind(), InboxErrorKind::NotHeld);
    assert_eq!(state(&inbox, "d1").await, InputState::Submitting);
}

/// A person decides about held rows only.
pub async fn a_row_that_is_not_held_cannot_be_resolved<I: InboxStore>(inbox: I) {
    inbox.put(vec![message("d1", 1)], at(10)).await.unwrap();
    let refused = inbox.resolve("d1".into(), Resolution::Discard, at(20)).await.unwrap_err();
    assert_eq!(refused.kind(), InboxErrorKind::NotHeld);
    let refused = inbox.resolve("d9".into(), Resolution::Discard, at(20)).await.unwrap_err();
    assert_eq!(refused.kind(), InboxErrorKind::NotFound);
    assert_eq!(pending(&inbox).await, ["d1"]);
}

/// Neither a withdrawn request nor its withdrawal is handed over.
pub async fn a_withdrawal_closes_the_pending_request<I: InboxStore>(inbox: I) {
    inbox.put(vec![about_request("d1", 1, "request", "req_1"), message("d2", 2)], at(10)).await.unwrap();
    let report = inbox.put(vec![about_request("d3", 3, "request_withdrawn", "req_1")], at(11)).await.unwrap();
    assert_eq!(report, PutReport { new: 1, known: 0, withdrawn: 2 });
    assert_eq!(pending(&inbox).await, ["d2"]);
    assert_eq!(inbox.unacked(10).await.unwrap().len(), 3);
}

/// Withdrawals go past other deliveries, so they can come first.
pub async fn a_request_that_comes_after_its_withdrawal_is_closed<I: InboxStore>(inbox: I) {
    let batch = vec![about_request("d1", 1, "request_withdrawn", "req_1"), about_request("d2", 2, "request", "req_1")];
    inbox.put(batch, at(10)).await.unwrap();
    assert_eq!(pending(&inbox).await, Vec::<String>::new());
    // Also when the withdrawal has been handed over as information already.
    inbox.put(vec![about_request("d3", 3, "request_withdrawn", "req_3")], at(10)).await.unwrap();
    change(&inbox, "d3", 1, NextState::Accepted).await;
    inbox.put(vec![about_request("d4", 4, "request", "req_3")], at(10)).await.unwrap();
    assert_eq!(pending(&inbox).await, Vec::<String>::new());
}

/// What the runtime may have is not closed under it.
pub async fn a_withdrawal_leaves_a_request_that_is_with_the_runtime<I: InboxStore>(inbox: I) {
    inbox.put(vec![about_request("d1", 1, "request", "req_1")], at(10)).await.unwrap();
    mark(&inbox, "d1").await;
    inbox.put(vec![about_request("d2", 2, "request_withdrawn", "req_1")], at(11)).await.unwrap();
    assert_eq!(pending(&inbox).await, ["d1", "d2"]);
    assert_eq!(state(&inbox, "d1").await, InputState::Submitting);
}

/// A refused request is not tried again once it is withdrawn.
pub async fn a_request_that_comes_back_meets_its_withdrawal<I: InboxStore>(inbox: I) {
    a_request_with_the_runtime_and_its_withdrawal(&inbox).await;
    let back = NextState::Pending { counted: true, next_attempt_at: None, error: None };
    assert_eq!(change(&inbox, "d1", 2, back).await, Applied::Withdrawn);
    assert_eq!(pending(&inbox).await, Vec::<String>::new());
}

async fn a_request_with_the_runtime_and_its_withdrawal<I: InboxStore>(inbox: &I) {
    inbox.put(vec![about_request("d1", 1, "request", "req_1")], at(10)).await.unwrap();
    mark(inbox, "d1").await;
    inbox.put(vec![about_request("d2", 2, "request_withdrawn", "req_1")], at(11)).await.unwrap();
}

/// Only what is accepted, acknowledged and old is forgotten.
pub async fn pruning_keeps_what_is_open_unacked_or_young<I: InboxStore>(inbox: I) {
    let batch = (1..=3).map(|n| message(&format!("d{n}"), n)).collect();
    inbox.put(batch, at(10)).await.unwrap();
    for id in ["d1", "d2"] {
        mark(&inbox, id).await;
        change(&inbox, id, 2, NextState::Accepted).await;
    }
    inbox.mark_acked(vec![("d1".into(), 1), ("d3".into(), 1)]).await.unwrap();
    assert_eq!(inbox.prune(at(100)).await.unwrap(), 0);
    assert_eq!(inbox.prune(at(101)).await.unwrap(), 1);
    assert!(inbox.get("d1".into()).await.unwrap().is_none());
    assert_eq!(inbox.counts().await.unwrap().rows, 2);
}

/// B05: a redelivery after the content is gone is acknowledged, not handed over.
pub async fn a_scrubbed_id_is_still_recognised<I: InboxStore>(inbox: I) {
    inbox.put(vec![message("d1", 1)], at(10)).await.unwrap();
    mark(&inbox, "d1").await;
    change(&inbox, "d1", 2, NextState::Accepted).await;
    let mut again = message("d1", 1);
    again.delivery.generation = 2;
    let report = inbox.put(vec![again], at(20)).await.unwrap();
    assert_eq!(report.known, 1);
    let stored = inbox.get("d1".into()).await.unwrap().unwrap();
    assert_eq!((stored.state, stored.content, stored.acked), (InputState::Accepted, Content::Scrubbed, false));
    assert_eq!(inbox.unacked(10).await.unwrap(), [(DeliveryId::new("d1"), 2)]);
}

/// The first session that was stored for a conversation stands, for as long as something of the conversation is here.
pub async fn a_conversation_stays_with_its_first_session<I: InboxStore>(inbox: I) {
    let remember = async |conversation: &str, session: &str, time| {
        inbox.remember_session(conversation.into(), session.to_owned(), at(time)).await.unwrap()
    };
    inbox.put(vec![message_in("d1", 1, "cnv_1", "x"), message_in("d2", 2, "cnv_2", "x")], at(10)).await.unwrap();
    assert_eq!(remember("cnv_1", "thread-1", 20).await, "thread-1");
    assert_eq!(remember("cnv_1", "thread-2", 21).await, "thread-1");
    assert_eq!(remember("cnv_3", "thread-3", 22).await, "thread-3");
    let open = inbox.open().await.unwrap();
    let sessions: Vec<Option<&str>> = open.iter().map(|row| row.session.as_deref()).collect();
    assert_eq!(sessions, [Some("thread-1"), None]);
    inbox.prune(at(100)).await.unwrap();
    assert_eq!(remember("cnv_1", "thread-9", 30).await, "thread-1", "there is still input of it");
    assert_eq!(remember("cnv_3", "thread-9", 30).await, "thread-9", "nothing was left of it");
}

/// Nothing works after close, and closing twice is fine.
pub async fn a_closed_inbox_refuses_everything<I: InboxStore>(inbox: I) {
    inbox.close().await.unwrap();
    let refused = inbox.put(vec![message("d1", 1)], at(10)).await.unwrap_err();
    assert_eq!(refused.kind(), InboxErrorKind::Closed);
    assert_eq!(inbox.counts().await.unwrap_err().kind(), InboxErrorKind::Closed);
}
