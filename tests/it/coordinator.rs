//! The Coordinator: what its model is told, what is believed of it, and what comes of that.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use beepgrid::{OverseerInstruction, PlanOperation, PrincipalId};
use beepgrid_engine_ref::{PlanBrief, Planner, PlannerError, Planning, Proposal, ReplyBrief};
use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::{Api, Members};
use beepgrid_tests::stores::{Kind, Site};
use beepgrid_tests::world::{World, allow, contacts, credential, deny};
use serde_json::{Value, json};

mod without_a_model {
    use super::*;

    on_both_stores!(nothing_is_planned, unknown_plans_are_not_found);

    async fn nothing_is_planned(w: World) {
        let prompt = json!({"prompt": "Who is there?"});
        for path in ["/fleet/plan", "/fleet/coordinate"] {
            w.owner.api.post(path, prompt.clone()).await.forbidden();
        }
        let on = w.owner.api.patch("/assistance", json!({"overseer": true})).await.ok();
        assert_eq!(on["overseer_configured"], false);
        for path in ["/fleet/plan", "/fleet/coordinate"] {
            let answer = w.owner.api.post(path, prompt.clone()).await;
            assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
            assert!(answer.refused(503, "unavailable").contains("BEEPGRID_AI_PROVIDER"));
        }
        assert_eq!(w.owner.api.get("/fleet/plans").await.ok(), json!([]));
    }

    async fn unknown_plans_are_not_found(w: World) {
        w.ann.api.get("/fleet/plans/pln_1").await.not_found();
        w.ann.api.post("/fleet/command", json!({"plan_id": "pln_1"})).await.not_found();
        w.ann.api.post("/fleet/plans/pln_1/summary", Value::Null).await.not_found();
    }
}

on_both_stores!(
    in crate::coordinator::Room::open;
    a_plan_sends_nothing_until_it_is_confirmed_and_then_once,
    a_status_is_answered_and_sends_nothing,
    the_model_is_told_of_contacts_only,
    a_target_narrows_what_the_model_is_told,
    input_is_checked,
    what_the_model_may_not_choose_is_refused,
    a_model_that_fails_or_is_silent_stores_nothing,
    coordinate_sends_all_or_nothing,
    rights_are_checked_again_when_a_plan_is_confirmed,
    a_plan_can_be_confirmed_for_fifteen_minutes,
    a_key_asks_the_model_once,
    only_people_are_served,
    a_plan_is_its_makers,
    ceilings_hold_for_what_a_plan_sends,
    replies_are_summed_up,
    a_failed_summary_leaves_what_was_sent,
    a_person_asks_once_a_second,
    plans_are_listed_and_queried_newest_first,
    their_maker_hears_of_plans,
    a_plan_goes_on_from_an_earlier_one,
);

#[derive(Debug)]
enum Say {
    Plan(Proposal),
    Text(&'static str),
    Fail,
    Nothing,
}

#[derive(Debug, Default)]
struct Script {
    next: VecDeque<Say>,
    told: Vec<PlanBrief>,
    shown: Vec<ReplyBrief>,
}

/// A model that says what a test wants.
#[derive(Clone, Debug, Default)]
struct Model(Arc<Mutex<Script>>);

impl Model {
    fn says(&self, what: Say) {
        self.0.lock().unwrap().next.push_back(what);
    }

    fn told(&self) -> Vec<PlanBrief> {
        self.0.lock().unwrap().told.clone()
    }

    fn shown(&self) -> Vec<ReplyBrief> {
        self.0.lock().unwrap().shown.clone()
    }
}

impl Planner for Model {
    fn plan(&self, brief: PlanBrief) -> Planning<Proposal> {
        let mut script = self.0.lock().unwrap();
        script.told.push(brief);
        let next = script.next.pop_front();
        Box::pin(async move {
            match next {
                Some(Say::Plan(proposal)) => Ok(proposal),
                Some(Say::Nothing) => std::future::pending().await,
                _ => Err(PlannerError::new("as the test wants")),
            }
        })
    }

