//! What an index is under its lock: the tree, the ranks, and how an event changes both.
//!
//! Owns what an event means: which block an engine's name stands for, what waits for a block that
//! nobody knows, when a copy is one more. It doesn't know who reads, or locks.

mod removal;
mod sweep;

use super::event::{Applied, CacheEvent, Stored};
use super::holders::Slot;
use super::ranks::Ranks;
use super::tree::{Notes, Place, Store, Tree};
use crate::ids::WorkerRank;
use sweep::Sweep;

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

    pub(super) fn apply(&mut self, rank: WorkerRank, event: CacheEvent<'_>) -> Applied {
        let mut applied = Applied::default();
        match event {
            CacheEvent::Stored(stored) => {
                let slot = self.ranks.slot_for(rank);
                if !stored.content.is_of(stored.engines.len()) {
                    applied.malformed += stored.engines.len();
                } else if !stored.engines.is_empty() {
                    self.store(slot, stored, &mut applied);
                }
            }
            CacheEvent::Removed { engines, tier } => match self.ranks.slot(rank) {
                Some(slot) => self.remove(slot, engines, tier, &mut applied),
                None => applied.unknown += engines.len(),
            },
            CacheEvent::Cleared => {
                if let Some(life) = self.ranks.begin_anew(rank) {
                    applied.removed += life.held();
                }
            }
        }
        applied
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

    fn store(&mut self, slot: Slot, stored: Stored<'_>, applied: &mut Applied) {
        let parent = match stored.parent.map(|parent| (parent, self.find_parent(slot, parent))) {
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
        self.place(slot, parent, &stored, applied);
        self.link_orphans(slot, stored.engines, applied);
    }

    /// Puts blocks in their place.
    fn place(
        &mut self,
        slot: Slot,
        parent: Option<Place>,
        stored: &Stored<'_>,
        applied: &mut Applied,
    ) {
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
    }

    /// Places what has waited for these blocks, then what has waited for that.
    fn link_orphans(&mut self, slot: Slot, engines: &[u64], applied: &mut Applied) {
        if self.ranks.life(slot).is_none_or(|life| life.orphans.is_empty()) {
            return;
        }
        let mut known = engines.to_vec();
        while let Some(engine) = known.pop() {
            if self.find(slot, engine).is_none() {
                continue;
            }
            let Some(life) = self.ranks.life_mut(slot) else { return };
            if life.orphans.is_empty() {
                return;
            }
            for orphan in life.orphans.children_of(engine) {
                let Some(place) = self.find(slot, engine) else {
                    applied.orphans_dropped += orphan.engines.len();
                    continue;
                };
                let stored = Stored {
                    parent: Some(engine),
                    engines: &orphan.engines,
                    content: orphan.content.borrow(),
                    tier: orphan.tier,
                };
                let mut linked = Applied::default();
                self.place(slot, Some(place), &stored, &mut linked);
                let mut gone = Applied::default();
                self.remove(slot, &orphan.gone, orphan.tier, &mut gone);
                applied.linked += (linked.stored + linked.stored_again)
                    .saturating_sub(gone.removed + gone.copies_removed);
                applied.refused += linked.refused;
                known.extend(&orphan.engines);
            }
        }
    }
}

#[cfg(test)]
mod check;
