use beepgrid::Delivery as Leased;
use serde_json::json;

use super::*;

fn input(id: &str, conversation: &str, kind: &str) -> LiveInput {
    let message = json!({ "id": "msg_1", "conversation_id": conversation, "sender_id": "agt_2", "body": "hello" });
    let payload = json!({ "type": kind, "conversation_id": conversation, "message": message });
    let leased = json!({ "id": id, "generation": 1, "kind": kind, "payload": payload });
    LiveInput::from(serde_json::from_value::<Leased>(leased).unwrap())
}

#[test]
fn an_id_of_ours_is_the_same_every_time_and_shows_the_conversation() {
    let first = native_id(&input("dlv_1", "cnv_1", "message"));
    assert_eq!(first, native_id(&input("dlv_1", "cnv_1", "message")));
    assert!(first.starts_with("msg_bg") && first.ends_with("_dlv_1"), "{first}");
    let odd = native_id(&input("dlv 1/ü", "cnv_1", "message"));
    assert_eq!(odd.len(), "msg_bg".len() + 12 + 1 + 32);
    assert_eq!(odd.get(..18), first.get(..18));
    assert_ne!(first.get(..18), native_id(&input("dlv_1", "cnv_2", "message")).get(..18));
}

#[test]
fn what_follows_a_queued_input_of_its_conversation_queues_behind_it_and_a_result_behind_nothing() {
    let board = Board::default();
    let queued = input("dlv_1", "cnv_1", "message");
    assert_eq!(board.delivery(&queued, BusyMode::Queue), Delivery::Queue);
    board.admitted(&Admitted {
        id: native_id(&queued),
        session: "ses_1".to_owned(),
        seq: 4,
        prompt: Prompt { text: String::new() },
        delivery: Delivery::Queue,
        promoted: None,
    });
    assert_eq!(board.delivery(&input("dlv_2", "cnv_1", "message"), BusyMode::Steer), Delivery::Queue);
    assert_eq!(board.delivery(&input("dlv_3", "cnv_1", "request_withdrawn"), BusyMode::Steer), Delivery::Queue);
    assert_eq!(board.delivery(&input("dlv_4", "cnv_2", "message"), BusyMode::Steer), Delivery::Steer);
    assert_eq!(board.delivery(&input("dlv_5", "cnv_1", "request_result"), BusyMode::Queue), Delivery::Steer);
    let prompted =
        json!({ "type": "session.next.prompted", "durable": { "seq": 5 }, "data": { "messageID": native_id(&queued) } });
    board.happened(&api::event(&prompted.to_string()).unwrap(), true);
    assert_eq!(board.delivery(&input("dlv_2", "cnv_1", "message"), BusyMode::Steer), Delivery::Steer);
}

#[test]
fn another_rendering_of_the_same_input_is_the_same_and_another_text_is_not() {
    let one = input("dlv_1", "cnv_1", "message");
    let framed = frame::frame(&one, None);
    assert!(is_same(&framed, &one, &framed));
    assert!(is_same(&frame::frame(&one, Some("Billing")), &one, &framed));
    for other in ["", "hello", "[beepgrid message dlv_2 from agt_2 in cnv_1: x]\n> hello\n[beepgrid end dlv_2]"] {
        assert!(!is_same(other, &one, &framed), "{other}");
    }
}

#[tokio::test]
async fn settings_are_checked_and_the_password_is_never_shown() {
    let refused = |url: &str| matches!(Server::at(url).session("ses_1"), Err(OpencodeError::Address(_)));
    for url in [
        "",
        "https://127.0.0.1:1",
        "http://me:pw@127.0.0.1:1",
        "http://10.0.0.1:1",
        "http://example.com",
        "http://127.0.0.1:1/?a=b",
    ] {
        assert!(refused(url), "{url}");
    }
    for url in ["http://127.0.0.1:4096", "http://localhost:1/", "http://[::1]:4096/base"] {
        assert!(!refused(url), "{url}");
    }
    assert!(Server::at("http://10.0.0.1:1").allow_remote().session("ses_1").is_ok());
    assert_eq!(Server::at("http://127.0.0.1:1").session("x/../y").err(), Some(OpencodeError::SessionId));
    let server = Server::at("http://127.0.0.1:1").password("very-secret".to_owned());
    let shown = format!("{server:?} {:?} {:?}", server.session("ses_1").unwrap(), server.session("ses_1").unwrap().api);
    assert!(!shown.contains("very-secret"), "{shown}");
}