    fn summarize(&self, brief: ReplyBrief) -> Planning<String> {
        let mut script = self.0.lock().unwrap();
        script.shown.push(brief);
        let next = script.next.pop_front();
        Box::pin(async move {
            match next {
                Some(Say::Text(text)) => Ok(text.to_owned()),
                Some(Say::Nothing) => std::future::pending().await,
                _ => Err(PlannerError::new("as the test wants")),
            }
        })
    }
}

/// A workspace whose Coordinator is on and has a model.
pub(crate) struct Room {
    w: World,
    model: Model,
}

impl Room {
    pub(crate) async fn open(kind: Kind) -> Self {
        let model = Model::default();
        let planner = model.clone();
        let site = Site::with(kind, |builder| builder.planner(planner).planner_deadline(Duration::from_secs(1))).await;
        let w = World::populate(site).await;
        let on = w.owner.api.patch("/assistance", json!({"overseer": true})).await.ok();
        assert_eq!((&on["overseer"], &on["overseer_configured"]), (&json!(true), &json!(true)));
        Self { w, model }
    }

    /// To Builder a question, to Billing a message.
    fn two(&self) -> Proposal {
        plan(&[
            (&self.w.builder.id, PlanOperation::Question, "Is staging ready?"),
            (&self.w.billing.id, PlanOperation::Message, "We deploy."),
        ])
    }

    /// Ann's plan, which sends two things.
    async fn planned(&self) -> Value {
        self.model.says(Say::Plan(self.two()));
        let made = self.w.ann.api.post("/fleet/plan", json!({"prompt": "Get ready."})).await.created();
        self.w.advance(1);
        made
    }

