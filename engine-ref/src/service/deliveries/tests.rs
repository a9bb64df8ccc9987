//! What happens to deliveries beside their leases, on every store that can be had here.

#![expect(clippy::cloned_ref_to_slice_refs, reason = "ids are compared with owned ones")]

use beepgrid::CredentialKind;
use futures_util::FutureExt;

use super::*;
use crate::service::actor::ActorCredential;
use crate::service::inbox::bed::{Bed, start};
use crate::service::permissions::{Rules, RulesCache};

fn actor(id: &str, operator: bool, instance: Option<&str>) -> Actor {
    let kind = if operator { PrincipalKind::Person } else { PrincipalKind::Agent };
    Actor {
        id: id.into(),
        kind,
        name: String::new(),
        operator,
        instance_id: instance.map(Into::into),
        credential: ActorCredential {
            id: "crd_a".into(),
            kind: CredentialKind::Worker,
            name: String::new(),
            prefix: String::new(),
            ceiling: None,
            expires_at: None,
        },
        rules: Rules::new(&RulesCache::default(), "0".to_owned()),
        on_hold: false,
        cursor_key: None,
    }
}

/// Puts a request to an agent and returns the delivery.
async fn ask(bed: &Bed, agent: &'static str) -> DeliveryId {
    let made = bed.store.write(move |tx| {
        let (agent, asker) = (agent.into(), "agt_asker".into());
        let position = tx.next_sequence()?;
        let new = New {
            agent: &agent,
            pin: None,
            kind: DeliveryKind::Request,
            conversation_id: &"cnv_1".into(),
            message_id: None,
            request_id: Some(&"req_1".into()),
            sender_id: &asker,
            position,
        };
        create(tx, &new)
    });
    made.await.unwrap()
}

async fn close(bed: &Bed, requester: &'static str, instance: Option<&'static str>, decider: Option<&'static str>) {
    let closed = bed.store.write(move |tx| {
        let position = tx.next_sequence()?;
        on_request_closed(
            tx,
            &Closed {
                request_id: &"req_1".into(),
                requester_id: &requester.into(),
                requester_instance_id: instance.map(InstanceId::new).as_ref(),
                conversation_id: &"cnv_asked".into(),
                decider: decider.map(PrincipalId::new).as_ref(),
                position,
            },
        )
    });
    closed.await.unwrap();
}

async fn of_request(bed: &Bed) -> Vec<DeliveryRow> {
    bed.store.read(|tx| Ok(deliveries::of_request(tx, &"req_1".into())?)).await.unwrap()
}

