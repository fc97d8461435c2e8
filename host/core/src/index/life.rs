//! What is known of one life of a rank's cache, besides the runs that it holds.
//!
//! Owns the counts by tier, the copies of blocks beyond the first, the names that only this engine
//! uses, and the stretches that wait for their parent. All of it goes with the life.

use super::holders::Slot;
use super::limits::Extras;
use super::orphans::Orphans;
use super::table::Table;
use super::tier::Tier;
use super::tree::{Alias, Block, Place, Tree};

/// Names that are kept before any is looked at again.
const FEW_ALIASES: usize = 1_024;

/// Names that are kept, on average, for each block that is held.
const MOST_NAMES: usize = 4;

/// Names and copies in one part of their tables: looked at together, in some microseconds.
const PART: usize = 44;

/// One life of a rank's cache.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Blocks held, by tier.
    pub(super) held: [usize; Tier::COUNT],
    /// Copies beyond the first, by sequence hash: of blocks that are held.
    copies: Table<(u64, Tier), u32, PART>,
    /// Names of blocks that this engine alone uses.
    aliases: Table<u64, Known, PART>,
    tidying: Tidying,
    pub(super) orphans: Orphans,
}

/// A block that this engine alone calls so, and how often it said so.
#[derive(Clone, Copy, Debug)]
struct Known {
    alias: Alias,
    stores: u32,
}

/// Where names are looked at again.
#[derive(Debug, Default)]
struct Tidying {
    /// It begins with more names than that, twice as many as the last one left, or with too many for
    /// what is held.
    beyond: usize,
    /// The next part; none when no tidying is under way.
    next: Option<usize>,
    /// Names that it has kept so far.
    kept: usize,
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

    /// What it keeps besides the blocks that it holds.
    pub(super) fn extras(&self) -> Extras {
        Extras {
            names: self.copies.len() + self.aliases.len(),
            orphans: self.orphans.blocks(),
            orphan_bytes: self.orphans.content(),
        }
    }

    /// Counts one copy more of each, of so many at most that weren't counted. Returns how many there
    /// was no room for.
    pub(super) fn count_again(&mut self, sequences: &[u64], tier: Tier, room: usize) -> usize {
        let most = self.copies.len().saturating_add(room);
        let mut refused = 0;
        for &sequence in sequences {
            if self.copies.len() >= most && !self.copies.contains_key(&(sequence, tier)) {
                refused += 1;
                continue;
            }
            let copies = self.copies.entry((sequence, tier), 0);
            *copies = copies.saturating_add(1);
        }
        refused
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

    /// Its engine calls these blocks so: those in `named` by names that it alone uses. Returns how many
    /// of those, the first ones, it has taken note of: `room` new ones at most.
    pub(super) fn name(
        &mut self,
        blocks: impl Iterator<Item = Block>,
        named: &[(u64, Alias)],
        room: usize,
    ) -> usize {
        if !self.aliases.is_empty() {
            // What a name meant before, it means no longer.
            for Block { engine, sequence } in blocks {
                if self.aliases.get(&engine).is_some_and(|known| !known.alias.is_of(sequence)) {
                    self.aliases.remove(&engine);
                }
            }
        }
        let most = self.aliases.len().saturating_add(room);
        for (at, &(engine, alias)) in named.iter().enumerate() {
            if self.aliases.len() >= most && !self.aliases.contains_key(&engine) {
                return at;
            }
            let known = self.aliases.entry(engine, Known { alias, stores: 0 });
            // The block may have gone and come back elsewhere.
            known.alias = alias;
            known.stores = known.stores.saturating_add(1);
        }
        named.len()
    }

    /// Looks at some names again if there are many: at half as many as `came`, or a part's more. Those
    /// go that the engine never took back, of blocks that it let go by others; and any, if it has
    /// ever more for what it holds.
    pub(super) fn tidy_names(&mut self, tree: &Tree, slot: Slot, came: usize) {
        let room = self.held() * MOST_NAMES + FEW_ALIASES / 2;
        let Self { aliases, tidying, .. } = self;
        if tidying.next.is_none() {
            let beyond = tidying.beyond.max(FEW_ALIASES).min(room + FEW_ALIASES / 2);
            if aliases.len() <= beyond {
                return;
            }
            *tidying = Tidying { next: Some(0), ..Tidying::default() };
        }
        let mut looked = 0;
        while let Some(part) = tidying.next
            && looked <= came / 2
        {
            if part >= aliases.parts() {
                *tidying = Tidying { beyond: aliases.len() * 2, ..Tidying::default() };
                return;
            }
            tidying.next = Some(part + 1);
            let kept = &mut tidying.kept;
            looked += aliases.retain(part, |_, known| {
                let place = known.alias.resolve(tree);
                let stays = *kept < room && place.is_some_and(|place| tree.holds(slot, place));
                *kept += usize::from(stays);
                stays
            });
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
        self.copies.bytes() + self.aliases.bytes() + self.orphans.bytes()
    }

    #[cfg(test)]
    pub(super) fn copies_and_names(&self) -> (usize, usize) {
        (self.copies.len(), self.aliases.len())
    }
}
