//! Field reports B14 and B17: the client through a proxy that loses answers.

use std::time::Duration;

use beepgrid::{Client, EnrollInput, Error, ErrorKind, InboxInput, RequestId, ResponseInput, SendInput, Target};
use beepgrid_tests::on_both_stores;
use beepgrid_tests::proxy::{Fault, Proxy};
use beepgrid_tests::raw::{Api, Members};
use beepgrid_tests::world::World;

on_both_stores!(
    a_send_is_repeated_under_one_key,
    a_cut_body_is_repeated_under_one_key,
    three_attempts_and_the_key_comes_back,
    a_response_is_repeated_under_one_key,
    a_read_is_repeated,
    an_enrolment_is_tried_once,
    an_ack_is_tried_once_and_can_be_repeated,
    a_stall_ends_at_the_deadline,
    a_gateways_answer_is_an_answer,
    a_connection_that_never_stood_had_no_effect,
    a_lost_lease_comes_back_under_the_next_generation,
    a_refusal_is_not_repeated,
);

fn client(proxy: &Proxy, api: &Api) -> Client {
    Client::builder(proxy.url())
        .token(api.token().to_owned())
        .retry_delays(Duration::from_millis(1), Duration::from_millis(5))
        .build()
        .expect("a client")
}

async fn before(w: &World) -> Proxy {
    Proxy::before(&w.site.url).await
}

fn to_billing(w: &World) -> SendInput {
    SendInput::to(Target::agent(&w.billing.id), "once")
}

fn same_key(proxy: &Proxy, times: usize) -> String {
    let keys = proxy.keys();
    assert_eq!(keys.len(), times, "{keys:?}");
    assert!(keys.iter().all(|key| key.is_some() && *key == keys[0]), "{keys:?}");
    keys[0].clone().unwrap()
}

async fn a_send_is_repeated_under_one_key(w: World) {
    let proxy = before(&w).await;
    proxy.plan(&[Fault::DropAnswer, Fault::DropAnswer]);
    let sent = client(&proxy, &w.builder.api).send(to_billing(&w)).await.unwrap();
    same_key(&proxy, 3);
    let delivered = w.billing.drain().await;
    assert_eq!(delivered.len(), 1);
    assert_eq!(delivered[0]["payload"]["message"].id(), sent.messages[0].id.as_str());
}

async fn a_cut_body_is_repeated_under_one_key(w: World) {
    let proxy = before(&w).await;
    proxy.plan(&[Fault::CutBody]);
    client(&proxy, &w.builder.api).send(to_billing(&w)).await.unwrap();
    same_key(&proxy, 2);
    assert_eq!(w.billing.drain().await.len(), 1);
}

async fn three_attempts_and_the_key_comes_back(w: World) {
    let proxy = before(&w).await;
    for fault in [Fault::DropAnswer, Fault::CutBody] {
        proxy.always(fault);
        let client = client(&proxy, &w.builder.api);
        let error = client.send(to_billing(&w)).await.unwrap_err();
        let key = same_key(&proxy, 3);
        assert!(error.is_outcome_unknown(), "{error:?}");
        assert!(error.api().is_none());
        let given_back = error.key().expect("the key").clone();
        assert_eq!(given_back.as_str().to_lowercase(), key);
        // The caller recovers with it: the one message, not a second one.
        proxy.always(Fault::Pass);
        proxy.take_count();
        let sent = client.send(to_billing(&w)).key(given_back).await.unwrap();
        let delivered = w.billing.drain().await;
        assert_eq!(delivered.len(), 1);
        assert_eq!(delivered[0]["payload"]["message"].id(), sent.messages[0].id.as_str());
        proxy.take_count();
    }
}

async fn a_response_is_repeated_under_one_key(w: World) {
    let proxy = before(&w).await;
    let asked = w.ask(&w.builder.api, &w.ann.target(), "q").await.id();
    proxy.plan(&[Fault::DropAnswer, Fault::CutBody]);
    let decided = client(&proxy, &w.ann.api).respond(&RequestId::new(asked), ResponseInput::answered(1, "yes")).await.unwrap();
    assert_eq!(decided.version, 2);
    same_key(&proxy, 3);
}

async fn a_read_is_repeated(w: World) {
    let proxy = before(&w).await;
    for faults in [[Fault::DropAnswer, Fault::CutBody], [Fault::CutBody, Fault::Refuse]] {
        proxy.plan(&faults);
        let me = client(&proxy, &w.ann.api).me().await.unwrap();
        assert_eq!(me.id().map(beepgrid::PrincipalId::as_str), Some(w.ann.id.as_str()));
        assert!(proxy.keys().iter().all(Option::is_none));
        assert_eq!(proxy.take_count(), 3);
    }
    proxy.always(Fault::DropAnswer);
    let error = client(&proxy, &w.ann.api).me().await.unwrap_err();
    assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::Transport, false));
    assert_eq!(proxy.take_count(), 3);
}