    async fn sent(&self) -> usize {
        self.w.builder.drain().await.len() + self.w.billing.drain().await.len()
    }
}

fn plan(instructions: &[(&str, PlanOperation, &str)]) -> Proposal {
    let instructions = instructions.iter().map(|(agent, operation, body)| OverseerInstruction {
        agent_id: PrincipalId::new(*agent),
        operation: operation.clone(),
        body: (*body).to_owned(),
    });
    Proposal {
        operation: PlanOperation::Message,
        summary: "Because.".to_owned(),
        body: String::new(),
        instructions: instructions.collect(),
    }
}

fn status(text: &str) -> Proposal {
    Proposal { operation: PlanOperation::Status, summary: text.to_owned(), ..plan(&[]) }
}

async fn confirm(api: &Api, plan: &Value) -> beepgrid_tests::raw::Answer {
    api.post("/fleet/command", json!({"plan_id": plan.id()})).await
}

async fn a_plan_sends_nothing_until_it_is_confirmed_and_then_once(room: Room) {
    let made = room.planned().await;
    assert!(made.id().starts_with("pln_"));
    assert_eq!(
        (&made["operation"], &made["summary"], &made["prompt"]),
        (&json!("message"), &json!("Because."), &json!("Get ready."))
    );
    assert_eq!((&made["requires_confirmation"], &made["dispatches"], &made["replies"]), (&json!(true), &json!([]), &json!([])));
    assert_eq!(made["expires_at"], json!(room.w.after(15 * 60 - 1)));
    assert_eq!(made.list("instructions").len(), 2);
    assert_eq!(room.sent().await, 0);

    let sent = confirm(&room.w.ann.api, &made).await.ok();
    assert_eq!((sent.id(), &sent["requires_confirmation"]), (made.id(), &json!(false)));
    let dispatches = sent.list("dispatches");
    assert_eq!(dispatches.each_agent(), [room.w.builder.id.clone(), room.w.billing.id.clone()]);
    assert!(dispatches[1].get("request_id").is_none());
    let asked = room.w.ann.api.get(&format!("/requests/{}", dispatches[0].s("request_id"))).await.ok();
    assert_eq!(
        (asked.s("kind"), asked.s("body"), asked.s("requester_id")),
        ("question".into(), "Is staging ready?".into(), room.w.ann.id.clone())
    );
    assert_eq!(sent.list("replies"), [asked]);
    let said = room.w.conversation(&room.w.ann.api, &dispatches[1].s("conversation_id")).await;
    assert_eq!(said["messages"][0].s("body"), "We deploy.");
    let again = confirm(&room.w.ann.api, &made).await.ok();
    assert_eq!(again["dispatches"], sent["dispatches"]);
    assert_eq!(room.sent().await, 2);
}

trait Agents {
    fn each_agent(&self) -> Vec<String>;
}

impl Agents for Vec<Value> {
    fn each_agent(&self) -> Vec<String> {
        self.iter().map(|dispatch| dispatch.s("agent_id")).collect()
    }
}

async fn a_status_is_answered_and_sends_nothing(room: Room) {
    for path in ["/fleet/plan", "/fleet/coordinate"] {
        room.model.says(Say::Plan(status("Both are there.")));
        let made = room.w.ann.api.post(path, json!({"prompt": "Who is there?"})).await.created();
        assert_eq!((&made["operation"], &made["summary"]), (&json!("status"), &json!("Both are there.")));
        assert_eq!((&made["requires_confirmation"], &made["dispatches"]), (&json!(false), &json!([])));
        assert_eq!(made.get("automatic").is_some(), path.ends_with("coordinate"));
        room.w.advance(1);
    }
    assert_eq!(room.sent().await, 0);
}

async fn the_model_is_told_of_contacts_only(room: Room) {
    let made = room.planned().await;
    let mut known = [room.w.builder.id.clone(), room.w.billing.id.clone()];
    known.sort();
    let brief = room.model.told().pop().unwrap();
    assert_eq!(brief.prompt, "Get ready.");
    assert_eq!(brief.sources.iter().map(|source| source.agent.id.to_string()).collect::<Vec<_>>(), known);
    assert_eq!(made["context_agent_ids"], json!(known));
    assert_eq!(made.list("sources").iter().map(|source| source["agent"].id()).collect::<Vec<_>>(), known);
    // Whom Ann loses sight of is gone from what she reads, not from what was planned.
    room.w.policy(&room.w.ann.target(), contacts(&[room.w.builder.target()])).await;
    let read = room.w.ann.api.get(&format!("/fleet/plans/{}", made.id())).await.ok();
    assert_eq!(read["context_agent_ids"], json!([room.w.builder.id]));
    // Bob has no contact: the model has nobody to choose.
    room.model.says(Say::Plan(status("Nobody.")));
    room.w.bob.api.post("/fleet/plan", json!({"prompt": "Who is there?"})).await.created();
    assert!(room.model.told().pop().unwrap().sources.is_empty());
}

async fn a_target_narrows_what_the_model_is_told(room: Room) {
    let group = room.w.group("Ops", &[&room.w.billing.id, &room.w.bob.id]).await;
    let ask = async |target: Value| {
        room.model.says(Say::Plan(status("x")));
        let answer = room.w.owner.api.post("/fleet/plan", json!({"prompt": "x", "target": target})).await;
        room.w.advance(1);
        answer
    };
    for target in [room.w.billing.target(), json!({"kind": "group", "id": group})] {
        let made = ask(target.clone()).await.created();
        assert_eq!((&made["target"], &made["context_agent_ids"]), (&target, &json!([room.w.billing.id])));
    }
    let body = json!({"prompt": "x", "target": room.w.hidden.target()});
    let told = room.model.told().len();
    assert!(room.w.ann.api.post("/fleet/plan", body).await.not_found().contains("target"));
    room.w.ann.api.post("/fleet/plan", json!({"prompt": "x", "target": {"kind": "group", "id": group}})).await.not_found();
    assert_eq!(room.model.told().len(), told, "the model is not asked in vain");
}

async fn input_is_checked(room: Room) {
    for (body, field) in [
        (json!({}), "prompt"),
        (json!({"prompt": ""}), "prompt"),
        (json!({"prompt": " \n"}), "prompt"),
        (json!({"prompt": "x".repeat(32 * 1024 + 1)}), "prompt"),
        (json!({"prompt": "x", "target": {"kind": "person", "id": "per_1"}}), "target.kind"),
        (json!({"prompt": "x", "extra": 1}), "extra"),
    ] {
        room.w.ann.api.post("/fleet/plan", body.clone()).await.invalid(field);
        room.w.ann.api.post("/fleet/coordinate", body).await.invalid(field);
    }
    room.w.ann.api.post("/fleet/command", json!({})).await.invalid("plan_id");
    assert!(room.model.told().is_empty());
}

async fn what_the_model_may_not_choose_is_refused(room: Room) {
    let (builder, message) = (room.w.builder.id.clone(), PlanOperation::Message);
    let long = "x".repeat(32 * 1024 + 1);
    let proposals = [
        plan(&[(&room.w.hidden.id, message.clone(), "x")]),
        plan(&[(&builder, message.clone(), "x"), (&builder, message.clone(), "y")]),
        plan(&[(&builder, PlanOperation::Other("approve".to_owned()), "x")]),
        plan(&[(&builder, PlanOperation::Status, "x")]),
        plan(&[(&builder, message.clone(), " ")]),
        plan(&[(&builder, message.clone(), &long)]),
        plan(&[(&builder, message.clone(), "a\0b")]),
        plan(&[]),
        Proposal { operation: PlanOperation::Status, ..room.two() },
        Proposal { operation: PlanOperation::Other("grant".to_owned()), ..room.two() },
        Proposal { summary: long.clone(), ..room.two() },
    ];
    for (place, proposal) in proposals.into_iter().enumerate() {
        let path = if place % 2 == 0 { "/fleet/plan" } else { "/fleet/coordinate" };
        room.model.says(Say::Plan(proposal));
        let said = room.w.ann.api.post(path, json!({"prompt": "x"})).await.refused(502, "provider_failed");
        assert!(!said.contains("approve") && !said.contains(&room.w.hidden.id), "{said}");
        room.w.advance(1);
    }
    assert_eq!(room.w.ann.api.get("/fleet/plans").await.ok(), json!([]));
    assert_eq!(room.sent().await, 0);
}

async fn a_model_that_fails_or_is_silent_stores_nothing(room: Room) {
    room.model.says(Say::Fail);
    room.w.ann.api.post("/fleet/coordinate", json!({"prompt": "x"})).key("k").await.refused(502, "provider_failed");
    room.w.advance(1);
    room.model.says(Say::Nothing);
    room.w.ann.api.post("/fleet/coordinate", json!({"prompt": "x"})).key("k").await.refused(504, "provider_timeout");
    room.w.advance(1);
    assert_eq!(room.w.ann.api.get("/fleet/plans").await.ok(), json!([]));
    // A failure consumes no key.
    room.model.says(Say::Plan(room.two()));
    room.w.ann.api.post("/fleet/coordinate", json!({"prompt": "x"})).key("k").await.created();
    assert_eq!(room.sent().await, 2);
}

async fn coordinate_sends_all_or_nothing(room: Room) {
    room.model.says(Say::Plan(room.two()));
    let made = room.w.ann.api.post("/fleet/coordinate", json!({"prompt": "Go."})).await.created();
    assert_eq!((&made["automatic"], &made["requires_confirmation"]), (&json!(true), &json!(false)));
    assert_eq!(made.list("dispatches").len(), 2);
    assert_eq!(room.sent().await, 2);
    room.w.advance(1);
    // Ann may message Billing, and not ask it.
    let mut rules = contacts(&[room.w.builder.target(), room.w.billing.target()]);
    rules.push(deny("ask", room.w.billing.target()));
    room.w.policy(&room.w.ann.target(), rules).await;
    let proposal = plan(&[(&room.w.builder.id, PlanOperation::Message, "x"), (&room.w.billing.id, PlanOperation::Task, "y")]);
    room.model.says(Say::Plan(proposal));
    let said = room.w.ann.api.post("/fleet/coordinate", json!({"prompt": "Go."})).await.forbidden();
    assert!(said.contains("instructions[1]"), "{said}");
    assert_eq!(room.w.ann.api.get("/fleet/plans").await.ok().as_array().unwrap().len(), 1);
    assert_eq!(room.sent().await, 0);
}

async fn rights_are_checked_again_when_a_plan_is_confirmed(room: Room) {
    let made = room.planned().await;
    room.w.policy(&room.w.ann.target(), vec![allow("view", room.w.billing.target())]).await;
    let said = confirm(&room.w.ann.api, &made).await.not_found();
    assert!(said.contains("instructions[0]"), "{said}");
    room.w.policy(&room.w.ann.target(), contacts(&[room.w.builder.target(), room.w.billing.target()])).await;
    room.w.owner.api.patch("/assistance", json!({"overseer": false})).await.ok();
    confirm(&room.w.ann.api, &made).await.forbidden();
    assert_eq!(room.sent().await, 0);
    room.w.owner.api.patch("/assistance", json!({"overseer": true})).await.ok();
    confirm(&room.w.ann.api, &made).await.ok();
    assert_eq!(room.sent().await, 2);
}

async fn a_plan_can_be_confirmed_for_fifteen_minutes(room: Room) {
    let (early, late) = (room.planned().await, room.planned().await);
    room.w.advance(15 * 60 - 3);
    confirm(&room.w.ann.api, &early).await.ok();
    room.w.advance(2);
    confirm(&room.w.ann.api, &late).await.refused(409, "preview_stale");
    confirm(&room.w.ann.api, &early).await.ok();
    assert_eq!(room.sent().await, 2);
}

async fn a_key_asks_the_model_once(room: Room) {
    room.model.says(Say::Plan(room.two()));
    let call = || room.w.ann.api.post("/fleet/coordinate", json!({"prompt": "Go."})).key("once");
    let first = call().await.created();
    let again = call().await.ok();
    assert_eq!(again["dispatches"], first["dispatches"]);
    let other = room.w.ann.api.post("/fleet/coordinate", json!({"prompt": "Stop."})).key("once").await;
    other.refused(409, "idempotency_conflict");
    assert_eq!(room.model.told().len(), 1);
    assert_eq!(room.sent().await, 2);
    // A summary under a key is made once, too.
    room.w.advance(1);
    room.model.says(Say::Text("Open."));
    let sum = || room.w.ann.api.post(&format!("/fleet/plans/{}/summary", first.id()), Value::Null).key("sum");
    assert_eq!(sum().await.ok().s("reply_summary"), "Open.");
    assert_eq!(sum().await.ok().s("reply_summary"), "Open.");
    assert_eq!(room.model.shown().len(), 1);
}

async fn only_people_are_served(room: Room) {
    room.w.builder.api.post("/fleet/plan", json!({"prompt": "x"})).await.forbidden();
    room.w.builder.api.post("/fleet/coordinate", json!({"prompt": "x"})).await.forbidden();
    assert!(room.model.told().is_empty());
}

async fn a_plan_is_its_makers(room: Room) {
    let made = room.planned().await;
    let path = format!("/fleet/plans/{}", made.id());
    room.w.bob.api.get(&path).await.not_found();
    confirm(&room.w.bob.api, &made).await.not_found();
    room.w.bob.api.post(&format!("{path}/summary"), Value::Null).await.not_found();
    assert_eq!(room.w.bob.api.get("/fleet/plans").await.ok(), json!([]));
    // An operator reads it, and sends nothing in another's name.
    assert_eq!(room.w.owner.api.get(&path).await.ok().id(), made.id());
    confirm(&room.w.owner.api, &made).await.forbidden();
    assert_eq!(room.w.owner.api.get("/fleet/plans").await.ok(), json!([]));
    assert_eq!(room.sent().await, 0);
}

async fn ceilings_hold_for_what_a_plan_sends(room: Room) {
    let made = room.planned().await;
    let (_, reader) = credential(&room.w.owner.api, &room.w.ann.id, Some(&["read"])).await;
    reader.post("/fleet/plan", json!({"prompt": "x"})).await.forbidden();
    confirm(&reader, &made).await.forbidden();
    reader.get(&format!("/fleet/plans/{}", made.id())).await.ok();
    // It would ask a question.
    let (_, sender) = credential(&room.w.owner.api, &room.w.ann.id, Some(&["message"])).await;
    confirm(&sender, &made).await.forbidden();
    assert_eq!(room.sent().await, 0);
}

async fn replies_are_summed_up(room: Room) {
    let made = room.planned().await;
    let path = format!("/fleet/plans/{}/summary", made.id());
    // It has asked nobody yet.
    room.w.ann.api.post(&path, Value::Null).await.refused(400, "invalid_request");
    let sent = confirm(&room.w.ann.api, &made).await.ok();
    room.model.says(Say::Text("  Builder has not answered.  "));
    let open = room.w.ann.api.post(&path, Value::Null).await.ok();
    assert_eq!(open.s("reply_summary"), "Builder has not answered.");
    assert_eq!(room.model.shown()[0].replies[0].state.as_str(), "open");
    room.w.advance(1);
    let request = sent["dispatches"][0].s("request_id");
    let answer = json!({"outcome": "answered", "version": 1, "answer": "Yes"});
    room.w.builder.api.post(&format!("/requests/{request}/respond"), answer).await.ok();
    room.model.says(Say::Text("It is ready."));
    let done = room.w.ann.api.post(&path, Value::Null).await.ok();
    assert_eq!((done.s("reply_summary"), done["replies"][0].s("state")), ("It is ready.".into(), "resolved".into()));
    assert_eq!((open.s("reply_digest").len(), done.s("reply_digest").len()), (64, 64));
    assert_ne!(open.s("reply_digest"), done.s("reply_digest"));
}

async fn a_failed_summary_leaves_what_was_sent(room: Room) {
    let made = room.planned().await;
    confirm(&room.w.ann.api, &made).await.ok();
    let path = format!("/fleet/plans/{}/summary", made.id());
    room.model.says(Say::Text("It is open."));
    room.w.ann.api.post(&path, Value::Null).await.ok();
    for bad in [Say::Fail, Say::Nothing, Say::Text(" "), Say::Text("a\0b")] {
        room.w.advance(1);
        room.model.says(bad);
        let read = room.w.ann.api.post(&path, Value::Null).await.ok();
        assert!(!read.s("summary_error").is_empty());
        assert_eq!((read.s("reply_summary"), read.list("dispatches").len()), ("It is open.".into(), 2));
    }
    room.w.advance(1);
    room.model.says(Say::Text("It is still open."));
    assert!(room.w.ann.api.post(&path, Value::Null).await.ok().get("summary_error").is_none());
}

async fn a_person_asks_once_a_second(room: Room) {
    room.model.says(Say::Plan(status("x")));
    room.w.ann.api.post("/fleet/plan", json!({"prompt": "x"})).await.created();
    let refused = room.w.ann.api.post("/fleet/plan", json!({"prompt": "x"})).await;
    assert_eq!(refused.header("retry-after"), "1");
    refused.refused(429, "rate_limited");
    room.model.says(Say::Plan(status("x")));
    room.w.bob.api.post("/fleet/plan", json!({"prompt": "x"})).await.created();
    room.w.advance(1);
    room.model.says(Say::Plan(status("x")));
    room.w.ann.api.post("/fleet/plan", json!({"prompt": "x"})).await.created();
}

async fn plans_are_listed_and_queried_newest_first(room: Room) {
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.insert(0, room.planned().await.id());
    }
    let listed = room.w.ann.api.get("/fleet/plans").await.ok();
    assert_eq!(listed.as_array().unwrap().iter().map(Members::id).collect::<Vec<_>>(), ids);
    let query = async |api: &Api, more: Value| {
        let mut body = json!({"collection": "overseer_plans", "limit": 2});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        api.post("/query", body).await.ok()
    };
    let first = query(&room.w.ann.api, json!({})).await;
    assert_eq!(
        (first.list("items").iter().map(Members::id).collect::<Vec<_>>(), first.s("order")),
        (ids[..2].to_vec(), "created descending".into())
    );
    let rest = query(&room.w.ann.api, json!({"cursor": first.s("next_cursor")})).await;
    assert_eq!(rest.list("items").iter().map(Members::id).collect::<Vec<_>>(), ids[2..]);
    assert!(rest.get("next_cursor").is_none());
    assert!(query(&room.w.bob.api, json!({})).await.list("items").is_empty());
    assert!(query(&room.w.bob.api, json!({"filters": {"id": ids[0]}})).await.list("items").is_empty());
    assert_eq!(query(&room.w.owner.api, json!({"filters": {"id": ids[0]}})).await.list("items").len(), 1);
}

