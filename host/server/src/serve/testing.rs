//! A configuration for tests of this crate: loopback, any free port, the built-ins.

use std::time::Duration;

use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{DEFAULT_GROUP, PartitionKey, Role, WorkerId};

use crate::config::{Config, HealthConfig, Listener, ProxyConfig, WasmConfig};

/// The model of every worker here.
pub(crate) const MODEL: &str = "m";

pub(crate) fn partition() -> PartitionKey {
    PartitionKey {
        model: MODEL.into(),
        routing_group: DEFAULT_GROUP.into(),
        role: Role::Aggregated,
    }
}

/// Worker n of the file listens at the nth endpoint.
pub(crate) fn config<E: AsRef<str>>(endpoints: &[E]) -> Config {
    let listener = Listener { address: ([127, 0, 0, 1], 0).into(), tokens: vec![], tls: None };
    let workers = (1..)
        .zip(endpoints)
        .map(|(id, endpoint)| WorkerSpec::new(WorkerId(id), endpoint.as_ref(), partition()));
    Config {
        listen: listener.clone(),
        admin: listener,
        policies_dir: None,
        selection: Default::default(),
        settings: Default::default(),
        workers: workers.collect(),
        proxy: ProxyConfig::default(),
        // What probes find is the keeper's tests' business.
        health: HealthConfig { interval: Duration::from_secs(3_600), ..HealthConfig::default() },
        wasm: WasmConfig { rescan_interval: Duration::from_secs(3_600), ..WasmConfig::default() },
        drain_timeout: Duration::from_secs(5),
    }
}
