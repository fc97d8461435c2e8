//! The cache index: which leading blocks of a prompt each rank holds, by tier.
//!
//! Owns one partition's picture of its engines' caches, made from what they tell: blocks stored,
//! removed, cleared. It doesn't know how that is told (feeds do), how a prompt becomes hashes, or
//! what is done with the columns.
//!
//! # Why it is built so
//!
//! What was weighed: a table from block to set of holders with a search by jumps, a tree with one
//! node per fork whose holders reach to a depth of their own, and bit sets with either. The tree of
//! short runs with bits won on all counts (figures: `benches/README.md`):
//!
//! * A look-up costs one table probe and one comparison for each run of up to 64 blocks, since the
//!   chained hash of a run's last block vouches for the others, and one pass over the bits of all
//!   ranks: 64 words for 4,096 of them. Ranks are looked at one by one only where they stop.
//! * A store of blocks that others hold sets one bit a run and compares the hashes.
//! * An engine's eviction from the end of a prompt changes one number; nothing is split.
//! * A block that many hold is kept once: [`PrefixIndex::stats`] tells the bytes.
//!
//! Engines' hashes are opaque. Those that agree between engines (vLLM's and SGLang's do, with equal
//! seeds) are kept once with the block; an engine with names of its own costs an entry for each of
//! its blocks.
//!
//! # Exactness
//!
//! A block that an engine stores several times is held until each copy was removed. A block in the
//! middle that goes leaves those behind it held, but they count only once it is back. A stretch
//! behind a block that nobody knows waits for it, counted.

mod event;
mod holders;
mod lookup;
mod orphans;
mod prediction;
mod ranks;
mod tier;
mod tree;

use parking_lot::RwLock;
use serde::Serialize;

use crate::fleet::Snapshot;
use crate::ids::WorkerRank;

pub use event::{Applied, CacheEvent, Content, Stored};
pub use lookup::Overlap;
pub use prediction::{Keep, Predictions, RunningPrompt};
pub use tier::Tier;

use holders::Slot;
use ranks::Ranks;
use tree::{Notes, Place, Store, Tree};

/// The most distinct blocks of one index, unless set: far above what a fleet holds, and about 3 GiB.
pub const DEFAULT_MOST_BLOCKS: usize = 1 << 26;

/// Runs that are swept of dead slots with each event.
const SWEPT_AT_ONCE: usize = 64;

/// What an index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IndexStats {
    /// Distinct blocks.
    pub blocks: usize,
    /// Blocks held, counted for each rank and tier that holds them.
    pub held: usize,
    /// Blocks that wait for their parent to be known.
    pub orphans: usize,
    /// Ranks that hold something, or did.
    pub ranks: usize,
    /// Bytes of all this, without the allocator's own.
    pub bytes: usize,
}

/// What an index holds of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RankStats {
    /// Blocks held, by tier, in the order of [`Tier::ALL`].
    pub held: [usize; Tier::COUNT],
    /// Blocks that wait for their parent to be known.
    pub orphans: usize,
}

/// The cache index of one partition.
///
/// Look-ups run side by side. A change holds them up for as long as it takes to apply: a few
/// microseconds for a prompt's blocks.
#[derive(Debug)]
pub struct PrefixIndex {
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    tree: Tree,
    ranks: Ranks,
    /// Where the sweep goes on, and how many dead slots it is for.
    sweep: Sweep,
    // Buffers.
    chain: Vec<u64>,
    notes: Notes,
}

#[derive(Debug, Default)]
struct Sweep {
    next: usize,
    dead: usize,
}

impl Default for PrefixIndex {
    fn default() -> Self {
        Self::new(DEFAULT_MOST_BLOCKS)
    }
}

impl PrefixIndex {
    /// An empty index of at most so many distinct blocks; what comes beyond is refused and counted.
    #[must_use]
    pub fn new(most_blocks: usize) -> Self {
        let state = State {
            tree: Tree::new(most_blocks),
            ranks: Ranks::default(),
            sweep: Sweep::default(),
            chain: Vec::new(),
            notes: Notes::default(),
        };
        Self { state: RwLock::new(state) }
    }

    /// Applies a change of what a rank holds.
    pub fn apply(&self, rank: WorkerRank, event: CacheEvent<'_>) -> Applied {
        let mut state = self.state.write();
        let applied = state.apply(rank, event);
        state.sweep(SWEPT_AT_ONCE);
        applied
    }

    /// Whether a rank is known: it was expected, or told of something.
    #[must_use]
    pub fn knows(&self, rank: WorkerRank) -> bool {
        self.state.read().ranks.slot(rank).is_some()
    }

    /// Makes a rank known before it tells of anything.
    pub fn expect(&self, rank: WorkerRank) {
        self.state.write().ranks.slot_for(rank);
    }

