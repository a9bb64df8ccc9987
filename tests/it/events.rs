//! Section 8: pages and streams of events, what they hold and where they end.

use std::time::{Duration, Instant};

use beepgrid::EventOptions;
use beepgrid_tests::raw::{Answer, Api, Members};
use beepgrid_tests::stores::Kind;
use beepgrid_tests::stream::{self, Block};
use beepgrid_tests::world::{World, credential};
use beepgrid_tests::{on_both_stores, wait};
use serde_json::{Value, json};

use crate::chats::{change, chat};

on_both_stores!(
    a_page_has_its_fields,
    data_is_the_resource_as_it_is_now,
    a_summary_has_ids_only,
    pages_go_on_where_they_ended,
    odd_parameters_are_refused,
    positions_outside_what_is_kept_are_refused,
    the_larger_of_after_and_last_event_id_wins,
    a_stream_is_chosen_by_parameter_or_media_type,
    a_conversations_events_stand_alone,
    a_stream_shows_what_happens,
    hidden_events_move_the_cursor_alone,
    a_stream_is_rotated_cleanly,
    a_principal_holds_eight_streams,
    events_need_the_right_to_read,
);

macro_rules! on_real_time {
    ($($case:ident),+ $(,)?) => {
        mod sqlite_real {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(super::World::real(super::Kind::Sqlite).await).await; })+
        }
        mod postgres_real {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(super::World::real(super::Kind::Postgres).await).await; })+
        }
    };
}

on_real_time!(
    the_end_of_a_credential_ends_its_streams,
    the_end_of_an_identity_ends_its_streams,
    the_end_of_membership_ends_a_chats_stream,
    the_engines_stop_ends_streams_cleanly,
);

pub(crate) async fn page(api: &Api, query: &str) -> Value {
    api.get(&format!("/events?{query}")).await.ok()
}

/// Everything that `api` may see, over as many pages as it takes.
pub(crate) async fn all(api: &Api, query: &str) -> Vec<Value> {
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let page = page(api, &format!("after={after}&limit=500&{query}")).await;
        found.extend(page.list("items"));
        assert!(page.n("next_after") >= after);
        after = page.n("next_after");
        if page["more"] == false {
            return found;
        }
    }
}

pub(crate) fn sequences(events: &[Value]) -> Vec<i64> {
    events.iter().map(|event| event.n("sequence")).collect()
}

pub(crate) fn of_kind(events: &[Value], kind: &str) -> Vec<Value> {
    events.iter().filter(|event| event["kind"] == kind).cloned().collect()
}

/// The newest sequence there is.
pub(crate) async fn newest(w: &World) -> i64 {
    page(&w.owner.api, &format!("after={}&limit=1", all(&w.owner.api, "").await.last().unwrap().n("sequence")))
        .await
        .n("next_after")
}

fn refusal(opened: Result<stream::Stream, Answer>) -> Answer {
    match opened {
        Ok(_) => panic!("the stream was opened"),
        Err(refusal) => refusal,
    }
}

async fn a_page_has_its_fields(w: World) {
    let (conversation, message) = w.send(&w.builder.api, &w.ann.target(), "Hello 👨‍👩‍👧").await;
    let all = page(&w.ann.api, "").await;
    let mut members: Vec<&String> = all.as_object().unwrap().keys().collect();
    members.sort_unstable();
    assert_eq!(members, ["items", "more", "next_after"]);
    let created = of_kind(&all.list("items"), "message.created");
    let [event] = created.as_slice() else { panic!("{all}") };
    let mut names: Vec<&str> = event.as_object().unwrap().keys().map(String::as_str).collect();
    names.retain(|name| *name != "id");
    names.sort_unstable();
    assert_eq!(names, ["actor_id", "conversation_id", "created_at", "data", "kind", "recipient_id", "sequence"]);
    assert_eq!(
        (event.s("actor_id"), event.s("conversation_id"), event.s("recipient_id")),
        (w.builder.id.clone(), conversation, String::new())
    );
    assert_eq!((event["data"].id(), event["data"].s("body")), (message, "Hello 👨‍👩‍👧".to_owned()));
    assert_eq!(event["data"].n("sequence"), event.n("sequence"));
    assert_eq!(event.s("created_at"), event["data"].s("created_at"));
    assert_eq!(all["more"], false);
    assert_eq!(all.n("next_after"), newest(&w).await);
}

