//! Files through the SDK: from real engines and from one that lies; and the bytes after a kill.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use beepgrid::{AttachmentId, Client, ErrorCode, ErrorKind, SendInput, Target};
use beepgrid_tests::on_both_stores;
use beepgrid_tests::proxy::{Fault, Proxy};
use beepgrid_tests::raw::{Api, Members};
use beepgrid_tests::stores::{Kind, Place, Site, is_missing};
use beepgrid_tests::world::World;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::stage;
use crate::kill::start;

on_both_stores!(bytes_of_every_kind_come_back, an_upload_is_sent_once);

fn client(api: &Api) -> Client {
    Client::new(api.url(), api.token()).unwrap()
}

async fn bytes_of_every_kind_come_back(w: World) {
    let (builder, billing) = (client(&w.builder.api), client(&w.billing.api));
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).chain(*b"\r\n--beepgrid-\r\n").collect();
    let draft = builder.stage_attachment("Отчёт \"1\"\r\n📊.bin", "application/pdf", &bytes).await.unwrap();
    assert_eq!((draft.file_name.as_str(), draft.media_type.as_str()), ("Отчёт \"1\"📊.bin", "application/pdf"));
    assert_eq!(draft.size, 100_015);
    let sent =
        builder.send(SendInput::to(Target::agent(&w.billing.id), "").attachment_ids(vec![draft.id.clone()])).await.unwrap();
    let listed = billing.attachments(&sent.conversation_id).await.unwrap();
    assert_eq!(listed, sent.messages[0].attachments);
    assert_eq!(billing.attachment(&draft.id).await.unwrap(), listed[0]);
    assert_eq!(billing.download_attachment(&draft.id).await.unwrap(), bytes);
    let uploaded = billing.upload_attachment(&sent.conversation_id, "notes.txt", "", "Orders 241 and 242").await.unwrap();
    assert_eq!((uploaded.media_type.as_str(), uploaded.message_id), ("application/octet-stream", None));
    assert_eq!(builder.download_attachment(&uploaded.id).await.unwrap(), b"Orders 241 and 242");
    let hidden = client(&w.hidden.api).download_attachment(&draft.id).await.unwrap_err();
    assert_eq!(hidden.code(), Some(&ErrorCode::NotFound));
}

async fn an_upload_is_sent_once(w: World) {
    let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "hi").await;
    let proxy = Proxy::before(w.builder.api.url()).await;
    let builder = Client::new(proxy.url(), w.builder.api.token()).unwrap();
    for fault in [Fault::DropAnswer, Fault::CutBody, Fault::BadGateway] {
        let before = super::listed(&w.builder.api, &conversation).await.len();
        proxy.plan(&[fault]);
        let error = builder.upload_attachment(&conversation.as_str().into(), "a.txt", "", "abc").await.unwrap_err();
        assert!(error.is_outcome_unknown() && error.key().is_none(), "{fault:?}: {error:?}");
        assert_eq!(super::listed(&w.builder.api, &conversation).await.len(), before + 1, "{fault:?}");
    }
    let again = builder.upload_attachment(&conversation.as_str().into(), "a.txt", "", "abc").await.unwrap();
    assert_eq!(builder.download_attachment(&again.id).await.unwrap(), b"abc", "from the first byte");
    // A download is a read, and is sent again.
    proxy.plan(&[Fault::CutBody, Fault::DropAnswer]);
    assert_eq!(builder.download_attachment(&again.id).await.unwrap(), b"abc");
}

#[tokio::test]
async fn a_download_never_touches_what_is_there() {
    let w = World::open(Kind::Sqlite).await;
    let (api, folder) = (client(&w.builder.api), tempfile::tempdir().unwrap());
    let id = AttachmentId::new(stage(&w.builder.api, "new").await);
    let path = folder.path().join("a.txt");
    assert_eq!(api.download_to(&id, &path).await.unwrap(), 3);
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    let elsewhere = folder.path().join("elsewhere");
    let (link, dangling) = (folder.path().join("link"), folder.path().join("dangling"));
    std::fs::write(&elsewhere, "old").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
    std::os::unix::fs::symlink(folder.path().join("nowhere"), &dangling).unwrap();
    for taken in [&elsewhere, &link, &dangling, &folder.path().to_owned()] {
        let error = api.download_to(&id, taken).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::File, "{error:?}");
    }
    assert_eq!(std::fs::read(&elsewhere).unwrap(), b"old");
    assert!(!folder.path().join("nowhere").exists());
    let missing = api.download_to(&"att_never".into(), folder.path().join("b.txt")).await.unwrap_err();
    assert_eq!(missing.code(), Some(&ErrorCode::NotFound));
    assert_eq!(api.download_to(&id, folder.path().join("no/such/folder")).await.unwrap_err().kind(), ErrorKind::File);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "a failed download leaves nothing");
}

