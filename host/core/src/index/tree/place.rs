//! Where a block is: a run and a place in it, and how that is kept in 32 bits.
//!
//! Owns places and the references that are kept of them. A run that is split leaves references as
//! they are: what was cut off is found by following the run's continuation.

use super::run::{LONGEST, Run};

/// Bits of a reference that tell the place in the run.
const PLACE_BITS: u32 = LONGEST.trailing_zeros();

/// The most runs that references can tell apart.
pub(super) const MOST_RUNS: usize = 1 << (32 - PLACE_BITS);

/// A run's number.
pub(in crate::index) type RunId = u32;

/// No run.
pub(super) const NO_RUN: RunId = RunId::MAX;

/// A block's place: a run, and which of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) struct Place {
    pub(in crate::index) run: RunId,
    pub(in crate::index) at: usize,
}

/// A place as it was, in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) struct Reference(u32);

impl Reference {
    pub(super) const NONE: Self = Self(u32::MAX);

    pub(super) fn to(place: Place) -> Self {
        Self(place.run << PLACE_BITS | place.at as u32)
    }

    /// To the block that was `count` behind this one, in the same run.
    pub(in crate::index) fn onward(self, count: usize) -> Self {
        Self(self.0 + count as u32)
    }

    /// Where it leads now.
    pub(super) fn resolve(self, runs: &[Run]) -> Option<Place> {
        if self == Self::NONE {
            return None;
        }
        let mut id = self.0 >> PLACE_BITS;
        let mut at = self.0 as usize % LONGEST;
        loop {
            let run = runs.get(id as usize)?;
            let len = run.blocks.len();
            if at < len {
                return Some(Place { run: id, at });
            }
            // A freed run has no blocks and no continuation.
            at -= len;
            id = run.continuation;
        }
    }

    /// What the engine that told us first calls the block there.
    pub(super) fn engine(self, runs: &[Run]) -> Option<u64> {
        let place = self.resolve(runs)?;
        Some(runs.get(place.run as usize)?.blocks.get(place.at)?.engine)
    }
}
