//! Signed webhooks, by the Standard Webhooks scheme: a signature is made and checked over the bytes that travel.
//!
//! ```
//! # use beepgrid::Timestamp;
//! use beepgrid::webhook::WebhookSecret;
//!
//! let secret: WebhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?;
//! let (id, body) = ("dlv_1", br#"{"text":"The build is red."}"#);
//! // The sender's three headers.
//! let now: Timestamp = "2026-11-30T09:00:00Z".parse()?;
//! let signed = secret.sign(id, body, now);
//! // The receiver takes the body as it came, before anything parses it.
//! secret.verify(id, &signed.timestamp, &signed.signature, body, now)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice};
use sha2::Sha256;

use crate::model::Timestamp;

/// The header with the message's id: the same at every attempt, so that a receiver can tell a repetition.
pub const ID_HEADER: &str = "webhook-id";
/// The header with the time of the attempt, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// The header with the signatures, separated by spaces.
pub const SIGNATURE_HEADER: &str = "webhook-signature";
/// How far the time of a signature may be from the receiver's, either way.
pub const TOLERANCE: Duration = Duration::from_secs(5 * 60);

const VERSION: &str = "v1,";

/// Why a webhook is not taken for genuine, or a secret not for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// Behind `whsec_` there is no base64, or nothing at all.
    #[error("the secret is `whsec_` and base64, or any other text that is not empty")]
    Secret,
    /// The time is no number of seconds, or not within the tolerance of the receiver's.
    #[error("the time of the signature is missing, unreadable, or more than five minutes away")]
    Time,
    /// No signature of a known version fits.
    #[error(
        "no signature fits these bytes; it is made over the body as it travelled, so check it before anything parses the body"
    )]
    Signature,
}

/// The secret that sender and receiver share. `Debug` does not show it.
#[derive(Clone, Debug)]
pub struct WebhookSecret(SecretSlice<u8>);

/// What goes into the headers of one attempt besides its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// [`TIMESTAMP_HEADER`].
    pub timestamp: String,
    /// [`SIGNATURE_HEADER`].
    pub signature: String,
}

impl std::str::FromStr for WebhookSecret {
    type Err = WebhookError;

    /// `whsec_` and base64 as the scheme writes it; any other text stands for its own bytes.
    fn from_str(text: &str) -> Result<Self, WebhookError> {
        match text.strip_prefix("whsec_") {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| WebhookError::Secret).and_then(Self::from_bytes),
            None => Self::from_bytes(text.as_bytes().to_vec()),
        }
    }
}

impl WebhookSecret {
    /// A secret by its bytes.
    ///
    /// # Errors
    /// [`WebhookError::Secret`] when there are none.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, WebhookError> {
        if bytes.is_empty() { Err(WebhookError::Secret) } else { Ok(Self(bytes.into())) }
    }

    /// The bytes of the secret, to keep them.
    pub fn expose_bytes(&self) -> &[u8] {
        self.0.expose_secret()
    }

    /// Signs one attempt at `now`. A further attempt has the same id and body, and a fresh time and signature.
    pub fn sign(&self, id: &str, body: &[u8], now: Timestamp) -> Signed {
        let timestamp = now.as_micros().div_euclid(1_000_000).to_string();
        let digest = self.mac(id, &timestamp, body).finalize().into_bytes();
        Signed { signature: format!("{VERSION}{}", STANDARD.encode(digest)), timestamp }
    }

    /// Checks what came with the three headers, in constant time. One fitting signature is enough: senders that change their secret
    /// send several.
    ///
    /// # Errors
    /// [`WebhookError::Time`] for one that is too old, and so perhaps a repetition, or from the future; [`WebhookError::Signature`]
    /// when nothing fits.
    pub fn verify(&self, id: &str, timestamp: &str, signatures: &str, body: &[u8], now: Timestamp) -> Result<(), WebhookError> {
        let plain = !timestamp.is_empty() && timestamp.len() <= 16 && timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let seconds: i64 = timestamp.parse().ok().filter(|_| plain).ok_or(WebhookError::Time)?;
        let at = Timestamp::from_micros(seconds.saturating_mul(1_000_000));
        if now.since(at) > TOLERANCE || at.since(now) > TOLERANCE {
            return Err(WebhookError::Time);
        }
        let mac = self.mac(id, timestamp, body);
        let fits = |signature: &str| {
            let bytes = signature.strip_prefix(VERSION).and_then(|text| STANDARD.decode(text).ok());
            bytes.is_some_and(|bytes| mac.clone().verify_slice(&bytes).is_ok())
        };
        if signatures.split(' ').any(fits) { Ok(()) } else { Err(WebhookError::Signature) }
    }

    #[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.expose_secret()).expect("any length");
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac
    }
}

#[cfg(test)]
mod tests;
