//! Values that are what they should be, and in words those that aren't.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::without_lone_surrogates;
use crate::openai::error::ApiError;

/// The longest piece of a value that is quoted back.
const MOST_QUOTED: usize = 64;

/// Refuses a value.
pub(super) fn bad(place: impl Into<Cow<'static, str>>, value: &str, wanted: &str) -> ApiError {
    let place = place.into();
    let message = format!("{place} is {}; send {wanted}", quoted(value));
    ApiError::bad_value(place, message)
}

/// Reads a piece of JSON. A null is as good as nothing. For what is no object: see [`object`].
pub(super) fn read<'a, T: Deserialize<'a>>(
    raw: Option<&'a RawValue>,
    place: &'static str,
    wanted: &str,
) -> Result<Option<T>, ApiError> {
    let Some(raw) = raw else { return Ok(None) };
    serde_json::from_str(raw.get()).map_err(|_| {
        match without_lone_surrogates(raw.get().as_bytes()) {
            None => bad(place, raw.get(), wanted),
            Some(_) => {
                let value = quoted(raw.get());
                let fault = format!("{place} has half of a surrogate pair: {value}");
                ApiError::bad_value(place, format!("{fault}; send whole characters"))
            }
        }
    })
}

/// Reads an object into a structure of pieces that are read later; nothing and null are an empty
/// one. Left to itself, a structure takes a list of its fields' values, too.
pub(super) fn object<'a, T: Deserialize<'a> + Default>(
    raw: Option<&'a RawValue>,
    place: &'static str,
) -> Result<T, ApiError> {
    let Some(raw) = raw else { return Ok(T::default()) };
    if !raw.get().starts_with('{') {
        return Err(bad(place, raw.get(), "an object"));
    }
    // Of pieces, nothing can be wrong but that one stands twice.
    serde_json::from_str(raw.get())
        .map_err(|error| ApiError::bad_value(place, format!("{place} has a {error}; send it once")))
}

/// The beginning of a value, if it is long; on one line.
pub(in crate::openai) fn quoted(value: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut quoted: String = value.chars().take(MOST_QUOTED).map(plain).collect();
    if value.chars().nth(MOST_QUOTED).is_some() {
        quoted.push('…');
    }
    quoted
}
