//! Bound actions: what exactly an approval is about.

use serde::{Deserialize, Serialize};

use super::{JsonMap, PrincipalId};

/// An action that an approval binds, field by field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
