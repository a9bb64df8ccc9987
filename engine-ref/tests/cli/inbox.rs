//! inbox list, show, resolve (field report B22).

use std::fs;

use beepgrid::{DeliveryId, Timestamp};
use beepgrid_receiver::inbox::{NextState, StateChange};
use beepgrid_receiver::{HeldReason, InboxStore as _, InputState, SqliteInbox};
use serde_json::json;

use crate::support::World;

/// An inbox with one delivery that waits for a person and one that waits for its turn.
async fn prepared(world: &World) -> (String, String) {
    for body in ["first", "second"] {
        world.run("builder", &["send", "agent", "team/billing-2", body]).await.json();
    }
    let inbox = SqliteInbox::open(world.path("inbox")).await.expect("an inbox");
    let deliveries = world.billing.inbox(beepgrid::InboxInput::new()).await.expect("leased");
    let ids: Vec<DeliveryId> = deliveries.iter().map(|delivery| delivery.id.clone()).collect();
    let now = Timestamp::from_micros(1);
    inbox.put(deliveries.into_iter().map(Into::into).collect(), now).await.expect("stored");
    let revision = inbox.get(ids[0].clone()).await.expect("read").expect("there").revision;
    let held = NextState::Held { state: InputState::Pending, reason: HeldReason::TooManyAttempts, detail: "refused".to_owned() };
    inbox.set_state(vec![StateChange { id: ids[0].clone(), revision, to: held }], now).await.expect("held");
    inbox.close().await.expect("closed");
    (ids[0].to_string(), ids[1].to_string())
}

#[tokio::test]
async fn held_input_is_listed_shown_and_settled() {
    let world = World::start().await;
    let (held, waiting) = prepared(&world).await;
    let listed = world.run("builder", &["inbox", "list", "inbox"]).await.json();
    assert_eq!(listed["counts"], json!({"pending": 1, "submitting": 0, "held": 1, "rows": 2}));
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(2));
    let listed = world.run("builder", &["inbox", "list", "--held", "inbox/inbox.db"]).await.json();
    assert_eq!((&listed["items"][0]["id"], &listed["items"][0]["held"]["reason"]), (&json!(held), &json!("too_many_attempts")));
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1));
    let shown = world.run("builder", &["inbox", "show", "inbox", &held]).await.json();
    assert_eq!(
        (&shown["delivery"]["payload"]["message"]["body"], &shown["held"]["detail"]),
        (&json!("first"), &json!("refused"))
    );
    let settled = world.run("builder", &["inbox", "resolve", "inbox", &held, "retry"]).await.json();
    assert_eq!((&settled["state"], &settled["held"]), (&json!("pending"), &json!(null)));
    world.run("builder", &["inbox", "resolve", "inbox", &held, "discard"]).await.fails(1, "not_held");
    world.run("builder", &["inbox", "resolve", "inbox", &waiting, "accepted"]).await.fails(1, "not_held");
    world.run("builder", &["inbox", "show", "inbox", "dlv_none"]).await.fails(1, "not_found");
    world.run("builder", &["inbox", "resolve", "inbox", "dlv_none", "retry"]).await.fails(1, "not_found");
    world.run("builder", &["inbox", "resolve", "inbox", &held, "maybe"]).await.fails(2, "usage");
}

#[tokio::test]
async fn an_inbox_in_use_is_said_to_be_and_one_that_is_not_there_is_not_made() {
    let world = World::start().await;
    let (held, _) = prepared(&world).await;
    let inbox = SqliteInbox::open(world.path("inbox")).await.expect("a receiver's");
    world.run("builder", &["inbox", "list", "inbox"]).await.fails(1, "inbox_in_use");
    world.run("builder", &["inbox", "resolve", "inbox", &held, "discard"]).await.fails(1, "inbox_in_use");
    assert_eq!(inbox.counts().await.expect("the receiver goes on").held, 1);
    drop(inbox);
    world.run("builder", &["inbox", "resolve", "inbox", &held, "discard"]).await.json();
    for missing in ["nothing", "builder", "inbox/inbox.lock"] {
        world.run("builder", &["inbox", "list", missing]).await.fails(2, "not_an_inbox");
    }
    assert!(!world.path("nothing").exists());
    fs::create_dir(world.path("damaged")).expect("a folder");
    fs::write(world.path("damaged/inbox.db"), "this is no database").expect("written");
    let damaged = world.run("builder", &["inbox", "list", "damaged"]).await;
    assert_eq!(damaged.exit, 1, "{}", damaged.stderr);
    assert_eq!(fs::read(world.path("damaged/inbox.db")).expect("there"), b"this is no database");
}
