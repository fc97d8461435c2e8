//! How a slot holds blocks that have no names, and lets them go.
//!
//! Owns stretches: blocks of one run that a slot began to hold together. Whoever asked for one keeps
//! it, and lets its blocks go by where they are: nothing is looked for, whatever their hashes are. A
//! slot holds each block once here; one that it holds already is refused, so that it is let go by
//! whoever has it. It doesn't know who keeps stretches, or why.

use super::Tree;
use super::place::{Place, Reference};
use super::store::{Next, Notes, Store};
use crate::hashing::Scope;
use crate::index::holders::Slot;
use crate::index::tier::Tier;

/// Blocks that follow one another, in one run when they were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) struct Stretch {
    pub(in crate::index) first: Reference,
    pub(in crate::index) len: usize,
}

impl Tree {
    /// Where a block is that a slot holds; none if it was never there.
    pub(in crate::index) fn resolve(&self, block: Reference) -> Option<Place> {
        block.resolve(&self.runs)
    }

    /// Lets a slot hold blocks behind another one, or at the root, as many of them as are in one run
    /// then, and returns those; none if it holds the first already, or there is no room. A run that
    /// there is grows for them only if `may_grow`.
    pub(in crate::index) fn hold_stretch(
        &mut self,
        slot: Slot,
        behind: Option<Place>,
        sequences: &[u64],
        may_grow: bool,
    ) -> Option<Stretch> {
        let &first = sequences.first()?;
        let next = match self.next(behind, first) {
            Next::Fork(place) => {
                self.split(place);
                self.next(behind, first)
            }
            next => next,
        };
        match next {
            Next::Block(place) => self.hold_known(slot, place, sequences),
            Next::Fork(_) => None,
            Next::End => self.hold_new(slot, behind, sequences, may_grow),
        }
    }

    /// Lets a slot hold blocks that there are, from `place` on, if it holds none of those in its run.
    fn hold_known(&mut self, slot: Slot, place: Place, sequences: &[u64]) -> Option<Stretch> {
        let depth = self.run(place.run)?.depth(slot, Tier::Device);
        if depth > place.at {
            return None;
        }
        let len = self.common(place, sequences);
        let mut place = place;
        if depth < place.at {
            // It holds no prefix of this run: from here on, the run becomes another.
            place = Place { run: self.split(place), at: 0 };
        }
        let run = self.runs.get_mut(place.run as usize)?;
        let of = run.blocks.len();
        run.coverage_mut(Tier::Device).set_depth(slot, place.at + len, of);
        Some(Stretch { first: Reference::to(place), len })
    }

    /// Adds blocks that there aren't.
    fn hold_new(
        &mut self,
        slot: Slot,
        parent: Option<Place>,
        sequences: &[u64],
        may_grow: bool,
    ) -> Option<Stretch> {
        let (tier, scope) = (Tier::Device, Scope::default());
        let store = Store { slot, tier, parent, scope, engines: sequences, sequences };
        let store = store.first(self.room());
        // None has a name that could be noted.
        let notes = &mut Notes::default();
        if let Some(Place { run, at }) = parent.filter(|_| may_grow) {
            let len = self.append(run, &store, notes);
            if len > 0 {
                return Some(Stretch { first: Reference::to(Place { run, at: at + 1 }), len });
            }
        }
        let len = store.sequences.len();
        let run = self.new_run(parent, &store, notes)?;
        Some(Stretch { first: Reference::to(Place { run, at: 0 }), len })
    }

    /// Takes a stretch's blocks from a slot, and returns how many it held of them.
    pub(in crate::index) fn let_go(&mut self, slot: Slot, stretch: Stretch) -> usize {
        let (mut at, mut held) = (0, 0);
        while at < stretch.len {
            let Some(place) = self.resolve(stretch.first.onward(at)) else { break };
            let len = self.run(place.run).map_or(0, |run| run.blocks.len());
            // Its run may have been cut meanwhile.
            let to = len.min(place.at + stretch.len - at);
            held += self.drop_blocks(slot, Tier::Device, place, to);
            at += to - place.at;
        }
        held
    }
}
