//! Who may ask whom, and what is stored.

use std::time::Duration;

use beepgrid::{
    Action, AskBatchInput, AskInput, ErrorCode, Mention, PermissionRule, PrincipalId, RequestKind, RequestState, RuleAction,
    Timestamp,
};

use super::on_every_store;
use super::world::{ANA, BEN, BILLING, BUILDER, OLGA, World, ask_of, code, target};

const DAY: u64 = 24 * 60 * 60;

fn action(executor: &str) -> Action {
    Action {
        name: "deploy".into(),
        executor_id: executor.into(),
        resource: "site".into(),
        resource_version: "1".into(),
        arguments: serde_json::Map::new(),
        operation_key: "deploy-1".into(),
    }
}

fn approval_of(id: &str, executor: &str) -> AskInput {
    ask_of(id).kind(RequestKind::Approval).action(action(executor))
}

on_every_store!(
    ask_makes_a_private_question_without_deadline,
    unseen_is_404_and_seen_without_the_right_is_403,
    disabled_and_gone_targets_are_403,
    person_asks_itself_and_an_agent_does_not,
    group_ask_is_one_request_in_private_histories,
    ask_in_a_chat_reaches_whom_the_asker_may_ask,
    reused_history_is_the_last_direct_one,
    deadlines_are_bounded,
    executor_is_found_by_its_external_id_and_is_never_alone,
    batch_is_all_or_nothing_and_names_the_target,
    blocking_is_for_one_agent_that_waits_for_one_agent,
    mentions_name_present_participants,
    unknown_drafts_and_previews_are_refused_and_store_nothing,
);

async fn ask_makes_a_private_question_without_deadline(world: World) {
    world.may_ask(BUILDER, &[BILLING]).await;
    let request = world.ask(BUILDER, ask_of(BILLING).title("Region").choices(["EU", "US"])).await.unwrap();
    assert_eq!((request.kind, request.state, request.version), (RequestKind::Question, RequestState::Open, 1));
    assert_eq!(request.expires_at, Timestamp::NEVER);
    assert_eq!(request.created_at, world.now());
    assert_eq!(request.recipient_ids, [PrincipalId::new(BILLING)]);
    assert!(request.recipients.is_empty());
    let read = world.get(BILLING, &request.id).await.unwrap();
    assert_eq!((read.body.as_str(), read.choices.len(), read.requester_id.as_str()), ("May I?", 2, BUILDER));
    assert_eq!(read.conversation_id, request.conversation_id);
    assert!(read.recipient_ids.is_empty());
    assert_eq!(world.deliveries(&request.id).await, [(BILLING.into(), "request".into(), None, "ready".into())]);
    assert_eq!(world.events(&request.id).await, ["request.created"]);
    assert_eq!(code(world.get(ANA, &request.id).await).0, ErrorCode::NotFound);
}

async fn unseen_is_404_and_seen_without_the_right_is_403(world: World) {
    assert_eq!(code(world.ask(BUILDER, ask_of(BILLING)).await), (ErrorCode::NotFound, "target".into()));
    world.rules(BUILDER, vec![PermissionRule::allow(RuleAction::Message, &target(BILLING))]).await;
    assert_eq!(code(world.ask(BUILDER, ask_of(BILLING)).await).0, ErrorCode::Forbidden);
    let denied =
        vec![PermissionRule::allow(RuleAction::Ask, &target(BILLING)), PermissionRule::deny(RuleAction::View, &target(BILLING))];
    world.rules(BUILDER, denied).await;
    assert_eq!(code(world.ask(BUILDER, ask_of(BILLING)).await).0, ErrorCode::NotFound);
}

async fn disabled_and_gone_targets_are_403(world: World) {
    world.may_ask(BUILDER, &[BILLING]).await;
    world.disable(BILLING, true).await;
    assert_eq!(code(world.ask(BUILDER, ask_of(BILLING)).await).0, ErrorCode::Forbidden);
    world.disable(BILLING, false).await;
    world.instance("ins_gone", BILLING, false).await;
    assert_eq!(code(world.ask(BUILDER, ask_of("ins_gone")).await).0, ErrorCode::Forbidden);
}

async fn person_asks_itself_and_an_agent_does_not(world: World) {
    let request = world.ask(ANA, ask_of(ANA)).await.unwrap();
    let answered = world.respond(ANA, &request.id, beepgrid::ResponseInput::answered(1, "yes")).await.unwrap();
    assert_eq!(answered.state, RequestState::Resolved);
    // And goes on in the same place.
    world.ask(ANA, AskInput::within(&request.conversation_id, "And now?")).await.unwrap();
    assert_eq!(code(world.ask(BUILDER, ask_of(BUILDER)).await), (ErrorCode::InvalidRequest, "target".into()));
}

