//! Answers of writes: 201 for what was made now, 200 for a replay and for everything that makes nothing.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::core::Answered;

/// Of an operation that creates: 201, or 200 when it had been done before under the same key.
pub(super) fn created<T: Serialize>(answered: Answered<T>) -> Response {
    let status = if answered.fresh { StatusCode::CREATED } else { StatusCode::OK };
    (status, Json(answered.value)).into_response()
}

/// Of an operation that changes: 200 either way.
pub(super) fn done<T: Serialize>(answered: Answered<T>) -> Response {
    Json(answered.value).into_response()
}
