//! Recorded columns.
//!
//! Owns the values by input: taken over or copied as they are while a decision waits, and packed into as
//! few bytes as hold every bit of them for the way from one core's cache to another's; and their form in
//! JSON: an object by the inputs' names, in which a column that is the same in every row is one number.
//!
//! Columns that are written stand one after the other in one list of 64-bit words: a head, and what
//! follows it. Those that a decision was made from may be taken as they stand, with their matrix, in
//! exchange for the one of a record before: so both matrices go on in the memory of those who decide.
//! Whoever reads sees no difference; what leaves as a copy is all in words.

use std::collections::BTreeMap;
use std::iter;

use bytemuck::{cast_slice, cast_slice_mut};
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::exact;
use crate::policy::candidates::Matrix;
use crate::policy::input::{Input, InputSet};

/// The last 32 bits of a whole number from 0 to 2^32, if it is added to this.
const WHOLE: f64 = 4_503_599_627_370_496.0;

/// Rows of a column that was one number in JSON: however many there are.
const ANY: usize = 0;

/// Recorded columns by input.
#[derive(Clone, Debug, Default)]
pub struct RecordedColumns {
    /// Columns that were written.
    words: Vec<u64>,
    /// Those that were taken over: of the matrix, no more than these.
    taken: InputSet,
    /// Kept also while nothing of it is taken, to be exchanged for the next.
    matrix: Matrix,
}

/// How a column's values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One for all rows.
    All,
    /// A whole number below 2^32 for each row, two in a word.
    Whole,
    /// Any number for each row.
    Each,
}

/// What stands before a column's values.
#[derive(Clone, Copy, Debug)]
struct Head {
    input: Input,
    form: Form,
    rows: usize,
}

/// A column's values.
#[derive(Clone, Copy, Debug)]
enum Values<'a> {
    /// One for all rows, of which there were so many.
    All(f64, usize),
    Whole(&'a [u32]),
    Each(&'a [f64]),
}

impl Head {
    fn word(self) -> u64 {
        (self.rows as u64) << 16 | (self.form as u64) << 8 | self.input as u64
    }

    fn read(word: u64) -> Option<Self> {
        let form = [Form::All, Form::Whole, Form::Each];
        Some(Self {
            input: *Input::ALL.get((word & 0xff) as usize)?,
            form: *form.get((word >> 8 & 0xff) as usize)?,
            rows: (word >> 16) as usize,
        })
    }

    /// Words that follow.
    fn words(self) -> usize {
        match self.form {
            Form::All => 1,
            Form::Whole => self.rows.div_ceil(2),
            Form::Each => self.rows,
        }
    }
}

impl PartialEq for RecordedColumns {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl PartialEq for Values<'_> {
    /// However they are written.
    fn eq(&self, other: &Self) -> bool {
        let rows = self.rows().or(other.rows());
        (0..rows.unwrap_or(1)).all(|row| self.get(row) == other.get(row))
    }
}

impl Values<'_> {
    /// None where all rows have the same.
    fn rows(&self) -> Option<usize> {
        match self {
            Self::All(..) => None,
            Self::Whole(values) => Some(values.len()),
            Self::Each(values) => Some(values.len()),
        }
    }

    fn get(&self, row: usize) -> Option<f64> {
        match self {
            Self::All(value, _) => Some(*value),
            Self::Whole(values) => values.get(row).copied().map(f64::from),
            Self::Each(values) => values.get(row).copied(),
        }
    }

    /// One for all rows, or each row's.
    fn numbers(&self) -> impl Iterator<Item = f64> {
        (0..self.rows().unwrap_or(1)).filter_map(|row| self.get(row))
    }
}

