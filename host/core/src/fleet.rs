//! The fleet: which workers there are, their ranks, taints and epochs.
//!
//! Owns the registered workers of all partitions and the [`Snapshot`] of each partition: its rows
//! in fixed order, swapped whole on every change. It doesn't know load (the ledger does) or how
//! workers are found and probed (the server does).

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use serde::Serialize;
use thiserror::Error;

use crate::ids::{DpRank, PartitionKey, WorkerId, WorkerRank};

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
    /// Free key-value marks, for policies.
    pub labels: BTreeMap<String, String>,
    /// KV blocks of each rank; none when it didn't say.
    pub total_kv_blocks: Option<u64>,
    /// The most tokens that it batches in one step; none when it didn't say.
    pub max_num_batched_tokens: Option<u64>,
    /// What it runs on; none when it didn't say.
    pub device_kind: Option<String>,
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
            labels: BTreeMap::new(),
            total_kv_blocks: None,
            max_num_batched_tokens: None,
            device_kind: None,
        }
    }

    /// Whether it has a rank.
    #[must_use]
    pub fn has_rank(&self, rank: DpRank) -> bool {
        let at = rank.0.checked_sub(self.data_parallel_start_rank);
        at.is_some_and(|at| at < self.data_parallel_size.get())
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

/// The rows of one partition at one time, in ascending (worker id, rank) order.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Grows with every change of the fleet.
    pub generation: u64,
    /// One per row.
    pub rows: Vec<WorkerRank>,
    /// One per row: which of `workers` the row belongs to.
    pub worker_of_row: Vec<u32>,
    /// The workers, ascending by id.
    pub workers: Vec<Worker>,
    /// Whether every worker is ready: then eligibility needs no look at them.
    pub all_ready: bool,
}

impl Snapshot {
    /// The worker of a row.
    #[must_use]
    pub fn worker(&self, row: usize) -> Option<&Worker> {
        self.workers.get(*self.worker_of_row.get(row)? as usize)
    }

    /// A worker by id.
    #[must_use]
    pub fn worker_by_id(&self, id: WorkerId) -> Option<&Worker> {
        let at = self.workers.binary_search_by_key(&id, |worker| worker.spec.worker_id);
        self.workers.get(at.ok()?)
    }

    /// The row of a worker's rank.
    #[must_use]
    pub fn row_of(&self, rank: WorkerRank) -> Option<usize> {
        self.rows.binary_search(&rank).ok()
    }

    fn build(generation: u64, workers: Vec<Worker>) -> Self {
        let mut rows = Vec::new();
        let mut worker_of_row = Vec::new();
        for (i, worker) in workers.iter().enumerate() {
            for dp_rank in worker.spec.ranks() {
                rows.push(WorkerRank { worker_id: worker.spec.worker_id, dp_rank });
                worker_of_row.push(i as u32);
            }
        }
        let all_ready = workers.iter().all(|w| w.availability == Availability::Ready);
        Self { generation, rows, worker_of_row, workers, all_ready }
    }
}

/// Why a worker was not taken up.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum FleetError {
    /// Another block size than its partition's.
    #[error(
        "worker {worker_id}: block size {given} in partition {partition}, whose workers have {expected}; \
         register it under another routing group, or start it with {expected}"
    )]
    BlockSize {
        /// The worker.
        worker_id: WorkerId,
        /// Where it should have gone.
        partition: PartitionKey,
        /// What it has.
        given: NonZeroU32,
        /// What the others have.
        expected: NonZeroU32,
    },
    /// Too many ranks.
    #[error(
        "worker {worker_id}: {given} ranks from rank {start}; at most {MAX_RANKS_PER_WORKER}, and the last rank below 2^32 - 1"
    )]
    Ranks {
        /// The worker.
        worker_id: WorkerId,
        /// Its first rank.
        start: u32,
        /// How many.
        given: u32,
    },
    /// Not there.
    #[error("no worker {0}; see the list of workers for those that are registered")]
    Unknown(WorkerId),
}

/// All workers, over all partitions.
#[derive(Debug, Default)]
pub struct Fleet {
    workers: BTreeMap<WorkerId, Worker>,
    last_epoch: u64,
    generation: u64,
}

