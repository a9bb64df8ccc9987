//! The only file that speaks HTTP: attempts, deadlines, bounds, and what an answer means.
//!
//! What may be sent again stands in `retry.rs`; what is sent in `call.rs`.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, DATE, ETAG, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use reqwest::redirect::Policy;
use reqwest::{Response, Url};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::call::{Decode, Outgoing};
use crate::client::{Client, common_headers};
use crate::clock;
use crate::error::{ApiError, Cause, Chain, ConfigurationFault, DecodeFault, Error};
use crate::model::{ErrorCode, MAX_ATTACHMENT_BYTES};
use crate::ops::Method;
use crate::retry::{self, Fault};
use crate::retry_after;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const PREFER: HeaderName = HeaderName::from_static("prefer");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const AGENT: &str = concat!("beepgrid-rust/", env!("CARGO_PKG_VERSION"));

/// An error answer is two short texts; more than this is somebody else's page.
const MAX_ERROR_BYTES: u64 = 64 * 1024;
/// What is reserved before the first byte, whatever length is announced.
const FIRST_RESERVE: u64 = 64 * 1024;

/// Sends the call, as often as its replay rule allows, and reads its result.
pub(crate) async fn perform<T>(client: &Client, out: Outgoing, decode: Decode<T>) -> Result<T, Error> {
    let reached = Reached::default();
    let result = match tokio::time::timeout(out.timeout, attempts(client, &out, &reached)).await {
        Ok(result) => result,
        Err(_) => Err(Cause::Deadline(out.timeout)),
    };
    let fault = match result {
        Ok(body) => match decode(&body) {
            Ok(value) => return Ok(value),
            Err(error) => Cause::Decode(decode_fault(&out, error)),
        },
        Err(cause) => cause,
    };
    let unknown = out.operation.is_write() && is_outcome_unknown(&fault, &reached);
    Err(Error::new(out.operation.name, out.key, unknown, fault))
}

/// Whether a request may have reached the engine. A connection that never stood takes its own attempt back, not an earlier one.
#[derive(Default)]
struct Reached(AtomicBool);

fn is_outcome_unknown(cause: &Cause, reached: &Reached) -> bool {
    match cause {
        // A 2xx that can't be read: it happened, its result is not known here.
        Cause::Decode(_) => true,
        Cause::Connect(_) | Cause::Transport(_) | Cause::CutOff(_) | Cause::Deadline(_) => reached.0.load(Ordering::Relaxed),
        // A server error may come after the effect (a proxy's 502). A failed provider is known to have sent nothing.
        Cause::Api(api) => api.status >= 500 && !matches!(api.code, ErrorCode::ProviderFailed | ErrorCode::ProviderTimeout),
        Cause::Input(_)
        | Cause::File { .. }
        | Cause::Configuration(_)
        | Cause::Redirect(_)
        | Cause::Handler(_)
        | Cause::RepeatedCursor => false,
    }
}

async fn attempts(client: &Client, out: &Outgoing, reached: &Reached) -> Result<Bytes, Cause> {
    let mut sent = 0;
    loop {
        sent += 1;
        let before = reached.0.swap(true, Ordering::Relaxed);
        let cause = match attempt(client, out).await {
            Ok(body) => return Ok(body),
            Err(cause) => cause,
        };
        let fault = match &cause {
            Cause::Connect(_) => {
                reached.0.store(before, Ordering::Relaxed);
                Fault::Transport
            }
            Cause::Transport(_) => Fault::Transport,
            Cause::CutOff(_) => Fault::CutOff,
            _ => Fault::Answer,
        };
        if !retry::may_resend(out.operation.replay, fault, sent) {
            return Err(cause);
        }
        let delay = client.settings().attempts.after(sent - 1);
        if let Cause::Connect(source) | Cause::Transport(source) | Cause::CutOff(source) = &cause {
            tracing::debug!(op = out.operation.name, sent, ?delay, "sending again after: {}", Chain(source));
        }
        tokio::time::sleep(delay).await;
    }
}

