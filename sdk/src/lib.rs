#![doc = "Beepgrid"]
pub mod model;
pub use model::*;
