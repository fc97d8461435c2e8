//! Which headers go on, either way.
//!
//! What concerns one connection only (RFC 9110, section 7.6.1) ends here; everything else passes.

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};

/// The backend's rank, as vLLM reads it.
pub(super) const RANK: HeaderName = HeaderName::from_static("x-data-parallel-rank");
/// A worker's address may lead back to this router, or to another that sends here: each hop is
/// counted, and too many are refused.
const HOPS: HeaderName = HeaderName::from_static("x-pointsman-hops");

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Headers of one hop, whether `Connection` names them or not.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// What a worker gets as `Authorization`.
#[derive(Clone, Debug)]
pub(in crate::openai) enum Authorization {
    /// The token of the configuration, whatever the client sends.
    Worker(HeaderValue),
    /// What the client sends.
    Client,
    /// Nothing.
    None,
}

impl Authorization {
    /// A bearer token. One that can't be sent in a header is as good as none.
    pub(super) fn worker(token: &str) -> Self {
        match HeaderValue::from_str(&format!("Bearer {token}")) {
            Ok(mut value) => {
                value.set_sensitive(true);
                Self::Worker(value)
            }
            Err(_) => Self::None,
        }
    }
}

/// A client's headers as they go to a worker.
pub(in crate::openai) fn request_headers(
    mut headers: HeaderMap,
    authorization: Authorization,
    request_id: &str,
) -> HeaderMap {
    strip(&mut headers);
    // The worker's own name, the body's length as it is sent, and the wait for a word before it
    // are the next hop's.
    for name in [header::HOST, header::CONTENT_LENGTH, header::EXPECT, RANK] {
        headers.remove(name);
    }
    match authorization {
        Authorization::Worker(value) => {
            headers.insert(header::AUTHORIZATION, value);
        }
        Authorization::None => {
            headers.remove(header::AUTHORIZATION);
        }
        Authorization::Client => {
            // One, even if the client sends several.
            if let Some(first) = headers.get(header::AUTHORIZATION).cloned() {
                headers.insert(header::AUTHORIZATION, first);
            }
        }
    }
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(HOPS, HeaderValue::from(hops(&headers).saturating_add(1)));
    headers
}

/// Of those, what the router itself has put there; with the authorization, if that is its own.
pub(in crate::openai) fn ours(headers: &HeaderMap, authorizes: bool) -> HeaderMap {
    let authorization = Some(header::AUTHORIZATION).filter(|_| authorizes);
    let names = [Some(REQUEST_ID), Some(HOPS), authorization].into_iter().flatten();
    names.filter_map(|name| headers.get(&name).cloned().map(|value| (name, value))).collect()
}

/// How many routers like this one a request has come through.
pub(in crate::openai) fn hops(headers: &HeaderMap) -> u32 {
    let given = headers.get(HOPS).and_then(|value| value.to_str().ok());
    given.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A worker's headers as they go to the client.
pub(in crate::openai) fn answer_headers(headers: &mut HeaderMap, request_id: &str) {
    strip(headers);
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, id);
    }
}

/// Takes out what concerns one connection only.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = list
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    fn lines(headers: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or("?")))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn what_concerns_one_connection_ends_here_and_the_rest_goes_on() {
        let given = headers(&[
            ("connection", "close, X-Foo"),
            ("connection", "x-bar"),
            ("x-foo", "1"),
            ("x-bar", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "Basic x"),
            ("proxy-connection", "keep-alive"),
            ("te", "trailers"),
            ("trailer", "x-sum"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("host", "router"),
            ("content-length", "5"),
            ("expect", "100-continue"),
            ("x-data-parallel-rank", "7"),
            ("x-request-id", "theirs"),
            ("traceparent", "00-1-2-01"),
            ("cookie", "a=1"),
            ("accept-encoding", "gzip"),
        ]);
        let sent = request_headers(given, Authorization::Client, "ours");
        assert_eq!(
            lines(&sent),
            [
                "accept-encoding: gzip",
                "cookie: a=1",
                "traceparent: 00-1-2-01",
                "x-pointsman-hops: 1",
                "x-request-id: ours"
            ]
        );
    }

    #[test]
    fn an_answer_keeps_both_cookies_and_its_retry_after() {
        let mut answer = headers(&[
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("retry-after", "3"),
            ("content-length", "5"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("proxy-authenticate", "Basic"),
            ("transfer-encoding", "chunked"),
        ]);
        answer_headers(&mut answer, "r");
        assert_eq!(
            lines(&answer),
            [
                "content-length: 5",
                "retry-after: 3",
                "set-cookie: a=1",
                "set-cookie: b=2",
                "x-request-id: r"
            ]
        );
    }

    #[test]
    fn there_is_one_authorization_and_its_precedence_is_fixed() {
        let given = || headers(&[("authorization", "Bearer c1"), ("authorization", "Bearer c2")]);
        let sent = |authorization| {
            let headers = request_headers(given(), authorization, "r");
            let all = headers.get_all(header::AUTHORIZATION).iter();
            all.map(|value| value.to_str().unwrap_or("?").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(sent(Authorization::worker("w")), ["Bearer w"]);
        assert_eq!(sent(Authorization::Client), ["Bearer c1"]);
        assert!(sent(Authorization::None).is_empty());
    }
}
