//! The stream against a scripted engine on a virtual clock: field reports B06, B08 and B11.

use std::sync::Mutex;

use super::*;
use crate::error::ApiError;
use crate::model::{ErrorCode, EventKind};

/// What happens on one connection.
#[derive(Clone, Debug)]
enum Act {
    Bytes(Vec<u8>),
    Wait(Duration),
    /// The connection is lost.
    Cut,
    /// Nothing comes any more.
    Silence,
}

#[derive(Clone, Debug)]
enum Reply {
    Stream(Vec<Act>),
    Refusal(u16, &'static str, Option<Duration>),
    Unreachable,
}

#[derive(Clone)]
struct Script {
    replies: Arc<Mutex<std::collections::VecDeque<Reply>>>,
    /// Every connection: what it asked for, and when.
    asked: Arc<Mutex<Vec<(i64, Instant)>>>,
}

impl Script {
    /// Answers in this order, then says nothing on every further connection.
    fn new(replies: Vec<Reply>) -> Self {
        Self { replies: Arc::new(Mutex::new(replies.into())), asked: Arc::default() }
    }

    fn asked(&self) -> Vec<i64> {
        self.asked.lock().unwrap().iter().map(|(after, _)| *after).collect()
    }

    fn pauses(&self) -> Vec<Duration> {
        let times: Vec<Instant> = self.asked.lock().unwrap().iter().map(|(_, at)| *at).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    fn feed(&self, after: i64) -> Feed<Self> {
        Feed::new(self.clone(), after, Delays::LOOPS)
    }
}

impl Source for Script {
    async fn open(&self, after: i64) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error> {
        self.asked.lock().unwrap().push((after, Instant::now()));
        let reply = self.replies.lock().unwrap().pop_front();
        let acts = match reply {
            Some(Reply::Stream(acts)) => acts,
            Some(Reply::Refusal(status, code, retry_after)) => {
                let api = ApiError { code: ErrorCode::from(code), message: String::new(), status, request_id: None, retry_after };
                return Err(Error::new("events", None, false, Cause::Api(api)));
            }
            Some(Reply::Unreachable) => return Err(lost()),
            None => vec![Act::Silence],
        };
        Ok(stream::unfold(acts.into_iter(), |mut acts| async {
            loop {
                match acts.next()? {
                    Act::Bytes(bytes) => return Some((Ok(Bytes::from(bytes)), acts)),
                    Act::Wait(time) => sleep(time).await,
                    Act::Cut => return Some((Err(lost()), acts)),
                    Act::Silence => std::future::pending().await,
                }
            }
        })
        .boxed())
    }
}

/// A failure of the transport.
fn lost() -> Error {
    Error::new("events", None, false, Cause::Deadline(Duration::from_secs(20)))
}

fn text(text: impl Into<String>) -> Act {
    Act::Bytes(text.into().into_bytes())
}

fn event(sequence: i64) -> Act {
    text(format!(
        "id: {sequence}\ndata: {{\"sequence\":{sequence},\"kind\":\"message.created\",\"data\":{{\"id\":\"msg_1\"}}}}\n\n"
    ))
}

fn cursor(sequence: i64) -> Act {
    text(format!("event: cursor\ndata: {{\"sequence\": {sequence}}}\n\n"))
}

fn stream_of(acts: impl IntoIterator<Item = Act>) -> Reply {
    Reply::Stream(acts.into_iter().collect())
}

async fn sequences(feed: &mut Feed<Script>, count: usize) -> Vec<i64> {
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(feed.next().await.unwrap().unwrap().sequence);
    }
    found
}

/// Runs the feed until it has asked this often, and checks that it shows nothing meanwhile.
async fn until_asked(script: &Script, feed: &mut Feed<Script>, count: usize) {
    let enough = async {
        while script.asked().len() < count {
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        biased;
        item = feed.next() => panic!("{item:?}"),
        () = enough => {}
    }
}

#[tokio::test(start_paused = true)]
async fn drops_before_any_event_do_not_lose_the_position() {
    let script = Script::new(vec![
        stream_of([Act::Cut]),
        stream_of([text(": hello\n\n"), Act::Cut]),
        stream_of([event(42), Act::Silence]),
    ]);
    assert_eq!(sequences(&mut script.feed(41), 1).await, [42]);
    assert_eq!(script.asked(), [41, 41, 41]);
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_event_moves_nothing() {
    let unfinished = "id: 42\ndata: {\"sequence\":42,\"kind\":\"message.created\"}\n";
    for end in [None, Some(Act::Cut)] {
        let script =
            Script::new(vec![stream_of([text(unfinished)].into_iter().chain(end)), stream_of([event(42), Act::Silence])]);
        assert_eq!(sequences(&mut script.feed(41), 1).await, [42]);
        assert_eq!(script.asked(), [41, 41]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_moves_the_position_and_shows_nothing() {
    let script = Script::new(vec![
        stream_of([cursor(50), Act::Cut]),
        stream_of([event(51), cursor(60)]),
        stream_of([event(61), Act::Silence]),
    ]);
    let mut feed = script.feed(41);
    assert_eq!(sequences(&mut feed, 2).await, [51, 61]);
    assert_eq!(script.asked(), [41, 50, 60]);
    assert_eq!(feed.shown.load(Ordering::Relaxed), 61);
}

#[tokio::test(start_paused = true)]
async fn what_was_handed_over_does_not_come_twice() {
    let script = Script::new(vec![
        stream_of([event(42), event(41), event(42), cursor(40), event(43), Act::Cut]),
        stream_of([event(43), event(44), Act::Silence]),
    ]);
    assert_eq!(sequences(&mut script.feed(41), 3).await, [42, 43, 44]);
    assert_eq!(script.asked(), [41, 43]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_the_stream_with_the_position() {
    for (status, code) in [
        (401, "unauthorized"),
        (403, "forbidden"),
        (404, "not_found"),
        (400, "invalid_cursor"),
        (410, "cursor_expired"),
        (400, "invalid_request"),
    ] {
        let script = Script::new(vec![stream_of([event(42), Act::Cut]), Reply::Refusal(status, code, None)]);
        let mut feed = script.feed(41);
        assert_eq!(sequences(&mut feed, 1).await, [42]);
        let error = feed.next().await.unwrap().unwrap_err();
        assert_eq!((error.code(), error.position()), (Some(&ErrorCode::from(code)), Some(42)));
        assert!(feed.next().await.is_none());
        assert_eq!(script.asked().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn passing_refusals_are_waited_out_as_asked() {
    let asked = Some(Duration::from_secs(77));
    let script = Script::new(vec![
        Reply::Refusal(429, "rate_limited", asked),
        Reply::Refusal(503, "unavailable", asked),
        Reply::Refusal(500, "internal", None),
        Reply::Refusal(502, "", None),
        Reply::Refusal(408, "", None),
        Reply::Refusal(425, "", None),
        Reply::Unreachable,
        stream_of([event(1), Act::Silence]),
    ]);
    assert_eq!(sequences(&mut script.feed(0), 1).await, [1]);
    let pauses = script.pauses();
    assert_eq!(&pauses[..2], [Duration::from_secs(77); 2]);
    assert!(
        pauses[2..].iter().all(|pause| *pause >= Duration::from_millis(125) && *pause <= Duration::from_secs(30)),
        "{pauses:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_clean_end_after_a_while_is_a_rotation() {
    let quiet = stream_of((0..90).flat_map(|_| [Act::Wait(Duration::from_secs(10)), text(": alive\n\n")]));
    let busy = stream_of([event(42)]);
    let script = Script::new(vec![quiet, busy, stream_of([event(43), Act::Silence])]);
    assert_eq!(sequences(&mut script.feed(41), 2).await, [42, 43]);
    assert_eq!(script.asked(), [41, 41, 42]);
    assert_eq!(script.pauses(), [Duration::from_secs(900), Duration::ZERO]);
}

#[tokio::test(start_paused = true)]
async fn delays_grow_while_the_engine_only_accepts_and_closes() {
    let closing = || stream_of([text(": hello\n\n")]);
    let mut replies: Vec<Reply> = (0..50).map(|_| closing()).collect();
    replies.push(stream_of([event(42)]));
    replies.extend([closing(), stream_of([event(43), Act::Silence])]);
    let script = Script::new(replies);
    let began = Instant::now();
    assert_eq!(sequences(&mut script.feed(41), 2).await, [42, 43]);
    let pauses = script.pauses();
    assert_eq!(pauses.len(), 52);
    assert!(pauses[10..50].iter().all(|pause| *pause >= Duration::from_secs(15)), "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= Duration::from_secs(30)));
    // Fifty connections take the better part of twenty minutes, not a second.
    assert!(began.elapsed() > Duration::from_secs(600));
    // The event's own connection ended cleanly: at once. The next failure begins with the first delay.
    assert_eq!(pauses[50], Duration::ZERO);
    assert!(pauses[51] <= Duration::from_millis(375), "{:?}", pauses[51]);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_to_where_it_is_already_is_no_progress() {
    let script = Script::new((0..20).map(|_| stream_of([cursor(41)])).collect());
    until_asked(&script, &mut script.feed(41), 20).await;
    assert!(script.pauses()[12..].iter().all(|pause| *pause >= Duration::from_secs(15)));
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_dropped_and_resumed() {
    let script =
        Script::new(vec![stream_of([event(42), event(43), event(44), Act::Silence]), stream_of([event(45), Act::Silence])]);
    assert_eq!(sequences(&mut script.feed(41), 4).await, [42, 43, 44, 45]);
    assert_eq!(script.asked(), [41, 44]);
    let pause = script.pauses()[0];
    assert!(pause > SILENCE && pause < SILENCE + Duration::from_secs(1), "{pause:?}");
}

#[tokio::test(start_paused = true)]
async fn comments_alone_keep_it_connected_and_show_nothing() {
    let comments = (0..60).flat_map(|_| [Act::Wait(Duration::from_secs(10)), text(": alive\n\n")]);
    let script = Script::new(vec![stream_of(comments.chain([event(42), Act::Silence]))]);
    let began = Instant::now();
    assert_eq!(sequences(&mut script.feed(41), 1).await, [42]);
    assert_eq!(began.elapsed(), Duration::from_secs(600));
    assert_eq!(script.asked(), [41]);
}

#[tokio::test(start_paused = true)]
async fn bytes_without_a_line_end_are_life_too() {
    let drops = (0..12).flat_map(|_| [Act::Wait(Duration::from_secs(20)), text(".")]);
    let script =
        Script::new(vec![stream_of([text(":")].into_iter().chain(drops).chain([text("\n\n"), event(42), Act::Silence]))]);
    assert_eq!(sequences(&mut script.feed(41), 1).await, [42]);
    assert_eq!(script.asked(), [41]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_is_one_error_and_the_next_one_comes() {
    let half_pair = r#"data: {"sequence":42,"kind":"message.created","data":{"body":"\ud83d"}}"#;
    let fraction = r#"data: {"sequence":42,"kind":"message.created","created_at":"yesterday"}"#;
    let broken = b"id: 42\ndata: {\"sequence\":42,\"kind\":\"message.created\",\"data\":\"\xFF\"}".to_vec();
    for bad in [half_pair.as_bytes().to_vec(), fraction.as_bytes().to_vec(), broken] {
        let bad = Act::Bytes([bad, b"\n\n".to_vec()].concat());
        let script = Script::new(vec![stream_of([bad, Act::Cut]), stream_of([event(43), Act::Silence])]);
        let mut feed = script.feed(41);
        let error = feed.next().await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.position()), (crate::ErrorKind::Decode, Some(41)));
        assert_eq!(sequences(&mut feed, 1).await, [43]);
        assert_eq!(script.asked(), [41, 42], "it comes back neither as an event nor as an error");
    }
}

#[tokio::test(start_paused = true)]
async fn sequences_are_whole_numbers_and_keep_every_digit() {
    for sequence in [(1_i64 << 53) - 1, 1 << 53, (1 << 53) + 1, i64::MAX] {
        let script = Script::new(vec![stream_of([event(sequence), Act::Silence])]);
        assert_eq!(sequences(&mut script.feed(41), 1).await, [sequence]);
    }
    for wrong in ["1.0", "1e3", "\"42\"", "9223372036854775808", "null"] {
        for frame in [
            format!("data: {{\"sequence\":{wrong},\"kind\":\"x\"}}\n\n"),
            format!("event: cursor\ndata: {{\"sequence\":{wrong}}}\n\n"),
        ] {
            let script = Script::new(vec![stream_of([text(frame), Act::Silence])]);
            let error = script.feed(41).next().await.unwrap().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Decode, "{wrong}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn kinds_and_frames_of_a_newer_engine_hurt_nobody() {
    let newer = text(
        "event: hint\ndata: {\"sequence\": 99}\n\nid: 42\ndata: {\"sequence\":42,\"kind\":\"weather.changed\",\"more\":1}\n\n",
    );
    let script = Script::new(vec![stream_of([newer, Act::Silence])]);
    let event = script.feed(41).next().await.unwrap().unwrap();
    assert_eq!((event.sequence, event.kind), (42, EventKind::Other("weather.changed".into())));
}

#[tokio::test(start_paused = true)]
async fn a_frame_without_end_is_the_last_error() {
    let line = vec![b'x'; 1024 * 1024];
    let acts = [text("data: ")].into_iter().chain((0..17).map(|_| Act::Bytes(line.clone())));
    let script = Script::new(vec![stream_of(acts)]);
    let mut feed = script.feed(41);
    let error = feed.next().await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.position()), (crate::ErrorKind::Decode, Some(41)));
    assert!(feed.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn dropping_next_loses_nothing() {
    let script = Script::new(vec![stream_of([event(42), Act::Wait(Duration::from_secs(5)), event(43), Act::Silence])]);
    let mut events = EventStream::new(script.clone(), 41, Delays::LOOPS);
    assert_eq!(events.next().await.unwrap().unwrap().sequence, 42);
    assert!(timeout(Duration::from_secs(1), events.next()).await.is_err());
    assert_eq!(events.next().await.unwrap().unwrap().sequence, 43);
    assert_eq!((events.position(), script.asked()), (43, vec![41]));
}
