//! The fleet: which workers there are, their ranks, taints and epochs.
//!
//! Owns the registered workers of all partitions and the [`Snapshot`] of each partition: its rows
//! in fixed order, swapped whole on every change. It doesn't know load (the ledger does) or how
//! workers are found and probed (the server does).

mod snapshot;
mod worker;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use thiserror::Error;

use crate::disaggregation::Protocol;
use crate::ids::{PartitionKey, Role, WorkerId};

pub use snapshot::Snapshot;
pub use worker::{
    Availability, CacheFeed, CacheFeedMode, DEFAULT_BLOCK_SIZE, Epoch, MAX_RANKS_PER_WORKER,
    Worker, WorkerSpec,
};

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
    /// Another protocol than those speak that it shares prompts with.
    #[error(
        "worker {worker_id}: protocol {given} for model {model}, group {group}, whose worker {other} speaks \
         {expected}; register it under another routing group",
        model = partition.model, group = partition.routing_group,
        given = given.as_str(), expected = expected.as_str()
    )]
    Protocol {
        /// The worker.
        worker_id: WorkerId,
        /// Where it should have gone.
        partition: PartitionKey,
        /// What it speaks.
        given: Protocol,
        /// What the others speak.
        expected: Protocol,
        /// One of the others.
        other: WorkerId,
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
    /// The same by their partitions, so that one is found without a look at all others.
    members: BTreeMap<PartitionKey, BTreeMap<WorkerId, Worker>>,
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
        let sibling =
            self.members(&spec.partition).find(|other| other.spec.worker_id != spec.worker_id);
        let halves = [Role::Prefill, Role::Decode];
        // All of a half speak the same, so that one of each tells.
        let mut both = halves.into_iter().filter_map(|role| {
            let half = PartitionKey { role, ..spec.partition.clone() };
            self.members(&half).find(|other| other.spec.worker_id != spec.worker_id)
        });
        let other =
            both.find(|other| other.spec.disaggregation.protocol != spec.disaggregation.protocol);
        if let Some(other) = other.filter(|_| halves.contains(&spec.partition.role)) {
            return Err(FleetError::Protocol {
                worker_id: spec.worker_id,
                partition: spec.partition.clone(),
                given: spec.disaggregation.protocol,
                expected: other.spec.disaggregation.protocol,
                other: other.spec.worker_id,
            });
        }
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
        let (epoch, availability) = match old.filter(|old| old.spec.same_engine(&spec)) {
            // A worker that registers again takes back its farewell.
            Some(old) if leaving => (old.epoch, Availability::Ready),
            Some(old) => (old.epoch, old.availability),
            None => {
                self.last_epoch += 1;
                (Epoch(self.last_epoch), Availability::Ready)
            }
        };
        let (id, partition) = (spec.worker_id, spec.partition.clone());
        let worker = Worker { spec: Arc::new(spec), epoch, availability };
        if let Some(before) = self.workers.insert(id, worker.clone()) {
            self.leave(id, &before.spec.partition);
        }
        self.members.entry(partition).or_default().insert(id, worker);
        self.generation += 1;
        Ok(changed)
    }

    /// Takes a worker out at once. Returns what it was.
    pub fn remove(&mut self, id: WorkerId) -> Result<Worker, FleetError> {
        let worker = self.workers.remove(&id).ok_or(FleetError::Unknown(id))?;
        self.leave(id, &worker.spec.partition);
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
        let partition = worker.spec.partition.clone();
        let member = self.members.get_mut(&partition).and_then(|members| members.get_mut(&id));
        if let Some(member) = member {
            member.availability = availability;
        }
        self.generation += 1;
        Ok(Some(partition))
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
        Snapshot::build(self.generation, self.members(partition).cloned().collect())
    }

    /// The workers of one partition, ascending by id.
    fn members(&self, partition: &PartitionKey) -> impl Iterator<Item = &Worker> {
        self.members.get(partition).into_iter().flat_map(BTreeMap::values)
    }

    /// A worker is no longer of a partition.
    fn leave(&mut self, id: WorkerId, partition: &PartitionKey) {
        let Some(members) = self.members.get_mut(partition) else { return };
        members.remove(&id);
        if members.is_empty() {
            self.members.remove(partition);
        }
    }
}

#[cfg(test)]
mod tests;
