//! Asking for a decision, deciding, waiting for the outcome.

use std::time::Duration;

use super::limits;
use crate::call::Call;
use crate::client::Client;
use crate::model::{
    AskBatchInput, AskBatchItem, AskInput, BlockingInput, CancelInput, MAX_WAIT_MS, ReplaceRequestInput, ReplacedRequest,
    Request, RequestId, RequestTrace, ResponseInput, SupersedeInput,
};
use crate::ops;
use crate::wait::Wait;

/// Requests.
impl Client {
    /// Puts a question, approval or task to somebody, and returns at once with the open request.
    ///
    /// It stays open until it is decided, cancelled or expires, whatever becomes of this process. Wait for it with
    /// [`Client::wait`]; a worker gets the result in its inbox as well.
    ///
    /// # Errors
    /// `forbidden` without the right to ask.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{AskInput, Target};
    ///
    /// let question = AskInput::to(Target::agent("billing-2"), "Refund order 17?").choices(["yes", "no"]);
    /// let request = client.ask(question).await?;
    /// println!("{} is {}", request.id, request.state);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ask(&self, input: AskInput) -> Call<Request> {
        Call::new(self, &ops::ASK, &[]).checked(limits::ask(&input)).json(&input)
    }

    /// Puts the same request to each of up to 100 targets, each with an outcome of its own, all or nothing.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{AskBatchInput, AskInput, Target};
    ///
    /// let targets = vec![Target::agent("builder-7"), Target::agent("builder-8")];
    /// for item in client.ask_batch(AskBatchInput::new(targets, AskInput::new("Are you free?"))).await? {
    ///     println!("{}: {}", item.target.id, item.request.id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn ask_batch(&self, input: AskBatchInput) -> Call<Vec<AskBatchItem>> {
        Call::new(self, &ops::ASK_BATCH, &[]).checked(limits::ask_batch(&input)).json(&input)
    }

    /// Reads a request as it is now.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, id: beepgrid::RequestId) -> Result<(), beepgrid::Error> {
    /// let request = client.get_request(&id).await?;
    /// println!("{} at version {}", request.state, request.version);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_request(&self, id: &RequestId) -> Call<Request> {
        Call::new(self, &ops::GET_REQUEST, &[id.as_str()])
    }

    /// Waits until a request leaves `open`, and returns it in whatever final state it has.
    ///
    /// The engine does the waiting, in rounds; faults of the transport, 5xx and 429 are waited out. Without
    /// [`Wait::timeout`] it waits as long as it takes. Giving up or dropping it leaves the request as it is: to withdraw it, call
    /// [`Client::cancel`].
    ///
    /// # Errors
    /// [`ErrorKind::Deadline`](crate::ErrorKind::Deadline) after [`Wait::timeout`]; refusals such as `not_found`, and an
    /// answer that can't be read, at once.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, id: beepgrid::RequestId) -> Result<(), beepgrid::Error> {
    /// use std::time::Duration;
    ///
    /// let request = client.wait(&id).timeout(Duration::from_secs(600)).await?;
    /// if let Some(response) = request.response {
    ///     println!("{}: {:?}", response.outcome, response.answer);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(&self, id: &RequestId) -> Wait {
        Wait::new(self, id)
    }

    /// One round of [`Client::wait`].
    pub(crate) fn wait_round(&self, id: &RequestId, wait: Duration) -> Call<Request> {
        let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(MAX_WAIT_MS).min(MAX_WAIT_MS);
        Call::new(self, &ops::WAIT, &[id.as_str()]).query("wait_ms", Some(wait_ms)).waiting(wait)
    }

    /// Closes a request with the caller's decision.
    ///
    /// The decision is final. `input.version` is the version last read: a request that changed since then is left alone. Sent again
    /// under the same key, the call returns the first result.
    ///
    /// # Errors
    /// `version_conflict` if the request changed, `request_closed` if it is final already, `forbidden` for who may not decide.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, id: beepgrid::RequestId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::ResponseInput;
    ///
    /// let request = client.get_request(&id).await?;
    /// client.respond(&id, ResponseInput::answered(request.version, "yes")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn respond(&self, id: &RequestId, input: ResponseInput) -> Call<Request> {
        Call::new(self, &ops::RESPOND, &[id.as_str()]).checked(limits::respond(&input)).json(&input)
    }

    /// Withdraws the caller's own open request, as it was at `version`.
    ///
    /// # Errors
    /// `version_conflict` if the request changed, `request_closed` if it is final already.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, request: beepgrid::Request) -> Result<(), beepgrid::Error> {
    /// client.cancel(&request.id, request.version).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(&self, id: &RequestId, version: i64) -> Call<Request> {
        Call::new(self, &ops::CANCEL, &[id.as_str()]).checked(limits::version(version)).json(&CancelInput::new(version))
    }

    /// Retires the caller's own open request and asks its audience anew, in one step.
    ///
    /// # Errors
    /// `version_conflict` if the request changed, `request_closed` if it is final already.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, request: beepgrid::Request) -> Result<(), beepgrid::Error> {
    /// use beepgrid::ReplaceRequestInput;
    ///
    /// let input = ReplaceRequestInput::new(request.version, "Refund order 18? 17 was a typo.");
    /// let replaced = client.replace_request(&request.id, input).await?;
    /// println!("decide {} now", replaced.replacement.id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn replace_request(&self, id: &RequestId, input: ReplaceRequestInput) -> Call<ReplacedRequest> {
        Call::new(self, &ops::REPLACE_REQUEST, &[id.as_str()]).checked(limits::replace(&input)).json(&input)
    }

    /// Retires the caller's own open request without asking anew.
    ///
    /// Unlike [`Client::replace_request`] it puts nothing in its place.
    ///
    /// # Errors
    /// `version_conflict` if the request changed, `request_closed` if it is final already.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, request: beepgrid::Request) -> Result<(), beepgrid::Error> {
    /// use beepgrid::SupersedeInput;
    ///
    /// client.supersede(&request.id, SupersedeInput::new(request.version)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn supersede(&self, id: &RequestId, input: SupersedeInput) -> Call<Request> {
        Call::new(self, &ops::SUPERSEDE, &[id.as_str()]).json(&input)
    }

    /// Declares that the calling agent can't go on until another agent answers, or takes that back.
    ///
    /// Only for the agent's own open request to one individual agent; the version stays. An open question by itself blocks
    /// nobody.
    ///
    /// # Errors
    /// `request_closed` if it is final, `rate_limited` beyond 100 open blocking requests.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, id: beepgrid::RequestId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::BlockingInput;
    ///
    /// let request = client.set_request_blocking(&id, BlockingInput::new(true)).await?;
    /// assert!(request.blocking);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_request_blocking(&self, id: &RequestId, input: BlockingInput) -> Call<Request> {
        Call::new(self, &ops::SET_REQUEST_BLOCKING, &[id.as_str()]).json(&input)
    }

    /// Reads what became of one's own request: a page of its deliveries, what was redeemed, what was published from it.
    ///
    /// `cursor` is the `next_cursor` of the page before, for the same request, within 24 hours. Queued, leased, acknowledged,
    /// answered and carried out are five facts.
    ///
    /// # Errors
    /// `forbidden` for who was only asked, `invalid_cursor`, `cursor_expired`.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, id: beepgrid::RequestId) -> Result<(), beepgrid::Error> {
    /// let mut page = client.request_trace(&id, None).await?;
    /// loop {
    ///     for delivery in &page.deliveries {
    ///         println!("{} is {} since {}", delivery.recipient_id, delivery.state, delivery.at);
    ///     }
    ///     let Some(cursor) = page.next_cursor else { break };
    ///     page = client.request_trace(&id, Some(&cursor)).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn request_trace(&self, id: &RequestId, cursor: Option<&str>) -> Call<RequestTrace> {
        Call::new(self, &ops::REQUEST_TRACE, &[id.as_str()]).query("cursor", cursor)
    }
}
