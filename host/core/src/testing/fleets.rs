//! Small fleets and requests, for the tests of this crate.

use std::num::NonZeroU32;

use crate::clock::Moment;
use crate::fleet::{Fleet, Snapshot, WorkerSpec};
use crate::ids::{DpRank, PartitionKey, Role, WorkerId, WorkerRank};
use crate::request::RouteRequest;
use crate::router::{Policies, Router};

pub(crate) fn key(role: Role) -> PartitionKey {
    PartitionKey { model: "m".into(), routing_group: "default".into(), role }
}

pub(crate) fn group(name: &str) -> PartitionKey {
    PartitionKey { routing_group: name.into(), ..key(Role::Aggregated) }
}

pub(crate) fn size(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("not zero")
}

/// A worker of one rank in the aggregated partition.
pub(crate) fn worker(id: u64) -> WorkerSpec {
    WorkerSpec::new(WorkerId(id), format!("http://worker-{id}"), key(Role::Aggregated))
}

pub(crate) fn ranked(id: u64, start: u32, ranks: u32) -> WorkerSpec {
    WorkerSpec { data_parallel_start_rank: start, data_parallel_size: size(ranks), ..worker(id) }
}

pub(crate) fn tainted(id: u64, taints: &[&str]) -> WorkerSpec {
    WorkerSpec { taints: taints.iter().map(|taint| (*taint).to_owned()).collect(), ..worker(id) }
}

pub(crate) fn rank(id: u64, dp_rank: u32) -> WorkerRank {
    WorkerRank { worker_id: WorkerId(id), dp_rank: DpRank(dp_rank) }
}

pub(crate) fn fleet(specs: impl IntoIterator<Item = WorkerSpec>) -> Fleet {
    let mut fleet = Fleet::default();
    for spec in specs {
        fleet.upsert(spec).expect("the fleet takes it");
    }
    fleet
}

pub(crate) fn snapshot(specs: impl IntoIterator<Item = WorkerSpec>) -> Snapshot {
    fleet(specs).snapshot(&key(Role::Aggregated))
}

pub(crate) fn request(prompt_tokens: u64) -> RouteRequest {
    RouteRequest::new("r", key(Role::Aggregated), prompt_tokens)
}

pub(crate) fn moment(seed: u64) -> Moment {
    Moment { now_ms: 5, seed }
}

pub(crate) fn router(policies: Policies, specs: impl IntoIterator<Item = WorkerSpec>) -> Router {
    let router = Router::new(policies, 7);
    for spec in specs {
        router.upsert_worker(spec).expect("the router takes it");
    }
    router
}
