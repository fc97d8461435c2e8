//! Stores that can't be placed yet: nobody knows the block before.
//!
//! Owns one slot's stretches of blocks whose parent is unknown, because the message that named it
//! was lost or it was evicted before. They count for nothing until the parent is stored; then they
//! are placed behind it, without the blocks that were removed meanwhile. What waits is limited, in one
//! slot and over all, and the slot's oldest goes first.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::event::{OwnedContent, Stored};
use super::limits::Extras;
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

/// Stretches, each some times.
#[derive(Debug)]
enum Numbers {
    /// One, once.
    One(u64),
    /// Any, in the order in which they came. Those in the middle may go: no list.
    Many(BTreeMap<u64, u32>),
}

impl Numbers {
    fn add(&mut self, number: u64) {
        if let Self::One(first) = *self {
            *self = Self::Many([(first, 1)].into());
        }
        if let Self::Many(times) = self {
            *times.entry(number).or_insert(0) += 1;
        }
    }

    fn first(&self) -> Option<u64> {
        match self {
            Self::One(number) => Some(*number),
            Self::Many(times) => times.first_key_value().map(|(&number, _)| number),
        }
    }

    fn last(&self) -> Option<u64> {
        match self {
            Self::One(number) => Some(*number),
            Self::Many(times) => times.last_key_value().map(|(&number, _)| number),
        }
    }

    /// Takes one away, once or altogether; false if none is left.
    fn take(&mut self, number: u64, altogether: bool) -> bool {
        match self {
            Self::One(only) => *only != number,
            Self::Many(times) => {
                if let Some(left) = times.get_mut(&number) {
                    *left -= 1;
                    if altogether || *left == 0 {
                        times.remove(&number);
                    }
                }
                !times.is_empty()
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Many(times) => times.len() * size_of::<(u64, u32)>(),
        }
    }
}

/// Adds a stretch to those under a key.
fn add<K: Eq + std::hash::Hash>(map: &mut HashMap<K, Numbers>, key: K, number: u64) {
    match map.entry(key) {
        Entry::Occupied(mut known) => known.get_mut().add(number),
        Entry::Vacant(place) => {
            place.insert(Numbers::One(number));
        }
    }
}

/// Takes a stretch from those under a key, once or altogether.
fn take<K: Eq + std::hash::Hash>(
    map: &mut HashMap<K, Numbers>,
    key: K,
    number: u64,
    altogether: bool,
) {
    if let Entry::Occupied(mut known) = map.entry(key)
        && !known.get_mut().take(number, altogether)
    {
        known.remove();
    }
}

/// All that wait.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// By the order in which they came.
    waiting: BTreeMap<u64, Orphan>,
    by_parent: HashMap<u64, Numbers>,
    /// Which stretches a block is of, and how often it isn't gone from them.
    owners: HashMap<(u64, Tier), Numbers>,
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

    /// Bytes of what is in them.
    pub(super) fn content(&self) -> usize {
        self.content
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a block waits, in any tier.
    pub(super) fn has(&self, engine: u64) -> bool {
        Tier::ALL.iter().any(|&tier| self.owners.contains_key(&(engine, tier)))
    }

    /// Keeps a store of at least one block until its parent is known. Returns how many blocks were
    /// given up for it: its own, if they are too many by themselves. All of the slot's are not to be
    /// more than `most`: what others leave.
    pub(super) fn keep(&mut self, parent: u64, stored: &Stored<'_>, most: Extras) -> usize {
        let most_blocks = most.orphans.min(MOST_ORPHANS);
        let most_bytes = most.orphan_bytes.min(MOST_BYTES);
        if stored.engines.len() > most_blocks || stored.content.bytes() > most_bytes {
            return stored.engines.len();
        }
        let number = self.next;
        self.next += 1;
        self.blocks += stored.engines.len();
        add(&mut self.by_parent, parent, number);
        for &engine in stored.engines {
            add(&mut self.owners, (engine, stored.tier), number);
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
        while self.blocks > most_blocks || self.content > most_bytes {
            let Some((&oldest, _)) = self.waiting.first_key_value() else { break };
            given_up += self.take(oldest).map_or(0, |orphan| orphan.engines.len());
        }
        given_up
    }

    /// Takes note that a block is gone, the one that came last if it came several times; false if
    /// it isn't one of these.
    pub(super) fn remove(&mut self, engine: u64, tier: Tier) -> bool {
        let owners = self.owners.get(&(engine, tier));
        let Some(number) = owners.and_then(Numbers::last) else { return false };
        take(&mut self.owners, (engine, tier), number, false);
        let Some(orphan) = self.waiting.get_mut(&number) else { return false };
        orphan.gone.push(engine);
        if orphan.gone.len() >= orphan.engines.len() {
            self.take(number);
        }
        true
    }

    /// Whether any wait for a block.
    pub(super) fn are_behind(&self, parent: u64) -> bool {
        self.by_parent.contains_key(&parent)
    }

    /// Takes out the first of those that wait for a block.
    pub(super) fn next_behind(&mut self, parent: u64) -> Option<Orphan> {
        let number = self.by_parent.get(&parent)?.first()?;
        self.take(number)
    }

    fn take(&mut self, number: u64) -> Option<Orphan> {
        let orphan = self.waiting.remove(&number)?;
        self.blocks -= orphan.engines.len();
        self.content -= orphan.content.bytes();
        take(&mut self.by_parent, orphan.parent, number, true);
        for &engine in &orphan.engines {
            take(&mut self.owners, (engine, orphan.tier), number, true);
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
            + self.by_parent.values().chain(self.owners.values()).map(Numbers::bytes).sum::<usize>()
    }
}