async fn data_is_the_resource_as_it_is_now(w: World) {
    let asked = w.ask(&w.builder.api, &w.ann.target(), "Ready?").await;
    let body = json!({"outcome": "answered", "answer": "yes", "version": 1});
    w.ann.api.post(&format!("/requests/{}/respond", asked.id()), body).await.ok();
    for api in [&w.builder.api, &w.ann.api] {
        let events = all(api, "").await;
        let now = api.get(&format!("/requests/{}", asked.id())).await.ok();
        let created = of_kind(&events, "request.created");
        let resolved = of_kind(&events, "request.resolved");
        assert_eq!((created.len(), resolved.len()), (1, 1));
        assert_eq!((&created[0]["data"], &resolved[0]["data"]), (&now, &now));
        assert_eq!((created[0].s("actor_id"), created[0].s("recipient_id")), (w.builder.id.clone(), w.ann.id.clone()));
        assert_eq!((resolved[0].s("actor_id"), resolved[0].s("recipient_id")), (w.ann.id.clone(), w.builder.id.clone()));
        let opened = of_kind(&events, "conversation.created");
        let members: Vec<String> = opened[0]["data"]["participants"].each("id");
        assert!(members.contains(&w.ann.id) && members.contains(&w.builder.id), "{opened:?}");
    }
    // The receipt of a message shows in its event, to its sender alone.
    let (_, message) = w.send(&w.builder.api, &w.billing.target(), "received?").await;
    w.billing.drain().await;
    let data =
        |events: Vec<Value>| events.into_iter().find(|event| event["data"]["id"] == json!(message)).unwrap()["data"].clone();
    assert_eq!(data(all(&w.builder.api, "").await)["received_by"], json!([w.billing.id]));
    assert!(data(all(&w.billing.api, "").await).get("received_by").is_none_or(|who| *who == json!([])));
}

async fn a_summary_has_ids_only(w: World) {
    let chat = chat(&w).await;
    w.say(&w.builder.api, &chat, "secret words").await;
    w.ask(&w.builder.api, &w.ann.target(), "secret words").await;
    let whole = all(&w.ann.api, "").await;
    for word in ["true", "1"] {
        let summary = all(&w.ann.api, &format!("summary={word}")).await;
        assert_eq!(sequences(&summary), sequences(&whole));
        for (event, full) in summary.iter().zip(&whole) {
            assert_eq!(event["data"], json!({"id": full["data"]["id"]}), "{event}");
            assert_eq!((&event["kind"], &event["actor_id"]), (&full["kind"], &full["actor_id"]));
        }
        assert!(!json!(summary).to_string().contains("secret"));
    }
    assert_eq!(all(&w.ann.api, "summary=false").await, whole);
}

async fn pages_go_on_where_they_ended(w: World) {
    for number in 0..30 {
        // Billing's own are between those that Ann sees.
        w.send(&w.builder.api, &w.ann.target(), &format!("for ann {number}")).await;
        w.send(&w.builder.api, &w.billing.target(), "not for ann").await;
    }
    let whole = all(&w.ann.api, "").await;
    assert_eq!(of_kind(&whole, "message.created").len(), 30);
    for limit in [1, 7, 100] {
        let (mut found, mut after) = (Vec::new(), 0);
        loop {
            let page = page(&w.ann.api, &format!("after={after}&limit={limit}")).await;
            let items = page.list("items");
            assert!(items.len() <= limit);
            // More is said only when there is something to see.
            assert_eq!(page["more"] == true, found.len() + items.len() < whole.len());
            found.extend(items);
            after = page.n("next_after");
            if page["more"] == false {
                break;
            }
        }
        assert_eq!(found, whole);
    }
    // The default is a hundred; the owner sees more than that.
    assert_eq!(page(&w.owner.api, "").await.list("items").len(), 100);
}