async fn attempt(client: &Client, out: &Outgoing) -> Result<Bytes, Cause> {
    let response = respond(client, build(client, out)?).await?;
    if !out.file {
        return read(response, client.settings().max_response_bytes).await;
    }
    let digest = text(response.headers(), &ETAG).and_then(file_digest);
    let body = read(response, MAX_ATTACHMENT_BYTES as u64).await?;
    if digest.is_some_and(|expected| expected == hex(&Sha256::digest(&body))) {
        Ok(body)
    } else {
        Err(Cause::Decode(DecodeFault::Digest))
    }
}

/// The digest that an entity tag of a file is; a proxy may have marked it as weak.
fn file_digest(tag: &str) -> Option<String> {
    let digest = tag.trim().trim_start_matches("W/").trim_matches('"').to_ascii_lowercase();
    (digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(digest)
}

fn hex(digest: &[u8]) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::with_capacity(2 * digest.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a String takes everything
        text
    })
}

/// The body of a stream, as it comes. Sent once; the call's timeout is for the head of the answer alone.
pub(crate) async fn open(client: &Client, out: &Outgoing, media_type: &'static str) -> Result<Response, Error> {
    let opened = async {
        let mut request = build(client, out)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(media_type));
        let response = respond(client, request).await?;
        let given = text(response.headers(), &CONTENT_TYPE).and_then(|given| given.split(';').next()).unwrap_or_default();
        if given.trim().eq_ignore_ascii_case(media_type) { Ok(response) } else { Err(Cause::Decode(DecodeFault::NotAStream)) }
    };
    let opened = tokio::time::timeout(out.timeout, opened).await.unwrap_or(Err(Cause::Deadline(out.timeout)));
    opened.map_err(|cause| Error::new(out.operation.name, None, false, cause))
}

/// The head of a successful answer.
async fn respond(client: &Client, request: reqwest::Request) -> Result<Response, Cause> {
    let response = client.http().execute(request).await.map_err(|error| {
        let error = error.without_url();
        if error.is_connect() { Cause::Connect(error) } else { Cause::Transport(error) }
    })?;
    let status = response.status();
    if status.is_redirection() {
        return Err(Cause::Redirect(status.as_u16()));
    }
    if !status.is_success() {
        return Err(Cause::Api(api_error(response).await));
    }
    Ok(response)
}

/// The request as HTTP. Pure, and the same for every attempt.
pub(crate) fn build(client: &Client, out: &Outgoing) -> Result<reqwest::Request, Cause> {
    let wrong = || Cause::Input(crate::error::InvalidInput::new("path", "does not make a URL"));
    let mut url = Url::parse(&format!("{}{}", client.url(), out.path)).map_err(|_| wrong())?;
    if !out.query.is_empty() {
        url.query_pairs_mut().extend_pairs(out.query.iter().map(|(name, value)| (*name, value)));
    }
    let method = match out.method {
        Method::Get => reqwest::Method::GET,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Patch => reqwest::Method::PATCH,
        Method::Delete => reqwest::Method::DELETE,
    };
    let mut headers = common_headers(client);
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    if let Some(key) = &out.key {
        headers.insert(IDEMPOTENCY_KEY, HeaderValue::try_from(key.as_str()).map_err(|_| wrong())?);
    }
    if out.minimal {
        headers.insert(PREFER, HeaderValue::from_static("return=minimal"));
    }
    let mut request = reqwest::Request::new(method, url);
    if let Some(body) = &out.body {
        let content_type = match &out.content_type {
            Some(content_type) => HeaderValue::try_from(content_type).map_err(|_| wrong())?,
            None => HeaderValue::from_static("application/json"),
        };
        headers.insert(CONTENT_TYPE, content_type);
        *request.body_mut() = Some(body.clone().into());
    }
    *request.headers_mut() = headers;
    Ok(request)
}

