//! Calls as values: URL, headers and body, without a network.

use serde_json::json;

use super::*;
use crate::error::ErrorKind;
use crate::model::{
    AskBatchInput, AskInput, AttachmentId, ConversationId, DeliveryId, EnrollInput, GroupId, InboxInput, Mention, PrincipalId,
    PrincipalKind, ReleaseInput, RequestId, ResponseInput, SendBatchInput, SendInput, StartChatInput, Target,
};
use crate::ops::DirectoryInput;

const TOKEN: &str = "bgt_secret_0123456789";

fn client() -> Client {
    Client::new("http://127.0.0.1:4010/base/", TOKEN).unwrap()
}

fn request<T>(call: Call<T>) -> reqwest::Request {
    let (client, out, _) = call.plan().unwrap();
    transport::build(&client, &out).map_err(|cause| format!("{cause:?}")).unwrap()
}

fn body(request: &reqwest::Request) -> serde_json::Value {
    serde_json::from_slice(request.body().unwrap().as_bytes().unwrap()).unwrap()
}

fn header<'a>(request: &'a reqwest::Request, name: &str) -> Option<&'a str> {
    request.headers().get(name).map(|value| value.to_str().unwrap())
}

fn refused<T>(call: Call<T>) -> (String, Error) {
    let error = call.plan().map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(!error.is_outcome_unknown());
    (error.input().unwrap().field.clone(), error)
}

fn message() -> SendInput {
    SendInput::to(Target::agent("builder-7"), "Hello")
}

#[test]
fn a_send_is_a_post_of_its_input_under_a_key() {
    let key: Key = "order-17".parse().unwrap();
    let request = request(client().send(message()).key(key));
    assert_eq!(request.method(), reqwest::Method::POST);
    assert_eq!(request.url().as_str(), "http://127.0.0.1:4010/base/api/v1/messages");
    assert_eq!(header(&request, "authorization"), Some("Bearer bgt_secret_0123456789"));
    assert!(request.headers().get("authorization").unwrap().is_sensitive());
    assert_eq!(header(&request, "idempotency-key"), Some("order-17"));
    assert_eq!(header(&request, "content-type"), Some("application/json"));
    assert_eq!(header(&request, "prefer"), None);
    assert_eq!(body(&request), json!({"target": {"kind": "agent", "id": "builder-7"}, "body": "Hello"}));
}

#[test]
fn send_minimal_asks_for_the_receipt() {
    assert_eq!(header(&request(client().send_minimal(message())), "prefer"), Some("return=minimal"));
}

#[test]
fn a_keyed_write_makes_one_key_and_every_attempt_carries_it() {
    let (client, out, _) = client().send(message()).plan().unwrap();
    let keys: Vec<_> = (0..3)
        .map(|_| transport::build(&client, &out).map_err(|_| ()).unwrap().headers().get("idempotency-key").cloned().unwrap())
        .collect();
    assert_eq!(out.key.as_ref().map(Key::as_str), keys[0].to_str().ok());
    assert!(keys.iter().all(|key| *key == keys[0]));
}

#[test]
fn respond_cancel_and_replace_get_a_key_too_and_reads_none() {
    let client = client();
    let id = RequestId::new("req_1");
    let replace = crate::model::ReplaceRequestInput::new(1, "again");
    assert!(header(&request(client.respond(&id, ResponseInput::answered(1, "yes"))), "idempotency-key").is_some());
    assert!(header(&request(client.cancel(&id, 1)), "idempotency-key").is_some());
    assert!(header(&request(client.replace_request(&id, replace)), "idempotency-key").is_some());
    assert!(header(&request(client.me().key(Key::new())), "idempotency-key").is_none());
}

#[test]
fn a_key_for_what_takes_none_is_refused_and_given_back() {
    let key = Key::new();
    let (field, error) = refused(client().enroll(EnrollInput::new("a/b", "B")).key(key.clone()));
    assert_eq!(field, "key");
    assert_eq!(error.key(), Some(&key));
    assert_eq!(refused(client().ack_lease(&DeliveryId::new("dlv_1"), 1).key(Key::new())).0, "key");
}

