//! The rows that are left, as columns.
//!
//! Owns the [`Matrix`] (the union of all declared columns for the rows of one decision, filled
//! once, compacted when filters reject rows; a column that is one number is that number, and is
//! written out beside the others only when it wasn't that before) and the [`Candidates`] view, through
//! which a stage reads what it declared and nothing else. What a matrix knows of its values goes with it, so two of
//! the same columns may change places at any time: a record takes a decision's like that.

use std::sync::Arc;

use crate::fleet::Snapshot;
use crate::ids::WorkerRank;
use crate::recording::RecordedRows;

use super::input::{Input, InputSet};

/// The columns of one decision, column-major; its buffers are reused.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    rows: usize,
    columns: Arc<[Input]>,
    /// The same, whatever their order.
    set: InputSet,
    /// Where each input's column stands among these, by the input's number.
    place: [Option<u8>; Input::ALL.len()],
    /// Which columns are known to be one number in every row: bit c is the c-th.
    uniform: u64,
    /// The other columns, one after another, and then those numbers; behind them, memory for more.
    values: Vec<f64>,
    /// How many of the values these are.
    used: usize,
    /// For how many rows it is laid out so, and with which inputs neutral; none once rows were left out.
    laid_out: Option<(usize, InputSet)>,
    /// By column: where it stands, and if it is one number, that written out.
    spread: Vec<Spread>,
}

/// A column of one number, written out for as many rows as it was wanted for.
#[derive(Clone, Debug, Default)]
struct Spread {
    number: f64,
    column: Vec<f64>,
    /// How many columns before it have a value of their own in each row.
    before: usize,
}

impl Spread {
    /// Holds this number in at least so many rows.
    fn hold(&mut self, number: f64, rows: usize) {
        if self.number.to_bits() != number.to_bits() {
            self.number = number;
            self.column.clear();
        }
        if self.column.len() < rows {
            self.column.resize(rows, number);
        }
    }
}

/// All columns of a decision, as they stand in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block<'a> {
    /// Which columns are one number in every row: bit c is the c-th.
    pub uniform: u64,
    /// The others, one after another, and then the numbers of these.
    pub numbers: &'a [f64],
}

impl Matrix {
    /// A matrix of these columns; identity isn't one.
    #[must_use]
    pub fn new(inputs: &[Input]) -> Self {
        let columns: Arc<[Input]> = inputs.iter().copied().filter(|i| i.is_column()).collect();
        let mut place = [None; Input::ALL.len()];
        for (at, &input) in columns.iter().enumerate() {
            place[input as usize] = Some(at as u8);
        }
        let set = columns.iter().copied().collect();
        let spread = columns.iter().map(|_| Spread::default()).collect();
        Self { columns, set, place, spread, ..Self::default() }
    }

    /// An empty one of the same columns, in the same order.
    pub(crate) fn blank(&self) -> Self {
        Self {
            columns: self.columns.clone(),
            set: self.set,
            place: self.place,
            spread: self.columns.iter().map(|_| Spread::default()).collect(),
            ..Self::default()
        }
    }

