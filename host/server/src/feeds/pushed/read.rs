//! JSON that is read as it comes, by a reader that knows where it is.
//!
//! Owns how the values of a pushed body are read without keeping more of it than is of use: what is
//! wrong, or too much, ends it at once, with the place and what is there. It doesn't know events.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

use super::PushError;
use crate::json::values::is_wide;

/// What a value is cut to where it is shown.
const SHOWN: usize = 40;

/// What is known of a body while it is read.
#[derive(Debug)]
pub(super) struct Notes {
    problem: RefCell<Option<PushError>>,
    /// Bytes that the elements of lists may still take, all together.
    left: Cell<usize>,
}

impl Notes {
    pub(super) fn new(most: usize) -> Self {
        Self { problem: RefCell::default(), left: Cell::new(most) }
    }

    /// What was wrong, unless it is the JSON itself.
    pub(super) fn into_problem(self) -> Option<PushError> {
        self.problem.into_inner()
    }
}

/// The way to a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) notes: &'a Notes,
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
    pub(super) fn top(notes: &'a Notes) -> Self {
        Self { notes, step: Step::Top }
    }

    pub(super) fn key(&'a self, key: &'a str) -> Self {
        Self { notes: self.notes, step: Step::Key(self, key) }
    }

    fn element(&'a self, at: usize) -> Self {
        Self { notes: self.notes, step: Step::Element(self, at) }
    }

    /// Ends the reading.
    pub(super) fn fail<E: Error>(&self, problem: PushError) -> E {
        self.notes.problem.borrow_mut().get_or_insert(problem);
        E::custom("see the notes")
    }

    pub(super) fn unexpected<E: Error>(
        &self,
        expected: &'static str,
        found: impl fmt::Display,
    ) -> E {
        let (place, found) = (self.to_string(), cut(found.to_string()));
        self.fail(PushError::Value { place, expected, found })
    }

    /// Ends the reading if the object has a key twice, or one that isn't known.
    pub(super) fn check_key<E: Error>(
        &self,
        key: &str,
        known: &[&'static str],
        seen: &mut Vec<&'static str>,
    ) -> Result<&'static str, E> {
        let Some(&known_key) = known.iter().find(|known| **known == key) else {
            return Err(self.unknown(key, known));
        };
        if seen.contains(&known_key) {
            return Err(self.fail(PushError::Twice { place: self.to_string(), key: known_key }));
        }
        seen.push(known_key);
        Ok(known_key)
    }

    pub(super) fn unknown<E: Error>(&self, key: &str, known: &[&str]) -> E {
        let (place, key) = (self.to_string(), cut(key.to_owned()));
        self.fail(PushError::Key { place, key, known: known.join(", ") })
    }
}

fn cut(mut text: String) -> String {
    if let Some((cut, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// A value; of a list and an object, only that it is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Negative(i64),
    Float(f64),
    Text(&'a str),
    List,
    Object,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Unsigned(value) => write!(f, "{value}"),
            Self::Negative(value) => write!(f, "{value}"),
            Self::Float(value) if is_wide(*value) => {
                write!(f, "{value:e}, beyond 64 bits")
            }
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(text) => {
                let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(end, _)| end);
                write!(f, "{:?}", text.get(..end).unwrap_or_default())
            }
            Self::List => f.write_str("a list"),
            Self::Object => f.write_str("an object"),
        }
    }
}

impl Token<'_> {
    /// A number of 64 bits, also negative, also as text.
    pub(super) fn wide(self) -> Option<u64> {
        let signed = |number: i64| number.cast_unsigned();
        match self {
            Self::Unsigned(number) => Some(number),
            Self::Negative(number) => Some(signed(number)),
            Self::Text(text) => text.parse().ok().or_else(|| text.parse().ok().map(signed)),
            _ => None,
        }
    }
}

/// How a value is read.
pub(super) trait Read: Copy {
    type Out;

    /// What it must be.
    const EXPECTED: &'static str;

    /// Reads a value that is no list and no object; none if it isn't what it must be.
    fn token(self, _token: Token<'_>) -> Option<Self::Out> {
        None
    }

    /// Reads a list.
    fn list<'de, A: SeqAccess<'de>>(self, at: &Place<'_>, _from: A) -> Result<Self::Out, A::Error> {
        Err(at.unexpected(Self::EXPECTED, Token::List))
    }

    /// Reads an object.
    fn object<'de, A: MapAccess<'de>>(
        self,
        at: &Place<'_>,
        _from: A,
    ) -> Result<Self::Out, A::Error> {
        Err(at.unexpected(Self::EXPECTED, Token::Object))
    }
}

/// A number of 32 bits.
#[derive(Clone, Copy)]
pub(super) struct Number;

impl Read for Number {
    type Out = u32;
    const EXPECTED: &'static str = "a number of 32 bits";

    fn token(self, token: Token<'_>) -> Option<u32> {
        match token {
            Token::Unsigned(number) => u32::try_from(number).ok(),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Text;

impl Read for Text {
    type Out = String;
    const EXPECTED: &'static str = "text";

    fn token(self, token: Token<'_>) -> Option<String> {
        match token {
            Token::Text(text) => Some(text.to_owned()),
            _ => None,
        }
    }
}

/// A list of at most so many elements, within what lists may take all together.
#[derive(Clone, Copy)]
pub(super) struct List<R> {
    pub(super) of: R,
    pub(super) most: usize,
}

impl<R: Read> Read for List<R> {
    type Out = Vec<R::Out>;
    const EXPECTED: &'static str = "a list";

    fn list<'de, A: SeqAccess<'de>>(
        self,
        at: &Place<'_>,
        mut from: A,
    ) -> Result<Self::Out, A::Error> {
        let mut list = Vec::new();
        loop {
            let place = at.element(list.len());
            let Some(value) = from.next_element_seed(Value { at: &place, read: self.of })? else {
                return Ok(list);
            };
            let Some(value) = value else { return Err(place.unexpected(R::EXPECTED, Token::Null)) };
            let left = at.notes.left.get().checked_sub(size_of::<R::Out>());
            let Some(left) = left.filter(|_| list.len() < self.most) else {
                let found = format_args!("more than {} elements", list.len());
                let expected = match left {
                    None => "less in all lists together: split the body over several requests",
                    Some(_) => "a shorter list: split it over several requests",
                };
                return Err(at.unexpected(expected, found));
            };
            at.notes.left.set(left);
            list.push(value);
        }
    }
}

/// Reads a value in its place; null is none.
pub(super) struct Value<'a, R> {
    pub(super) at: &'a Place<'a>,
    pub(super) read: R,
}

impl<R: Read> Value<'_, R> {
    fn token<E: Error>(self, token: Token<'_>) -> Result<Option<R::Out>, E> {
        match self.read.token(token) {
            Some(value) => Ok(Some(value)),
            None => Err(self.at.unexpected(R::EXPECTED, token)),
        }
    }
}

impl<'de, R: Read> DeserializeSeed<'de> for Value<'_, R> {
    type Value = Option<R::Out>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, R: Read> Visitor<'de> for Value<'_, R> {
    type Value = Option<R::Out>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(R::EXPECTED)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        self.token(Token::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        self.token(Token::Unsigned(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        self.token(u64::try_from(value).map_or(Token::Negative(value), Token::Unsigned))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        self.token(Token::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        self.token(Token::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, from: A) -> Result<Self::Value, A::Error> {
        self.read.list(self.at, from).map(Some)
    }

    fn visit_map<A: MapAccess<'de>>(self, from: A) -> Result<Self::Value, A::Error> {
        self.read.object(self.at, from).map(Some)
    }
}
