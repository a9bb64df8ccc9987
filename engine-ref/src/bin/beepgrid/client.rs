//! Whose credential a command uses.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use beepgrid::Client;
use beepgrid::reqwest::Url;

use crate::failure::Refused;

const URL: &str = "BEEPGRID_URL";
const TOKEN: &str = "BEEPGRID_TOKEN";
const TOKEN_FILE: &str = "BEEPGRID_TOKEN_FILE";
/// What `serve --dev` makes in its working directory.
const OWNER_FILE: &str = ".local/owner-token";

/// The client of an operator's command: where no credential is chosen, the owner of the engine that `serve --dev` runs from here.
pub(crate) fn operator() -> anyhow::Result<Client> {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if set(TOKEN) || set(TOKEN_FILE) || Path::new(OWNER_FILE).symlink_metadata().is_err() {
        return Ok(Client::from_env()?);
    }
    // The owner of a local engine is nobody elsewhere, and its token no other machine's business.
    let url = std::env::var(URL).unwrap_or_default();
    if !url.is_empty() && !is_local(&url) {
        let problem =
            format!("{URL} is another machine: choose a credential with {TOKEN_FILE} (the owner's token here is not sent there)");
        return Err(Refused::input("invalid_input", problem).into());
    }
    let file = std::fs::canonicalize(OWNER_FILE).unwrap_or_else(|_| PathBuf::from(OWNER_FILE));
    let lookup = |name: &str| if name == TOKEN_FILE { Some(file.clone().into_os_string()) } else { std::env::var_os(name) };
    Client::from_lookup(lookup).context("with the owner's token")
}

fn is_local(url: &str) -> bool {
    let Ok(url) = url.parse::<Url>() else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host.parse::<IpAddr>().map_or(host == "localhost", |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn only_this_machine_is_local() {
        for local in ["http://localhost:4010", "http://127.0.0.1:1", "http://[::1]:4010/", "https://localhost"] {
            assert!(is_local(local), "{local}");
        }
        for other in
            ["https://beepgrid.example", "http://localhost.example", "http://10.0.0.1", "nonsense", "http://127.0.0.1.example"]
        {
            assert!(!is_local(other), "{other}");
        }
    }
}
