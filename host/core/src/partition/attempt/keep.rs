//! What is kept of a decision, for those who are shown it afterwards.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Attempt;
use crate::partition::Mode;
use crate::policy::Input;
use crate::recording::Recording;
use crate::rollout::{Shadow, inputs_of};

/// What is kept of a decision while it is made.
#[derive(Default)]
pub(super) struct Keep {
    /// What those read who will be shown it; every column if it is to be recorded.
    pub(super) inputs: SmallVec<[Input; Input::ALL.len()]>,
    pub(super) prefix_hash_blocks: u32,
    pub(super) shadows: SmallVec<[Arc<Shadow>; 2]>,
    /// What was kept, of whoever was asked last.
    pub(super) recording: Option<Recording>,
}

impl Keep {
    pub(super) fn wants_anything(&self) -> bool {
        !self.inputs.is_empty()
    }
}

impl Attempt<'_> {
    /// What is to be kept of the decision.
    pub(super) fn keep(&self, shadows: &[Arc<Shadow>]) -> Keep {
        let mut keep = Keep::default();
        if self.mode == Mode::DryRun {
            return keep;
        }
        keep.shadows.extend(shadows.iter().filter(|shadow| shadow.wants(self.moment)).cloned());
        let records = self.mode == Mode::Record;
        if keep.shadows.is_empty() && !records {
            return keep;
        }
        let mut wanted = inputs_of(&keep.shadows);
        // What a choice is compared by.
        wanted.insert(Input::CachedTokens);
        let wanted = |input: &Input| input.is_column() && (records || wanted.contains(*input));
        keep.inputs = Input::ALL.into_iter().filter(wanted).collect();
        let hashes = keep.shadows.iter().map(|shadow| shadow.prefix_hash_blocks());
        keep.prefix_hash_blocks = hashes.max().unwrap_or(0);
        keep
    }
}
