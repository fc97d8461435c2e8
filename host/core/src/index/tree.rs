//! The tree of runs: which blocks there are, in which order, and who holds them.
//!
//! Owns the runs, and the ways to find one: by the sequence hash of its first block (to go on from
//! the run before), and by an engine's hash of any block (for parents and removals). It doesn't
//! know ranks, tokens, or events that can't be applied yet.
//!
//! A *run* is a stretch of at most [`LONGEST`] blocks that follow one another without a fork. Since
//! a sequence hash names all that came before, one comparison with a run's last block tells whether
//! a prompt goes through all of it. Runs are split where prompts fork and where somebody holds a
//! part that is no prefix of the run; they are never joined.
//!
//! References to blocks are a run's number and a place in it, in 32 bits. A split leaves them as
//! they are: what was cut off is found by following the run's continuation.
//!
//! Sequence hashes that are no chain's (one twice in a prompt, one behind two parents) are nobody's
//! honest prompt. They harm no other: the first run that begins with such a block keeps it.

mod cut;
mod hold;
mod names;
mod place;
mod run;
mod store;

use std::hint::black_box;

use super::holders::Slot;
use super::table::Table;
use super::tier::Tier;
use crate::hashing::Scope;
use names::Names;
use place::MOST_RUNS;

pub(super) use hold::Stretch;
pub(super) use place::{Place, Reference, RunId};
pub(super) use run::{Block, LONGEST, Run, common};
pub(super) use store::{Alias, Notes, Store};

/// Runs whose first blocks are in one part of their table.
const HEADS: usize = 448;

/// Room for so many runs isn't given back: they come again soon.
const MANY_RUNS: usize = 1_024;

/// All runs.
#[derive(Debug)]
pub(super) struct Tree {
    runs: Vec<Run>,
    free: Vec<RunId>,
    /// Runs by the sequence hash of their first block.
    heads: Table<u64, RunId, HEADS>,
    names: Names,
    /// Whether blocks are found by what engines call them.
    is_named: bool,
    blocks: usize,
    most_blocks: usize,
    /// Runs that some lower tier holds or held.
    lower_runs: usize,
    /// The runs that were split off since this was last asked for, while somebody wants to know.
    split_off: Option<Vec<RunId>>,
    /// How many blocks may still be freed before others are to have their turn.
    may_free: usize,
    /// Runs whose ends are to be freed when there is time for it again.
    loose: Vec<RunId>,
}

impl Tree {
    pub(super) fn new(most_blocks: usize) -> Self {
        Self {
            runs: Vec::new(),
            free: Vec::new(),
            heads: Table::default(),
            names: Names::new(),
            is_named: true,
            blocks: 0,
            // A run has at least one block, so that runs can't run out before blocks do.
            most_blocks: most_blocks.min(MOST_RUNS - 2),
            lower_runs: 0,
            split_off: None,
            may_free: 0,
            loose: Vec::new(),
        }
    }

    /// An empty one whose blocks have no names: whoever stores them keeps where they are.
    pub(super) fn unnamed(most_blocks: usize) -> Self {
        Self { is_named: false, ..Self::new(most_blocks) }
    }

    /// Distinct blocks.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Distinct blocks that may still come.
    pub(super) fn room(&self) -> usize {
        self.most_blocks.saturating_sub(self.blocks)
    }

    /// Begins anew, and returns what there was before, when that is nothing but memory.
    pub(super) fn begin_anew(&mut self) -> Option<Self> {
        let is_large = self.runs.len() >= MANY_RUNS;
        let empty = is_large && self.blocks == 0 && self.loose.is_empty();
        // Whoever takes note of splits counts runs.
        (empty && self.split_off.is_none()).then(|| {
            let is_named = self.is_named;
            std::mem::replace(self, Self { is_named, ..Self::new(self.most_blocks) })
        })
    }

    /// Runs, those that were freed included.
    pub(super) fn run_numbers(&self) -> usize {
        self.runs.len()
    }

    /// Whether any tier below the device's holds anything.
    pub(super) fn has_lower(&self) -> bool {
        self.lower_runs > 0
    }

