use std::convert::Infallible;

use futures_util::{FutureExt as _, stream};
use proptest::prelude::*;

use super::*;

const LIMIT: usize = 16 * 1024 * 1024;

type Item = Result<Frame, FrameFault<Infallible>>;

fn parse(chunks: &[&[u8]], limit: usize) -> Vec<Item> {
    let chunks: Vec<Result<Bytes, Infallible>> = chunks.iter().map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    frames(stream::iter(chunks), limit).collect().now_or_never().expect("everything is there")
}

#[expect(clippy::unnecessary_wraps, reason = "it is compared with items")]
fn frame(event: &str, data: &str) -> Item {
    Ok(Frame { event: event.into(), data: data.into() })
}

/// Streams and what is in them, from the format's description.
fn cases() -> Vec<(&'static str, Vec<Item>)> {
    let one = || vec![frame("message", "one")];
    vec![
        ("data: one\n\n", one()),
        ("data:one\n\n", one()),
        ("data: one\r\n\r\n", one()),
        ("data: one\r\r", one()),
        ("data: one\r\n\n", one()),
        ("data: one\n\r\n", one()),
        ("data: one\r\ndata: two\r\r", vec![frame("message", "one\ntwo")]),
        ("\u{FEFF}data: one\n\n", one()),
        ("\u{FEFF}\u{FEFF}data: one\n\n", vec![]),
        ("\n\n\ndata: one\n\n\n\n", one()),
        (": comment\n\ndata: one\n\n: more\n\n", one()),
        (": comment\ndata: one\n: more\n\n", one()),
        (":\n:\n:\ndata: one\n\n", one()),
        ("id: 7\ndata: one\n\n", one()),
        ("id: 7\ndata: one\n\ndata: two\n\n", vec![frame("message", "one"), frame("message", "two")]),
        ("event: cursor\ndata: {}\n\ndata: one\n\n", vec![frame("cursor", "{}"), frame("message", "one")]),
        ("event: cursor\n\ndata: one\n\n", one()),
        ("id: 7\n\ndata: one\n\n", one()),
        ("retry: 15\n\ndata: one\n\n", one()),
        ("data\n\n", vec![frame("message", "")]),
        ("data:\ndata:\n\n", vec![frame("message", "\n")]),
        ("data:  one\n\n", vec![frame("message", " one")]),
        ("data : one\n\n", vec![]),
        ("other: one\n\n", vec![]),
        ("data: one", vec![]),
        ("data: one\n", vec![]),
        ("id: 42\ndata: one\r", vec![]),
        ("data: \u{00E9}\u{20AC}\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}\n\n", vec![frame("message", "é€👨‍👩‍👧")]),
        ("data: a\u{FEFF}b\n\n", vec![frame("message", "a\u{FEFF}b")]),
    ]
}

#[test]
fn every_cut_gives_the_same_frames() {
    for (text, expected) in cases() {
        let bytes = text.as_bytes();
        assert_eq!(parse(&[bytes], LIMIT), expected, "{text:?}");
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(parse(&single, LIMIT), expected, "{text:?} byte by byte");
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(parse(&[head, b"", tail], LIMIT), expected, "{text:?} cut at {cut}");
        }
    }
}

#[test]
fn a_broken_byte_is_one_fault_and_the_rest_goes_on() {
    for broken in [&b"\xFF"[..], b"\xC3", b"\xE2\x82", b"\xF0\x9F\x91", b"\xED\xA0\x80"] {
        let bytes = [b"id: 6\ndata: one\n\nid: 7\ndata: {\"a\":\"", broken, b"\"}\n\nid: 8\ndata: two\n\n"].concat();
        let expected = vec![frame("message", "one"), Err(FrameFault::NotUtf8 { id: Some(7) }), frame("message", "two")];
        assert_eq!(parse(&[&bytes], LIMIT), expected);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(parse(&single, LIMIT), expected);
    }
    assert_eq!(parse(&[b"data: \xFF\n\n"], LIMIT), [Err(FrameFault::NotUtf8 { id: None })]);
    assert_eq!(parse(&[b"id: x\ndata: \xFF\n\n"], LIMIT), [Err(FrameFault::NotUtf8 { id: None })]);
    // In a comment it hurts nobody.
    assert_eq!(parse(&[b": \xFF\ndata: one\n\n"], LIMIT), [frame("message", "one")]);
}

