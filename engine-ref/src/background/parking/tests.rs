use std::time::Duration;

use beepgrid::{DeliveryId, DeliveryKind};
use futures_util::FutureExt;

use super::*;
use crate::service::inbox::bed::Bed;
use crate::store::deliveries::State;

async fn state(bed: &Bed, id: &DeliveryId) -> (State, Option<String>) {
    let row = bed.row(id).await;
    (row.state, row.reason)
}

#[tokio::test]
async fn tried_twenty_times_over_a_day_is_parked_once_its_lease_is_over() {
    for bed in Bed::each().await {
        let core = bed.core();
        let one = bed.message("cnv_1").await;
        bed.wear("ins_a", 19).await;
        bed.advance(86_400);
        sweep(&core).await.unwrap();
        assert_eq!(state(&bed, &one).await.0, State::Leased, "nineteen are not enough");
        bed.lease("ins_a").await;
        sweep(&core).await.unwrap();
        assert_eq!(state(&bed, &one).await.0, State::Leased, "the twentieth still runs");
        bed.advance(30);
        sweep(&core).await.unwrap();
        assert_eq!(state(&bed, &one).await, (State::Parked, Some("attempts".to_owned())));
        assert_eq!(bed.next_due().await, None);
    }
}

#[tokio::test]
async fn what_is_for_a_gone_instance_alone_is_parked_and_the_rest_let_go() {
    for bed in Bed::each().await {
        let core = bed.core();
        let own = bed.make(DeliveryKind::Message, "cnv_1", "msg_1", Some(("ins_a", true))).await;
        let result = bed.make(DeliveryKind::RequestResult, "cnv_1", "req_closed", Some(("ins_a", false))).await;
        let other = bed.make(DeliveryKind::Message, "cnv_1", "msg_1", Some(("ins_b", true))).await;
        sweep(&core).await.unwrap();
        assert_eq!(state(&bed, &own).await.0, State::Ready);
        bed.sql("UPDATE credentials SET revoked = TRUE WHERE id = 'crd_a'").await;
        let mut work = core.signals().work(&"agt_1".into());
        sweep(&core).await.unwrap();
        assert_eq!(state(&bed, &own).await, (State::Parked, Some("instance_gone".to_owned())));
        assert_eq!(state(&bed, &other).await.0, State::Ready);
        let row = bed.row(&result).await;
        assert_eq!((row.state, row.pin, row.instance_id), (State::Ready, None, None));
        assert!(work.next().now_or_never().is_some(), "somebody else may have it now");
        let id = own.clone();
        let refused = core.store().write(move |tx| {
            let row = rows::by_id(tx, &id)?;
            Ok(row.map(|row| row.pin))
        });
        assert_eq!(refused.await.unwrap(), Some(Some(rows::PinKind::Hard)), "parking keeps whom it is for");
    }
}

#[tokio::test]
async fn silent_instance_keeps_what_is_its_alone_and_loses_the_rest() {
    for bed in Bed::each().await {
        let core = bed.core();
        let own = bed.make(DeliveryKind::Message, "cnv_1", "msg_1", Some(("ins_a", true))).await;
        let result = bed.make(DeliveryKind::RequestResult, "cnv_1", "req_closed", Some(("ins_a", false))).await;
        bed.clock.advance(Duration::from_secs(86_401));
        sweep(&core).await.unwrap();
        assert_eq!(state(&bed, &own).await.0, State::Ready);
        assert_eq!(bed.row(&result).await.pin, None);
    }
}

#[tokio::test]
async fn idle_sweep_writes_nothing() {
    let bed = Bed::memory().await;
    bed.make(DeliveryKind::RequestResult, "cnv_1", "req_closed", Some(("ins_a", false))).await;
    let commits = bed.store.commits();
    sweep(&bed.core()).await.unwrap();
    assert_eq!(bed.store.commits(), commits);
}
