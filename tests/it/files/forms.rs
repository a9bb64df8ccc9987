//! Field reports B33, B34, B35 and B46: names, sizes and forms as they come from outside, byte by byte.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Api, Members};
use beepgrid_tests::wait::until;
use beepgrid_tests::world::World;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{form, stage, upload};

on_both_stores!(
    names_are_made_safe,
    text_with_nul_is_refused,
    sizes_count_the_file_alone,
    a_declared_length_that_lies_stores_nothing,
    exactly_one_file,
    a_cut_upload_stores_nothing,
    no_key_and_no_token,
);

const MAX: usize = 5 * 1024 * 1024;

/// How the length of a body is told.
#[derive(Clone, Copy, Debug)]
enum Framing {
    Declared(usize),
    Chunked,
}

/// Sends an upload by hand, up to `sent` bytes of its body, and returns what is answered, if anything.
async fn by_hand(api: &Api, framing: Framing, body: &[u8], sent: usize) -> Option<(u16, Value)> {
    let address = api.url().trim_start_matches("http://");
    let length = match framing {
        Framing::Declared(length) => format!("Content-Length: {length}"),
        Framing::Chunked => "Transfer-Encoding: chunked".to_owned(),
    };
    let head = format!(
        "POST /api/v1/attachments HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
         Content-Type: multipart/form-data; boundary=XX\r\n{length}\r\n\r\n",
        api.token()
    );
    let (mut reading, mut writing) = TcpStream::connect(address).await.unwrap().into_split();
    let whole = sent == body.len();
    let body = body[..sent].to_vec();
    let write = async move {
        writing.write_all(head.as_bytes()).await?;
        match framing {
            Framing::Declared(_) => writing.write_all(&body).await?,
            Framing::Chunked => {
                for chunk in body.chunks(60_000) {
                    writing.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await?;
                    writing.write_all(chunk).await?;
                    writing.write_all(b"\r\n").await?;
                }
                if whole {
                    writing.write_all(b"0\r\n\r\n").await?;
                }
            }
        }
        // Whoever has more to send than was declared goes away; otherwise the answer is waited for.
        let more_declared = matches!(framing, Framing::Declared(length) if length > body.len());
        if more_declared || !whole {
            writing.shutdown().await?;
        }
        Ok::<_, std::io::Error>(writing)
    };
    let read = async move {
        let mut answer = Vec::new();
        // A connection that is reset has given its answer before, or none.
        let _ = reading.read_to_end(&mut answer).await;
        answer
    };
    let (_, answer) =
        tokio::time::timeout(std::time::Duration::from_secs(60), async { tokio::join!(write, read) }).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let json = answer.split_once("\r\n\r\n").and_then(|(_, body)| body.get(body.find('{')?..=body.rfind('}')?));
    Some((status, serde_json::from_str(json?).unwrap()))
}

