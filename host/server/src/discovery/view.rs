//! A worker, as it is shown.

use serde::Serialize;

use pointsman_core::disaggregation::Disaggregation;
use pointsman_core::fleet::{Availability, CacheFeed, Epoch, Worker, WorkerSpec};
use pointsman_core::ids::{Role, WorkerId};
use tokio::time::Instant;

use super::cache::FeedView;
use super::keeper::Origin;
use super::roster::Entry;

/// A worker, as it is shown. The names are those under which it is registered.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerView {
    /// What was registered.
    #[serde(flatten)]
    pub description: Description,
    /// Which life of the worker this is.
    pub epoch: Epoch,
    /// Whether it may be given requests.
    pub availability: Availability,
    /// Why it may not; none when it may.
    pub reason: Option<String>,
    /// Who registered it.
    pub origin: Origin,
    /// How long its lease lasts from each heartbeat; none without lease.
    pub lease_ms: Option<u64>,
    /// When its lease ends unless a heartbeat comes.
    pub lease_ends_in_ms: Option<u64>,
    /// When it is thought to be able again; none when it is neither overloaded nor left out for its
    /// failures.
    pub overloaded_for_ms: Option<u64>,
    /// Failed requests in a row.
    pub failures_in_a_row: u32,
    /// How often it was left out for its failures.
    pub ejections: u64,
    /// Requests that it carries.
    pub active_requests: u64,
    /// Its last probe; none before the first.
    pub last_probe: Option<ProbeView>,
    /// Where its cache events come from, rank by rank; empty where nothing tells.
    pub cache_feeds: Vec<FeedView>,
    /// Why there are no such feeds, or what is wrong with them.
    pub cache_feed_problem: Option<String>,
    /// Why its engine doesn't say how much it has to do; none while it does, or isn't asked.
    pub load_report_problem: Option<String>,
}

/// A probe, as it is shown.
#[derive(Clone, Debug, Serialize)]
pub struct ProbeView {
    /// Whether it was answered well.
    pub ok: bool,
    /// How long ago.
    pub ago_ms: u64,
    /// What went wrong.
    pub error: Option<String>,
}

/// What a worker was registered with, under the names that registration takes.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// The id.
    pub worker_id: WorkerId,
    endpoint: String,
    /// The model.
    pub model_name: String,
    /// The routing group.
    pub routing_group: String,
    /// What it does.
    pub role: &'static str,
    data_parallel_start_rank: u32,
    data_parallel_size: u32,
    block_size: u32,
    taints: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lora_adapters: Vec<String>,
    labels: std::collections::BTreeMap<String, String>,
    total_kv_blocks: Option<u64>,
    max_num_batched_tokens: Option<u64>,
    device_kind: Option<String>,
    /// None of a worker that shares no prompts.
    disaggregation: Option<Disaggregation>,
    #[serde(flatten)]
    cache_feed: CacheFeed,
}

impl Description {
    /// Of a worker.
    pub(crate) fn new(spec: &WorkerSpec) -> Self {
        Self {
            worker_id: spec.worker_id,
            endpoint: spec.endpoint.clone(),
            model_name: spec.partition.model.to_string(),
            routing_group: spec.partition.routing_group.to_string(),
            role: spec.partition.role.as_str(),
            data_parallel_start_rank: spec.data_parallel_start_rank,
            data_parallel_size: spec.data_parallel_size.get(),
            block_size: spec.block_size.get(),
            taints: spec.taints.iter().cloned().collect(),
            lora_adapters: spec.lora_adapters.iter().cloned().collect(),
            labels: spec.labels.clone(),
            total_kv_blocks: spec.total_kv_blocks,
            max_num_batched_tokens: spec.max_num_batched_tokens,
            device_kind: spec.device_kind.clone(),
            disaggregation: shares_prompts(spec).then_some(spec.disaggregation),
            cache_feed: spec.cache_feed.clone(),
        }
    }
}

fn shares_prompts(spec: &WorkerSpec) -> bool {
    matches!(spec.partition.role, Role::Prefill | Role::Decode)
}

impl WorkerView {
    /// A worker's, without its feeds.
    pub(super) fn new(worker: &Worker, entry: &Entry, active_requests: u64, now: Instant) -> Self {
        let ms_until = |at: Instant| millis(at.saturating_duration_since(now));
        let standing = &entry.standing;
        let term = standing.term();
        Self {
            description: Description::new(&worker.spec),
            epoch: worker.epoch,
            availability: worker.availability,
            reason: standing.why().map(str::to_owned),
            origin: entry.origin,
            lease_ms: term.map(|term| millis(term.length)),
            lease_ends_in_ms: term.map(|term| ms_until(term.until)),
            overloaded_for_ms: standing.rests_until().map(ms_until),
            failures_in_a_row: standing.conduct.failures(),
            ejections: standing.conduct.total(),
            active_requests,
            last_probe: standing.last_probe().map(|probe| ProbeView {
                ok: probe.error.is_none(),
                ago_ms: millis(now.saturating_duration_since(probe.at)),
                error: probe.error.clone(),
            }),
            cache_feeds: Vec::new(),
            cache_feed_problem: None,
            load_report_problem: entry.load.problem(),
        }
    }

    pub(super) fn with_feeds(self, (feeds, problem): (Vec<FeedView>, Option<String>)) -> Self {
        Self { cache_feeds: feeds, cache_feed_problem: problem, ..self }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
