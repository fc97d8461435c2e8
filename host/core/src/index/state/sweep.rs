//! How runs are rid of dead slots, a little at a time.
//!
//! Owns where the sweep stands. A slot may be used again once every run has been looked at since it
//! died: those that there were, and those that were split off one that was still to come.

use super::State;
use crate::index::tree::RunId;

/// Runs that are swept with each event.
const WITH_AN_EVENT: usize = 64;

/// Runs that are swept when there is time.
const AT_LEISURE: usize = 1_024;

/// Where the sweep goes on, and how many dead slots it is for.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    next: usize,
    dead: usize,
}

impl State {
    /// To be called with each event.
    #[inline]
    pub(in crate::index) fn sweep_a_little(&mut self) {
        if self.ranks.dead() > 0 {
            self.sweep(WITH_AN_EVENT);
        }
    }

    /// To be called now and then.
    pub(in crate::index) fn sweep_more(&mut self) {
        if self.ranks.dead() > 0 {
            self.sweep(AT_LEISURE);
        }
    }

    /// Takes the dead slots out of a few runs.
    fn sweep(&mut self, runs: usize) {
        let Self { tree, ranks, sweep, .. } = self;
        if sweep.next == 0 {
            sweep.dead = ranks.dead();
            tree.note_splits(true);
        }
        let end = tree.run_numbers();
        let until = (sweep.next + runs).min(end);
        for id in sweep.next..until {
            tree.forget(id as RunId, ranks.dead_set());
        }
        sweep.next = until;
        if until == end {
            // What was split off a run before that was swept may have got a number that had been.
            for id in tree.note_splits(false) {
                tree.forget(id, ranks.dead_set());
            }
            sweep.next = 0;
            ranks.bury(sweep.dead);
        }
    }
}
