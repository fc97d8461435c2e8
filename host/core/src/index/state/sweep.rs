//! How runs are rid of dead slots, a little at a time.
//!
//! Owns where the sweep stands, and how much it does before others have their turn: so many runs
//! are looked at, and so many blocks freed. A slot may be used again once every run has been looked
//! at since it died: those that there were, and those that were split off meanwhile.

use super::State;
use crate::index::tree::RunId;

/// What is done at once.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Runs that are looked at, at most.
    runs: usize,
    /// Blocks that are freed, or less than a run's more.
    blocks: usize,
}

/// With each event.
const WITH_AN_EVENT: Part = Part { runs: 64, blocks: 64 };

/// When there is time: some tens of microseconds.
const AT_LEISURE: Part = Part { runs: 256, blocks: AT_LEISURE_BLOCKS };

/// For a change that there is no room for.
const FOR_ROOM: Part = Part { runs: 1_024, blocks: 1_024 };

/// Blocks that are freed when there is time.
pub(in crate::index) const AT_LEISURE_BLOCKS: usize = 256;

/// Where the sweep goes on, and how many dead slots it is for: none if none is under way.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    next: usize,
    dead: usize,
    /// Runs that were split off meanwhile, still to be looked at.
    split_off: Vec<RunId>,
}

impl State {
    /// To be called with each event.
    #[inline]
    pub(in crate::index) fn sweep_a_little(&mut self) {
        if self.is_untidy() {
            self.sweep(WITH_AN_EVENT);
        }
    }

    /// To be called now and then.
    pub(in crate::index) fn sweep_more(&mut self) {
        if self.is_untidy() {
            self.sweep(AT_LEISURE);
        }
    }

    /// To be called when there is no room for what comes.
    pub(in crate::index) fn sweep_for_room(&mut self) {
        self.sweep(FOR_ROOM);
    }

    /// Whether there is anything to sweep.
    pub(in crate::index) fn is_untidy(&self) -> bool {
        self.ranks.dead() > 0 || self.tree.has_loose()
    }

    /// Frees what had to stay, and takes the dead slots out of a few runs.
    fn sweep(&mut self, part: Part) {
        let Self { tree, ranks, sweep, .. } = self;
        tree.allow_to_free(part.blocks);
        tree.free_loose(part.runs);
        for _ in 0..part.runs {
            if ranks.dead() == 0 || !tree.may_free() {
                return;
            }
            if sweep.dead == 0 {
                *sweep = Sweep { dead: ranks.dead(), ..Sweep::default() };
                tree.note_splits(true);
            }
            if sweep.next < tree.run_numbers() {
                tree.forget(sweep.next as RunId, ranks.dead_set());
                sweep.next += 1;
                continue;
            }
            // What was split off a run before that was swept may have got a number that had been.
            if sweep.split_off.is_empty() {
                sweep.split_off = tree.note_splits(true);
            }
            if let Some(id) = sweep.split_off.pop() {
                tree.forget(id, ranks.dead_set());
                continue;
            }
            tree.note_splits(false);
            ranks.bury(sweep.dead);
            sweep.dead = 0;
        }
    }
}
