//! The Coordinator: its switch.

use crate::model::{AssistanceSettings, AssistanceUpdate};
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
}
