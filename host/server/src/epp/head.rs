//! Heads of requests and answers, as Envoy has them and as HTTP does.

use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::core::v3::{HeaderValue as Line, HeaderValueOption};
use envoy_types::pb::envoy::service::ext_proc::v3::HttpHeaders;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http::{request, response};
use tonic::Status;

/// Headers that say where a request goes, or by what. They are the gateway's and the picker's, so that a
/// client's own go no further. The destination itself is one, which is set anew.
pub(super) const ROUTING: [&str; 7] = [
    DESTINATION,
    "x-gateway-destination-endpoint-subset",
    "x-gateway-destination-endpoint-served",
    "x-gateway-inference-fairness-id",
    "x-gateway-inference-objective",
    "x-gateway-model-name-rewrite",
    "x-prefiller-host-port",
];

/// The largest head, in bytes of its names and values: no gateway takes a larger one from a client.
const MOST: usize = 1 << 20;

/// Where a request goes: `ip:port`.
pub(super) const DESTINATION: &str = "x-gateway-destination-endpoint";

/// Heads are held for as long as their requests last.
///
/// # Errors
///
/// This one is too large for that.
pub(super) fn bounded(headers: &HttpHeaders) -> Result<(), Status> {
    let size: usize = lines(headers).map(|line| line.key.len() + value(line).len()).sum();
    if size <= MOST {
        return Ok(());
    }
    Err(Status::resource_exhausted(format!(
        "a head has {size} bytes; let the gateway refuse what has more than {MOST}"
    )))
}

/// A request's head. What is no header, and what only routing may say, is left out.
pub(super) fn request(headers: &HttpHeaders) -> request::Parts {
    let mut head = Request::new(()).into_parts().0;
    for line in lines(headers) {
        match &*line.key {
            ":method" => head.method = Method::from_bytes(value(line)).unwrap_or_default(),
            ":path" => {
                let path = PathAndQuery::try_from(value(line));
                head.uri = path.map_or_else(|_| Uri::from_static("/"), Uri::from);
            }
            name if ROUTING.contains(&name) => {}
            _ => add(&mut head.headers, line),
        }
    }
    head
}

/// An answer's head.
pub(super) fn answer(headers: &HttpHeaders) -> response::Parts {
    let mut head = Response::new(()).into_parts().0;
    for line in lines(headers) {
        match &*line.key {
            // What says nothing that HTTP knows is nothing that went well.
            ":status" => {
                let status = StatusCode::from_bytes(value(line));
                head.status = status.unwrap_or(StatusCode::BAD_GATEWAY);
            }
            _ => add(&mut head.headers, line),
        }
    }
    head
}

fn lines(headers: &HttpHeaders) -> impl Iterator<Item = &Line> {
    headers.headers.iter().flat_map(|map| &map.headers)
}

fn value(line: &Line) -> &[u8] {
    if line.raw_value.is_empty() { line.value.as_bytes() } else { &line.raw_value }
}

fn add(headers: &mut HeaderMap, line: &Line) {
    let name = HeaderName::from_bytes(line.key.as_bytes());
    if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value(line))) {
        // Of more than a map can have, the first: no gateway passes so many on.
        let _ = headers.try_append(name, value);
    }
}

/// The change that sets headers, whatever was there before.
pub(super) fn setting(headers: &HeaderMap) -> Vec<HeaderValueOption> {
    headers.iter().map(|(name, value)| set(name.as_str(), value.as_bytes())).collect()
}

/// The change that sets one header.
pub(super) fn set(name: &str, value: &[u8]) -> HeaderValueOption {
    let header = Line { key: name.to_owned(), value: String::new(), raw_value: value.to_vec() };
    HeaderValueOption {
        header: Some(header),
        append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
        ..HeaderValueOption::default()
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::HeaderMap as Lines;

    use super::*;

    #[test]
    fn more_headers_than_there_can_be_are_no_end_of_anything() {
        let line = |number: usize| Line {
            key: format!("x-{number}"),
            raw_value: b"1".to_vec(),
            ..Line::default()
        };
        let headers = Some(Lines { headers: (0..50_000).map(line).collect() });
        let head = request(&HttpHeaders { headers, ..HttpHeaders::default() });
        assert!(head.headers.contains_key("x-0") && head.headers.len() > 10_000);
    }
}
