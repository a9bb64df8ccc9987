//! Field report B23: a list ends where its cursor is missing, and nowhere else.

use beepgrid::{DirectoryInput, ErrorCode, ErrorKind, Person, PrincipalKind, QueryInput};
use serde_json::{Value, json};

use super::client;
use super::peer::{Peer, Reply};

fn page(items: &[&str], cursor: Option<&str>) -> Reply {
    let items: Vec<Value> = items.iter().map(|id| json!({"id": id, "name": id})).collect();
    let mut page = json!({"items": items, "order": "id ascending"});
    if let Some(cursor) = cursor {
        page["next_cursor"] = json!(cursor);
    }
    Reply::ok(&page.to_string())
}

fn four_pages() -> Vec<Reply> {
    vec![page(&["a", "b"], Some("c1+/= ")), page(&[], Some("c2")), page(&[], Some("c3")), page(&["c"], None)]
}

fn asked() -> QueryInput {
    QueryInput::new("agents").search("build").filter("disabled", "false").limit(2)
}

#[tokio::test]
async fn a_stream_goes_through_empty_pages_and_keeps_what_was_asked() {
    let peer = Peer::replies(four_pages()).await;
    let people = client(&peer.url).query_stream::<Person>(asked()).all().await.unwrap();
    let ids: Vec<&str> = people.iter().map(|person| person.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    let seen = peer.seen();
    let cursors = [None, Some("c1+/= "), Some("c2"), Some("c3")];
    assert_eq!(seen.len(), cursors.len());
    for (request, cursor) in seen.iter().zip(cursors) {
        let mut body = json!({"collection": "agents", "search": "build", "filters": {"disabled": "false"}, "limit": 2});
        if let Some(cursor) = cursor {
            body["cursor"] = json!(cursor);
        }
        assert_eq!(serde_json::from_str::<Value>(&request.body).unwrap(), body);
        assert_eq!(request.target, "/api/v1/query");
        assert_eq!(request.header("idempotency-key"), None);
    }
}

#[tokio::test]
async fn page_calls_come_to_the_same() {
    let peer = Peer::replies(four_pages()).await;
    let client = client(&peer.url);
    let (mut input, mut count, mut requests) = (asked(), 0, 0);
    loop {
        let page = client.query(input.clone()).await.unwrap();
        count += page.items.len();
        requests += 1;
        let Some(cursor) = page.next_cursor else { break };
        input = input.cursor(cursor);
    }
    assert_eq!((count, requests), (3, 4));
}

#[tokio::test]
async fn a_directory_walk_keeps_kind_search_and_limit() {
    let peer = Peer::replies(vec![page(&[], Some("c1&x")), page(&["a"], None)]).await;
    let input = DirectoryInput::new(PrincipalKind::Agent).search("b").limit(1);
    assert_eq!(client(&peer.url).directory_stream(input).all().await.unwrap().len(), 1);
    let seen = peer.seen();
    assert_eq!(seen[0].target, "/api/v1/directory?kind=agent&search=b&limit=1");
    assert_eq!(seen[1].target, "/api/v1/directory?kind=agent&search=b&limit=1&cursor=c1%26x");
}

#[tokio::test]
async fn a_page_that_names_itself_is_an_error_after_its_records() {
    for again in ["c1", ""] {
        let peer = Peer::replies(vec![page(&["a"], Some(again)), page(&["b"], Some(again))]).await;
        let mut walk = client(&peer.url).query_stream::<Person>(asked());
        assert_eq!(walk.next().await.unwrap().unwrap().id.as_str(), "a");
        assert_eq!(walk.next().await.unwrap().unwrap().id.as_str(), "b");
        let error = walk.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RepeatedCursor);
        assert!(!error.is_transient() && !error.is_outcome_unknown());
        assert!(walk.next().await.is_none());
        assert_eq!(peer.seen().len(), 2);
    }
}

#[tokio::test]
async fn a_failed_page_comes_after_the_records_before_it() {
    let peer = Peer::replies(vec![page(&["a", "b"], Some("c1")), Reply::error(410, "cursor_expired")]).await;
    let mut walk = client(&peer.url).query_stream::<Person>(asked());
    for id in ["a", "b"] {
        assert_eq!(walk.next().await.unwrap().unwrap().id.as_str(), id);
    }
    let error = walk.next().await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(&ErrorCode::CursorExpired));
    assert!(walk.next().await.is_none());
    // It is no short list for who wants all of it, either.
    let peer = Peer::replies(vec![page(&["a", "b"], Some("c1")), Reply::error(410, "cursor_expired")]).await;
    client(&peer.url).query_stream::<Person>(asked()).all().await.unwrap_err();
}

#[tokio::test]
async fn a_walk_can_begin_at_a_cursor() {
    let peer = Peer::replies(vec![page(&["c"], None)]).await;
    client(&peer.url).query_stream::<Person>(asked().cursor("c7")).all().await.unwrap();
    assert!(peer.seen()[0].body.contains("\"cursor\":\"c7\""));
}

#[tokio::test]
async fn what_cannot_be_right_is_not_sent() {
    let url = Peer::nobody().await;
    for input in [
        QueryInput::new(""),
        QueryInput::new("people").limit(0),
        QueryInput::new("people").limit(201),
        QueryInput::new("people").search("x".repeat(201)),
    ] {
        assert_eq!(client(&url).query(input.clone()).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        let mut walk = client(&url).query_stream::<Value>(input);
        assert_eq!(walk.next().await.unwrap().unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(walk.next().await.is_none());
    }
}
