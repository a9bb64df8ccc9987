//! Reusable answers at ask time: who gets one at once, and what takes it away.

use beepgrid::{AnswerInput, AskInput, ErrorCode, PermissionRule, PrincipalId, Request, RequestState, ResponseInput, RuleAction};

use super::on_every_store;
use super::world::{ANA, BEN, BILLING, BUILDER, OLGA, World, ask_of, code, target};
use crate::service::answers;

on_every_store!(
    a_published_answer_resolves_the_same_question_at_once,
    another_wording_key_or_audience_is_asked,
    revoked_authority_ends_reuse,
    in_a_chat_everybody_there_has_to_be_in_the_audience,
    only_managers_publish_only_what_they_see,
    an_invalidated_answer_says_so_where_it_was_reused,
);

fn question(of: &str) -> AskInput {
    ask_of(of).title("Where").choices(["EU", "US"]).shared_key("region")
}

impl World {
    async fn publish(&self, who: &str, input: AnswerInput) -> Result<beepgrid::Answer, crate::service::Refusal> {
        self.act(who, move |tx, actor| {
            let made = answers::publish(tx, actor, &input)?;
            answers::published(tx, actor, &input, &made)
        })
        .await
    }

    /// Billing's answer to Builder's question, published by the owner for Ana.
    async fn shared(&self) -> beepgrid::Answer {
        self.may_ask(BUILDER, &[BILLING]).await;
        self.may_ask(ANA, &[BILLING, BUILDER]).await;
        let asked = self.ask(BUILDER, question(BILLING)).await.unwrap();
        self.respond(BILLING, &asked.id, ResponseInput::answered(1, "EU")).await.unwrap();
        self.publish(OLGA, AnswerInput::new(&asked.id, "region", vec![ANA.into()])).await.unwrap()
    }

    async fn asks_anew(&self, who: &str, input: AskInput) {
        assert_eq!(self.ask(who, input).await.unwrap().state, RequestState::Open);
    }
}

fn assert_reused(request: &Request, answer: &beepgrid::Answer) {
    assert_eq!((&request.state, request.version), (&RequestState::Resolved, 2));
    let response = request.response.as_ref().unwrap();
    assert_eq!(response.source_answer_id.as_ref(), Some(&answer.id));
    assert_eq!((response.reuse_method.as_str(), response.reuse_reason.is_empty()), ("shared_key", false));
    assert_eq!((response.answer.as_ref(), response.responder_id.as_ref()), (Some(&answer.answer), Some(&answer.responder_id)));
}

async fn a_published_answer_resolves_the_same_question_at_once(world: World) {
    let answer = world.shared().await;
    assert_eq!((answer.responder_id.as_str(), answer.answer.as_str()), (BILLING, Some("EU")));
    let asked = world.ask(ANA, question(BILLING)).await.unwrap();
    assert_reused(&asked, &answer);
    assert_eq!(world.events(&asked.id).await, ["request.created", "request.resolved"]);
    assert!(world.deliveries(&asked.id).await.is_empty(), "nobody has anything to do, and a person has no inbox");
    let answer = world.publish(OLGA, AnswerInput::new(&answer.request_id, "region", vec![BUILDER.into()])).await.unwrap();
    let asked = world.ask(BUILDER, question(BILLING)).await.unwrap();
    assert_reused(&asked, &answer);
    let kinds: Vec<_> = world.deliveries(&asked.id).await.into_iter().map(|(agent, kind, ..)| (agent, kind)).collect();
    assert_eq!(kinds, [(BUILDER.to_owned(), "request_result".to_owned())]);
}

async fn another_wording_key_or_audience_is_asked(world: World) {
    world.shared().await;
    world.asks_anew(ANA, question(BILLING).title("Where?")).await;
    world.asks_anew(ANA, question(BILLING).choices(["US", "EU"])).await;
    world.asks_anew(ANA, question(BILLING).shared_key("regions")).await;
    let mut reworded = question(BILLING);
    reworded.body.push(' ');
    world.asks_anew(ANA, reworded).await;
    world.asks_anew(ANA, question(BUILDER)).await;
    world.asks_anew(BUILDER, question(BILLING)).await;
    world.asks_anew(OLGA, question(BILLING)).await;
    world.pass(24 * 3600);
    world.asks_anew(ANA, question(BILLING)).await;
}

