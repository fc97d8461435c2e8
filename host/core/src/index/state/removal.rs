//! How a list of removed blocks is applied.
//!
//! Owns what each name on such a list may be: a block that is held once and goes, together with its
//! neighbours on the list; one that is held several times and stays; one that waits for its parent;
//! or one that nobody has told of. A list is applied in full, whatever is on it.

use super::State;
use crate::index::event::Applied;
use crate::index::holders::Slot;
use crate::index::tier::Tier;
use crate::index::tree::{Place, RunId};

/// Neighbours in a run that go together.
struct Stretch {
    run: RunId,
    from: usize,
    to: usize,
}

impl Stretch {
    fn of(place: Place) -> Self {
        Self { run: place.run, from: place.at, to: place.at + 1 }
    }

    /// Takes a neighbour in; false if it isn't one.
    fn take_in(&mut self, place: Place) -> bool {
        let is_next = self.run == place.run && place.at == self.to;
        let is_last = self.run == place.run && place.at + 1 == self.from;
        self.to += usize::from(is_next);
        self.from -= usize::from(is_last);
        is_next || is_last
    }
}

impl State {
    /// Takes blocks from a slot.
    pub(super) fn remove(
        &mut self,
        slot: Slot,
        engines: &[u64],
        tier: Tier,
        applied: &mut Applied,
    ) {
        if self.ranks.life(slot).is_some_and(|life| life.is_plain()) {
            self.remove_plain(slot, engines, tier, applied);
        } else {
            self.remove_any(slot, engines, tier, applied);
        }
    }

    /// Takes blocks from a slot that holds each once, calls it as everyone does, and has none that
    /// waits.
    fn remove_plain(&mut self, slot: Slot, engines: &[u64], tier: Tier, applied: &mut Applied) {
        let mut left = engines;
        while let Some((&engine, rest)) = left.split_first() {
            let Some(place) = self.tree.find(engine) else {
                left = rest;
                applied.unknown += 1;
                continue;
            };
            let (from, to, count) = self.tree.stretch(place, left);
            left = left.get(count..).unwrap_or(&[]);
            let held = self.tree.drop_blocks(slot, tier, from, to);
            applied.removed += held;
            applied.unknown += count - held;
            if let Some(life) = self.ranks.life_mut(slot) {
                life.let_go(tier, held);
            }
        }
    }

    /// Takes blocks from any slot. Neighbours go together, so that a list in order cuts no run
    /// into splinters.
    fn remove_any(&mut self, slot: Slot, engines: &[u64], tier: Tier, applied: &mut Applied) {
        self.extras_left(slot);
        let mut stretch: Option<Stretch> = None;
        let mut left = engines;
        while let Some((&engine, rest)) = left.split_first() {
            let place = self.find(slot, engine);
            let held = place.filter(|&place| self.tree.holds_in(slot, tier, place));
            let Some(life) = self.ranks.life_mut(slot) else { return };
            let Some(place) = held else {
                let waited = life.orphans.remove(engine, tier);
                applied.removed += usize::from(waited);
                applied.unknown += usize::from(!waited);
                left = rest;
                continue;
            };
            let sequence = self.tree.block(place).map(|block| block.sequence);
            if sequence.is_some_and(|sequence| life.take_copy(sequence, tier)) {
                applied.copies_removed += 1;
            } else if let Some(open) = &mut stretch {
                if !open.take_in(place) {
                    // What was put off is done first: it may be this very block, or cut its run.
                    self.drop_stretch(slot, tier, stretch.take(), applied);
                    continue;
                }
            } else {
                stretch = Some(Stretch::of(place));
            }
            life.take_name(engine);
            left = rest;
        }
        self.drop_stretch(slot, tier, stretch, applied);
    }

    fn drop_stretch(
        &mut self,
        slot: Slot,
        tier: Tier,
        stretch: Option<Stretch>,
        applied: &mut Applied,
    ) {
        let Some(Stretch { run, from, to }) = stretch else { return };
        let held = self.tree.drop_blocks(slot, tier, Place { run, at: from }, to);
        applied.removed += held;
        if let Some(life) = self.ranks.life_mut(slot) {
            life.let_go(tier, held);
        }
    }
}
