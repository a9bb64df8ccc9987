//! The wait for work, without sockets: time is the test's, so nothing here depends on the speed of the machine.

use std::time::Duration;

use super::*;
use crate::service::inbox::bed::Bed;

const PATIENCE: Duration = Duration::from_secs(30);

fn want(wait_ms: i64) -> Want {
    Want::from_input(&InboxInput::new().wait_ms(wait_ms)).unwrap()
}

/// A message that the agent can see.
async fn message(bed: &Bed, conversation: &'static str) -> DeliveryId {
    bed.store
        .write(move |tx| {
            let conversation_id = conversation.into();
            tx.execute(
                "INSERT INTO principals (id, kind, name, external_id, metadata, version, disabled, operator, created_at)
                 VALUES ('per_1', 'person', 'Ana', 'ana', '{}', 1, FALSE, FALSE, 0) ON CONFLICT DO NOTHING",
                &[],
            )?;
            tx.execute(
                "INSERT INTO conversations (id, shared, title, version, created_at, last_sequence)
                 VALUES (:id, FALSE, '', 1, 0, 0) ON CONFLICT DO NOTHING",
                &[("id", &conversation)],
            )?;
            for principal in ["per_1", "agt_1"] {
                tx.execute(
                    "INSERT INTO participants (conversation_id, principal_id, history_start, active)
                     VALUES (:id, :principal, 0, TRUE) ON CONFLICT DO NOTHING",
                    &[("id", &conversation), ("principal", &principal)],
                )?;
            }
            let sequence = tx.next_sequence()?;
            let id = beepgrid::MessageId::new(format!("msg_{sequence}"));
            tx.execute(
                "INSERT INTO messages (id, conversation_id, sender_id, body, mentions, sequence, created_at)
                 VALUES (:id, :conversation, 'per_1', 'hello', '[]', :sequence, 0)",
                &[("id", &id), ("conversation", &conversation), ("sequence", &sequence)],
            )?;
            deliveries::create(
                tx,
                &deliveries::New {
                    agent: &"agt_1".into(),
                    pin: None,
                    kind: beepgrid::DeliveryKind::Message,
                    conversation_id: &conversation_id,
                    message_id: Some(&id),
                    request_id: None,
                    sender_id: &"per_1".into(),
                    position: sequence,
                },
            )
        })
        .await
        .unwrap()
}

/// Starts a poll and returns once it waits.
async fn poll(core: &Core, instance: &'static str) -> tokio::task::JoinHandle<Result<Vec<Delivery>, Refusal>> {
    let before = core.presence().unwritten();
    let task = tokio::spawn({
        let core = core.clone();
        async move { wait_for_work(&core, &Bed::caller(instance), want(15_000)).await }
    });
    // Seen means that it has looked; from there to the wait there is no other point where it could stop.
    until(|| core.presence().unwritten().instances != before.instances).await;
    task
}

async fn outcome(task: tokio::task::JoinHandle<Result<Vec<Delivery>, Refusal>>) -> Result<Vec<Delivery>, Refusal> {
    tokio::time::timeout(PATIENCE, task).await.expect("the poll ends in time").unwrap()
}

#[tokio::test]
async fn payload_is_what_the_agent_may_see_at_the_lease() {
    let bed = Bed::memory().await;
    let core = bed.core();
    let id = message(&bed, "cnv_1").await;
    let leased = wait_for_work(&core, &Bed::caller("ins_a"), want(0)).await.unwrap();
    assert_eq!(leased.len(), 1);
    assert_eq!((&leased[0].id, leased[0].payload.message.as_ref().unwrap().body.as_str()), (&id, "hello"));
    let hidden = message(&bed, "cnv_2").await;
    bed.sql("UPDATE participants SET active = FALSE WHERE conversation_id = 'cnv_2' AND principal_id = 'agt_1'").await;
    assert_eq!(wait_for_work(&core, &Bed::caller("ins_b"), want(0)).await.unwrap(), []);
    assert_eq!(bed.row(&hidden).await.reason.as_deref(), Some("no_access"));
}

