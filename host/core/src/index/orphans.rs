//! Stores that can't be placed yet: nobody knows the block before.
//!
//! Owns one slot's stretches of blocks whose parent is unknown, because the message that named it
//! was lost or it was evicted before. They count for nothing until the parent is stored; then they
//! are placed behind it, without the blocks that were removed meanwhile. What waits is limited, and
//! the oldest goes first.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::event::{OwnedContent, Stored};
use super::tier::Tier;

/// The most blocks of one slot that wait.
pub(super) const MOST_ORPHANS: usize = 16_384;

/// The most bytes of what is in them: blocks of any size that an engine is likely to have.
const MOST_BYTES: usize = 32 << 20;

/// A stretch that waits.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) parent: u64,
    pub(super) tier: Tier,
    pub(super) engines: Vec<u64>,
    pub(super) content: OwnedContent,
    /// Those of its blocks that were removed meanwhile, each as often as it was.
    pub(super) gone: Vec<u64>,
}

/// All that wait.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// By the order in which they came.
    waiting: BTreeMap<u64, Orphan>,
    by_parent: HashMap<u64, Vec<u64>>,
    /// Which stretches a block is of, and not gone from, in the order in which they came.
    owners: HashMap<(u64, Tier), SmallVec<[u64; 1]>>,
    next: u64,
    blocks: usize,
    /// Bytes of what is in them.
    content: usize,
}

impl Orphans {
    /// Blocks that wait.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a block waits, in any tier.
    pub(super) fn has(&self, engine: u64) -> bool {
        Tier::ALL.iter().any(|&tier| self.owners.contains_key(&(engine, tier)))
    }

    /// Keeps a store of at least one block until its parent is known. Returns how many blocks were
    /// given up for it.
    pub(super) fn keep(&mut self, parent: u64, stored: &Stored<'_>) -> usize {
        let number = self.next;
        self.next += 1;
        self.blocks += stored.engines.len();
        self.by_parent.entry(parent).or_default().push(number);
        for &engine in stored.engines {
            self.owners.entry((engine, stored.tier)).or_default().push(number);
        }
        let orphan = Orphan {
            parent,
            tier: stored.tier,
            engines: stored.engines.to_vec(),
            content: stored.content.to_owned(),
            gone: Vec::new(),
        };
        self.content += orphan.content.bytes();
        self.waiting.insert(number, orphan);
        let mut given_up = 0;
        while self.blocks > MOST_ORPHANS || self.content > MOST_BYTES {
            let Some((&oldest, _)) = self.waiting.first_key_value() else { break };
            given_up += self.take(oldest).map_or(0, |orphan| orphan.engines.len());
        }
        given_up
    }

    /// Takes note that a block is gone, the one that came last if it came several times; false if
    /// it isn't one of these.
    pub(super) fn remove(&mut self, engine: u64, tier: Tier) -> bool {
        let Some(owners) = self.owners.get_mut(&(engine, tier)) else { return false };
        let number = owners.pop();
        if owners.is_empty() {
            self.owners.remove(&(engine, tier));
        }
        let Some(number) = number else { return false };
        let Some(orphan) = self.waiting.get_mut(&number) else { return false };
        orphan.gone.push(engine);
        if orphan.gone.len() >= orphan.engines.len() {
            self.take(number);
        }
        true
    }

    /// Takes those out that wait for a block.
    pub(super) fn children_of(&mut self, parent: u64) -> Vec<Orphan> {
        let numbers = self.by_parent.remove(&parent).unwrap_or_default();
        numbers.into_iter().filter_map(|number| self.take(number)).collect()
    }

    fn take(&mut self, number: u64) -> Option<Orphan> {
        let orphan = self.waiting.remove(&number)?;
        self.blocks -= orphan.engines.len();
        self.content -= orphan.content.bytes();
        if let Some(siblings) = self.by_parent.get_mut(&orphan.parent) {
            siblings.retain(|sibling| *sibling != number);
            if siblings.is_empty() {
                self.by_parent.remove(&orphan.parent);
            }
        }
        for &engine in &orphan.engines {
            let key = (engine, orphan.tier);
            if let Some(owners) = self.owners.get_mut(&key) {
                owners.retain(|owner| *owner != number);
                if owners.is_empty() {
                    self.owners.remove(&key);
                }
            }
        }
        Some(orphan)
    }

    /// Bytes that they take, without the allocator's own.
    pub(super) fn bytes(&self) -> usize {
        let waiting = self.waiting.values().map(|orphan| {
            let names = (orphan.engines.capacity() + orphan.gone.capacity()) * size_of::<u64>();
            size_of::<Orphan>() + names
        });
        waiting.sum::<usize>()
            + self.content
            + self.by_parent.allocation_size()
            + self.owners.allocation_size()
    }
}
