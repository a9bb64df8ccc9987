//! Reusable answers to questions: publish, find, take back.

use super::limits;
use crate::call::Call;
use crate::client::Client;
use crate::model::{Answer, AnswerAndShareInput, AnswerAndShareResult, AnswerId, AnswerInput, RequestId};
use crate::ops;

/// Reusable answers. They serve questions only, never approvals or tasks.
impl Client {
    /// Lists the published answers that the caller may see, newest first, at most 1,000.
    ///
    /// Withdrawn ones and those whose time is over are among them.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// for answer in client.answers().await? {
    ///     println!("{}: {} until {}", answer.key, answer.answer, answer.valid_until);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn answers(&self) -> Call<Vec<Answer>> {
        Call::new(self, &ops::ANSWERS, &[])
    }

    /// Publishes the answer to a resolved question, so that those in its audience get it at once when they ask the same.
    ///
    /// The same is: the same `shared_key`, title, body and choices, put to whoever answered. The published answer shows its
    /// question to the audience. Needs the right to manage `answers`.
    ///
    /// # Errors
    /// `forbidden` without that right, `invalid_request` when the request is no question or has no answer.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, question: beepgrid::Request) -> Result<(), beepgrid::Error> {
    /// use beepgrid::AnswerInput;
    ///
    /// let audience = vec!["builder-7".into(), "builder-8".into()];
    /// let answer = client.publish_answer(AnswerInput::new(&question.id, "deploy-window", audience)).await?;
    /// println!("{} is reused until {}", answer.id, answer.valid_until);
    /// # Ok(())
    /// # }
    /// ```
    pub fn publish_answer(&self, input: AnswerInput) -> Call<Answer> {
        Call::new(self, &ops::PUBLISH_ANSWER, &[]).checked(limits::publication(&input.key, &input.audience)).json(&input)
    }

    /// Takes a published answer out of reuse. Responses that came from it stay, and say so (`source_invalidated`).
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, id: beepgrid::AnswerId) -> Result<(), beepgrid::Error> {
    /// assert!(client.invalidate_answer(&id).await?.invalidated);
    /// # Ok(())
    /// # }
    /// ```
    pub fn invalidate_answer(&self, id: &AnswerId) -> Call<Answer> {
        Call::new(self, &ops::INVALIDATE_ANSWER, &[id.as_str()])
    }

    /// Answers a question and publishes the answer, both or neither.
    ///
    /// # Errors
    /// Those of [`Client::respond`] and [`Client::publish_answer`].
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, question: beepgrid::Request) -> Result<(), beepgrid::Error> {
    /// use beepgrid::AnswerAndShareInput;
    ///
    /// let audience = vec![question.requester_id.clone()];
    /// let input = AnswerAndShareInput::new(question.version, "EU", "region-of-orders", audience);
    /// let done = client.answer_and_share(&question.id, input).await?;
    /// println!("{} is {}, and {} published", done.request.id, done.request.state, done.answer.id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn answer_and_share(&self, id: &RequestId, input: AnswerAndShareInput) -> Call<AnswerAndShareResult> {
        let checked = limits::respond(&input.response()).and_then(|()| limits::publication(&input.key, &input.audience));
        Call::new(self, &ops::ANSWER_AND_SHARE, &[id.as_str()]).checked(checked).json(&input)
    }
}
