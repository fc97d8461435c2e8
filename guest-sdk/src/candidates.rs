//! The rows that a stage is asked about, with the columns that it declared.
//!
//! A view over the two flat lists that the host sends; nothing is copied on the way in. Reading an input that
//! the stage did not declare gives zero and is remembered: when the stage returns, the SDK turns its answer
//! into a refusal that names the input.

use std::cell::Cell;

use crate::layout::Layout;
use crate::request::Worker;
use crate::{Input, Refusal, Result};

/// Rows that a loop body handles at once. Fuel is counted per block of code, so that eight rows to a turn cost
/// a guest about a quarter less than one.
const UNROLL: usize = 8;

/// The candidates of one call, in ascending (worker id, rank) order; at least one.
#[derive(Debug)]
pub struct Candidates<'a> {
    rows: usize,
    numbers: &'a [f64],
    words: &'a [u64],
    layout: &'a Layout,
    undeclared: Cell<Option<Input>>,
}

/// One candidate.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    candidates: &'a Candidates<'a>,
    index: usize,
}

impl<'a> Candidates<'a> {
    /// A view of `rows` candidates, after a check that the lists have the layout's lengths.
    pub(crate) fn new(rows: usize, numbers: &'a [f64], words: &'a [u64], layout: &'a Layout) -> Result<Self> {
        let matrix = layout.matrix();
        let wanted = matrix.columns.checked_mul(rows).and_then(|cells| cells.checked_add(matrix.facts));
        if wanted != Some(numbers.len()) {
            return Err(Refusal::from(format!(
                "the router sent {} numbers for {rows} rows of {} columns and {} facts; \
                 it and the policy disagree about the contract",
                numbers.len(),
                matrix.columns,
                matrix.facts
            )));
        }
        if matrix.identity && words.len() / 2 < rows {
            return Err(Refusal::from(format!(
                "the router sent {} words for the ids and ranks of {rows} rows; \
                 it and the policy disagree about the contract",
                words.len()
            )));
        }
        Ok(Self { rows, numbers, words, layout, undeclared: Cell::new(None) })
    }

    /// How many rows there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none, which no stage is ever called with.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The rows, first row first.
    #[inline]
    pub fn iter(&'a self) -> impl ExactSizeIterator<Item = Row<'a>> + DoubleEndedIterator + Clone {
        (0..self.rows).map(|index| Row { candidates: self, index })
    }

    /// Row `index`, where there is one.
    #[inline]
    pub fn row(&'a self, index: usize) -> Option<Row<'a>> {
        (index < self.rows).then_some(Row { candidates: self, index })
    }

    /// One value per row; empty when the stage did not declare the input, or it isn't a column.
    #[inline]
    pub fn column(&self, input: Input) -> &'a [f64] {
        let start = self.layout.column(input) as usize;
        let column = start
            .checked_mul(self.rows)
            .and_then(|start| self.numbers.get(start..)?.get(..self.rows));
        column.unwrap_or_else(|| {
            self.miss(input);
            &[]
        })
    }

    /// A fact about the request; `None` when it isn't known for this one.
    pub fn fact(&self, name: &'static str) -> Option<f64> {
        let Some(place) = self.layout.fact(name) else {
            self.miss(Input::Fact(name));
            return None;
        };
        let facts = self.layout.matrix().columns * self.rows;
        self.numbers.get(facts + place).copied().filter(|value| !value.is_nan())
    }

    /// Writes each row's cost, as `cost` has it. The loop handles eight rows to a turn, which saves fuel.
    #[inline]
    pub fn score(&'a self, costs: &mut [f64], mut cost: impl FnMut(Row<'a>) -> f64) {
        let mut index = 0;
        let mut blocks = costs.chunks_exact_mut(UNROLL);
        for block in &mut blocks {
            for slot in block {
                *slot = cost(Row { candidates: self, index });
                index += 1;
            }
        }
        for slot in blocks.into_remainder() {
            *slot = cost(Row { candidates: self, index });
            index += 1;
        }
    }

