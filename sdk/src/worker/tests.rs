//! The loop against a scripted inbox, on tokio's paused clock: hours pass in milliseconds and every instant is exact.

mod polls;
mod script;

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::script::{Answer, Fake, Poll, SECOND, deliveries, delivery, failing};
use super::inbox::LeaseId;
use super::run::Worker;
use super::{Handling, Leased, RunOptions, RunStatus};
use crate::clock;
use crate::error::{Error, ErrorKind};
use crate::model::{DeliveryId, ErrorCode, Timestamp};
use crate::retry::Delays;

const LEASE: Duration = Duration::from_secs(30);

fn worker(fake: &Fake, cancel: &CancellationToken) -> Worker<Fake> {
    worker_with(fake, cancel, RunOptions::new().renew(false))
}

fn worker_with(fake: &Fake, cancel: &CancellationToken, options: RunOptions) -> Worker<Fake> {
    Worker::new(fake.clone(), options, Delays::LOOPS, cancel.clone())
}

type Outcome = Result<(), std::io::Error>;

/// A loop that stops once everything scripted is handled and the inbox was polled once more.
async fn run_until<H, F>(fake: &Fake, time: Duration, handler: H) -> Result<(), Error>
where
    H: FnMut(Handling) -> F,
    F: Future<Output = Outcome>,
{
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    tokio::spawn(async move {
        sleep(time).await;
        stop.cancel();
    });
    worker(fake, &cancel).run(handler).await
}

#[tokio::test(start_paused = true)]
async fn each_delivery_is_acknowledged_after_its_handler_and_before_the_next() {
    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1", "dlv_2", "dlv_3"])]);
    let started = Mutex::new(Vec::new());
    run_until(&fake, 10 * SECOND, |handling| {
        started.lock().unwrap().push((handling.delivery.id.to_string(), fake.acked().len()));
        async {
            sleep(SECOND).await;
            Ok(())
        }
    })
    .await
    .unwrap();
    let expected = [("dlv_1", 0), ("dlv_2", 1), ("dlv_3", 2)].map(|(id, acks)| (id.to_owned(), acks));
    assert_eq!(*started.lock().unwrap(), expected);
    assert_eq!(fake.acked(), ["dlv_1", "dlv_2", "dlv_3"]);
    assert!(fake.seen().releases.is_empty());
}

#[tokio::test(start_paused = true)]
async fn everything_held_is_extended_every_ten_seconds_also_what_waits() {
    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1", "dlv_2"])]);
    let start = Instant::now();
    run_until(&fake, 200 * SECOND, |handling| async move {
        sleep(if handling.delivery.id == DeliveryId::new("dlv_1") { 95 * SECOND } else { SECOND }).await;
        assert!(!handling.cancel.is_cancelled());
        Ok(())
    })
    .await
    .unwrap();
    for id in ["dlv_1", "dlv_2"] {
        let extends = fake.seen().extends;
        let times: Vec<u64> =
            extends.iter().filter(|(lease, _)| lease.delivery.as_str() == id).map(|(_, at)| (*at - start).as_secs()).collect();
        assert_eq!(times, [10, 20, 30, 40, 50, 60, 70, 80, 90], "{id}");
    }
    assert_eq!(fake.acked(), ["dlv_1", "dlv_2"]);
}

#[tokio::test(start_paused = true)]
async fn unanswered_extensions_fire_cancel_before_anybody_else_can_hold_the_lease() {
    let fake = Fake::default();
    // The first extension is granted at 10 s, so the engine may give the lease away at 40 s; nothing is answered after that.
    fake.polls([deliveries(&["dlv_1"])]).with(|script| {
        script.extends.push_back(Answer::Fine);
        script.extends.extend(vec![Answer::Silence; 50]);
    });
    let start = Instant::now();
    let fired = Mutex::new(None);
    run_until(&fake, 200 * SECOND, |handling| {
        let fired = &fired;
        async move {
            handling.cancel.cancelled().await;
            *fired.lock().unwrap() = Some(start.elapsed());
            Ok(())
        }
    })
    .await
    .unwrap();
    let fired = fired.lock().unwrap().unwrap();
    assert!(fired <= 40 * SECOND && fired >= 30 * SECOND, "{fired:?}");
    assert_eq!(fake.acked(), [""; 0]);
    assert!(fake.seen().extends.iter().all(|(_, at)| *at - start < 40 * SECOND), "no extension after the loss");
}

#[tokio::test(start_paused = true)]
async fn the_lease_counts_from_when_the_poll_was_sent() {
    let fake = Fake::default();
    fake.polls([Poll(14 * SECOND, Ok(vec![delivery("dlv_1")]))]).with(|script| script.extends.extend(vec![Answer::Silence; 50]));
    let start = Instant::now();
    let fired = Mutex::new(None);
    run_until(&fake, 200 * SECOND, |handling| {
        let fired = &fired;
        async move {
            handling.cancel.cancelled().await;
            *fired.lock().unwrap() = Some(start.elapsed());
            Ok(())
        }
    })
    .await
    .unwrap();
    assert!(fired.lock().unwrap().unwrap() <= LEASE);
    let first = fake.seen().extends.first().unwrap().1 - start;
    assert!(first > 14 * SECOND && first < LEASE, "extended while there is time for an answer: {first:?}");
}

