//! Golden JSON for every model type, written by hand from the published declarations and not from our own output: both sides
//! share the model, so a wrong name here would be wrong in the same way everywhere.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

mod coordinator;
mod events;
mod identity;
mod messages;
mod queries;
mod requests;
mod setup;
mod words;
mod workers;

/// The text is read, and written again as the same JSON: nothing lost, nothing added, no other name.
#[track_caller]
fn same<T: Serialize + DeserializeOwned>(wire: &Value) {
    let from_text: T = serde_json::from_str(&wire.to_string()).expect("reads from text");
    assert_eq!(serde_json::to_value(&from_text).expect("writes"), *wire);
    let from_value: T = serde_json::from_value(wire.clone()).expect("reads from a value");
    assert_eq!(serde_json::to_value(&from_value).expect("writes"), *wire);
}

/// `value` goes over the wire exactly so, and comes back.
#[track_caller]
fn writes<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T, wire: &Value) {
    assert_eq!(serde_json::to_value(value).expect("writes"), *wire);
    assert_eq!(&serde_json::from_value::<T>(wire.clone()).expect("reads"), value);
}

/// `wire`, which leaves out or nulls what it may, reads like `full`.
#[track_caller]
fn reads_like<T: Serialize + DeserializeOwned>(wire: &Value, full: &Value) {
    let read: T = serde_json::from_str(&wire.to_string()).expect("reads");
    assert_eq!(serde_json::to_value(&read).expect("writes"), *full);
}

macro_rules! golden {
    ($($name:ident: $type:ty = $json:tt;)+) => {$(
        #[test]
        fn $name() {
            super::same::<$type>(&serde_json::json!($json));
        }
    )+};
}
use golden;
