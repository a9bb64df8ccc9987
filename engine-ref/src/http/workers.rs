//! The worker inbox over HTTP: leases, with the wait for work, and what workers say about them.

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use beepgrid::{
    AckInput, AckManyInput, AckManyResult, AckResult, Delivery, DeliveryId, ExtendInput, ExtendResult, HeartbeatInput,
    HeartbeatResult, InboxInput, InstanceId, Permission, ReleaseInput, ReleaseResult, RequeueInput, RequeueResult, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::extract::{Input, MaybeKey, NoKey, PathId};
use crate::core::{Core, Hold, Keyed};
use crate::service::actor::{Actor, Caller, Need};
use crate::service::deliveries::{self, DeliveryState};
use crate::service::inbox::{self, Want};
use crate::service::limits::MAX_POLLS;
use crate::service::{Refusal, checks, presence};
use crate::store::ReadTx;
use crate::store::deliveries::Worker;

type Answer<T> = Result<Json<T>, Refusal>;

/// The routes of this family, below the base path.
pub(super) fn routes() -> Router<Core> {
    Router::new()
        .route("/inbox/lease", post(lease))
        .route("/inbox/ack", post(ack_many))
        .route("/inbox/{id}/ack", post(ack))
        .route("/inbox/{id}/extend", post(extend))
        .route("/inbox/{id}/release", post(release))
        .route("/heartbeat", post(heartbeat))
        .route("/deliveries/requeue", post(requeue_agent))
        .route("/deliveries/{id}/requeue", post(requeue))
}

async fn lease(caller: Caller, State(core): State<Core>, _: NoKey, Input(input): Input<InboxInput>) -> Answer<Vec<Delivery>> {
    let want = Want::from_input(&input)?;
    wait_for_work(&core, &caller, want).await.map(Json)
}

async fn ack(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    _: NoKey,
    Input(input): Input<AckInput>,
) -> Answer<AckResult> {
    let id = DeliveryId::new(id);
    core.write(&caller, Need::Worker, move |tx, actor| inbox::ack(tx, &worker(actor)?, &id, &input)).await?;
    Ok(Json(AckResult { received: true }))
}

async fn ack_many(
    caller: Caller,
    State(core): State<Core>,
    _: NoKey,
    Input(input): Input<AckManyInput>,
) -> Answer<AckManyResult> {
    inbox::check_items(&input.items)?;
    let acked = core.write(&caller, Need::Worker, move |tx, actor| inbox::ack_many(tx, &worker(actor)?, &input.items));
    Ok(Json(AckManyResult { results: acked.await? }))
}

async fn extend(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    _: NoKey,
    Input(input): Input<ExtendInput>,
) -> Answer<ExtendResult> {
    inbox::check_extension(&input)?;
    let id = DeliveryId::new(id);
    let extended = core.write(&caller, Need::Worker, move |tx, actor| inbox::extend(tx, &worker(actor)?, &id, &input));
    Ok(Json(ExtendResult { leased_until: extended.await? }))
}

async fn release(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    _: NoKey,
    Input(input): Input<ReleaseInput>,
) -> Answer<ReleaseResult> {
    inbox::check_release(&input)?;
    let id = DeliveryId::new(id);
    core.write(&caller, Need::Worker, move |tx, actor| inbox::release(tx, &worker(actor)?, &id, &input)).await?;
    Ok(Json(ReleaseResult { released: true }))
}

async fn heartbeat(
    caller: Caller,
    State(core): State<Core>,
    _: NoKey,
    Input(input): Input<HeartbeatInput>,
) -> Answer<HeartbeatResult> {
    presence::check(&input)?;
    let looked = input.clone();
    let (instance, more) = core
        .read(&caller, Need::Worker, move |tx, actor| Ok((actor.instance()?.clone(), presence::says_more(tx, actor, &looked)?)))
        .await?;
    core.presence().instance_seen(&instance, core.clock().now());
    if more {
        core.write(&caller, Need::Worker, move |tx, actor| presence::heartbeat(tx, actor, &input)).await?;
    }
    Ok(Json(HeartbeatResult { ok: true }))
}

/// A body without members.
#[derive(Debug, Serialize, Deserialize)]
struct Nothing {}

async fn requeue(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    MaybeKey(key): MaybeKey,
    Input(Nothing {}): Input<Nothing>,
) -> Answer<DeliveryState> {
    let keyed = Keyed { operation: "requeue_delivery", key, path: vec![id.clone()] };
    let answered = core.keyed(
        &caller,
        Need::Ceiling(Permission::Manage),
        keyed,
        DeliveryId::new(id),
        deliveries::requeue,
        |tx: &ReadTx<'_>, actor, id, ()| Ok(DeliveryState::of(&deliveries::requeueable(tx, actor, id)?)),
    );
    Ok(Json(answered.await?.value))
}

async fn requeue_agent(
    caller: Caller,
    State(core): State<Core>,
    MaybeKey(key): MaybeKey,
    Input(input): Input<RequeueInput>,
) -> Answer<RequeueResult> {
    checks::id("agent_id", input.agent_id.as_str())?;
    let keyed = Keyed { operation: "requeue_deliveries", key, path: Vec::new() };
    let answered = core.keyed(
        &caller,
        Need::Ceiling(Permission::Manage),
        keyed,
        input,
        |tx, actor, input: &RequeueInput| deliveries::requeue_agent(tx, actor, &input.agent_id),
        |_: &ReadTx<'_>, _, _, requeued: &RequeueResult| Ok(requeued.clone()),
    );
    Ok(Json(answered.await?.value))
}

fn worker(actor: &Actor) -> Result<Worker<'_>, Refusal> {
    Ok(Worker { agent: &actor.id, instance: actor.instance()? })
}

