//! Cancel, replace, expire.

use beepgrid::{ErrorCode, Outcome, PermissionRule, PrincipalId, RequestKind, RequestState, ResponseInput, RuleAction};

use super::on_every_store;
use super::world::{ANA, BEN, BILLING, BUILDER, OLGA, World, ask_of, code, target};
use crate::service::requests;

on_every_store!(
    requester_and_operator_cancel,
    due_request_is_closed_for_everybody_before_the_sweeper_comes,
    sweeper_closes_what_is_due_exactly_once,
    replacement_needs_its_own_approval,
    replacement_keeps_all_but_the_text,
    replacement_asks_who_is_left,
    replacement_goes_to_the_same_runtime_connection,
    only_the_requester_replaces,
);

async fn requester_and_operator_cancel(world: World) {
    world.may_ask(BUILDER, &[BILLING]).await;
    let asked = world.ask(BUILDER, ask_of(BILLING)).await.unwrap();
    assert_eq!(code(world.cancel(BILLING, &asked.id, 1).await).0, ErrorCode::Forbidden);
    assert_eq!(code(world.cancel(ANA, &asked.id, 1).await).0, ErrorCode::NotFound);
    assert_eq!(code(world.cancel(OLGA, &asked.id, 2).await).0, ErrorCode::VersionConflict);
    let gone = world.cancel(OLGA, &asked.id, 1).await.unwrap();
    assert_eq!((gone.state, gone.version), (RequestState::Cancelled, 2));
    let read = world.get(BILLING, &asked.id).await.unwrap();
    assert_eq!(read.closed_by, Some(PrincipalId::new(OLGA)));
    assert!(read.response.is_none());
    assert_eq!(code(world.cancel(BUILDER, &asked.id, 2).await).0, ErrorCode::RequestClosed);
    assert_eq!(world.events(&asked.id).await, ["request.created", "request.cancelled"]);
    let own = world.ask(BUILDER, ask_of(BILLING)).await.unwrap();
    assert_eq!(world.cancel(BUILDER, &own.id, 1).await.unwrap().state, RequestState::Cancelled);
}

async fn due_request_is_closed_for_everybody_before_the_sweeper_comes(world: World) {
    world.may_ask(ANA, &[BEN]).await;
    let expires = world.now().plus(std::time::Duration::from_secs(60));
    let asked = world.ask(ANA, ask_of(BEN).expires_at(expires)).await.unwrap();
    world.pass(59);
    assert_eq!(world.get(BEN, &asked.id).await.unwrap().state, RequestState::Open);
    world.pass(1);
    for who in [ANA, BEN, OLGA] {
        let read = world.get(who, &asked.id).await.unwrap();
        assert_eq!((read.state, read.version, read.closed_at, read.closed_by), (RequestState::Expired, 2, Some(expires), None));
    }
    assert_eq!(code(world.respond(BEN, &asked.id, ResponseInput::answered(1, "late")).await).0, ErrorCode::RequestClosed);
    assert_eq!(code(world.respond(BEN, &asked.id, ResponseInput::answered(2, "late")).await).0, ErrorCode::RequestClosed);
    assert_eq!(code(world.cancel(ANA, &asked.id, 1).await).0, ErrorCode::RequestClosed);
    assert_eq!(code(world.replace(ANA, &asked.id, 1, "Anew").await).0, ErrorCode::RequestClosed);
    assert_eq!(world.events(&asked.id).await, ["request.created"]);
}

async fn sweeper_closes_what_is_due_exactly_once(world: World) {
    world.may_ask(BUILDER, &[BILLING]).await;
    let expires = world.now().plus(std::time::Duration::from_secs(60));
    let asked = world.ask(BUILDER, ask_of(BILLING).expires_at(expires)).await.unwrap();
    let never = world.ask(BUILDER, ask_of(BILLING)).await.unwrap();
    let due = || world.tx(|tx| Ok(crate::store::requests::due(tx, 10)?));
    assert!(due().await.unwrap().is_empty());
    world.pass(61);
    let before = world.get(BUILDER, &asked.id).await.unwrap();
    assert_eq!(due().await.unwrap(), std::slice::from_ref(&asked.id));
    for closes in [true, false] {
        let id = asked.id.clone();
        assert_eq!(world.tx(move |tx| requests::expire(tx, &id)).await.unwrap(), closes);
    }
    assert!(due().await.unwrap().is_empty());
    assert_eq!(world.get(BUILDER, &asked.id).await.unwrap(), before);
    assert_eq!(world.get(BUILDER, &never.id).await.unwrap().state, RequestState::Open);
    assert_eq!(world.events(&asked.id).await, ["request.created", "request.expired"]);
    let deliveries = world.deliveries(&asked.id).await;
    assert!(deliveries.contains(&(BUILDER.into(), "request_result".into(), None, "ready".into())));
}

