//! For the other crates of this workspace; no part of the public interface, and free to change in any release.

pub use crate::sse::{Frame, FrameFault, frames};

/// An HTTP client for a program on this machine (or, with `remote`, elsewhere) over plain http: no proxy for this machine, no redirect, no
/// repetition behind the caller's back.
///
/// # Errors
/// What the HTTP library says.
pub fn plain_http(remote: bool) -> Result<reqwest::Client, crate::Error> {
    let fault = |fault| crate::Error::configuration("build", fault);
    let builder = crate::transport::http_client(false, !remote).map_err(fault)?;
    crate::transport::one_address_one_try(builder).map_err(crate::error::ConfigurationFault::Http).map_err(fault)
}
