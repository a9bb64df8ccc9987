//! What an answer says, and what is made of one that says nothing usable.

use std::time::{Duration, SystemTime};

use beepgrid::{EnrollInput, ErrorCode, ErrorKind, InboxInput, Method, Outcome, PrincipalKind, RequestId, RequestState};

use super::peer::{Peer, Reply};
use super::{TOKEN, builder, client, everything, message};

#[tokio::test]
async fn an_error_answer_keeps_code_message_status_and_request_id() {
    let reply = Reply::error(403, "forbidden").header("x-request-id", "r-17");
    let peer = Peer::replies(vec![reply]).await;
    let error = client(&peer.url).send(message()).await.unwrap_err();
    let api = error.api().unwrap();
    assert_eq!((&api.code, api.status, &*api.message), (&ErrorCode::Forbidden, 403, "A test."));
    assert_eq!(api.request_id.as_deref(), Some("r-17"));
    assert_eq!(api.retry_after, None);
    assert!(error.to_string().starts_with("send: "));
}

#[tokio::test]
async fn an_unknown_code_is_kept_as_it_came() {
    let peer = Peer::replies(vec![Reply::error(418, "teapot")]).await;
    let error = client(&peer.url).me().await.unwrap_err();
    assert_eq!(error.code(), Some(&ErrorCode::Other("teapot".into())));
}

#[tokio::test]
async fn retry_after_is_read_in_every_form_and_an_ordinary_call_does_not_sleep() {
    let at = |from_now: i64| {
        let epoch = i64::try_from(epoch_seconds()).unwrap();
        http_date(epoch + from_now)
    };
    for (text, seconds) in [
        ("0".to_owned(), Some(0..=0)),
        ("3".to_owned(), Some(3..=3)),
        ("120".to_owned(), Some(120..=120)),
        ("86400".to_owned(), Some(86_400..=86_400)),
        ("99999999999999999999".to_owned(), Some(u64::MAX..=u64::MAX)),
        ("-1".to_owned(), None),
        ("+5".to_owned(), None),
        ("soon".to_owned(), None),
        (at(10), Some(8..=10)),
        (at(-100), Some(0..=0)),
        ("Sunday, 06-Nov-94 08:49:37 GMT".to_owned(), Some(0..=0)),
    ] {
        for (status, code) in [(429, "rate_limited"), (503, "unavailable")] {
            let peer = Peer::replies(vec![Reply::error(status, code).header("retry-after", &*text)]).await;
            let error = client(&peer.url).me().timeout(Duration::from_secs(15)).await.unwrap_err();
            let wait = error.api().unwrap().retry_after.map(|wait| wait.as_secs());
            match &seconds {
                Some(range) => assert!(wait.is_some_and(|wait| range.contains(&wait)), "{text}: {wait:?}"),
                None => assert_eq!(wait, None, "{text}"),
            }
            assert_eq!(peer.seen().len(), 1);
        }
    }
}

#[tokio::test]
async fn a_date_counts_from_the_peers_own_clock() {
    let reply = Reply::error(503, "unavailable")
        .header("date", "Tue, 15 Nov 1994 08:12:31 GMT")
        .header("retry-after", "Tue, 15 Nov 1994 08:12:41 GMT");
    let peer = Peer::replies(vec![reply]).await;
    let error = client(&peer.url).me().await.unwrap_err();
    assert_eq!(error.api().unwrap().retry_after, Some(Duration::from_secs(10)));
}

#[tokio::test]
async fn an_answer_over_the_bound_is_a_decode_failure_announced_or_not() {
    let whole = Reply::ok(&format!("\"{}\"", "x".repeat(2_000)));
    for reply in [whole, Reply::Endless] {
        let peer = Peer::replies(vec![reply]).await;
        let client = builder(&peer.url).max_response_bytes(1_000).build().unwrap();
        let read = client.me().await.unwrap_err();
        assert_eq!((read.kind(), read.is_outcome_unknown()), (ErrorKind::Decode, false));
        let write = client.send(message()).await.unwrap_err();
        assert_eq!((write.kind(), write.is_outcome_unknown()), (ErrorKind::Decode, true), "it was answered 200: it happened");
        assert!(write.key().is_some());
        assert_eq!(peer.seen().len(), 2, "not sent again");
    }
    let peer = Peer::replies(vec![Reply::ok(&format!("\"{}\"", "x".repeat(998)))]).await;
    let client = builder(&peer.url).max_response_bytes(1_000).build().unwrap();
    assert_eq!(client.call::<String>(Method::Get, "/api/v1/x", None).await.unwrap().len(), 998);
}

