//! What is kept of a decision, for those who are shown it afterwards.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Attempt;
use crate::partition::Mode;
use crate::policy::Input;
use crate::recording::{Contents, Recording, Shelf};
use crate::rollout::{Shadow, inputs_of};

/// What is kept of a decision while it is made.
#[derive(Default)]
pub(super) struct Keep {
    /// What those read who will be shown it; every column if it is to be recorded.
    pub(super) inputs: SmallVec<[Input; Input::ALL.len()]>,
    pub(super) prefix_hash_blocks: u32,
    /// Those who will be shown it, by their places.
    pub(super) shadows: SmallVec<[u16; 4]>,
    /// What is kept, of whoever was asked last; none if nothing is to be.
    pub(super) contents: Option<Box<Contents>>,
}

impl Keep {
    /// The record that is to be made, and the columns that are wanted for it.
    pub(super) fn recording(&mut self) -> Option<(&mut Recording, &[Input])> {
        let contents = self.contents.as_mut()?;
        Some((&mut contents.recording, &self.inputs))
    }
}

impl Attempt<'_> {
    /// What is to be kept of the decision.
    pub(super) fn keep(&self, shadows: &[Arc<Shadow>], shelf: &Shelf) -> Keep {
        let mut keep = Keep::default();
        if self.mode == Mode::DryRun {
            return keep;
        }
        let wanting = (0..).zip(shadows).filter(|(_, shadow)| shadow.wants(self.moment));
        keep.shadows.extend(wanting.map(|(place, _)| place));
        let records = self.mode == Mode::Record;
        if keep.shadows.is_empty() && !records {
            return keep;
        }
        keep.contents = Some(shelf.take());
        let wanting = || keep.shadows.iter().filter_map(|&at| shadows.get(usize::from(at)));
        let mut wanted = inputs_of(wanting());
        let hashes = wanting().map(|shadow| shadow.prefix_hash_blocks());
        keep.prefix_hash_blocks = hashes.max().unwrap_or(0);
        // What a choice is compared by.
        wanted.insert(Input::CachedTokens);
        let wanted = |input: &Input| input.is_column() && (records || wanted.contains(*input));
        keep.inputs = Input::ALL.into_iter().filter(wanted).collect();
        keep
    }
}
