//! One run: a stretch of blocks without a fork, and who holds how much of it.
//!
//! Owns what is said of one run alone. It doesn't know other runs, or how it is found.

use super::place::{NO_RUN, Place, Reference, RunId};
use crate::hashing::Scope;
use crate::index::holders::{Coverage, Slot, SlotSet};
use crate::index::tier::Tier;

/// The most blocks of one run.
pub(in crate::index) const LONGEST: usize = 64;

/// A block: how we name it with all before it, and how the engine that told us first does.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct Block {
    pub(in crate::index) sequence: u64,
    pub(in crate::index) engine: u64,
}

/// A stretch of blocks.
#[derive(Debug)]
pub(in crate::index) struct Run {
    pub(in crate::index) blocks: Vec<Block>,
    /// The last block's sequence hash, here so that most look-ups needn't read the blocks.
    pub(in crate::index) last: u64,
    /// Whether some of its blocks aren't known by their engine's hash, as another block is.
    pub(super) has_unnamed: bool,
    /// What its blocks' hashes were seeded with.
    pub(super) scope: Scope,
    /// The block before its first; none at the root.
    pub(super) parent: Reference,
    /// How many runs follow its last block.
    pub(super) children: u32,
    /// What was cut off its end, which is one of its children.
    pub(super) continuation: RunId,
    pub(in crate::index) device: Coverage,
    /// Host, disk, external: of the few runs that such a tier holds.
    pub(super) lower: Option<Box<[Coverage; Tier::COUNT - 1]>>,
}

impl Run {
    pub(in crate::index) fn coverage(&self, tier: Tier) -> Option<&Coverage> {
        match tier.lower() {
            None => Some(&self.device),
            Some(at) => self.lower.as_ref().and_then(|lower| lower.get(at)),
        }
    }

    pub(super) fn coverage_mut(&mut self, tier: Tier) -> &mut Coverage {
        match tier.lower() {
            None => &mut self.device,
            Some(at) => &mut self.lower.get_or_insert_default()[at],
        }
    }

    fn coverages(&self) -> impl Iterator<Item = &Coverage> {
        std::iter::once(&self.device).chain(self.lower.iter().flat_map(|lower| lower.iter()))
    }

    pub(super) fn coverages_mut(&mut self) -> impl Iterator<Item = &mut Coverage> {
        std::iter::once(&mut self.device).chain(self.lower.iter_mut().flat_map(|l| l.iter_mut()))
    }

    /// How many of its blocks, from the first on, a slot holds in a tier.
    pub(in crate::index) fn depth(&self, slot: Slot, tier: Tier) -> usize {
        self.coverage(tier).map_or(0, |coverage| coverage.depth(slot, self.blocks.len()))
    }

    /// The longest holding of it.
    pub(super) fn deepest(&self) -> usize {
        let len = self.blocks.len();
        self.coverages().map(|coverage| coverage.deepest(len)).max().unwrap_or(0)
    }

    /// Takes note that the run grew from `len` blocks: those that held all of it hold its beginning.
    pub(super) fn outgrow(&mut self, len: usize) {
        for coverage in self.coverages_mut() {
            coverage.outgrow(len);
        }
    }

    /// How many slots hold all of it, counted for each tier.
    pub(super) fn full_holders(&self) -> usize {
        self.coverages().map(|coverage| coverage.full.len()).sum()
    }

    /// Takes slots out of it altogether.
    pub(super) fn forget(&mut self, slots: &SlotSet) {
        for coverage in self.coverages_mut() {
            coverage.forget(slots);
        }
    }

    /// Cuts off the blocks from `at` on, which go on as they are: `id` is this run's number. What
    /// follows them follows the part that was cut off.
    pub(super) fn split_off(&mut self, id: RunId, at: usize) -> Self {
        let blocks = self.blocks.split_off(at);
        self.blocks.shrink_to_fit();
        let lower = self
            .lower
            .as_mut()
            .map(|lower| Box::new(lower.each_mut().map(|coverage| coverage.split_off(at))));
        let tail = Self {
            last: self.last,
            has_unnamed: self.has_unnamed,
            scope: self.scope,
            parent: Reference::to(Place { run: id, at: at - 1 }),
            children: self.children,
            continuation: self.continuation,
            device: self.device.split_off(at),
            lower,
            blocks,
        };
        self.end_with_last_block();
        self.children = 1;
        self.continuation = NO_RUN;
        tail
    }

    /// Cuts it short to the `len` blocks that somebody holds.
    pub(super) fn shorten(&mut self, len: usize) {
        self.blocks.truncate(len);
        self.end_with_last_block();
        for coverage in self.coverages_mut() {
            coverage.shorten(len);
        }
    }

    pub(super) fn end_with_last_block(&mut self) {
        self.last = self.blocks.last().map_or(0, |block| block.sequence);
    }

    /// Bytes that it takes beside itself.
    pub(super) fn bytes(&self) -> usize {
        let lower = self.lower.as_ref().map_or(0, |lower| size_of_val(&**lower));
        let coverages: usize = self.coverages().map(Coverage::bytes).sum();
        self.blocks.capacity() * size_of::<Block>() + lower + coverages
    }
}

/// How many of the blocks are as wanted, from the first on. Sequence hashes that agree agree on all
/// before, so that the border can be searched by halves.
pub(in crate::index) fn common(blocks: &[Block], wanted: &[u64]) -> usize {
    let most = blocks.len().min(wanted.len());
    let agree = |at: usize| match (blocks.get(at), wanted.get(at)) {
        (Some(block), Some(&wanted)) => block.sequence == wanted,
        _ => false,
    };
    if most == 0 || agree(most - 1) {
        return most;
    }
    let (mut low, mut high) = (0, most - 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if agree(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
