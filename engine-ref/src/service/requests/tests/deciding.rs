//! Who decides, once, and what everybody else gets.

use beepgrid::{Action, AskInput, ErrorCode, Outcome, PermissionRule, RequestKind, RequestState, ResponseInput, RuleAction};
use serde_json::json;

use super::on_every_store;
use super::world::{ANA, BEN, BILLING, BUILDER, OLGA, World, ask_of, code, target};

on_every_store!(
    first_decision_wins_and_the_others_change_nothing,
    outcome_and_answer_fit_the_request,
    only_who_was_asked_decides,
    former_audience_member_gets_404,
    newcomer_reads_but_does_not_decide,
    denies_and_disabled_requesters_stop_a_decision,
    executor_never_decides,
    refusals_come_in_order,
    others_of_a_group_see_the_state_alone,
);

fn answer(text: &str) -> ResponseInput {
    ResponseInput::answered(1, text)
}

async fn first_decision_wins_and_the_others_change_nothing(world: World) {
    let chat = world.chat("cnv_chat", &[BUILDER, ANA, BILLING]).await;
    world.may_ask(BUILDER, &[ANA, BILLING]).await;
    let asked = world.ask(BUILDER, AskInput::within(&chat, "Ship it?").kind(RequestKind::Approval)).await.unwrap();
    let yes = world.respond(ANA, &asked.id, ResponseInput::new(Outcome::Approved, 1));
    let no = world.respond("agt_billing/ins_1", &asked.id, ResponseInput::new(Outcome::Denied, 1));
    let (yes, no) = tokio::join!(yes, no);
    assert!(yes.is_ok() != no.is_ok());
    let (won, lost) = if yes.is_ok() { (yes, no) } else { (no, yes) };
    assert_eq!(code(lost).0, ErrorCode::RequestClosed);
    let won = won.unwrap();
    assert_eq!((won.state.clone(), won.version), (RequestState::Resolved, 2));
    // The same again, without a key, is late too.
    assert_eq!(code(world.respond(ANA, &asked.id, ResponseInput::new(Outcome::Approved, 1)).await).0, ErrorCode::RequestClosed);
    let read = world.get(BUILDER, &asked.id).await.unwrap();
    assert_eq!(read.response, won.response);
    assert_eq!(read.closed_by, won.response.unwrap().responder_id);
    assert_eq!(read.closed_at, Some(world.now()));
    assert_eq!(world.events(&asked.id).await, ["request.created", "request.resolved"]);
    let deliveries = world.deliveries(&asked.id).await;
    assert!(deliveries.contains(&(BILLING.into(), "request".into(), None, "withdrawn".into())));
    assert!(deliveries.contains(&(BUILDER.into(), "request_result".into(), None, "ready".into())));
}

async fn outcome_and_answer_fit_the_request(world: World) {
    world.may_ask(ANA, &[BEN]).await;
    let question = world.ask(ANA, ask_of(BEN).choices(["EU", "US"])).await.unwrap();
    for wrong in [answer("eu"), ResponseInput::new(Outcome::Answered, 1), ResponseInput::answered(1, json!(["EU"]))] {
        assert_eq!(code(world.respond(BEN, &question.id, wrong).await), (ErrorCode::InvalidRequest, "answer".into()));
    }
    for wrong in [Outcome::Approved, Outcome::Completed, Outcome::from("perhaps")] {
        let refused = world.respond(BEN, &question.id, ResponseInput::new(wrong, 1).answer("EU")).await;
        assert_eq!(code(refused), (ErrorCode::InvalidRequest, "outcome".into()));
    }
    let long = ResponseInput::answered(1, "x".repeat(32 * 1024));
    assert_eq!(code(world.respond(BEN, &question.id, long).await), (ErrorCode::InvalidRequest, "answer".into()));
    let done = world.respond(BEN, &question.id, answer("EU")).await.unwrap();
    assert_eq!(done.response.unwrap().answer, Some(json!("EU")));
    let task = world.ask(ANA, ask_of(BEN).kind(RequestKind::Task)).await.unwrap();
    let failed = ResponseInput::new(Outcome::Failed, 1).answer(json!({ "why": null }));
    assert_eq!(world.respond(BEN, &task.id, failed).await.unwrap().response.unwrap().answer, Some(json!({ "why": null })));
    let approval = world.ask(ANA, ask_of(BEN).kind(RequestKind::Approval).choices(["all", "half"])).await.unwrap();
    let wrong = ResponseInput::new(Outcome::Approved, 1).answer("none");
    assert_eq!(code(world.respond(BEN, &approval.id, wrong).await), (ErrorCode::InvalidRequest, "answer".into()));
    world.respond(BEN, &approval.id, ResponseInput::new(Outcome::Approved, 1)).await.unwrap();
}

async fn only_who_was_asked_decides(world: World) {
    let chat = world.chat("cnv_chat", &[BUILDER, ANA, BEN]).await;
    world.may_ask(BUILDER, &[ANA]).await;
    let asked = world.ask(BUILDER, AskInput::within(&chat, "Ready?")).await.unwrap();
    for (who, expected) in [
        (BUILDER, ErrorCode::Forbidden),
        (BEN, ErrorCode::Forbidden),
        (OLGA, ErrorCode::Forbidden),
        (BILLING, ErrorCode::NotFound),
    ] {
        assert_eq!(code(world.respond(who, &asked.id, answer("no")).await).0, expected, "{who}");
    }
    assert_eq!(world.respond(ANA, &asked.id, answer("yes")).await.unwrap().version, 2);
    // A shared chat sees how it ended.
    assert!(world.get(BEN, &asked.id).await.unwrap().response.is_some());
}