    pub(super) fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.get(id as usize)
    }

    /// The sequence hash of the block before a run's first; none at the root.
    pub(super) fn parent_of(&self, id: RunId) -> Option<u64> {
        let parent = self.run(id)?.parent.resolve(&self.runs)?;
        self.block(parent).map(|block| block.sequence)
    }

    /// The run that begins with a block. It has at least that one.
    pub(super) fn head(&self, sequence: u64) -> Option<&Run> {
        self.run(*self.heads.get(&sequence)?)
    }

    pub(super) fn block(&self, place: Place) -> Option<Block> {
        self.run(place.run)?.blocks.get(place.at).copied()
    }

    /// What the hashes at a place were seeded with.
    pub(super) fn scope(&self, place: Place) -> Scope {
        self.run(place.run).map_or_else(Scope::default, |run| run.scope)
    }

    /// The block that an engine calls so, if it was the first to tell us of it.
    pub(super) fn find(&self, engine: u64) -> Option<Place> {
        self.names.find(&self.runs, engine)
    }

    /// Whether a slot holds a block in a tier.
    pub(super) fn holds_in(&self, slot: Slot, tier: Tier, place: Place) -> bool {
        self.run(place.run).is_some_and(|run| run.depth(slot, tier) > place.at)
    }

    /// Whether a slot holds a block in any tier.
    pub(super) fn holds(&self, slot: Slot, place: Place) -> bool {
        Tier::ALL.into_iter().any(|tier| self.holds_in(slot, tier, place))
    }

    /// How many of the named blocks, the first of which is at `place`, are neighbours in its run,
    /// upwards or downwards: where they begin, the place behind them, and how many.
    pub(super) fn stretch(&self, place: Place, engines: &[u64]) -> (Place, usize, usize) {
        // A name that another block is known by doesn't mean the neighbour that has it too.
        let run = self.run(place.run).filter(|run| !run.has_unnamed);
        let blocks = run.map_or(&[][..], |run| &run.blocks);
        let alike = |pair: &(&Block, &u64)| pair.0.engine == *pair.1;
        let onward = blocks.get(place.at..).unwrap_or(&[]).iter();
        let up = onward.zip(engines).take_while(alike).count().max(1);
        if up > 1 {
            return (place, place.at + up, up);
        }
        let back = blocks.get(..=place.at).unwrap_or(&[]).iter().rev();
        let down = back.zip(engines).take_while(alike).count().max(1);
        let from = Place { run: place.run, at: (place.at + 1).saturating_sub(down) };
        (from, place.at + 1, down)
    }

    /// Reads where names are or will be: see [`Names::approach`].
    pub(super) fn approach(&self, engines: &[u64]) {
        engines.chunks(LONGEST).for_each(|some| self.names.approach(some.iter().copied()));
    }

    /// Reads the blocks that are called so, each with its neighbours in its run.
    pub(super) fn approach_blocks(&self, engines: &[u64]) {
        let mut left = engines;
        while let Some((&engine, rest)) = left.split_first() {
            let Some(place) = self.find(engine) else {
                left = rest;
                continue;
            };
            let (_, _, count) = self.stretch(place, left);
            left = left.get(count..).unwrap_or(&[]);
        }
        black_box(left);
    }

    /// Begins or ends taking note of the runs that are split off, and returns those noted so far.
    pub(super) fn note_splits(&mut self, note: bool) -> Vec<RunId> {
        std::mem::replace(&mut self.split_off, note.then(Vec::new)).unwrap_or_default()
    }

    fn put(&mut self, run: Run) -> Option<RunId> {
        if let Some(id) = self.free.pop() {
            *self.runs.get_mut(id as usize)? = run;
            return Some(id);
        }
        // The last number is kept back, so that no reference is the one that means none.
        if self.runs.len() + 1 >= MOST_RUNS {
            return None;
        }
        self.runs.push(run);
        Some(self.runs.len() as RunId - 1)
    }

    /// Bytes that it takes, without the allocator's own.
    pub(super) fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Run>()
            + self.runs.iter().map(Run::bytes).sum::<usize>()
            + self.free.capacity() * size_of::<RunId>()
            + self.heads.bytes()
            + self.names.bytes()
    }
}

#[cfg(test)]
mod check;
