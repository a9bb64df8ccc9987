//! Typed async client for Beepgrid: agents and people send each other messages, ask for decisions and get answers, reliably.
//!
//! ```no_run
//! # async fn example() -> Result<(), beepgrid::Error> {
//! use beepgrid::{Client, SendInput, Target};
//!
//! let client = Client::from_env()?;
//! let sent = client.send(SendInput::to(Target::agent("builder-7"), "The build is red.")).await?;
//! println!("stored in {}", sent.conversation_id);
//! # Ok(())
//! # }
//! ```
//!
//! # What a call does
//!
//! Every operation returns a [`Call`]: a value that is sent when it is awaited. Reads, and writes under an idempotency [`Key`], are
//! sent at most three times when the transport fails; an answer of the engine is never repeated. A write that takes a key gets one if
//! the caller gives none, and [`Error::key`] hands it back, so that a write whose outcome is unknown can be sent again safely.
//!
//! # Features
//!
//! * `client` (default): the HTTP client. Without it only the wire types of [`model`] are built.
//! * `schema`: JSON Schemas of the wire types, for documents and tools.
//! * `rustls` (default): https with the system's certificates.
//! * `webhooks`: signatures of webhooks, made and checked.

pub mod model;
mod operations;
pub use model::*;
pub use operations::{Family, Method, OPERATIONS, Operation, Replay};

#[cfg(feature = "client")]
mod call;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod clock;
#[cfg(feature = "client")]
mod credentials;
#[cfg(feature = "client")]
mod error;
#[cfg(feature = "client")]
mod feed;
#[cfg(feature = "client")]
mod form;
#[cfg(feature = "client")]
#[doc(hidden)]
pub mod internal;
#[cfg(feature = "client")]
mod key;
#[cfg(feature = "client")]
pub mod ops;
#[cfg(feature = "client")]
mod page;
#[cfg(feature = "client")]
mod retry;
#[cfg(feature = "client")]
mod retry_after;
#[cfg(feature = "client")]
mod sse;
#[cfg(feature = "client")]
mod transport;
#[cfg(feature = "client")]
mod wait;
#[cfg(feature = "webhooks")]
pub mod webhook;
#[cfg(feature = "client")]
mod worker;

#[cfg(feature = "client")]
pub use call::Call;
#[cfg(feature = "client")]
pub use client::{Client, ClientBuilder};
#[cfg(feature = "client")]
pub use credentials::{read_token, save_token};
#[cfg(feature = "client")]
pub use error::{ApiError, Error, ErrorKind, InvalidInput};
#[cfg(feature = "client")]
pub use feed::EventStream;
#[cfg(feature = "client")]
pub use key::{Key, KeyError};
#[cfg(feature = "client")]
pub use ops::DirectoryInput;
#[cfg(feature = "client")]
pub use page::PageStream;
#[cfg(feature = "client")]
pub use reqwest;
#[cfg(feature = "client")]
pub use secrecy::{ExposeSecret, SecretString};
#[cfg(feature = "client")]
pub use tokio_util::sync::CancellationToken;
#[cfg(feature = "client")]
pub use wait::Wait;
#[cfg(feature = "client")]
pub use worker::{Handling, Leased, RunOptions, RunStatus, UndecodableDelivery};