fn of_kind(rows: &[DeliveryRow], kind: &DeliveryKind) -> Vec<(String, State, Option<PinKind>, Option<String>)> {
    let mut found: Vec<_> = rows
        .iter()
        .filter(|row| row.kind == *kind)
        .map(|row| {
            let instance = row.instance_id.as_ref().map(|id| id.as_str().to_owned());
            (row.agent_id.as_str().to_owned(), row.state, row.pin, instance)
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[tokio::test]
async fn closed_request_is_withdrawn_from_who_had_it_and_answered_to_who_asked() {
    for bed in Bed::each().await {
        let held = ask(&bed, "agt_1").await;
        ask(&bed, "agt_2").await;
        assert_eq!(bed.ids("ins_b").await, [held.clone()]);
        close(&bed, "agt_asker", Some("ins_x"), None).await;
        let rows = of_request(&bed).await;
        let row = |agent: &str, state, pin, instance: Option<&str>| (agent.to_owned(), state, pin, instance.map(str::to_owned));
        // The lease that runs stays with its holder; what was never leased never will be.
        let expected = [row("agt_1", State::Leased, None, None), row("agt_2", State::Withdrawn, None, None)];
        assert_eq!(of_kind(&rows, &DeliveryKind::Request), expected);
        let soft = Some(PinKind::Soft);
        let expected = [row("agt_1", State::Ready, soft, Some("ins_b"))];
        assert_eq!(of_kind(&rows, &DeliveryKind::RequestWithdrawn), expected);
        let expected = [row("agt_asker", State::Ready, soft, Some("ins_x"))];
        assert_eq!(of_kind(&rows, &DeliveryKind::RequestResult), expected);
        let result = rows.iter().find(|row| row.kind == DeliveryKind::RequestResult).unwrap();
        assert_eq!(result.conversation_id, ConversationId::new("cnv_asked"));
        bed.ack("ins_b", &held, 1).await.unwrap();
    }
}

#[tokio::test]
async fn decider_hears_nothing_and_people_have_no_inbox() {
    for bed in Bed::each().await {
        ask(&bed, "agt_1").await;
        bed.lease("ins_a").await;
        close(&bed, "per_1", None, Some("agt_1")).await;
        let rows = of_request(&bed).await;
        assert_eq!(rows.len(), 1);
    }
}

#[tokio::test]
async fn request_that_was_leased_and_given_back_is_withdrawn_twice() {
    for bed in Bed::each().await {
        let one = ask(&bed, "agt_1").await;
        bed.lease("ins_a").await;
        bed.release("ins_a", &one, 1, 3_600).await.unwrap();
        close(&bed, "per_1", None, None).await;
        assert_eq!(bed.row(&one).await.state, State::Withdrawn);
        let told = bed.lease("ins_b").await;
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].kind, DeliveryKind::RequestWithdrawn);
    }
}

#[tokio::test]
async fn requeued_delivery_keeps_its_id_and_place_and_counts_anew() {
    for bed in Bed::each().await {
        let one = bed.message("cnv_1").await;
        bed.wear("ins_a", 20).await;
        bed.advance(86_400);
        let two = bed.message("cnv_1").await;
        bed.ids("ins_a").await;
        bed.release("ins_a", &two, 1, 0).await.unwrap();
        let id = one.clone();
        let done = bed.store.write(move |tx| requeue(tx, &actor("agt_1", false, Some("ins_b")), &id));
        done.await.unwrap();
        let row = bed.row(&one).await;
        assert_eq!((row.state, row.attempts, row.first_leased_at, row.reason), (State::Ready, 0, None, None));
        assert_eq!(bed.counted().await, (2, 2));
        bed.check_lines().await;
        let leased = bed.lease("ins_b").await;
        let got: Vec<_> = leased.iter().map(|delivery| (delivery.id.clone(), delivery.generation, delivery.attempt)).collect();
        assert_eq!(got, [(one.clone(), 21, 1), (two, 2, 1)]);
        let kinds = bed.store.read(|tx| {
            let rows = tx.query("SELECT kind, subject_id, recipient_id FROM events ORDER BY sequence", &[])?;
            Ok(rows.iter().map(|row| row.text("kind")).collect::<Result<Vec<_>, _>>()?)
        });
        assert_eq!(kinds.await.unwrap(), ["delivery.updated", "delivery.updated"], "parked, then requeued");
    }
}

#[tokio::test]
async fn operators_and_the_agents_workers_requeue_and_nobody_else() {
    let bed = Bed::memory().await;
    let one = bed.message("cnv_1").await;
    for (who, expected) in [
        (actor("per_owner", true, None), "fine"),
        (actor("agt_1", false, Some("ins_a")), "fine"),
        (actor("agt_1", false, None), "forbidden"),
        (actor("agt_2", false, Some("ins_z")), "not found"),
    ] {
        let id = one.clone();
        let single = bed.store.write({
            let who = who.clone();
            move |tx| requeue(tx, &who, &id)
        });
        let all = bed.store.write(move |tx| requeue_agent(tx, &who, &"agt_1".into()).map(drop));
        for result in [single.await, all.await] {
            let word = match result {
                Ok(()) => "fine",
                Err(Refusal::Forbidden { .. }) => "forbidden",
                Err(Refusal::NotFound { .. }) => "not found",
                Err(other) => panic!("{other:?}"),
            };
            assert_eq!(word, expected);
        }
    }
    let unknown = bed.store.write(|tx| requeue_agent(tx, &actor("per_owner", true, None), &"agt_9".into()));
    assert!(matches!(unknown.await, Err(Refusal::NotFound { .. })));
    assert_eq!(bed.row(&one).await.state, State::Ready, "what is not parked is left as it is");
}

#[tokio::test]
async fn requeueing_an_agent_stops_at_its_limit_and_says_so() {
    let bed = Bed::memory().await;
    bed.store
        .write(|tx| {
            let (agent, sender) = ("agt_1".into(), "per_1".into());
            for _ in 0..=MAX_LIST {
                let position = tx.next_sequence()?;
                let new = New {
                    agent: &agent,
                    pin: None,
                    kind: DeliveryKind::Message,
                    conversation_id: &"cnv_1".into(),
                    message_id: Some(&"msg_1".into()),
                    request_id: None,
                    sender_id: &sender,
                    position,
                };
                create(tx, &new)?;
            }
            tx.execute("UPDATE deliveries SET state = 'parked', reason = 'attempts'", &[])?;
            Ok(())
        })
        .await
        .unwrap();
    let again = async || {
        let done = bed.store.write(|tx| requeue_agent(tx, &actor("agt_1", false, Some("ins_a")), &"agt_1".into()));
        done.await.unwrap()
    };
    assert_eq!(again().await, RequeueResult { requeued: MAX_LIST, more: true });
    assert_eq!(again().await, RequeueResult { requeued: 1, more: false });
    assert_eq!(again().await, RequeueResult { requeued: 0, more: false });
}

#[tokio::test]
async fn sender_with_ten_thousand_undelivered_messages_or_requests_has_to_wait() {
    let bed = Bed::memory().await;
    let check = |sender: &'static str| bed.store.read(move |tx| check_backlog(tx, &sender.into(), &"agt_1".into()));
    bed.store
        .write(|tx| {
            for _ in 0..MAX_BACKLOG {
                let position = tx.next_sequence()?;
                let new = New {
                    agent: &"agt_1".into(),
                    pin: None,
                    kind: DeliveryKind::Message,
                    conversation_id: &"cnv_1".into(),
                    message_id: Some(&"msg_1".into()),
                    request_id: None,
                    sender_id: &"per_1".into(),
                    position,
                };
                create(tx, &new)?;
            }
            Ok(())
        })
        .await
        .unwrap();
    assert!(matches!(check("per_1").await, Err(Refusal::RateLimited { .. })));
    let beyond = bed.store.write(|tx| {
        let (agent, sender) = ("agt_1".into(), "per_1".into());
        let (conversation, request) = ("cnv_1".into(), "req_closed".into());
        let new = |kind| New {
            agent: &agent,
            pin: None,
            kind,
            conversation_id: &conversation,
            message_id: None,
            request_id: Some(&request),
            sender_id: &sender,
            position: 1,
        };
        assert!(matches!(create(tx, &new(DeliveryKind::Request)), Err(Refusal::RateLimited { .. })));
        // What tells of an end is never held up.
        create(tx, &new(DeliveryKind::RequestResult))
    });
    let result = beyond.await.unwrap();
    assert_eq!(bed.lease_with("ins_a", beepgrid::InboxInput::new().limit(1)).await[0].id, result);
    check("per_2").await.unwrap();
    let first = bed.lease("ins_a").await.swap_remove(0);
    assert!(check("per_1").await.is_err(), "a lease delivers nothing yet");
    bed.ack("ins_a", &first.id, 1).await.unwrap();
    check("per_1").await.unwrap();
}

#[tokio::test]
async fn acknowledgement_wakes_others_only_if_something_waited_behind_it() {
    let bed = Bed::memory().await;
    let one = bed.message("cnv_1").await;
    bed.lease("ins_a").await;
    let mut work = bed.store.signals().work(&"agt_1".into());
    bed.ack("ins_a", &one, 1).await.unwrap();
    assert!(work.next().now_or_never().is_none());
    let two = bed.message("cnv_1").await;
    bed.lease_with("ins_a", beepgrid::InboxInput::new().limit(1)).await;
    bed.message("cnv_1").await;
    assert!(work.next().now_or_never().is_some(), "what is new wakes");
    bed.ack("ins_a", &two, 1).await.unwrap();
    assert!(work.next().now_or_never().is_some(), "and so does what is free now");
    assert_eq!(bed.next_due().await, None);
    assert_eq!(bed.clock.now(), start());
}
