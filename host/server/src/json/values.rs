//! What a value of a field can be: each reader gives the value, or says what it is and what was
//! expected.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use pointsman_core::ids::{Role, WorkerId};
use serde_json::Value;

/// The most entries of a list or a map, and the longest text, that a worker may be marked with.
/// They are copied with every snapshot of the fleet.
pub(crate) const MOST_MARKS: usize = 64;
/// As [`MOST_MARKS`].
pub(crate) const MOST_BYTES: usize = 256;

/// What a reader says of a value: the value, or what was expected.
pub(crate) type Read<T> = Result<T, String>;

/// What kind of value it is.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

pub(crate) fn whole(value: &Value) -> Read<u64> {
    value.as_u64().ok_or_else(|| {
        let expected = match value.as_f64().is_some_and(|number| number > 0.0 && is_wide(number)) {
            true => "less than 2^64",
            false => "a whole number of at least 0",
        };
        format!("is {}; expected {expected}", show(value))
    })
}

/// Whether a number is whole and has more than 64 bits: of such ones, not all digits are kept.
pub(crate) fn is_wide(number: f64) -> bool {
    number.fract() == 0.0
        && !(-9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0).contains(&number)
}

/// At least one of them: who doesn't know how many there are leaves the field out.
pub(crate) fn some(value: &Value) -> Read<u64> {
    match whole(value)? {
        0 => Err("is 0; expected at least 1, or leave it out where it isn't known".to_owned()),
        number => Ok(number),
    }
}

pub(crate) fn count(value: &Value) -> Read<u32> {
    let number = whole(value)?;
    u32::try_from(number).map_err(|_| format!("is {number}; expected less than 2^32"))
}

pub(crate) fn positive(value: &Value) -> Read<NonZeroU32> {
    NonZeroU32::new(count(value)?).ok_or_else(|| "is 0; expected at least 1".to_owned())
}

pub(crate) fn name(value: &Value) -> Read<String> {
    let text = value.as_str().ok_or_else(|| format!("is {}; expected a text", show(value)))?;
    if text.is_empty() || text.len() > MOST_BYTES || text.chars().any(char::is_control) {
        let expected = format!("1 to {MOST_BYTES} bytes without control characters");
        return Err(format!("is {}; expected {expected}", show(value)));
    }
    Ok(text.to_owned())
}

pub(crate) fn names(value: &Value) -> Read<BTreeSet<String>> {
    let list = value.as_array().ok_or_else(|| format!("is {}; expected a list", show(value)))?;
    if list.len() > MOST_MARKS {
        return Err(format!("has {} entries; expected at most {MOST_MARKS}", list.len()));
    }
    let names = list.iter().enumerate();
    names.map(|(i, one)| name(one).map_err(|problem| format!("entry {i} {problem}"))).collect()
}

/// A value as it was given, bounded.
pub(crate) fn show(value: &Value) -> String {
    if let Some(number) = value.as_f64().filter(|&number| is_wide(number)) {
        return format!("about {number:e}, which has more than 64 bits");
    }
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

pub(crate) fn role(value: &Value) -> Read<Role> {
    let found = value.as_str().and_then(|word| Role::ALL.into_iter().find(|r| r.as_str() == word));
    found.ok_or_else(|| {
        let known = Role::ALL.map(Role::as_str).join(", ");
        format!("is {}; known: {known}", show(value))
    })
}

/// A worker's id: a number, or its decimal digits in a text, for senders whose numbers end at 2^53.
pub(crate) fn id(value: &Value) -> Read<WorkerId> {
    let id = match value {
        Value::String(digits) => WorkerId::from_decimal(digits),
        other => other.as_u64().map(WorkerId),
    };
    id.ok_or_else(|| format!("is {}; expected a whole number from 0 to {}", show(value), u64::MAX))
}

pub(crate) fn ids(value: &Value) -> Read<BTreeSet<WorkerId>> {
    let list = value.as_array().ok_or_else(|| format!("is {}; expected a list", show(value)))?;
    let ids = list.iter().enumerate();
    ids.map(|(i, one)| id(one).map_err(|problem| format!("entry {i} {problem}"))).collect()
}

/// Ids of tokens.
pub(crate) fn token_ids(value: &Value) -> Read<Vec<u32>> {
    let list = value.as_array().ok_or_else(|| format!("is {}; expected a list", show(value)))?;
    let ids = list.iter().enumerate();
    ids.map(|(i, one)| count(one).map_err(|problem| format!("entry {i} {problem}"))).collect()
}

/// A finite number of at least 0.
pub(crate) fn at_least_zero(value: &Value) -> Read<f64> {
    let number = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("is {}; expected a number of at least 0", show(value)))
}

/// An object of finite numbers.
pub(crate) fn weights(value: &Value) -> Read<BTreeMap<String, f64>> {
    let map = value.as_object().ok_or_else(|| format!("is {}; expected an object", show(value)))?;
    let weights = map.iter().map(|(key, value)| {
        let weight = value.as_f64().filter(|weight| weight.is_finite());
        let weight =
            weight.ok_or_else(|| format!("has {} for {key:?}; expected a number", show(value)))?;
        Ok((key.clone(), weight))
    });
    weights.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_that_is_too_large_is_not_shown_as_another_one() {
        let large: Value = json!(18_446_744_073_709_551_616.0_f64);
        let wide = "is about 1.8446744073709552e19, which has more than 64 bits; expected";
        assert_eq!(whole(&large), Err(format!("{wide} less than 2^64")));
        assert_eq!(count(&large), Err(format!("{wide} less than 2^64")));
        assert_eq!(token_ids(&json!([large])), Err(format!("entry 0 {wide} less than 2^64")));
        let from = format!("{wide} a whole number from 0 to 18446744073709551615");
        assert_eq!(id(&large), Err(from));
        assert_eq!(whole(&json!(u64::MAX)), Ok(u64::MAX));
        for (value, shown) in [(json!(-1), "-1"), (json!(1.5), "1.5"), (json!(1e19), "1e+19")] {
            let error = whole(&value).err().unwrap_or_default();
            assert_eq!(error, format!("is {shown}; expected a whole number of at least 0"));
        }
    }
}
