//! Reusable answers: who asks the same again has the answer at once.

use beepgrid::{AnswerAndShareInput, AnswerInput, AskInput, RequestState, ResponseInput, Target};

use crate::stage::{Log, Stage, check, same};

pub(crate) async fn visit(log: &mut Log, stage: &Stage) -> anyhow::Result<()> {
    Log::region("Reusable answers");
    let (owner, builder) = (&stage.owner, &stage.builder);
    let shared = stage.name("window");
    let question = || AskInput::to(stage.to_billing(), "When may we deploy?").shared_key(shared.as_str());
    let asked = log.call("Builder asks Billing", builder.ask(question())).await?;
    let input = ResponseInput::answered(asked.version, "after six");
    let answered = log.call("Billing answers", stage.billing.respond(&asked.id, input)).await?;
    let input = AnswerInput::new(&answered.id, shared.as_str(), vec![stage.builder_id.clone()]);
    let published = log.call("the owner publishes it for Builder", owner.publish_answer(input)).await?;
    let again = log.call("the same question: decided already", builder.ask(question())).await?;
    same("the state", &again.state, &RequestState::Resolved)?;
    let source = again.response.and_then(|response| response.source_answer_id);
    same("where the answer comes from", &source, &Some(published.id.clone()))?;
    let listed = log.call("Builder finds it", builder.answers()).await?;
    check("it is listed", listed.iter().any(|answer| answer.id == published.id && !answer.invalidated))?;
    let withdrawn = log.call("taken out of reuse", owner.invalidate_answer(&published.id)).await?;
    check("it is invalidated", withdrawn.invalidated)?;
    let anew = log.call("the same question: open again", builder.ask(question())).await?;
    same("the state", &anew.state, &RequestState::Open)?;

    let asked =
        log.call("Builder asks the owner", builder.ask(AskInput::to(Target::person(&stage.me.id), "Who is on call?"))).await?;
    let input = AnswerAndShareInput::new(asked.version, "Ana", stage.name("on-call"), vec![stage.builder_id.clone()]);
    let done = log.call("answered and published in one step", owner.answer_and_share(&asked.id, input)).await?;
    same("the state", &done.request.state, &RequestState::Resolved)?;
    same("what is published", &done.answer.request_id, &asked.id)
}
