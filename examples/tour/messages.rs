//! Messages and whom they reach.

use anyhow::Context as _;
use beepgrid::{DirectoryInput, DispatchPreviewInput, PrincipalKind, SendBatchInput, SendInput, SendResult};

use crate::stage::{Log, Stage, check, same};

/// The first exchange: a message and the reply to it.
pub(crate) async fn exchange(log: &mut Log, stage: &Stage) -> anyhow::Result<SendResult> {
    Log::region("The first exchange");
    let found = log.call("Builder sees agents", stage.builder.directory(DirectoryInput::new(PrincipalKind::Agent))).await?;
    check("Billing is among them", found.items.iter().any(|agent| agent.id == stage.billing_id))?;
    let input = SendInput::to(stage.to_billing(), "Are the payments of orders 241 and 242 in the ledger?");
    let sent = log.call("Builder writes to Billing", stage.builder.send(input).key(stage.key("message")?)).await?;
    let reply = SendInput::reply(&sent.conversation_id, "Both were settled yesterday.");
    log.call("Billing replies", stage.billing.send(reply)).await?;
    let history = log.call("Builder reads both", stage.builder.conversation(&sent.conversation_id)).await?;
    let senders: Vec<_> = history.messages.iter().map(|message| message.sender_id.clone()).collect();
    same("the senders", &senders, &vec![stage.builder_id.clone(), stage.billing_id.clone()])?;
    Ok(sent)
}

pub(crate) async fn visit(log: &mut Log, stage: &Stage) -> anyhow::Result<()> {
    Log::region("Messages");
    let mut agents = stage.builder.directory_stream(DirectoryInput::new(PrincipalKind::Agent).limit(1));
    let first = agents.next().await.context("the directory is empty")??;
    log.did("directory", format_args!("the first of many, page by page: {}", first.name));

    let input = SendInput::to(stage.to_billing(), "The reconciliation is done.");
    let key = stage.key("receipt")?;
    let receipt =
        log.call("a receipt instead of the messages", stage.builder.send_minimal(input.clone()).key(key.clone())).await?;
    let again = log.call("the same key again: the same message", stage.builder.send(input).key(key)).await?;
    same("the conversation", &again.conversation_id, &receipt.conversation_id)?;
    same("the messages", &again.messages.len(), &usize::try_from(receipt.message_count)?)?;

    let input = DispatchPreviewInput::new("message", stage.both());
    let preview = log.call("whom it would reach; sends nothing", stage.owner.dispatch_preview(input)).await?;
    same("the number of recipients", &preview.count, &2)?;
    check("a preview sends nothing", !preview.sends)?;
    let input =
        SendBatchInput::new(stage.both(), "Nobody rolls out on staging before checkout is empty.").preview_token(preview.token);
    let batch = log.call("to exactly those, each in private", stage.owner.send_batch(input).key(stage.key("batch")?)).await?;
    let conversations: Vec<_> = batch.iter().map(|item| &item.result.conversation_id).collect();
    check("two private conversations", matches!(conversations.as_slice(), [one, other] if one != other))
}
