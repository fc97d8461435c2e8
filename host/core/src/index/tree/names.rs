//! Blocks by what engines call them.
//!
//! Owns the tables from an engine's hash to the block that was first told of by it. Names are kept
//! by half of their bits and compared with the block's own, so that a name costs eight bytes. It
//! doesn't know names that one engine alone uses.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::place::{Place, Reference};
use super::run::Run;

/// Tables that the engines' hashes are spread over, so that none takes long to grow.
const SHARDS: usize = 256;

/// Names that a table has room for when it gets its first.
const ROOM_AT_FIRST: usize = 28;

/// A block's name in the tables: enough of the engine's hash to tell it from most others without a
/// look at the block.
#[derive(Clone, Copy, Debug)]
struct Name {
    tag: Tag,
    block: Reference,
}

/// Half of an engine's hash, spread: those may be anything, small numbers too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag(u32);

impl Tag {
    fn of(engine: u64) -> Self {
        let spread = engine.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self((spread >> 32) as u32 ^ spread as u32)
    }

    /// Which table.
    fn shard(self) -> usize {
        self.0 as usize % SHARDS
    }

    /// The hash that the table goes by: other bits than those that chose it.
    fn hash(self) -> u64 {
        u64::from(self.0).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_right(32)
    }
}

/// The tables.
#[derive(Debug)]
pub(super) struct Names(Vec<HashTable<Name>>);

impl Names {
    pub(super) fn new() -> Self {
        Self((0..SHARDS).map(|_| HashTable::new()).collect())
    }

    /// The block that an engine calls so, if it was the first to tell us of it.
    pub(super) fn find(&self, runs: &[Run], engine: u64) -> Option<Place> {
        let tag = Tag::of(engine);
        let found = self
            .0
            .get(tag.shard())?
            .find(tag.hash(), |name| name.tag == tag && name.block.engine(runs) == Some(engine))?;
        found.block.resolve(runs)
    }

    /// Makes the block at a place known by its engine's hash. False if another one is.
    pub(super) fn enter(&mut self, runs: &[Run], engine: u64, place: Place) -> bool {
        let tag = Tag::of(engine);
        let Some(table) = self.0.get_mut(tag.shard()) else { return false };
        if table.capacity() == 0 {
            // Most grow further at once: the smallest steps are left out.
            table.reserve(ROOM_AT_FIRST, |name| name.tag.hash());
        }
        let same = |name: &Name| name.tag == tag && name.block.engine(runs) == Some(engine);
        match table.entry(tag.hash(), same, |name| name.tag.hash()) {
            Entry::Vacant(entry) => {
                entry.insert(Name { tag, block: Reference::to(place) });
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// Makes the block at a place unknown by its engine's hash, if it is the one that is known by it.
    pub(super) fn remove(&mut self, runs: &[Run], engine: u64, place: Place) {
        let tag = Tag::of(engine);
        let Some(table) = self.0.get_mut(tag.shard()) else { return };
        let same = |name: &Name| name.tag == tag && name.block.resolve(runs) == Some(place);
        if let Ok(entry) = table.find_entry(tag.hash(), same) {
            entry.remove();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(HashTable::allocation_size).sum()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(HashTable::len).sum()
    }
}