/// Leases what is there, or waits for it, up to `want.wait`.
///
/// A waiting poll is a future with two subscriptions and a timer: no thread, no transaction. It looks (a read) when it begins,
/// when work of its agent is signalled, when something held back becomes due, and once more at the end, in case a signal of
/// another process was lost; it writes only when a look found something. Dropped, because its client is gone, it leaves
/// nothing behind; a lease that was committed by then comes back when it runs out.
async fn wait_for_work(core: &Core, caller: &Caller, want: Want) -> Result<Vec<Delivery>, Refusal> {
    // First the subscriptions, then the look: what happens in between ends the wait.
    let mut work = core.signals().work(&caller.principal_id);
    let mut access = core.signals().access(&caller.principal_id);
    let mut over = want.wait.is_zero();
    let end = tokio::time::sleep(want.wait);
    tokio::pin!(end);
    let mut place: Option<Hold> = None;
    loop {
        let look = look(core, caller, want).await?;
        if look.ready {
            let leased = take(core, caller, want).await?;
            if !leased.is_empty() {
                return Ok(leased);
            }
        }
        if over {
            return Ok(Vec::new());
        }
        if place.is_none() {
            place = Some(core.hold(format!("poll {}", look.instance), MAX_POLLS)?);
        }
        tokio::select! {
            () = work.next() => {}
            // The next look is refused if it was this credential that ended.
            () = access.next() => {}
            () = until(core, look.next_due) => {}
            () = &mut end => over = true,
            () = core.stopping().cancelled() => return Ok(Vec::new()),
        }
    }
}

/// What a look without a write found.
struct Look {
    instance: InstanceId,
    ready: bool,
    next_due: Option<Timestamp>,
}

async fn look(core: &Core, caller: &Caller, want: Want) -> Result<Look, Refusal> {
    let look = core
        .read(caller, Need::Worker, move |tx, actor| {
            let worker = worker(actor)?;
            let glimpse = inbox::glimpse(tx, &worker, want.kinds)?;
            Ok(Look { instance: worker.instance.clone(), ready: glimpse.ready, next_due: glimpse.next_due })
        })
        .await?;
    core.presence().instance_seen(&look.instance, core.clock().now());
    Ok(look)
}

async fn take(core: &Core, caller: &Caller, want: Want) -> Result<Vec<Delivery>, Refusal> {
    let leased = core.write(caller, Need::Worker, move |tx, actor| {
        inbox::lease(tx, &worker(actor)?, &want, &|tx, row| inbox::payload(tx, actor, row))
    });
    leased.await
}

async fn until(core: &Core, time: Option<Timestamp>) {
    match time {
        Some(time) => core.clock().sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
