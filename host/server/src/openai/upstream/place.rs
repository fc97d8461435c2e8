//! Where a worker is, read once from its endpoint.

use std::io;
use std::time::Duration;

use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Uri};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Failure;
use super::link::Link;

/// Where a worker is.
#[derive(Debug)]
pub(super) struct Place {
    endpoint: String,
    host: String,
    port: u16,
    /// As it stands in requests.
    authority: HeaderValue,
    /// What its paths begin with; mostly nothing.
    prefix: String,
}

impl Place {
    /// None if the endpoint is no address.
    pub(super) fn of(endpoint: &str) -> Option<Self> {
        let uri: Uri = endpoint.parse().ok()?;
        let host = uri.host()?;
        let port = uri.port_u16();
        let is_usual = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => port == Some(443),
            _ => port == Some(80),
        };
        let authority = match port.filter(|_| !is_usual) {
            Some(port) => HeaderValue::from_str(&format!("{host}:{port}")),
            None => HeaderValue::from_str(host),
        };
        Some(Self {
            endpoint: endpoint.to_owned(),
            // A literal IPv6 address stands in brackets.
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: port.unwrap_or(80),
            authority: authority.ok()?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// As it was registered.
    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Its name in requests.
    pub(super) fn authority(&self) -> HeaderValue {
        self.authority.clone()
    }

    /// A client's path as it is there. None if the two make no path.
    pub(super) fn path(&self, target: &PathAndQuery) -> Option<Uri> {
        if self.prefix.is_empty() {
            return Some(Uri::from(target.clone()));
        }
        format!("{}{target}", self.prefix).parse().ok()
    }

    /// A new link to it, within a time.
    pub(super) async fn connect(&self, patience: Duration) -> Result<Box<Link>, Failure> {
        let connecting = TcpStream::connect((self.host.as_str(), self.port));
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
        let connected = timeout(patience, connecting).await.unwrap_or_else(|_| Err(late()));
        // A token is a small write, and must not wait for the next.
        let ready = connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
        let stream = ready.map_err(Failure::connecting)?;
        let link = Link::over(stream).await.map_err(|error| Failure::sending(error, false))?;
        Ok(Box::new(link))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

    use super::*;

    #[test]
    fn an_endpoint_is_read_as_it_was_meant() {
        for (endpoint, host, port, authority, path) in [
            ("http://engine:8000", "engine", 8000, "engine:8000", "/v1/x?y"),
            ("http://engine:8000/", "engine", 8000, "engine:8000", "/v1/x?y"),
            ("http://engine", "engine", 80, "engine", "/v1/x?y"),
            ("http://engine:80/base/", "engine", 80, "engine", "/base/v1/x?y"),
            ("http://[::1]:9", "::1", 9, "[::1]:9", "/v1/x?y"),
        ] {
            let place = Place::of(endpoint).unwrap();
            assert_eq!((&*place.host, place.port), (host, port), "{endpoint}");
            assert_eq!(place.authority(), authority);
            let target = PathAndQuery::from_static("/v1/x?y");
            assert_eq!(place.path(&target).unwrap().to_string(), path, "{endpoint}");
        }
        assert!(Place::of("").is_none() && Place::of("http://").is_none());
    }
}
