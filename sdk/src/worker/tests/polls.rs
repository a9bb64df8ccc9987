//! Polls that fail, are refused, can't be read or bring nothing.

use super::*;

#[tokio::test(start_paused = true)]
async fn passing_faults_are_waited_out_with_growing_delays_that_only_progress_resets() {
    let fake = Fake::default();
    fake.polls(
        (0..40).map(|n| if n % 2 == 0 { failing(503, "unavailable", None) } else { Poll(Duration::ZERO, Err(Answer::Silence)) }),
    );
    run_until(&fake, 600 * SECOND, |_| async { Ok(()) }).await.unwrap();
    let polls = fake.seen().polls;
    assert!(polls.len() < 45, "{} polls in ten minutes", polls.len());

    let fake = Fake::default();
    fake.polls((0..12).map(|_| failing(500, "internal", None)));
    fake.polls([deliveries(&["dlv_1"]), failing(500, "internal", None)]);
    run_until(&fake, 600 * SECOND, |_| async { Ok(()) }).await.unwrap();
    let polls = fake.seen().polls;
    assert!(polls[12] - polls[11] >= 15 * SECOND, "grown to its maximum");
    assert!(polls[14] - polls[13] < SECOND, "small again after a delivery");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_the_engine_asks_for_is_kept_to_and_shown_and_ends_at_once_when_stopped() {
    for (seconds, status) in [(3, 429), (120, 503), (86_400, 429)] {
        let asked = Duration::from_secs(seconds);
        let fake = Fake::default();
        fake.polls([failing(status, "rate_limited", Some(asked))]);
        run_until(&fake, asked + SECOND, |_| async { Ok(()) }).await.unwrap();
        let polls = fake.seen().polls;
        assert_eq!(polls[1] - polls[0], asked);
    }

    let fake = Fake::default();
    fake.polls([failing(429, "rate_limited", Some(Duration::from_secs(u64::MAX)))]);
    let (sender, watcher) = watch::channel(RunStatus::default());
    let cancel = CancellationToken::new();
    let start = Instant::now();
    let stop = async {
        sleep(7 * SECOND).await;
        assert_eq!(watcher.borrow().waiting, Some(Duration::from_secs(u64::MAX)));
        cancel.cancel();
    };
    let run = worker_with(&fake, &cancel, RunOptions::new().renew(false).status(sender)).run(|_| async { Outcome::Ok(()) });
    let (result, ()) = tokio::join!(run, stop);
    result.unwrap();
    assert_eq!(start.elapsed(), 7 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_zero_is_no_licence_to_spin() {
    let fake = Fake::default();
    fake.polls((0..1_000).map(|_| failing(429, "rate_limited", Some(Duration::ZERO))));
    run_until(&fake, 60 * SECOND, |_| async { Ok(()) }).await.unwrap();
    assert!(fake.seen().polls.len() < 20);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_the_loop_after_one_poll() {
    for (status, code) in
        [(400, "invalid_request"), (401, "unauthorized"), (403, "forbidden"), (404, "not_found"), (409, "already_exists")]
    {
        let fake = Fake::default();
        fake.polls([failing(status, code, None)]);
        let error = run_until(&fake, 60 * SECOND, |_| async { Ok(()) }).await.unwrap_err();
        assert_eq!(error.code(), Some(&ErrorCode::from(code)));
        assert_eq!(fake.seen().polls.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn timeouts_and_conflicts_of_the_moment_do_not_end_the_loop() {
    for (status, code) in [(408, ""), (425, ""), (409, "stale_generation"), (504, "")] {
        let fake = Fake::default();
        fake.polls([failing(status, code, None), deliveries(&["dlv_1"])]);
        run_until(&fake, 10 * SECOND, |_| async { Ok(()) }).await.unwrap();
        assert_eq!(fake.acked(), ["dlv_1"], "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_acknowledgement_ends_the_loop_and_gives_back_the_rest() {
    let fake = Fake::default();
    fake.polls([deliveries(&["dlv_1", "dlv_2"])]).with(|script| script.acks.push_back(Answer::Api(403, "forbidden", None)));
    let error = run_until(&fake, 60 * SECOND, |_| async { Ok(()) }).await.unwrap_err();
    assert_eq!(error.code(), Some(&ErrorCode::Forbidden));
    assert_eq!(fake.seen().releases, [LeaseId { delivery: DeliveryId::new("dlv_2"), generation: 1 }]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_can_not_be_read_neither_ends_the_loop_nor_spins() {
    let fake = Fake::default();
    fake.polls((0..1_000).map(|_| Poll(Duration::ZERO, Err(Answer::Garbage))));
    let (sender, watcher) = watch::channel(RunStatus::default());
    let cancel = CancellationToken::new();
    let stop = async {
        sleep(60 * SECOND).await;
        cancel.cancel();
    };
    let run = worker_with(&fake, &cancel, RunOptions::new().renew(false).status(sender)).run(|_| async { Outcome::Ok(()) });
    let (result, ()) = tokio::join!(run, stop);
    result.unwrap();
    assert!((3..20).contains(&fake.seen().polls.len()));
    assert_eq!(watcher.borrow().undecodable, fake.seen().polls.len() as u64);
    assert!(watcher.borrow().last_error.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_can_not_be_read_is_left_to_the_engine_and_its_neighbours_are_handled() {
    let fake = Fake::default();
    let mut items =
        Leased::decode(br#"[{"id":"dlv_bad","generation":4,"payload":{"type":"message","conversation_id":"\ud800"}}]"#).unwrap();
    items.push(delivery("dlv_good"));
    fake.polls([Poll(Duration::ZERO, Ok(items))]);
    run_until(&fake, 60 * SECOND, |_| async { Ok(()) }).await.unwrap();
    assert_eq!(fake.acked(), ["dlv_good"]);
    assert!(fake.seen().releases.is_empty());
    assert!(fake.seen().extends.is_empty());
}

#[tokio::test(start_paused = true)]
async fn empty_answers_that_come_at_once_do_not_spin() {
    let fake = Fake::default();
    fake.polls((0..1_000).map(|_| Poll(Duration::ZERO, Ok(Vec::new()))));
    run_until(&fake, 60 * SECOND, |_| async { Ok(()) }).await.unwrap();
    assert!(fake.seen().polls.len() < 20);
}

#[tokio::test(start_paused = true)]
async fn quiet_polls_follow_each_other_without_a_pause() {
    let fake = Fake::default();
    run_until(&fake, 151 * SECOND, |_| async { Ok(()) }).await.unwrap();
    assert_eq!(fake.seen().polls.len(), 11);
}
