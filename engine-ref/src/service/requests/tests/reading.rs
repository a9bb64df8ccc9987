//! What each reader sees.

use beepgrid::{
    Action, AskInput, ErrorCode, Outcome, PermissionRule, Request, RequestKind, RequestState, ResponseInput, RuleAction,
};

use super::on_every_store;
use super::world::{ANA, BEN, BILLING, BUILDER, OLGA, World, ask_of, code, target};
use crate::service::requests::{self, project};

on_every_store!(
    executor_sees_its_part,
    deny_on_view_hides_requests_everywhere,
    operator_reads_all_of_it,
    conversation_shows_the_newest_oldest_first,
    withdrawal_of_a_group_ask_carries_state_and_version_alone,
    author_gets_its_own_part_after_losing_access,
);

async fn executor_sees_its_part(world: World) {
    world.may_ask(ANA, &[BEN, BILLING]).await;
    let action = Action {
        name: "pay".into(),
        executor_id: BILLING.into(),
        resource: "account".into(),
        resource_version: "7".into(),
        arguments: serde_json::Map::new(),
        operation_key: "pay-1".into(),
    };
    let ask = ask_of(BEN).kind(RequestKind::Approval).title("Pay").action(action.clone());
    let asked = world.ask(ANA, ask).await.unwrap();
    let part = world.get(BILLING, &asked.id).await.unwrap();
    assert_eq!((part.kind, part.title.as_str(), part.state, part.version), (RequestKind::Approval, "Pay", RequestState::Open, 1));
    assert_eq!((part.action, part.expires_at), (Some(action), asked.expires_at));
    assert!(part.body.is_empty() && part.requester_id.is_empty() && part.conversation_id.is_empty() && part.response.is_none());
    world.respond(BEN, &asked.id, ResponseInput::new(Outcome::Approved, 1).answer("but slowly")).await.unwrap();
    let response = world.get(BILLING, &asked.id).await.unwrap().response.unwrap();
    assert_eq!((response.outcome, response.answer, response.responder_id), (Outcome::Approved, None, None));
    assert_eq!(code(world.cancel(BILLING, &asked.id, 2).await).0, ErrorCode::Forbidden);
}

async fn deny_on_view_hides_requests_everywhere(world: World) {
    let chat = world.chat("cnv_chat", &[BUILDER, ANA, BEN]).await;
    world.may_ask(BUILDER, &[ANA, BEN]).await;
    let asked = world.ask(BUILDER, AskInput::within(&chat, "Ready?")).await.unwrap();
    world.rules(BEN, vec![PermissionRule::deny(RuleAction::View, &target(BUILDER))]).await;
    assert_eq!(code(world.get(BEN, &asked.id).await).0, ErrorCode::NotFound);
    assert!(list(&world, BEN, &chat).await.is_empty());
    assert_eq!(list(&world, ANA, &chat).await.len(), 1);
}

async fn operator_reads_all_of_it(world: World) {
    world.may_ask(ANA, &[BEN]).await;
    let asked = world.ask(ANA, ask_of(BEN)).await.unwrap();
    world.respond(BEN, &asked.id, ResponseInput::answered(1, "yes")).await.unwrap();
    let read = world.get(OLGA, &asked.id).await.unwrap();
    assert_eq!((read.body.as_str(), read.response.is_some(), read.recipient_ids.len()), ("May I?", true, 1));
}

async fn list(world: &World, who: &str, conversation: &beepgrid::ConversationId) -> Vec<Request> {
    let conversation = conversation.clone();
    world.act(who, move |tx, actor| project::in_conversation(tx, &actor.reader(), &conversation)).await.unwrap()
}

async fn conversation_shows_the_newest_oldest_first(world: World) {
    world.may_ask(ANA, &[BEN]).await;
    let first = world.ask(ANA, ask_of(BEN)).await.unwrap();
    let chat = first.conversation_id.clone();
    for i in 1..=200 {
        world.ask(ANA, AskInput::within(&chat, format!("{i}"))).await.unwrap();
    }
    let shown = list(&world, BEN, &chat).await;
    assert_eq!(shown.len(), 200);
    assert_eq!((shown[0].body.as_str(), shown[199].body.as_str()), ("1", "200"));
    assert!(list(&world, ANA, &chat).await.iter().all(|request| !request.recipient_ids.is_empty()));
}

async fn withdrawal_of_a_group_ask_carries_state_and_version_alone(world: World) {
    world.group("grp_ops", &[BEN, BILLING]).await;
    world.rules(BUILDER, vec![PermissionRule::allow(RuleAction::Ask, &target("grp_ops"))]).await;
    let asked = world.ask(BUILDER, ask_of("grp_ops").title("Secret")).await.unwrap();
    world.respond(BEN, &asked.id, ResponseInput::answered(1, "yes")).await.unwrap();
    let id = asked.id.clone();
    let view = world.act(BILLING, move |tx, actor| requests::find(tx, &actor.reader(), &id)).await.unwrap().unwrap();
    let withdrawn = requests::withdrawn(&view.row);
    assert_eq!((withdrawn.state, withdrawn.version), (RequestState::Resolved, 2));
    assert!(withdrawn.title.is_empty() && withdrawn.body.is_empty() && withdrawn.response.is_none());
}

async fn author_gets_its_own_part_after_losing_access(world: World) {
    let chat = world.chat("cnv_chat", &[BUILDER, ANA]).await;
    world.may_ask(BUILDER, &[ANA]).await;
    let asked = world.ask(BUILDER, AskInput::within(&chat, "Ready?")).await.unwrap();
    world.respond(ANA, &asked.id, ResponseInput::answered(1, "yes")).await.unwrap();
    world.leave(&chat, ANA).await;
    let id = asked.id.clone();
    let own = world.act(ANA, move |tx, actor| requests::for_author(tx, actor, &id)).await.unwrap();
    assert_eq!((own.id, own.state, own.body.as_str()), (asked.id, RequestState::Resolved, ""));
    assert_eq!(own.response.unwrap().answer, Some("yes".into()));
}
