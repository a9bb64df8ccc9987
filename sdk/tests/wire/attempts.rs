//! What is sent again, what is not, and what is known afterwards.

use std::time::Duration;

use beepgrid::{
    CredentialInput, DeliveryId, EnrollInput, ErrorCode, ErrorKind, HeartbeatInput, InboxInput, Key, PrincipalId, RequestId,
    ResponseInput,
};

use super::peer::{Peer, Reply};
use super::{builder, client, everything, message};

const SENT: &str = r#"{"conversation_id":"cnv_1","messages":[]}"#;
const ME: &str = r#"{"identity_type":"agent","credential":{"id":"crd_1","kind":"worker"}}"#;

#[tokio::test]
async fn a_keyed_write_is_sent_again_under_one_key_until_an_answer_comes() {
    let peer = Peer::replies(vec![Reply::Close, Reply::Cut(SENT), Reply::json(201, SENT)]).await;
    let sent = client(&peer.url).send(message()).await.unwrap();
    assert_eq!(sent.conversation_id.as_str(), "cnv_1");
    let seen = peer.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen[0].header("idempotency-key").unwrap().parse::<Key>().is_ok());
    for attempt in &seen {
        assert_eq!((attempt.method.as_str(), attempt.target.as_str()), ("POST", "/api/v1/messages"));
        assert_eq!(attempt.header("idempotency-key"), seen[0].header("idempotency-key"));
        assert_eq!(attempt.body, seen[0].body);
    }
}

#[tokio::test]
async fn three_attempts_are_all_and_the_error_gives_the_key_back() {
    for fault in [Reply::Close, Reply::Cut(SENT)] {
        let peer = Peer::replies(vec![fault]).await;
        let error = client(&peer.url).send(message()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transport);
        assert!(error.is_outcome_unknown());
        assert_eq!(error.operation(), "send");
        let seen = peer.seen();
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[0].header("idempotency-key"), error.key().map(Key::as_str));
    }
}