    /// As [`Self::score`], for formulas over a few columns: `cost` gets one value of each, in the order of
    /// `inputs`. The tightest loop that there is.
    #[inline]
    pub fn score_columns<const N: usize>(
        &self,
        inputs: [Input; N],
        costs: &mut [f64],
        mut cost: impl FnMut([f64; N]) -> f64,
    ) {
        let columns = inputs.map(|input| self.column(input));
        if columns.iter().any(|column| column.len() != costs.len()) {
            return;
        }
        let mut start = 0;
        let mut blocks = costs.chunks_exact_mut(UNROLL);
        for block in &mut blocks {
            let mut cells = [[0.0; UNROLL]; N];
            for (cells, column) in cells.iter_mut().zip(columns) {
                cells.copy_from_slice(&column[start..start + UNROLL]);
            }
            for (lane, slot) in block.iter_mut().enumerate() {
                *slot = cost(std::array::from_fn(|column| cells[column][lane]));
            }
            start += UNROLL;
        }
        for (lane, slot) in blocks.into_remainder().iter_mut().enumerate() {
            *slot = cost(columns.map(|column| column[start + lane]));
        }
    }

    /// Forgets and returns the first undeclared input that was read.
    #[inline]
    pub(crate) fn take_undeclared(&self) -> Option<Input> {
        self.undeclared.take()
    }

    #[inline]
    fn value(&self, input: Input, row: usize) -> f64 {
        // In 64 bits, where an absent column's slot times any number of rows can't wrap round into the list.
        let cell = u64::from(self.layout.column(input)) * self.rows as u64 + row as u64;
        match usize::try_from(cell).ok().and_then(|cell| self.numbers.get(cell)) {
            Some(value) => *value,
            None => self.miss(input),
        }
    }

    #[cold]
    fn miss(&self, input: Input) -> f64 {
        if self.undeclared.get().is_none() {
            self.undeclared.set(Some(input));
        }
        0.0
    }
}

impl Row<'_> {
    /// The row's place among those given.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Who it is. Reads [`Input::Identity`].
    #[inline]
    pub fn worker(&self) -> Worker {
        let Candidates { rows, words, layout, .. } = self.candidates;
        match (words.get(self.index), words.get(rows + self.index)) {
            (Some(&id), Some(&rank)) if layout.identity() => Worker { id, dp_rank: rank as u32 },
            _ => {
                self.candidates.miss(Input::Identity);
                Worker { id: 0, dp_rank: 0 }
            }
        }
    }

    /// The row's value of any column.
    #[inline]
    pub fn value(&self, input: Input) -> f64 {
        self.candidates.value(input, self.index)
    }

    /// Reads [`Input::DeviceOverlapBlocks`].
    #[inline]
    pub fn device_overlap_blocks(&self) -> f64 {
        self.value(Input::DeviceOverlapBlocks)
    }

    /// Reads [`Input::HostOverlapBlocks`].
    #[inline]
    pub fn host_overlap_blocks(&self) -> f64 {
        self.value(Input::HostOverlapBlocks)
    }

    /// Reads [`Input::DiskOverlapBlocks`].
    #[inline]
    pub fn disk_overlap_blocks(&self) -> f64 {
        self.value(Input::DiskOverlapBlocks)
    }

    /// Reads [`Input::SharedBeyondDeviceBlocks`].
    #[inline]
    pub fn shared_beyond_device_blocks(&self) -> f64 {
        self.value(Input::SharedBeyondDeviceBlocks)
    }

    /// Reads [`Input::EffectiveOverlapBlocks`].
    #[inline]
    pub fn effective_overlap_blocks(&self) -> f64 {
        self.value(Input::EffectiveOverlapBlocks)
    }

    /// Reads [`Input::CachedTokens`].
    #[inline]
    pub fn cached_tokens(&self) -> f64 {
        self.value(Input::CachedTokens)
    }

    /// Reads [`Input::ActivePrefillTokens`].
    #[inline]
    pub fn active_prefill_tokens(&self) -> f64 {
        self.value(Input::ActivePrefillTokens)
    }

    /// Reads [`Input::DecodeCostBlocks`].
    #[inline]
    pub fn decode_cost_blocks(&self) -> f64 {
        self.value(Input::DecodeCostBlocks)
    }

    /// Reads [`Input::ActiveRequests`].
    #[inline]
    pub fn active_requests(&self) -> f64 {
        self.value(Input::ActiveRequests)
    }

    /// Reads [`Input::PreferredTaintMultiplier`].
    #[inline]
    pub fn preferred_taint_multiplier(&self) -> f64 {
        self.value(Input::PreferredTaintMultiplier)
    }
}
