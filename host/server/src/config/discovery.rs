//! `discovery`: workers that something else lists.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use pointsman_core::fleet::WorkerSpec;

use super::keys::{DISCOVERY, DNS, KUBERNETES, LIKE};
use super::places::Places;
use super::reader::{Fields, Reader, Spot};
use super::scalar::{self, count, duration};
use super::workers;

/// How often names are looked up: oftener, name servers complain; beyond an hour, none is meant.
const REFRESH: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3_600);

const RECORDS: &[(&str, bool)] = &[("address", false), ("srv", true)];

/// The version of pools that gateways have.
const POOLS: &str = "inference.networking.k8s.io/v1";

/// Who lists workers.
#[derive(Clone, Debug, Default)]
pub struct DiscoveryConfig {
    /// Names that are looked up.
    pub dns: Vec<DnsConfig>,
    /// A pool of pods.
    pub kubernetes: Option<KubernetesConfig>,
}

/// A name whose records are workers.
#[derive(Clone, Debug)]
pub struct DnsConfig {
    /// The name.
    pub name: String,
    /// What of it is looked up.
    pub records: Records,
    /// How long between two look-ups.
    pub refresh: Duration,
    /// Name servers; none are the system's.
    pub servers: Vec<SocketAddr>,
    /// What each worker is like, but for its id and its endpoint.
    pub like: WorkerSpec,
}

/// Which records are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// Addresses; all workers listen on this port.
    Addresses(u16),
    /// Services, which bring their ports.
    Services,
}

/// A pool of pods.
#[derive(Clone, Debug)]
pub struct KubernetesConfig {
    /// The `InferencePool`'s name.
    pub pool: String,
    /// Its namespace; none is the one that the router itself is in.
    pub namespace: Option<String>,
    /// Its group and version.
    pub api_version: String,
    /// Where the API server is; none is where the cluster says, or the kubeconfig.
    pub server: Option<String>,
    /// What each worker is like, but for its id and its endpoint.
    pub like: WorkerSpec,
}

/// Reads it.
pub(super) fn read(cx: &mut Reader<'_>, spot: &Spot<'_>, places: &mut Places) -> DiscoveryConfig {
    let mut discovery = DiscoveryConfig::default();
    places.add_key(cx.at(spot));
    let Some(fields) = cx.fields(spot, &DISCOVERY) else { return discovery };
    if let Some(list) = fields.get("dns") {
        discovery.dns = cx.list(&list).iter().filter_map(|item| dns(cx, item)).collect();
    }
    discovery.kubernetes = fields.get("kubernetes").and_then(|spot| kubernetes(cx, &spot));
    discovery
}

fn dns(cx: &mut Reader<'_>, spot: &Spot<'_>) -> Option<DnsConfig> {
    let fields = cx.fields(spot, &DNS)?;
    let name = cx.required(&fields, "name").and_then(|spot| cx.read(&spot, scalar::plain_name));
    let (mut services, mut refresh) = (false, Duration::from_secs(5));
    cx.set(&fields, "records", scalar::word(RECORDS), &mut services);
    cx.set(&fields, "refresh", duration(REFRESH), &mut refresh);
    let port = cx.optional(&fields, "port", count::<u16>(1..=65_535));
    let records = match (services, port, fields.get("port")) {
        (false, Some(port), _) => Some(Records::Addresses(port)),
        (true, None, None) => Some(Records::Services),
        (true, _, Some(at)) => {
            cx.refuse(&at, "a port, where each record brings its own", "leave it out");
            None
        }
        (false, None, None) => {
            cx.refuse(spot, "addresses without a port", "set `port`, or `records: srv`");
            None
        }
        _ => None,
    };
    let mut servers = Vec::new();
    if let Some(list) = fields.get("servers") {
        for item in cx.list(&list) {
            servers.extend(cx.read(&item, scalar::address));
        }
    }
    let like = like(cx, &fields);
    Some(DnsConfig { name: name?, records: records?, refresh, servers, like })
}

fn kubernetes(cx: &mut Reader<'_>, spot: &Spot<'_>) -> Option<KubernetesConfig> {
    let fields = cx.fields(spot, &KUBERNETES)?;
    let pool = cx.required(&fields, "pool").and_then(|spot| cx.read(&spot, scalar::plain_name));
    let mut api_version = POOLS.to_owned();
    cx.set(&fields, "api_version", group_and_version, &mut api_version);
    let namespace = cx.optional(&fields, "namespace", scalar::plain_name);
    let server = fields.get("server").and_then(|spot| cx.read_url(&spot, server));
    let like = like(cx, &fields);
    Some(KubernetesConfig { pool: pool?, namespace, api_version, server, like })
}

fn like(cx: &mut Reader<'_>, fields: &Fields<'_>) -> WorkerSpec {
    let at = fields.get("worker");
    let found = at.as_ref().and_then(|spot| cx.fields(spot, &LIKE));
    match found {
        Some(found) => workers::like(cx, &found),
        None => workers::plain(),
    }
}

fn group_and_version(text: &str) -> scalar::Read<String> {
    let parts = text.split_once('/').filter(|(group, version)| {
        !group.is_empty() && version.starts_with('v') && !version.contains('/')
    });
    let expected =
        || scalar::Expected::new("a group and a version, as in inference.networking.k8s.io/v1");
    parts.map(|_| text.to_owned()).ok_or_else(expected)
}

fn server(text: &str) -> scalar::Read<String> {
    let expected = || scalar::Expected::new("an address, as in https://10.0.0.1:6443");
    let url: url::Url = text.parse().map_err(|_| expected())?;
    let sound = matches!(url.scheme(), "http" | "https") && url.host().is_some();
    if sound { Ok(text.to_owned()) } else { Err(expected()) }
}
