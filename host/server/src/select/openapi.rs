//! The document by which programs know this service.

use axum::response::{IntoResponse, Response};
use http::header;

/// As it is served. A test holds it to the routes and to what is answered.
pub(super) const TEXT: &str = include_str!("openapi.json");

/// Serves it.
pub(super) async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], TEXT).into_response()
}
