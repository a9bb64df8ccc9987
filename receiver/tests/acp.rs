//! The ACP binding against a scripted agent and a scripted goose: every way in, and a death of either side at every point.

#![cfg(feature = "acp")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod support;

use beepgrid_receiver::acp::{AcpBinding, AcpError, Options, Permission, Steering};
use beepgrid_receiver::{
    BuildError, BusyMode, Handover, InboxStore, InputBinding as _, InputState, Receiver, Refusal, Resolution, SqliteInbox,
    Submission,
};
use serde_json::json;
use support::acp::{Answer, FakeAgent, Kind};
use support::acp_run::World;
use support::engine::FakeEngine;
use support::{about, message, until};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn an_input_begins_a_turn_and_is_accepted_when_the_prompt_is_answered() {
    let world = World::new(Kind::Plain);
    let run = world.run(BusyMode::Queue).await;
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    assert_ne!(run.inbox.get("m1".into()).await.unwrap().unwrap().state, InputState::Accepted);
    run.fake.end_turn();
    run.accepted("m1").await;
    assert!(run.fake.calls("session/prompt")[0]["prompt"][0]["text"].as_str().unwrap().starts_with("[beepgrid message m1 from"));
    run.stop().await;
}

#[tokio::test]
async fn steered_input_goes_into_the_turn_and_is_accepted_with_its_echo_or_its_end() {
    for echo in [true, false] {
        let world = World::new(Kind::Standard);
        let run = world.run(BusyMode::Steer).await;
        run.deliver(message("m1", "a"));
        run.taken("m1").await;
        run.deliver(message("m2", "a"));
        run.deliver(message("m3", "a"));
        run.taken("m3").await;
        run.fake.boundary(echo);
        if echo {
            run.accepted("m2").await;
            run.accepted("m3").await;
        }
        run.fake.end_turn();
        for id in ["m1", "m2", "m3"] {
            run.accepted(id).await;
        }
        assert_eq!(run.fake.history(&["m1", "m2", "m3"]), ["m1", "m2", "m3"]);
        assert_eq!(run.fake.calls("session/prompt").len(), 1);
        run.stop().await;
    }
}

#[tokio::test]
async fn a_steer_that_finds_no_turn_begins_one() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    run.fake.next_steer(Answer::Says("promptRequired"));
    run.deliver(message("m2", "a"));
    until("the steer was tried", async || run.fake.calls("_session/steering").len() == 1).await;
    run.fake.end_turn();
    until("a second turn", async || run.fake.calls("session/prompt").len() == 2).await;
    run.fake.end_turn();
    run.accepted("m2").await;
    assert_eq!(run.fake.history(&["m1", "m2"]), ["m1", "m2"]);
    run.stop().await;
}

#[tokio::test]
async fn a_steer_for_another_turn_is_not_sent() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    let to = Handover::new(BusyMode::Steer, CancellationToken::new()).expected_turn(Some("another".to_owned()));
    assert_eq!(run.binding.submit(&message("m2", "a"), to).await, Submission::Refused(Refusal::TurnEnded));
    assert_eq!(run.fake.calls("_session/steering").len(), 0);
    run.stop().await;
}

#[tokio::test]
async fn an_agent_that_says_no_or_does_not_know_steering_gets_the_input_later() {
    for answer in [Answer::Says("failed"), Answer::Fails(-32601)] {
        let world = World::new(Kind::Standard);
        let run = world.run(BusyMode::Steer).await;
        run.deliver(message("m1", "a"));
        run.taken("m1").await;
        run.fake.next_steer(answer.clone());
        run.deliver(message("m2", "a"));
        until("the steer was tried", async || !run.fake.calls("_session/steering").is_empty()).await;
        if answer == Answer::Fails(-32601) {
            run.fake.end_turn();
            until("a second turn", async || run.fake.calls("session/prompt").len() == 2).await;
            assert_eq!(run.fake.calls("_session/steering").len(), 1);
        } else {
            run.arrived("m2", 2).await;
        }
        run.fake.boundary(false);
        run.fake.end_turn();
        run.accepted("m2").await;
        assert_eq!(run.fake.history(&["m1", "m2"]), ["m1", "m2"]);
        run.stop().await;
    }
}

#[tokio::test]
async fn queued_input_waits_for_the_end_of_the_turn() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Queue).await;
    for id in ["m1", "m2", "m3"] {
        run.deliver(message(id, "a"));
    }
    for count in 1..=3 {
        until("a turn", async || run.fake.busy() && run.fake.calls("session/prompt").len() == count).await;
        run.fake.end_turn();
    }
    run.accepted("m3").await;
    assert_eq!(run.fake.history(&["m1", "m2", "m3"]), ["m1", "m2", "m3"]);
    assert_eq!(run.fake.calls("_session/steering").len(), 0);
    run.stop().await;
}

