//! Refusals as answers: status, code and a message that is safe to show.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use beepgrid::ErrorCode;
use serde::Serialize;

use crate::service::Refusal;

/// How long a caller waits before it tries a store that was not available.
const UNAVAILABLE_RETRY: Duration = Duration::from_secs(1);

/// How long until somebody may have taken the hold off.
const ON_HOLD_RETRY: Duration = Duration::from_secs(10);

/// How long until a setting may have been made.
const NOT_CONFIGURED_RETRY: Duration = Duration::from_secs(60);

/// The body of every error.
#[derive(Debug, Serialize)]
struct ErrorBody<'e> {
    code: &'e ErrorCode,
    message: &'e str,
}

/// Why it was refused, for the log; never sent.
#[derive(Clone, Debug)]
pub(super) struct PrivateReason(pub(super) String);

/// The status that goes with a code.
pub(super) fn status(code: &ErrorCode) -> StatusCode {
    match code {
        ErrorCode::InvalidRequest | ErrorCode::InvalidCursor => StatusCode::BAD_REQUEST,
        ErrorCode::Unauthorized => StatusCode::UNAUTHORIZED,
        ErrorCode::Forbidden => StatusCode::FORBIDDEN,
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::VersionConflict
        | ErrorCode::RequestClosed
        | ErrorCode::IdempotencyConflict
        | ErrorCode::StaleGeneration
        | ErrorCode::PreviewStale
        | ErrorCode::AttachmentClaimed
        | ErrorCode::ExecutionFinal
        | ErrorCode::NotApproved
        | ErrorCode::ActionMismatch
        | ErrorCode::AlreadyExists
        | ErrorCode::ManagerRequired
        | ErrorCode::LastOperator
        | ErrorCode::NotRenewable => StatusCode::CONFLICT,
        ErrorCode::CursorExpired => StatusCode::GONE,
        ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorCode::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::ProviderFailed => StatusCode::BAD_GATEWAY,
        ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::ProviderTimeout => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// An error answer.
pub(super) fn answer(code: &ErrorCode, message: &str) -> Response {
    (status(code), Json(ErrorBody { code, message })).into_response()
}

fn placed(field: &str, message: &str) -> String {
    if field.is_empty() { message.to_owned() } else { format!("{field}: {message}") }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Invalid { field, message } => answer(&ErrorCode::InvalidRequest, &placed(&field, &message)),
            Self::Unauthorized => answer(&ErrorCode::Unauthorized, "a valid bearer token is required"),
            Self::Forbidden { field, message } => answer(&ErrorCode::Forbidden, &placed(&field, &message)),
            Self::NotFound { field } => answer(&ErrorCode::NotFound, &placed(&field, "not found, or not visible to you")),
            Self::Conflict { code, message } => answer(&code, &message),
            Self::TooLarge { message } => answer(&ErrorCode::TooLarge, &message),
            Self::RateLimited { message, retry_after } => later(answer(&ErrorCode::RateLimited, &message), retry_after),
            Self::Unavailable { reason } => {
                let message = "the engine can't serve this at the moment; nothing was stored";
                reasoned(later(answer(&ErrorCode::Unavailable, message), UNAVAILABLE_RETRY), reason)
            }
            Self::OnHold => {
                let message = "the workspace is on hold after a restore: operators read and manage, nothing else is served";
                later(answer(&ErrorCode::Unavailable, message), ON_HOLD_RETRY)
            }
            Self::NotConfigured { message } => later(answer(&ErrorCode::Unavailable, message), NOT_CONFIGURED_RETRY),
            Self::ProviderFailed { reason } => {
                let message = "the model gave no usable answer; nothing was stored and nothing sent";
                reasoned(answer(&ErrorCode::ProviderFailed, message), reason)
            }
            Self::ProviderTimeout => {
                answer(&ErrorCode::ProviderTimeout, "the model did not answer in time; nothing was stored and nothing sent")
            }
            Self::Internal { reason } => reasoned(
                answer(&ErrorCode::Internal, "an internal error; nothing was stored. The log has it under the request id"),
                reason,
            ),
            Self::OutcomeUnknown => unknown(),
        }
    }
}

fn later(mut response: Response, after: Duration) -> Response {
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
    response
}

fn reasoned(mut response: Response, reason: String) -> Response {
    response.extensions_mut().insert(PrivateReason(reason));
    response
}

/// The commit may or may not have happened and the engine can't find out: the answer is cut off, so that a client treats it
/// like a lost one (it repeats under its key, or reports that the outcome is unknown) and not as a refusal.
fn unknown() -> Response {
    let cut = futures_util::stream::once(async { Err::<bytes::Bytes, _>(std::io::Error::other("the outcome is unknown")) });
    let mut response = Response::new(Body::from_stream(cut));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    reasoned(response, "the outcome of a commit is unknown".to_owned())
}