impl RecordedColumns {
    /// No column, in the memory that there is.
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.taken = InputSet::default();
    }

    /// Whether the columns of this matrix can be taken, in exchange for one that is like it. Whoever
    /// has none to give gets one; if it has one of other columns, they are to be copied.
    pub(crate) fn has_place_for(&mut self, matrix: &Matrix) -> bool {
        if self.matrix.is_like(matrix) {
            return true;
        }
        let has_none = self.matrix.inputs().is_empty();
        if has_none {
            self.matrix = matrix.blank();
        }
        has_none
    }

    /// Takes these columns of a matrix, of which it has none, and gives its own matrix for it: nothing
    /// if there is no such column, or no place for them.
    pub(crate) fn take(&mut self, matrix: &mut Matrix, inputs: InputSet) {
        let inputs = inputs.intersection(matrix.set());
        if !inputs.is_empty() && self.matrix.is_like(matrix) {
            std::mem::swap(&mut self.matrix, matrix);
            self.taken = inputs;
        }
    }

    /// The columns that were taken over, and not copied.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> InputSet {
        self.taken
    }

    /// A further column with these values, packed: in the smallest form that holds them bit for bit.
    pub(crate) fn push(&mut self, input: Input, values: &[f64]) {
        let rows = values.len();
        let head = |form| Head { input, form, rows }.word();
        if let Some(first) = values.first().filter(|first| are_all(values, **first)) {
            return self.push_all(input, *first, rows);
        }
        let at = self.words.len();
        self.words.push(head(Form::Whole));
        self.words.resize(at + 1 + rows.div_ceil(2), 0);
        let to = self.words.get_mut(at + 1..).unwrap_or_default();
        if !as_whole(values, cast_slice_mut(to)) {
            self.words.truncate(at);
            self.push_each(input, values);
        }
    }

    /// A further column with this value in so many rows.
    pub(crate) fn push_all(&mut self, input: Input, value: f64, rows: usize) {
        self.words.extend([Head { input, form: Form::All, rows }.word(), value.to_bits()]);
    }

    /// A further column with these values as they are.
    pub(crate) fn push_each(&mut self, input: Input, values: &[f64]) {
        self.words.push(Head { input, form: Form::Each, rows: values.len() }.word());
        self.words.extend_from_slice(cast_slice(values));
    }

    /// Becomes what another is, packed, in the memory that it has.
    pub(super) fn pack(&mut self, other: &Self) {
        self.clear();
        let taken = other.taken.iter().filter_map(|input| Some((input, other.taken_over(input)?)));
        for (input, values) in taken.chain(other.written()) {
            match values {
                Values::All(value, rows) => self.push_all(input, value, rows),
                Values::Each(values) => self.push(input, values),
                // It is packed already.
                Values::Whole(_) => self.push(input, &values.numbers().collect::<Vec<_>>()),
            }
        }
    }

    /// In the order of the inputs, however they came here.
    fn iter(&self) -> impl Iterator<Item = (Input, Values<'_>)> {
        Input::ALL.into_iter().filter_map(|input| Some((input, self.get(input)?)))
    }

    fn written(&self) -> impl Iterator<Item = (Input, Values<'_>)> {
        let mut left = &*self.words;
        iter::from_fn(move || {
            let (&word, rest) = left.split_first()?;
            let head = Head::read(word)?;
            let (words, rest) = rest.split_at_checked(head.words())?;
            left = rest;
            let values = match head.form {
                Form::All => Values::All(f64::from_bits(*words.first()?), head.rows),
                Form::Whole => Values::Whole(cast_slice(words).get(..head.rows)?),
                Form::Each => Values::Each(cast_slice(words)),
            };
            Some((head.input, values))
        })
    }

    /// A column that was taken over.
    fn taken_over(&self, input: Input) -> Option<Values<'_>> {
        if !self.taken.contains(input) {
            return None;
        }
        match self.matrix.uniform(input) {
            Some(value) => Some(Values::All(value, self.matrix.rows())),
            None => self.matrix.column(input).map(Values::Each),
        }
    }

    fn get(&self, input: Input) -> Option<Values<'_>> {
        let written = || self.written().find(|(of, _)| *of == input).map(|(_, values)| values);
        self.taken_over(input).or_else(written)
    }

    /// Whether there is a column.
    #[must_use]
    pub fn has(&self, input: Input) -> bool {
        self.get(input).is_some()
    }

    /// A column's value in a row; none if there is no such column or row.
    #[must_use]
    pub fn value(&self, input: Input, row: usize) -> Option<f64> {
        self.get(input)?.get(row)
    }

    /// Copies a column; nothing if there is no such column.
    pub fn copy(&self, input: Input, to: &mut [f64]) {
        match self.get(input) {
            None => {}
            Some(Values::All(value, _)) => to.fill(value),
            Some(Values::Whole(values)) => {
                to.iter_mut().zip(values).for_each(|(to, from)| *to = f64::from(*from));
            }
            Some(Values::Each(values)) => {
                to.iter_mut().zip(values).for_each(|(to, from)| *to = *from);
            }
        }
    }

    /// A column that has not as many values as there are rows, and how many it has.
    pub(super) fn unlike(&self, rows: usize) -> Option<(Input, usize)> {
        let mut each = self.iter().map(|(input, values)| match values {
            Values::All(_, ANY) => (input, rows),
            Values::All(_, values) => (input, values),
            Values::Whole(values) => (input, values.len()),
            Values::Each(values) => (input, values.len()),
        });
        each.find(|(_, values)| *values != rows)
    }
}

/// Whether all values are one, to the last bit. Most columns that aren't show it at their ends;
/// else several are compared at once, without a branch for each.
fn are_all(values: &[f64], one: f64) -> bool {
    let unlike = |value: &f64| value.to_bits() ^ one.to_bits();
    let ends = [values.get(values.len() / 2), values.last()];
    ends.into_iter().flatten().all(|value| unlike(value) == 0)
        && values.iter().fold(0, |all, value| all | unlike(value)) == 0
}

/// Writes values as whole numbers below 2^32; false if that loses a bit of any of them.
fn as_whole(values: &[f64], to: &mut [u32]) -> bool {
    let (mut lost, mut above) = (0, 0);
    for (to, value) in to.iter_mut().zip(values) {
        let shifted = value + WHOLE;
        *to = shifted.to_bits() as u32;
        lost |= (shifted - WHOLE).to_bits() ^ value.to_bits();
        above |= shifted.to_bits() ^ WHOLE.to_bits();
    }
    lost == 0 && above >> 32 == 0
}

impl Serialize for RecordedColumns {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.iter().count()))?;
        for (input, values) in self.iter() {
            match values {
                Values::All(value, _) => map.serialize_entry(input.name(), &value)?,
                Values::Whole(_) | Values::Each(_) => {
                    let numbers: Vec<f64> = values.numbers().collect();
                    map.serialize_entry(input.name(), &numbers)?;
                }
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for RecordedColumns {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = BTreeMap::<String, Box<RawValue>>::deserialize(from)?;
        let mut columns = Self::default();
        for (name, values) in read {
            let input = Input::from_name(&name).map_err(D::Error::custom)?;
            let wrong = |error| D::Error::custom(format!("{input}: {error}"));
            match exact::numbers(values.get()) {
                Some(each) => columns.push(input, &each.map_err(wrong)?),
                None => {
                    columns.push_all(input, exact::number(values.get()).map_err(wrong)?, ANY);
                }
            }
        }
        Ok(columns)
    }
}

#[cfg(test)]
mod tests;
