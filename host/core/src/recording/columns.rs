//! Recorded columns.
//!
//! Owns the values by input, and their form in JSON: an object by the inputs' names, in which a
//! column that is the same in every row is one number.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use smallvec::SmallVec;

use super::exact;
use crate::policy::input::Input;

/// Recorded columns by input.
#[derive(Clone, Debug, Default)]
pub struct RecordedColumns {
    columns: SmallVec<[(Input, Place); Input::ALL.len()]>,
    /// All columns' values, one after the other.
    values: Vec<f64>,
}

/// Where a column's values are.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// It is the same in every row.
    All(f64),
    /// One for each row.
    Each {
        /// The first one's index.
        from: usize,
        /// How many there are.
        rows: usize,
    },
}

/// A column's values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Values<'a> {
    All(f64),
    Each(&'a [f64]),
}

impl PartialEq for RecordedColumns {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl RecordedColumns {
    /// No column, in the memory that there is.
    pub(super) fn clear(&mut self) {
        self.columns.clear();
        self.values.clear();
    }

    /// A further column of so many rows, to be filled in.
    pub(crate) fn add(&mut self, input: Input, rows: usize, fill: impl FnOnce(&mut [f64])) {
        let from = self.values.len();
        self.values.resize(from + rows, 0.0);
        fill(&mut self.values[from..]);
        self.columns.push((input, Place::Each { from, rows }));
    }

    /// A further column with these values: as one number if that is all that they are, which spares
    /// the memory that two threads would have to pass to each other.
    pub(crate) fn copy_of(&mut self, input: Input, values: &[f64]) {
        match values.split_first() {
            Some((first, rest)) if rest.iter().all(|v| v.to_bits() == first.to_bits()) => {
                self.columns.push((input, Place::All(*first)));
            }
            _ => {
                let from = self.values.len();
                self.values.extend_from_slice(values);
                self.columns.push((input, Place::Each { from, rows: values.len() }));
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (Input, Values<'_>)> {
        self.columns.iter().map(|&(input, place)| (input, self.at(place)))
    }

    fn at(&self, place: Place) -> Values<'_> {
        match place {
            Place::All(value) => Values::All(value),
            Place::Each { from, rows } => {
                Values::Each(self.values.get(from..from + rows).unwrap_or_default())
            }
        }
    }

    fn get(&self, input: Input) -> Option<Values<'_>> {
        self.iter().find(|(of, _)| *of == input).map(|(_, values)| values)
    }

    /// Whether there is a column.
    #[must_use]
    pub fn has(&self, input: Input) -> bool {
        self.get(input).is_some()
    }

    /// A column's value in a row; none if there is no such column or row.
    #[must_use]
    pub fn value(&self, input: Input, row: usize) -> Option<f64> {
        match self.get(input)? {
            Values::All(value) => Some(value),
            Values::Each(values) => values.get(row).copied(),
        }
    }

    /// Copies a column; nothing if there is no such column.
    pub fn copy(&self, input: Input, to: &mut [f64]) {
        match self.get(input) {
            None => {}
            Some(Values::All(value)) => to.fill(value),
            Some(Values::Each(values)) => {
                to.iter_mut().zip(values).for_each(|(to, from)| *to = *from);
            }
        }
    }

    /// A column that has not as many values as there are rows, and how many it has.
    pub(super) fn unlike(&self, rows: usize) -> Option<(Input, usize)> {
        self.iter().find_map(|(input, values)| match values {
            Values::All(_) => None,
            Values::Each(values) => (values.len() != rows).then_some((input, values.len())),
        })
    }
}

impl Serialize for RecordedColumns {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.columns.len()))?;
        for (input, values) in self.iter() {
            match values {
                Values::All(value) => map.serialize_entry(input.name(), &value)?,
                Values::Each(values) => match values.split_first() {
                    Some((first, rest)) if rest.iter().all(|v| v.to_bits() == first.to_bits()) => {
                        map.serialize_entry(input.name(), first)?;
                    }
                    _ => map.serialize_entry(input.name(), values)?,
                },
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for RecordedColumns {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = BTreeMap::<String, Box<RawValue>>::deserialize(from)?;
        let mut read_columns = Self::default();
        for (name, values) in read {
            let input = Input::from_name(&name).map_err(D::Error::custom)?;
            let wrong = |error| D::Error::custom(format!("{input}: {error}"));
            match exact::numbers(values.get()) {
                Some(each) => {
                    let each = each.map_err(wrong)?;
                    read_columns.add(input, each.len(), |column| column.copy_from_slice(&each));
                }
                None => {
                    let value = exact::number(values.get()).map_err(wrong)?;
                    read_columns.columns.push((input, Place::All(value)));
                }
            }
        }
        Ok(read_columns)
    }
}
