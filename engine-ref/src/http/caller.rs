//! The caller: only this extractor makes one, from a valid bearer token and before the body is read.

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;

use crate::core::Core;
use crate::service::Refusal;
use crate::service::actor::{Caller, TokenDigest};

/// No token that the engine issues is longer.
const MAX_TOKEN_BYTES: usize = 512;

impl FromRequestParts<Core> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, core: &Core) -> Result<Self, Refusal> {
        let mut values = parts.headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return Err(Refusal::Unauthorized) };
        let text = value.to_str().map_err(|_| Refusal::Unauthorized)?;
        let (scheme, token) = text.split_once(' ').ok_or(Refusal::Unauthorized)?;
        if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() || token.len() > MAX_TOKEN_BYTES {
            return Err(Refusal::Unauthorized);
        }
        core.caller(TokenDigest::of(token)).await
    }
}
