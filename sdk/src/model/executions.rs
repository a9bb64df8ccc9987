//! Bound actions: what exactly an approval is about, and what its executor reports.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ExecutionId, ExecutionState, JsonMap, PrincipalId, RequestId, Timestamp};

/// An action that an approval binds, field by field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Action {
    /// Its name.
    pub name: String,
    /// The one identity that may redeem it; never one that decides it.
    pub executor_id: PrincipalId,
    /// Your resource's identifier.
    pub resource: String,
    /// Your resource's version, which your tool enforces too.
    #[serde(default)]
    pub resource_version: String,
    /// Arguments, at most 32 KiB of JSON.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub arguments: JsonMap,
    /// Identity of the business operation, for one execution only.
    pub operation_key: String,
}

impl Action {
    /// The action `name` on `resource`, carried out by `executor` once for each `operation_key`.
    pub fn new(
        name: impl Into<String>,
        executor: &PrincipalId,
        resource: impl Into<String>,
        operation_key: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            executor_id: executor.clone(),
            resource: resource.into(),
            resource_version: String::new(),
            arguments: JsonMap::new(),
            operation_key: operation_key.into(),
        }
    }

    setters! {
        /// The resource's version.
        resource_version: impl Into<String> => resource_version.into();
        /// What it is done with.
        arguments: JsonMap => arguments;
    }
}

/// What was approved and may be done once: an intent and its executor's reports, not proof of an effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Execution {
    /// Its id.
    pub id: ExecutionId,
    /// The approved request.
    pub request_id: RequestId,
    /// Who may carry it out and report.
    pub executor_id: PrincipalId,
    /// [`Action::operation_key`]: one execution for each of an executor's.
    pub operation_key: String,
    /// The approved action.
    pub action: Action,
    /// Where it stands, as far as the executor has reported.
    pub state: ExecutionState,
    /// What the executor reported last; null until then.
    #[serde(default)]
    pub result: Value,
    /// When it was authorised.
    #[serde(default)]
    pub created_at: Timestamp,
    /// When it changed last.
    #[serde(default)]
    pub updated_at: Timestamp,
}

/// Redeems an approval for the action that it binds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RedeemInput {
    /// The action, field by field as it was approved. The order of members does not count, `1` and `1.0` are two values.
    pub action: Action,
}

impl RedeemInput {
    /// Redeems this action.
    pub fn new(action: Action) -> Self {
        Self { action }
    }
}

/// What the executor observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ReportInput {
    /// `running`, `succeeded`, `failed` or `unknown`.
    pub state: ExecutionState,
    /// Anything in at most 32 KiB of JSON; replaces what was reported before.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub result: Value,
}

impl ReportInput {
    /// Reports a state.
    pub fn new(state: ExecutionState) -> Self {
        Self { state, result: Value::Null }
    }

    setters! {
        /// What came of it.
        result: impl Into<Value> => result.into();
    }
}
