//! Events: pages, a stream, and a handler whose error stops without advancing.

use anyhow::Context as _;
use beepgrid::{ErrorKind, Event, EventKind, EventOptions, SendResult};

use crate::stage::{Log, Stage, check, same, within};

pub(crate) async fn visit(log: &mut Log, stage: &Stage, sent: &SendResult) -> anyhow::Result<()> {
    Log::region("Events");
    let billing = &stage.billing;
    let here = || EventOptions::new().conversation_id(&sent.conversation_id);
    let page = log.call("those of the first conversation", billing.list_events(here().limit(100))).await?;
    let bodies: Vec<_> = page.items.iter().filter_map(Event::message).map(|message| message.sequence).collect();
    same("the number of messages", &bodies.len(), &2)?;

    let first = within("the event of the first message", async {
        let mut events = billing.events(EventOptions::new());
        while let Some(event) = events.next().await {
            let event = event?;
            if event.kind == EventKind::MessageCreated && event.conversation_id == sent.conversation_id {
                return Ok::<_, beepgrid::Error>(Some(event));
            }
        }
        Ok(None)
    });
    let first = first.await??.context("the stream ended")?;
    log.did("events", format_args!("message.created at {}", first.sequence));
    check("it has a position", first.sequence > 0)?;
    same("the position of its message", &Some(first.sequence), &bodies.first().copied())?;

    let start = first.sequence - 1;
    let mut handled = Vec::new();
    let stopping = billing.handle_events(here().after(start), |event| {
        let stop = !handled.is_empty();
        handled.push(event.sequence);
        async move { if stop { Err(anyhow::anyhow!("enough")) } else { Ok(()) } }
    });
    let stopped = within("the handler's error", stopping).await?.err().context("the loop ended without an error")?;
    log.did("events", "handled one; the error at the next stopped the loop");
    check("the handler's own error", stopped.kind() == ErrorKind::Handler)?;
    same("the position is that of the one handled", &stopped.position(), &Some(first.sequence))
}
