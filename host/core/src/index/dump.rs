//! What an index holds, page by page, for whoever wants to look at it whole.
//!
//! Owns the shape of a page, and that nobody waits for more than one: what is told between two pages may
//! stand in both or in neither. It doesn't know who reads.

use hashbrown::HashMap;
use serde::Serialize;

use super::PrefixIndex;
use super::holders::{Coverage, Slot};
use super::tier::Tier;
use super::tree::RunId;
use crate::ids::WorkerRank;

/// Blocks that follow one another, and who holds how many of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DumpedRun {
    /// The sequence hash of the block before the first; none at a prompt's beginning.
    pub parent_hash: Option<u64>,
    /// Sequence hashes, in order; never empty.
    pub sequence_hashes: Vec<u64>,
    /// In no order.
    pub held: Vec<Held>,
}

/// Who holds the first blocks of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Who.
    #[serde(flatten)]
    pub worker: WorkerRank,
    /// Where.
    pub tier: Tier,
    /// How many, from the first on.
    pub blocks: u64,
}

impl PrefixIndex {
    /// The runs from place `from` on, until they have `most` blocks, and where to go on; none at the end.
    /// What ranks held that have gone is left out.
    #[must_use]
    pub fn dump(&self, from: usize, most: usize) -> (Vec<DumpedRun>, Option<usize>) {
        let state = self.state.look_up();
        let ranks: HashMap<Slot, WorkerRank> =
            state.ranks.iter().map(|(rank, slot)| (slot, rank)).collect();
        let (mut runs, mut blocks) = (Vec::new(), 0);
        let all = state.tree.run_numbers();
        for place in from..all {
            if blocks >= most {
                return (runs, Some(place));
            }
            let id = RunId::try_from(place).unwrap_or(RunId::MAX);
            let Some(run) = state.tree.run(id).filter(|run| !run.blocks.is_empty()) else {
                continue;
            };
            let mut held = Vec::new();
            for tier in Tier::ALL {
                if let Some(coverage) = run.coverage(tier) {
                    note(coverage, run.blocks.len(), tier, &ranks, &mut held);
                }
            }
            if held.is_empty() {
                continue;
            }
            blocks += run.blocks.len();
            runs.push(DumpedRun {
                parent_hash: state.tree.parent_of(id),
                sequence_hashes: run.blocks.iter().map(|block| block.sequence).collect(),
                held,
            });
        }
        (runs, None)
    }
}

fn note(
    coverage: &Coverage,
    len: usize,
    tier: Tier,
    ranks: &HashMap<Slot, WorkerRank>,
    held: &mut Vec<Held>,
) {
    let mut note = |slot: Slot, blocks: u64| {
        // Whoever has no rank any more is about to be swept.
        if let Some(&worker) = ranks.get(&slot) {
            held.push(Held { worker, tier, blocks });
        }
    };
    coverage.full.for_each(|slot| note(slot, len as u64));
    coverage.partial.iter().for_each(|(slot, depth)| note(slot, u64::from(depth)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashing::sequence_hash;
    use crate::index::{CacheEvent, Content, Stored};
    use crate::testing::rank;

    fn store(index: &PrefixIndex, worker: u64, parent: Option<u64>, blocks: &[u64], tier: Tier) {
        let content = Content::Blocks(blocks);
        let stored = Stored { parent, engines: blocks, content, tier };
        let applied = index.apply(rank(worker, 0), CacheEvent::Stored(stored));
        assert_eq!(applied.refused, 0);
    }

    /// Every (rank, tier, sequence hash) that a dump says is held.
    fn told(index: &PrefixIndex, most: usize) -> Vec<(WorkerRank, Tier, u64)> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(place) = from {
            let (runs, next) = index.dump(place, most);
            for run in runs {
                for held in &run.held {
                    let blocks = run.sequence_hashes.iter().take(held.blocks as usize);
                    all.extend(blocks.map(|&hash| (held.worker, held.tier, hash)));
                }
            }
            from = next;
        }
        all.sort_by_key(|(rank, tier, hash)| (*rank, *tier as usize, *hash));
        all
    }

    #[test]
    fn all_that_is_held_is_told_page_by_page_and_nothing_of_those_who_have_gone() {
        let index = PrefixIndex::default();
        store(&index, 1, None, &[1, 2, 3, 4], Tier::Device);
        store(&index, 2, None, &[1, 2], Tier::Device);
        store(&index, 2, Some(2), &[7], Tier::Host);
        store(&index, 3, None, &[1], Tier::Device);
        index.remove_rank(rank(3, 0));
        let mut chain = Vec::new();
        for block in [1, 2, 3, 4] {
            chain.push(sequence_hash(chain.last().copied(), block));
        }
        let fork = sequence_hash(Some(chain[1]), 7);
        let device = |worker, hashes: &[u64]| {
            hashes.iter().map(|&hash| (rank(worker, 0), Tier::Device, hash)).collect::<Vec<_>>()
        };
        let mut wanted = [device(1, &chain), device(2, &chain[..2])].concat();
        wanted.push((rank(2, 0), Tier::Host, fork));
        wanted.sort_by_key(|(rank, tier, hash)| (*rank, *tier as usize, *hash));
        for most in [1, 2, 100] {
            assert_eq!(told(&index, most), wanted, "pages of {most}");
        }
        let (runs, _) = index.dump(0, 100);
        let behind = runs.iter().find(|run| run.sequence_hashes == [fork]);
        assert_eq!(behind.map(|run| run.parent_hash), Some(Some(chain[1])));
        assert_eq!(PrefixIndex::default().dump(0, 10), (vec![], None));
    }
}
