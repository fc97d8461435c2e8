//! The way of one run of feeds into the index, which can be shut.
//!
//! A feed's task may be in the middle of a batch when the worker's life ends. What it still applies
//! would be credited to the next life, so it goes through a gate: once [`Gate::close`] returns,
//! nothing of the run reaches the index any more, and the ranks can be cleared for good.

use std::sync::Arc;

use parking_lot::RwLock;
use pointsman_core::fleet::Epoch;
use pointsman_core::ids::WorkerRank;
use pointsman_core::index::{Applied, CacheEvent};
use pointsman_core::partition::Partition;

use crate::feeds::CacheSink;

/// The way into the index.
#[derive(Debug)]
pub(super) struct Gate {
    partition: Arc<Partition>,
    /// The life of the worker: the core takes in nothing of another.
    epoch: Epoch,
    /// Read for as long as a step of an event is applied, so that closing waits for those that are.
    open: RwLock<bool>,
}

impl Gate {
    /// An open one.
    pub(super) fn new(partition: Arc<Partition>, epoch: Epoch) -> Arc<Self> {
        Arc::new(Self { partition, epoch, open: RwLock::new(true) })
    }

    /// Shuts it for good. Waits for a step of an event that is being applied, about a thousand
    /// blocks; nothing comes of the event's rest.
    pub(super) fn close(&self) {
        *self.open.write() = false;
    }

    pub(super) fn is_open(&self) -> bool {
        *self.open.read()
    }

    /// Forgets all of these ranks, told or predicted, if it is open.
    pub(super) fn forget(&self, ranks: impl Iterator<Item = WorkerRank>) {
        let open = self.open.read();
        if *open {
            ranks.for_each(|rank| self.partition.cache().remove_rank(rank));
        }
    }
}

impl CacheSink for Gate {
    fn apply(&self, rank: WorkerRank, event: CacheEvent<'_>) -> Applied {
        let cache = self.partition.cache();
        // An engine that only began anew has told nothing yet.
        if matches!(event, CacheEvent::Cleared) && !cache.tells(rank) {
            return Applied::default();
        }
        let enter = || Some(self.open.read()).filter(|open| **open);
        cache.apply_while(rank, self.epoch, event, enter)
    }

    fn live(&self, rank: WorkerRank) {
        let open = self.open.read();
        if *open {
            self.partition.cache().expect_events(rank);
        }
    }
}