/// An engine that answers every request with these headers and this body; counts them.
async fn liar(headers: String, body: Vec<u8>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{headers}\r\n");
            let body = body.clone();
            tokio::spawn(async move {
                let mut request = [0; 4_096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
            });
        }
    });
    (url, asked)
}

const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[tokio::test]
async fn a_name_from_the_engine_is_never_a_path() {
    let folder = tempfile::tempdir().unwrap();
    for (at, name) in ["../../evil", "/tmp/evil", r"C:\evil", "..", ".", "", "con", "a\u{202E}b"].into_iter().enumerate() {
        let headers = format!("Content-Disposition: attachment; filename=\"{name}\"\r\nETag: \"{ABC}\"\r\nContent-Length: 3\r\n");
        let (url, _) = liar(headers, b"abc".to_vec()).await;
        let inner = folder.path().join(format!("inner-{at}"));
        std::fs::create_dir(&inner).unwrap();
        let api = Client::new(url, "bgt_secret_0123456789").unwrap();
        api.download_to(&"att_1".into(), inner.join("chosen")).await.unwrap();
        let names: Vec<_> = std::fs::read_dir(&inner).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["chosen"], "{name:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), at + 1);
    }
}

#[tokio::test]
async fn bytes_without_their_digest_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let other = ABC.replace('b', "a");
    for headers in [format!("ETag: \"{other}\"\r\n"), "ETag: \"x\"\r\n".to_owned(), String::new()] {
        let (url, asked) = liar(format!("{headers}Content-Length: 3\r\n"), b"abc".to_vec()).await;
        let api = Client::new(url, "bgt_secret_0123456789").unwrap();
        let error = api.download_to(&"att_1".into(), folder.path().join("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
    let (url, _) = liar(format!("ETag: W/\"{ABC}\"\r\nContent-Length: 3\r\n"), b"abc".to_vec()).await;
    assert_eq!(Client::new(url, "bgt_secret_0123456789").unwrap().download_attachment(&"att_1".into()).await.unwrap(), b"abc");
    // More than a file can be: announced, and without a word.
    let much = vec![b'x'; 5 * 1024 * 1024 + 1];
    for length in [format!("Content-Length: {}\r\n", much.len()), String::new()] {
        let (url, _) = liar(format!("ETag: \"{ABC}\"\r\n{length}"), much.clone()).await;
        let api = Client::new(url, "bgt_secret_0123456789").unwrap();
        assert_eq!(api.download_to(&"att_1".into(), folder.path().join("a")).await.unwrap_err().kind(), ErrorKind::Decode);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

async fn bytes_survive_a_kill(kind: Kind) {
    let place = Place::fresh(kind).await;
    let running = start(&place).await;
    let w = World::populate(Site::remote(&running.url)).await;
    let contents: Vec<String> = (0..8).map(|at| format!("file {at} ").repeat(20_000)).collect();
    let uploads = contents.iter().map(|content| stage(&w.builder.api, content));
    let ids = futures_util::future::join_all(uploads).await;
    running.kill().await;

    let running = start(&place).await;
    let api = client(&w.builder.api.at(&running.url));
    for (id, content) in ids.iter().zip(&contents) {
        assert_eq!(api.download_attachment(&id.as_str().into()).await.unwrap(), content.as_bytes());
    }
    let claimed = ids.iter().take(5).map(|id| AttachmentId::new(id.as_str())).collect();
    let sent = api.send(SendInput::to(Target::agent(&w.billing.id), "").attachment_ids(claimed)).await.unwrap();
    assert_eq!(sent.messages[0].attachments.len(), 5);
    running.kill().await;
    if kind == Kind::SqliteFile {
        let folder = place.path().with_file_name("beepgrid.db.files");
        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        for file in std::fs::read_dir(&folder).unwrap() {
            assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_survive_a_kill_on_sqlite() {
    bytes_survive_a_kill(Kind::SqliteFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_survive_a_kill_on_postgres() {
    if is_missing(Kind::Postgres).await {
        return;
    }
    bytes_survive_a_kill(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_engine_reads_what_another_stored() {
    if is_missing(Kind::Postgres).await {
        return;
    }
    let w = World::real(Kind::Postgres).await;
    let draft = stage(&w.builder.api, "shared").await;
    let other = w.site.another().await;
    let there = w.builder.api.at(other.url());
    assert_eq!(there.get(&format!("/attachments/{draft}/content")).await.text, "shared");
    let body = serde_json::json!({"target": w.billing.target(), "body": "x", "attachment_ids": [draft]});
    assert_eq!(there.post("/messages", body).await.created()["messages"][0]["attachments"][0].id(), draft);
    other.stop().await;
}
