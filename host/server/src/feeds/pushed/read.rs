//! JSON values that know where they are, for errors that tell the place.

use std::fmt;

use serde_json::Value;

use super::PushError;

/// What a value is cut to where it is shown.
const SHOWN: usize = 40;

/// A value and the way to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    value: &'a Value,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Top,
    Key(&'a Place<'a>, &'a str),
    Element(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Step::Top => f.write_str("the body"),
            Step::Key(Place { step: Step::Top, .. }, key) => f.write_str(key),
            Step::Key(parent, key) => write!(f, "{parent}.{key}"),
            Step::Element(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}

impl<'a> Place<'a> {
    pub(super) fn top(value: &'a Value) -> Self {
        Self { value, step: Step::Top }
    }

    pub(super) fn unexpected(&self, expected: &'static str) -> PushError {
        let mut found = self.value.to_string();
        if let Some((cut, _)) = found.char_indices().nth(SHOWN) {
            found.truncate(cut);
            found.push('…');
        }
        PushError::Value { place: self.to_string(), expected, found }
    }

    /// Checks that it is an object with these keys only.
    pub(super) fn keys(&self, known: &[&str]) -> Result<(), PushError> {
        let object = self.value.as_object().ok_or_else(|| self.unexpected("an object"))?;
        match object.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(PushError::Key {
                place: self.to_string(),
                key: key.clone(),
                known: known.join(", "),
            }),
        }
    }

    /// Reads what is under a key; null is as good as nothing.
    pub(super) fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(Place<'_>) -> Result<T, PushError>,
    ) -> Result<Option<T>, PushError> {
        match self.value.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(Place { value, step: Step::Key(self, key) }).map(Some),
        }
    }

    /// Reads what must be under a key.
    pub(super) fn required<T>(
        &self,
        key: &str,
        read: impl FnOnce(Place<'_>) -> Result<T, PushError>,
    ) -> Result<T, PushError> {
        let value = self.value.get(key).unwrap_or(&Value::Null);
        read(Place { value, step: Step::Key(self, key) })
    }

    /// Reads each element of a list.
    pub(super) fn list<T>(
        &self,
        most: usize,
        read: impl Fn(Place<'_>) -> Result<T, PushError>,
    ) -> Result<Vec<T>, PushError> {
        let list = self.value.as_array().ok_or_else(|| self.unexpected("a list"))?;
        if list.len() > most {
            return Err(self.unexpected("a shorter list: split it over several requests"));
        }
        let element = |(at, value)| read(Place { value, step: Step::Element(self, at) });
        list.iter().enumerate().map(element).collect()
    }

    /// A number of 64 bits, also negative, also as text.
    pub(super) fn wide(&self) -> Option<u64> {
        let signed = |number: i64| number.cast_unsigned();
        match self.value {
            Value::Number(number) => number.as_u64().or_else(|| number.as_i64().map(signed)),
            Value::String(text) => text.parse().ok().or_else(|| text.parse().ok().map(signed)),
            _ => None,
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        self.value.as_str()
    }
}

/// A number of 32 bits.
pub(super) fn number(at: Place<'_>) -> Result<u32, PushError> {
    at.value
        .as_u64()
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| at.unexpected("a number of 32 bits"))
}

pub(super) fn text(at: Place<'_>) -> Result<String, PushError> {
    at.as_text().map(str::to_owned).ok_or_else(|| at.unexpected("text"))
}
