//! Who may use the admin listener.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};

use super::error::AdminError;
use crate::app::App;
use crate::bearer;

/// Asks for a token, if any is configured.
pub(super) async fn token(State(app): State<App>, request: Request, next: Next) -> Response {
    if bearer::opens(&app.config.admin.tokens, request.headers()) {
        return next.run(request).await;
    }
    let error = "a token is needed; send authorization: Bearer and one of `admin.tokens`";
    let mut response = AdminError::new(StatusCode::UNAUTHORIZED, error).into_response();
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
    AdminError::new(StatusCode::FORBIDDEN, error).into_response()
}

/// Whether a request names this machine as its host, as far as it says.
pub(crate) fn is_local(uri: &Uri, headers: &HeaderMap) -> bool {
    let host = match (uri.host(), headers.get(header::HOST)) {
        (Some(host), _) => host.to_owned(),
        (None, Some(host)) => match host.to_str().ok().and_then(|host| host.parse::<Uri>().ok()) {
            Some(uri) => uri.host().unwrap_or_default().to_owned(),
            None => return false,
        },
        // No browser leaves it out.
        (None, None) => return true,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn a_strangers_host_name_is_not_local() {
        let ask = |value| is_local(&Uri::from_static("/v1/loads"), &headers(header::HOST, value));
        for good in ["localhost", "LOCALHOST:9090", "127.0.0.1:9090", "[::1]:9090", "127.8.8.8"] {
            assert!(ask(good), "{good}");
        }
        for bad in ["evil.example", "evil.example:9090", "127.0.0.1.evil.example", "10.0.0.1", ""] {
            assert!(!ask(bad), "{bad}");
        }
        assert!(!is_local(&Uri::from_static("http://evil.example/"), &HeaderMap::new()));
    }
}
