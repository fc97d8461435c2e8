//! What all parts are made of: partitions, instances of a type, routers with workers.

use std::sync::Arc;

use anyhow::Result;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{PartitionKey, Role, WorkerId};
use pointsman_core::policy::selection::{InstanceSpec, Recipe, TypeUse, default_instance};
use pointsman_core::policy::{
    Catalog, Limits, OnFailure, PolicyEnvironment, PolicyProvider, SelectionSpec,
};
use pointsman_core::router::{Policies, Router};
use serde_json::{Map, Value};

/// The roles that a router has; each is decided by one instance.
pub(crate) const ROLES: [Role; 4] = [Role::Aggregated, Role::Prefill, Role::Decode, Role::Encode];

pub(crate) fn partition(routing_group: &str, role: Role) -> PartitionKey {
    PartitionKey { model: "m".into(), routing_group: routing_group.into(), role }
}

/// An instance of a type, named as that. It is asked however often it fails.
pub(crate) fn instance(
    policy_type: &str,
    parameters: Value,
    on_failure: OnFailure,
) -> InstanceSpec {
    let parameters = match parameters {
        Value::Object(parameters) => parameters,
        _ => Map::new(),
    };
    // The default's has no breaker.
    let mut spec = default_instance();
    spec.name = policy_type.into();
    spec.recipe = Recipe::Whole(TypeUse {
        policy_type: policy_type.into(),
        parameters: Arc::new(parameters),
        limits: Limits::default(),
    });
    spec.on_failure = on_failure;
    spec.discard_state = true;
    spec
}

/// These types beside the built-ins, with an instance for each role that has one.
pub(crate) fn policies(
    providers: impl IntoIterator<Item = Arc<dyn PolicyProvider>>,
    instances: impl IntoIterator<Item = (Role, InstanceSpec)>,
) -> Result<Policies> {
    let mut catalog = Catalog::builtin();
    for provider in providers {
        catalog.insert(provider)?;
    }
    let mut selection = SelectionSpec::default();
    for (role, instance) in instances {
        selection.roles.insert(role, instance.name.clone());
        selection.instances.push(instance);
    }
    Ok(Policies { catalog, selection, ..Policies::default() })
}

/// Registers workers `ids` in a partition.
pub(crate) fn populate(
    router: &Router,
    partition: &PartitionKey,
    ids: std::ops::Range<u64>,
) -> Result<()> {
    for id in ids {
        let spec = WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", partition.clone());
        router.upsert_worker(spec)?;
    }
    Ok(())
}

/// What an instance is told that is made outside a router.
pub(crate) fn environment(partition: &PartitionKey, instance: &InstanceSpec) -> PolicyEnvironment {
    let parameters = match &instance.recipe {
        Recipe::Whole(used) => used.parameters.clone(),
        Recipe::Composed { .. } => Arc::default(),
    };
    PolicyEnvironment {
        instance: instance.name.clone(),
        partition: partition.clone(),
        block_size: 16,
        parameters,
        settings: Arc::default(),
        limits: Limits::default(),
        seed: 1,
        trial: true,
    }
}
