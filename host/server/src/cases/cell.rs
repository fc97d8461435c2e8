//! A column's value in a row, as a case gives it: a number that a router could tell a policy, or an error that says what it may be.
//!
//! What columns there are isn't known here.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Unexpected, Visitor};

/// Up to here doubles are exact.
const MOST: f64 = 9_007_199_254_740_992.0;

/// What may stand there.
#[derive(Clone, Copy)]
enum Cell {
    Count,
    NotNegative,
    Positive,
}

/// So many blocks, tokens or requests.
pub(super) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    from.deserialize_any(Cell::Count)
}

/// An estimate, which can be a fraction; or a temperature.
pub(super) fn not_negative<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    from.deserialize_any(Cell::NotNegative)
}

/// A factor.
pub(super) fn positive<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    from.deserialize_any(Cell::Positive)
}

impl Visitor<'_> for Cell {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Count => "a whole number from 0 to 2^53",
            Self::NotNegative => "a finite number, 0 or more",
            Self::Positive => "a finite number above 0",
        })
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        let fits = match self {
            Self::Count => value.fract() == 0.0 && (0.0..=MOST).contains(&value),
            Self::NotNegative => value.is_finite() && value >= 0.0,
            Self::Positive => value.is_finite() && value > 0.0,
        };
        match fits {
            true => Ok(Some(value)),
            false => Err(E::invalid_value(Unexpected::Float(value), &self)),
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        self.visit_f64(value as f64)
            .map_err(|_: E| E::invalid_value(Unexpected::Unsigned(value), &self))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        self.visit_f64(value as f64)
            .map_err(|_: E| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}
