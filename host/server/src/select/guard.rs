//! Who may use the selection service: as on the admin listener, by tokens of its own.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use super::front::Front;
use crate::bearer;
use crate::rest::{RestError, is_local};

/// Asks for a token, if any is configured.
pub(super) async fn token(State(front): State<Front>, request: Request, next: Next) -> Response {
    if bearer::opens(&front.config.listener.tokens, request.headers()) {
        return next.run(request).await;
    }
    let error = "a token is needed; send authorization: Bearer and one of `select.tokens`";
    let mut response = RestError::new(StatusCode::UNAUTHORIZED, error).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Without tokens, the listener trusts whoever is on this machine, but no page in a browser there.
pub(super) async fn host(State(front): State<Front>, request: Request, next: Next) -> Response {
    let open =
        !front.config.listener.tokens.is_empty() || is_local(request.uri(), request.headers());
    if open {
        return next.run(request).await;
    }
    let error = "without tokens, only a loopback address or `localhost` may stand in Host; \
                 use one of these, or set `select.tokens`";
    RestError::new(StatusCode::FORBIDDEN, error).into_response()
}
