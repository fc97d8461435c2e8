//! How an index without names is changed: by who asked for a block, and kept where it is.
//!
//! Owns where stretches end: none goes past a multiple of the longest run's length, counted from a
//! prompt's first block, so that whoever keeps them finds one that begins there. It doesn't know why
//! blocks are held, or how long.

use super::State;
use crate::ids::WorkerRank;
use crate::index::tier::Tier;
use crate::index::tree::{LONGEST, Reference, Stretch};

impl State {
    /// Whether it is to be swept before so many blocks come.
    pub(in crate::index) fn lacks_room(&self, blocks: usize) -> bool {
        self.tree.room() < blocks && self.is_untidy()
    }

    /// Lets a rank hold blocks behind one that it holds, or at the root: `depth` blocks are before
    /// them. Adds the stretches to `stretches`: those of the first ones, as far as there is room and
    /// it holds none of them already.
    pub(in crate::index) fn hold(
        &mut self,
        rank: WorkerRank,
        behind: Option<Reference>,
        depth: usize,
        blocks: &[u64],
        stretches: &mut Vec<Stretch>,
    ) {
        let slot = self.ranks.slot_for(rank);
        let mut place = behind.and_then(|behind| self.tree.resolve(behind));
        if behind.is_some() && place.is_none() {
            return;
        }
        let mut held = 0;
        while held < blocks.len() {
            let past = (depth + held) % LONGEST;
            let to = blocks.len().min(held + LONGEST - past);
            let some = blocks.get(held..to).unwrap_or(&[]);
            let Some(stretch) = self.tree.hold_stretch(slot, place, some, past > 0) else { break };
            stretches.push(stretch);
            held += stretch.len;
            place = self.tree.resolve(stretch.first.onward(stretch.len - 1));
        }
        if let Some(life) = self.ranks.life_mut(slot) {
            life.held[Tier::Device as usize] += held;
        }
    }

    /// Takes stretches from a rank.
    pub(in crate::index) fn let_go(&mut self, rank: WorkerRank, stretches: &[Stretch]) {
        let Some(slot) = self.ranks.slot(rank) else { return };
        let blocks: usize = stretches.iter().map(|stretch| stretch.len).sum();
        // What goes, and as much that is known only for its sake.
        self.tree.allow_to_free(blocks.saturating_mul(2));
        let mut held = 0;
        for &stretch in stretches {
            held += self.tree.let_go(slot, stretch);
        }
        if let Some(life) = self.ranks.life_mut(slot) {
            life.let_go(Tier::Device, held);
        }
    }
}
