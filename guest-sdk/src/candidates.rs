//! The rows that a stage is asked about, with the columns that it declared.
//!
//! A view over the [lists](crate::lists) that the host sends; nothing is copied on the way in. Reading an
//! input that the stage did not declare gives zero and is remembered: when the stage returns, the SDK
//! turns its answer into a refusal that names the input.

use std::cell::Cell;

use crate::Input;
use crate::lanes::Lanes;
use crate::layout::Layout;
use crate::lists::{Lists, Spread};
use crate::request::Worker;

/// The candidates of one call, in ascending (worker id, rank) order; at least one.
#[derive(Debug)]
pub struct Candidates<'a> {
    rows: usize,
    // Elsewhere too: a stage without such columns has a view without them, which needn't be written.
    named: &'a Named<'a>,
    lists: Lists<'a>,
    spread: &'a Spread,
    layout: &'a Layout,
    // Elsewhere, so that the compiler knows the rest of the view not to change under a loop.
    undeclared: &'a Undeclared,
}

/// The columns that have a variant, as one call has them.
#[derive(Debug)]
pub(crate) struct Named<'a> {
    /// The undeclared ones are empty.
    columns: [&'a [f64]; Input::NAMED_COLUMNS],
    /// Those of them that came as one number, by bits.
    uniform: u32,
}

impl<'a> Named<'a> {
    /// What a stage has that declared none.
    pub(crate) const NONE: &'static Named<'static> =
        &Named { columns: [&[]; Input::NAMED_COLUMNS], uniform: 0 };

    /// Those of lists that [`check`](crate::lists::check) has passed, and that `spread` holds.
    // Inline, so that they are written where they are used.
    #[inline(always)]
    pub(crate) fn new(lists: Lists<'a>, spread: &'a Spread, layout: &Layout) -> Self {
        let rows = lists.rows as usize;
        let mut named = Self { columns: [&[]; Input::NAMED_COLUMNS], uniform: 0 };
        let mut varying = lists.numbers.chunks(rows.max(1));
        let mut of_one = lists.uniform;
        for (slot, &place) in layout.named().iter().enumerate() {
            let is_one = of_one & 1 == 1;
            of_one >>= 1;
            let column =
                if is_one { spread.column(slot, rows) } else { varying.next().unwrap_or_default() };
            if let Some(named_column) = named.columns.get_mut(usize::from(place)) {
                *named_column = column;
                named.uniform |= u32::from(is_one) << place;
            }
        }
        named
    }
}

/// The first input that a call read without having declared it.
#[derive(Debug, Default)]
pub(crate) struct Undeclared(Cell<Option<Input>>);

impl Undeclared {
    #[cold]
    fn note(&self, input: Input) {
        if self.0.get().is_none() {
            self.0.set(Some(input));
        }
    }

    /// What an undeclared column shows.
    #[inline(always)]
    fn value(&self, input: Input) -> f64 {
        match input.named_column() {
            // By number, since an input would cross by memory, written in every turn of a loop.
            Some(column) => self.note_column(column),
            None => self.note(input),
        }
        0.0
    }

    #[cold]
    #[inline(never)]
    fn note_column(&self, column: usize) {
        if let Some(&input) = Input::ALL.iter().find(|input| input.named_column() == Some(column)) {
            self.note(input);
        }
    }

    pub(crate) fn take(&self) -> Option<Input> {
        self.0.take()
    }
}

/// One candidate.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    candidates: &'a Candidates<'a>,
    index: usize,
}

impl<'a> Candidates<'a> {
    /// A view over lists that [`check`](crate::lists::check) has passed, and that `spread` holds.
    #[inline(always)]
    pub(crate) fn new(
        lists: Lists<'a>,
        named: &'a Named<'a>,
        spread: &'a Spread,
        layout: &'a Layout,
        undeclared: &'a Undeclared,
    ) -> Self {
        Self { rows: lists.rows as usize, named, lists, spread, layout, undeclared }
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
        (0..self.rows).map(|index| self.at(index))
    }

    /// Row `index`, where there is one.
    #[inline]
    pub fn row(&'a self, index: usize) -> Option<Row<'a>> {
        (index < self.rows).then(|| self.at(index))
    }

    /// One value per row; empty when the stage did not declare the input, or it isn't a column.
    #[inline(always)]
    pub fn column(&self, input: Input) -> &'a [f64] {
        let column = match input.named_column() {
            Some(named) => self.named.columns[named],
            None => self.other_column(input),
        };
        if column.is_empty() {
            self.undeclared.value(input);
        }
        column
    }