#[tokio::test]
async fn an_agent_without_steering_is_refused_to_a_steering_receiver() {
    let fake = FakeAgent::new(Kind::Plain);
    let binding = AcpBinding::start(fake.options()).await.unwrap();
    assert_eq!(binding.steering(), Steering::None);
    let folder = tempfile::tempdir().unwrap();
    let inbox = SqliteInbox::open(folder.path().join("inbox")).await.unwrap();
    let built = Receiver::builder(FakeEngine::new(), inbox, binding.clone()).mode(BusyMode::Steer).build();
    assert!(matches!(built, Err(BuildError::CannotSteer { .. })));
}

#[tokio::test]
async fn what_the_host_s_user_says_keeps_the_agent_busy() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Queue).await;
    run.binding.say("hello").unwrap();
    assert_eq!(run.binding.say("again"), Err(AcpError::Busy));
    until("it works", async || run.fake.busy()).await;
    run.deliver(message("m1", "a"));
    until("it is stored", async || run.engine.acked("m1")).await;
    assert_eq!(run.fake.arrived("m1"), 0);
    run.fake.end_turn();
    run.taken("m1").await;
    run.fake.end_turn();
    run.accepted("m1").await;
    run.stop().await;
}

#[tokio::test]
async fn a_result_comes_as_a_message() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Queue).await;
    run.deliver(about("r1", "request_result", "req_1"));
    run.taken("r1").await;
    run.fake.end_turn();
    run.accepted("r1").await;
    assert!(
        run.fake.calls("session/prompt")[0]["prompt"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with("[beepgrid result of your request")
    );
    run.stop().await;
}

// goose.

#[tokio::test]
async fn goose_is_steered_into_the_run_that_it_names() {
    let world = World::new(Kind::Goose);
    let run = world.run(BusyMode::Steer).await;
    assert_eq!(run.binding.steering(), Steering::Goose);
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    run.deliver(message("m2", "a"));
    until("it is noted", async || {
        let row = run.inbox.get("m2".into()).await.unwrap();
        row.is_some_and(|row| row.attempt.is_some_and(|attempt| attempt.native_id.is_some()))
    })
    .await;
    let call = run.fake.calls("_goose/unstable/session/steer").pop().unwrap();
    assert_eq!(call["expectedRunId"], "run-1");
    run.fake.boundary(true);
    run.accepted("m2").await;
    run.fake.end_turn();
    run.accepted("m1").await;
    run.stop().await;
}

#[tokio::test]
async fn what_goose_drops_at_the_end_of_a_run_begins_the_next() {
    let world = World::new(Kind::Goose);
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    run.deliver(message("m2", "a"));
    run.arrived("m2", 1).await;
    run.fake.end_turn();
    run.arrived("m2", 2).await;
    run.fake.end_turn();
    run.accepted("m2").await;
    assert_eq!(run.fake.history(&["m1", "m2"]), ["m1", "m2"]);
    run.stop().await;
}

#[tokio::test]
async fn goose_at_work_on_its_own_refuses_a_prompt_and_gets_it_later() {
    let world = World::new(Kind::Goose);
    let run = world.run(BusyMode::Queue).await;
    run.fake.next_prompt_fails(-32602);
    run.deliver(message("m1", "a"));
    run.arrived("m1", 2).await;
    run.fake.end_turn();
    run.accepted("m1").await;
    assert_eq!(run.inbox.get("m1".into()).await.unwrap().unwrap().attempts, 1, "a refusal is no attempt");
    run.stop().await;
}

// The death of the agent.

#[tokio::test]
async fn a_prompt_in_the_history_of_an_agent_that_died_is_not_repeated() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    run.fake.die();
    run.accepted("m1").await;
    run.arrived("m1", 1).await;
    assert_eq!(run.fake.calls("session/load").len(), 1);
    run.stop().await;
}

#[tokio::test]
async fn a_prompt_that_never_came_to_the_history_is_repeated() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    run.fake.forget();
    run.fake.die();
    run.arrived("m1", 2).await;
    run.fake.end_turn();
    run.accepted("m1").await;
    run.stop().await;
}

#[tokio::test]
async fn a_prompt_that_the_agent_died_before_reading_is_repeated() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Queue).await;
    run.fake.deaf(true);
    run.deliver(message("m1", "a"));
    run.arrived("m1", 1).await;
    run.fake.deaf(false);
    run.fake.die();
    run.arrived("m1", 2).await;
    run.fake.end_turn();
    run.accepted("m1").await;
    run.stop().await;
}