async fn odd_parameters_are_refused(w: World) {
    let cases = [
        ("after=-1", "after"),
        ("after=1.0", "after"),
        ("after=1e3", "after"),
        ("after=x", "after"),
        ("after=9223372036854775808", "after"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=-1", "limit"),
        ("summary=maybe", "summary"),
        ("stream=2", "stream"),
        ("stream=1&limit=5", "limit"),
        ("since=1", "since"),
        ("after=1&after=2", "after"),
        ("conversation_id=a%00b", "conversation_id"),
    ];
    for (query, field) in cases {
        w.ann.api.get(&format!("/events?{query}")).await.invalid(field);
    }
    for id in ["x", "-1", "1.5", "9223372036854775808"] {
        w.ann.api.get("/events?stream=1").header("last-event-id", id).await.invalid("Last-Event-ID");
    }
    page(&w.ann.api, "after=&limit=&conversation_id=&summary=&stream=").await;
}

async fn positions_outside_what_is_kept_are_refused(w: World) {
    let newest = newest(&w).await;
    for after in [newest + 1, (1 << 53) + 1, i64::MAX] {
        w.ann.api.get(&format!("/events?after={after}")).await.refused(400, "invalid_cursor");
        refusal(stream::open(&w.ann.api, &format!("stream=1&after={after}")).await).refused(400, "invalid_cursor");
    }
    let empty = page(&w.ann.api, &format!("after={newest}")).await;
    assert_eq!(empty, json!({"items": [], "next_after": newest, "more": false}));
    let error = w.owner_client().list_events(EventOptions::new().after(newest + 1)).await.unwrap_err();
    assert_eq!(error.code(), Some(&beepgrid::ErrorCode::InvalidCursor));
    let mut events = w.owner_client().events(EventOptions::new().after(newest + 1));
    let error = events.next().await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.position()), (Some(&beepgrid::ErrorCode::InvalidCursor), Some(newest + 1)));
    assert!(events.next().await.is_none());
}

async fn the_larger_of_after_and_last_event_id_wins(w: World) {
    for _ in 0..3 {
        w.send(&w.builder.api, &w.ann.target(), "m").await;
    }
    let events = sequences(&of_kind(&all(&w.ann.api, "").await, "message.created"));
    let first = |after: i64, id: String| {
        let api = w.ann.api.clone();
        async move {
            let mut stream =
                stream::open_with(&api, &format!("stream=1&after={after}"), &[("last-event-id", &id)]).await.unwrap();
            stream.event().await.unwrap().n("sequence")
        }
    };
    let (low, high) = (events[0], events[1]);
    assert!(first(low, high.to_string()).await > high);
    assert!(first(high, low.to_string()).await > high);
    let next = first(low, low.to_string()).await;
    assert!(next > low && next <= high);
    assert_eq!(first(low, String::new()).await, next);
    // A stream that nobody positions starts with the oldest.
    assert_eq!(first(0, "0".into()).await, sequences(&all(&w.ann.api, "").await)[0]);
}

async fn a_stream_is_chosen_by_parameter_or_media_type(w: World) {
    for (query, accept) in [
        ("stream=1", "*/*"),
        ("stream=true", "application/json"),
        ("", "text/event-stream"),
        ("", "application/json, Text/Event-Stream; q=0.5"),
        ("stream=1", "text/event-stream"),
    ] {
        let mut stream = stream::open_with(&w.ann.api, query, &[("accept", accept)]).await.unwrap();
        assert!(stream.event().await.is_some(), "{query} {accept}");
    }
    for (query, accept) in
        [("stream=0", "text/event-stream"), ("", "application/json"), ("", "text/event-stream;q=0"), ("", "*/*")]
    {
        w.ann.api.get(&format!("/events?{query}")).header("accept", accept).await.ok();
    }
}

