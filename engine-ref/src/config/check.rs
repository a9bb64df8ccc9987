//! What each setting may be. A problem says what is wrong and never repeats a secret.

use std::net::SocketAddr;
use std::path::PathBuf;

use axum::http::Uri;
use secrecy::{ExposeSecret, SecretString};

use super::{Attachments, DatabaseUrl, LogFormat};

/// A bootstrap token has at least this many characters.
const MIN_TOKEN_CHARS: usize = 32;
/// The longest name of a workspace, an environment or a model, in code points.
const MAX_NAME_CHARS: usize = 200;
/// The longest schema name.
const MAX_SCHEMA_CHARS: usize = 40;

pub(super) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    // `localhost` would need a resolver, which could say anything.
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    numeric.as_deref().unwrap_or(text).parse().map_err(|_| "is an address and a port, such as 127.0.0.1:4010 or [::1]:4010")
}

pub(super) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

pub(super) fn loopback(text: &str) -> Result<SocketAddr, &'static str> {
    let address = address(text)?;
    if is_loopback(address) { Ok(address) } else { Err("is not a loopback address") }
}

/// Scheme and host, perhaps a port: nothing else belongs to an origin.
pub(super) fn origin(text: &str) -> Result<String, &'static str> {
    let uri = http(text)?;
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() || text.contains('#') {
        return Err("is only scheme, host and port, such as https://beepgrid.example");
    }
    Ok(text.trim_end_matches('/').to_owned())
}

pub(super) fn provider_url(text: &str) -> Result<String, &'static str> {
    let uri = http(text)?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
    // The provider's key goes there.
    if uri.scheme_str() == Some("https") || local { Ok(text.to_owned()) } else { Err("needs https, except on this machine") }
}

fn http(text: &str) -> Result<Uri, &'static str> {
    const WRONG: &str = "is not an http or https URL with a host";
    let uri: Uri = text.parse().map_err(|_| WRONG)?;
    let authority = uri.authority().ok_or(WRONG)?.as_str();
    if authority.contains('@') {
        return Err("must not hold a user name");
    }
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        return Err(WRONG);
    }
    Ok(uri)
}

pub(super) fn database(text: &str, schema: String) -> Result<DatabaseUrl, &'static str> {
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        if cfg!(not(feature = "postgres")) {
            return Err("this build knows SQLite only; the feature `postgres` was left out");
        }
        return Ok(DatabaseUrl::Postgres { url: SecretString::from(text), schema });
    }
    let Some(path) = text.strip_prefix("sqlite:") else {
        return Err("is sqlite:PATH or postgres://…");
    };
    match path {
        "" => Err("lacks the path after `sqlite:`"),
        ":memory:" => Err("is a file: an engine that forgets everything is for tests, through the library"),
        // Read as a URL this is a host, read as a path it is absolute: never what was meant.
        _ if path.starts_with("//") && !path.starts_with("///") => Err("is sqlite:PATH, without slashes before a relative path"),
        _ => Ok(DatabaseUrl::Sqlite(PathBuf::from(path))),
    }
}

/// Whether a PostgreSQL URL holds a password, in either place where one can stand.
pub(super) fn has_password(url: &SecretString) -> bool {
    let rest = url.expose_secret().split_once("://").map_or("", |(_, rest)| rest);
    let (before_query, query) = rest.split_once('?').unwrap_or((rest, ""));
    let user = before_query.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || query.split('&').any(|part| part.starts_with("password="))
}

pub(super) fn schema(text: &str) -> Result<String, &'static str> {
    let right = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.starts_with("pg_")
        && (1..=MAX_SCHEMA_CHARS).contains(&text.len());
    if right { Ok(text.to_owned()) } else { Err("is a to z, 0 to 9 and _, no digit first, at most 40 characters, not pg_ first") }
}

pub(super) fn name(text: &str) -> Result<String, &'static str> {
    let name = text.trim();
    match name.chars().count() {
        1..=MAX_NAME_CHARS if !name.chars().any(char::is_control) => Ok(name.to_owned()),
        _ => Err("has 1 to 200 characters without line ends and control characters"),
    }
}

pub(super) fn bootstrap_token(text: &str) -> Result<SecretString, &'static str> {
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("may have printable ASCII without spaces only");
    }
    if text.len() < MIN_TOKEN_CHARS {
        return Err("needs at least 32 characters, as `openssl rand -hex 32` makes them");
    }
    Ok(SecretString::from(text))
}

pub(super) fn secret_key(text: &str) -> Result<[u8; 32], &'static str> {
    const WRONG: &str = "is 32 bytes in hexadecimal: 64 digits, as `openssl rand -hex 32` makes them";
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return Err(WRONG);
    }
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        // A sign would be accepted by the number parser.
        let pair =
            std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit())).ok_or(WRONG)?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| WRONG)?;
    }
    Ok(key)
}

#[expect(clippy::unnecessary_wraps, reason = "one of the checks, and any path may be a folder")]
pub(super) fn attachments(text: &str) -> Result<Attachments, &'static str> {
    Ok(if text == "database" { Attachments::Database } else { Attachments::Folder(PathBuf::from(text)) })
}

pub(super) fn provider(text: &str) -> Result<String, &'static str> {
    if matches!(text, "deepseek" | "openai" | "compatible") {
        Ok(text.to_owned())
    } else {
        Err("is deepseek, openai or compatible")
    }
}

/// The file must be usable now: a key that can't be read is found at start, not at the first plan.
pub(super) fn key_file(text: &str) -> Result<PathBuf, String> {
    match beepgrid::read_token(text) {
        Ok(_) => Ok(PathBuf::from(text)),
        Err(error) => Err(reason(&error)),
    }
}

/// The innermost cause, which names the file and the reason and never the content.
fn reason(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), reason)
}

pub(super) fn log(text: &str) -> Result<String, String> {
    let parsed = tracing_subscriber::EnvFilter::builder().parse(text);
    parsed
        .map(|_| text.to_owned())
        .map_err(|error| format!("is no filter such as `info` or `warn,beepgrid_engine_ref=debug`: {error}"))
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, &'static str> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("is text or json"),
    }
}