#[tokio::test]
async fn steers_in_the_memory_of_an_agent_that_died_come_again_in_order() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    run.deliver(message("m2", "a"));
    run.taken("m2").await;
    run.fake.boundary(false);
    run.deliver(message("m3", "a"));
    run.taken("m3").await;
    run.fake.die();
    run.accepted("m1").await;
    // It was shown before the death.
    run.accepted("m2").await;
    run.arrived("m3", 2).await;
    run.fake.end_turn();
    run.accepted("m3").await;
    assert_eq!(run.fake.history(&["m1", "m2", "m3"]), ["m1", "m2", "m3"]);
    run.stop().await;
}

#[tokio::test]
async fn without_a_history_what_is_open_is_held_for_a_person() {
    let world = World::new(Kind::Forgetful);
    let run = world.run(BusyMode::Queue).await;
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    run.deliver(message("m2", "b"));
    run.fake.die();
    run.held("m1").await;
    run.taken("m2").await;
    run.fake.end_turn();
    run.accepted("m2").await;
    run.handle.resolve(&"m1".into(), Resolution::Retry).await.unwrap();
    run.arrived("m1", 2).await;
    run.fake.end_turn();
    run.accepted("m1").await;
    run.stop().await;
}

#[tokio::test]
async fn a_session_that_the_agent_does_not_know_was_never_written() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Queue).await;
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    run.fake.load_fails(Some(-32002));
    run.fake.forget();
    run.fake.die();
    run.arrived("m1", 2).await;
    run.fake.end_turn();
    run.accepted("m1").await;
    assert_eq!(run.fake.calls("session/new").len(), 2);
    run.stop().await;
}

// The death of the host.

#[tokio::test]
async fn after_a_restart_the_history_says_what_arrived() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    run.deliver(message("m2", "a"));
    run.taken("m2").await;
    let session = run.binding.session().unwrap();
    run.kill().await;
    let run = world.run_with(BusyMode::Steer, world.fake.options().session(session)).await;
    run.accepted("m1").await;
    run.arrived("m1", 1).await;
    run.arrived("m2", 2).await;
    run.fake.end_turn();
    run.accepted("m2").await;
    assert_eq!(run.fake.history(&["m1", "m2"]), ["m1", "m2"]);
    // The old process may have outlived the first replay.
    assert_eq!(run.fake.calls("session/load").len(), 2);
    run.stop().await;
}

#[tokio::test]
async fn an_input_that_was_marked_and_not_handed_over_is_handed_over_after_a_restart() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Queue).await;
    run.fake.deaf(true);
    run.deliver(message("m1", "a"));
    run.arrived("m1", 1).await;
    let session = run.binding.session().unwrap();
    run.kill().await;
    world.fake.deaf(false);
    let run = world.run_with(BusyMode::Queue, world.fake.options().session(session)).await;
    run.arrived("m1", 2).await;
    run.fake.end_turn();
    run.accepted("m1").await;
    run.stop().await;
}

// What is open when a turn is over.

#[tokio::test]
async fn a_lost_answer_to_a_steer_is_read_back_when_the_turn_is_over() {
    for (answer, times) in [(Answer::TakesSilently, 1), (Answer::LosesSilently, 2)] {
        let world = World::new(Kind::Standard);
        let run = world.run(BusyMode::Steer).await;
        run.deliver(message("m1", "a"));
        run.taken("m1").await;
        run.fake.next_steer(answer);
        run.deliver(message("m2", "a"));
        run.held("m2").await;
        run.fake.boundary(false);
        run.fake.end_turn();
        if times == 2 {
            run.arrived("m2", 2).await;
            run.fake.end_turn();
        }
        run.accepted("m2").await;
        run.arrived("m2", times).await;
        assert_eq!(run.fake.history(&["m1", "m2"]), ["m1", "m2"]);
        assert_eq!(run.fake.started(), 2);
        run.stop().await;
    }
}

#[tokio::test]
async fn a_cancelled_turn_keeps_its_input_and_gives_back_what_it_had_not_read() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    run.deliver(message("m2", "a"));
    run.taken("m2").await;
    run.binding.cancel().unwrap();
    run.accepted("m1").await;
    run.arrived("m2", 2).await;
    run.fake.end_turn();
    run.accepted("m2").await;
    assert_eq!(run.fake.history(&["m1", "m2"]), ["m1", "m2"]);
    run.stop().await;
}

