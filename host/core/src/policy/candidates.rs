//! The rows that are left, as columns.
//!
//! Owns the [`Matrix`] (the union of all declared columns for the rows of one decision, filled
//! once, compacted when filters reject rows; a column that is one number is written only when it
//! wasn't that before) and the [`Candidates`] view, through which a stage
//! reads what it declared and nothing else.

use std::sync::Arc;

use crate::fleet::Snapshot;
use crate::ids::WorkerRank;
use crate::recording::RecordedRows;

use super::input::{Input, InputSet};

/// The columns of one decision, column-major; its buffer is reused.
#[derive(Debug, Default)]
pub struct Matrix {
    rows: usize,
    columns: Vec<Input>,
    /// Where each input's column stands, by the input's number.
    place: [Option<u8>; Input::ALL.len()],
    values: Vec<f64>,
    /// What each column is in every row, where that is known.
    uniform: Vec<Option<f64>>,
    /// Whether `values` is laid out for `rows`, as it was filled.
    whole: bool,
}

impl Matrix {
    /// A matrix of these columns; identity isn't one.
    #[must_use]
    pub fn new(inputs: &[Input]) -> Self {
        let columns: Vec<Input> = inputs.iter().copied().filter(|i| i.is_column()).collect();
        let mut place = [None; Input::ALL.len()];
        for (at, &input) in columns.iter().enumerate() {
            place[input as usize] = Some(at as u8);
        }
        let uniform = vec![None; columns.len()];
        Self { rows: 0, columns, place, values: Vec::new(), uniform, whole: false }
    }

    /// Its columns, in order.
    #[must_use]
    pub fn inputs(&self) -> &[Input] {
        &self.columns
    }

    /// Fills every column for `rows` rows.
    pub fn fill(&mut self, rows: usize, fill: impl FnMut(Input, &mut [f64])) {
        self.fill_but(rows, |_| None, fill);
    }

    /// The same, where `same` knows which columns are one number in every row, and which; those aren't
    /// filled.
    pub fn fill_but(
        &mut self,
        rows: usize,
        same: impl Fn(Input) -> Option<f64>,
        mut fill: impl FnMut(Input, &mut [f64]),
    ) {
        let stands = self.whole && self.rows == rows;
        (self.rows, self.whole) = (rows, true);
        self.values.resize(rows * self.columns.len(), 0.0);
        if rows == 0 {
            return;
        }
        let columns = self.values.chunks_exact_mut(rows).zip(&self.columns);
        for ((column, &input), uniform) in columns.zip(&mut self.uniform) {
            let before = uniform.filter(|_| stands).map(f64::to_bits);
            *uniform = same(input);
            match *uniform {
                None => fill(input, column),
                Some(value) if before == Some(value.to_bits()) => {}
                Some(value) => column.fill(value),
            }
        }
    }

    /// What a column is in every row, where that is known without looking.
    #[must_use]
    pub fn uniform(&self, input: Input) -> Option<f64> {
        self.uniform.get(self.place[input as usize]? as usize).copied().flatten()
    }

    /// A column; none if it isn't one of these.
    #[must_use]
    pub fn column(&self, input: Input) -> Option<&[f64]> {
        let at = self.place[input as usize]? as usize;
        self.values.get(at * self.rows..(at + 1) * self.rows)
    }

    /// All columns one after another, in the order given to [`Matrix::new`].
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Leaves only the rows of `kept`, ascending indices of rows that there are.
    pub fn compact(&mut self, kept: &[u32]) {
        let old = self.rows;
        let mut to = 0;
        // Every value moves towards the front or stays, so none is overwritten before it moved.
        for column in 0..self.columns.len() {
            for &row in kept {
                let value = self.values.get(column * old + row as usize).copied();
                if let Some(place) = self.values.get_mut(to) {
                    *place = value.unwrap_or(f64::NAN);
                }
                to += 1;
            }
        }
        self.rows = kept.len();
        self.whole = false;
        self.values.truncate(to);
    }
}

/// What one stage sees of the rows.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    ids: &'a [WorkerRank],
    fleet: Option<&'a Arc<Snapshot>>,
    matrix: &'a Matrix,
    declared: InputSet,
    prefix_hashes: &'a [u64],
}

impl<'a> Candidates<'a> {
    /// The rows `ids`, with their columns in `matrix`, for a stage that declared `declared`.
    #[must_use]
    pub fn new(
        ids: &'a [WorkerRank],
        matrix: &'a Matrix,
        declared: InputSet,
        prefix_hashes: &'a [u64],
    ) -> Self {
        Self { ids, fleet: None, matrix, declared, prefix_hashes }
    }