#[tokio::test]
async fn poll_ends_when_work_arrives() {
    for bed in Bed::each().await {
        let core = bed.core();
        let waiting = poll(&core, "ins_a").await;
        let id = message(&bed, "cnv_1").await;
        assert_eq!(outcome(waiting).await.unwrap()[0].id, id);
    }
}

#[tokio::test]
async fn poll_ends_when_a_lease_of_another_instance_runs_out() {
    let bed = Bed::memory().await;
    let core = bed.core();
    let id = message(&bed, "cnv_1").await;
    wait_for_work(&core, &Bed::caller("ins_a"), want(0)).await.unwrap();
    core.presence().written(&core.presence().unwritten());
    let waiting = poll(&core, "ins_b").await;
    bed.advance(30);
    let got = outcome(waiting).await.unwrap();
    assert_eq!((&got[0].id, got[0].generation), (&id, 2));
}

#[tokio::test]
async fn poll_ends_when_the_holder_acknowledges_what_was_in_front() {
    let bed = Bed::memory().await;
    let core = bed.core();
    let first = message(&bed, "cnv_1").await;
    wait_for_work(&core, &Bed::caller("ins_a"), want(0)).await.unwrap();
    let second = message(&bed, "cnv_1").await;
    core.presence().written(&core.presence().unwritten());
    let waiting = poll(&core, "ins_b").await;
    bed.ack("ins_a", &first, 1).await.unwrap();
    assert_eq!(outcome(waiting).await.unwrap()[0].id, second);
}

#[tokio::test(start_paused = true)]
async fn idle_poll_ends_with_nothing_and_writes_nothing() {
    let bed = Bed::memory().await;
    let core = bed.core();
    let began = tokio::time::Instant::now();
    let commits = bed.store.commits();
    assert_eq!(wait_for_work(&core, &Bed::caller("ins_a"), want(15_000)).await.unwrap(), []);
    assert!(began.elapsed() >= Duration::from_secs(15));
    assert_eq!(bed.store.commits(), commits);
}

#[tokio::test]
async fn poll_of_a_revoked_credential_or_disabled_agent_is_refused_at_once() {
    for sql in
        ["UPDATE credentials SET revoked = TRUE WHERE id = 'crd_a'", "UPDATE principals SET disabled = TRUE WHERE id = 'agt_1'"]
    {
        let bed = Bed::memory().await;
        let core = bed.core();
        let waiting = poll(&core, "ins_a").await;
        bed.store
            .write(move |tx| {
                tx.execute(sql, &[])?;
                tx.signal(crate::signals::Signal::Access { principal: "agt_1".into() });
                Ok(())
            })
            .await
            .unwrap();
        assert!(matches!(outcome(waiting).await, Err(Refusal::Unauthorized)), "{sql}");
    }
}

#[tokio::test]
async fn fifth_poll_of_an_instance_has_to_wait() {
    let bed = Bed::memory().await;
    let core = bed.core();
    let full = || core.hold("poll ins_a".to_owned(), MAX_POLLS).is_err();
    let mut polls = Vec::new();
    for _ in 0..MAX_POLLS {
        polls.push(tokio::spawn({
            let core = core.clone();
            async move { wait_for_work(&core, &Bed::caller("ins_a"), want(15_000)).await }
        }));
    }
    until(full).await;
    let fifth = wait_for_work(&core, &Bed::caller("ins_a"), want(15_000)).await;
    assert!(matches!(fifth, Err(Refusal::RateLimited { .. })), "{fifth:?}");
    // What does not wait holds no place, and neither do other instances.
    wait_for_work(&core, &Bed::caller("ins_a"), want(0)).await.unwrap();
    let other = poll(&core, "ins_b").await;
    other.abort();
    // A poll whose client is gone gives its place back.
    polls.remove(0).abort();
    until(|| !full()).await;
}

/// Waits for a state.
async fn until(reached: impl Fn() -> bool) {
    let waiting = async {
        while !reached() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("the state is reached in time");
}

#[tokio::test]
async fn stopping_engine_ends_polls() {
    let bed = Bed::memory().await;
    let core = bed.core();
    let waiting = poll(&core, "ins_a").await;
    core.stopping().cancel();
    assert_eq!(outcome(waiting).await.unwrap(), []);
}