#[tokio::test(start_paused = true)]
async fn an_extension_counts_from_when_it_was_sent_and_not_from_its_answer() {
    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1"])]).with(|script| {
        script.extends.push_back(Answer::Slow(8 * SECOND)); // sent at 10 s, answered at 18 s
        script.extends.extend(vec![Answer::Silence; 50]);
    });
    let start = Instant::now();
    let fired = Mutex::new(None);
    run_until(&fake, 200 * SECOND, |handling| {
        let fired = &fired;
        async move {
            handling.cancel.cancelled().await;
            *fired.lock().unwrap() = Some(start.elapsed());
            Ok(())
        }
    })
    .await
    .unwrap();
    assert_eq!(fired.lock().unwrap().unwrap(), 40 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn stale_generation_on_an_extension_cancels_that_handler_and_the_loop_goes_on() {
    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1", "dlv_2"])])
        .with(|script| script.extends.push_back(Answer::Api(409, "stale_generation", None)));
    let start = Instant::now();
    let fired = Mutex::new(None);
    run_until(&fake, 100 * SECOND, |handling| {
        let fired = &fired;
        async move {
            if handling.delivery.id == DeliveryId::new("dlv_2") {
                return Ok(());
            }
            handling.cancel.cancelled().await;
            *fired.lock().unwrap() = Some(start.elapsed());
            Err(std::io::Error::other("a lost lease is no failure of the handler"))
        }
    })
    .await
    .unwrap();
    assert_eq!(fired.lock().unwrap().unwrap(), 10 * SECOND);
    assert_eq!(fake.acked(), ["dlv_2"]);
    let lost = LeaseId { delivery: DeliveryId::new("dlv_1"), generation: 1 };
    assert_eq!(fake.seen().extends.iter().filter(|(lease, _)| *lease == lost).count(), 1, "no extension after the loss");
    assert!(fake.seen().releases.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_fails_once_and_then_succeeds_in_time_keeps_the_handler_running() {
    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1"])]).with(|script| {
        script.extends.push_back(Answer::Api(503, "unavailable", None));
        script.extends.push_back(Answer::Garbage);
    });
    run_until(&fake, 200 * SECOND, |handling| async move {
        sleep(90 * SECOND).await;
        assert!(!handling.cancel.is_cancelled());
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(fake.acked(), ["dlv_1"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_ends_in_the_instant_of_the_loss_is_not_acknowledged() {
    for early in [Duration::ZERO, Duration::from_millis(1)] {
        let fake = Fake::default();
        fake.polls([deliveries(&["dlv_1"])]).with(|script| script.extends.extend(vec![Answer::Silence; 50]));
        run_until(&fake, 200 * SECOND, |_| async move {
            sleep(LEASE.saturating_sub(early)).await;
            Ok(())
        })
        .await
        .unwrap();
        assert_eq!(fake.acked().len(), usize::from(!early.is_zero()), "{early:?} before the end");
    }
}

#[tokio::test(start_paused = true)]
async fn no_lease_is_believed_in_beyond_twelve_hours() {
    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1"])]);
    let (start, hours) = (Instant::now(), |hours: u64| Duration::from_secs(hours * 3_600));
    let fired = Mutex::new(None);
    run_until(&fake, hours(13), |handling| {
        let fired = &fired;
        async move {
            handling.cancel.cancelled().await;
            *fired.lock().unwrap() = Some(start.elapsed());
            Ok(())
        }
    })
    .await
    .unwrap();
    let fired = fired.lock().unwrap().unwrap();
    assert!(fired <= hours(12) && fired > hours(11), "{fired:?}");
    assert_eq!(fake.acked(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_ignores_its_loss_is_dropped_after_the_grace() {
    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1"]), deliveries(&["dlv_2"])])
        .with(|script| script.extends.push_back(Answer::Api(409, "stale_generation", None)));
    run_until(&fake, 100 * SECOND, |handling| async move {
        if handling.delivery.id == DeliveryId::new("dlv_1") {
            std::future::pending::<()>().await;
        }
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(fake.acked(), ["dlv_2"]);
}

#[tokio::test(start_paused = true)]
async fn a_stale_acknowledgement_is_not_repeated_and_the_loop_goes_on() {
    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1", "dlv_2"])])
        .with(|script| script.acks.push_back(Answer::Api(409, "stale_generation", None)));
    run_until(&fake, 10 * SECOND, |_| async { Ok(()) }).await.unwrap();
    assert_eq!(fake.acked(), ["dlv_1", "dlv_2"]);
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_is_tried_again_through_passing_faults_but_never_after_the_lease() {
    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1"])])
        .with(|script| script.acks.extend([Answer::Api(502, "", None), Answer::Api(429, "rate_limited", Some(3 * SECOND))]));
    run_until(&fake, 60 * SECOND, |_| async { Ok(()) }).await.unwrap();
    assert_eq!(fake.acked(), ["dlv_1"; 3]);

    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1"])]).with(|script| script.acks.extend(vec![Answer::Silence; 100]));
    let start = Instant::now();
    run_until(&fake, 300 * SECOND, |_| async { Ok(()) }).await.unwrap();
    assert!(fake.seen().acks.iter().all(|(_, at)| *at - start < LEASE));
    assert!(fake.seen().polls.len() > 2, "the loop goes on");
}

#[tokio::test(start_paused = true)]
async fn a_handler_error_gives_everything_back_and_ends_the_loop_with_that_error() {
    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1", "dlv_2", "dlv_3"])]);
    let error = run_until(&fake, 100 * SECOND, |handling| async move {
        if handling.delivery.id == DeliveryId::new("dlv_2") { Err(std::io::Error::other("no disk")) } else { Ok(()) }
    })
    .await
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Handler);
    assert!(std::error::Error::source(&error).unwrap().is::<std::io::Error>());
    assert_eq!(fake.acked(), ["dlv_1"]);
    let released: Vec<_> = fake.seen().releases.iter().map(|lease| lease.delivery.to_string()).collect();
    assert_eq!(released, ["dlv_2", "dlv_3"]);
}

#[tokio::test(start_paused = true)]
async fn stopping_lets_the_running_handler_finish_and_gives_back_the_rest() {
    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1", "dlv_2", "dlv_3"])]);
    let stopped_at = 5 * SECOND;
    let start = Instant::now();
    run_until(&fake, stopped_at, |handling| async move {
        handling.cancel.cancelled().await;
        assert_eq!(start.elapsed(), stopped_at);
        sleep(SECOND).await;
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(fake.acked(), ["dlv_1"]);
    let released: Vec<_> = fake.seen().releases.iter().map(|lease| lease.delivery.to_string()).collect();
    assert_eq!(released, ["dlv_2", "dlv_3"]);
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_a_poll_at_once() {
    let start = Instant::now();
    run_until(&Fake::default(), 3 * SECOND, |_| async { Ok(()) }).await.unwrap();
    assert_eq!(start.elapsed(), 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_loop_ends_its_extensions() {
    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1"])]);
    let cancel = CancellationToken::new();
    let run = worker(&fake, &cancel).run(|_| async {
        std::future::pending::<()>().await;
        Outcome::Ok(())
    });
    assert!(tokio::time::timeout(25 * SECOND, run).await.is_err());
    sleep(100 * SECOND).await;
    assert_eq!(fake.seen().extends.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_does_not_stop_the_extensions() {
    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1"])]);
    let cancel = CancellationToken::new();
    let options = RunOptions::new().renew(false).extend_every(Duration::from_millis(20));
    let result = worker_with(&fake, &cancel, options)
        .run(|_| {
            let (fake, cancel) = (fake.clone(), cancel.clone());
            async move {
                let began = std::time::Instant::now();
                while fake.seen().extends.len() < 3 {
                    assert!(began.elapsed() < Duration::from_secs(20), "the extensions stood still");
                    std::thread::yield_now();
                }
                cancel.cancel();
                Outcome::Ok(())
            }
        })
        .await;
    result.unwrap();
    assert_eq!(fake.acked(), ["dlv_1"]);
}

fn in_hours(hours: u64) -> Timestamp {
    clock::now().plus(Duration::from_secs(hours * 3_600))
}

async fn renewals(fake: &Fake, hours: u64) -> Vec<u64> {
    let cancel = CancellationToken::new();
    let start = Instant::now();
    let stop = async {
        sleep(Duration::from_secs(hours * 3_600)).await;
        cancel.cancel();
    };
    let run = worker_with(fake, &cancel, RunOptions::new()).run(|_| async { Outcome::Ok(()) });
    let (result, ()) = tokio::join!(run, stop);
    result.unwrap();
    fake.seen().renewals.iter().map(|at| (*at - start).as_secs().div_ceil(3_600)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_renewable_credential_is_renewed_when_a_third_is_left_until_its_hard_deadline() {
    let fake = Fake::default();
    let (first, second) = (in_hours(24), in_hours(25));
    fake.with(|script| {
        script.expires_at = Some(first);
        script.renewals.extend([Err(Answer::Api(503, "unavailable", None)), Ok(Some(second)), Ok(Some(second))]);
    });
    let at = renewals(&fake, 60).await;
    assert_eq!(at.len(), 3, "{at:?}");
    assert!(at.iter().take(2).all(|hour| *hour == 16), "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_can_not_be_renewed_is_asked_once_and_one_without_end_never() {
    let fake = Fake::default();
    fake.with(|script| script.expires_at = Some(in_hours(10)));
    assert_eq!(renewals(&fake, 30).await, [2]);

    let fake = Fake::default();
    assert_eq!(renewals(&fake, 30).await, [0; 0]);
}