impl Fleet {
    /// Whether [`Fleet::upsert`] would take a worker now.
    pub fn check(&self, spec: &WorkerSpec) -> Result<(), FleetError> {
        let (start, given) = (spec.data_parallel_start_rank, spec.data_parallel_size.get());
        // Rank u32::MAX stands for "not set" on some engines' wires, so none may have it.
        if given > MAX_RANKS_PER_WORKER || start.checked_add(given).is_none() {
            return Err(FleetError::Ranks { worker_id: spec.worker_id, start, given });
        }
        let sibling = self.workers.values().find(|other| {
            other.spec.partition == spec.partition && other.spec.worker_id != spec.worker_id
        });
        match sibling {
            Some(sibling) if sibling.spec.block_size != spec.block_size => {
                Err(FleetError::BlockSize {
                    worker_id: spec.worker_id,
                    partition: spec.partition.clone(),
                    given: spec.block_size,
                    expected: sibling.spec.block_size,
                })
            }
            _ => Ok(()),
        }
    }

    /// Registers a worker, or changes a registered one. A change of endpoint, partition, ranks or
    /// block size begins a new epoch: it is another engine. Returns the partitions that changed;
    /// none when the worker is as it was.
    pub fn upsert(&mut self, spec: WorkerSpec) -> Result<Vec<PartitionKey>, FleetError> {
        self.check(&spec)?;
        let old = self.workers.get(&spec.worker_id);
        let leaving = old.is_some_and(|old| old.availability == Availability::Draining);
        if !leaving && old.is_some_and(|old| *old.spec == spec) {
            return Ok(Vec::new());
        }
        let mut changed = vec![spec.partition.clone()];
        if let Some(old) = old
            && old.spec.partition != spec.partition
        {
            changed.push(old.spec.partition.clone());
        }
        let (epoch, availability) = match old.filter(|old| same_engine(&old.spec, &spec)) {
            // A worker that registers again takes back its farewell.
            Some(old) if leaving => (old.epoch, Availability::Ready),
            Some(old) => (old.epoch, old.availability),
            None => {
                self.last_epoch += 1;
                (Epoch(self.last_epoch), Availability::Ready)
            }
        };
        self.workers.insert(spec.worker_id, Worker { spec: Arc::new(spec), epoch, availability });
        self.generation += 1;
        Ok(changed)
    }

    /// Takes a worker out at once. Returns what it was.
    pub fn remove(&mut self, id: WorkerId) -> Result<Worker, FleetError> {
        let worker = self.workers.remove(&id).ok_or(FleetError::Unknown(id))?;
        self.generation += 1;
        Ok(worker)
    }

    /// Sets whether a worker may be given requests. Returns its partition if that changed it.
    /// A draining worker stays so until it registers again.
    pub fn set_availability(
        &mut self,
        id: WorkerId,
        availability: Availability,
    ) -> Result<Option<PartitionKey>, FleetError> {
        let worker = self.workers.get_mut(&id).ok_or(FleetError::Unknown(id))?;
        if worker.availability == availability || worker.availability == Availability::Draining {
            return Ok(None);
        }
        worker.availability = availability;
        self.generation += 1;
        Ok(Some(worker.spec.partition.clone()))
    }

    /// A worker by id.
    #[must_use]
    pub fn get(&self, id: WorkerId) -> Option<&Worker> {
        self.workers.get(&id)
    }

    /// All workers, ascending by id.
    pub fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.workers.values()
    }

    /// The rows of one partition now.
    #[must_use]
    pub fn snapshot(&self, partition: &PartitionKey) -> Snapshot {
        let workers = self.workers.values().filter(|w| w.spec.partition == *partition);
        Snapshot::build(self.generation, workers.cloned().collect())
    }
}

/// Whether a registration changes only the marks of a worker, and not what it is.
fn same_engine(old: &WorkerSpec, new: &WorkerSpec) -> bool {
    old.endpoint == new.endpoint
        && old.partition == new.partition
        && old.data_parallel_start_rank == new.data_parallel_start_rank
        && old.data_parallel_size == new.data_parallel_size
        && old.block_size == new.block_size
}

#[cfg(test)]
mod tests;
