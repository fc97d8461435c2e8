//! From a node to the JSON that a policy is configured with.
//!
//! Follows YAML's core schema: what stands without quotes and reads as null, a boolean or a number
//! is one; everything else is text. JSON has no NaN and no infinity, so these are refused where they
//! stand, rather than becoming null on the way. What a component's schema refuses is told later, at
//! the place of the value, which is kept under its JSON pointer.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Number, Value as Json};

use super::document::Value;
use super::error::At;
use super::reader::{Reader, Spot};
use super::scalar::{self, Expected};

/// Of more values in one mapping the places aren't kept, the deepest first; the nearest above has to
/// do.
const MOST_PLACES: usize = 4_096;

/// Nor those of later items of a list, which would take the room of all that is beside it.
const MOST_ITEMS: usize = 256;

/// Where the values of a policy's `parameters` stand, by their JSON pointers; the mapping's own is
/// the empty one.
pub(super) fn places(cx: &mut Reader<'_>, spot: &Spot<'_>) -> BTreeMap<String, At> {
    let mut places = BTreeMap::new();
    let mut waiting = VecDeque::from([(String::new(), spot.clone())]);
    while let Some((pointer, spot)) = waiting.pop_front() {
        if places.len() >= MOST_PLACES {
            break;
        }
        match &spot.node().value {
            Value::List(_) => {
                let items = cx.list(&spot).into_iter().take(MOST_ITEMS).enumerate();
                waiting.extend(items.map(|(nth, item)| (format!("{pointer}/{nth}"), item)));
            }
            Value::Mapping(_) => {
                let entries = cx.entries(&spot).into_iter();
                waiting.extend(entries.map(|(key, spot)| (child_pointer(&pointer, key), spot)));
            }
            Value::Scalar { .. } | Value::Bad => {}
        }
        places.insert(pointer, cx.at(&spot));
    }
    places
}

/// The JSON pointer of a key's value.
pub(crate) fn child_pointer(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The `parameters` of a policy: a mapping.
pub(super) fn read(cx: &mut Reader<'_>, spot: &Spot<'_>) -> Map<String, Json> {
    cx.entries(spot)
        .into_iter()
        .filter_map(|(key, spot)| Some((key.to_owned(), json(cx, &spot)?)))
        .collect()
}

fn json(cx: &mut Reader<'_>, spot: &Spot<'_>) -> Option<Json> {
    match &spot.node().value {
        Value::Scalar { .. } if spot.node().is_null() => Some(Json::Null),
        Value::Scalar { text, plain: false } => Some(Json::String(text.clone())),
        Value::Scalar { text, plain: true } => plain(cx, spot, text),
        Value::List(_) => {
            let items = cx.list(spot);
            Some(Json::Array(items.iter().filter_map(|item| json(cx, item)).collect()))
        }
        Value::Mapping(_) => Some(Json::Object(read(cx, spot))),
        Value::Bad => None,
    }
}

fn plain(cx: &mut Reader<'_>, spot: &Spot<'_>, text: &str) -> Option<Json> {
    if let Ok(value) = scalar::switch(text) {
        return Some(Json::Bool(value));
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if [".nan", ".inf"].contains(&digits.to_ascii_lowercase().as_str()) {
        let remedy = "leave the parameter out, or give a number that means as much";
        cx.expected(spot, Expected::or("a finite number", remedy));
        return None;
    }
    if let Some(number) = whole(text) {
        return Some(Json::Number(number));
    }
    match scalar::float(text) {
        None => Some(Json::String(text.to_owned())),
        Some(_) if digits.chars().all(|c| c.is_ascii_digit() || c == '_') => {
            let remedy = "quote it to pass it as a text";
            cx.expected(spot, Expected::or("a whole number of at most 64 bits", remedy));
            None
        }
        Some(number) => match Number::from_f64(number) {
            Some(number) => Some(Json::Number(number)),
            None => {
                cx.expected(spot, Expected::new("a number that fits into 64 bits"));
                None
            }
        },
    }
}

fn whole(text: &str) -> Option<Number> {
    if let Some(digits) = text.strip_prefix('-') {
        let number = 0_i128 - i128::from(scalar::whole(digits)?);
        return i64::try_from(number).ok().map(Number::from);
    }
    scalar::whole(text.strip_prefix('+').unwrap_or(text)).map(Number::from)
}