#[test]
fn ids_are_encoded_and_can_not_leave_their_place() {
    let client = client();
    let path = |id: &str| request(client.conversation(&ConversationId::new(id))).url().path().to_owned();
    assert_eq!(path("cnv_1"), "/base/api/v1/conversations/cnv_1");
    assert_eq!(path("a/b?c#d e%2f"), "/base/api/v1/conversations/a%2Fb%3Fc%23d%20e%252f");
    assert_eq!(path("ключ"), "/base/api/v1/conversations/%D0%BA%D0%BB%D1%8E%D1%87");
    for id in ["", ".", "..", &"x".repeat(801)] {
        assert_eq!(refused(client.conversation(&ConversationId::new(id))).0, "id", "{id:?}");
    }
}

#[test]
fn queries_are_encoded() {
    let input = DirectoryInput::new(PrincipalKind::Agent).search("a&b=c é").limit(20);
    let request = request(client().directory(input));
    assert_eq!(request.url().query(), Some("kind=agent&search=a%26b%3Dc+%C3%A9&limit=20"));
    assert!(request.body().is_none());
    assert_eq!(refused(client().directory(DirectoryInput::new(PrincipalKind::Agent).limit(0))).0, "limit");
}

#[test]
fn a_long_poll_gets_its_wait_and_ten_seconds() {
    let timeout = |input| client().inbox(input).plan().unwrap().1.timeout;
    assert_eq!(timeout(InboxInput::new()), Duration::from_secs(20));
    assert_eq!(timeout(InboxInput::new().wait_ms(15_000)), Duration::from_secs(25));
    let (_, round, _) = client().wait_round(&RequestId::new("req_1"), Duration::from_secs(15)).plan().unwrap();
    assert_eq!((round.timeout, &*round.query), (Duration::from_secs(25), &[("wait_ms", "15000".to_owned())][..]));
}

#[test]
fn a_send_needs_exactly_one_audience() {
    let client = client();
    let conversation = ConversationId::new("cnv_1");
    let mut both = SendInput::reply(&conversation, "x");
    both.target = Some(Target::agent("a"));
    assert_eq!(refused(client.send(both)).0, "target");
    assert_eq!(refused(client.send(SendInput::default())).0, "target");
    assert_eq!(refused(client.send(SendInput::to(Target::agent(""), "x"))).0, "target.id");
    assert_eq!(refused(client.ask(AskInput::new("x"))).0, "target");
}

#[test]
fn a_body_has_1_byte_to_32_kib_of_utf_8_unless_there_is_a_file() {
    let client = client();
    let to = |body: String| SendInput::to(Target::agent("a"), body);
    assert!(client.send(to("x".repeat(32 * 1024))).plan().is_ok());
    assert_eq!(refused(client.send(to("x".repeat(32 * 1024 + 1)))).0, "body");
    assert_eq!(refused(client.send(to("é".repeat(16 * 1024 + 1)))).0, "body");
    assert_eq!(refused(client.send(to(String::new()))).0, "body");
    assert!(client.send(to(String::new()).attachment_ids(vec![AttachmentId::new("att_1")])).plan().is_ok());
    let six = vec![AttachmentId::new("att_1"); 6];
    assert_eq!(refused(client.send(to("x".into()).attachment_ids(six))).0, "attachment_ids");
    assert_eq!(refused(client.ask(AskInput::to(Target::agent("a"), ""))).0, "body");
    let with_file = AskInput::to(Target::agent("a"), " \n").title("Free?").attachment_ids(vec![AttachmentId::new("att_1")]);
    assert_eq!(refused(client.ask(with_file)).0, "body");
}

