//! The names of things: workers, ranks, roles, partitions, decisions.
//!
//! Owns nothing but newtypes and their text forms. Everyone uses them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A worker's id, as its operator registered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(pub u64);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A data-parallel rank. A worker's ranks need not start at zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DpRank(pub u32);

impl fmt::Display for DpRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One rank of one worker: what a row stands for.
///
/// The order is the row order everywhere: ascending worker id, then rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerRank {
    /// The worker.
    pub worker_id: WorkerId,
    /// Its rank.
    pub dp_rank: DpRank,
}

impl fmt::Display for WorkerRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.worker_id, self.dp_rank)
    }
}

/// A worker named in advance. No rank means any rank of that worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerTarget {
    /// The worker.
    pub worker_id: WorkerId,
    /// Its rank; none is any rank, which is not the same as rank 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dp_rank: Option<DpRank>,
}

impl WorkerTarget {
    /// Whether a row is what the target names.
    #[must_use]
    pub fn matches(&self, row: WorkerRank) -> bool {
        self.worker_id == row.worker_id && self.dp_rank.is_none_or(|rank| rank == row.dp_rank)
    }
}

impl fmt::Display for WorkerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dp_rank {
            Some(rank) => write!(f, "{}/{rank}", self.worker_id),
            None => write!(f, "{}", self.worker_id),
        }
    }
}

/// What a worker does for a request.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Prefill and decode on one worker.
    #[default]
    Aggregated,
    /// Prefill only.
    Prefill,
    /// Decode only.
    Decode,
    /// Multimodal encoding only.
    Encode,
}

impl Role {
    /// All roles, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Aggregated, Self::Prefill, Self::Decode, Self::Encode];

    /// The word for it in YAML, metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Aggregated => "aggregated",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Encode => "encode",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The routing group of workers and requests that name none; also the model-less default.
pub const DEFAULT_GROUP: &str = "default";

/// What shares one policy instance, one ledger and one queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartitionKey {
    /// The model's name, as clients ask for it.
    pub model: Arc<str>,
    /// The routing group.
    pub routing_group: Arc<str>,
    /// What the workers do.
    pub role: Role,
}

impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.model, self.routing_group, self.role)
    }
}

/// Names one decision within a router's life: in receipts, logs and what observers are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DecisionId(pub u64);

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
