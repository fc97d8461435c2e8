//! How much an index may hold.
//!
//! Owns the bounds of one index, and what counts against them besides blocks: in sum over all ranks,
//! as no rank's own bound says anything of thousands. It doesn't know what is done when one is
//! reached. The page of [`super`] says what they come to in bytes.

use std::ops::{Add, Sub};

/// The most distinct blocks of one index, unless set, and the most names and copies that it keeps of
/// single engines besides: far above what a fleet holds. If prompts are long, the blocks take 2 GiB,
/// the names as much; the page of this module's parent says what they take at worst.
pub const DEFAULT_MOST_BLOCKS: usize = 1 << 26;

/// Blocks that wait for their parent, of all ranks.
const MOST_ORPHANS: usize = 1 << 20;

/// Bytes of what is in them.
const MOST_ORPHAN_BYTES: usize = 256 << 20;

/// The bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Distinct blocks.
    pub(super) blocks: usize,
    /// What else there may be.
    pub(super) extras: Extras,
}

/// What is kept of ranks besides the blocks that they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extras {
    /// Names that one engine alone uses, and blocks that are held more than once.
    pub(super) names: usize,
    /// Blocks that wait for their parent.
    pub(super) orphans: usize,
    /// Bytes of what is in them.
    pub(super) orphan_bytes: usize,
}

impl Limits {
    pub(super) fn of_blocks(blocks: usize) -> Self {
        let extras = Extras {
            names: blocks,
            orphans: blocks.min(MOST_ORPHANS),
            orphan_bytes: MOST_ORPHAN_BYTES,
        };
        Self { blocks, extras }
    }
}

impl Add for Extras {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            names: self.names + other.names,
            orphans: self.orphans + other.orphans,
            orphan_bytes: self.orphan_bytes + other.orphan_bytes,
        }
    }
}

impl Sub for Extras {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            names: self.names.saturating_sub(other.names),
            orphans: self.orphans.saturating_sub(other.orphans),
            orphan_bytes: self.orphan_bytes.saturating_sub(other.orphan_bytes),
        }
    }
}
