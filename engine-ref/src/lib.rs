//! The Beepgrid reference engine: start it inside a test with one line, or self-host it with the `beepgrid` binary.
//!
//! ```no_run
//! # async fn example() -> Result<(), beepgrid_engine_ref::EngineError> {
//! let engine = beepgrid_engine_ref::Engine::builder().in_memory().start().await?;
//! println!("{} with the token {}", engine.url(), engine.owner_token());
//! engine.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Layers: `http` reads and answers, `service` decides, `store` knows SQL. A write is answered after its commit is durable.

mod background;
mod clock;
#[cfg(feature = "cli")]
pub mod config;
mod core;
mod engine;
mod http;
pub mod restore;
mod service;
mod signals;
mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use self::clock::Clock;
pub use self::engine::{Engine, EngineBuilder, EngineError};
#[cfg(feature = "cli")]
pub use self::http::json_problem;
pub use self::service::coordinator::planner::{PlanBrief, Planner, PlannerError, Planning, Proposal, ReplyBrief};
pub use self::store::Attachments;
