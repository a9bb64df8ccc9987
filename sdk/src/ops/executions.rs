//! Bound actions: redeeming an approval, reporting what was seen.

use super::limits;
use crate::call::Call;
use crate::client::Client;
use crate::model::{Execution, ExecutionId, RedeemInput, ReportInput, RequestId};
use crate::ops;

/// Bound actions. The engine carries nothing out; your tool enforces operation key and resource version.
impl Client {
    /// Redeems an approval for exactly the action that it binds, as its executor.
    ///
    /// An approval is redeemed once: the same call again, after a restart too, returns the same execution. Look at its `state`
    /// before you act on it. Each `operation_key` of an executor is redeemed once, whatever the request.
    ///
    /// # Errors
    /// `not_approved`, also when the approval has expired; `action_mismatch` if any value differs; `already_exists` if the
    /// operation was redeemed through another request; `forbidden` for anybody but the executor, and when who asked or who
    /// approved is disabled by now.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, approval: beepgrid::Request) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{ExecutionState, RedeemInput, ReportInput};
    ///
    /// let Some(action) = approval.action else { return Ok(()) };
    /// let execution = client.redeem(&approval.id, RedeemInput::new(action)).await?;
    /// if execution.state == ExecutionState::Authorized {
    ///     client.report_execution(&execution.id, ReportInput::new(ExecutionState::Running)).await?;
    ///     // … do it, with `execution.operation_key` as your own guard against doing it twice …
    ///     client.report_execution(&execution.id, ReportInput::new(ExecutionState::Succeeded).result("done")).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn redeem(&self, id: &RequestId, input: RedeemInput) -> Call<Execution> {
        Call::new(self, &ops::REDEEM, &[id.as_str()]).checked(limits::redeem(&input)).json(&input)
    }

    /// Reports what the executor saw: `running`, `succeeded`, `failed` or `unknown`.
    ///
    /// Success and failure are final. Report `unknown` when you can't tell, never success after a timeout; it may be followed by
    /// what you find out.
    ///
    /// # Errors
    /// `execution_final` if another final report is there; the identical one again is fine. `forbidden` for anybody but the
    /// executor.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, id: beepgrid::ExecutionId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{ExecutionState, ReportInput};
    ///
    /// client.report_execution(&id, ReportInput::new(ExecutionState::Unknown).result("the connection broke off")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn report_execution(&self, id: &ExecutionId, input: ReportInput) -> Call<Execution> {
        Call::new(self, &ops::REPORT_EXECUTION, &[id.as_str()]).checked(limits::report(&input)).json(&input)
    }
}
