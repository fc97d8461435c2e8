//! Numbers out of JSON, to the last bit.
//!
//! A fast reader of JSON may miss the nearest floating-point number by one. A decision that is to be
//! made again must not: here the digits are read as the standard library reads them. It takes a
//! reader of JSON text; what has been read already has been rounded already.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The finite number that a text is.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let number: f64 =
        text.parse().map_err(|_| format!("expected a number, found {}", cut(text)))?;
    if number.is_finite() { Ok(number) } else { Err(format!("{} is too large", cut(text))) }
}

/// The numbers in a list; none if the text is no list.
pub(crate) fn numbers(text: &str) -> Option<Result<Vec<f64>, String>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?.trim();
    Some(if inner.is_empty() { Ok(Vec::new()) } else { inner.split(',').map(number).collect() })
}

/// For `deserialize_with`: a number.
pub(crate) fn one<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    number(Box::<RawValue>::deserialize(from)?.get()).map_err(D::Error::custom)
}

/// The same where null stands for none.
pub(crate) fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    match Box::<RawValue>::deserialize(from)?.get().trim() {
        "null" => Ok(None),
        text => number(text).map(Some).map_err(D::Error::custom),
    }
}

/// The same of a list.
pub(crate) fn many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let raw = Box::<RawValue>::deserialize(from)?;
    let numbers = numbers(raw.get());
    let numbers = numbers.ok_or_else(|| D::Error::custom("expected a list of numbers"))?;
    numbers.map_err(D::Error::custom)
}

fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}
