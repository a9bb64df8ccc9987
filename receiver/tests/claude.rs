//! The Claude binding against a scripted Claude: every way in, and a death of either side at every point.

#![cfg(feature = "claude")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use beepgrid::Timestamp;
use beepgrid_receiver::claude::{ClaudeBinding, ClaudeError, Permission};
use beepgrid_receiver::inbox::memory::MemoryInbox;
use beepgrid_receiver::{BusyMode, Clock, Handover, InputBinding as _, InputState, Receiver, Refusal, Submission};
use serde_json::json;
use support::claude::FakeClaude;
use support::claude_run::World;
use support::engine::FakeEngine;
use support::{about, message, until};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn an_input_opens_a_turn_and_is_accepted_when_the_transcript_has_it() {
    let world = World::new();
    world.fake.keep_transcript_back(true);
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    until("it is shown", async || run.fake.shown("m1", false) == 1).await;
    assert_eq!(run.state("m1").await, Some(InputState::Submitting));
    run.fake.keep_transcript_back(false);
    run.accepted("m1").await;
    run.fake.end_turn();
    let input = run.fake.inputs().pop().unwrap();
    assert_eq!(input["client_composed"], true, "a peer's text mentions files and commands for nobody to read or run");
    assert_eq!(input["isSynthetic"], true, "a peer's words are not the user's");
    assert!(input["message"]["content"][0]["text"].as_str().unwrap().starts_with("[beepgrid message m1 from"));
    run.stop().await;
}

#[tokio::test]
async fn steered_input_joins_the_turn_at_its_boundary() {
    let world = World::new();
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    run.deliver(message("m2", "a"));
    run.taken("m2").await;
    run.deliver(message("m3", "a"));
    run.taken("m3").await;
    assert_eq!(run.state("m2").await, Some(InputState::Submitting));
    run.fake.boundary();
    run.accepted("m2").await;
    run.accepted("m3").await;
    assert_eq!((run.fake.shown("m2", true), run.fake.shown("m3", true)), (1, 1));
    run.stop().await;
}

#[tokio::test]
async fn a_steer_that_races_with_the_end_of_the_turn_opens_the_next_one() {
    let world = World::new();
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    run.deliver(message("m2", "a"));
    run.deliver(message("m3", "b"));
    run.taken("m2").await;
    run.taken("m3").await;
    run.fake.end_turn();
    // Merged into one message by Claude; both are found.
    run.accepted("m2").await;
    run.accepted("m3").await;
    assert_eq!(run.fake.order(&["m1", "m2", "m3"]), ["m1", "m2", "m3"]);
    assert_eq!(run.fake.shown("m2", true), 0);
    run.stop().await;
}

#[tokio::test]
async fn a_steer_for_a_turn_that_is_over_is_refused() {
    let world = World::new();
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    let to = Handover::new(BusyMode::Steer, CancellationToken::new()).expected_turn(Some("an older turn".to_owned()));
    let answer = run.binding.submit(&message("m2", "a"), to).await;
    assert_eq!(answer, Submission::Refused(Refusal::TurnEnded));
    // And nothing becomes a second turn beside the running one.
    let to = Handover::new(BusyMode::Queue, CancellationToken::new());
    assert_eq!(run.binding.submit(&message("m2", "a"), to).await, Submission::Refused(Refusal::NotNow));
    run.arrived("m2", 0).await;
    run.stop().await;
}

#[tokio::test]
async fn queued_input_waits_for_the_idle_session_and_gets_turns_of_its_own() {
    let world = World::new();
    let run = world.run(BusyMode::Queue).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    run.deliver(message("m2", "b"));
    run.deliver(message("m3", "a"));
    until("both are stored", async || run.engine.acked("m2") && run.engine.acked("m3")).await;
    run.fake.boundary();
    assert_eq!(run.fake.inputs().len(), 1);
    run.fake.end_turn();
    run.accepted("m2").await;
    assert_eq!(run.fake.inputs().len(), 2);
    run.fake.end_turn();
    run.accepted("m3").await;
    assert!(run.fake.inputs().iter().all(|input| input["priority"] == "later"));
    run.stop().await;
}

