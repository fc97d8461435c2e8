//! Which slot stands for which row.
//!
//! Owns the table that is made once for each change of the ranks or of the fleet. Slots are given
//! out in the order in which ranks come, which is often the rows': then whole words of columns are
//! written at once.

use crate::fleet::Snapshot;
use crate::index::holders::Slot;
use crate::index::ranks::{Ranks, Version};

/// No row.
const NO_ROW: u32 = u32::MAX;

/// Which slot stands for which row.
#[derive(Debug, Default)]
pub(super) struct Alignment {
    /// Of the ranks and of the snapshot that this is for; none at first.
    version: Option<(Version, u64)>,
    pub(super) rows: usize,
    row_of: Vec<u32>,
    /// The slots that stand for a row, as bits.
    pub(super) mask: Vec<u64>,
    /// Whether each slot stands for the row of its own number.
    straight: bool,
}

impl Alignment {
    pub(super) fn align(&mut self, ranks: &Ranks, snapshot: &Snapshot) {
        let version = Some((ranks.version(), snapshot.generation));
        if self.version == version && self.rows == snapshot.rows.len() {
            return;
        }
        self.version = version;
        self.rows = snapshot.rows.len();
        self.row_of.clear();
        self.row_of.resize(ranks.slots(), NO_ROW);
        self.mask.clear();
        self.mask.resize(ranks.slots().div_ceil(64), 0);
        self.straight = true;
        for (rank, slot) in ranks.iter() {
            let Some(row) = snapshot.row_of(rank) else { continue };
            self.straight &= row == slot as usize;
            if let Some(place) = self.row_of.get_mut(slot as usize) {
                *place = row as u32;
            }
            if let Some(word) = self.mask.get_mut(slot as usize / 64) {
                *word |= 1 << (slot % 64);
            }
        }
    }

    /// Makes it stand for so many rows without slots.
    pub(super) fn clear(&mut self, rows: usize) {
        self.version = None;
        self.rows = rows;
    }

    /// The values of the rows of one word's slots, if those are the rows of the same numbers.
    pub(super) fn values_of<'c>(
        &self,
        column: &'c mut [f64],
        word: usize,
    ) -> Option<&'c mut [f64; 64]> {
        if !self.straight {
            return None;
        }
        column.get_mut(word * 64..)?.first_chunk_mut()
    }

    /// Whether every slot of a word stands for a row.
    pub(super) fn all_stand(&self, word: usize) -> bool {
        self.mask.get(word) == Some(&u64::MAX)
    }

    pub(super) fn row(&self, slot: Slot) -> usize {
        self.row_of.get(slot as usize).map_or(usize::MAX, |&row| row as usize)
    }
}