async fn revoked_authority_ends_reuse(world: World) {
    world.shared().await;
    let deny = |action, of| PermissionRule::deny(action, &target(of));
    world.rules(BILLING, vec![deny(RuleAction::Decide, ANA)]).await;
    world.asks_anew(ANA, question(BILLING)).await;
    world.rules(BILLING, Vec::new()).await;
    assert_eq!(world.ask(ANA, question(BILLING)).await.unwrap().state, RequestState::Resolved);
    world.rules(ANA, vec![PermissionRule::allow(RuleAction::Ask, &target(BILLING)), deny(RuleAction::View, BUILDER)]).await;
    world.asks_anew(ANA, question(BILLING)).await;
    world.may_ask(ANA, &[BILLING]).await;
    assert_eq!(world.ask(ANA, question(BILLING)).await.unwrap().state, RequestState::Resolved);
    world.disable(OLGA, true).await;
    world.asks_anew(ANA, question(BILLING)).await;
}

async fn in_a_chat_everybody_there_has_to_be_in_the_audience(world: World) {
    let answer = world.shared().await;
    let chat = world.chat("cnv_chat", &[ANA, BILLING, BEN]).await;
    let within = || {
        let mut input = question(BILLING);
        (input.target, input.conversation_id) = (None, Some(chat.clone()));
        input
    };
    world.asks_anew(ANA, within()).await;
    let input = AnswerInput::new(&answer.request_id, "region", vec![ANA.into(), BEN.into()]);
    let answer = world.publish(OLGA, input).await.unwrap();
    assert_reused(&world.ask(ANA, within()).await.unwrap(), &answer);
}

async fn only_managers_publish_only_what_they_see(world: World) {
    world.may_ask(BUILDER, &[BILLING]).await;
    let asked = world.ask(BUILDER, question(BILLING)).await.unwrap();
    let input =
        |audience: &[&str]| AnswerInput::new(&asked.id, "region", audience.iter().map(|id| PrincipalId::new(*id)).collect());
    assert_eq!(code(world.publish(OLGA, input(&[ANA])).await), (ErrorCode::InvalidRequest, "request_id".to_owned()));
    world.respond(BILLING, &asked.id, ResponseInput::answered(1, "EU")).await.unwrap();
    assert_eq!(code(world.publish(BUILDER, input(&[BILLING])).await).0, ErrorCode::Forbidden);
    world.rules(BEN, vec![PermissionRule::manage("answers")]).await;
    assert_eq!(code(world.publish(BEN, input(&[BEN])).await), (ErrorCode::NotFound, "request_id".to_owned()));
    world.rules(BUILDER, vec![PermissionRule::manage("answers"), PermissionRule::allow(RuleAction::Ask, &target(BILLING))]).await;
    assert_eq!(code(world.publish(BUILDER, input(&[BILLING, ANA])).await), (ErrorCode::NotFound, "audience[1]".to_owned()));
    let published = world.publish(BUILDER, input(&["team/agt_billing", BILLING])).await.unwrap();
    assert_eq!(published.audience, [PrincipalId::new(BILLING)]);
    world.disable(BEN, true).await;
    assert_eq!(code(world.publish(OLGA, input(&[BEN])).await), (ErrorCode::Forbidden, "audience[0]".to_owned()));
}

async fn an_invalidated_answer_says_so_where_it_was_reused(world: World) {
    let answer = world.shared().await;
    let asked = world.ask(ANA, question(BILLING)).await.unwrap();
    assert!(!asked.response.as_ref().unwrap().source_invalidated);
    let again = AnswerInput::new(&asked.id, "region", vec![ANA.into()]);
    assert_eq!(code(world.publish(OLGA, again).await).0, ErrorCode::InvalidRequest, "what was reused is not published anew");
    for who in [ANA, BEN] {
        let id = answer.id.clone();
        let refused = world.act(who, move |tx, actor| answers::invalidate(tx, actor, &id).map(drop)).await;
        assert_eq!(code(refused).0, if who == ANA { ErrorCode::Forbidden } else { ErrorCode::NotFound });
    }
    for _ in 0..2 {
        let id = answer.id.clone();
        world.act(OLGA, move |tx, actor| answers::invalidate(tx, actor, &id).map(drop)).await.unwrap();
    }
    assert!(world.get(ANA, &asked.id).await.unwrap().response.unwrap().source_invalidated);
    world.asks_anew(ANA, question(BILLING)).await;
}