    /// Whether the other has the same columns in the same order.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.columns, &other.columns) || self.columns == other.columns
    }

    /// Its columns, in order.
    #[must_use]
    pub fn inputs(&self) -> &[Input] {
        &self.columns
    }

    /// Its columns, whatever their order.
    pub(crate) fn set(&self) -> InputSet {
        self.set
    }

    /// How many rows it has.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Fills every column for `rows` rows.
    pub fn fill(&mut self, rows: usize, fill: impl FnMut(Input, &mut [f64])) {
        self.fill_but(rows, InputSet::default(), fill);
    }

    /// The same but for those that are [`Input::neutral`] in every row, which aren't filled.
    pub fn fill_but(
        &mut self,
        rows: usize,
        neutral: InputSet,
        mut fill: impl FnMut(Input, &mut [f64]),
    ) {
        // From one decision to the next it is mostly the same.
        if self.laid_out != Some((rows, neutral)) {
            self.lay_out(rows, neutral);
        }
        let mut varying = if rows == 0 { 0 } else { !self.uniform };
        for column in self.values.chunks_exact_mut(rows.max(1)) {
            let Some(&input) = self.columns.get(varying.trailing_zeros() as usize) else { break };
            varying &= varying.wrapping_sub(1);
            fill(input, column);
        }
    }

    fn lay_out(&mut self, rows: usize, neutral: InputSet) {
        (self.rows, self.uniform) = (rows, 0);
        let mut before = 0;
        for (at, (&input, spread)) in self.columns.iter().zip(&mut self.spread).enumerate() {
            spread.before = before;
            if neutral.contains(input) {
                self.uniform |= 1 << at;
                spread.hold(input.neutral(), rows);
            } else {
                before += 1;
            }
        }
        let columns = self.columns.len();
        // Room for all of them, whichever vary: it isn't given back, so that it needn't be cleared again.
        let most = columns * (rows + 1);
        if self.values.len() < most {
            self.values.resize(most, 0.0);
        }
        let numbers = self.spread.iter().enumerate();
        let numbers = numbers.filter(|(at, _)| self.uniform >> at & 1 == 1);
        let tail = self.values.iter_mut().skip(before * rows);
        tail.zip(numbers).for_each(|(to, (_, spread))| *to = spread.number);
        self.used = before * rows + columns - before;
        self.laid_out = Some((rows, neutral));
    }

    /// How many columns have a value of their own in each row.
    fn varying(&self) -> usize {
        self.columns.len() - self.uniform.count_ones() as usize
    }

    /// What a column is in every row, where that is known without looking.
    #[must_use]
    pub fn uniform(&self, input: Input) -> Option<f64> {
        let at = self.place[input as usize]? as usize;
        let spread = self.spread.get(at)?;
        (self.uniform >> at & 1 == 1).then_some(spread.number)
    }

    /// A column; none if it isn't one of these.
    #[must_use]
    pub fn column(&self, input: Input) -> Option<&[f64]> {
        let at = self.place[input as usize]? as usize;
        if self.uniform >> at & 1 == 1 {
            return self.spread.get(at)?.column.get(..self.rows);
        }
        let start = self.spread.get(at)?.before * self.rows;
        self.values.get(start..start + self.rows)
    }

    /// All columns, in the order given to [`Matrix::new`].
    #[must_use]
    pub fn block(&self) -> Block<'_> {
        Block { uniform: self.uniform, numbers: self.values.get(..self.used).unwrap_or_default() }
    }

    /// Becomes what another is once only the rows of `kept` are left in it, in the memory that it has.
    pub(crate) fn become_rows_of(&mut self, other: &Self, kept: &[u32]) {
        if !self.is_like(other) {
            *self = other.blank();
        }
        (self.rows, self.uniform, self.laid_out) = (kept.len(), other.uniform, None);
        for (at, (spread, of)) in self.spread.iter_mut().zip(&other.spread).enumerate() {
            spread.before = of.before;
            if other.uniform >> at & 1 == 1 {
                spread.hold(of.number, kept.len());
            }
        }
        let block = other.block().numbers;
        let (columns, numbers) =
            block.split_at_checked(other.varying() * other.rows).unwrap_or_default();
        self.values.clear();
        for column in columns.chunks_exact(other.rows.max(1)) {
            let value = |&row: &u32| column.get(row as usize).copied().unwrap_or(f64::NAN);
            self.values.extend(kept.iter().map(value));
        }
        self.values.extend_from_slice(numbers);
        self.used = self.values.len();
    }

    /// Leaves only the rows of `kept`, ascending indices of rows that there are.
    pub fn compact(&mut self, kept: &[u32]) {
        let (old, varying) = (self.rows, self.varying());
        let mut to = 0;
        // Every value moves towards the front or stays, so none is overwritten before it moved.
        for column in 0..varying {
            for &row in kept {
                let value = self.values.get(column * old + row as usize).copied();
                if let Some(place) = self.values.get_mut(to) {
                    *place = value.unwrap_or(f64::NAN);
                }
                to += 1;
            }
        }
        let numbers = varying * old..self.used;
        self.used = to + numbers.len();
        self.values.copy_within(numbers, to);
        (self.rows, self.laid_out) = (kept.len(), None);
    }
}

/// Memory for some of a decision's rows, used again and again.
#[derive(Debug, Default)]
pub(crate) struct Room {
    ids: Vec<WorkerRank>,
    matrix: Matrix,
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

    /// The same for a stage that declared these.
    pub(crate) fn for_stage(self, declared: InputSet) -> Self {
        Self { declared, ..self }
    }

    /// Which rows these are, whether or not the stage may know.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &'a WorkerRank> {
        self.ids.iter()
    }

    /// Only the rows of `kept`, ascending indices of these, in the memory of `room`.
    pub(crate) fn rows_of<'b>(self, kept: &[u32], room: &'b mut Room) -> Candidates<'b>
    where
        'a: 'b,
    {
        room.ids.clear();
        room.ids.extend(kept.iter().filter_map(|&row| self.ids.get(row as usize)));
        room.matrix.become_rows_of(self.matrix, kept);
        Candidates { ids: &room.ids, fleet: None, matrix: &room.matrix, ..self }
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

    /// One of these columns that isn't there or wasn't declared; none if all are.
    #[must_use]
    pub fn lacks(&self, inputs: InputSet) -> Option<Input> {
        let there = self.matrix.set.intersection(self.declared);
        inputs.without(there).iter().next()
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
    pub fn block_of(&self, inputs: &[Input]) -> Option<Block<'a>> {
        let columns = inputs.iter().copied().filter(|i| i.is_column());
        columns.eq(self.matrix.inputs().iter().copied()).then(|| self.matrix.block())
    }
}

#[cfg(test)]
mod tests;
