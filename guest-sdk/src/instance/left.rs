//! The rows that the filters left, within a fused call.
//!
//! While no row was dropped, these are the lists as they were given, and nothing is copied. Once
//! one was, the values of the rest move together, so that scorers and picker see what they would
//! see in calls of their own.

use crate::layout::Matrix;
use crate::lists::Lists;

/// The rows that are left, with buffers that live from call to call.
#[derive(Debug, Default)]
pub(super) struct Left {
    dropped: bool,
    numbers: Vec<f64>,
    identity: Vec<u64>,
    /// Where each row stands among those given.
    rows: Vec<u32>,
}

impl Left {
    /// All rows are left.
    pub(super) fn all(&mut self) {
        self.dropped = false;
    }

    /// Only the rows whose bit is set are left. The lists must have the matrix' lengths, which a
    /// filter's view of them has checked; short ones give short columns, which the next view
    /// refuses.
    pub(super) fn only(&mut self, verdicts: &[u64], given: Lists<'_>, matrix: Matrix) {
        let kept: u32 = verdicts.iter().map(|word| word.count_ones()).sum();
        self.dropped = kept < given.rows;
        if !self.dropped {
            return;
        }
        self.rows.clear();
        self.rows.resize(kept as usize, 0);
        let mut places = self.rows.iter_mut();
        for (first, &word) in (0..given.rows).step_by(64).zip(verdicts) {
            let mut bits = word;
            for place in places.by_ref().take(word.count_ones() as usize) {
                *place = first + bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
            }
        }
        let identity = if matrix.identity { 2 } else { 0 };
        // What came as one number is the same for those that are left.
        let varying = matrix.columns.saturating_sub(given.uniform.count_ones() as usize);
        gather(&mut self.numbers, given.numbers, given.rows as usize, varying, &self.rows);
        gather(&mut self.identity, given.identity, given.rows as usize, identity, &self.rows);
    }

    /// The lists that the next stage gets.
    pub(super) fn lists<'a>(&'a self, given: Lists<'a>) -> Lists<'a> {
        if self.dropped {
            let Self { rows, numbers, identity, .. } = self;
            Lists { rows: rows.len() as u32, numbers, identity, ..given }
        } else {
            given
        }
    }

    /// Where a row that is left stands among those given. A row that isn't there becomes one that
    /// never is, so that the host refuses it as it would a picker's.
    pub(super) fn given_row(&self, row: u32) -> u32 {
        if self.dropped { self.rows.get(row as usize).copied().unwrap_or(u32::MAX) } else { row }
    }
}

/// Writes what the kept rows have in each column, and what comes after the columns as it is.
fn gather<T: Copy + Default>(
    into: &mut Vec<T>,
    from: &[T],
    rows: usize,
    columns: usize,
    kept: &[u32],
) {
    into.clear();
    let (columns, rest) = from.split_at(from.len().min(columns * rows));
    for column in columns.chunks_exact(rows) {
        let value = |row: u32| column.get(row as usize).copied().unwrap_or_default();
        // Eight to a turn save fuel.
        let mut blocks = kept.chunks_exact(8);
        for block in &mut blocks {
            into.extend_from_slice(&std::array::from_fn::<T, 8, _>(|lane| value(block[lane])));
        }
        into.extend(blocks.remainder().iter().map(|&row| value(row)));
    }
    into.extend_from_slice(rest);
}
