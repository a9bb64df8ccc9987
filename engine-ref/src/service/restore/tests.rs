//! What a restore changes in the rows, on every store that can be had here. What callers meet is tested from outside.

use beepgrid::{Permission, PrincipalId};

use super::*;
use crate::background;
use crate::service::actor::{Actor, Need, TokenDigest};
use crate::service::inbox::bed::Bed;
use crate::service::permissions::RulesCache;
use crate::store::transports::{AttemptRow, TransportRow, pages};

const TOKEN: &str = "the token of the owner before the restore";
const NEW: &str = "the token of the owner after the restore";

async fn owned(bed: &Bed) {
    bed.store.write(|tx| setup::bootstrap(tx, "Olga", TOKEN)).await.unwrap();
}

async fn begun(bed: &Bed) -> bool {
    bed.store.write(|tx| begin(tx, NEW)).await.unwrap()
}

async fn load(bed: &Bed, token: &'static str) -> Result<Actor, Refusal> {
    bed.store.read(move |tx| Actor::load(tx, &TokenDigest::of(token), &RulesCache::default())).await
}

#[tokio::test]
async fn every_credential_ends_but_a_new_one_of_the_owner() {
    for bed in Bed::each().await {
        owned(&bed).await;
        assert!(begun(&bed).await);
        for old in [TOKEN, "ins_a", "ins_b", "ins_c"] {
            assert!(matches!(load(&bed, old).await, Err(Refusal::Unauthorized)), "{old}");
        }
        let owner = load(&bed, NEW).await.unwrap();
        assert!(owner.operator && owner.on_hold && owner.credential.expires_at.is_none());
        for (need, open) in [
            (Need::Any, true),
            (Need::Ceiling(Permission::Read), true),
            (Need::Ceiling(Permission::Manage), true),
            (Need::Ceiling(Permission::Message), false),
            (Need::Ceiling(Permission::Request), false),
            (Need::Ceiling(Permission::Respond), false),
            (Need::Ceiling(Permission::Execute), false),
            (Need::Worker, false),
        ] {
            assert_eq!(owner.need(&need).is_ok(), open, "{need:?}");
        }
        let other = Actor { operator: false, ..owner };
        assert!(matches!(other.need(&Need::Any), Err(Refusal::OnHold)));
        assert!(bed.store.write(resume).await.unwrap());
        assert!(!bed.store.write(resume).await.unwrap(), "there was none any more");
        assert!(load(&bed, NEW).await.unwrap().need(&Need::Ceiling(Permission::Message)).is_ok());
    }
}

#[tokio::test]
async fn workspace_without_an_owner_stays_as_it_is() {
    for bed in Bed::each().await {
        assert!(!begun(&bed).await);
        assert!(load(&bed, "ins_a").await.is_ok());
        assert!(!bed.store.read(|tx| Ok(hold::is_on(tx)?)).await.unwrap());
    }
}

#[tokio::test]
async fn sequences_and_generations_go_on_far_ahead() {
    for bed in Bed::each().await {
        owned(&bed).await;
        let (leased, acked, fresh) = (bed.message("cnv_1").await, bed.message("cnv_2").await, bed.message("cnv_1").await);
        bed.lease("ins_a").await;
        bed.ack("ins_a", &acked, 1).await.unwrap();
        let newest = || bed.store.write(|tx| Ok(tx.next_sequence()?));
        let before = newest().await.unwrap();
        assert!(begun(&bed).await);
        assert_eq!(newest().await.unwrap(), before + RESTORE_GAP + 1);
        for (id, generation) in [(&leased, RESTORE_GAP + 1), (&fresh, RESTORE_GAP + 1), (&acked, 1)] {
            assert_eq!(bed.row(id).await.generation, generation);
        }
    }
}

fn transport(id: &str) -> TransportRow {
    TransportRow {
        id: id.into(),
        connection_id: "con_1".into(),
        destination_id: "dst_1".into(),
        recipient_id: PrincipalId::new("per_1"),
        kind: "test".to_owned(),
        operation_id: id.to_owned(),
        message_id: None,
        request_id: None,
        conversation_id: None,
        state: transports::QUEUED.to_owned(),
        reason: None,
        attempts: 1,
        created_at: crate::service::inbox::bed::start(),
        changed_at: crate::service::inbox::bed::start(),
    }
}

#[tokio::test]
async fn what_was_on_its_way_outside_is_of_unknown_outcome() {
    for bed in Bed::each().await {
        owned(&bed).await;
        bed.store
            .write(|tx| {
                for (id, state) in [("dlv_1", "queued"), ("dlv_2", "sending"), ("dlv_3", "accepted")] {
                    transports::queue(tx, &transport(id))?;
                    tx.execute("UPDATE transports SET state = :state WHERE id = :id", &[("state", &state), ("id", &id)])?;
                    let attempt = "UPDATE delivery_attempts SET state = :state WHERE delivery_id = :id";
                    tx.execute(attempt, &[("state", &state), ("id", &id)])?;
                }
                Ok(())
            })
            .await
            .unwrap();
        assert!(begun(&bed).await);
        let rows = bed.store.read(|tx| {
            let all = pages::all(tx, "", 10)?;
            let attempts = all.iter().map(|row| pages::attempts(tx, &row.id, 0, 10)).collect::<Result<Vec<_>, _>>()?;
            Ok(all.into_iter().zip(attempts.into_iter().flatten()).collect::<Vec<_>>())
        });
        let shown = |(row, attempt): (TransportRow, AttemptRow)| {
            assert_eq!((&row.state, &row.reason), (&attempt.state, &attempt.reason));
            (row.state, row.reason)
        };
        let states: Vec<_> = rows.await.unwrap().into_iter().map(shown).collect();
        let state = |state: &str, reason: Option<&str>| (state.to_owned(), reason.map(str::to_owned));
        assert_eq!(states, [state("queued", None), state("unknown", Some("restored")), state("accepted", None)]);
    }
}

/// Each job in one round, with something to do for it.
#[tokio::test]
async fn background_jobs_stand_still_until_the_hold_is_off() {
    for bed in Bed::each().await {
        owned(&bed).await;
        let pinned = bed.make(beepgrid::DeliveryKind::Message, "cnv_1", "msg_1", Some(("ins_a", true))).await;
        assert!(begun(&bed).await);
        let core = bed.core();
        let state = || async { bed.row(&pinned).await.state };
        background::parking_sweep(&core).await.unwrap();
        assert_eq!(state().await, crate::store::deliveries::State::Ready);
        assert_eq!(core.tend(|_| Ok(1)).await.unwrap(), None);
        bed.store.write(resume).await.unwrap();
        assert_eq!(core.tend(|_| Ok(1)).await.unwrap(), Some(1));
        background::parking_sweep(&core).await.unwrap();
        assert_eq!(state().await, crate::store::deliveries::State::Parked, "its instance ended with the restore");
    }
}
