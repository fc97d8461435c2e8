//! Who may use the admin listener.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use crate::app::App;
use crate::bearer;
use crate::rest::{RestError, is_local};

/// Asks for a token, if any is configured.
pub(super) async fn token(State(app): State<App>, request: Request, next: Next) -> Response {
    if bearer::opens(&app.config.admin.tokens, request.headers()) {
        return next.run(request).await;
    }
    let error = "a token is needed; send authorization: Bearer and one of `admin.tokens`";
    let mut response = RestError::new(StatusCode::UNAUTHORIZED, error).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Without tokens, the listener trusts whoever is on this machine. A page in a browser on this
/// machine isn't whoever: it can make its own host's name resolve to loopback, but it can't
/// choose what the browser then sends as `Host`.
pub(super) async fn host(State(app): State<App>, request: Request, next: Next) -> Response {
    let admin = &app.config.admin;
    let open = !admin.tokens.is_empty() || is_local(request.uri(), request.headers());
    if open {
        return next.run(request).await;
    }
    let error = "without tokens, only a loopback address or `localhost` may stand in Host; \
                 use one of these, or set `admin.tokens`";
    RestError::new(StatusCode::FORBIDDEN, error).into_response()
}
