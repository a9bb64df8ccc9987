//! What gets into the log: enough to follow, and never the token.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use beepgrid::{CancellationToken, EnrollInput, RunOptions};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::peer::{Peer, Reply};
use super::{TOKEN, client, message};

/// Writes everything down, whatever its level and whoever says it.
#[derive(Clone, Default)]
struct Everything(Arc<Mutex<String>>);

struct Writer<'a>(&'a mut String);

impl Visit for Writer<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Writer(&mut self.0.lock().unwrap()));
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Writer(&mut self.0.lock().unwrap()));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut Writer(&mut self.0.lock().unwrap()));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn no_token_is_ever_logged() {
    let log = Everything::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let fresh = "bgt_fresh_9876543210";
    let peer = Peer::replies(vec![
        Reply::Close,
        Reply::Close,
        Reply::Close,
        Reply::json(201, &format!(r#"{{"token":"{fresh}"}}"#)),
        Reply::Close,
        Reply::error(503, "unavailable"),
        Reply::ok(r#"[{"id":"dlv_1","generation":1}]"#),
        Reply::error(401, "unauthorized"),
    ])
    .await;
    let client = client(&peer.url);
    client.send(message()).await.unwrap_err();
    client.enroll(EnrollInput::new("a/b", "B")).await.unwrap_err();
    let never = |_| async { Ok::<_, std::io::Error>(()) };
    client.run_with(RunOptions::new().renew(false), CancellationToken::new(), never).await.unwrap_err();
    let log = log.0.lock().unwrap();
    assert!(log.contains("sending again") && log.contains("left to the engine"), "{log}");
    assert!(!log.contains(TOKEN) && !log.contains(fresh), "{log}");
}