async fn their_maker_hears_of_plans(room: Room) {
    let made = room.planned().await;
    confirm(&room.w.ann.api, &made).await.ok();
    room.model.says(Say::Text("Open."));
    room.w.ann.api.post(&format!("/fleet/plans/{}/summary", made.id()), Value::Null).await.ok();
    let heard = async |api: &Api| {
        let items = api.get("/events?limit=500").await.ok().list("items");
        items.into_iter().filter(|event| event.s("kind").starts_with("plan.")).collect::<Vec<_>>()
    };
    let events = heard(&room.w.ann.api).await;
    let kinds: Vec<_> = events.iter().map(|event| event.s("kind")).collect();
    assert_eq!(kinds, ["plan.created", "plan.dispatched", "plan.summarized"]);
    assert!(events.iter().all(|event| event["data"].id() == made.id() && event.s("actor_id") == room.w.ann.id));
    assert_eq!(heard(&room.w.owner.api).await.len(), 3);
    assert!(heard(&room.w.bob.api).await.is_empty());
    assert!(heard(&room.w.builder.api).await.is_empty());
}

async fn a_plan_goes_on_from_an_earlier_one(room: Room) {
    let made = room.planned().await;
    room.model.says(Say::Plan(status("Nothing yet.")));
    let next = json!({"prompt": "And now?", "previous_plan_id": made.id()});
    let second = room.w.ann.api.post("/fleet/plan", next.clone()).await.created();
    assert_eq!(second.s("previous_plan_id"), made.id());
    let brief = room.model.told().pop().unwrap();
    assert_eq!(brief.previous.unwrap().id.to_string(), made.id());
    assert!(room.w.bob.api.post("/fleet/plan", next).await.not_found().contains("previous_plan_id"));
}
