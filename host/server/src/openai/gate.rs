//! Who may come in: clients with a token, if any is configured, nobody while the router drains,
//! and no more at once than it can open connections for.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::Method;

use super::Front;
use super::error::ApiError;
use super::upstream::hops;
use crate::bearer;
use crate::serve::Beyond;

/// Routers that a request may come through. Two in a row are a usual thing, more are not.
const MOST_HOPS: u32 = 4;

/// Methods that no path takes: the router is no tunnel, and no mirror of what a client's browser adds
/// to a request.
const NOBODYS: [Method; 2] = [Method::CONNECT, Method::TRACE];

pub(super) async fn enter(
    State(front): State<Arc<Front>>,
    request: Request,
    next: Next,
) -> Response {
    match refusal(&front, &request) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }
}

/// Why a request may not come in; none if it may. A refusal is counted.
pub(super) fn refusal<B>(front: &Front, request: &http::Request<B>) -> Option<ApiError> {
    let refusal = if front.app.draining.is_cancelled() {
        ApiError::draining()
    } else if !bearer::opens(&front.app.config.listen.tokens, request.headers()) {
        ApiError::unauthorized()
    } else if request.extensions().get::<Beyond>().is_some() {
        ApiError::too_many()
    } else {
        unfit(front, request)?
    };
    front.app.metrics.request_turned_away("gate", refusal.status.as_str());
    Some(refusal)
}

/// Why no worker may have a request, by whatever door it comes; none if one may.
pub(super) fn unfit<B>(front: &Front, request: &http::Request<B>) -> Option<ApiError> {
    Some(if front.app.draining.is_cancelled() {
        ApiError::draining()
    } else if NOBODYS.contains(request.method()) {
        ApiError::not_for_routers(request.method())
    } else if is_crooked(request.uri().path()) {
        ApiError::crooked_path()
    } else if hops(request.headers()) >= MOST_HOPS {
        ApiError::goes_in_circles()
    } else {
        return None;
    })
}

/// Whether a worker could read the path as another one than the router did: only what is below
/// `/v1/` is a client's to ask a worker for.
fn is_crooked(path: &str) -> bool {
    if !path.contains(['.', '%']) {
        return false;
    }
    let plain = path.to_ascii_lowercase();
    let plain = plain.replace("%2e", ".").replace("%2f", "/").replace("%5c", "\\");
    // Some servers cut parameters (`..;x`) off a segment before they climb.
    let mut names = plain.split(['/', '\\']).map(|segment| segment.split(';').next());
    names.any(|name| matches!(name, Some("." | "..")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_climbs_is_crooked() {
        for bad in ["/v1/../metrics", "/v1/%2e%2E/metrics", "/v1/./x", "/v1/..", "/v1/..;/x"] {
            assert!(is_crooked(bad), "{bad}");
        }
        assert!(is_crooked("/v1/..%2fmetrics") && is_crooked("/v1/x\\..\\y"));
        for good in ["/v1/models", "/v1/a..b", "/v1/models/org%2Fmodel", "/v1/...", "/"] {
            assert!(!is_crooked(good), "{good}");
        }
    }
}