/// The whole body, if it stays within `limit`.
async fn read(mut response: Response, limit: u64) -> Result<Bytes, Cause> {
    let announced = response.content_length().unwrap_or(0);
    if announced > limit {
        return Err(Cause::Decode(DecodeFault::TooLarge { limit }));
    }
    let reserve = usize::try_from(announced.min(FIRST_RESERVE)).unwrap_or(0);
    let mut body = Vec::with_capacity(reserve);
    while let Some(chunk) = response.chunk().await.map_err(|error| Cause::CutOff(error.without_url()))? {
        if (body.len() as u64).saturating_add(chunk.len() as u64) > limit {
            return Err(Cause::Decode(DecodeFault::TooLarge { limit }));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.into())
}

#[derive(Deserialize)]
struct ErrorBody {
    code: String,
    #[serde(default)]
    message: String,
}

/// What an error answer says. Its status stands even if its body is cut off, too large or not ours.
async fn api_error(response: Response) -> ApiError {
    let status = response.status().as_u16();
    let request_id = text(response.headers(), &X_REQUEST_ID).filter(|id| id.len() <= 200).map(str::to_owned);
    let retry_after = retry_after_of(response.headers());
    let body = read(response, MAX_ERROR_BYTES).await.ok().and_then(|body| serde_json::from_slice::<ErrorBody>(&body).ok());
    let (code, message) = match body {
        Some(body) => (ErrorCode::from(body.code.as_str()), body.message),
        None => {
            (ErrorCode::Other(String::new()), "the answer has no error code; it may come from something in between".to_owned())
        }
    };
    ApiError { code, message, status, request_id, retry_after }
}

/// A date in `Retry-After` is measured against the answer's own `Date`, so that a wrong clock here changes nothing.
fn retry_after_of(headers: &HeaderMap) -> Option<std::time::Duration> {
    let asked = text(headers, &RETRY_AFTER)?;
    let here = clock::now();
    let there = text(headers, &DATE).and_then(|date| retry_after::date(date, here));
    retry_after::parse(asked, there.unwrap_or(here))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn decode_fault(out: &Outgoing, error: serde_json::Error) -> DecodeFault {
    if out.operation.answers_with_secret() {
        return DecodeFault::Secret { line: error.line(), column: error.column() };
    }
    DecodeFault::Json(error)
}

/// Our own HTTP client. A loopback engine is never reached through a proxy: that would carry the token elsewhere in plain text.
pub(crate) fn http_client(tls: bool, loopback: bool) -> Result<reqwest::ClientBuilder, ConfigurationFault> {
    let builder = with_tls(reqwest::Client::builder(), tls)?;
    Ok(if loopback { builder.no_proxy() } else { builder })
}

/// Follows no redirect, since the token belongs to one address, and repeats nothing behind our back.
pub(crate) fn one_address_one_try(builder: reqwest::ClientBuilder) -> reqwest::Result<reqwest::Client> {
    builder.redirect(Policy::none()).retry(reqwest::retry::never()).referer(false).build()
}

/// Our own rustls settings. Without TLS there are no roots at all: nothing could be trusted by accident, and the HTTP library, which
/// would panic without a crypto provider, gets one.
#[cfg(feature = "rustls")]
fn with_tls(builder: reqwest::ClientBuilder, tls: bool) -> Result<reqwest::ClientBuilder, ConfigurationFault> {
    use rustls_platform_verifier::BuilderVerifierExt as _;

    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let versions = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(ConfigurationFault::Tls)?;
    let verified = if tls {
        versions.with_platform_verifier().map_err(ConfigurationFault::Tls)?
    } else {
        versions.with_root_certificates(rustls::RootCertStore::empty())
    };
    let mut config = verified.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(builder.tls_backend_preconfigured(config))
}

#[cfg(not(feature = "rustls"))]
fn with_tls(builder: reqwest::ClientBuilder, tls: bool) -> Result<reqwest::ClientBuilder, ConfigurationFault> {
    if tls {
        return Err(ConfigurationFault::BaseUrl(
            "is https, and this build has no TLS; turn on the feature `rustls` of `beepgrid`",
        ));
    }
    Ok(builder)
}
