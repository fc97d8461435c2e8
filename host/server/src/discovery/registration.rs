//! A worker's description, as it comes over the API.
//!
//! Owns the names, types and ranges of the fields. All that is wrong with a description is found
//! in one go; a [`Registration`] holds what was found to be right.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use pointsman_core::fleet::{DEFAULT_BLOCK_SIZE, MAX_RANKS_PER_WORKER, WorkerSpec};
use pointsman_core::ids::{DEFAULT_GROUP, PartitionKey, Role, WorkerId};
use serde_json::Value;

mod feed;
mod fields;

use crate::json::{Fields, Problems, values};

/// The model of workers that name none.
const DEFAULT_MODEL: &str = "default";

/// The shortest lease: below that, a pause of the network costs a worker.
const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// The longest lease: beyond a day, none is meant.
const LONGEST_LEASE: Duration = Duration::from_secs(86_400);

/// A worker's description, found to be right.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// The worker.
    pub spec: WorkerSpec,
    /// How long it stays without a heartbeat; none is for ever.
    pub lease: Option<Duration>,
}

impl Registration {
    /// Reads the description of a worker.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn read(description: &Value) -> Result<Self, Problems> {
        let mut fields = Fields::of(description)?;
        let id = fields.required("worker_id", values::id);
        let endpoint = fields.required("endpoint", fields::endpoint);
        let spec = plain(id.unwrap_or(WorkerId(0)), endpoint.unwrap_or_default());
        let mut registration = Self { spec, lease: None };
        registration.take(&mut fields);
        fields.finish()?;
        Ok(registration)
    }

    /// Reads what changes of a worker: a field that is left out stays, one that is `null` goes
    /// back to its default. The worker's id can't change.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn changed(
        spec: &WorkerSpec,
        lease: Option<Duration>,
        changes: &Value,
    ) -> Result<Self, Problems> {
        let mut fields = Fields::of(changes)?;
        let mut registration = Self { spec: spec.clone(), lease };
        fields.forbidden("worker_id", "is in the path, and can't be changed; leave it out");
        if let Some(endpoint) = fields.optional("endpoint", fields::endpoint) {
            match endpoint {
                Some(endpoint) => registration.spec.endpoint = endpoint,
                None => fields.problem("endpoint", "can't be cleared; delete the worker instead"),
            }
        }
        registration.take(&mut fields);
        fields.finish()?;
        Ok(registration)
    }

    /// Takes the fields that registration and change have in common.
    fn take(&mut self, fields: &mut Fields<'_>) {
        let Self { spec, lease } = self;
        // `model` is the word everywhere else; `model_name` is what other routers' clients send.
        let model = fields.optional_of(["model_name", "model"], values::name);
        if let Some(model) = model {
            spec.partition.model = model.unwrap_or_else(|| DEFAULT_MODEL.to_owned()).into();
        }
        if let Some(group) = fields.optional("routing_group", values::name) {
            spec.partition.routing_group = group.unwrap_or_else(|| DEFAULT_GROUP.to_owned()).into();
        }
        if let Some(role) = fields.optional("role", values::role) {
            spec.partition.role = role.unwrap_or_default();
        }
        if let Some(start) = fields.optional("data_parallel_start_rank", values::count) {
            spec.data_parallel_start_rank = start.unwrap_or_default();
        }
        if let Some(size) = fields.optional("data_parallel_size", fields::ranks) {
            spec.data_parallel_size = size.unwrap_or(NonZeroU32::MIN);
        }
        if let Some(size) = fields.optional("block_size", values::positive) {
            spec.block_size = size.unwrap_or(DEFAULT_BLOCK_SIZE);
        }
        if let Some(taints) = fields.optional("taints", values::names) {
            spec.taints = taints.unwrap_or_default();
        }
        if let Some(adapters) = fields.optional("lora_adapters", values::names) {
            spec.lora_adapters = adapters.unwrap_or_default();
        }
        if let Some(labels) = fields.optional("labels", fields::labels) {
            spec.labels = labels.unwrap_or_default();
        }
        if let Some(blocks) = fields.optional("total_kv_blocks", values::some) {
            spec.total_kv_blocks = blocks;
        }
        if let Some(tokens) = fields.optional("max_num_batched_tokens", values::some) {
            spec.max_num_batched_tokens = tokens;
        }
        if let Some(kind) = fields.optional("device_kind", values::name) {
            spec.device_kind = kind;
        }
        fields::disaggregation(spec, fields);
        if let Some(length) = fields.optional("lease", fields::lease) {
            *lease = length;
        }
        feed::take(spec, fields);
    }
}

fn plain(id: WorkerId, endpoint: String) -> WorkerSpec {
    let partition = PartitionKey {
        model: DEFAULT_MODEL.into(),
        routing_group: DEFAULT_GROUP.into(),
        role: Role::default(),
    };
    WorkerSpec::new(id, endpoint, partition)
}

#[cfg(test)]
mod tests;
