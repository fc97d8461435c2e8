//! Whom a gateway means by the endpoints that it names.

use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};

use pointsman_core::fleet::Worker;
use pointsman_core::ids::WorkerId;

use super::destination::Place;

/// The workers at these endpoints, each an address with its port or without. One that is nobody's leaves
/// nobody in.
pub(super) fn named(endpoints: &[String], workers: &[Worker]) -> BTreeSet<WorkerId> {
    let named = Named::of(endpoints);
    let is_named =
        |worker: &&Worker| Place::of(&worker.spec.endpoint).is_some_and(|place| named.has(&place));
    workers.iter().filter(is_named).map(|worker| worker.spec.worker_id).collect()
}

/// Endpoints, to look workers up among: a gateway may name thousands.
#[derive(Debug, Default)]
struct Named<'a> {
    sockets: HashSet<SocketAddr>,
    addresses: HashSet<IpAddr>,
    /// By another name than an address: as the worker was registered, with its port or without.
    names: HashSet<(&'a str, Option<u16>)>,
}

impl<'a> Named<'a> {
    fn of(endpoints: &'a [String]) -> Self {
        let mut named = Self::default();
        for text in endpoints {
            let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            if let Ok(socket) = text.parse() {
                named.sockets.insert(socket);
            } else if let Ok(address) = bare.unwrap_or(text).parse() {
                named.addresses.insert(address);
            } else {
                let with_port = text.rsplit_once(':');
                let with_port = with_port.and_then(|(host, port)| Some((host, port.parse().ok()?)));
                named.names.insert(match with_port {
                    Some((host, port)) => (host, Some(port)),
                    None => (text, None),
                });
            }
        }
        named
    }

    fn has(&self, place: &Place<'_>) -> bool {
        match *place {
            Place::Address(socket) => {
                self.sockets.contains(&socket) || self.addresses.contains(&socket.ip())
            }
            Place::Name { host, port } => {
                self.names.contains(&(host, None)) || self.names.contains(&(host, Some(port)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that can't go on should say where")]

    use super::*;

    #[test]
    fn an_endpoint_is_meant_with_its_port_or_by_its_address_alone() {
        let is = |named: &str, endpoint| {
            Named::of(&[named.to_owned()]).has(&Place::of(endpoint).unwrap())
        };
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
