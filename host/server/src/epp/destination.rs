//! Where a worker is reached, as gateways want it: an address with its port.
//!
//! A worker that is registered by a name is looked up when it is picked, and remembered for a few seconds.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long the address of a name is believed, as records with short lives are.
const BELIEVED: Duration = Duration::from_secs(5);

/// Names that are remembered; of more, none is.
const MOST_NAMES: usize = 65_536;

/// What an endpoint says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    Address(SocketAddr),
    Name { host: &'a str, port: u16 },
}

impl<'a> Place<'a> {
    /// None if it is no `http://host:port`.
    pub(super) fn of(endpoint: &'a str) -> Option<Self> {
        let authority = endpoint.strip_prefix("http://")?.trim_end_matches('/');
        if let Ok(address) = authority.parse() {
            return Some(Self::Address(address));
        }
        let bare = authority.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(authority).parse::<IpAddr>() {
            return Some(Self::Address(SocketAddr::new(address, 80)));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (authority, 80),
        };
        (!host.is_empty() && !host.contains('/')).then_some(Self::Name { host, port })
    }
}

/// Looks workers up.
#[derive(Debug, Default)]
pub(super) struct Destinations {
    names: Mutex<HashMap<String, (SocketAddr, Instant)>>,
}

impl Destinations {
    /// A worker's address; none if its endpoint has none.
    pub(super) async fn of(&self, endpoint: &str) -> Option<SocketAddr> {
        match Place::of(endpoint)? {
            Place::Address(address) => Some(address),
            Place::Name { host, port } => {
                if let Some((address, until)) = self.names.lock().get(endpoint)
                    && Instant::now() < *until
                {
                    return Some(*address);
                }
                let found = tokio::net::lookup_host((host, port)).await;
                let address = found.inspect_err(|error| {
                    tracing::warn!(endpoint, %error, "a worker's name has no address");
                });
                // Engines listen on IPv4, unless their names say otherwise.
                let mut all: Vec<SocketAddr> = address.ok()?.collect();
                all.sort_by_key(SocketAddr::is_ipv6);
                let address = *all.first()?;
                let mut names = self.names.lock();
                if names.len() < MOST_NAMES || names.contains_key(endpoint) {
                    names.insert(endpoint.to_owned(), (address, Instant::now() + BELIEVED));
                }
                Some(address)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_worker_is_reached_at_its_address_whatever_its_endpoint_is_like() {
        let destinations = Destinations::default();
        for (endpoint, expected) in [
            ("http://10.0.0.1:8000", Some("10.0.0.1:8000")),
            ("http://10.0.0.1", Some("10.0.0.1:80")),
            ("http://[::1]:9/", Some("[::1]:9")),
            ("http://[::1]", Some("[::1]:80")),
            ("http://localhost:9", Some("127.0.0.1:9")),
            ("http://nobody.invalid:9", None),
            ("https://10.0.0.1:8000", None),
            ("http://", None),
        ] {
            let found = destinations.of(endpoint).await.map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{endpoint}");
        }
    }
}