fn code(answer: Option<(u16, Value)>) -> (u16, String) {
    let (status, body) = answer.expect("an answer");
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

/// How many drafts the caller has, told by the limit on them.
async fn drafts(w: &World) -> usize {
    let api = &w.builder.api;
    let mut room = 0;
    while upload(api, "/attachments", "a", "x").await.status == 201 {
        room += 1;
    }
    100 - room
}

async fn names_are_made_safe(w: World) {
    let long = format!("{}.txt", "ж".repeat(300));
    let cut = format!("{}.txt", "ж".repeat(196));
    let pairs = [
        ("../../etc/passwd", "passwd"),
        ("/etc/passwd", "passwd"),
        (r"C:\Windows\evil.exe", "evil.exe"),
        (r"..\evil.exe", "evil.exe"),
        ("..", "file"),
        (".", "file"),
        ("", "file"),
        ("con.txt", "_con.txt"),
        ("invoice\u{202E}fdp.exe", "invoicefdp.exe"),
        ("Отчёт 📊.txt", "Отчёт 📊.txt"),
        ("say %22hi%22%0D%0AX: y.txt", "say \"hi\"X_ y.txt"),
        ("a\u{1b}[31m.txt", "a[31m.txt"),
        (long.as_str(), cut.as_str()),
    ];
    for (sent, kept) in pairs {
        let stored = upload(&w.builder.api, "/attachments", sent, "x").await.created();
        assert_eq!(stored.s("file_name"), kept, "{sent:?}");
        let content = w.builder.api.get(&format!("/attachments/{}/content", stored.id())).await;
        assert!(!content.headers.contains_key("x"), "{sent:?}");
        let disposition = content.header("content-disposition");
        assert!(
            disposition.starts_with("attachment; filename=\"") && disposition.contains("; filename*=UTF-8''"),
            "{disposition}"
        );
    }
    let nameless = b"--XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--XX--\r\n";
    let (status, stored) = by_hand(&w.builder.api, Framing::Chunked, nameless, nameless.len()).await.unwrap();
    assert_eq!((status, stored.s("file_name"), stored.s("media_type")), (201, "file".into(), "application/octet-stream".into()));
}

async fn text_with_nul_is_refused(w: World) {
    for (name, extended) in [("a\0b.txt", false), ("UTF-8''a%00b.txt", true)] {
        let body = String::from_utf8(form(name, "x")).unwrap();
        let body = if extended { body.replace(&format!("filename=\"{name}\""), &format!("filename*={name}")) } else { body };
        let (status, answer) = by_hand(&w.builder.api, Framing::Declared(body.len()), body.as_bytes(), body.len()).await.unwrap();
        assert_eq!((status, answer.s("code")), (400, "invalid_request".into()), "{answer}");
        assert!(answer.s("message").contains("file"));
    }
    let latin =
        form("PLACE", "x").iter().flat_map(|byte| if *byte == b'P' { vec![0xE4] } else { vec![*byte] }).collect::<Vec<_>>();
    assert_eq!(code(by_hand(&w.builder.api, Framing::Chunked, &latin, latin.len()).await), (400, "invalid_request".into()));
    assert_eq!(drafts(&w).await, 0);
}

async fn sizes_count_the_file_alone(w: World) {
    let long = "ж".repeat(10_000);
    for name in ["a.txt", &long] {
        for size in [0, 1, MAX - 1, MAX, MAX + 1] {
            let body = form(name, &"x".repeat(size));
            for framing in [Framing::Declared(body.len()), Framing::Chunked] {
                let answer = by_hand(&w.builder.api, framing, &body, body.len()).await;
                let expected = match size {
                    0 => (400, "invalid_request"),
                    _ if size > MAX => (413, "too_large"),
                    _ => (201, ""),
                };
                if expected.0 == 201 {
                    assert_eq!(answer.clone().unwrap().1["size"], size);
                }
                assert_eq!(code(answer), (expected.0, expected.1.to_owned()), "{size} bytes, {framing:?}");
            }
        }
    }
    // Refused by what is declared, before anything is sent.
    let huge = by_hand(&w.builder.api, Framing::Declared(1 << 40), b"", 0).await;
    assert_eq!(code(huge), (413, "too_large".into()));
    let much = form("a.txt", &"x".repeat(2 * MAX));
    assert_eq!(code(by_hand(&w.builder.api, Framing::Declared(much.len()), &much, much.len()).await), (413, "too_large".into()));
    assert_eq!(code(by_hand(&w.builder.api, Framing::Chunked, &much, much.len()).await), (413, "too_large".into()));
}

async fn a_declared_length_that_lies_stores_nothing(w: World) {
    let body = form("a.txt", &"x".repeat(10_000));
    for declared in [body.len() + 1, body.len() + 10_000, body.len() * 2] {
        let answer = by_hand(&w.builder.api, Framing::Declared(declared), &body, body.len()).await;
        assert!(answer.as_ref().is_none_or(|(status, _)| *status == 400), "{declared}: {answer:?}");
    }
    for declared in [1, 50, body.len() / 2, body.len() - 3] {
        let answer = by_hand(&w.builder.api, Framing::Declared(declared), &body, body.len()).await;
        assert!(answer.as_ref().is_none_or(|(status, _)| *status == 400), "{declared}: {answer:?}");
    }
    assert_eq!(drafts(&w).await, 0);
}

async fn exactly_one_file(w: World) {
    let part = "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n";
    let other = part.replace("\"file\"", "\"note\"");
    for body in [
        format!("{part}{part}--XX--\r\n"),
        format!("{part}{other}--XX--\r\n"),
        format!("{other}--XX--\r\n"),
        "--XX--\r\n".into(),
        String::new(),
    ] {
        let answer = by_hand(&w.builder.api, Framing::Declared(body.len()), body.as_bytes(), body.len()).await;
        assert_eq!(code(answer), (400, "invalid_request".into()), "{body}");
    }
    w.builder.api.post("/attachments", serde_json::json!({"file": "x"})).await.refused(415, "unsupported_media_type");
    assert_eq!(drafts(&w).await, 0);
}

async fn a_cut_upload_stores_nothing(w: World) {
    let body = form("a.txt", &"x".repeat(1_000_000));
    for framing in [Framing::Declared(body.len()), Framing::Chunked] {
        for percent in [0, 50, 99] {
            let answer = by_hand(&w.builder.api, framing, &body, body.len() * percent / 100).await;
            assert!(answer.as_ref().is_none_or(|(status, _)| *status == 400), "{percent}: {answer:?}");
        }
    }
    // The next try sends everything from the first byte.
    let (status, stored) = by_hand(&w.builder.api, Framing::Chunked, &body, body.len()).await.unwrap();
    assert_eq!((status, stored.n("size")), (201, 1_000_000));
    let content = w.builder.api.get(&format!("/attachments/{}/content", stored.id())).await;
    assert_eq!(content.text.len(), 1_000_000);
    assert_eq!(drafts(&w).await, 1, "a cut upload is no draft");
}

async fn no_key_and_no_token(w: World) {
    let call =
        w.builder.api.call(reqwest::Method::POST, "/attachments").header("content-type", "multipart/form-data; boundary=XX");
    call.key("k").bytes(form("a", "x")).await.invalid("Idempotency-Key");
    upload(&w.builder.api.nobody(), "/attachments", "a", "x").await.refused(401, "unauthorized");
    // Refused before the body comes.
    let early = by_hand(&w.builder.api.with("bgt_nobody_knows_this_token"), Framing::Declared(MAX), b"", 0).await;
    assert_eq!(code(early), (401, "unauthorized".into()));
    let draft = stage(&w.builder.api, "x").await;
    until("the draft is there", || async {
        (w.builder.api.get(&format!("/attachments/{draft}")).await.status == 200).then_some(())
    })
    .await;
}