    /// Forgets all that a rank holds: it has left, or begun anew.
    pub fn remove_rank(&self, rank: WorkerRank) {
        self.state.write().ranks.end(rank);
    }

    /// Cleans up behind ranks that were cleared or removed, a little at a time. Events do so too;
    /// this is for times without any. Returns whether there is more to do.
    pub fn tidy(&self) -> bool {
        let mut state = self.state.write();
        state.sweep(SWEPT_AT_ONCE * 16);
        !state.ranks.dead().is_empty()
    }

    /// Fills `overlap` with how many of the leading blocks of a prompt each row of `snapshot`
    /// holds. `chain` are the prompt's sequence hashes.
    pub fn look_up(&self, chain: &[u64], snapshot: &Snapshot, overlap: &mut Overlap) {
        let state = self.state.read();
        overlap.fill(&state.tree, &state.ranks, snapshot, chain);
    }

    /// How many blocks of a prompt one rank holds, by tier in the order of [`Tier::ALL`].
    #[must_use]
    pub fn look_up_rank(&self, chain: &[u64], rank: WorkerRank) -> [u64; Tier::COUNT] {
        let state = self.state.read();
        let slot = state.ranks.slot(rank);
        slot.map_or([0; Tier::COUNT], |slot| lookup::of_slot(&state.tree, slot, chain))
    }

    /// What it holds. Takes a while: for display.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        let state = self.state.read();
        let mut stats = IndexStats {
            blocks: state.tree.blocks(),
            bytes: state.tree.bytes(),
            ..IndexStats::default()
        };
        for (_, slot) in state.ranks.iter() {
            if let Some(life) = state.ranks.life(slot) {
                stats.ranks += 1;
                stats.held += life.held.iter().sum::<usize>();
                stats.orphans += life.orphans.blocks();
                stats.bytes += life.copies.allocation_size() + life.aliases.allocation_size();
            }
        }
        stats
    }

    /// What it holds of a rank; none if it never heard of it.
    #[must_use]
    pub fn rank_stats(&self, rank: WorkerRank) -> Option<RankStats> {
        let state = self.state.read();
        let life = state.ranks.life(state.ranks.slot(rank)?)?;
        Some(RankStats { held: life.held, orphans: life.orphans.blocks() })
    }
}

impl State {
    fn apply(&mut self, rank: WorkerRank, event: CacheEvent<'_>) -> Applied {
        let mut applied = Applied::default();
        match event {
            CacheEvent::Stored(stored) => {
                let slot = self.ranks.slot_for(rank);
                self.store(slot, stored, &mut applied);
            }
            CacheEvent::Removed { engines, tier } => match self.ranks.slot(rank) {
                Some(slot) => self.remove(slot, engines, tier, &mut applied),
                None => applied.unknown += engines.len(),
            },
            CacheEvent::Cleared => {
                if let Some(life) = self.ranks.end(rank) {
                    applied.removed += life.held.iter().sum::<usize>();
                    self.ranks.slot_for(rank);
                }
            }
        }
        applied
    }

    /// Where a block is that an engine calls so.
    fn find(&self, slot: Slot, engine: u64) -> Option<Place> {
        let own = self.ranks.life(slot).and_then(|life| life.aliases.get(&engine));
        // A name that this engine alone uses goes before the same name in general.
        match own.and_then(|alias| alias.resolve(&self.tree)) {
            Some(place) => Some(place),
            None => self.tree.find(engine),
        }
    }

    fn store(&mut self, slot: Slot, stored: Stored<'_>, applied: &mut Applied) {
        let parent = match stored.parent.map(|parent| (parent, self.find(slot, parent))) {
            None => None,
            Some((_, Some(place))) => Some(place),
            Some((parent, None)) => {
                if let Some(life) = self.ranks.life_mut(slot) {
                    applied.orphans_dropped += life.orphans.keep(parent, &stored);
                    applied.orphaned += stored.engines.len();
                }
                return;
            }
        };
        if !self.place(slot, parent, &stored, applied) {
            applied.malformed += stored.engines.len();
            return;
        }
        self.link_orphans(slot, stored.engines, applied);
    }

    /// Puts blocks in their place. False if the content isn't theirs.
    fn place(
        &mut self,
        slot: Slot,
        parent: Option<Place>,
        stored: &Stored<'_>,
        applied: &mut Applied,
    ) -> bool {
        let scope = parent.map_or_else(|| stored.content.scope(), |at| self.tree.scope(at));
        let before = parent.and_then(|at| self.tree.block(at)).map(|block| block.sequence);
        let Self { tree, ranks, chain, notes, .. } = self;
        if !stored.content.chain(stored.engines.len(), before, scope, chain) {
            return false;
        }
        notes.clear();
        let (engines, tier) = (stored.engines, stored.tier);
        let store = Store { slot, tier, parent, scope, engines, sequences: chain };
        let placed = tree.store(store, notes);
        applied.stored += placed.new;
        applied.stored_again += placed.again;
        applied.refused += placed.refused;
        if let Some(life) = ranks.life_mut(slot) {
            life.held[tier as usize] += placed.new;
            for &sequence in &notes.again {
                *life.copies.entry((sequence, tier)).or_insert(0) += 1;
            }
            life.aliases.extend(notes.named.iter().copied());
        }
        true
    }