#[tokio::test]
async fn what_the_host_s_user_says_goes_in_beside_and_makes_the_session_busy() {
    let world = World::new();
    let run = world.run(BusyMode::Queue).await;
    run.binding.ready().await.unwrap();
    run.binding.say("hello").await.unwrap();
    until("the turn runs", async || run.fake.inputs().len() == 1).await;
    run.deliver(message("m1", "a"));
    until("it is stored", async || run.engine.acked("m1")).await;
    run.fake.end_turn();
    run.accepted("m1").await;
    assert_eq!(run.fake.inputs()[0].get("isSynthetic"), None);
    run.stop().await;
}

// The death of Claude.

#[tokio::test]
async fn an_input_in_the_queue_of_a_claude_that_died_is_handed_over_again() {
    let world = World::new();
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    run.deliver(message("m2", "a"));
    run.taken("m2").await;
    run.fake.die();
    run.accepted("m2").await;
    assert_eq!((run.fake.shown("m1", false), run.fake.shown("m2", false)), (1, 1));
    let launches = run.fake.launches();
    assert_eq!(launches.iter().map(|launch| launch.resume).collect::<Vec<_>>(), [false, true]);
    run.stop().await;
}

#[tokio::test]
async fn an_input_that_claude_died_before_reading_is_handed_over_again() {
    let world = World::new();
    let run = world.run(BusyMode::Queue).await;
    run.binding.ready().await.unwrap();
    run.fake.deaf(true);
    run.deliver(message("m1", "a"));
    until("it was handed over", async || run.state("m1").await == Some(InputState::Submitting)).await;
    run.fake.deaf(false);
    run.fake.die();
    run.accepted("m1").await;
    assert_eq!(run.fake.shown("m1", false), 1);
    run.stop().await;
}

#[tokio::test]
async fn an_input_that_was_started_and_never_written_down_is_handed_over_again() {
    let world = World::new();
    let run = world.run(BusyMode::Queue).await;
    run.fake.keep_transcript_back(true);
    run.deliver(message("m1", "a"));
    until("it is shown", async || run.fake.shown("m1", false) == 1).await;
    run.fake.die();
    run.fake.keep_transcript_back(false);
    run.accepted("m1").await;
    run.arrived("m1", 2).await;
    run.stop().await;
}

