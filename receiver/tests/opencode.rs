//! The opencode binding against a scripted server over real HTTP: modes, lost answers, deaths on either side (field reports B01 to B04).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod support;

use std::time::Duration;

use beepgrid_receiver::{BusyMode, HeldReason, Receiver, SqliteInbox};
use support::engine::FakeEngine;
use support::opencode::case::{Case, Running, receive};
use support::opencode::{Fault, OTHER_SESSION, Opencode};
use support::{about, message, until};
use tokio_util::sync::CancellationToken;

const BOTH: [BusyMode; 2] = [BusyMode::Steer, BusyMode::Queue];

#[tokio::test]
async fn an_input_starts_an_idle_agent_once_and_comes_framed() {
    for mode in BOTH {
        let case = Case::new(mode).await;
        case.deliver([message("m1", "a")]);
        case.accepted("m1").await;
        case.seen(&["m1"]).await;
        assert_eq!(case.server.prompts(), [format!("m1 {mode}")]);
        assert!(case.server.text("m1").starts_with("[beepgrid message m1 from "));
        assert!(case.server.text("m1").ends_with("> text of m1\n[beepgrid end m1]"));
    }
}

#[tokio::test]
async fn a_steer_joins_at_the_next_boundary_and_is_settled_before() {
    let case = Case::new(BusyMode::Steer).await;
    case.deliver([message("m1", "a")]);
    case.seen(&["m1"]).await;
    case.deliver([message("m2", "a"), message("m3", "b")]);
    case.accepted("m2").await;
    case.accepted("m3").await;
    assert_eq!(case.server.seen(), ["m1"]);
    case.server.boundary();
    assert_eq!(case.server.seen(), ["m1", "m2", "m3"]);
}

