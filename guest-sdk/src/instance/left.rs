//! The rows that are left within a fused call.
//!
//! While no row was dropped, this is the lists as they were given, and nothing is copied. After a filter that
//! drops rows, the values of the rest move together, so that later stages see what they would see on their own.

use super::Lists;
use crate::layout::Matrix;

/// The rows that are left, with buffers that live from call to call.
#[derive(Debug, Default)]
pub(super) struct Left {
    dropped: bool,
    numbers: Vec<f64>,
    words: Vec<u64>,
    /// Where each row stood among those given.
    given: Vec<u32>,
    /// The three above as they were before the last filter.
    before: (Vec<f64>, Vec<u64>, Vec<u32>),
    /// Which rows of the lists before it the last filter kept.
    kept: Vec<u32>,
}

impl Left {
    /// All rows are left.
    pub(super) fn start(&mut self) {
        self.dropped = false;
    }

    /// The lists that the next stage gets.
    pub(super) fn lists<'a>(&'a self, given: Lists<'a>) -> Lists<'a> {
        if self.dropped {
            Lists { rows: self.given.len() as u32, numbers: &self.numbers, words: &self.words }
        } else {
            given
        }
    }

    /// Drops the rows whose bit is 0. The lists were checked against the matrix by the filter's own view.
    pub(super) fn keep(&mut self, mask: &[u64], given: Lists<'_>, matrix: Matrix) {
        let rows = self.lists(given).rows;
        let kept: u32 = mask.iter().map(|word| word.count_ones()).sum();
        if kept >= rows {
            return;
        }
        self.kept.clear();
        for (word, &bits) in (0_u32..).zip(mask) {
            let mut bits = bits;
            while bits != 0 {
                self.kept.push(word * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
        if self.dropped {
            std::mem::swap(&mut self.numbers, &mut self.before.0);
            std::mem::swap(&mut self.words, &mut self.before.1);
            std::mem::swap(&mut self.given, &mut self.before.2);
            self.given.clear();
            gather(&mut self.given, &self.before.2, &self.kept);
            let Self { numbers, words, before, kept, .. } = self;
            compact(numbers, words, (&before.0, &before.1), rows as usize, matrix, kept);
        } else {
            self.dropped = true;
            self.given.clear();
            self.given.extend_from_slice(&self.kept);
            let Self { numbers, words, kept, .. } = self;
            compact(numbers, words, (given.numbers, given.words), rows as usize, matrix, kept);
        }
    }

    /// All filters' verdicts together, over the `rows` that were given.
    pub(super) fn verdicts(&self, rows: u32, verdicts: &mut Vec<u64>) {
        let words = rows.div_ceil(64) as usize;
        verdicts.reserve_exact(words);
        if self.dropped {
            verdicts.resize(words, 0);
            for &row in &self.given {
                verdicts[row as usize / 64] |= 1 << (row % 64);
            }
        } else {
            verdicts.resize(words, u64::MAX);
            if let (Some(last), tail @ 1..) = (verdicts.last_mut(), rows % 64) {
                *last = (1 << tail) - 1;
            }
        }
    }

    /// Where a row that is left stood among those given. A row that isn't there becomes one that never is, so
    /// that the host refuses it as it would a picker's.
    pub(super) fn given_row(&self, row: u32) -> u32 {
        if self.dropped { self.given.get(row as usize).copied().unwrap_or(u32::MAX) } else { row }
    }
}

/// Writes what the kept rows have in the lists before, facts and hashes included.
fn compact(
    numbers: &mut Vec<f64>,
    words: &mut Vec<u64>,
    before: (&[f64], &[u64]),
    rows: usize,
    matrix: Matrix,
    kept: &[u32],
) {
    numbers.clear();
    let (columns, facts) = before.0.split_at(before.0.len().min(matrix.columns * rows));
    for column in columns.chunks_exact(rows) {
        gather(numbers, column, kept);
    }
    numbers.extend_from_slice(facts);

    words.clear();
    let identity = if matrix.identity { 2 * rows } else { 0 };
    let (identity, hashes) = before.1.split_at(before.1.len().min(identity));
    for column in identity.chunks_exact(rows) {
        gather(words, column, kept);
    }
    words.extend_from_slice(hashes);
}

fn gather<T: Copy>(into: &mut Vec<T>, from: &[T], rows: &[u32]) {
    into.extend(rows.iter().map(|&row| from[row as usize]));
}