async fn former_audience_member_gets_404(world: World) {
    let chat = world.chat("cnv_chat", &[BUILDER, ANA, BEN]).await;
    world.may_ask(BUILDER, &[ANA, BEN]).await;
    let asked = world.ask(BUILDER, AskInput::within(&chat, "Ready?")).await.unwrap();
    world.leave(&chat, ANA).await;
    assert_eq!(code(world.respond(ANA, &asked.id, answer("yes")).await).0, ErrorCode::NotFound);
    assert_eq!(code(world.get(ANA, &asked.id).await).0, ErrorCode::NotFound);
    // Back again, but not with the old window.
    world.join(&chat, ANA).await;
    assert_eq!(code(world.respond(ANA, &asked.id, answer("yes")).await).0, ErrorCode::NotFound);
}

async fn newcomer_reads_but_does_not_decide(world: World) {
    let chat = world.chat("cnv_chat", &[BUILDER, ANA]).await;
    world.may_ask(BUILDER, &[ANA, BEN]).await;
    let before = world.ask(BUILDER, AskInput::within(&chat, "Before?")).await.unwrap();
    world.join(&chat, BEN).await;
    assert_eq!(code(world.get(BEN, &before.id).await).0, ErrorCode::NotFound);
    world.may_ask(BUILDER, &[ANA]).await;
    let after = world.ask(BUILDER, AskInput::within(&chat, "After?")).await.unwrap();
    assert_eq!(world.get(BEN, &after.id).await.unwrap().body, "After?");
    assert_eq!(code(world.respond(BEN, &after.id, answer("yes")).await).0, ErrorCode::Forbidden);
}

async fn denies_and_disabled_requesters_stop_a_decision(world: World) {
    world.may_ask(BUILDER, &[ANA]).await;
    let asked = world.ask(BUILDER, ask_of(ANA)).await.unwrap();
    world.rules(ANA, vec![PermissionRule::deny(RuleAction::Decide, &target(BUILDER))]).await;
    assert_eq!(code(world.respond(ANA, &asked.id, answer("yes")).await).0, ErrorCode::Forbidden);
    world.rules(ANA, vec![PermissionRule::deny(RuleAction::View, &target(BUILDER))]).await;
    assert_eq!(code(world.respond(ANA, &asked.id, answer("yes")).await).0, ErrorCode::NotFound);
    world.rules(ANA, Vec::new()).await;
    world.disable(BUILDER, true).await;
    assert_eq!(code(world.respond(ANA, &asked.id, answer("yes")).await).0, ErrorCode::Forbidden);
    world.disable(BUILDER, false).await;
    // Answering needs no right to message or to ask.
    world.respond(ANA, &asked.id, answer("yes")).await.unwrap();
}

async fn executor_never_decides(world: World) {
    let chat = world.chat("cnv_chat", &[BUILDER, BILLING, OLGA]).await;
    world.may_ask(BUILDER, &[BILLING, OLGA]).await;
    for executor in [BILLING, OLGA] {
        let action = Action {
            name: "pay".into(),
            executor_id: executor.into(),
            resource: "account".into(),
            resource_version: String::new(),
            arguments: serde_json::Map::new(),
            operation_key: "pay-1".into(),
        };
        let ask = AskInput::within(&chat, "Pay?").kind(RequestKind::Approval).action(action);
        let asked = world.ask(BUILDER, ask).await.unwrap();
        let refused = world.respond(executor, &asked.id, ResponseInput::new(Outcome::Approved, 1)).await;
        assert_eq!(code(refused).0, ErrorCode::Forbidden, "{executor}");
    }
}

async fn refusals_come_in_order(world: World) {
    world.may_ask(ANA, &[BEN]).await;
    let asked = world.ask(ANA, ask_of(BEN).choices(["EU"])).await.unwrap();
    let wrong = |version| ResponseInput::new(Outcome::Approved, version);
    // Existence before the right before the version before the rest.
    assert_eq!(code(world.respond(BUILDER, &asked.id, wrong(7)).await).0, ErrorCode::NotFound);
    assert_eq!(code(world.respond(ANA, &asked.id, wrong(7)).await).0, ErrorCode::Forbidden);
    assert_eq!(code(world.respond(BEN, &asked.id, wrong(7)).await).0, ErrorCode::VersionConflict);
    assert_eq!(code(world.respond(BEN, &asked.id, wrong(1)).await).0, ErrorCode::InvalidRequest);
    world.cancel(ANA, &asked.id, 1).await.unwrap();
    assert_eq!(code(world.respond(BEN, &asked.id, wrong(7)).await).0, ErrorCode::RequestClosed);
    assert_eq!(code(world.respond(ANA, &asked.id, wrong(7)).await).0, ErrorCode::Forbidden);
}

async fn others_of_a_group_see_the_state_alone(world: World) {
    world.group("grp_ops", &[ANA, BEN, BILLING]).await;
    world.rules(BUILDER, vec![PermissionRule::allow(RuleAction::Ask, &target("grp_ops"))]).await;
    let asked = world.ask(BUILDER, ask_of("grp_ops")).await.unwrap();
    let own = world.respond(ANA, &asked.id, answer("mine")).await.unwrap();
    assert!(own.response.is_some());
    assert!(world.get(BUILDER, &asked.id).await.unwrap().response.is_some());
    let other = world.get(BEN, &asked.id).await.unwrap();
    assert_eq!((other.state.clone(), other.version), (RequestState::Resolved, 2));
    assert!(other.response.is_none() && other.closed_by.is_none());
    assert_eq!(code(world.respond(BEN, &asked.id, answer("late")).await).0, ErrorCode::RequestClosed);
}