#[test]
fn a_block_beyond_the_limit_ends_the_stream() {
    let long = format!("data: {}\n\n", "x".repeat(100));
    assert_eq!(parse(&[long.as_bytes(), b"data: one\n\n"], 64), [Err(FrameFault::TooLarge)]);
    assert_eq!(parse(&[b"data: one\n\n", long.as_bytes()], 64), [frame("message", "one"), Err(FrameFault::TooLarge)]);
    // Many lines are a block as well, and so is a line without an end.
    assert_eq!(parse(&["data: x\n".repeat(20).as_bytes()], 64), [Err(FrameFault::TooLarge)]);
    assert_eq!(parse(&["data: x".repeat(20).as_bytes()], 64), [Err(FrameFault::TooLarge)]);
    // Many small ones are not, nor are any number of comments.
    assert_eq!(parse(&["data: x\n\n".repeat(20).as_bytes()], 64).len(), 20);
    assert_eq!(parse(&[": still here\n".repeat(200).as_bytes(), b"data: one\n\n"], 64), [frame("message", "one")]);
}

#[test]
fn large_blocks_and_many_small_ones_take_time_in_proportion() {
    let begin = std::time::Instant::now();
    let large = format!("data: {}\n\n", "x".repeat(8 * 1024 * 1024));
    assert_eq!(parse(&[large.as_bytes()], LIMIT).len(), 1);
    assert_eq!(parse(&["data: x\n\n".repeat(32_000).as_bytes()], LIMIT).len(), 32_000);
    // Without the guard each of them takes 18 seconds.
    assert!(begin.elapsed() < std::time::Duration::from_secs(8), "{:?}", begin.elapsed());
}

#[test]
fn a_body_that_fails_says_so_after_what_came() {
    let chunks = vec![Ok(Bytes::from_static(b"data: one\n\ndata: tw")), Err("cut")];
    let items: Vec<_> = frames(stream::iter(chunks), LIMIT).take(2).collect::<Vec<_>>().now_or_never().unwrap();
    assert_eq!(items, [Ok(Frame { event: "message".into(), data: "one".into() }), Err(FrameFault::Body("cut"))]);
}

/// The frames of a whole text, by the format's rules and without any of the code above.
fn reference(text: &str) -> Vec<(String, String)> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let mut frames = Vec::new();
    let (mut event, mut data) = (String::new(), String::new());
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines.pop(); // what has no end
    for line in lines {
        if line.is_empty() {
            if !data.is_empty() {
                data.pop();
                frames.push((if event.is_empty() { "message".to_owned() } else { event.clone() }, data.clone()));
            }
            (event, data) = (String::new(), String::new());
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut event),
            "data" => data.extend([value, "\n"]),
            _ => {}
        }
    }
    frames
}

proptest! {
    #[test]
    fn random_streams_in_random_pieces_read_like_the_format_says(
        blocks in proptest::collection::vec(
            ("(: ?[a-z]{0,3}|id: ?[0-9]{1,3}|event: ?[a-z]{0,4}|[a-z]{1,6}: x)?", "(data: [ a-zé€😀:]{0,8})?", 0_usize..3),
            0..12,
        ),
        mark in any::<bool>(),
        cuts in proptest::collection::vec(0_usize..400, 0..12),
    ) {
        let mut text = String::from(if mark { "\u{FEFF}" } else { "" });
        for (line, data, end) in blocks {
            let end = ["\n", "\r", "\r\n"][end];
            for line in [line, data].iter().filter(|line| !line.is_empty()) {
                text.extend([line.as_str(), end]);
            }
            text.push_str(end);
        }
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= bytes.len()).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let found: Vec<(String, String)> =
            parse(&pieces, LIMIT).into_iter().map(|item| item.unwrap()).map(|frame| (frame.event, frame.data)).collect();
        prop_assert_eq!(found, reference(&text));
    }

    #[test]
    fn no_bytes_panic_or_hang(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0_usize..300) {
        let cut = cut.min(bytes.len());
        let (head, tail) = bytes.split_at(cut);
        parse(&[head, tail], 128);
    }
}