async fn group_ask_is_one_request_in_private_histories(world: World) {
    world.group("grp_ops", &[ANA, BEN, BILLING, BUILDER]).await;
    world.disable(BEN, true).await;
    world.rules(BUILDER, vec![PermissionRule::allow(RuleAction::Ask, &target("grp_ops"))]).await;
    let request = world.ask(BUILDER, ask_of("grp_ops")).await.unwrap();
    let asked: Vec<&str> = request.recipients.iter().map(|seat| seat.principal_id.as_str()).collect();
    assert_eq!(asked, [BILLING, ANA]);
    assert_ne!(request.recipients[0].conversation_id, request.recipients[1].conversation_id);
    for seat in &request.recipients {
        let read = world.get(seat.principal_id.as_str(), &request.id).await.unwrap();
        assert_eq!(read.conversation_id, seat.conversation_id);
        assert!(read.recipients.is_empty() && read.recipient_ids.is_empty());
    }
    assert!(request.recipients.iter().any(|seat| seat.conversation_id == request.conversation_id));
    let many = approval_of("grp_ops", BUILDER);
    assert_eq!(code(world.ask(BUILDER, many).await), (ErrorCode::InvalidRequest, "action".into()));
    assert_eq!(code(world.ask(BUILDER, ask_of("grp_ops").blocking(true)).await), (ErrorCode::InvalidRequest, "blocking".into()));
    assert_eq!(code(world.ask(ANA, ask_of("grp_none")).await).0, ErrorCode::NotFound);
}

async fn ask_in_a_chat_reaches_whom_the_asker_may_ask(world: World) {
    let chat = world.chat("cnv_chat", &[BUILDER, BILLING, ANA, BEN]).await;
    world.may_ask(BUILDER, &[BILLING, ANA, OLGA]).await;
    let request = world.ask(BUILDER, AskInput::within(&chat, "Ready?")).await.unwrap();
    assert_eq!(request.recipient_ids, [PrincipalId::new(BILLING), PrincipalId::new(ANA)]);
    assert_eq!(request.conversation_id, chat);
    assert_eq!(code(world.ask(BEN, AskInput::within(&chat, "Ready?")).await).0, ErrorCode::Forbidden);
    assert_eq!(code(world.ask(OLGA, AskInput::within(&chat, "Ready?")).await).0, ErrorCode::Forbidden);
    world.leave(&chat, BEN).await;
    assert_eq!(code(world.ask(BEN, AskInput::within(&chat, "Ready?")).await), (ErrorCode::NotFound, "conversation_id".into()));
}

async fn reused_history_is_the_last_direct_one(world: World) {
    world.may_ask(BUILDER, &[BILLING]).await;
    let first = world.ask(BUILDER, ask_of(BILLING)).await.unwrap();
    let fresh = world.ask(BUILDER, ask_of(BILLING)).await.unwrap();
    assert_ne!(first.conversation_id, fresh.conversation_id);
    world.ask(BUILDER, AskInput::within(&first.conversation_id, "Still?")).await.unwrap();
    let again = world.ask(BUILDER, ask_of(BILLING).reuse_direct(true)).await.unwrap();
    assert_eq!(again.conversation_id, first.conversation_id);
}

async fn deadlines_are_bounded(world: World) {
    world.may_ask(ANA, &[BEN, BILLING]).await;
    let now = world.now();
    let day = Duration::from_secs(DAY);
    for good in [now.plus(Duration::from_micros(1)), now.plus(day * 90), Timestamp::NEVER] {
        let request = world.ask(ANA, ask_of(BEN).expires_at(good)).await.unwrap();
        assert_eq!(request.expires_at, good);
    }
    for bad in [now, now.minus(day), now.plus(day * 90 + Duration::from_micros(1))] {
        assert_eq!(code(world.ask(ANA, ask_of(BEN).expires_at(bad)).await), (ErrorCode::InvalidRequest, "expires_at".into()));
    }
    assert_eq!(world.ask(ANA, approval_of(BEN, BILLING)).await.unwrap().expires_at, now.plus(day * 7));
    let never = world.ask(ANA, approval_of(BEN, BILLING).expires_at(Timestamp::NEVER)).await.unwrap();
    assert_eq!(never.expires_at, Timestamp::NEVER);
}

async fn executor_is_found_by_its_external_id_and_is_never_alone(world: World) {
    world.may_ask(ANA, &[BEN, BILLING]).await;
    let request = world.ask(ANA, approval_of(BEN, "team/agt_billing")).await.unwrap();
    assert_eq!(request.action.unwrap().executor_id.as_str(), BILLING);
    let alone = world.ask(ANA, approval_of(BILLING, BILLING)).await;
    assert_eq!(code(alone), (ErrorCode::InvalidRequest, "action.executor_id".into()));
    let unseen = world.ask(ANA, approval_of(BEN, BUILDER)).await;
    assert_eq!(code(unseen), (ErrorCode::NotFound, "action.executor_id".into()));
    let question = world.ask(ANA, ask_of(BEN).action(action(BILLING))).await;
    assert_eq!(code(question), (ErrorCode::InvalidRequest, "action".into()));
}

