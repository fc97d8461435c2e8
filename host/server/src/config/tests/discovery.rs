//! Who lists workers, as it is written.

use std::time::Duration;

use super::*;
use crate::config::Records;

#[test]
fn lists_are_read_with_what_their_workers_are_like() {
    let config = good(
        "discovery:\n  dns:\n    - { name: engines.models.svc, port: 8000, refresh: 1s, servers: [\"10.0.0.10:53\"], \
         worker: { model: m, block_size: 32, taints: [fast], kv_events_endpoint: \"tcp://*:5557\" } }\n    \
         - { name: _http._tcp.engines, records: srv }\n  kubernetes: { pool: models }\n",
    );
    let [addresses, services] = &config.discovery.dns[..] else { panic!("two names") };
    assert_eq!(
        (addresses.records, services.records),
        (Records::Addresses(8_000), Records::Services)
    );
    assert_eq!((addresses.refresh, addresses.servers.len()), (Duration::from_secs(1), 1));
    assert_eq!((&*addresses.like.partition.model, addresses.like.block_size.get()), ("m", 32));
    assert!(addresses.like.taints.contains("fast"));
    assert_eq!(addresses.like.cache_feed.kv_events_endpoints.len(), 1);
    assert_eq!(
        services.like.partition.model,
        config.discovery.kubernetes.unwrap().like.partition.model
    );
    assert!(good("{}").discovery.kubernetes.is_none());
}

#[test]
fn what_a_list_can_not_be_is_refused_with_a_remedy() {
    for (text, words) in [
        ("dns: [{ name: a }]", "addresses without a port; set `port`, or `records: srv`"),
        ("dns: [{ name: a, records: srv, port: 1 }]", "each record brings its own; leave it out"),
        ("dns: [{ port: 1 }]", "name"),
        (
            "dns: [{ name: a, port: 1, worker: { endpoint: \"http://a:1\" } }]",
            "the list says where workers are",
        ),
        ("dns: [{ name: a, port: 1, worker: { worker_id: 1 } }]", "has an id by where it is"),
        ("kubernetes: {}", "pool"),
        ("kubernetes: { pool: a, api_version: v1 }", "a group and a version"),
        ("kubernetes: { pool: a, server: here }", "an address, as in https://10.0.0.1:6443"),
        ("consul: {}", "consul"),
    ] {
        let text = format!("discovery: {{ {text} }}");
        let told = mistakes(&text);
        assert!(told.contains(words), "{text}\n{told}");
    }
}
