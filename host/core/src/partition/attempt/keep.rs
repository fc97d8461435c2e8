//! What is kept of a decision, for those who are shown it afterwards.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Attempt;
use crate::partition::Mode;
use crate::policy::input::{Input, InputSet};
use crate::recording::{Contents, Recording, Shelf};
use crate::rollout::Shadow;

/// What is kept of a decision while it is made.
#[derive(Default)]
pub(super) struct Keep {
    /// What those read who will be shown it; every column if it is to be recorded.
    pub(super) inputs: InputSet,
    pub(super) prefix_hash_blocks: u32,
    /// Those who will be shown it, by their places.
    pub(super) shadows: SmallVec<[u16; 4]>,
    /// What is kept, of whoever was asked last; none if nothing is to be.
    pub(super) contents: Option<Box<Contents>>,
}

impl Keep {
    /// The record that is to be made, and the columns that are wanted for it.
    pub(super) fn recording(&mut self) -> Option<(&mut Recording, InputSet)> {
        let contents = self.contents.as_mut()?;
        Some((&mut contents.recording, self.inputs))
    }
}

impl Attempt<'_> {
    /// What is to be kept of the decision.
    pub(super) fn keep(&self, shadows: &[Arc<Shadow>], shelf: &Shelf) -> Keep {
        let mut keep = Keep::default();
        if self.mode == Mode::DryRun {
            return keep;
        }
        for (place, shadow) in (0..).zip(shadows) {
            if shadow.wants(self.moment) {
                keep.shadows.push(place);
                keep.prefix_hash_blocks = keep.prefix_hash_blocks.max(shadow.prefix_hash_blocks());
                keep.inputs = keep.inputs.union(shadow.inputs());
            }
        }
        if self.mode == Mode::Record {
            keep.inputs = columns();
        } else if keep.shadows.is_empty() {
            return keep;
        }
        keep.contents = Some(shelf.take());
        // What a choice is compared by.
        keep.inputs.insert(Input::CachedTokens);
        keep
    }
}

/// Every column.
fn columns() -> InputSet {
    Input::ALL.into_iter().filter(|input| input.is_column()).collect()
}
