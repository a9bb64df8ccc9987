//! Routes, layers and what answers when no route does.

mod access;
mod answer;
mod answers;
mod caller;
mod channels;
mod chats;
mod coordinator;
mod error;
mod events;
mod executions;
mod extract;
mod files;
mod identity;
mod json;
mod messages;
mod multipart;
mod openapi;
mod previews;
mod queries;
mod requests;
mod setup;
mod sse;
mod workers;

use std::any::Any;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use beepgrid::ErrorCode;
use serde_json::json;
use tower_http::catch_panic::CatchPanicLayer;
use uuid::Uuid;

use self::error::PrivateReason;
#[cfg(feature = "cli")]
pub use self::json::json_problem;
use crate::core::Core;
use crate::service::Refusal;

const REQUEST_ID: &str = "x-request-id";

/// Everything that the engine answers.
pub(crate) fn router(core: Core) -> Router {
    let api = Router::new()
        .merge(setup::routes())
        .merge(identity::routes())
        .merge(access::routes())
        .merge(channels::routes())
        .merge(queries::routes())
        .merge(messages::routes())
        .merge(files::routes())
        .merge(chats::routes())
        .merge(coordinator::routes())
        .merge(previews::routes())
        .merge(requests::routes())
        .merge(executions::routes())
        .merge(answers::routes())
        .merge(workers::routes())
        .merge(events::routes())
        .merge(openapi::routes());
    Router::new()
        .nest("/api/v1", api)
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(|| async { error::answer(&ErrorCode::NotFound, "no such path; the API is under /api/v1") })
        .method_not_allowed_fallback(|| async {
            error::answer(&ErrorCode::MethodNotAllowed, "this path exists, but not with this method")
        })
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn(request_id))
        .with_state(core)
}

async fn healthz() -> Json<serde_json::Value> {
    Json(json!({ "status": "ok" }))
}

/// Whether the store can be written at the moment.
async fn readyz(State(core): State<Core>) -> Response {
    match core.store().write(crate::store::probe).await {
        Ok(()) => Json(json!({ "status": "ready" })).into_response(),
        Err(refusal) => {
            let mut response = Refusal::Unavailable { reason: format!("not ready: {refusal:?}") }.into_response();
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the layer hands the panic over")]
fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
    Refusal::internal(format!("a handler panicked: {}", text.unwrap_or_default())).into_response()
}

/// Gives every answer a request id, and the log the private reason of a failure under the same id.
async fn request_id(request: Request, next: Next) -> Response {
    let given = request.headers().get(REQUEST_ID).filter(|id| is_sane(id.as_bytes())).cloned();
    let id = given.unwrap_or_else(|| {
        // Hexadecimal digits are a valid header value.
        HeaderValue::from_str(&Uuid::now_v7().simple().to_string()).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
    });
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut response = next.run(request).await;
    if let Some(PrivateReason(reason)) = response.extensions().get::<PrivateReason>() {
        tracing::error!(request_id = ?id, %method, path, status = response.status().as_u16(), reason, "request failed");
    }
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

fn is_sane(id: &[u8]) -> bool {
    (1..=128).contains(&id.len()) && id.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
}
