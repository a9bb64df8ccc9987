//! Files.

use anyhow::Context as _;
use beepgrid::SendInput;

use crate::stage::{Log, Stage, check, same};

pub(crate) async fn visit(log: &mut Log, stage: &Stage) -> anyhow::Result<()> {
    Log::region("Files");
    let (builder, billing) = (&stage.builder, &stage.billing);
    let pdf = b"%PDF-1.4\nThe payments of orders 241 and 242\n%%EOF";
    let draft = log.call("a draft of Builder's", builder.stage_attachment("orders.pdf", "application/pdf", pdf)).await?;
    let input = SendInput::to(stage.to_billing(), "The payment records are attached.").attachment_ids(vec![draft.id.clone()]);
    let sent = log.call("sent with a message", builder.send(input)).await?;
    let listed = log.call("Billing finds it", billing.attachments(&sent.conversation_id)).await?;
    same("the first file", &listed.first().map(|file| &file.id), &Some(&draft.id))?;
    let file = log.call("what is known of it", billing.attachment(&draft.id)).await?;
    same(
        "its name, type and size",
        &(file.file_name.as_str(), file.media_type.as_str(), file.size),
        &("orders.pdf", "application/pdf", i64::try_from(pdf.len())?),
    )?;
    let bytes = log.call("its bytes, checked against the digest", billing.download_attachment(&draft.id)).await?;
    same("the bytes", &bytes.as_slice(), &pdf.as_slice())?;
    let folder = tempfile::tempdir().context("a folder to download to")?;
    let path = folder.path().join("orders.pdf");
    billing.download_to(&draft.id, &path).await?;
    log.did("download_attachment", "the same into a new file");
    check("the file holds the bytes", std::fs::read(&path)? == pdf)?;
    let upload = builder.upload_attachment(&sent.conversation_id, "notes.txt", "text/plain", "Orders 241 and 242");
    let notes = log.call("straight into the conversation", upload).await?;
    check("it is another file", notes.id != draft.id)
}