async fn a_conversations_events_stand_alone(w: World) {
    let chat = chat(&w).await;
    w.say(&w.builder.api, &chat, "in the chat").await;
    let (direct, _) = w.send(&w.builder.api, &w.ann.target(), "elsewhere").await;
    let asked = w.builder.api.post("/requests", json!({"conversation_id": chat, "body": "Ready?"})).await.created().id();
    for api in [&w.ann.api, &w.owner.api] {
        let events = all(api, &format!("conversation_id={chat}")).await;
        assert!(events.iter().all(|event| event["conversation_id"] == json!(chat)));
        let kinds: Vec<String> = json!(events).each("kind");
        assert_eq!(kinds, ["conversation.created", "message.created", "message.created", "request.created"]);
        assert_eq!(events[3]["data"].id(), asked);
        assert_eq!(all(api, &format!("conversation_id={direct}")).await.len(), 2);
    }
    for id in [chat.as_str(), "cnv_none", "agt_1"] {
        w.bob.api.get(&format!("/events?conversation_id={id}")).await.not_found();
        refusal(stream::open(&w.bob.api, &format!("stream=1&conversation_id={id}")).await).not_found();
    }
    let mut stream = stream::open(&w.ann.api, &format!("stream=1&conversation_id={chat}&summary=1")).await.unwrap();
    for _ in 0..4 {
        assert_eq!(stream.event().await.unwrap()["conversation_id"], json!(chat));
    }
    w.send(&w.builder.api, &w.ann.target(), "elsewhere").await;
    w.say(&w.builder.api, &chat, "again").await;
    assert_eq!(stream.event().await.unwrap()["conversation_id"], json!(chat));
}

async fn a_stream_shows_what_happens(w: World) {
    let after = newest(&w).await;
    let mut stream = stream::open(&w.ann.api, &format!("stream=1&after={after}")).await.unwrap();
    let (conversation, message) = w.send(&w.builder.api, &w.ann.target(), "line\nbreaks\r and \u{2028} 👍").await;
    assert_eq!(stream.event().await.unwrap()["kind"], "conversation.created");
    let event = stream.event().await.unwrap();
    assert_eq!((event["data"].id(), event["data"].s("body")), (message, "line\nbreaks\r and \u{2028} 👍".to_owned()));
    w.say(&w.ann.api, &conversation, "and back").await;
    assert_eq!(stream.event().await.unwrap()["data"]["body"], "and back");
}

async fn hidden_events_move_the_cursor_alone(w: World) {
    let after = newest(&w).await;
    let mut stream = stream::open(&w.bob.api, &format!("stream=1&after={after}")).await.unwrap();
    w.send(&w.builder.api, &w.ann.target(), "not for bob").await;
    let newest = newest(&w).await;
    // Ten seconds come before anything is said; the clock stands still until here.
    w.advance(10);
    assert_eq!(stream.cursor().await, newest);
    w.advance(10);
    while stream.next().await != Some(Block::Comment) {}
}

async fn a_stream_is_rotated_cleanly(w: World) {
    let after = newest(&w).await;
    let mut stream = stream::open(&w.bob.api, &format!("stream=1&after={after}")).await.unwrap();
    assert_eq!(stream.next().await, Some(Block::Comment));
    w.send(&w.builder.api, &w.ann.target(), "not for bob").await;
    let newest = newest(&w).await;
    w.advance(15 * 60);
    assert_eq!(stream.rest().await.last(), Some(&Block::Cursor(newest)));
    // The client goes on without a word.
    let client = beepgrid::Client::new(&w.site.url, w.ann.api.token()).unwrap();
    let mut events = client.events(EventOptions::new().after(newest));
    for round in 0..3 {
        let body = format!("round {round}");
        w.send(&w.builder.api, &w.ann.target(), &body).await;
        let opened = events.next().await.unwrap().unwrap();
        assert_eq!(opened.kind, beepgrid::EventKind::ConversationCreated);
        assert_eq!(events.next().await.unwrap().unwrap().message().unwrap().body, body);
        w.advance(15 * 60);
    }
}

async fn a_principal_holds_eight_streams(w: World) {
    let (_, other) = credential(&w.owner.api, &w.ann.id, None).await;
    let mut held = Vec::new();
    for number in 0..8 {
        let api = if number % 2 == 0 { &w.ann.api } else { &other };
        held.push(stream::open(api, "stream=1").await.unwrap());
    }
    refusal(stream::open(&w.ann.api, "stream=1").await).refused(429, "rate_limited");
    assert!(stream::open(&w.bob.api, "stream=1").await.is_ok());
    page(&w.ann.api, "").await;
    held.pop();
    wait::until("a place is free again", || async { stream::open(&w.ann.api, "stream=1").await.ok() }).await;
}