#[tokio::test]
async fn what_is_not_the_expected_json_is_a_decode_failure() {
    for body in ["", "null", "[]", "<html>", "{\"conversation_id\":1,\"messages\":[]}", "{\"conversation_id\":\"c\""] {
        let peer = Peer::replies(vec![Reply::ok(body)]).await;
        let error = client(&peer.url).send(message()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode, "{body:?}");
        assert_eq!(peer.seen().len(), 1);
    }
}

#[tokio::test]
async fn integers_that_do_not_fit_and_half_surrogate_pairs_are_decode_failures() {
    let request = |version: &str, body: &str| format!(r#"{{"id":"req_1","state":"open","version":{version},"body":"{body}"}}"#);
    let id = RequestId::new("req_1");
    for version in ["9007199254740991", "9007199254740992", "9007199254740993", "9223372036854775807"] {
        let peer = Peer::replies(vec![Reply::ok(&request(version, ""))]).await;
        assert_eq!(client(&peer.url).get_request(&id).await.unwrap().version.to_string(), version);
    }
    for (version, body) in [
        ("9223372036854775808", ""),
        ("18446744073709551616", ""),
        ("1.0", ""),
        ("1e3", ""),
        ("\"1\"", ""),
        ("1", "\\ud83d"),
        ("1", "\\ude00"),
        ("1", "cut \\ud83d here"),
    ] {
        let peer = Peer::replies(vec![Reply::ok(&request(version, body))]).await;
        let error = client(&peer.url).get_request(&id).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode, "{version} {body}");
    }
    let delivery = r#"[{"id":"dlv_1","generation":1,"payload":{"type":"message","conversation_id":"\ud800"}}]"#;
    let peer = Peer::replies(vec![Reply::ok(delivery)]).await;
    assert_eq!(client(&peer.url).inbox(InboxInput::new()).await.unwrap_err().kind(), ErrorKind::Decode);
}

#[tokio::test]
async fn unknown_words_and_members_of_a_newer_engine_are_kept_or_ignored() {
    let body = r#"{"id":"req_1","state":"paused","version":1,"mood":"fine","response":{"outcome":"deferred","version":1}}"#;
    let peer = Peer::replies(vec![Reply::ok(body)]).await;
    let request = client(&peer.url).get_request(&RequestId::new("req_1")).await.unwrap();
    assert_eq!(request.state, RequestState::Other("paused".into()));
    assert_eq!(request.response.unwrap().outcome, Outcome::Other("deferred".into()));
    assert_eq!(serde_json::to_string(&request.state).unwrap(), "\"paused\"");
}

#[tokio::test]
async fn neither_token_shows_in_an_error() {
    let fresh = "bgt_fresh_9876543210";
    let bodies =
        [format!("\"{fresh}\""), format!(r#"{{"token":["{fresh}"]}}"#), format!(r#"{{"token":"{fresh}","agent":"{fresh}"}}"#)];
    for body in bodies {
        let peer = Peer::replies(vec![Reply::json(201, &body)]).await;
        let error = client(&peer.url).enroll(EnrollInput::new("a/b", "B")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        assert!(!everything(&error).contains(fresh) && !everything(&error).contains(TOKEN), "{}", everything(&error));
    }
    for reply in [Reply::Close, Reply::error(401, "unauthorized"), Reply::Cut("{}")] {
        let peer = Peer::replies(vec![reply]).await;
        let error = client(&peer.url).send(message()).await.unwrap_err();
        assert!(!everything(&error).contains(TOKEN));
        assert!(!everything(&error).contains(&peer.url), "addresses may be private too");
    }
}

#[tokio::test]
async fn every_request_carries_the_token_and_a_plain_accept() {
    let peer = Peer::replies(vec![Reply::ok(r#"{"items":[],"order":"name"}"#)]).await;
    client(&peer.url).directory(beepgrid::DirectoryInput::new(PrincipalKind::Agent)).await.unwrap();
    let seen = peer.seen().remove(0);
    assert_eq!(seen.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    assert_eq!(seen.header("accept"), Some("application/json"));
    assert!(seen.header("user-agent").unwrap().starts_with("beepgrid-rust/"));
    assert_eq!(seen.target, "/api/v1/directory?kind=agent");
}

#[expect(clippy::disallowed_methods, reason = "the peer makes real dates")]
fn epoch_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, by way of our own time stamps.
fn http_date(epoch: i64) -> String {
    let wire = beepgrid::Timestamp::from_micros(epoch * 1_000_000).to_string();
    let (date, clock) = wire.trim_end_matches('Z').split_once('T').unwrap();
    let parts: Vec<&str> = date.split('-').collect();
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months[parts[1].parse::<usize>().unwrap() - 1];
    format!("Mon, {} {month} {} {clock} GMT", parts[2], parts[0])
}
