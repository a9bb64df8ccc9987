//! Requests: asking, deciding, waiting, replacing, withdrawing.

use std::time::Duration;

use beepgrid::{
    AskBatchInput, AskInput, BlockingInput, Outcome, ReplaceRequestInput, RequestId, RequestState, ResponseInput, SupersedeInput,
};

use crate::stage::{Log, Stage, check, same};

/// Returns a request that stays open.
pub(crate) async fn visit(log: &mut Log, stage: &Stage) -> anyhow::Result<RequestId> {
    Log::region("Requests");
    let (builder, billing) = (&stage.builder, &stage.billing);
    let ask = AskInput::to(stage.to_billing(), "In which region is order 241?").choices(["EU", "US"]);
    let request = log.call("Builder asks Billing", builder.ask(ask).key(stage.key("ask")?)).await?;
    let current = log.call("Billing reads it", billing.get_request(&request.id)).await?;
    let input = ResponseInput::answered(current.version, "EU");
    log.call("and answers EU", billing.respond(&request.id, input)).await?;
    let decided = builder.wait(&request.id).timeout(Duration::from_secs(5)).await?;
    log.did("wait", format_args!("Builder sees it {}", decided.state));
    let response = decided.response.ok_or_else(|| anyhow::anyhow!("a decided request has no response"))?;
    same("the outcome", &response.outcome, &Outcome::Answered)?;
    same("the answer", &response.answer, &Some("EU".into()))?;

    let pending = log.call("another one", builder.ask(AskInput::to(stage.to_billing(), "Is order 243 paid?"))).await?;
    let input = ReplaceRequestInput::new(pending.version, "Are orders 243 and 244 paid?");
    let call = builder.replace_request(&pending.id, input).key(stage.key("replace")?);
    let replaced = log.call("asked anew, in one step", call).await?;
    same("the first one", &replaced.previous.state, &RequestState::Superseded)?;
    let revised = replaced.replacement;
    let cancelled = log.call("withdrawn", builder.cancel(&revised.id, revised.version)).await?;
    same("the state", &cancelled.state, &RequestState::Cancelled)?;
    let moot = log.call("a third one", builder.ask(AskInput::to(stage.to_billing(), "Is order 245 paid?"))).await?;
    let retired = log.call("retired, with nothing in its place", builder.supersede(&moot.id, SupersedeInput::new(moot.version)));
    same("the state", &retired.await?.state, &RequestState::Superseded)?;

    let input = AskBatchInput::new(stage.both(), AskInput::new("Is staging up for you?"));
    let batch = log.call("two decisions of their own", stage.owner.ask_batch(input).key(stage.key("ask-batch")?)).await?;
    same("the number of requests", &batch.len(), &2)?;

    let ask = AskInput::to(stage.to_billing(), "I can't go on without the ledger: where is it?");
    let blocking = log.call("stays open for the next regions", builder.ask(ask)).await?.id;
    let declared = log.call("Builder waits for it", builder.set_request_blocking(&blocking, BlockingInput::new(true))).await?;
    check("it blocks", declared.blocking)?;
    let call = builder.set_request_blocking(&blocking, BlockingInput::new(false));
    check("it blocks no more", !log.call("Builder goes on after all", call).await?.blocking)?;
    Ok(blocking)
}