#[tokio::test]
async fn a_prompt_that_fails_is_tried_again_only_if_it_certainly_was_not_taken() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Queue).await;
    // Not signed in: nothing was done.
    run.fake.next_prompt_fails(-32000);
    run.deliver(message("m1", "a"));
    run.arrived("m1", 2).await;
    // The model failed in the middle.
    run.fake.fail_turn(-32603);
    run.accepted("m1").await;
    // Who knows: the history does.
    run.fake.next_prompt_fails(-32603);
    run.deliver(message("m2", "a"));
    run.arrived("m2", 2).await;
    run.fake.end_turn();
    run.accepted("m2").await;
    assert_eq!(run.fake.history(&["m1", "m2"]), ["m1", "m2"]);
    assert_eq!(run.fake.started(), 2);
    run.stop().await;
}

// Questions, and what is no protocol.

#[tokio::test]
async fn questions_are_rejected_and_nothing_is_served_unless_the_host_does() {
    let options = json!({ "sessionId": "s1", "toolCall": {}, "options": [
        { "optionId": "yes", "name": "Yes", "kind": "allow_once" }, { "optionId": "no", "name": "No", "kind": "reject_once" },
    ] });
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Queue).await;
    run.fake.request("q1", "session/request_permission", &options);
    run.fake.request("q2", "fs/read_text_file", &json!({ "path": "/etc/passwd" }));
    until("both are answered", async || run.fake.answer("q1").is_some() && run.fake.answer("q2").is_some()).await;
    assert_eq!(run.fake.answer("q1").unwrap()["result"]["outcome"]["optionId"], "no");
    assert_eq!(run.fake.answer("q2").unwrap()["error"]["code"], -32601);
    run.stop().await;

    let world = World::new(Kind::Standard);
    let serving = world
        .fake
        .options()
        .permission(|ask| async move {
            if ask.tool_call["wait"] == true {
                std::future::pending::<()>().await;
            }
            Permission::Choose(ask.choices[0].id.clone())
        })
        .serve(json!({ "fs": { "readTextFile": true } }), |method, _| async move {
            (method == "fs/read_text_file").then(|| json!({ "content": "x" }))
        });
    let run = world.run_with(BusyMode::Queue, serving).await;
    run.fake.request("q1", "session/request_permission", &options);
    run.fake.request("q2", "fs/read_text_file", &json!({ "path": "/x" }));
    until("both are answered", async || run.fake.answer("q1").is_some() && run.fake.answer("q2").is_some()).await;
    assert_eq!(run.fake.answer("q1").unwrap()["result"]["outcome"]["optionId"], "yes");
    assert_eq!(run.fake.answer("q2").unwrap()["result"]["content"], "x");
    // A cancelled turn takes its questions along.
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    let mut waiting = options.clone();
    waiting["toolCall"] = json!({ "wait": true });
    run.fake.request("q3", "session/request_permission", &waiting);
    run.fake.request("q4", "unknown", &json!({}));
    until("the questions are there", async || run.fake.answer("q4").is_some()).await;
    run.binding.cancel().unwrap();
    until("it is answered", async || run.fake.answer("q3").is_some()).await;
    assert_eq!(run.fake.answer("q3").unwrap()["result"]["outcome"]["outcome"], "cancelled");
    run.stop().await;
}

#[tokio::test]
async fn garbage_and_endless_lines_change_nothing() {
    let world = World::new(Kind::Standard);
    let run = world.run(BusyMode::Steer).await;
    run.deliver(message("m1", "a"));
    run.taken("m1").await;
    run.fake.say_raw(b"a log line\n\xff\xfe\n\n[1,2]\n{\n{\"jsonrpc\":\"2.0\"}\n{\"id\":7,\"result\":{}}\n".to_vec());
    run.fake.say_raw(b"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":[]}\n".to_vec());
    run.fake.say_raw(vec![b'x'; 33 * 1024 * 1024]);
    run.fake.say_raw(b"\n".to_vec());
    run.deliver(message("m2", "a"));
    run.taken("m2").await;
    run.fake.boundary(true);
    run.accepted("m2").await;
    assert_eq!(run.fake.started(), 1);
    run.stop().await;
}

#[tokio::test]
async fn an_agent_that_cannot_be_started_is_an_error_at_once() {
    let missing = Options::new("/does/not/exist", [""; 0], "/");
    assert!(matches!(AcpBinding::start(missing).await, Err(AcpError::Down(_))));
    assert!(matches!(AcpBinding::start(Options::new("agent", [""; 0], "relative")).await, Err(AcpError::Folder)));
}
