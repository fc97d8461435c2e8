//! JSON as it is answered: for people at a terminal as much as for programs.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

/// An answer's body, indented, with a line's end after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let mut text = match serde_json::to_vec_pretty(&self.0) {
            Ok(text) => text,
            Err(error) => {
                // Only a bug of ours leads here.
                tracing::error!(%error, "an answer can't be written as JSON");
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            }
        };
        text.push(b'\n');
        let mut response = Response::new(text.into());
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}
