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
//! its blocks. One name for two blocks is told apart by who uses it, as long as no message is lost:
//! a parent or a removal that a rank hasn't told of is looked for among all.
//!
//! Predictions have an index of their own, without names: they keep where each stretch of their blocks
//! is, and let it go by that. Names are most of what a block that nobody shares costs: without, a long
//! prompt is stored in a third of the time and removed in a tenth, in 19 bytes a block.
//!
//! # Exactness
//!
//! A block that an engine stores several times is held until each copy was removed. A block in the
//! middle that goes leaves those behind it held, but they count only once it is back. A stretch
//! behind a block that nobody knows waits for it, counted.

//!
//! # Bounds
//!
//! What one index keeps is limited in sum over all ranks, whoever tells, and however much:
//!
//! | what | at most | bytes each | beyond |
//! |---|---|---|---|
//! | distinct blocks | [`DEFAULT_MOST_BLOCKS`], unless set | 31 in long prompts (2 GiB in all), 210 in prompts of one block (13 GiB) | refused, after what was cleared has been swept |
//! | names that one engine alone uses, and blocks that a rank holds more than once | as many as blocks | 34 to 39 (2.4 GiB in all) | the block is refused to this engine, or its copy isn't counted |
//! | blocks that wait for their parent | 16,384 a rank, 2^20 in all | 100 to 280 (0.3 GiB in all) | the rank's oldest goes, or what comes |
//! | what is in those | 32 MiB a rank, 256 MiB in all | | the same |
//!
//! Add a bit for each rank and each run that one rank and others hold. All of it is counted in
//! [`Applied`], and shown by [`PrefixIndex::stats`]. Every table grows by a part at a time, and an index
//! that has become empty gives its memory back.

mod dump;
mod event;
mod holders;
mod life;
mod limits;
mod lock;
mod lookup;
mod orphans;
mod prediction;
mod ranks;
mod state;
mod table;
mod tier;
mod tree;

use parking_lot::RwLockWriteGuard;
use serde::Serialize;

use crate::fleet::Snapshot;
use crate::ids::WorkerRank;

pub use dump::{DumpedRun, Held};
pub use event::{Applied, CacheEvent, Content, Stored};
pub use lookup::Overlap;
pub use prediction::{Keep, MOST_PREDICTED, Predictions, RunningPrompt};
pub use tier::Tier;

pub use limits::DEFAULT_MOST_BLOCKS;
use limits::Limits;
use lock::BriefLock;
pub(crate) use state::Change;
use state::{MOST_SWEEPS, State};
use tree::{Reference, Stretch};

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
/// microseconds for a prompt's blocks, as what it will touch is read before. A longer one is applied
/// in steps of about a thousand blocks, between which look-ups have their turn, and see what was
/// applied up to there.
#[derive(Debug)]
pub struct PrefixIndex {
    state: BriefLock<State>,
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
        Self { state: BriefLock::new(State::new(Limits::of_blocks(most_blocks))) }
    }

    /// One whose blocks have no names: nothing but [`PrefixIndex::hold`] and [`PrefixIndex::let_go`]
    /// changes what a rank holds there.
    fn unnamed(most_blocks: usize) -> Self {
        Self { state: BriefLock::new(State::unnamed(Limits::of_blocks(most_blocks))) }
    }

    /// Lets a rank hold blocks behind one that it holds, or at the root, `depth` blocks from there.
    /// Adds to `stretches` where the first ones are: as many as there is room for, and none behind one
    /// that it holds already.
    fn hold(
        &self,
        rank: WorkerRank,
        behind: Option<Reference>,
        depth: usize,
        blocks: &[u64],
        stretches: &mut Vec<Stretch>,
    ) {
        let mut state = self.state.write();
        for _ in 0..MOST_SWEEPS {
            if !state.lacks_room(blocks.len()) {
                break;
            }
            state.sweep_for_room();
            RwLockWriteGuard::unlock_fair(state);
            state = self.state.write();
        }
        state.hold(rank, behind, depth, blocks, stretches);
        state.sweep_a_little();
    }

    /// Takes stretches from the rank that holds them, those behind others first.
    fn let_go(&self, rank: WorkerRank, stretches: &[Stretch]) {
        let mut state = self.state.write();
        state.let_go(rank, stretches);
        state.sweep_a_little();
    }

    /// Applies a change of what a rank holds.
    pub fn apply(&self, rank: WorkerRank, event: CacheEvent<'_>) -> Applied {
        let mut change = Change::new(rank, event);
        while self.step(&mut change) {}
        change.applied()
    }

    /// Applies a step of a change. Returns whether there is more to do.
    pub(crate) fn step(&self, change: &mut Change<'_>) -> bool {
        let mut state = self.state.write_ahead(|state| state.look_ahead(change));
        let more = state.step(change);
        state.sweep_a_little();
        if more {
            // Whoever waits goes first.
            RwLockWriteGuard::unlock_fair(state);
        }
        more
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
        let ended = self.state.write().ranks.end(rank);
        // It takes a while to give up; nobody needs to wait for it.
        drop(ended);
    }

    /// Forgets all that some ranks hold.
    pub fn remove_ranks(&self, which: impl Fn(WorkerRank) -> bool) {
        let ended = self.state.write().ranks.end_all(which);
        drop(ended);
    }

    /// Cleans up behind ranks that were cleared or removed, a little at a time. Events do so too;
    /// this is for times without any. Memory of an index that has become empty is given back. Returns
    /// whether there is more to do.
    pub fn tidy(&self) -> bool {
        let mut state = self.state.write();
        state.sweep_more();
        let more = state.is_untidy();
        let emptied = if more { None } else { state.give_back() };
        RwLockWriteGuard::unlock_fair(state);
        drop(emptied);
        more
    }

    /// Fills `overlap` with how many of the leading blocks of a prompt each row of `snapshot`
    /// holds. `chain` are the prompt's sequence hashes.
    pub fn look_up(&self, chain: &[u64], snapshot: &Snapshot, overlap: &mut Overlap) {
        let state = self.state.look_up();
        overlap.fill(&state.tree, &state.ranks, snapshot, chain);
    }

    /// How many blocks of a prompt one rank holds, by tier in the order of [`Tier::ALL`].
    #[must_use]
    pub fn look_up_rank(&self, chain: &[u64], rank: WorkerRank) -> [u64; Tier::COUNT] {
        let state = self.state.look_up();
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
                stats.held += life.held();
                stats.orphans += life.orphans.blocks();
                stats.bytes += life.bytes();
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

#[cfg(test)]
mod tests;