#[tokio::test]
async fn a_steer_that_races_the_end_of_a_turn_arrives_once_without_further_input() {
    let case = Case::new(BusyMode::Steer).await;
    let ids: Vec<String> = (1..=30).map(|number| format!("m{number}")).collect();
    for id in &ids {
        case.deliver([message(id, "a")]);
        if case.server.is_active() {
            case.server.end_turn();
        }
    }
    case.server.turns_end_by_themselves();
    case.server.end_turn();
    for id in &ids {
        case.accepted(id).await;
    }
    case.seen(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn queued_inputs_become_turns_of_their_own_and_leak_into_none() {
    let case = Case::new(BusyMode::Queue).await;
    case.deliver([message("m1", "a")]);
    case.seen(&["m1"]).await;
    case.deliver([message("m2", "a"), message("m3", "b")]);
    case.accepted("m3").await;
    case.server.boundary();
    assert_eq!(case.server.waiting(), ["m2 queue", "m3 queue"]);
    case.server.end_turn();
    assert_eq!(case.server.seen(), ["m1", "m2"]);
    case.server.boundary();
    case.server.end_turn();
    assert_eq!(case.server.seen(), ["m1", "m2", "m3"]);
}

#[tokio::test]
async fn a_result_passes_what_is_queued() {
    let case = Case::new(BusyMode::Queue).await;
    case.deliver([message("m1", "a"), message("m2", "a")]);
    case.accepted("m2").await;
    case.deliver([about("r3", "request_result", "req_1")]);
    case.accepted("r3").await;
    case.server.boundary();
    assert_eq!((case.server.seen(), case.server.waiting()), (vec!["m1".into(), "r3".into()], vec!["m2 queue".into()]));
    assert!(case.server.text("r3").starts_with("[beepgrid result of your request req_1"));
}

#[tokio::test]
async fn a_steer_does_not_overtake_its_own_conversation_in_the_runtimes_queue() {
    let mut case = Case::new(BusyMode::Queue).await;
    case.deliver([message("m1", "a"), message("m2", "a")]);
    case.accepted("m2").await;
    case.kill_receiver().await;
    case.receive(BusyMode::Steer).await;
    case.deliver([message("m3", "a"), message("m4", "b")]);
    case.accepted("m3").await;
    case.accepted("m4").await;
    case.server.turns_end_by_themselves();
    case.server.end_turn();
    case.seen(&["m1", "m4", "m2", "m3"]).await;
}

#[tokio::test]
async fn an_absent_server_is_shown_and_waited_for() {
    for mode in BOTH {
        let mut case = Case::without_receiver().await;
        case.server.kill();
        case.receive(mode).await;
        case.deliver([message("m1", "a"), message("m2", "a")]);
        case.shows_trouble().await;
        case.waits_unharmed("m2").await;
        case.server.turns_end_by_themselves();
        case.server.restart().await;
        case.seen(&["m1", "m2"]).await;
        case.connected().await;
        assert_eq!(case.server.prompts().len(), 2, "one call for each");
    }
}

#[tokio::test]
async fn a_server_that_dies_between_two_inputs_is_waited_for() {
    let case = Case::new(BusyMode::Steer).await;
    case.server.turns_end_by_themselves();
    case.deliver([message("m1", "a")]);
    case.seen(&["m1"]).await;
    case.server.kill();
    case.deliver([message("m2", "a")]);
    case.shows_trouble().await;
    case.waits_unharmed("m2").await;
    case.server.restart().await;
    case.seen(&["m1", "m2"]).await;
}

#[tokio::test]
async fn an_input_arrives_once_when_the_server_dies_in_the_call() {
    for (mode, fault) in BOTH.into_iter().flat_map(|mode| [(mode, Fault::DieBefore), (mode, Fault::DieAfter)]) {
        let case = Case::new(mode).await;
        case.server.turns_end_by_themselves();
        case.server.next_prompts([fault]);
        case.deliver([message("m1", "a"), message("m2", "a")]);
        case.shows_trouble().await;
        case.server.restart().await;
        case.accepted("m2").await;
        case.seen(&["m1", "m2"]).await;
    }
}

#[tokio::test]
async fn what_the_server_admitted_before_it_died_is_woken_in_order_and_once() {
    let case = Case::new(BusyMode::Steer).await;
    case.deliver([message("m1", "a"), message("m2", "a"), message("m3", "b")]);
    case.accepted("m3").await;
    assert_eq!(case.server.waiting(), ["m2 steer", "m3 steer"]);
    case.server.kill();
    case.server.turns_end_by_themselves_after_restart();
    case.server.restart().await;
    case.seen(&["m1", "m2", "m3"]).await;
    assert_eq!(case.server.waiting(), Vec::<String>::new());
}

#[tokio::test]
async fn what_waits_is_woken_when_both_died() {
    let mut case = Case::new(BusyMode::Queue).await;
    case.deliver([message("m1", "a"), message("m2", "a"), message("m3", "b")]);
    case.accepted("m3").await;
    case.server.kill();
    case.kill_receiver().await;
    case.server.turns_end_by_themselves_after_restart();
    case.server.restart().await;
    case.receive(BusyMode::Queue).await;
    case.seen(&["m1", "m2", "m3"]).await;
}

#[tokio::test]
async fn what_waits_is_woken_though_the_event_stream_says_nothing() {
    let mut case = Case::new(BusyMode::Queue).await;
    case.deliver([message("m1", "a"), message("m2", "a")]);
    case.accepted("m2").await;
    case.server.mute();
    case.server.kill();
    case.kill_receiver().await;
    case.server.turns_end_by_themselves_after_restart();
    case.server.restart().await;
    case.receive(BusyMode::Steer).await;
    case.seen(&["m1", "m2"]).await;
    case.deliver([message("m3", "a")]);
    case.seen(&["m1", "m2", "m3"]).await;
}

#[tokio::test]
async fn an_input_that_went_into_the_session_before_is_found_there() {
    let mut case = Case::new(BusyMode::Steer).await;
    case.connected().await;
    case.server.typed("msg_typed", "by a person");
    case.server.next_prompts([Fault::Hang]);
    case.deliver([message("m1", "a")]);
    until("the call is under way", async || case.server.waiting() == ["m1 steer"]).await;
    case.kill_receiver().await;
    let inbox = SqliteInbox::open(case.folder.path().join("inbox")).await.unwrap();
    let receiver = Receiver::builder(case.engine.clone(), inbox, case.at().session(OTHER_SESSION).unwrap()).build().unwrap();
    let (handle, status) = (receiver.handle(), receiver.status());
    let task = tokio::spawn(receiver.run(CancellationToken::new()));
    case.running = Some(Running { engine: case.engine.clone(), handle, status, task });
    case.accepted("m1").await;
    assert_eq!(case.server.waiting(), ["m1 steer"]);
}

#[tokio::test]
async fn what_waits_when_a_person_interrupts_opens_the_next_turn() {
    let case = Case::new(BusyMode::Steer).await;
    case.deliver([message("m1", "a"), message("m2", "a")]);
    case.accepted("m2").await;
    case.server.interrupt();
    case.seen(&["m1", "m2"]).await;
}

#[tokio::test]
async fn an_input_arrives_once_when_the_receiver_dies_in_the_call() {
    for (mode, server_too) in BOTH.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        let mut case = Case::new(mode).await;
        case.server.turns_end_by_themselves();
        case.server.next_prompts([Fault::Hang]);
        case.deliver([message("m1", "a"), message("m2", "a")]);
        until("the call is under way", async || !case.server.prompts().is_empty()).await;
        case.kill_receiver().await;
        if server_too {
            case.server.kill();
            case.server.restart().await;
        }
        case.receive(mode).await;
        case.accepted("m1").await;
        case.accepted("m2").await;
        case.seen(&["m1", "m2"]).await;
    }
}

#[tokio::test]
async fn an_input_arrives_once_when_the_receiver_dies_before_the_call() {
    let mut case = Case::without_receiver().await;
    case.server.kill();
    case.receive(BusyMode::Steer).await;
    case.deliver([message("m1", "a")]);
    case.waits_unharmed("m1").await;
    case.kill_receiver().await;
    case.server.restart().await;
    case.receive(BusyMode::Steer).await;
    case.accepted("m1").await;
    assert_eq!((case.server.seen(), case.server.prompts().len()), (vec!["m1".to_owned()], 1));
}

#[tokio::test]
async fn a_lost_or_unreadable_answer_is_asked_for_again_and_doubles_nothing() {
    let faults = [
        Fault::Hang,
        Fault::Status(500),
        Fault::Status(503),
        Fault::Answer("<html>".to_owned()),
        Fault::Answer("{\"data\":{}}".to_owned()),
        Fault::Answer(
            "{\"data\":{\"id\":\"msg_other\",\"sessionID\":\"ses_1\",\"admittedSeq\":1,\"prompt\":{\"text\":\"x\"},\
            \"delivery\":\"steer\"}}"
                .to_owned(),
        ),
        Fault::Endless(20 << 20),
    ];
    for fault in faults {
        let case = Case::new(BusyMode::Steer).await;
        case.server.turns_end_by_themselves();
        case.server.next_prompts([fault.clone()]);
        case.deliver([message("m1", "a"), message("m2", "a")]);
        case.accepted("m2").await;
        assert_eq!(case.server.seen(), ["m1", "m2"], "{fault:?}");
    }
}

#[tokio::test]
async fn a_refused_input_is_held_after_its_attempts_and_others_go_on() {
    let case = Case::new(BusyMode::Steer).await;
    case.server.turns_end_by_themselves();
    case.connected().await;
    case.server.next_prompts([Fault::Status(400)]);
    case.deliver([message("m1", "a")]);
    case.accepted("m1").await;
    case.server.next_prompts([Fault::Status(400), Fault::Status(413), Fault::Status(400)]);
    case.deliver([message("m2", "a")]);
    until("m2 is held", async || case.stored("m2").await.is_some_and(|stored| stored.held.is_some())).await;
    assert_eq!(case.stored("m2").await.unwrap().held.unwrap().reason, HeldReason::TooManyAttempts);
    case.deliver([message("m3", "b")]);
    case.seen(&["m1", "m3"]).await;
}

#[tokio::test]
async fn another_text_under_our_id_is_never_taken_for_the_input() {
    for lenient in [false, true] {
        let case = Case::new(BusyMode::Steer).await;
        if lenient {
            case.server.first_admission_wins();
        }
        refuses_another_text(&case).await;
    }
}

async fn refuses_another_text(case: &Case) {
    case.server.turns_end_by_themselves();
    case.deliver([message("m1", "a")]);
    case.seen(&["m1"]).await;
    let native = case.server.native("m1").replace("_m1", "_m2");
    case.server.squat(&native, "something else");
    case.deliver([message("m2", "a")]);
    until("m2 is held", async || case.stored("m2").await.is_some_and(|stored| stored.held.is_some())).await;
    // The same text under another delivery is the input, however it got there.
    let text = case.server.text("m1").replace("m1", "m3");
    case.server.squat(&native.replace("_m2", "_m3"), &text);
    case.deliver([message("m3", "a")]);
    case.accepted("m3").await;
    assert_eq!(case.server.seen(), ["m1"]);
}

#[tokio::test]
async fn a_wrong_password_is_shown_and_costs_no_attempt() {
    let folder = tempfile::tempdir().unwrap();
    // opencode:right in base64.
    let server = Opencode::start_with(Some("Basic b3BlbmNvZGU6cmlnaHQ=")).await;
    let mut case = Case { server, folder, engine: FakeEngine::new(), running: None };
    case.receive(BusyMode::Steer).await;
    case.deliver([message("m1", "a")]);
    case.shows_trouble().await;
    case.waits_unharmed("m1").await;
    case.kill_receiver().await;
    let right = case.at().password("right".to_owned());
    case.running = Some(receive(BusyMode::Steer, &right, &case.engine, case.folder.path()).await);
    case.seen(&["m1"]).await;
}

#[tokio::test]
async fn a_session_that_is_gone_is_shown_and_waited_for() {
    let case = Case::new(BusyMode::Steer).await;
    case.connected().await;
    case.server.session_gone(true);
    case.deliver([message("m1", "a")]);
    case.shows_trouble().await;
    case.waits_unharmed("m1").await;
    case.server.session_gone(false);
    case.seen(&["m1"]).await;
}

#[tokio::test]
async fn nothing_is_handed_over_before_the_models_are_there() {
    let mut case = Case::without_receiver().await;
    case.server.loading(true);
    case.receive(BusyMode::Steer).await;
    case.deliver([message("m1", "a")]);
    case.waits_unharmed("m1").await;
    case.shows_trouble().await;
    assert_eq!(case.server.prompts(), Vec::<String>::new());
    case.server.loading(false);
    case.seen(&["m1"]).await;
}

#[tokio::test]
async fn garbage_in_the_event_stream_harms_nothing() {
    let case = Case::new(BusyMode::Queue).await;
    case.connected().await;
    case.server.typed("msg_typed", "by a person");
    for noise in ["data: {broken\n\n", ": comment\r\r", "data: []\n\nevent: x\ndata: {\"type\":3}\n\n", "\u{feff}id: 7\n\n"] {
        case.server.noise(noise);
    }
    case.deliver([message("m1", "a"), message("m2", "a")]);
    case.accepted("m2").await;
    case.server.turns_end_by_themselves();
    case.server.end_turn();
    case.seen(&["msg_typed", "m1", "m2"]).await;
}

#[tokio::test]
async fn a_long_history_is_read_page_by_page_before_anything_is_handed_over() {
    let mut case = Case::without_receiver().await;
    case.server.turns_end_by_themselves();
    for number in 0..200 {
        case.server.typed(&format!("msg_{number}"), "by a person");
        case.server.end_turn();
    }
    case.receive(BusyMode::Steer).await;
    case.deliver([message("m1", "a")]);
    case.accepted("m1").await;
    assert_eq!(case.server.seen().len(), 201);
    assert_eq!(case.running.as_ref().unwrap().engine.acks("m1"), 1);
}

#[tokio::test]
async fn a_prompt_call_that_the_server_does_not_know_is_not_tried_without_pause() {
    let case = Case::new(BusyMode::Steer).await;
    case.connected().await;
    case.server.next_prompts(std::iter::repeat_n(Fault::Status(404), 4));
    case.deliver([message("m1", "a")]);
    let begun = std::time::Instant::now();
    case.seen(&["m1"]).await;
    // Four pauses, the shortest of a quarter of a second.
    assert!(begun.elapsed() > Duration::from_secs(1));
    assert_eq!(case.stored("m1").await.unwrap().attempts, 1);
}