async fn instances(w: &World) -> usize {
    w.owner.api.get("/credentials").await.ok().as_array().unwrap().iter().filter(|c| c["kind"] == "worker").count()
}

async fn an_enrolment_is_tried_once(w: World) {
    let proxy = before(&w).await;
    let before = instances(&w).await;
    for (at, fault) in [Fault::DropAnswer, Fault::CutBody].into_iter().enumerate() {
        proxy.plan(&[fault]);
        let error = client(&proxy, &w.owner.api).enroll(EnrollInput::new("team/new", "New")).await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{fault:?}: {error:?}");
        assert_eq!(proxy.keys(), [None]);
        assert_eq!(proxy.take_count(), 1);
        assert_eq!(instances(&w).await, before + at + 1);
    }
}

async fn an_ack_is_tried_once_and_can_be_repeated(w: World) {
    let proxy = before(&w).await;
    let client = client(&proxy, &w.billing.api);
    w.send(&w.builder.api, &w.billing.target(), "m").await;
    let delivery = client.inbox(InboxInput::new()).await.unwrap().remove(0);
    proxy.take_count();
    proxy.plan(&[Fault::DropAnswer]);
    let first = client.ack(&delivery).await;
    let attempts = proxy.take_count();
    if let Err(error) = first {
        assert!(error.is_outcome_unknown());
        assert_eq!(attempts, 1);
    }
    client.ack(&delivery).await.unwrap();
    w.advance(60);
    assert!(w.billing.lease(10).await.is_empty());
}

async fn a_stall_ends_at_the_deadline(w: World) {
    let proxy = before(&w).await;
    proxy.always(Fault::Stall);
    let limit = Duration::from_millis(400);
    let expect = |error: Error, unknown: bool| {
        assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::Deadline, unknown), "{error:?}");
        assert_eq!(proxy.take_count(), 1);
    };
    let send = client(&proxy, &w.builder.api).send(to_billing(&w)).timeout(limit).await;
    expect(send.unwrap_err(), true);
    let enroll = client(&proxy, &w.owner.api).enroll(EnrollInput::new("team/new", "New")).timeout(limit).await;
    expect(enroll.unwrap_err(), true);
    let read = client(&proxy, &w.ann.api).me().timeout(limit).await;
    expect(read.unwrap_err(), false);
    // The engine acted; local time says nothing about it.
    assert_eq!(w.billing.drain().await.len(), 1);
}

async fn a_gateways_answer_is_an_answer(w: World) {
    let proxy = before(&w).await;
    proxy.always(Fault::BadGateway);
    let check = |error: Error| {
        assert_eq!((error.kind(), error.api().map(|api| api.status)), (ErrorKind::Api, Some(502)), "{error:?}");
        assert_eq!(proxy.take_count(), 1);
    };
    check(client(&proxy, &w.builder.api).send(to_billing(&w)).await.unwrap_err());
    check(client(&proxy, &w.ann.api).me().await.unwrap_err());
    check(client(&proxy, &w.owner.api).enroll(EnrollInput::new("team/new", "New")).await.unwrap_err());
}

async fn a_connection_that_never_stood_had_no_effect(w: World) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::builder(nobody)
        .token(w.owner.api.token().to_owned())
        .retry_delays(Duration::from_millis(1), Duration::from_millis(5))
        .build()
        .unwrap();
    for error in [client.enroll(EnrollInput::new("team/new", "New")).await.err(), client.send(to_billing(&w)).await.err()] {
        let error = error.expect("nobody listens");
        assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::Transport, false), "{error:?}");
    }
}

async fn a_lost_lease_comes_back_under_the_next_generation(w: World) {
    let proxy = before(&w).await;
    let client = client(&proxy, &w.billing.api);
    w.send(&w.builder.api, &w.billing.target(), "m").await;
    for (fault, generation) in [(Fault::DropAnswer, 2), (Fault::CutBody, 3)] {
        proxy.plan(&[fault]);
        let lost = client.inbox(InboxInput::new()).await;
        assert!(lost.is_err());
        assert_eq!(proxy.take_count(), 1);
        assert!(client.inbox(InboxInput::new()).await.unwrap().is_empty());
        w.advance(33);
        proxy.take_count();
        if fault == Fault::CutBody {
            let leased = client.inbox(InboxInput::new()).await.unwrap();
            assert_eq!((leased.len(), leased[0].generation), (1, generation));
            client.ack(&leased[0]).await.unwrap();
        }
        proxy.take_count();
    }
    w.advance(60);
    assert!(w.billing.lease(10).await.is_empty());
}

async fn a_refusal_is_not_repeated(w: World) {
    let proxy = before(&w).await;
    let error = client(&proxy, &w.bob.api).send(to_billing(&w)).await.unwrap_err();
    assert_eq!(error.api().map(|api| (api.status, api.code.clone())), Some((404, beepgrid::ErrorCode::NotFound)));
    assert!(!error.is_outcome_unknown());
    assert_eq!(proxy.take_count(), 1);
}
