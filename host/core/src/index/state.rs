//! What an index is under its lock: the tree, the ranks, and how an event changes both.
//!
//! Owns what an event means: which block an engine's name stands for, what waits for a block that
//! nobody knows, when a copy is one more. It doesn't know who reads, or locks.

mod ahead;
mod removal;
mod steps;
mod sweep;

use super::event::{Applied, Stored};
use super::holders::Slot;
use super::ranks::Ranks;
use super::tree::{Alias, Notes, Place, Store, Tree};
use sweep::Sweep;

pub(crate) use steps::Change;
#[cfg(test)]
pub(super) use sweep::AT_LEISURE_BLOCKS;

/// One index's state.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) ranks: Ranks,
    sweep: Sweep,
    // Buffers.
    chain: Vec<u64>,
    notes: Notes,
}

impl State {
    pub(super) fn new(most_blocks: usize) -> Self {
        Self {
            tree: Tree::new(most_blocks),
            ranks: Ranks::default(),
            sweep: Sweep::default(),
            chain: Vec::new(),
            notes: Notes::default(),
        }
    }

    /// Where a block is that an engine calls so.
    fn find(&self, slot: Slot, engine: u64) -> Option<Place> {
        let own = self.ranks.life(slot).and_then(|life| life.alias(&self.tree, engine));
        // A name that this engine alone uses goes before the same name in general.
        own.or_else(|| self.tree.find(engine))
    }

    /// Where the block is that others follow; none while it waits itself.
    fn find_parent(&self, slot: Slot, engine: u64) -> Option<Place> {
        let place = self.find(slot, engine)?;
        let life = self.ranks.life(slot)?;
        // Another engine may have told of the same block, or mean another by the same name: what
        // this one has told of goes before.
        let waits = !life.orphans.is_empty() && life.orphans.has(engine);
        (!waits || self.tree.holds(slot, place)).then_some(place)
    }

    /// Puts blocks in their place. Returns the last of those that there was room for.
    fn place(
        &mut self,
        slot: Slot,
        parent: Option<Place>,
        stored: &Stored<'_>,
        applied: &mut Applied,
    ) -> Option<Alias> {
        let scope = parent.map_or_else(|| stored.content.scope(), |at| self.tree.scope(at));
        let before = parent.and_then(|at| self.tree.block(at)).map(|block| block.sequence);
        let Self { tree, ranks, chain, notes, .. } = self;
        stored.content.chain(stored.engines.len(), before, scope, chain);
        notes.clear();
        let (engines, tier) = (stored.engines, stored.tier);
        let store = Store { slot, tier, parent, scope, engines, sequences: chain };
        let placed = tree.store(store, notes);
        applied.stored += placed.new;
        applied.stored_again += placed.again;
        applied.refused += placed.refused;
        if let Some(life) = ranks.life_mut(slot) {
            life.held[tier as usize] += placed.new;
            life.count_again(&notes.again, tier);
            life.name(tree, slot, store.blocks(), &notes.named);
        }
        let last = placed.last?;
        Some(Alias::of(last, tree.block(last)?.sequence))
    }
}

#[cfg(test)]
mod check;
