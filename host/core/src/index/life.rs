//! What is known of one life of a rank's cache, besides the runs that it holds.
//!
//! Owns the counts by tier, the copies of blocks beyond the first, the names that only this engine
//! uses, and the stretches that wait for their parent. All of it goes with the life.

use hashbrown::HashMap;

use super::holders::Slot;
use super::orphans::Orphans;
use super::tier::Tier;
use super::tree::{Alias, Block, Place, Tree};

/// Names that are kept before any is looked at again.
const FEW_ALIASES: usize = 1_024;

/// Names that are kept, on average, for each block that is held.
const MOST_NAMES: usize = 4;

/// One life of a rank's cache.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Blocks held, by tier.
    pub(super) held: [usize; Tier::COUNT],
    /// Copies beyond the first, by sequence hash: of blocks that are held.
    copies: HashMap<(u64, Tier), u32>,
    /// Names of blocks that this engine alone uses.
    aliases: HashMap<u64, Known>,
    /// When so many names are kept, those go that lead nowhere.
    most_aliases: usize,
    pub(super) orphans: Orphans,
}

/// A block that this engine alone calls so, and how often it said so.
#[derive(Clone, Copy, Debug)]
struct Known {
    alias: Alias,
    stores: u32,
}

impl Life {
    pub(super) fn holds_nothing(&self) -> bool {
        self.held.iter().all(|&held| held == 0)
    }

    pub(super) fn held(&self) -> usize {
        self.held.iter().sum()
    }

    /// Blocks are held no longer.
    pub(super) fn let_go(&mut self, tier: Tier, blocks: usize) {
        let held = &mut self.held[tier as usize];
        *held = held.saturating_sub(blocks);
    }

    /// Whether a block that is known is what everyone calls so, held once.
    pub(super) fn is_plain(&self) -> bool {
        self.copies.is_empty() && self.aliases.is_empty() && self.orphans.is_empty()
    }

    /// Counts one copy more of each.
    pub(super) fn count_again(&mut self, sequences: &[u64], tier: Tier) {
        for &sequence in sequences {
            let copies = self.copies.entry((sequence, tier)).or_insert(0);
            *copies = copies.saturating_add(1);
        }
    }

    /// Counts one copy less; false if only the first is held.
    pub(super) fn take_copy(&mut self, sequence: u64, tier: Tier) -> bool {
        let Some(copies) = self.copies.get_mut(&(sequence, tier)) else { return false };
        *copies -= 1;
        if *copies == 0 {
            self.copies.remove(&(sequence, tier));
        }
        true
    }

    /// Where a name of this engine alone leads now.
    pub(super) fn alias(&self, tree: &Tree, engine: u64) -> Option<Place> {
        self.aliases.get(&engine)?.alias.resolve(tree)
    }

    /// Its engine calls these blocks so: those in `named` by names that it alone uses.
    pub(super) fn name(
        &mut self,
        tree: &Tree,
        slot: Slot,
        blocks: impl Iterator<Item = Block>,
        named: &[(u64, Alias)],
    ) {
        if !self.aliases.is_empty() {
            // What a name meant before, it means no longer.
            for Block { engine, sequence } in blocks {
                if self.aliases.get(&engine).is_some_and(|known| !known.alias.is_of(sequence)) {
                    self.aliases.remove(&engine);
                }
            }
        }
        for &(engine, alias) in named {
            let known = self.aliases.entry(engine).or_insert(Known { alias, stores: 0 });
            // The block may have gone and come back elsewhere.
            known.alias = alias;
            known.stores = known.stores.saturating_add(1);
        }
        if self.aliases.len() > self.most_aliases.max(FEW_ALIASES) {
            // Those go that the engine never took back, of blocks that it let go by others; and any,
            // if it has ever more for what it holds.
            let mut room = self.held() * MOST_NAMES + FEW_ALIASES / 2;
            self.aliases.retain(|_, known| {
                let place = known.alias.resolve(tree);
                let stays = room > 0 && place.is_some_and(|place| tree.holds(slot, place));
                room -= usize::from(stays);
                stays
            });
            self.most_aliases = self.aliases.len() * 2;
        }
    }

    /// The engine takes back a block by this name; the name goes when it was taken back as often as
    /// it was given.
    pub(super) fn take_name(&mut self, engine: u64) {
        let Some(known) = self.aliases.get_mut(&engine) else { return };
        known.stores -= 1;
        if known.stores == 0 {
            self.aliases.remove(&engine);
        }
    }

    /// Bytes that it takes, without the allocator's own.
    pub(super) fn bytes(&self) -> usize {
        self.copies.allocation_size() + self.aliases.allocation_size() + self.orphans.bytes()
    }

    #[cfg(test)]
    pub(super) fn extras(&self) -> (usize, usize) {
        (self.copies.len(), self.aliases.len())
    }
}
