//! The worker inbox, call by call. [`Client::run`] puts them together.

use std::time::Duration;

use super::limits;
use crate::call::Call;
use crate::client::Client;
use crate::model::{
    AckInput, AckItem, AckManyInput, AckManyItem, AckManyResult, Delivery, DeliveryId, ExtendInput, ExtendResult, HeartbeatInput,
    InboxInput, MAX_LEASE, MAX_WAIT_MS, ReleaseInput, RequeueInput, RequeueResult, TracedDelivery,
};
use crate::ops;
use crate::worker::Leased;

/// Deliveries that one [`Client::ack_many`] takes.
const MAX_ACKS: usize = 100;

/// The worker inbox. Needs a worker credential.
impl Client {
    /// Leases what waits for this runtime, for 30 seconds each.
    ///
    /// Sent once: an answer that gets lost leaves its deliveries leased until they run out, then they come again under the next
    /// generation. A delivery may come twice; deduplicate by its id. One delivery that can't be decoded fails the whole call; a loop
    /// is better off with [`Client::inbox_items`].
    ///
    /// ```no_run
    /// # async fn example(worker: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::InboxInput;
    ///
    /// for delivery in worker.inbox(InboxInput::new().wait_ms(15_000)).await? {
    ///     println!("{} {}", delivery.kind, delivery.id);
    ///     worker.ack(&delivery).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn inbox(&self, input: InboxInput) -> Call<Vec<Delivery>> {
        lease(self, &input, |body| serde_json::from_slice(body))
    }

    /// Like [`Client::inbox`], with each delivery decoded on its own: one that can't be read does not take the others with it.
    ///
    /// ```no_run
    /// # async fn example(worker: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{InboxInput, Leased};
    ///
    /// for leased in worker.inbox_items(InboxInput::new()).await? {
    ///     match leased {
    ///         Leased::Delivery(delivery) => worker.ack(&delivery).await?,
    ///         Leased::Undecodable(lost) => eprintln!("left to the engine: {lost}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn inbox_items(&self, input: InboxInput) -> Call<Vec<Leased>> {
        lease(self, &input, Leased::decode)
    }

    /// Confirms that a delivery is handled, or safely stored where it will be. It does not come again.
    ///
    /// # Errors
    /// `stale_generation` if the lease is somebody else's by now: then it is theirs to handle.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(worker: beepgrid::Client, delivery: beepgrid::Delivery) -> Result<(), beepgrid::Error> {
    /// worker.ack(&delivery).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ack(&self, delivery: &Delivery) -> Call<()> {
        self.ack_lease(&delivery.id, delivery.generation)
    }

    /// [`Client::ack`] for a lease that is known by id and generation only.
    ///
    /// ```no_run
    /// # async fn example(worker: beepgrid::Client, id: beepgrid::DeliveryId) -> Result<(), beepgrid::Error> {
    /// worker.ack_lease(&id, 3).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ack_lease(&self, id: &DeliveryId, generation: i64) -> Call<()> {
        Call::confirmed(self, &ops::ACK, &[id.as_str()]).json(&AckInput::new(generation))
    }

    /// Confirms up to 100 leases, each on its own, in the order given.
    ///
    /// Look at each result: one refused lease does not refuse the others.
    ///
    /// ```no_run
    /// # async fn example(worker: beepgrid::Client, leases: Vec<(beepgrid::DeliveryId, i64)>) -> Result<(), beepgrid::Error> {
    /// for item in worker.ack_many(&leases).await? {
    ///     if !item.received {
    ///         println!("{} was not acknowledged: {:?}", item.id, item.code);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn ack_many(&self, leases: &[(DeliveryId, i64)]) -> Call<Vec<AckManyItem>> {
        let items = leases.iter().map(|(id, generation)| AckItem { id: id.clone(), generation: *generation }).collect();
        let checked = limits::range("items", i64::try_from(leases.len()).ok(), 1..=MAX_LEASE)
            .and_then(|()| limits::count("items", leases.len(), MAX_ACKS));
        let path = Ok(ops::ACK_MANY.path.to_owned());
        Call::at(self, &ops::ACK_MANY, ops::ACK_MANY.method, path, |body| {
            serde_json::from_slice::<AckManyResult>(body).map(|result| result.results)
        })
        .checked(checked)
        .json(&AckManyInput::new(items))
    }

    /// Moves the end of a lease to `seconds` from now, 1 to 300. No lease lasts longer than 12 hours.
    ///
    /// # Errors
    /// `stale_generation` if the lease is lost: stop working on the delivery.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(worker: beepgrid::Client, delivery: beepgrid::Delivery) -> Result<(), beepgrid::Error> {
    /// let extended = worker.extend(&delivery.id, delivery.generation, 60).await?;
    /// println!("leased until {}", extended.leased_until);
    /// # Ok(())
    /// # }
    /// ```
    pub fn extend(&self, id: &DeliveryId, generation: i64, seconds: i64) -> Call<ExtendResult> {
        Call::new(self, &ops::EXTEND, &[id.as_str()])
            .checked(limits::range("seconds", Some(seconds), 1..=300))
            .json(&ExtendInput::new(generation, seconds))
    }

    /// Gives a delivery back unhandled, at once or after a delay of up to an hour. This does not count as an attempt.
    ///
    /// # Errors
    /// `stale_generation` if the lease is lost already.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(worker: beepgrid::Client, delivery: beepgrid::Delivery) -> Result<(), beepgrid::Error> {
    /// use beepgrid::ReleaseInput;
    ///
    /// worker.release(&delivery.id, ReleaseInput::new(delivery.generation).delay_seconds(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(&self, id: &DeliveryId, input: ReleaseInput) -> Call<()> {
        Call::confirmed(self, &ops::RELEASE, &[id.as_str()])
            .checked(limits::range("delay_seconds", input.delay_seconds, 0..=3_600))
            .json(&input)
    }

    /// Takes up a parked delivery again, with fresh attempts. For operators, and for a worker of the agent that it is for.
    ///
    /// # Errors
    /// `not_found` for one that is not there or not the caller's.
    ///
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, id: beepgrid::DeliveryId) -> Result<(), beepgrid::Error> {
    /// println!("{}", owner.requeue_delivery(&id).await?.state);
    /// # Ok(())
    /// # }
    /// ```
    pub fn requeue_delivery(&self, id: &DeliveryId) -> Call<TracedDelivery> {
        Call::new(self, &ops::REQUEUE_DELIVERY, &[id.as_str()]).json(&serde_json::json!({}))
    }

    /// Takes up the parked deliveries of an agent again, up to a limit; [`RequeueResult::more`] says that it was reached.
    pub fn requeue_deliveries(&self, input: RequeueInput) -> Call<RequeueResult> {
        Call::new(self, &ops::REQUEUE_DELIVERIES, &[]).json(&input)
    }

    /// Refreshes the runtime's presence, and reports progress or capabilities if there are any.
    ///
    /// Leases refresh presence too; a worker that only listens needs no heartbeat.
    ///
    /// ```no_run
    /// # async fn example(worker: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::HeartbeatInput;
    ///
    /// let mut progress = beepgrid::JsonMap::new();
    /// progress.insert("step".into(), "linking".into());
    /// worker.heartbeat(HeartbeatInput::new().progress(progress)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn heartbeat(&self, input: HeartbeatInput) -> Call<()> {
        let checked = input
            .progress
            .as_ref()
            .map_or(Ok(()), |progress| limits::metadata("progress", progress))
            .and_then(|()| input.capabilities.as_deref().map_or(Ok(()), limits::capabilities));
        Call::confirmed(self, &ops::HEARTBEAT, &[]).checked(checked).json(&input)
    }
}

fn lease<T>(client: &Client, input: &InboxInput, decode: crate::call::Decode<T>) -> Call<T> {
    let wait = Duration::from_millis(input.wait_ms.and_then(|wait| u64::try_from(wait).ok()).unwrap_or(0));
    let checked = limits::range("wait_ms", input.wait_ms, 0..=MAX_WAIT_MS)
        .and_then(|()| limits::range("limit", input.limit, 1..=MAX_LEASE));
    let call =
        Call::at(client, &ops::INBOX, ops::INBOX.method, Ok(ops::INBOX.path.to_owned()), decode).checked(checked).json(input);
    if wait.is_zero() { call } else { call.waiting(wait) }
}