async fn events_need_the_right_to_read(w: World) {
    w.ann.api.nobody().get("/events").await.refused(401, "unauthorized");
    let (_, narrow) = credential(&w.owner.api, &w.ann.id, Some(&["message"])).await;
    narrow.get("/events").await.forbidden();
    refusal(stream::open(&narrow, "stream=1").await).forbidden();
    let (_, reads) = credential(&w.owner.api, &w.ann.id, Some(&["read"])).await;
    page(&reads, "").await;
}

/// Ends within a second of `done`, without anything torn.
async fn ends_at_once(mut stream: stream::Stream, done: Instant) {
    stream.rest().await;
    assert!(done.elapsed() < Duration::from_secs(1), "{:?}", done.elapsed());
}

async fn open_quiet(w: &World, api: &Api, query: &str) -> stream::Stream {
    let after = newest(w).await;
    let mut stream = stream::open(api, &format!("stream=1&after={after}{query}")).await.unwrap();
    assert_eq!(stream.next().await, Some(Block::Comment));
    stream
}

async fn the_end_of_a_credential_ends_its_streams(w: World) {
    let (id, second) = credential(&w.owner.api, &w.ann.id, None).await;
    let (ending, mut going_on) = (open_quiet(&w, &second, "").await, open_quiet(&w, &w.ann.api, "").await);
    w.owner.api.post(&format!("/credentials/{id}/revoke"), json!({})).await.ok();
    ends_at_once(ending, Instant::now()).await;
    w.send(&w.builder.api, &w.ann.target(), "still here").await;
    assert!(going_on.event().await.is_some());
    // One that runs out by itself.
    let at = w.site.now().plus(Duration::from_millis(1_500));
    let body = json!({"principal_id": w.ann.id, "kind": "api", "name": "short", "expires_at": at.to_string()});
    let short = w.owner.api.post("/credentials", body).await.created();
    let mut ending = open_quiet(&w, &w.owner.api.with(&short.s("token")), "").await;
    ending.rest().await;
    let late = w.site.now().since(at);
    assert!(w.site.now() >= at && late < Duration::from_secs(1), "{late:?}");
}

async fn the_end_of_an_identity_ends_its_streams(w: World) {
    let (person, agent) = (open_quiet(&w, &w.ann.api, "").await, open_quiet(&w, &w.billing.api, "").await);
    w.set_disabled("people", &w.ann.id, true).await;
    ends_at_once(person, Instant::now()).await;
    w.set_disabled("agents", &w.billing.id, true).await;
    ends_at_once(agent, Instant::now()).await;
    refusal(stream::open(&w.ann.api, "stream=1").await).refused(401, "unauthorized");
}

async fn the_end_of_membership_ends_a_chats_stream(w: World) {
    let chat = chat(&w).await;
    let mut filtered = open_quiet(&w, &w.billing.api, &format!("&conversation_id={chat}")).await;
    let mut whole = open_quiet(&w, &w.billing.api, "").await;
    change(&w.ann.api, &chat, json!({"operation": "remove", "version": 1, "members": [w.billing.id]})).await.ok();
    let done = Instant::now();
    for stream in [&mut filtered, &mut whole] {
        let last = stream.event().await.unwrap();
        assert_eq!(
            (last["kind"].as_str(), &last["data"]),
            (Some("conversation.member_removed"), &json!({"id": chat, "principal_id": w.billing.id}))
        );
    }
    ends_at_once(filtered, done).await;
    refusal(stream::open(&w.billing.api, &format!("stream=1&conversation_id={chat}")).await).not_found();
    // The other goes on, with everything but the chat.
    w.say(&w.builder.api, &chat, "without billing").await;
    let (direct, _) = w.send(&w.builder.api, &w.billing.target(), "directly").await;
    assert_eq!(whole.event().await.unwrap()["conversation_id"], json!(direct));
}

async fn the_engines_stop_ends_streams_cleanly(mut w: World) {
    let stream = open_quiet(&w, &w.ann.api, "").await;
    w.site.stop().await;
    ends_at_once(stream, Instant::now()).await;
}
