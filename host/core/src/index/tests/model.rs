//! The index, done slowly: maps of what everyone said, and every question answered from them.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Tier;
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
    chain_behind(None, blocks)
}

fn chain_behind(mut parent: Option<u64>, blocks: &[u64]) -> Vec<u64> {
    let link = |&block: &u64| {
        let hash = sequence_hash(parent, block);
        parent = Some(hash);
        hash
    };
    blocks.iter().map(link).collect()
}

/// A stretch that waits for its parent.
#[derive(Clone, Debug)]
struct Waiting {
    parent: u64,
    names: Vec<u64>,
    blocks: Vec<u64>,
    tier: Tier,
    gone: Vec<u64>,
}

impl Waiting {
    /// How often a block is there and not gone.
    fn count(&self, name: u64) -> usize {
        let of = |names: &[u64]| names.iter().filter(|&&n| n == name).count();
        of(&self.names) - of(&self.gone)
    }
}

/// What one rank said.
#[derive(Clone, Debug, Default)]
struct Said {
    /// Copies of each block, by sequence hash and tier.
    held: BTreeMap<(u64, usize), u32>,
    waiting: Vec<Waiting>,
    /// Names that mean something else, or nothing, to the others: which block, and how often.
    names: BTreeMap<u64, (u64, u32)>,
}

impl Said {
    /// Whether it has another name for a block of its own.
    fn calls_otherwise(&self, block: u64, name: u64) -> bool {
        self.names.iter().any(|(&other, &(named, _))| named == block && other != name)
    }
}

/// The slow index.
#[derive(Clone, Debug, Default)]
pub(in crate::index) struct Model {
    said: BTreeMap<WorkerRank, Said>,
    /// Every block ever named, and the one before.
    parents: BTreeMap<u64, Option<u64>>,
    /// How many hold a block or know one behind it.
    reasons: BTreeMap<u64, usize>,
    /// Blocks by the name of whoever told of them first.
    names: BTreeMap<u64, u64>,
    /// Whether some rank called one block by two names at once: no engine does, and whether both
    /// are forgotten when one is taken back is left open.
    pub(in crate::index) two_names: bool,
}

impl Model {
    fn know(&mut self, block: u64) {
        let mut next = Some(block);
        while let Some(block) = next {
            let reasons = self.reasons.entry(block).or_default();
            *reasons += 1;
            if *reasons > 1 {
                return;
            }
            next = self.parents.get(&block).copied().flatten();
        }
    }

    fn unknow(&mut self, block: u64) {
        let mut next = Some(block);
        while let Some(block) = next {
            let Some(reasons) = self.reasons.get_mut(&block) else { return };
            *reasons -= 1;
            if *reasons > 0 {
                return;
            }
            self.reasons.remove(&block);
            self.names.retain(|_, named| *named != block);
            next = self.parents.get(&block).copied().flatten();
        }
    }

    /// The block that a rank means by a name.
    fn find(&self, rank: WorkerRank, name: u64) -> Option<u64> {
        let own = self.said.get(&rank).and_then(|said| said.names.get(&name));
        own.map(|&(block, _)| block).or_else(|| self.names.get(&name).copied())
    }

    fn holds(&self, rank: WorkerRank, block: u64, tier: Tier) -> bool {
        self.said.get(&rank).is_some_and(|said| said.held.contains_key(&(block, tier as usize)))
    }

