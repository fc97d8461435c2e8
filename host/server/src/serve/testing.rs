//! A configuration for tests of this crate: loopback, any free port, the built-ins.

use std::time::Duration;

use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{DEFAULT_GROUP, PartitionKey, Role, WorkerId};

use crate::config::{Config, HealthConfig, Listener, WasmConfig};

/// The model of every worker here.
pub(crate) const MODEL: &str = "m";

pub(crate) fn partition() -> PartitionKey {
    PartitionKey {
        model: MODEL.into(),
        routing_group: DEFAULT_GROUP.into(),
        role: Role::Aggregated,
    }
}

/// A worker of the model, but for its id and its endpoint.
pub(crate) fn like() -> WorkerSpec {
    WorkerSpec::new(WorkerId(0), "", partition())
}

/// Worker n of the file listens at the nth endpoint.
pub(crate) fn config<E: AsRef<str>>(endpoints: &[E]) -> Config {
    let listener = Listener::on(([127, 0, 0, 1], 0).into());
    let workers = (1..)
        .zip(endpoints)
        .map(|(id, endpoint)| WorkerSpec::new(WorkerId(id), endpoint.as_ref(), partition()));
    Config {
        listen: listener.clone(),
        admin: listener,
        workers: workers.collect(),
        // What probes find is the keeper's tests' business.
        health: HealthConfig { interval: Duration::from_secs(3_600), ..HealthConfig::default() },
        wasm: WasmConfig { rescan_interval: Duration::from_secs(3_600), ..WasmConfig::default() },
        drain_timeout: Duration::from_secs(5),
        ..Config::default()
    }
}