    #[inline(never)]
    fn other_column(&self, input: Input) -> &'a [f64] {
        let slot = match input {
            Input::Column(name) => self.layout.other(name),
            _ => None,
        };
        slot.map_or(&[], |slot| self.lists.column(slot, self.spread))
    }

    /// What a declared column is in every row, where the host knew that without looking; `None` also
    /// where it happens to be. Formulas may leave out what a whole column of zeros adds.
    #[inline(always)]
    pub fn uniform(&self, input: Input) -> Option<f64> {
        let named = input.named_column()?;
        let Named { columns, uniform } = self.named;
        if uniform >> named & 1 == 1 { columns[named].first().copied() } else { None }
    }

    /// A fact about the request; `None` when it isn't known for this one.
    pub fn fact(&self, name: &'static str) -> Option<f64> {
        let Some(place) = self.layout.fact(name) else {
            self.undeclared.note(Input::Fact(name));
            return None;
        };
        let facts = self.lists.numbers.len().checked_sub(self.layout.matrix().facts)?;
        self.lists.numbers.get(facts + place).copied().filter(|value| !value.is_nan())
    }

    /// Writes each row's cost, as `cost` has it. The loop handles eight rows to a turn, which saves
    /// fuel.
    #[inline]
    pub fn score(&'a self, costs: &mut [f64], mut cost: impl FnMut(Row<'a>) -> f64) {
        let mut index = 0;
        let mut blocks = costs.chunks_exact_mut(Lanes::ROWS);
        for block in &mut blocks {
            for slot in block {
                *slot = cost(self.at(index));
                index += 1;
            }
        }
        for slot in blocks.into_remainder() {
            *slot = cost(self.at(index));
            index += 1;
        }
    }

    /// As [`Self::score`], for formulas over a few columns: `cost` gets one value of each, in the
    /// order of `inputs`.
    #[inline]
    pub fn score_columns<const N: usize>(
        &self,
        inputs: [Input; N],
        costs: &mut [f64],
        mut cost: impl FnMut([f64; N]) -> f64,
    ) {
        let rows = costs.len();
        let columns = inputs.map(|input| self.column(input));
        if columns.iter().any(|column| column.len() != rows) {
            return;
        }
        // Known to be as long as `costs`, so that nothing is checked in the loop.
        let columns = columns.map(|column| &column[..rows]);
        for (row, slot) in costs.iter_mut().enumerate() {
            *slot = cost(columns.map(|column| column[row]));
        }
    }

    /// As [`Self::score_columns`], for formulas of plain arithmetic: `cost` gets eight rows' values of
    /// each column, and gives eight costs. The tightest loop that there is. Rows that fill the last
    /// eight up are zeros, and their costs nobody's.
    #[inline]
    pub fn score_lanes<const N: usize>(
        &self,
        inputs: [Input; N],
        costs: &mut [f64],
        mut cost: impl FnMut([Lanes; N]) -> Lanes,
    ) {
        // A column that is short is undeclared, which is known by then.
        let _ = Lanes::each(inputs.map(|input| self.column(input)), costs, |_, row| cost(row));
    }

    /// Row `index`, which must exist.
    #[inline]
    pub(crate) fn at(&'a self, index: usize) -> Row<'a> {
        Row { candidates: self, index }
    }

    #[inline(always)]
    fn value(&self, input: Input, row: usize) -> f64 {
        let value = match input.named_column() {
            Some(named) => self.named.columns[named].get(row),
            None => self.column(input).get(row),
        };
        match value {
            Some(value) => *value,
            None => self.undeclared.value(input),
        }
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
        let Candidates { rows, lists: Lists { identity, .. }, layout, .. } = self.candidates;
        match (identity.get(self.index), identity.get(rows + self.index)) {
            (Some(&id), Some(&rank)) if layout.identity() => Worker { id, dp_rank: rank as u32 },
            _ => {
                self.candidates.undeclared.note(Input::Identity);
                Worker { id: 0, dp_rank: 0 }
            }
        }
    }

    /// The row's value of any column.
    #[inline(always)]
    pub fn value(&self, input: Input) -> f64 {
        self.candidates.value(input, self.index)
    }

    /// Reads [`Input::DeviceOverlapBlocks`].
    #[inline(always)]
    pub fn device_overlap_blocks(&self) -> f64 {
        self.value(Input::DeviceOverlapBlocks)
    }

    /// Reads [`Input::HostOverlapBlocks`].
    #[inline(always)]
    pub fn host_overlap_blocks(&self) -> f64 {
        self.value(Input::HostOverlapBlocks)
    }

    /// Reads [`Input::DiskOverlapBlocks`].
    #[inline(always)]
    pub fn disk_overlap_blocks(&self) -> f64 {
        self.value(Input::DiskOverlapBlocks)
    }

    /// Reads [`Input::SharedBeyondDeviceBlocks`].
    #[inline(always)]
    pub fn shared_beyond_device_blocks(&self) -> f64 {
        self.value(Input::SharedBeyondDeviceBlocks)
    }

    /// Reads [`Input::EffectiveOverlapBlocks`].
    #[inline(always)]
    pub fn effective_overlap_blocks(&self) -> f64 {
        self.value(Input::EffectiveOverlapBlocks)
    }

    /// Reads [`Input::CachedTokens`].
    #[inline(always)]
    pub fn cached_tokens(&self) -> f64 {
        self.value(Input::CachedTokens)
    }

    /// Reads [`Input::ActivePrefillTokens`].
    #[inline(always)]
    pub fn active_prefill_tokens(&self) -> f64 {
        self.value(Input::ActivePrefillTokens)
    }

    /// Reads [`Input::DecodeCostBlocks`].
    #[inline(always)]
    pub fn decode_cost_blocks(&self) -> f64 {
        self.value(Input::DecodeCostBlocks)
    }

    /// Reads [`Input::ActiveRequests`].
    #[inline(always)]
    pub fn active_requests(&self) -> f64 {
        self.value(Input::ActiveRequests)
    }

    /// Reads [`Input::PreferredTaintMultiplier`].
    #[inline(always)]
    pub fn preferred_taint_multiplier(&self) -> f64 {
        self.value(Input::PreferredTaintMultiplier)
    }
}