#[tokio::test]
async fn respond_gets_a_key_and_is_sent_again() {
    let peer = Peer::replies(vec![Reply::Close, Reply::ok(r#"{"id":"req_1","state":"resolved","version":2}"#)]).await;
    let id = RequestId::new("req_1");
    assert_eq!(client(&peer.url).respond(&id, ResponseInput::answered(1, "yes")).await.unwrap().version, 2);
    assert_eq!(peer.seen().len(), 2);
    assert_eq!(peer.seen()[0].header("idempotency-key"), peer.seen()[1].header("idempotency-key"));
}

#[tokio::test]
async fn a_read_is_sent_again_and_its_outcome_is_never_unknown() {
    let peer = Peer::replies(vec![Reply::Close, Reply::Cut(ME), Reply::ok(ME)]).await;
    client(&peer.url).me().await.unwrap();
    assert_eq!(peer.seen().len(), 3);
    assert!(peer.seen().iter().all(|seen| seen.header("idempotency-key").is_none()));

    let peer = Peer::replies(vec![Reply::Close]).await;
    let error = client(&peer.url).me().await.unwrap_err();
    assert_eq!((error.kind(), error.is_outcome_unknown(), error.key()), (ErrorKind::Transport, false, None));
}

#[tokio::test]
async fn what_takes_no_key_is_tried_once_and_its_outcome_is_unknown() {
    for fault in [Reply::Close, Reply::Cut(SENT)] {
        let peer = Peer::replies(vec![fault]).await;
        let client = client(&peer.url);
        let id = DeliveryId::new("dlv_1");
        let errors = [
            client.enroll(EnrollInput::new("a/b", "B")).await.unwrap_err(),
            client.create_credential(CredentialInput::api(&PrincipalId::new("agt_1"))).await.unwrap_err(),
            client.renew_credential().await.unwrap_err(),
            client.inbox(InboxInput::new()).await.unwrap_err(),
            client.heartbeat(HeartbeatInput::new()).await.unwrap_err(),
            client.ack_lease(&id, 1).await.unwrap_err(),
        ];
        for error in &errors {
            assert!(error.is_outcome_unknown(), "{}", error.operation());
            assert_eq!(error.kind(), ErrorKind::Transport, "{}", error.operation());
            assert_eq!(error.key(), None);
        }
        assert_eq!(peer.seen().len(), errors.len());
        assert!(peer.seen().iter().all(|seen| seen.header("idempotency-key").is_none()));
    }
}

#[tokio::test]
async fn a_deadline_is_not_tried_again_and_says_whether_a_write_may_have_happened() {
    let late = Reply::Late(Duration::from_secs(60), Box::new(Reply::ok(SENT)));
    for reply in [Reply::Silent, Reply::Stall(SENT), late] {
        let peer = Peer::replies(vec![reply]).await;
        let client = client(&peer.url);
        let limit = Duration::from_millis(150);
        let write = client.send(message()).timeout(limit).await.unwrap_err();
        assert_eq!((write.kind(), write.is_outcome_unknown()), (ErrorKind::Deadline, true));
        assert!(write.key().is_some());
        let read = client.me().timeout(limit).await.unwrap_err();
        assert_eq!((read.kind(), read.is_outcome_unknown()), (ErrorKind::Deadline, false));
        assert_eq!(peer.seen().len(), 2);
    }
}

#[tokio::test]
async fn an_answer_is_returned_and_never_repeated() {
    let page = Reply::Whole { status: 502, headers: vec![], body: b"<html>secret page</html>".to_vec() };
    for (reply, code) in [
        (page, ""),
        (Reply::error(503, "unavailable"), "unavailable"),
        (Reply::error(429, "rate_limited"), "rate_limited"),
        (Reply::error(500, "internal"), "internal"),
        (Reply::error(409, "idempotency_conflict"), "idempotency_conflict"),
    ] {
        let peer = Peer::replies(vec![reply]).await;
        let client = client(&peer.url);
        let write = client.send(message()).await.unwrap_err();
        let api = write.api().unwrap();
        assert_eq!(api.code, ErrorCode::from(code));
        assert_eq!(write.is_outcome_unknown(), api.status >= 500, "{code}");
        assert!(!everything(&write).contains("secret page"));
        let read = client.me().await.unwrap_err();
        assert_eq!((read.kind(), read.is_outcome_unknown()), (ErrorKind::Api, false));
        assert_eq!(peer.seen().len(), 2);
    }
}

#[tokio::test]
async fn an_error_status_stands_even_if_its_body_is_cut_off_or_huge() {
    let cut = Reply::Whole { status: 404, headers: vec![("transfer-encoding", "chunked".into())], body: b"zz".to_vec() };
    let huge = Reply::Whole { status: 404, headers: vec![], body: vec![b'x'; 1 << 20] };
    for reply in [cut, huge] {
        let peer = Peer::replies(vec![reply]).await;
        let error = client(&peer.url).send(message()).await.unwrap_err();
        assert_eq!(error.api().unwrap().status, 404);
        assert!(!error.is_outcome_unknown());
        assert_eq!(peer.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_connection_that_never_stood_had_no_effect() {
    let url = Peer::nobody().await;
    let error = client(&url).send(message()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::Transport, false));
    assert!(error.key().is_some());
    let error = client(&url).enroll(EnrollInput::new("a/b", "B")).await.unwrap_err();
    assert!(!error.is_outcome_unknown());
}

#[tokio::test]
async fn an_earlier_attempt_that_got_through_keeps_the_outcome_unknown() {
    let peer = Peer::replies(vec![Reply::Leave]).await;
    let error = client(&peer.url).send(message()).await.unwrap_err();
    assert_eq!(peer.seen().len(), 1, "the later attempts found nobody");
    assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::Transport, true));
}

#[tokio::test]
async fn a_long_poll_may_take_its_wait_and_the_margin() {
    let late = Reply::Late(Duration::from_millis(400), Box::new(Reply::ok("[]")));
    let peer = Peer::replies(vec![late]).await;
    let short = |margin| builder(&peer.url).timeout(Duration::from_millis(100)).poll_margin(margin).build().unwrap();
    let poll = InboxInput::new().wait_ms(50);
    assert_eq!(short(Duration::from_secs(20)).inbox(poll.clone()).await.unwrap().len(), 0);
    assert_eq!(short(Duration::from_millis(50)).inbox(poll).await.unwrap_err().kind(), ErrorKind::Deadline);
}
