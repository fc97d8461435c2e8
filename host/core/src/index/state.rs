//! What an index is under its lock: the tree, the ranks, and how an event changes both.
//!
//! Owns what an event means: which block an engine's name stands for, what waits for a block that
//! nobody knows, when a copy is one more. It doesn't know who reads, or locks.

mod ahead;
mod hold;
mod removal;
mod steps;
mod sweep;

use super::event::{Applied, Stored};
use super::holders::Slot;
use super::life::Life;
use super::limits::{Extras, Limits};
use super::ranks::Ranks;
use super::tier::Tier;
use super::tree::{Alias, Notes, Place, Store, Tree};
use sweep::Sweep;

pub(crate) use steps::Change;
pub(super) use steps::MOST_SWEEPS;
#[cfg(test)]
pub(super) use sweep::AT_LEISURE_BLOCKS;

/// One index's state.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) ranks: Ranks,
    sweep: Sweep,
    most: Limits,
    /// What is kept besides of others than the rank whose change is made; none while that changes
    /// nothing of the kind.
    others: Option<Extras>,
    // Buffers.
    chain: Vec<u64>,
    notes: Notes,
}

impl State {
    pub(super) fn new(most: Limits) -> Self {
        Self::of(Tree::new(most.blocks), most)
    }

    /// One whose blocks have no names.
    pub(super) fn unnamed(most: Limits) -> Self {
        Self::of(Tree::unnamed(most.blocks), most)
    }

    fn of(tree: Tree, most: Limits) -> Self {
        Self {
            tree,
            ranks: Ranks::default(),
            sweep: Sweep::default(),
            most,
            others: None,
            chain: Vec::new(),
            notes: Notes::default(),
        }
    }

    /// What is nothing but memory, and takes a while to give up.
    pub(super) fn give_back(&mut self) -> Option<Tree> {
        self.ranks.give_back();
        self.tree.begin_anew()
    }

    /// How much a slot may keep besides of what it holds, given what the others do. To be called before
    /// any of that changes.
    fn extras_left(&mut self, slot: Slot) -> Extras {
        let Self { ranks, others, most, .. } = self;
        most.extras - *others.get_or_insert_with(|| ranks.extras_of_others(slot))
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

    /// Puts blocks in their place. Returns the last of them; none if there wasn't room for all.
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
        let at = Store { slot, tier, parent, scope, engines, sequences: &[] };
        let placed = tree.store(Store { sequences: chain, ..at }, notes);
        applied.stored += placed.new;
        applied.stored_again += placed.again;
        applied.refused += placed.refused;
        if let Some(life) = ranks.life_mut(slot) {
            life.held[tier as usize] += placed.new;
        }
        let is_plain = ranks.life(slot).is_none_or(Life::is_plain);
        if !is_plain || !notes.again.is_empty() || !notes.named.is_empty() {
            let most_names = self.extras_left(slot).names;
            let Self { tree, ranks, chain, notes, .. } = self;
            let store = Store { sequences: chain, ..at };
            let life = ranks.life_mut(slot)?;
            let room = |life: &Life| most_names.saturating_sub(life.extras().names);
            let uncounted = life.count_again(&notes.again, tier, room(life));
            applied.stored_again -= uncounted;
            applied.refused += uncounted;
            let named = life.name(store.blocks(), &notes.named, room(life));
            life.tidy_names(tree, slot, notes.named.len());
            let unnamed = notes.named.get(named..).unwrap_or(&[]);
            if !unnamed.is_empty() {
                take_back(tree, life, (slot, tier), unnamed, applied);
                return None;
            }
        }
        let tree = &self.tree;
        let last = placed.last.filter(|_| placed.refused == 0)?;
        Some(Alias::of(last, tree.block(last)?.sequence))
    }
}

/// Takes blocks back that were stored, as there is no room for what their engine calls them: it could
/// not say that they are gone. The last goes first, so that no run is cut.
fn take_back(
    tree: &mut Tree,
    life: &mut Life,
    (slot, tier): (Slot, Tier),
    unnamed: &[(u64, Alias)],
    applied: &mut Applied,
) {
    for (_, alias) in unnamed.iter().rev() {
        if life.take_copy(alias.sequence(), tier) {
            applied.stored_again = applied.stored_again.saturating_sub(1);
            applied.refused += 1;
        } else if let Some(place) = alias.resolve(tree) {
            let held = tree.drop_blocks(slot, tier, place, place.at + 1);
            life.let_go(tier, held);
            applied.stored = applied.stored.saturating_sub(held);
            applied.refused += held;
        }
    }
}

#[cfg(test)]
mod check;
