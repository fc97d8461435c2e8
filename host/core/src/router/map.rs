//! The partitions by key, found without a lock.
//!
//! Owns how one is found while others begin and end. Each key has one of a few hundred small maps, which
//! is swapped whole when it changes, so that beginning one partition copies a part of the others and not
//! all of them. It doesn't know when a partition begins or ends; whoever changes it does so one
//! change at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use xxhash_rust::xxh3::xxh3_64;

use crate::ids::PartitionKey;
use crate::partition::Partition;

/// Small maps: of thousands of partitions, each has a dozen.
const PARTS: usize = 256;

type Part = BTreeMap<PartitionKey, Arc<Partition>>;

/// The partitions.
#[derive(Debug)]
pub(super) struct PartitionMap {
    parts: [ArcSwap<Part>; PARTS],
}

impl Default for PartitionMap {
    fn default() -> Self {
        let empty = Arc::<Part>::default();
        Self { parts: std::array::from_fn(|_| ArcSwap::new(empty.clone())) }
    }
}

impl PartitionMap {
    pub(super) fn get(&self, key: &PartitionKey) -> Option<Arc<Partition>> {
        self.part(key)?.load().get(key).cloned()
    }

    /// All that there are, in the order of their keys.
    pub(super) fn all(&self) -> Vec<Arc<Partition>> {
        let mut all: Vec<Arc<Partition>> = Vec::new();
        for part in &self.parts {
            all.extend(part.load().values().cloned());
        }
        all.sort_unstable_by(|one, other| one.key().cmp(other.key()));
        all
    }

    /// Shows all that there are, in no order.
    pub(super) fn for_each(&self, mut show: impl FnMut(&Partition)) {
        for part in &self.parts {
            part.load().values().for_each(|partition| show(partition));
        }
    }

    /// The first that `find` finds among the partitions of a model.
    pub(super) fn of_model<T>(
        &self,
        model: &str,
        find: impl Fn(&Partition) -> Option<T>,
    ) -> Option<T> {
        let of_part = |part: &ArcSwap<Part>| {
            let part = part.load();
            let its = part.values().filter(|partition| *partition.key().model == *model);
            its.filter_map(|partition| find(partition)).next()
        };
        self.parts.iter().find_map(of_part)
    }

    pub(super) fn insert(&self, partition: Arc<Partition>) {
        let key = partition.key().clone();
        self.change(&key.clone(), |part| part.insert(key, partition));
    }

    pub(super) fn remove(&self, key: &PartitionKey) {
        self.change(key, |part| part.remove(key));
    }

    fn change<R>(&self, key: &PartitionKey, change: impl FnOnce(&mut Part) -> R) {
        let Some(part) = self.part(key) else { return };
        let mut changed = Part::clone(&part.load());
        change(&mut changed);
        part.store(Arc::new(changed));
    }

    fn part(&self, key: &PartitionKey) -> Option<&ArcSwap<Part>> {
        let PartitionKey { model, routing_group, role } = key;
        let mixed = xxh3_64(model.as_bytes()) ^ xxh3_64(routing_group.as_bytes()).rotate_left(1);
        self.parts.get((mixed as usize ^ *role as usize) % PARTS)
    }
}
