//! Recorded columns.
//!
//! Owns the values by input, and their form in JSON: an object by the inputs' names, in which a
//! column that is the same in every row is one number.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::exact;
use crate::policy::input::Input;

/// RecordedColumns by input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedColumns(Vec<(Input, Values)>);

#[derive(Clone, Debug, PartialEq)]
enum Values {
    /// The same in every row.
    All(f64),
    /// One for each row.
    Each(Vec<f64>),
}

impl RecordedColumns {
    /// A further column of so many rows, to be filled in.
    pub(crate) fn add(&mut self, input: Input, rows: usize, fill: impl FnOnce(&mut [f64])) {
        let mut values = vec![0.0; rows];
        fill(&mut values);
        self.0.push((input, Values::Each(values)));
    }

    fn get(&self, input: Input) -> Option<&Values> {
        self.0.iter().find(|(of, _)| *of == input).map(|(_, values)| values)
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
            Values::All(value) => Some(*value),
            Values::Each(values) => values.get(row).copied(),
        }
    }

    /// Copies a column; nothing if there is no such column.
    pub fn copy(&self, input: Input, to: &mut [f64]) {
        match self.get(input) {
            None => {}
            Some(Values::All(value)) => to.fill(*value),
            Some(Values::Each(values)) => {
                to.iter_mut().zip(values).for_each(|(to, from)| *to = *from);
            }
        }
    }

    /// A column that has not as many values as there are rows, and how many it has.
    pub(super) fn unlike(&self, rows: usize) -> Option<(Input, usize)> {
        self.0.iter().find_map(|(input, values)| match values {
            Values::All(_) => None,
            Values::Each(values) => (values.len() != rows).then_some((*input, values.len())),
        })
    }
}

impl Serialize for RecordedColumns {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (input, values) in &self.0 {
            match values {
                Values::All(value) => map.serialize_entry(input.name(), value)?,
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
        let columns = read.into_iter().map(|(name, values)| {
            let input = Input::from_name(&name).map_err(D::Error::custom)?;
            let values = match exact::numbers(values.get()) {
                Some(each) => each.map(Values::Each),
                None => exact::number(values.get()).map(Values::All),
            };
            let values = values.map_err(|error| D::Error::custom(format!("{input}: {error}")))?;
            Ok((input, values))
        });
        columns.collect::<Result<_, _>>().map(Self)
    }
}