#[test]
fn titles_choices_and_mentions_have_limits() {
    let client = client();
    let ask = || AskInput::to(Target::agent("a"), "Well?");
    assert_eq!(refused(client.send(message().title("é".repeat(201)))).0, "title");
    assert!(client.send(message().title("é".repeat(200))).plan().is_ok());
    assert!(client.ask(ask().choices(vec!["x"; 20])).plan().is_ok());
    assert_eq!(refused(client.ask(ask().choices(vec!["x"; 21]))).0, "choices");
    assert_eq!(refused(client.ask(ask().choices(["ok", ""]))).0, "choices[1]");
    assert_eq!(refused(client.ask(ask().choices(["x".repeat(201)]))).0, "choices[0]");
    let beyond = Mention { principal_id: PrincipalId::new("agt_1"), start: 0, end: 6 };
    assert_eq!(refused(client.send(message().mentions(vec![beyond]))).0, "mentions[0]");
}

#[test]
fn batches_take_1_to_100_individuals() {
    let client = client();
    let batch = |targets| SendBatchInput::new(targets, "x");
    assert!(client.send_batch(batch(vec![Target::agent("a"); 100])).plan().is_ok());
    assert_eq!(refused(client.send_batch(batch(vec![Target::agent("a"); 101]))).0, "targets");
    assert_eq!(refused(client.send_batch(batch(vec![]))).0, "targets");
    let group = vec![Target::agent("a"), Target::group(&GroupId::new("grp_1"))];
    assert_eq!(refused(client.send_batch(batch(group.clone()))).0, "targets[1].kind");
    assert_eq!(refused(client.start_chat(StartChatInput::new(group.clone(), "x"))).0, "targets[1].kind");
    assert_eq!(refused(client.ask_batch(AskBatchInput::new(group, AskInput::new("x")))).0, "targets[1].kind");
    let addressed = AskInput::to(Target::agent("a"), "x");
    assert_eq!(refused(client.ask_batch(AskBatchInput::new(vec![Target::agent("a")], addressed))).0, "request.target");
}

#[test]
fn answers_and_worker_calls_have_limits() {
    let client = client();
    let (request, delivery) = (RequestId::new("req_1"), DeliveryId::new("dlv_1"));
    assert_eq!(refused(client.respond(&request, ResponseInput::answered(1, "x".repeat(32 * 1024)))).0, "answer");
    assert_eq!(refused(client.cancel(&request, 0)).0, "version");
    assert_eq!(refused(client.inbox(InboxInput::new().wait_ms(15_001))).0, "wait_ms");
    assert_eq!(refused(client.inbox(InboxInput::new().limit(101))).0, "limit");
    assert_eq!(refused(client.extend(&delivery, 1, 0)).0, "seconds");
    assert_eq!(refused(client.extend(&delivery, 1, 301)).0, "seconds");
    assert_eq!(refused(client.release(&delivery, ReleaseInput::new(1).delay_seconds(3_601))).0, "delay_seconds");
    assert_eq!(refused(client.ack_many(&[])).0, "items");
    assert_eq!(refused(client.ack_many(&vec![(delivery, 1); 101])).0, "items");
}

#[test]
fn a_raw_call_stays_under_the_api() {
    let client = client();
    let call = |path: &str| client.call::<serde_json::Value>(Method::Post, path, Some(&json!({"a": 1})));
    assert_eq!(request(call("/api/v1/fleet/plan")).url().path(), "/base/api/v1/fleet/plan");
    for path in ["api/v1/me", "/other", "//host/api/", "/api/../admin", "/api/v1/./x", "/api/v1/x#y", "/api/v1\\x"] {
        assert_eq!(refused(call(path)).0, "path", "{path}");
    }
    assert!(request(call("/api/v1/x")).headers().get("idempotency-key").is_none());
    let keyed = client.call_keyed::<serde_json::Value>(Method::Post, "/api/v1/x", None);
    assert!(request(keyed).headers().get("idempotency-key").is_some());
}

#[test]
fn the_token_is_in_no_debug_text() {
    let client = client();
    let (_, out, _) = client.send(message()).plan().unwrap();
    let http = transport::build(&client, &out).map_err(|_| ()).unwrap();
    let builder = Client::builder("http://localhost").token(TOKEN);
    for text in [format!("{client:?}"), format!("{:?}", client.send(message())), format!("{http:?}"), format!("{builder:?}")] {
        assert!(!text.contains("bgt_secret"), "{text}");
    }
}
