//! `wait`: through faults, within a local deadline, without spinning.

use std::time::{Duration, Instant};

use beepgrid::{ErrorCode, ErrorKind, RequestId, RequestState};

use super::client;
use super::peer::{Peer, Reply};

fn request(state: &str) -> Reply {
    Reply::ok(&format!(r#"{{"id":"req_1","state":"{state}","version":2}}"#))
}

#[tokio::test]
async fn it_goes_on_through_faults_until_the_request_is_final() {
    let peer = Peer::replies(vec![
        Reply::error(503, "unavailable").header("retry-after", "0"),
        Reply::error(429, "rate_limited"),
        Reply::Whole { status: 502, headers: vec![], body: b"<html>".to_vec() },
        Reply::Close,
        request("open"),
        request("open"),
        request("expired"),
    ])
    .await;
    let request = client(&peer.url).wait(&RequestId::new("req_1")).await.unwrap();
    assert_eq!(request.state, RequestState::Expired);
    assert!(peer.seen().iter().all(|seen| seen.target == "/api/v1/requests/req_1?wait_ms=15000"));
    assert_eq!(peer.seen().len(), 7);
}

#[tokio::test]
async fn an_outage_longer_than_all_attempts_of_a_call_is_waited_out() {
    let peer = Peer::start(|n, _| if n < 8 { Reply::Close } else { request("resolved") }).await;
    assert_eq!(client(&peer.url).wait(&RequestId::new("req_1")).await.unwrap().state, RequestState::Resolved);
    assert_eq!(peer.seen().len(), 9);
}

#[tokio::test]
async fn a_local_deadline_leaves_the_request_alone() {
    for reply in [Reply::Silent, request("open"), Reply::error(503, "unavailable").header("retry-after", "86400")] {
        let peer = Peer::replies(vec![reply]).await;
        let limit = Duration::from_millis(200);
        let started = Instant::now();
        let error = client(&peer.url).wait(&RequestId::new("req_1")).timeout(limit).await.unwrap_err();
        assert_eq!((error.kind(), error.is_outcome_unknown(), error.operation()), (ErrorKind::Deadline, false, "wait"));
        assert!(started.elapsed() >= limit);
        assert!(peer.seen().iter().all(|seen| seen.method == "GET"));
        assert!(peer.seen().len() < 60, "an engine that does not wait is not asked without a pause");
    }
}

#[tokio::test]
async fn a_refusal_ends_it_at_once() {
    for (status, code) in [(401, "unauthorized"), (403, "forbidden"), (404, "not_found")] {
        let peer = Peer::replies(vec![Reply::error(status, code)]).await;
        let error = client(&peer.url).wait(&RequestId::new("req_1")).await.unwrap_err();
        assert_eq!(error.code(), Some(&ErrorCode::from(code)));
        assert_eq!(peer.seen().len(), 1);
    }
}
