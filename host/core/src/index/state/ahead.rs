//! What a change will touch, read before it is made.
//!
//! Owns which parts of an index come near the core that makes a change, while others may still look
//! up: most of the time of a long event is memory that is waited for, and nobody should have to wait
//! for that but the one who makes the change. It changes nothing, and doesn't know locks.

use super::State;
use super::steps::{Change, Next};

/// With fewer blocks than these, it is sooner done than looked at.
const FEW: usize = 8;

impl State {
    /// Reads what the next step of a change will touch.
    pub(in crate::index) fn look_ahead(&self, change: &Change<'_>) {
        match change.next() {
            Next::Stored(engines) if engines.len() >= FEW => self.tree.approach(engines),
            Next::Removed(engines) if engines.len() >= FEW => {
                self.tree.approach(engines);
                self.tree.approach_blocks(engines);
            }
            _ => {}
        }
    }
}