    /// Places what has waited for these blocks, then what has waited for that.
    fn link_orphans(&mut self, slot: Slot, engines: &[u64], applied: &mut Applied) {
        if self.ranks.life(slot).is_none_or(|life| life.orphans.is_empty()) {
            return;
        }
        let mut known = engines.to_vec();
        while let Some(engine) = known.pop() {
            let Some(life) = self.ranks.life_mut(slot) else { return };
            if life.orphans.is_empty() {
                return;
            }
            for orphan in life.orphans.children_of(engine) {
                let Some(place) = self.find(slot, engine) else { continue };
                let stored = Stored {
                    parent: Some(engine),
                    engines: &orphan.engines,
                    content: orphan.content.borrow(),
                    tier: orphan.tier,
                };
                let mut linked = Applied::default();
                if !self.place(slot, Some(place), &stored, &mut linked) {
                    applied.malformed += orphan.engines.len();
                    continue;
                }
                let mut gone = Applied::default();
                for &engine in &orphan.gone {
                    self.remove(slot, &[engine], orphan.tier, &mut gone);
                }
                applied.linked += (linked.stored + linked.stored_again)
                    .saturating_sub(gone.removed + gone.copies_removed);
                applied.refused += linked.refused;
                known.extend(&orphan.engines);
            }
        }
    }

    fn remove(&mut self, slot: Slot, engines: &[u64], tier: Tier, applied: &mut Applied) {
        let mut left = engines;
        while let Some((&engine, rest)) = left.split_first() {
            let Some(place) = self.find(slot, engine) else {
                left = rest;
                let known =
                    self.ranks.life_mut(slot).is_some_and(|l| l.orphans.remove(engine, tier));
                applied.removed += usize::from(known);
                applied.unknown += usize::from(!known);
                continue;
            };
            let plain = self
                .ranks
                .life(slot)
                .is_some_and(|life| life.copies.is_empty() && life.aliases.is_empty());
            if plain {
                let (from, to, count) = self.tree.stretch(place, left);
                left = left.get(count..).unwrap_or(&[]);
                let held = self.tree.drop_blocks(slot, tier, from, to);
                applied.removed += held;
                applied.unknown += count - held;
                if let Some(life) = self.ranks.life_mut(slot) {
                    life.held[tier as usize] = life.held[tier as usize].saturating_sub(held);
                }
            } else {
                left = rest;
                self.remove_one(slot, engine, place, tier, applied);
            }
        }
    }

    /// Removes a block of a rank that may hold several copies, or have names of its own.
    fn remove_one(
        &mut self,
        slot: Slot,
        engine: u64,
        place: Place,
        tier: Tier,
        applied: &mut Applied,
    ) {
        let Self { tree, ranks, .. } = self;
        let (Some(block), Some(life)) = (tree.block(place), ranks.life_mut(slot)) else { return };
        let key = (block.sequence, tier);
        if let Some(copies) = life.copies.get_mut(&key) {
            *copies -= 1;
            if *copies == 0 {
                life.copies.remove(&key);
            }
            applied.copies_removed += 1;
            return;
        }
        let held = tree.drop_blocks(slot, tier, place, place.at + 1);
        applied.removed += held;
        applied.unknown += 1 - held;
        life.held[tier as usize] = life.held[tier as usize].saturating_sub(held);
        // The name goes with the last tier that holds the block.
        if let Some(alias) = life.aliases.get(&engine) {
            let held = alias.resolve(tree).is_some_and(|place| tree.holds(slot, place));
            if !held {
                life.aliases.remove(&engine);
            }
        }
    }

    /// Takes the dead slots out of a few runs.
    fn sweep(&mut self, runs: usize) {
        if self.ranks.dead().is_empty() {
            return;
        }
        if self.sweep.next == 0 {
            self.sweep.dead = self.ranks.dead().len();
            self.tree.note_splits(true);
        }
        let end = self.tree.run_numbers();
        let until = (self.sweep.next + runs).min(end);
        for id in self.sweep.next..until {
            self.tree.forget(id as tree::RunId, self.ranks.dead());
        }
        self.sweep.next = until;
        if until == end {
            // What was split off a run before that was swept may have got a number that had been.
            for id in self.tree.note_splits(false) {
                self.tree.forget(id, self.ranks.dead());
            }
            self.sweep.next = 0;
            self.ranks.bury(self.sweep.dead);
        }
    }
}

#[cfg(test)]
mod tests;