async fn batch_is_all_or_nothing_and_names_the_target(world: World) {
    world.may_ask(ANA, &[BEN, BILLING]).await;
    let ask = || AskInput::new("Free?");
    let merged = vec![target(BEN), target("per_ben"), target(BILLING)];
    let items = world.ask_batch(ANA, AskBatchInput::new(merged, ask())).await.unwrap();
    assert_eq!(items.iter().map(|item| item.target.id.as_str()).collect::<Vec<_>>(), [BEN, BILLING]);
    world.respond(BEN, &items[0].request.id, beepgrid::ResponseInput::answered(1, "yes")).await.unwrap();
    assert_eq!(world.get(ANA, &items[1].request.id).await.unwrap().state, RequestState::Open);

    let count = "SELECT CAST(count(*) AS BIGINT) AS n FROM requests";
    let before = world.tx(move |tx| Ok(tx.get(count, &[])?.int("n")?)).await.unwrap();
    let refused = world.ask_batch(ANA, AskBatchInput::new(vec![target(BEN), target(BUILDER)], ask())).await;
    assert_eq!(code(refused), (ErrorCode::NotFound, "targets[1]".into()));
    assert_eq!(world.tx(move |tx| Ok(tx.get(count, &[])?.int("n")?)).await.unwrap(), before);
    let group = world.ask_batch(ANA, AskBatchInput::new(vec![target("grp_x")], ask())).await;
    assert_eq!(code(group), (ErrorCode::InvalidRequest, "targets[0].kind".into()));
    let none = world.ask_batch(ANA, AskBatchInput::new(Vec::new(), ask())).await;
    assert_eq!(code(none), (ErrorCode::InvalidRequest, "targets".into()));
    let inner = world.ask_batch(ANA, AskBatchInput::new(vec![target(BEN)], AskInput::new(""))).await;
    assert_eq!(code(inner), (ErrorCode::InvalidRequest, "request.body".into()));
    world.instance("ins_1", BILLING, true).await;
    for targets in [[BILLING, "ins_1"], ["ins_1", BILLING]] {
        let both = world.ask_batch(ANA, AskBatchInput::new(targets.map(target).to_vec(), ask())).await;
        assert_eq!(code(both), (ErrorCode::InvalidRequest, "targets[1]".into()));
    }
}

async fn blocking_is_for_one_agent_that_waits_for_one_agent(world: World) {
    world.may_ask(ANA, &[BILLING]).await;
    world.may_ask(BUILDER, &[BILLING, BEN]).await;
    assert_eq!(code(world.ask(ANA, ask_of(BILLING).blocking(true)).await), (ErrorCode::InvalidRequest, "blocking".into()));
    assert_eq!(code(world.ask(BUILDER, ask_of(BEN).blocking(true)).await), (ErrorCode::InvalidRequest, "blocking".into()));
    let mut last = None;
    for _ in 0..100 {
        let request = world.ask(BUILDER, ask_of(BILLING).blocking(true)).await.unwrap();
        assert!(request.blocking);
        last = Some(request);
    }
    assert_eq!(code(world.ask(BUILDER, ask_of(BILLING).blocking(true)).await).0, ErrorCode::RateLimited);
    // A replacement takes the place of the one that it retires.
    let last = last.unwrap();
    assert!(world.replace(BUILDER, &last.id, 1, "Anew").await.unwrap().replacement.blocking);
}

async fn mentions_name_present_participants(world: World) {
    world.may_ask(ANA, &[BEN]).await;
    let body = format!("@{BEN} free?");
    let mention = |id: &str| Mention::find(&body, 0, &id.into(), BEN).unwrap();
    let good = AskInput::to(target(BEN), body.clone()).mentions(vec![mention(BEN)]);
    assert_eq!(world.ask(ANA, good).await.unwrap().mentions.len(), 1);
    let absent = AskInput::to(target(BEN), body.clone()).mentions(vec![mention(BILLING)]);
    assert_eq!(code(world.ask(ANA, absent).await).0, ErrorCode::InvalidRequest);
}

async fn unknown_drafts_and_previews_are_refused_and_store_nothing(world: World) {
    world.may_ask(ANA, &[BEN]).await;
    let draft = world.ask(ANA, ask_of(BEN).attachment_ids(vec!["att_1".into()])).await;
    assert_eq!(code(draft), (ErrorCode::NotFound, "attachment_ids[0]".into()));
    assert_eq!(code(world.ask(ANA, ask_of(BEN).preview_token("x")).await).0, ErrorCode::PreviewStale);
    let n = world.tx(|tx| Ok(tx.get("SELECT CAST(count(*) AS BIGINT) AS n FROM conversations", &[])?.int("n")?)).await.unwrap();
    assert_eq!(n, 0);
}