    pub(in crate::index) fn store(
        &mut self,
        rank: WorkerRank,
        parent: Option<u64>,
        names: &[u64],
        blocks: &[u64],
        tier: Tier,
    ) {
        let place = parent.map(|name| {
            let block = self.find(rank, name)?;
            let waits = |said: &Said| said.waiting.iter().any(|w| w.count(name) > 0);
            let waits = self.said.get(&rank).is_some_and(waits);
            let held = Tier::ALL.iter().any(|&tier| self.holds(rank, block, tier));
            (held || !waits).then_some(block)
        });
        if place == Some(None) {
            self.said.entry(rank).or_default().waiting.push(Waiting {
                parent: parent.unwrap_or_default(),
                names: names.to_vec(),
                blocks: blocks.to_vec(),
                tier,
                gone: Vec::new(),
            });
            return;
        }
        self.place(rank, place.flatten(), names, blocks, tier);
        let mut known = names.to_vec();
        while let Some(name) = known.pop() {
            // It may have been removed since it was told of.
            if self.find(rank, name).is_none() {
                continue;
            }
            let waiting = &mut self.said.entry(rank).or_default().waiting;
            let (linked, left) =
                std::mem::take(waiting).into_iter().partition(|w| w.parent == name);
            *waiting = left;
            for Waiting { names, blocks, tier, gone, .. } in linked {
                let parent = self.find(rank, name);
                self.place(rank, parent, &names, &blocks, tier);
                self.remove(rank, &gone, tier);
                known.extend(names);
            }
        }
    }

    fn place(
        &mut self,
        rank: WorkerRank,
        mut parent: Option<u64>,
        names: &[u64],
        blocks: &[u64],
        tier: Tier,
    ) {
        for (&name, block) in names.iter().zip(chain_behind(parent, blocks)) {
            self.parents.insert(block, parent);
            if !self.reasons.contains_key(&block) {
                self.names.entry(name).or_insert(block);
            }
            let general = self.names.get(&name) == Some(&block);
            let said = self.said.entry(rank).or_default();
            self.two_names |= said.calls_otherwise(block, name);
            match said.names.get_mut(&name) {
                Some((known, times)) if *known == block => *times += 1,
                _ if general => drop(said.names.remove(&name)),
                _ => drop(said.names.insert(name, (block, 1))),
            }
            let copies = said.held.entry((block, tier as usize)).or_default();
            *copies += 1;
            if *copies == 1 {
                self.know(block);
            }
            parent = Some(block);
        }
    }

    pub(in crate::index) fn remove(&mut self, rank: WorkerRank, names: &[u64], tier: Tier) {
        for &name in names {
            let held = self.find(rank, name).filter(|&block| self.holds(rank, block, tier));
            let Some(said) = self.said.get_mut(&rank) else { return };
            let Some(block) = held else {
                // The last stretch that has it, as the last one stored.
                let last = said.waiting.iter().rposition(|w| w.tier == tier && w.count(name) > 0);
                if let Some(at) = last {
                    said.waiting[at].gone.push(name);
                    if said.waiting[at].gone.len() == said.waiting[at].names.len() {
                        said.waiting.remove(at);
                    }
                }
                continue;
            };
            self.two_names |= said.calls_otherwise(block, name);
            if let Some((_, times)) = said.names.get_mut(&name) {
                *times -= 1;
                if *times == 0 {
                    said.names.remove(&name);
                }
            }
            let Some(copies) = said.held.get_mut(&(block, tier as usize)) else { continue };
            *copies -= 1;
            if *copies == 0 {
                said.held.remove(&(block, tier as usize));
                self.unknow(block);
            }
        }
    }

    pub(in crate::index) fn clear(&mut self, rank: WorkerRank) {
        for (block, _) in self.said.remove(&rank).unwrap_or_default().held.into_keys() {
            self.unknow(block);
        }
    }

    /// Blocks that somebody holds, and all before them.
    pub(in crate::index) fn known(&self) -> BTreeSet<u64> {
        self.reasons.keys().copied().collect()
    }

    pub(in crate::index) fn held_blocks(&self) -> usize {
        self.said.values().map(|said| said.held.len()).sum()
    }

    pub(in crate::index) fn orphans(&self) -> usize {
        self.said.values().flat_map(|said| &said.waiting).map(|w| w.names.len()).sum()
    }

    /// How many blocks of each tier a rank holds along a prompt.
    pub(in crate::index) fn overlap(&self, rank: WorkerRank, chain: &[u64]) -> [f64; Tier::COUNT] {
        let mut overlap = [0.0; Tier::COUNT];
        let mut at = 0;
        for tier in Tier::ALL {
            while chain.get(at).is_some_and(|&block| self.holds(rank, block, tier)) {
                overlap[tier as usize] += 1.0;
                at += 1;
            }
        }
        overlap
    }
}
