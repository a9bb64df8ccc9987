//! The worker loop: lease, handle, acknowledge, for ever.
//!
//! `run.rs` is the loop, `hold.rs` keeps one lease alive, `renewal.rs` the credential; `inbox.rs` is what they ask of the engine.
//! A receiver for busy agents, with an inbox of its own on disk, is the crate `beepgrid-receiver`.

mod hold;
mod inbox;
mod leased;
mod options;
mod renewal;
mod run;

pub use leased::{Leased, UndecodableDelivery};
pub use options::{Handling, RunOptions, RunStatus};

use std::future::Future;

use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::error::Error;

/// The worker loop.
impl Client {
    /// Handles deliveries one after the other until `cancel` fires, the handler fails or the engine refuses.
    ///
    /// Each delivery is acknowledged after the handler returned `Ok`, so it may come twice (after a crash, or a lost lease) and never
    /// not at all: deduplicate by its id. While a handler works, its lease and those of the deliveries behind it are extended on a
    /// task of their own. A lost lease fires [`Handling::cancel`]; the delivery is then somebody else's, is neither acknowledged nor
    /// counted as a failure, and the loop goes on.
    ///
    /// The loop outlives faults of the transport, 5xx and 429 (it waits as long as the engine asks), and deliveries that can't be
    /// decoded: those are logged, counted in [`RunStatus`] and left to the engine, which brings them again ever later and parks them
    /// in the end. A renewable credential is renewed when a third of it is left.
    ///
    /// When `cancel` fires, it fires [`Handling::cancel`] too; the running handler may finish (and is acknowledged if it says `Ok`:
    /// return an error if you did not finish), what was not started is given back, and `run` returns `Ok`. Dropping the future stops at once; its
    /// leases run out by themselves.
    ///
    /// # Errors
    /// A handler's error ends the loop as [`ErrorKind::Handler`](crate::ErrorKind::Handler) with that error as its source; its
    /// delivery is given back. Refusals end it too: `unauthorized`, `forbidden`, `not_found` and every other 4xx but 408, 425, 429
    /// and `stale_generation`.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(worker: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{CancellationToken, Error, Handling, Key, SendInput};
    ///
    /// let stop = CancellationToken::new();
    /// worker
    ///     .run(stop, |handling: Handling| {
    ///         let worker = worker.clone();
    ///         async move {
    ///             let delivery = handling.delivery;
    ///             if let Some(message) = delivery.payload.message {
    ///                 let reply = SendInput::reply(&message.conversation_id, format!("You said: {}", message.body));
    ///                 // The same key when the delivery comes again: one reply, however often.
    ///                 let call = worker.send(reply);
    ///                 match format!("reply/{}", delivery.id).parse::<Key>() {
    ///                     Ok(key) => call.key(key).await?,
    ///                     Err(_) => call.await?,
    ///                 };
    ///             }
    ///             Ok::<_, Error>(())
    ///         }
    ///     })
    ///     .await
    /// # }
    /// ```
    pub async fn run<H, F, E>(&self, cancel: CancellationToken, handler: H) -> Result<(), Error>
    where
        H: FnMut(Handling) -> F,
        F: Future<Output = Result<(), E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.run_with(RunOptions::new(), cancel, handler).await
    }

    /// [`Client::run`] with other settings than the defaults, or with a place to watch its state.
    ///
    /// ```no_run
    /// # async fn example(worker: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{CancellationToken, DeliveryKind, Error, RunOptions};
    ///
    /// let results_only = RunOptions::new().kinds(vec![DeliveryKind::RequestResult]).limit(1);
    /// worker
    ///     .run_with(results_only, CancellationToken::new(), |handling| async move {
    ///         println!("{}", handling.delivery.id);
    ///         Ok::<_, Error>(())
    ///     })
    ///     .await
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Client::run`].
    pub async fn run_with<H, F, E>(&self, options: RunOptions, cancel: CancellationToken, handler: H) -> Result<(), Error>
    where
        H: FnMut(Handling) -> F,
        F: Future<Output = Result<(), E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        run::Worker::new(self.clone(), options, self.settings().loops, cancel).run(handler).await
    }
}

#[cfg(test)]
mod tests;
