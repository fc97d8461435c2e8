//! Routers over fleets of workers with one rank each, as benches want them.

use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{PartitionKey, Role, WorkerId};
use pointsman_core::partition::Partition;
use pointsman_core::policy::selection::{InstanceSpec, Recipe, TypeUse};
use pointsman_core::policy::{Catalog, Limits, OnFailure, RouterSettings, SelectionSpec};
use pointsman_core::router::{Policies, Router};
use serde_json::{Map, Value};

/// Tokens in a block of theirs.
pub const BLOCK_SIZE: u32 = 16;

/// Where all workers are.
#[must_use]
pub fn key() -> PartitionKey {
    PartitionKey { model: "m".into(), routing_group: "default".into(), role: Role::Aggregated }
}

/// A router of so many workers, which a policy of this type decides; nobody stands in for it. At most
/// two threads ask it.
pub fn router(
    catalog: &Catalog,
    policy_type: &str,
    parameters: &Map<String, Value>,
    settings: &Arc<RouterSettings>,
    workers: u64,
) -> Result<Router> {
    let selection = SelectionSpec {
        roles: [(Role::Aggregated, "it".into())].into(),
        instances: vec![InstanceSpec::new(
            "it",
            Recipe::Whole(TypeUse {
                policy_type: policy_type.into(),
                parameters: Arc::new(parameters.clone()),
                limits: Limits::default(),
            }),
            OnFailure::Reject,
        )],
    };
    let (catalog, settings) = (catalog.clone(), settings.clone());
    let policies = Policies { catalog, selection, settings, ..Policies::default() };
    let router = Router::new(policies, 7).for_threads(2);
    for id in 0..workers {
        router.upsert_worker(WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", key()))?;
    }
    Ok(router)
}

/// Its only partition.
pub fn partition(router: &Router) -> Result<Arc<Partition>> {
    router.partition(&key()).context("its workers began it")
}
