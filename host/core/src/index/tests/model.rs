//! The index, done slowly: one map per rank, and every question answered from it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{Tier, tree};
use crate::fleet::{Fleet, Snapshot, WorkerSpec};
use crate::hashing::sequence_hash;
use crate::ids::{DpRank, PartitionKey, Role, WorkerId, WorkerRank};

/// Rank 0 of a worker.
pub(in crate::index) fn rank(worker: u64) -> WorkerRank {
    WorkerRank { worker_id: WorkerId(worker), dp_rank: DpRank(0) }
}

/// Where they all belong.
pub(in crate::index) fn partition() -> PartitionKey {
    crate::testing::key(Role::Aggregated)
}

/// The rows of so many workers.
pub(in crate::index) fn snapshot(workers: u64) -> Snapshot {
    let mut fleet = Fleet::default();
    for worker in 0..workers {
        let spec = WorkerSpec::new(WorkerId(worker), "http://w", partition());
        fleet.upsert(spec).expect("nothing is wrong with it");
    }
    fleet.snapshot(&partition())
}

/// Sequence hashes of block hashes.
pub(in crate::index) fn chain(blocks: &[u64]) -> Vec<u64> {
    let mut parent = None;
    blocks
        .iter()
        .map(|&block| {
            let hash = sequence_hash(parent, block);
            parent = Some(hash);
            hash
        })
        .collect()
}

/// A stretch that waits for its parent.
#[derive(Clone, Debug)]
struct Waiting {
    parent: u64,
    blocks: Vec<u64>,
    tier: Tier,
    gone: BTreeSet<u64>,
}

/// The slow index, for engines that call a block by its sequence hash.
#[derive(Debug, Default)]
pub(in crate::index) struct Model {
    /// Copies of each block.
    held: BTreeMap<WorkerRank, BTreeMap<(u64, usize), u32>>,
    waiting: BTreeMap<WorkerRank, Vec<Waiting>>,
    /// Every block ever named, and the one before.
    parents: BTreeMap<u64, Option<u64>>,
}

impl Model {
    pub(in crate::index) fn store(
        &mut self,
        rank: WorkerRank,
        parent: Option<u64>,
        blocks: &[u64],
        tier: Tier,
    ) {
        if parent.is_some_and(|parent| !self.known().contains(&parent)) {
            let waiting = Waiting {
                parent: parent.unwrap_or_default(),
                blocks: blocks.to_vec(),
                tier,
                gone: BTreeSet::new(),
            };
            self.waiting.entry(rank).or_default().push(waiting);
            return;
        }
        self.place(rank, parent, blocks, tier);
        let mut known = blocks.to_vec();
        while let Some(block) = known.pop() {
            let waiting = self.waiting.entry(rank).or_default();
            let (linked, left) =
                std::mem::take(waiting).into_iter().partition(|w| w.parent == block);
            *waiting = left;
            for Waiting { parent, blocks, tier, gone } in linked {
                self.place(rank, Some(parent), &blocks, tier);
                for &block in &gone {
                    self.take(rank, block, tier);
                }
                known.extend(blocks);
            }
        }
    }

    fn place(&mut self, rank: WorkerRank, mut parent: Option<u64>, blocks: &[u64], tier: Tier) {
        for &block in blocks {
            self.parents.insert(block, parent);
            *self.held.entry(rank).or_default().entry((block, tier as usize)).or_default() += 1;
            parent = Some(block);
        }
    }

    pub(in crate::index) fn remove(&mut self, rank: WorkerRank, blocks: &[u64], tier: Tier) {
        for &block in blocks {
            if self.known().contains(&block) {
                self.take(rank, block, tier);
                continue;
            }
            let waiting = self.waiting.entry(rank).or_default();
            // The last stretch that has it, as the last one stored.
            let found = waiting.iter().rposition(|w| w.tier == tier && w.blocks.contains(&block));
            if let Some(at) = found {
                waiting[at].gone.insert(block);
                let distinct: BTreeSet<u64> = waiting[at].blocks.iter().copied().collect();
                if waiting[at].gone.len() >= distinct.len() {
                    waiting.remove(at);
                }
            }
        }
    }

    fn take(&mut self, rank: WorkerRank, block: u64, tier: Tier) {
        let held = self.held.entry(rank).or_default();
        if let Some(copies) = held.get_mut(&(block, tier as usize)) {
            *copies -= 1;
            if *copies == 0 {
                held.remove(&(block, tier as usize));
            }
        }
    }

    pub(in crate::index) fn clear(&mut self, rank: WorkerRank) {
        self.held.remove(&rank);
        self.waiting.remove(&rank);
    }

    /// Blocks that somebody holds, and all before them.
    pub(in crate::index) fn known(&self) -> BTreeSet<u64> {
        let mut known = BTreeSet::new();
        for &(block, _) in self.held.values().flat_map(BTreeMap::keys) {
            let mut next = Some(block);
            while let Some(block) = next {
                if !known.insert(block) {
                    break;
                }
                next = self.parents.get(&block).copied().flatten();
            }
        }
        known
    }

    pub(in crate::index) fn held_blocks(&self) -> usize {
        self.held.values().map(BTreeMap::len).sum()
    }

    /// How many blocks of each tier a rank holds along a prompt.
    pub(in crate::index) fn overlap(&self, rank: WorkerRank, chain: &[u64]) -> [f64; Tier::COUNT] {
        let mut overlap = [0.0; Tier::COUNT];
        let mut at = 0;
        for tier in Tier::ALL {
            let held = |block: u64| {
                self.held.get(&rank).is_some_and(|held| held.contains_key(&(block, tier as usize)))
            };
            while chain.get(at).is_some_and(|&block| held(block)) {
                overlap[tier as usize] += 1.0;
                at += 1;
            }
        }
        overlap
    }
}

impl super::super::State {
    /// Whether everything that is said twice is said alike.
    pub(in crate::index) fn check(&self) {
        self.tree.check();
        let held: usize = self
            .ranks
            .iter()
            .filter_map(|(_, slot)| self.ranks.life(slot))
            .map(|life| life.held.iter().sum::<usize>())
            .sum();
        let dead = !self.ranks.dead().is_empty();
        assert!(dead || held == self.tree.held(), "{held} held, {} in runs", self.tree.held());
    }
}

impl tree::Tree {
    fn held(&self) -> usize {
        self.check_runs()
            .map(|(_, run)| {
                let coverages = Tier::ALL.iter().filter_map(|&tier| run.coverage(tier));
                coverages
                    .map(|c| {
                        let partial = c.partial.iter().map(|(_, depth)| usize::from(depth));
                        c.full.len() * run.blocks.len() + partial.sum::<usize>()
                    })
                    .sum::<usize>()
            })
            .sum()
    }
}
