//! A worker: what was registered of it, which life it lives, whether it may be given requests.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use serde::Serialize;

use crate::ids::{DpRank, PartitionKey, WorkerId};

/// The most ranks that one worker may have.
pub const MAX_RANKS_PER_WORKER: u32 = 4096;

/// A worker as registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerSpec {
    /// Its id: one worker, one id, over all partitions.
    pub worker_id: WorkerId,
    /// Where it listens: `http://host:port`, without a path.
    pub endpoint: String,
    /// Where it belongs.
    #[serde(flatten)]
    pub partition: PartitionKey,
    /// Its first rank.
    pub data_parallel_start_rank: u32,
    /// How many ranks it has; 1 to [`MAX_RANKS_PER_WORKER`].
    pub data_parallel_size: NonZeroU32,
    /// Tokens in one KV block.
    pub block_size: NonZeroU32,
    /// What it is marked with.
    pub taints: BTreeSet<String>,
    /// LoRA adapters that it has loaded, by the names that requests have for them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub lora_adapters: BTreeSet<String>,
    /// Free key-value marks, for policies.
    pub labels: BTreeMap<String, String>,
    /// KV blocks of each rank; none when it didn't say.
    pub total_kv_blocks: Option<u64>,
    /// The most tokens that it batches in one step; none when it didn't say.
    pub max_num_batched_tokens: Option<u64>,
    /// What it runs on; none when it didn't say.
    pub device_kind: Option<String>,
    /// Where it tells of its KV cache.
    #[serde(flatten)]
    pub cache_feed: CacheFeed,
}

/// Where an engine tells of its KV cache. The default asks the engine itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheFeed {
    /// How its events come.
    pub kv_event_source_mode: CacheFeedMode,
    /// ZeroMQ endpoints of its events, by rank.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kv_events_endpoints: BTreeMap<u32, String>,
    /// ZeroMQ endpoints at which old events can be asked for, by rank.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub replay_endpoints: BTreeMap<u32, String>,
    /// How the topics of its events begin.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kv_events_topic: String,
}

/// How an engine's cache events come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheFeedMode {
    /// From the endpoints that are given, else from those that the engine names when asked.
    #[default]
    Auto,
    /// From the endpoints that are given.
    Zmq,
    /// Somebody pushes them to the router.
    Push,
    /// They don't.
    None,
}

impl WorkerSpec {
    /// A worker with one rank, blocks of 16 tokens and no marks.
    #[must_use]
    pub fn new(worker_id: WorkerId, endpoint: impl Into<String>, partition: PartitionKey) -> Self {
        Self {
            worker_id,
            endpoint: endpoint.into(),
            partition,
            data_parallel_start_rank: 0,
            data_parallel_size: NonZeroU32::MIN,
            block_size: DEFAULT_BLOCK_SIZE,
            taints: BTreeSet::new(),
            lora_adapters: BTreeSet::new(),
            labels: BTreeMap::new(),
            total_kv_blocks: None,
            max_num_batched_tokens: None,
            device_kind: None,
            cache_feed: CacheFeed::default(),
        }
    }

    /// Whether it has a rank.
    #[must_use]
    pub fn has_rank(&self, rank: DpRank) -> bool {
        let at = rank.0.checked_sub(self.data_parallel_start_rank);
        at.is_some_and(|at| at < self.data_parallel_size.get())
    }

    /// Whether it runs on processors alone. What didn't say has an accelerator, as nearly all have.
    #[must_use]
    pub fn runs_on_cpu(&self) -> bool {
        self.device_kind.as_ref().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("cpu"))
    }

    /// Whether `other` differs only in its marks: it is the same engine then, and what is booked on
    /// it stays booked.
    #[must_use]
    pub fn same_engine(&self, other: &Self) -> bool {
        self.endpoint == other.endpoint
            && self.partition == other.partition
            && self.data_parallel_start_rank == other.data_parallel_start_rank
            && self.data_parallel_size == other.data_parallel_size
            && self.block_size == other.block_size
    }

    /// Its ranks, ascending.
    pub fn ranks(&self) -> impl Iterator<Item = DpRank> + use<> {
        let start = self.data_parallel_start_rank;
        (0..self.data_parallel_size.get()).map(move |i| DpRank(start.saturating_add(i)))
    }
}

/// Tokens in a KV block of a worker that didn't say: vLLM's default.
pub const DEFAULT_BLOCK_SIZE: NonZeroU32 = NonZeroU32::new(16).expect("16 is not zero");

/// Counts a worker's lives under one id. Bookings of an earlier life never touch a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// Whether a worker may be given requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// It may.
    Ready,
    /// Its health probe or a connection failed; it comes back by itself.
    Unhealthy,
    /// It said that it has too much to do; it comes back by itself.
    Overloaded,
    /// It is leaving: what it has goes on, nothing new comes.
    Draining,
}

/// A worker of the fleet.
#[derive(Clone, Debug, Serialize)]
pub struct Worker {
    /// As registered.
    #[serde(flatten)]
    pub spec: Arc<WorkerSpec>,
    /// Which life this is.
    pub epoch: Epoch,
    /// Whether it may be given requests.
    pub availability: Availability,
}
