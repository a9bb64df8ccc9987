//! Measures what the inbox costs on this machine: `cargo run --release -p beepgrid-receiver --features testing --example cost`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a program that prints numbers"
)]

use std::time::Instant;

use beepgrid::Timestamp;
use beepgrid_receiver::inbox::{Applied, NextState, StateChange, suite};
use beepgrid_receiver::{Attempt, InboxStore, LiveInput, Route, SqliteInbox};

/// Inputs that one measurement takes.
const INPUTS: u32 = 500;

fn now() -> Timestamp {
    Timestamp::from_micros(1)
}

fn inputs(name: &str, count: u32) -> Vec<LiveInput> {
    let input =
        |n: u32| suite::message_in(&format!("{name}{n}"), i64::from(n), &format!("c{}", n % 50), "A message of some length.");
    (0..count).map(input).collect()
}

async fn hand_over(inbox: &SqliteInbox, name: &str) {
    for n in 0..INPUTS {
        let id = || format!("{name}{n}").as_str().into();
        let stored = inbox.get(id()).await.unwrap().unwrap();
        let mark = NextState::Submitting(Attempt::new(1, "run", now(), Route::Start));
        let change = StateChange { id: id(), revision: stored.revision, to: mark };
        let Applied::Done { revision, .. } = inbox.set_state(vec![change], now()).await.unwrap()[0] else { return };
        inbox.set_state(vec![StateChange { id: id(), revision, to: NextState::Accepted }], now()).await.unwrap();
        inbox.counts().await.unwrap();
    }
}

fn show(what: &str, began: Instant, count: u32) {
    let micros = began.elapsed().as_micros() as f64 / f64::from(count);
    println!("{what:<60} {micros:>9.1} µs each");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = std::env::temp_dir().join(format!("beepgrid-cost-{}", std::process::id()));
    let inbox = SqliteInbox::open(&folder).await.unwrap();
    for waiting in [0, 10_000] {
        inbox.put(inputs(&format!("w{waiting}-"), waiting), now()).await.unwrap();
        let name = format!("m{waiting}-");
        let began = Instant::now();
        for batch in inputs(&format!("b{name}"), INPUTS).chunks(50) {
            inbox.put(batch.to_vec(), now()).await.unwrap();
        }
        show(&format!("store, 50 to a commit, {waiting} waiting"), began, INPUTS);
        inbox.put(inputs(&name, INPUTS), now()).await.unwrap();
        let began = Instant::now();
        hand_over(&inbox, &name).await;
        show(&format!("read, mark, accept and count, {waiting} waiting"), began, INPUTS);
        let began = Instant::now();
        for _ in 0..20 {
            inbox.open().await.unwrap();
        }
        show(&format!("look at everything open, {waiting} waiting"), began, 20);
    }
    let began = Instant::now();
    inbox.close().await.unwrap();
    drop(inbox);
    let again = SqliteInbox::open(&folder).await.unwrap();
    show("open the inbox again", began, 1);
    drop(again);
    std::fs::remove_dir_all(folder).unwrap();
}
