//! Pages of records.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One page. Go on while `next_cursor` is there, also when `items` is empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryPage<T = Value> {
    /// The records of this page.
    #[serde(default = "Vec::new", deserialize_with = "super::null_as_empty")]
    #[serde(bound(deserialize = "T: Deserialize<'de>"))]
    pub items: Vec<T>,
    /// Opaque; where the next page begins. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How the collection is ordered.
    #[serde(default)]
    pub order: String,
}

/// The engine's word for a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deleted {
    /// Always true.
    pub deleted: bool,
}
