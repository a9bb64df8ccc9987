//! The wire types, one file per family; usable without the client (`default-features = false`).
//!
//! Responses may gain fields at any time; unknown ones are ignored. Inputs are `#[non_exhaustive]`: make them with `new(…)` or a
//! named constructor and set the rest through the setters or the public fields.

/// Free-form JSON that belongs to the application: metadata, progress, arguments.
pub type JsonMap = serde_json::Map<String, serde_json::Value>;

/// Reads `null` as the empty list or map: engines in Go write theirs so when there is nothing in it.
fn null_as_empty<'de, D: serde::Deserializer<'de>, T: Default + serde::Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(<Option<T> as serde::Deserialize>::deserialize(deserializer)?.unwrap_or_default())
}

/// Chainable setters named like their fields.
macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $arg:ty => $value:expr;)+) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: $arg) -> Self {
            self.$field = $value;
            self
        }
    )+};
}

mod access;
mod answers;
mod channels;
mod chats;
mod coordinator;
mod events;
mod executions;
mod files;
mod identity;
mod ids;
mod messages;
mod queries;
mod requests;
#[cfg(feature = "schema")]
mod schema;
mod setup;
mod time;
mod vocabulary;
mod workers;

pub use self::time::*;
pub use access::*;
pub use answers::*;
pub use channels::*;
pub use chats::*;
pub use coordinator::*;
pub use events::*;
pub use executions::*;
pub use files::*;
pub use identity::*;
pub use ids::*;
pub use messages::*;
pub use queries::*;
pub use requests::*;
pub use setup::*;
pub use vocabulary::*;
pub use workers::*;

#[cfg(test)]
mod golden;
