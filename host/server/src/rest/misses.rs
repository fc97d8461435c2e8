//! What is answered where a listener has nothing, or not by that method.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, Uri, header};

use super::error::{RestError, clipped};

/// What listeners of this kind take, somewhere.
const ALL: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PATCH, DELETE");

/// Nothing is at a path of `listener`; `remedy` says where to see what there is.
pub(crate) fn nowhere(method: &Method, uri: &Uri, listener: &str, remedy: &str) -> Response {
    // What names no path names nothing that could be missing.
    if method == Method::CONNECT {
        let mut response = not_so(method, uri, listener).into_response();
        response.headers_mut().insert(header::ALLOW, ALL);
        return response;
    }
    let words = format!("nothing is at {}; {remedy}", clipped(uri.path()));
    RestError::new(StatusCode::NOT_FOUND, words).into_response()
}

/// Something is at a path of `listener`, but not for that method.
pub(crate) fn not_so(method: &Method, uri: &Uri, listener: &str) -> RestError {
    let path = clipped(uri.path());
    let place = if path.is_empty() { listener } else { &path };
    let method = clipped(method.as_str());
    RestError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{place} doesn't take {method}; see the Allow header"),
    )
}
