//! Whom a gateway means by the endpoints that it names.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use pointsman_core::fleet::Worker;
use pointsman_core::ids::WorkerId;

use super::destination::Place;

/// The workers at these endpoints, each an address with its port or without. One that is nobody's leaves
/// nobody in.
pub(super) fn named(endpoints: &[String], workers: &[Worker]) -> BTreeSet<WorkerId> {
    let named: Vec<Named<'_>> = endpoints.iter().map(|one| Named::of(one)).collect();
    let is_named = |worker: &&Worker| {
        let place = Place::of(&worker.spec.endpoint);
        place.is_some_and(|place| named.iter().any(|one| one.is(&place)))
    };
    workers.iter().filter(is_named).map(|worker| worker.spec.worker_id).collect()
}

/// One endpoint.
#[derive(Clone, Copy, Debug)]
enum Named<'a> {
    Socket(SocketAddr),
    Address(IpAddr),
    /// By another name than an address: as the worker was registered.
    Text(&'a str),
}

impl<'a> Named<'a> {
    fn of(text: &'a str) -> Self {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        match (text.parse(), bare.parse()) {
            (Ok(socket), _) => Self::Socket(socket),
            (_, Ok(address)) => Self::Address(address),
            _ => Self::Text(text),
        }
    }

    fn is(self, place: &Place<'_>) -> bool {
        match (self, place) {
            (Self::Socket(named), Place::Address(socket)) => named == *socket,
            (Self::Address(named), Place::Address(socket)) => named == socket.ip(),
            (Self::Text(named), Place::Name { host, port }) => {
                let with_port = named.strip_prefix(host).and_then(|rest| rest.strip_prefix(':'));
                named == *host || with_port.is_some_and(|text| text.parse() == Ok(*port))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that can't go on should say where")]

    use super::*;

    #[test]
    fn an_endpoint_is_meant_with_its_port_or_by_its_address_alone() {
        let is = |named, endpoint| Named::of(named).is(&Place::of(endpoint).unwrap());
        for (named, endpoint, meant) in [
            ("10.0.0.1:8000", "http://10.0.0.1:8000", true),
            ("10.0.0.1", "http://10.0.0.1:8000", true),
            ("10.0.0.1:8001", "http://10.0.0.1:8000", false),
            ("10.0.0.10", "http://10.0.0.1:8000", false),
            ("[::1]:9", "http://[::1]:9", true),
            ("::1", "http://[::1]:9", true),
            ("[::1]", "http://[::1]:9", true),
            ("engine", "http://engine:8000", true),
            ("engine:8000", "http://engine:8000", true),
            ("engine:80", "http://engine:8000", false),
            ("engine2", "http://engine:8000", false),
            ("10.0.0.1", "http://engine:8000", false),
            ("", "http://engine:8000", false),
        ] {
            assert_eq!(is(named, endpoint), meant, "{named} {endpoint}");
        }
    }
}