#[tokio::test]
async fn folded_input_is_not_repeated_after_a_death_although_claude_would_take_it() {
    let world = World::new();
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    run.deliver(message("m2", "a"));
    run.taken("m2").await;
    // Everything happens before the binding can look.
    run.fake.boundary();
    run.fake.die();
    run.accepted("m2").await;
    run.deliver(message("m3", "a"));
    run.accepted("m3").await;
    run.arrived("m2", 1).await;
    assert_eq!(run.fake.shown("m2", false), 1);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claude_that_reads_no_more_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let fake = FakeClaude::new(folder.path());
    let (engine, inbox) = (FakeEngine::new(), MemoryInbox::new());
    let binding = ClaudeBinding::start(fake.options()).unwrap();
    let clock = Clock::following_tokio(Timestamp::from_micros(1_000_000_000_000));
    let receiver = Receiver::builder(engine.clone(), inbox.clone(), binding.clone()).clock(clock).build().unwrap();
    let cancel = CancellationToken::new();
    let task = tokio::spawn(receiver.run(cancel.clone()));
    engine.deliver(message("m1", "a"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    fake.end_turn();
    fake.deaf(true);
    engine.deliver(message("m2", "a"));
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(fake.launches().len(), 1);
    fake.deaf(false);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((fake.launches().len(), fake.shown("m2", false)), (2, 1));
    cancel.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_claude_that_never_gets_ready_is_replaced_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let fake = FakeClaude::new(folder.path());
    fake.silent_start();
    let binding = ClaudeBinding::start(fake.options()).unwrap();
    assert!(matches!(binding.ready().await, Err(ClaudeError::Down(_))));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fake.launches().len(), 2);
}

// The death of the host.

#[tokio::test]
async fn an_input_that_was_marked_and_not_handed_over_is_handed_over_after_a_restart() {
    let world = World::new();
    let run = world.run(BusyMode::Queue).await;
    run.binding.ready().await.unwrap();
    run.fake.deaf(true);
    run.deliver(message("m1", "a"));
    until("it is marked", async || run.state("m1").await == Some(InputState::Submitting)).await;
    run.kill().await;
    let world = World { fake: world.fake.reborn(), ..world };
    let run = world.run(BusyMode::Queue).await;
    run.accepted("m1").await;
    run.arrived("m1", 1).await;
    run.stop().await;
}

#[tokio::test]
async fn what_claude_took_in_after_the_host_died_is_not_repeated() {
    let world = World::new();
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    run.deliver(message("m2", "a"));
    run.taken("m2").await;
    let old = run.fake.clone();
    run.kill().await;
    // It lives on without the host, and folds what it has.
    old.boundary();
    let world = World { fake: world.fake.reborn(), ..world };
    let run = world.run(BusyMode::Steer).await;
    run.accepted("m2").await;
    run.deliver(message("m3", "a"));
    run.accepted("m3").await;
    run.arrived("m2", 0).await;
    assert!(run.fake.launches()[0].resume);
    run.stop().await;
}

#[tokio::test]
async fn what_died_with_claude_and_the_host_comes_again_in_order() {
    let world = World::new();
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    run.deliver(message("m2", "a"));
    run.deliver(message("m3", "a"));
    run.taken("m3").await;
    run.fake.die();
    run.kill().await;
    let world = World { fake: world.fake.reborn(), ..world };
    let run = world.run(BusyMode::Steer).await;
    run.accepted("m2").await;
    run.fake.boundary();
    run.fake.end_turn();
    run.accepted("m3").await;
    assert_eq!(run.fake.order(&["m1", "m2", "m3"]), ["m2", "m3"]);
    run.stop().await;
}

// Interrupts.

#[tokio::test]
async fn an_interrupt_leaves_what_is_queued() {
    let world = World::new();
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    run.deliver(message("m2", "a"));
    run.taken("m2").await;
    let receipt = run.binding.interrupt(false).await.unwrap();
    assert_eq!((receipt.still_queued.len(), receipt.cancelled.len()), (1, 0));
    run.accepted("m2").await;
    run.arrived("m2", 1).await;
    run.stop().await;
}

#[tokio::test]
async fn what_an_interrupt_took_out_of_the_queue_comes_again_under_a_new_id() {
    let world = World::new();
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    run.deliver(message("m2", "a"));
    run.taken("m2").await;
    let receipt = run.binding.interrupt(true).await.unwrap();
    assert_eq!(receipt.cancelled.len(), 1);
    run.accepted("m2").await;
    run.arrived("m2", 2).await;
    assert_eq!((run.fake.shown("m1", false), run.fake.shown("m2", false)), (1, 1));
    run.stop().await;
}

// Results.

#[tokio::test]
async fn a_result_reaches_the_call_that_waits_for_it() {
    let world = World::new();
    let run = world.run(BusyMode::Queue).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    run.fake.call_wait(1, "req_1");
    run.deliver(about("r2", "request_result", "req_1"));
    run.accepted("r2").await;
    assert_eq!(run.fake.shown("r2", false), 1);
    assert_eq!(run.fake.inputs().len(), 1, "no message beside the answer");
    // It may ask again.
    run.fake.call_wait(2, "req_1");
    let again = run.replied("ask-toolu_2").await;
    assert!(again["mcp_response"]["result"]["content"][0]["text"].as_str().unwrap().contains("[beepgrid end r2]"));
    run.stop().await;
}

#[tokio::test]
async fn a_result_whose_call_died_comes_as_a_message() {
    let world = World::new();
    let run = world.run(BusyMode::Queue).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    run.fake.call_wait(1, "req_1");
    run.fake.die();
    run.deliver(about("r2", "request_result", "req_1"));
    run.accepted("r2").await;
    run.arrived("r2", 1).await;
    run.stop().await;
}

#[tokio::test]
async fn a_result_in_the_air_when_claude_dies_comes_as_a_message() {
    let world = World::new();
    let run = world.run(BusyMode::Queue).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    run.fake.call_wait(1, "req_1");
    run.fake.keep_transcript_back(true);
    run.deliver(about("r2", "request_result", "req_1"));
    run.replied("ask-toolu_1").await;
    run.fake.die();
    run.fake.keep_transcript_back(false);
    run.accepted("r2").await;
    run.arrived("r2", 1).await;
    run.stop().await;
}

#[tokio::test]
async fn a_waiting_call_returns_early_when_input_is_steered() {
    let world = World::new();
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    run.fake.call_wait(1, "req_1");
    until("it waits", async || run.fake.reply("ask-toolu_1").is_none()).await;
    run.deliver(message("m2", "a"));
    let answer = run.replied("ask-toolu_1").await;
    assert_eq!(answer["mcp_response"]["result"]["isError"], false);
    run.fake.boundary();
    run.accepted("m2").await;
    run.fake.call_wait(2, "req_1");
    run.deliver(about("r3", "request_result", "req_1"));
    run.accepted("r3").await;
    run.arrived("r3", 0).await;
    run.stop().await;
}

// Questions, and what is no protocol.

#[tokio::test]
async fn permission_is_denied_unless_the_host_decides() {
    let world = World::new();
    let ask = json!({ "subtype": "can_use_tool", "tool_name": "Bash", "input": { "command": "ls" } });
    let own = json!({ "subtype": "can_use_tool", "tool_name": "mcp__beepgrid__wait_for_result", "input": {} });
    let run = world.run(BusyMode::Queue).await;
    run.binding.ready().await.unwrap();
    run.fake.ask("p1", &ask);
    assert_eq!(run.replied("p1").await["behavior"], "deny");
    run.fake.ask("p2", &own);
    assert_eq!(run.replied("p2").await["behavior"], "allow");
    run.fake.ask("p3", &json!({ "subtype": "hook_callback" }));
    until("it is answered", async || run.fake.reply("p3").is_some()).await;
    assert_eq!(run.fake.reply("p3").unwrap()["subtype"], "error");
    run.stop().await;

    let world = World::new();
    let asked = Arc::new(tokio::sync::Notify::new());
    let seen = Arc::clone(&asked);
    let options = world.fake.options().permission(move |ask| {
        let seen = Arc::clone(&seen);
        async move {
            if ask.input["command"] == "rm" {
                seen.notify_one();
                std::future::pending::<()>().await;
            }
            Permission::Allow { input: ask.input }
        }
    });
    let run = world.run_with(BusyMode::Queue, options).await;
    run.binding.ready().await.unwrap();
    run.fake.ask("p1", &json!({ "subtype": "can_use_tool", "tool_name": "Bash", "input": { "command": "rm" } }));
    asked.notified().await;
    run.fake.say(&json!({ "type": "control_cancel_request", "request_id": "p1" }));
    run.fake.ask("p2", &ask);
    assert_eq!(run.replied("p2").await["updatedInput"]["command"], "ls");
    assert_eq!(run.fake.reply("p1"), None);
    run.stop().await;
}

#[tokio::test]
async fn garbage_and_endless_lines_change_nothing() {
    let world = World::new();
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.accepted("m1").await;
    run.fake.say_raw(b"warning: not a record\n\xff\xfe\n\n[1,2]\n{\"type\":\"command_lifecycle\"}\n".to_vec());
    run.fake.say_raw(b"[".repeat(100_000));
    run.fake.say_raw(b"\n".to_vec());
    run.fake.say_raw(vec![b'x'; 33 * 1024 * 1024]);
    run.fake.say_raw(b"\n".to_vec());
    run.deliver(message("m2", "a"));
    run.taken("m2").await;
    run.fake.boundary();
    run.accepted("m2").await;
    assert_eq!(run.fake.launches().len(), 1);
    run.stop().await;
}
