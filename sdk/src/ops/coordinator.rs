//! The Coordinator: its switch, and plans that are reviewed, sent and summed up.

use super::limits;
use crate::model::{AssistanceSettings, AssistanceUpdate, OverseerConfirmation, OverseerInput, OverseerPlan, PlanId};
use crate::{Call, Client, ops};

/// Coordinator.
impl Client {
    /// Reads whether the Coordinator is on, and whether the engine has a model for it.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// println!("{}", client.assistance().await?.overseer);
    /// # Ok(())
    /// # }
    /// ```
    pub fn assistance(&self) -> Call<AssistanceSettings> {
        Call::new(self, &ops::ASSISTANCE, &[])
    }

    /// Switches the Coordinator on or off.
    ///
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::AssistanceUpdate;
    ///
    /// let now = owner.assistance().await?;
    /// owner.update_assistance(AssistanceUpdate::new(true).version(now.version)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_assistance(&self, input: AssistanceUpdate) -> Call<AssistanceSettings> {
        Call::new(self, &ops::UPDATE_ASSISTANCE, &[]).json(&input)
    }

    /// Makes a plan to review: which of the agents that the caller may contact are sent what. Sends nothing.
    ///
    /// Waits up to 40 seconds for the engine's model. Keep the key when the outcome is unknown: under it the model is not asked twice.
    ///
    /// # Errors
    /// `forbidden` when the Coordinator is off or the caller is no person, `unavailable` when the engine has no model, `rate_limited`,
    /// `provider_failed` and `provider_timeout` when the model gave no usable plan; none of these stored anything.
    ///
    /// ```no_run
    /// # async fn example(person: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::OverseerInput;
    ///
    /// let plan = person.plan_overseer(OverseerInput::new("Ask the specialists whether staging is ready.")).await?;
    /// for instruction in &plan.instructions {
    ///     println!("{}: {}", instruction.agent_id, instruction.body);
    /// }
    /// person.confirm_overseer(&plan.id).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn plan_overseer(&self, input: OverseerInput) -> Call<OverseerPlan> {
        Call::new(self, &ops::PLAN_OVERSEER, &[]).checked(limits::overseer(&input)).json(&input).assisted()
    }

    /// The caller's plans, newest first, at most 1,000; [`Client::query`] over `overseer_plans` pages through all.
    pub fn overseer_plans(&self) -> Call<Vec<OverseerPlan>> {
        Call::new(self, &ops::OVERSEER_PLANS, &[])
    }

    /// A plan, with what it sent and the replies as they stand now.
    pub fn overseer_plan(&self, id: &PlanId) -> Call<OverseerPlan> {
        Call::new(self, &ops::OVERSEER_PLAN, &[id.as_str()])
    }

    /// Sends a plan as it was stored, all of it or nothing, with the rights that the caller has now. Once: a repeat returns what was sent.
    ///
    /// # Errors
    /// `preview_stale` when the plan is older than 15 minutes, `forbidden` when the Coordinator is off or a right is gone.
    pub fn confirm_overseer(&self, id: &PlanId) -> Call<OverseerPlan> {
        Call::new(self, &ops::CONFIRM_OVERSEER, &[]).json(&OverseerConfirmation::new(id.clone()))
    }

    /// Has the model sum up the replies as they stand now; open ones are said to be open. When the model fails,
    /// [`OverseerPlan::summary_error`] says so.
    ///
    /// # Errors
    /// `invalid_request` for a plan that asked for no reply; otherwise as [`Client::plan_overseer`].
    pub fn summarize_overseer(&self, id: &PlanId) -> Call<OverseerPlan> {
        Call::new(self, &ops::SUMMARIZE_OVERSEER, &[id.as_str()]).assisted()
    }

    /// Plans and sends at once, without a review. Waits up to 40 seconds for the engine's model.
    ///
    /// # Errors
    /// As [`Client::plan_overseer`], and `forbidden` when a right for something in the plan is missing: then nothing was sent.
    pub fn coordinate(&self, input: OverseerInput) -> Call<OverseerPlan> {
        Call::new(self, &ops::COORDINATE, &[]).checked(limits::overseer(&input)).json(&input).assisted()
    }
}
