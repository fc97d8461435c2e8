//! Whether a request comes from this machine, as far as it says.

use std::net::IpAddr;

use http::{HeaderMap, Uri, header};

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
    use http::HeaderValue;

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
