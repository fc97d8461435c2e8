//! Values that aren't what they should be, in words.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::openai::error::ApiError;

/// The longest piece of a value that is quoted back.
const MOST_QUOTED: usize = 64;

/// Refuses a value.
pub(super) fn bad(place: impl Into<Cow<'static, str>>, value: &str, wanted: &str) -> ApiError {
    let place = place.into();
    let message = format!("{place} is {}; send {wanted}", quoted(value));
    ApiError::bad_value(place, message)
}

/// Reads a piece of JSON. A null is as good as nothing.
pub(super) fn read<'a, T: Deserialize<'a>>(
    raw: Option<&'a RawValue>,
    place: &'static str,
    wanted: &str,
) -> Result<Option<T>, ApiError> {
    let Some(raw) = raw else { return Ok(None) };
    serde_json::from_str(raw.get()).map_err(|_| bad(place, raw.get(), wanted))
}

fn quoted(value: &str) -> String {
    if value.chars().count() <= MOST_QUOTED {
        return value.to_owned();
    }
    let piece: String = value.chars().take(MOST_QUOTED).collect();
    format!("{piece}…")
}
