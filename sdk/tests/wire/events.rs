//! Events on real sockets: what goes over the wire, and that dropping the stream closes the connection. The stream's rules are tested on a
//! virtual clock beside the code.

use std::sync::Mutex;
use std::time::Duration;

use beepgrid::{ErrorCode, ErrorKind, Event, EventOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::client;
use super::peer::{Peer, Reply};

const EVENT: &str = "id: SEQ\ndata: {\"sequence\":SEQ,\"kind\":\"message.created\",\"data\":{\"id\":\"msg_1\",\"conversation_id\":\"cnv_1\",\"body\":\"Grüße 👨‍👩‍👧\",\"sender_id\":\"agt_1\"}}\n\n";

fn event(sequence: i64) -> String {
    EVENT.replace("SEQ", &sequence.to_string())
}

fn stream(body: impl Into<String>) -> Reply {
    Reply::Whole {
        status: 200,
        headers: vec![("content-type", "text/event-stream; charset=utf-8".into())],
        body: body.into().into(),
    }
}

#[tokio::test]
async fn a_page_is_asked_for_as_the_contract_says() {
    let peer = Peer::replies(vec![Reply::ok(r#"{"items":[],"next_after":9,"more":true}"#)]).await;
    let options = EventOptions::new().after(7).limit(500).conversation_id(&"cnv 1".into()).summary(true);
    let page = client(&peer.url).list_events(options).await.unwrap();
    assert_eq!((page.items.len(), page.next_after, page.more), (0, 9, true));
    client(&peer.url).list_events(EventOptions::new()).await.unwrap();
    let seen = peer.seen();
    assert_eq!(seen[0].target, "/api/v1/events?after=7&limit=500&conversation_id=cnv+1&summary=true");
    assert_eq!(seen[1].target, "/api/v1/events");
    assert_eq!(seen[0].header("accept"), Some("application/json"));
}

#[tokio::test]
async fn what_cannot_be_right_is_not_sent() {
    let url = Peer::nobody().await;
    for options in [EventOptions::new().after(-1), EventOptions::new().limit(0), EventOptions::new().limit(501)] {
        let error = client(&url).list_events(options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    let mut events = client(&url).events(EventOptions::new().after(-1));
    assert_eq!(events.next().await.unwrap().unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_stream_resumes_from_its_position_with_the_same_wishes() {
    let peer = Peer::replies(vec![
        stream(format!(":\n\n{}", event(42))),
        stream(format!("event: cursor\ndata: {{\"sequence\": 50}}\n\n{}", event(51))),
        Reply::error(503, "unavailable"),
        Reply::ok("<html>of a proxy</html>"),
        stream(event(52)),
        Reply::error(401, "unauthorized"),
    ])
    .await;
    let options = EventOptions::new().after(41).limit(3).conversation_id(&"cnv_1".into()).summary(true);
    let mut events = client(&peer.url).events(options);
    for sequence in [42, 51, 52] {
        let event = events.next().await.unwrap().unwrap();
        assert_eq!((event.sequence, event.message().unwrap().body.as_str()), (sequence, "Grüße 👨‍👩‍👧"));
    }
    let error = events.next().await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.position()), (Some(&ErrorCode::Unauthorized), Some(52)));
    let seen = peer.seen();
    let wishes = "conversation_id=cnv_1&summary=true&stream=1";
    let asked: Vec<String> = [41, 42, 51, 51, 51, 52].map(|after| format!("/api/v1/events?after={after}&{wishes}")).into();
    assert_eq!(seen.iter().map(|seen| seen.target.clone()).collect::<Vec<_>>(), asked);
    assert!(seen.iter().all(|seen| seen.header("accept") == Some("text/event-stream")));
}

#[tokio::test]
async fn a_handler_that_fails_stops_without_advancing() {
    let peer = Peer::replies(vec![stream(format!("{}{}{}", event(42), event(43), event(44)))]).await;
    let handled = Mutex::new(Vec::new());
    let handle = |event: Event| {
        handled.lock().unwrap().push(event.sequence);
        async move { if event.sequence == 43 { Err(std::io::Error::other("no disk")) } else { Ok(()) } }
    };
    let error = client(&peer.url).handle_events(EventOptions::new().after(41), handle).await.unwrap_err();
    assert_eq!((error.kind(), error.position()), (ErrorKind::Handler, Some(42)));
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "no disk");
    assert_eq!(*handled.lock().unwrap(), [42, 43]);
    assert_eq!(peer.seen().len(), 1);
}

#[tokio::test]
async fn a_handlers_loop_ends_with_a_refusal_and_its_position() {
    let peer = Peer::replies(vec![stream(event(42)), Reply::error(410, "cursor_expired")]).await;
    let fine = |_| async { Ok::<_, std::io::Error>(()) };
    let error = client(&peer.url).handle_events(EventOptions::new(), fine).await.unwrap_err();
    assert_eq!((error.code(), error.position()), (Some(&ErrorCode::CursorExpired), Some(42)));
}

#[tokio::test]
async fn a_handlers_future_can_be_spawned() {
    let peer = Peer::replies(vec![Reply::error(403, "forbidden")]).await;
    let client = client(&peer.url);
    let ended =
        tokio::spawn(async move { client.handle_events(EventOptions::new(), |_| async { Ok::<_, std::io::Error>(()) }).await });
    assert_eq!(ended.await.unwrap().unwrap_err().code(), Some(&ErrorCode::Forbidden));
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_ends_it() {
    let peer = Peer::replies(vec![Reply::json(307, "").header("location", "http://elsewhere.example/")]).await;
    let mut events = client(&peer.url).events(EventOptions::new());
    assert_eq!(events.next().await.unwrap().unwrap_err().kind(), ErrorKind::Redirect);
    assert!(events.next().await.is_none());
    assert_eq!(peer.seen().len(), 1);
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let closed = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n") {
            stream.read_buf(&mut seen).await.unwrap();
        }
        let body = event(42);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(format!("{head}{:x}\r\n{body}\r\n", body.len()).as_bytes()).await.unwrap();
        // The end of the connection, or its reset: both are its close.
        let mut more = [0; 64];
        matches!(stream.read(&mut more).await, Ok(0) | Err(_))
    });
    let mut events = client(&url).events(EventOptions::new());
    assert_eq!(events.next().await.unwrap().unwrap().sequence, 42);
    drop(events);
    let closed = tokio::time::timeout(Duration::from_secs(10), closed).await.expect("the connection stays open");
    assert!(closed.unwrap());
}