    /// The same of rows that may be all of a fleet's.
    pub(crate) fn of_rows(
        rows: &'a RecordedRows,
        matrix: &'a Matrix,
        declared: InputSet,
        prefix_hashes: &'a [u64],
    ) -> Self {
        Self { ids: rows, fleet: rows.fleet(), matrix, declared, prefix_hashes }
    }

    /// The fleet whose rows these all are, in its order: what was made of their identity holds for
    /// as long as it is the same. None if they are only some, or nobody knows.
    #[must_use]
    pub fn fleet(&self) -> Option<&'a Arc<Snapshot>> {
        self.fleet
    }

    /// What a declared column is in every row, where that is known without looking.
    #[must_use]
    pub fn uniform(&self, input: Input) -> Option<f64> {
        self.matrix.uniform(input).filter(|_| self.declared.contains(input))
    }

    /// How many rows there are; at least one.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.ids.len()
    }

    /// A declared column, one value per row; none if the stage didn't declare it.
    #[must_use]
    pub fn column(&self, input: Input) -> Option<&'a [f64]> {
        if self.declared.contains(input) { self.matrix.column(input) } else { None }
    }

    /// The rows' identity; none if the stage didn't declare it.
    #[must_use]
    pub fn identity(&self) -> Option<&'a [WorkerRank]> {
        self.declared.contains(Input::Identity).then_some(self.ids)
    }

    /// Chained hashes of the prompt's leading blocks, as many as the instance declared.
    #[must_use]
    pub fn prefix_hashes(&self) -> &'a [u64] {
        self.prefix_hashes
    }

    /// All columns as one block, when they are exactly what a stage declared, in its order.
    #[must_use]
    pub fn block_of(&self, inputs: &[Input]) -> Option<&'a [f64]> {
        let columns = inputs.iter().copied().filter(|i| i.is_column());
        columns.eq(self.matrix.columns.iter().copied()).then_some(self.matrix.values())
    }
}

/// One verdict per row, as a bit mask: row r is bit (r mod 64) of word (r div 64).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowMask {
    rows: usize,
    words: Vec<u64>,
}

impl RowMask {
    /// Makes the mask `rows` long, with every row kept.
    pub fn keep_all(&mut self, rows: usize) {
        self.rows = rows;
        self.words.clear();
        self.words.resize(rows.div_ceil(64), u64::MAX);
        if let (Some(last), rest @ 1..) = (self.words.last_mut(), rows % 64) {
            *last = (1 << rest) - 1;
        }
    }

    /// Becomes what another is, in the memory that it has.
    pub fn copy_from(&mut self, other: &Self) {
        self.rows = other.rows;
        self.words.clone_from(&other.words);
    }

    /// Rejects a row; nothing if there is no such row.
    pub fn reject(&mut self, row: usize) {
        if let Some(word) = self.words.get_mut(row / 64) {
            *word &= !(1 << (row % 64));
        }
    }

    /// Whether a row is kept.
    #[must_use]
    pub fn keeps(&self, row: usize) -> bool {
        self.words.get(row / 64).is_some_and(|word| word & (1 << (row % 64)) != 0)
    }

    /// How many rows are kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// How many rows before `row` are kept: its index once the others are gone.
    #[must_use]
    pub fn kept_before(&self, row: usize) -> usize {
        let (whole, rest) = (row / 64, row % 64);
        let below = self.words.get(whole).map_or(0, |word| word & ((1 << rest) - 1));
        let words = self.words.iter().take(whole);
        words.chain([&below]).map(|word| word.count_ones() as usize).sum()
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The mask's words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Keeps only what `words` keeps too. False, and nothing changed, if they are not a mask of as
    /// many rows.
    #[must_use]
    pub fn and(&mut self, words: &[u64]) -> bool {
        if words.len() != self.words.len() {
            return false;
        }
        let past_the_end = match self.rows % 64 {
            0 => 0,
            rest => words.last().copied().unwrap_or(0) >> rest,
        };
        if past_the_end != 0 {
            return false;
        }
        for (mine, theirs) in self.words.iter_mut().zip(words) {
            *mine &= theirs;
        }
        true
    }

    /// The kept rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let bit = left.trailing_zeros() as usize;
                    left &= left - 1;
                    at * 64 + bit
                })
            })
        })
    }
}

#[cfg(test)]
mod tests;
