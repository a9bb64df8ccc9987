//! `run` on real sockets: what goes over the wire, and that cuts lose nothing. Its rules are tested on a virtual clock beside the code.

use std::sync::Mutex;
use std::time::Duration;

use beepgrid::{CancellationToken, Client, ErrorCode, ErrorKind, Handling, RunOptions};
use serde_json::json;

use super::client;
use super::peer::{Peer, Reply, Seen};

const DELIVERY: &str = r#"{"id":"dlv_1","generation":GEN,"kind":"message","attempt":1,"payload":{"type":"message","conversation_id":"cnv_1","message":{"id":"msg_1","conversation_id":"cnv_1","body":"Hello","sender_id":"agt_1"}}}"#;

fn delivery(generation: i64) -> String {
    DELIVERY.replace("GEN", &generation.to_string())
}

/// Answers the lease with `lease(number of the lease)` and everything else with success.
async fn engine(lease: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Peer {
    let leases = Mutex::new(0);
    Peer::start(move |_, seen| {
        if seen.target != "/api/v1/inbox/lease" {
            return Reply::ok("{}");
        }
        let mut leases = leases.lock().unwrap();
        *leases += 1;
        lease(*leases - 1)
    })
    .await
}

fn calls(peer: &Peer, end: &str) -> Vec<Seen> {
    peer.seen().into_iter().filter(|seen| seen.target.ends_with(end)).collect()
}

async fn run(client: &Client, cancel: &CancellationToken, handled: &Mutex<Vec<i64>>) -> Result<(), beepgrid::Error> {
    let options = RunOptions::new().renew(false);
    client
        .run_with(options, cancel.clone(), |handling: Handling| async move {
            handled.lock().unwrap().push(handling.delivery.generation);
            Ok::<_, std::io::Error>(())
        })
        .await
}

/// Stops the loop once the peer saw enough, within a limit.
async fn stop_when(peer: &Peer, cancel: &CancellationToken, enough: impl Fn(&Peer) -> bool) {
    let seen_enough = async {
        while !enough(peer) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), seen_enough).await.expect("the loop never got there");
    cancel.cancel();
}

#[tokio::test]
async fn it_polls_handles_and_acknowledges_without_keys() {
    let peer = engine(|n| if n == 0 { Reply::ok(&format!("[{}]", delivery(7))) } else { Reply::Silent }).await;
    let (client, cancel, handled) = (client(&peer.url), CancellationToken::new(), Mutex::new(Vec::new()));
    let (result, ()) =
        tokio::join!(run(&client, &cancel, &handled), stop_when(&peer, &cancel, |peer| calls(peer, "/inbox/lease").len() == 2));
    result.unwrap();
    assert_eq!(*handled.lock().unwrap(), [7]);
    assert_eq!(calls(&peer, "/inbox/lease")[0].json(), json!({"wait_ms": 15_000, "limit": 10}));
    let acks = calls(&peer, "/inbox/dlv_1/ack");
    assert_eq!(acks.iter().map(Seen::json).collect::<Vec<_>>(), [json!({"generation": 7})]);
    assert!(peer.seen().iter().all(|seen| seen.header("idempotency-key").is_none()));
}

#[tokio::test]
async fn a_lease_whose_answer_is_cut_off_is_handled_once_when_it_comes_again() {
    let peer = engine(|n| match n {
        0 => Reply::Cut(r#"[{"id":"dlv_1","generation":1,"payload":{"type":"message","conversation_id":"cnv_1"}}]"#),
        1 => Reply::ok("[]"),
        2 => Reply::ok(&format!("[{}]", delivery(2))),
        _ => Reply::Silent,
    })
    .await;
    let (client, cancel, handled) = (client(&peer.url), CancellationToken::new(), Mutex::new(Vec::new()));
    let (result, ()) =
        tokio::join!(run(&client, &cancel, &handled), stop_when(&peer, &cancel, |peer| calls(peer, "/inbox/lease").len() == 4));
    result.unwrap();
    assert_eq!(*handled.lock().unwrap(), [2]);
    assert_eq!(calls(&peer, "/ack").len(), 1);
}

#[tokio::test]
async fn half_a_surrogate_pair_does_not_end_the_loop() {
    let bad = delivery(1).replace("Hello", "\\ud83d").replace("dlv_1", "dlv_0");
    let peer = engine(move |n| match n {
        0 => Reply::ok(&format!("[{bad},{}]", delivery(1))),
        1 => Reply::ok("<html>no JSON at all</html>"),
        2 => Reply::ok(&format!("[{}]", delivery(3))),
        _ => Reply::Silent,
    })
    .await;
    let (client, cancel, handled) = (client(&peer.url), CancellationToken::new(), Mutex::new(Vec::new()));
    let (result, ()) =
        tokio::join!(run(&client, &cancel, &handled), stop_when(&peer, &cancel, |peer| calls(peer, "/inbox/lease").len() == 4));
    result.unwrap();
    assert_eq!(*handled.lock().unwrap(), [1, 3]);
    assert!(calls(&peer, "dlv_0/ack").is_empty() && calls(&peer, "dlv_0/release").is_empty());
}

#[tokio::test]
async fn a_stale_acknowledgement_is_neither_repeated_nor_a_failure() {
    let peer = Peer::start(|n, seen| {
        if seen.target.ends_with("/ack") {
            Reply::error(409, "stale_generation")
        } else if n == 0 {
            Reply::ok(&format!("[{}]", delivery(1)))
        } else {
            Reply::Silent
        }
    })
    .await;
    let (client, cancel, handled) = (client(&peer.url), CancellationToken::new(), Mutex::new(Vec::new()));
    let (result, ()) =
        tokio::join!(run(&client, &cancel, &handled), stop_when(&peer, &cancel, |peer| calls(peer, "/inbox/lease").len() == 2));
    result.unwrap();
    assert_eq!(calls(&peer, "/ack").len(), 1);
}

#[tokio::test]
async fn a_revoked_credential_ends_the_loop() {
    let peer = engine(|_| Reply::error(401, "unauthorized")).await;
    let (client, cancel, handled) = (client(&peer.url), CancellationToken::new(), Mutex::new(Vec::new()));
    let error = run(&client, &cancel, &handled).await.unwrap_err();
    assert_eq!(error.code(), Some(&ErrorCode::Unauthorized));
    assert_eq!(peer.seen().len(), 1);
}

#[tokio::test]
async fn a_failed_handler_gives_its_delivery_back() {
    let peer = engine(|_| Reply::ok(&format!("[{}]", delivery(4)))).await;
    let client = client(&peer.url);
    let error = client
        .run_with(RunOptions::new().renew(false), CancellationToken::new(), |_| async { Err(std::io::Error::other("no disk")) })
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Handler);
    assert_eq!(calls(&peer, "/inbox/dlv_1/release")[0].json(), json!({"generation": 4}));
    assert!(calls(&peer, "/ack").is_empty());
}

#[tokio::test]
async fn an_engine_that_is_away_is_found_again() {
    let peer = engine(|n| match n {
        0..6 => Reply::Close,
        6 => Reply::ok(&format!("[{}]", delivery(1))),
        _ => Reply::Silent,
    })
    .await;
    let (client, cancel, handled) = (client(&peer.url), CancellationToken::new(), Mutex::new(Vec::new()));
    let (result, ()) =
        tokio::join!(run(&client, &cancel, &handled), stop_when(&peer, &cancel, |peer| !calls(peer, "/ack").is_empty()));
    result.unwrap();
    assert_eq!(*handled.lock().unwrap(), [1]);
}
