//! Forms cut, split and bent in every way.

use std::convert::Infallible;

use axum::http::HeaderValue;

use super::*;

const HEADERS: &str = "Content-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain";

fn form(headers: &str, content: &[u8]) -> Vec<u8> {
    [format!("--XX\r\n{headers}\r\n\r\n").as_bytes(), content, b"\r\n--XX--\r\n"].concat()
}

fn request(body: Body) -> Request {
    Request::builder().header(CONTENT_TYPE, "multipart/form-data; boundary=XX").body(body).unwrap()
}

async fn whole(body: Vec<u8>) -> Result<Received, Refusal> {
    receive(request(Body::from(body))).await
}

async fn in_chunks(body: &[u8], size: usize) -> Result<Received, Refusal> {
    let chunks: Vec<_> = body.chunks(size).map(|chunk| Ok::<_, Infallible>(Bytes::copy_from_slice(chunk))).collect();
    receive(request(Body::from_stream(futures_util::stream::iter(chunks)))).await
}

fn problem(received: Result<Received, Refusal>) -> String {
    match received.unwrap_err() {
        Refusal::Invalid { field, message } => format!("{field}: {message}"),
        Refusal::TooLarge { .. } => "too large".to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_file_is_the_same_however_its_form_is_split() {
    let content = b"line\r\n--X\r\n--XY\r\r\n--\r\n-";
    let body = form(HEADERS, content);
    for size in 1..=body.len() {
        let file = in_chunks(&body, size).await.unwrap();
        assert_eq!((file.file_name.as_str(), file.media_type.as_str()), ("a.txt", "text/plain"));
        assert_eq!(file.bytes, content.as_slice(), "in chunks of {size}");
    }
    let file = whole([b"preamble\r\n", body.as_slice(), b"epilogue"].concat()).await.unwrap();
    assert_eq!(file.bytes, content.as_slice());
}

#[tokio::test]
async fn a_form_that_is_cut_anywhere_is_no_file() {
    let body = form(HEADERS, b"content");
    // The last two bytes are a line end after the form: without them it is whole.
    for length in 0..body.len() - 2 {
        assert!(whole(body[..length].to_vec()).await.is_err(), "{length} of {} bytes", body.len());
    }
    let cut = futures_util::stream::iter([Ok(Bytes::from(body)), Err(std::io::Error::other("gone"))]);
    assert!(receive(request(Body::from_stream(cut))).await.is_err(), "whole, and then broken off");
}

#[tokio::test]
async fn the_limit_counts_the_bytes_of_the_file_alone() {
    let long = HEADERS.replace("a.txt", &"ж".repeat(20_000));
    for headers in [HEADERS, &long] {
        let content = vec![b'-'; MAX_ATTACHMENT_BYTES];
        let body = form(headers, &content);
        assert_eq!(whole(body.clone()).await.unwrap().bytes.len(), MAX_ATTACHMENT_BYTES);
        assert_eq!(in_chunks(&body, 60_000).await.unwrap().bytes.len(), MAX_ATTACHMENT_BYTES);
        let body = form(headers, &[content.as_slice(), b"-"].concat());
        assert_eq!(problem(whole(body.clone()).await), "too large");
        assert_eq!(problem(in_chunks(&body, 60_000).await), "too large");
    }
    assert!(problem(whole(form(HEADERS, b"")).await).starts_with("file:"));
    assert_eq!(whole(form(HEADERS, b"x")).await.unwrap().bytes, &b"x"[..]);
}

#[tokio::test]
async fn what_is_too_much_is_refused_before_it_is_held() {
    let endless = futures_util::stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[b'-'; 4096])));
    let start = Bytes::from(format!("--XX\r\n{HEADERS}\r\n\r\n"));
    let body = Body::from_stream(futures_util::stream::iter([Ok(start)]).chain(endless));
    assert_eq!(problem(receive(request(body)).await), "too large");
    let headers = format!("{HEADERS}\r\nX: {}", "x".repeat(MAX_HEADER_BYTES));
    assert!(problem(whole(form(&headers, b"x")).await).starts_with("file:"));
    assert!(problem(whole(vec![b'x'; 100_000]).await).starts_with("file:"));
    assert!(problem(whole([form(HEADERS, b"x"), vec![b'x'; 100_000]].concat()).await).starts_with("file:"));
}

#[tokio::test]
async fn exactly_one_part_named_file() {
    let part = |name: &str| format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"a\"\r\n\r\nx\r\n");
    for body in [
        "--XX--\r\n".to_owned(),
        format!("{}{}--XX--\r\n", part("file"), part("file")),
        format!("{}{}--XX--\r\n", part("file"), part("note")),
        format!("{}--XX--\r\n", part("note")),
        format!("{}--XX--\r\n", part("")),
        "--XX\r\n\r\nx\r\n--XX--\r\n".to_owned(),
        "--XXY\r\n\r\nx\r\n--XX--\r\n".to_owned(),
        "{}".to_owned(),
        String::new(),
    ] {
        assert!(problem(whole(body.clone().into_bytes()).await).starts_with("file:"), "{body}");
    }
    for wrong in [None, Some("application/json"), Some("multipart/form-data"), Some("multipart/mixed; boundary=XX")] {
        let mut request = request(Body::from(form(HEADERS, b"x")));
        request.headers_mut().remove(CONTENT_TYPE);
        if let Some(wrong) = wrong {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(wrong));
        }
        assert!(matches!(receive(request).await, Err(Refusal::Conflict { .. })), "{wrong:?}");
    }
}

#[test]
fn names_keep_their_letters_however_they_are_written() {
    let name = |filename: &str| {
        let headers = format!("\r\ncontent-disposition:form-data;  NAME=file ; {filename}\r\nX-Other: y");
        Part::parse(headers.as_bytes()).map(|part| part.file_name)
    };
    for (written, read) in [
        ("filename=\"Отчёт 📊.pdf\"", "Отчёт 📊.pdf"),
        ("filename*=UTF-8''%D0%9E%20%F0%9F%93%8A.pdf", "О 📊.pdf"),
        ("filename=\"x.pdf\"; filename*=utf-8'ru'%D0%9E.pdf", "О.pdf"),
        (r#"filename="say \"hi\"; a.txt""#, "say \"hi\"; a.txt"),
        ("filename=\"say %22hi%22.txt\"", "say \"hi\".txt"),
        ("filename=\"a%0D%0AX: y\"", "aX_ y"),
        (r#"filename="C:\temp\new.txt""#, "new.txt"),
        (r#"filename="C:\\temp\\new.txt""#, "new.txt"),
        ("filename=plain.txt", "plain.txt"),
        ("filename=\"100%25.txt\"", "100%25.txt"),
        ("filename=\"\"", "file"),
        ("x=y", "file"),
    ] {
        assert_eq!(name(written).unwrap(), read, "{written}");
    }
    for wrong in ["filename*=UTF-8''a%00b", "filename=\"a\0b\"", "filename*=UTF-8''%FF", "filename*=latin1''a", "filename*=a"] {
        assert!(name(wrong).is_err(), "{wrong:?}");
    }
    let broken = [b"Content-Disposition: form-data; name=file; filename=\"".as_slice(), b"\xFF\""].concat();
    assert!(Part::parse(&broken).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_form_that_stands_still_is_refused() {
    let silent = futures_util::stream::pending::<Result<Bytes, Infallible>>();
    let start = Ok(Bytes::from(format!("--XX\r\n{HEADERS}\r\n\r\nabc")));
    let body = Body::from_stream(futures_util::stream::iter([start]).chain(silent));
    assert!(problem(receive(request(body)).await).starts_with("file:"));
}