async fn replacement_needs_its_own_approval(world: World) {
    world.may_ask(BUILDER, &[ANA]).await;
    let shown = world.ask(BUILDER, ask_of(ANA).kind(RequestKind::Approval)).await.unwrap();
    let replaced = world.replace(BUILDER, &shown.id, 1, "Something else?").await.unwrap();
    assert_eq!(code(world.respond(ANA, &shown.id, ResponseInput::new(Outcome::Approved, 1)).await).0, ErrorCode::RequestClosed);
    let open = world.get(ANA, &replaced.replacement.id).await.unwrap();
    assert_eq!((open.state, open.version, open.body.as_str()), (RequestState::Open, 1, "Something else?"));
    assert!(open.response.is_none());
    world.respond(ANA, &open.id, ResponseInput::new(Outcome::Approved, 1)).await.unwrap();
    assert_eq!(world.get(ANA, &shown.id).await.unwrap().state, RequestState::Superseded);
}

async fn replacement_keeps_all_but_the_text(world: World) {
    world.may_ask("agt_builder", &[BILLING]).await;
    let expires = world.now().plus(std::time::Duration::from_secs(3_600));
    let ask = ask_of(BILLING).title("Region").choices(["EU", "US"]).expires_at(expires).blocking(true);
    let asked = world.ask("agt_builder/ins_1", ask).await.unwrap();
    let both = world.replace("agt_builder/ins_2", &asked.id, 1, "Which one?").await.unwrap();
    let (old, new) = (both.previous, both.replacement);
    assert_eq!((old.state, old.version, old.closed_by), (RequestState::Superseded, 2, Some(PrincipalId::new(BUILDER))));
    assert_eq!((new.state, new.version, new.body.as_str()), (RequestState::Open, 1, "Which one?"));
    assert_eq!((new.title, new.choices, new.expires_at, new.blocking), (asked.title, asked.choices, expires, true));
    assert_eq!((new.recipient_ids, new.conversation_id), (asked.recipient_ids, asked.conversation_id));
    assert_eq!(world.events(&asked.id).await, ["request.created", "request.superseded"]);
    assert_eq!(world.deliveries(&new.id).await, [(BILLING.into(), "request".into(), None, "ready".into())]);
}

async fn replacement_asks_who_is_left(world: World) {
    let chat = world.chat("cnv_chat", &[BUILDER, ANA, BEN, BILLING]).await;
    world.may_ask(BUILDER, &[ANA, BEN, BILLING]).await;
    let asked = world.ask(BUILDER, beepgrid::AskInput::within(&chat, "Ready?")).await.unwrap();
    world.leave(&chat, ANA).await;
    world.disable(BILLING, true).await;
    let both = world.replace(BUILDER, &asked.id, 1, "Really?").await.unwrap();
    assert_eq!(both.replacement.recipient_ids, [PrincipalId::new(BEN)]);
    world.rules(BUILDER, vec![PermissionRule::allow(RuleAction::View, &target(BEN))]).await;
    assert_eq!(code(world.replace(BUILDER, &both.replacement.id, 1, "Now?").await).0, ErrorCode::Forbidden);
    world.may_ask(BUILDER, &[BEN]).await;
    world.leave(&chat, BUILDER).await;
    assert_eq!(code(world.replace(BUILDER, &both.replacement.id, 1, "Now?").await).0, ErrorCode::Forbidden);
    assert_eq!(world.cancel(BUILDER, &both.replacement.id, 1).await.unwrap().state, RequestState::Cancelled);
}

async fn replacement_goes_to_the_same_runtime_connection(world: World) {
    world.may_ask(BUILDER, &[BILLING]).await;
    world.instance("ins_1", BILLING, true).await;
    let asked = world.ask(BUILDER, ask_of("ins_1")).await.unwrap();
    let to_it = |state: &str| (BILLING.to_owned(), "request".to_owned(), Some("ins_1".to_owned()), state.to_owned());
    assert_eq!(world.deliveries(&asked.id).await, [to_it("ready")]);
    let both = world.replace(BUILDER, &asked.id, 1, "Anew").await.unwrap();
    assert_eq!(world.deliveries(&both.replacement.id).await, [to_it("ready")]);
    let gone = "UPDATE credentials SET revoked = TRUE WHERE instance_id = 'ins_1'";
    world.tx(move |tx| Ok(tx.execute(gone, &[])?)).await.unwrap();
    assert_eq!(code(world.replace(BUILDER, &both.replacement.id, 1, "Again").await).0, ErrorCode::Forbidden);
}

async fn only_the_requester_replaces(world: World) {
    world.may_ask(BUILDER, &[ANA]).await;
    let asked = world.ask(BUILDER, ask_of(ANA)).await.unwrap();
    for (who, expected) in [(ANA, ErrorCode::Forbidden), (OLGA, ErrorCode::Forbidden), (BEN, ErrorCode::NotFound)] {
        assert_eq!(code(world.replace(who, &asked.id, 1, "Anew").await).0, expected, "{who}");
    }
    assert_eq!(code(world.replace(BUILDER, &asked.id, 3, "Anew").await).0, ErrorCode::VersionConflict);
    assert_eq!(code(world.replace(BUILDER, &asked.id, 1, " ").await), (ErrorCode::InvalidRequest, "body".into()));
}
