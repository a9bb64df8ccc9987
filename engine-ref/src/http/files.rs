//! Files over HTTP.

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use beepgrid::{Attachment, AttachmentId, ConversationId, Permission};

use super::extract::{NoKey, PathId};
use super::multipart;
use crate::core::Core;
use crate::service::actor::{Caller, Need};
use crate::service::{Refusal, files, uploads};

/// The routes of this family.
pub(super) fn routes() -> Router<Core> {
    Router::new()
        .route("/attachments", post(stage_attachment))
        .route("/attachments/{id}", get(attachment))
        .route("/attachments/{id}/content", get(download_attachment))
        .route("/conversations/{id}/attachments", get(attachments).post(upload_attachment))
}

type Stored = (StatusCode, Json<Attachment>);

async fn stage_attachment(caller: Caller, State(core): State<Core>, _: NoKey, request: Request) -> Result<Stored, Refusal> {
    let file = multipart::receive(request).await?;
    let stored = uploads::store(&core, &caller, None, file).await?;
    Ok((StatusCode::CREATED, Json(stored)))
}

async fn upload_attachment(
    caller: Caller,
    State(core): State<Core>,
    PathId(id): PathId,
    _: NoKey,
    request: Request,
) -> Result<Stored, Refusal> {
    let file = multipart::receive(request).await?;
    let stored = uploads::store(&core, &caller, Some(ConversationId::new(id)), file).await?;
    Ok((StatusCode::CREATED, Json(stored)))
}

async fn attachments(caller: Caller, State(core): State<Core>, PathId(id): PathId) -> Result<Response, Refusal> {
    let id = ConversationId::new(id);
    let (list, more) = core.read(&caller, Need::Ceiling(Permission::Read), move |tx, actor| files::list(tx, actor, &id)).await?;
    let mut response = Json(list).into_response();
    if more {
        response.headers_mut().insert("x-more", HeaderValue::from_static("true"));
    }
    Ok(response)
}

async fn attachment(caller: Caller, State(core): State<Core>, PathId(id): PathId) -> Result<Json<Attachment>, Refusal> {
    let id = AttachmentId::new(id);
    core.read(&caller, Need::Ceiling(Permission::Read), move |tx, actor| files::get(tx, actor, &id)).await.map(Json)
}

async fn download_attachment(caller: Caller, State(core): State<Core>, PathId(id): PathId) -> Result<Response, Refusal> {
    let (row, bytes) = uploads::load(&core, &caller, AttachmentId::new(id)).await?;
    let headers = [
        (CONTENT_TYPE, header(&row.media_type)?),
        (CONTENT_DISPOSITION, header(&disposition(&row.file_name))?),
        (ETAG, header(&format!("\"{}\"", row.sha256))?),
        // Never shown by a browser as a page of this origin, nor kept by anything in between.
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox")),
        (CACHE_CONTROL, HeaderValue::from_static("private, no-store")),
    ];
    Ok((headers, bytes).into_response())
}

fn header(text: &str) -> Result<HeaderValue, Refusal> {
    HeaderValue::from_str(text).map_err(|_| Refusal::internal("a stored name or type of a file does not fit into a header"))
}

/// To be saved under this name: in ASCII for those that know no better, and encoded (RFC 8187) for the others.
fn disposition(name: &str) -> String {
    use std::fmt::Write;
    let plain = |c: char| if c.is_ascii_graphic() && !"\"\\%".contains(c) || c == ' ' { c } else { '_' };
    let ascii: String = name.chars().map(plain).collect();
    let mut text = format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''");
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}"); // a String takes everything
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gets_into_its_header_whole_and_alone() {
        assert_eq!(disposition("a b.txt"), "attachment; filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt");
        assert_eq!(
            disposition("\"ж\"\r\nX: y%"),
            "attachment; filename=\"_____X: y_\"; filename*=UTF-8''%22%D0%B6%22%0D%0AX%3A%20y%25"
        );
        assert!(header(&disposition("\u{1F4CA}\"\\\r\n\0")).is_ok());
    }
}
