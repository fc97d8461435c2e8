//! All that is wrong with a mapping, and not the first of it alone.
//!
//! serde gives up at the first mistake. So the mapping is read again and again, each time with the
//! last mistake out of the way: an unknown key is left out, and what is missing or of another kind
//! is made up. What is made up is thrown away, so that it need only be of the right kind; where that
//! can't be made up, the mistakes up to there have to do. At the end the author's own checks are
//! asked, too: what they say of keys that were given counts.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

use super::Parameters;

/// The most that are told.
const MOST: usize = 20;

/// What is wrong with a mapping, in the order in which it was found; nothing where that can't be
/// said key by key.
pub(super) fn all<P: Parameters>(json: &str) -> Vec<String> {
    let mut told = Vec::new();
    let Ok(given) = serde_json::from_str::<BTreeMap<String, &RawValue>>(json) else { return told };
    // None is made up.
    let mut values: Values<'_> = given.into_iter().map(|(key, value)| (key, Some(value))).collect();
    while told.len() < MOST {
        let entries = Entries { left: values.iter(), next: None };
        match P::deserialize(MapAccessDeserializer::new(entries)) {
            Err(Mistake::Unknown { key, text }) if values.remove(&key).is_some() => told.push(text),
            Err(Mistake::Missing { key }) if !values.contains_key(&key) => {
                told.push(format!("missing parameter \"{key}\""));
                values.insert(key, None);
            }
            Err(Mistake::Value { key, text }) => {
                told.push(format!("parameter \"{key}\": {text}"));
                values.insert(key, None);
            }
            Ok(parameters) if !told.is_empty() => {
                let said = parameters.check().err();
                let said = said.iter().flat_map(|refusal| refusal.message().lines());
                let sound = said.filter(|sentence| is_of_given(sentence, &values));
                told.extend(sound.take(MOST - told.len()).map(str::to_owned));
                break;
            }
            Ok(_) | Err(_) => break,
        }
    }
    told
}

/// Whether a sentence is about keys that were given, and about no value that was made up.
fn is_of_given(sentence: &str, values: &Values<'_>) -> bool {
    let names = |key: &String| sentence.contains(&format!("\"{key}\""));
    let mut named = values.iter().filter(|(key, _)| names(key)).peekable();
    named.peek().is_some() && named.all(|(_, value)| value.is_some())
}

/// What to write for a time with a unit, where the key wants a number.
fn plain_time(key: &str, json: &str) -> Option<String> {
    let text = json.strip_prefix('"')?.strip_suffix('"')?.trim();
    let units =
        [("_secs", 1_000, "seconds"), ("_seconds", 1_000, "seconds"), ("_ms", 1, "milliseconds")];
    let (_, unit, name) = units.into_iter().find(|(end, ..)| key.ends_with(end))?;
    let (digits, own) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let millis = match own.trim_start() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let millis = digits.parse::<u64>().ok()?.checked_mul(millis)?;
    // A part of a second is written as a fraction, which the key may take or not.
    let number = millis as f64 / f64::from(unit);
    Some(format!("write {number}: the value is a number of {name}"))
}

type Values<'a> = BTreeMap<String, Option<&'a RawValue>>;

/// serde_json's sentence without its line and column, which an author of YAML has no use for.
pub(super) fn sentence(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(sentence, _)| sentence);
    text.replace('`', "\"")
}

#[derive(Debug)]
enum Mistake {
    Unknown { key: String, text: String },
    Missing { key: String },
    Value { key: String, text: String },
    Other(String),
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { text, .. } | Self::Value { text, .. } | Self::Other(text) => {
                f.write_str(text)
            }
            Self::Missing { key } => f.write_str(key),
        }
    }
}

impl std::error::Error for Mistake {}

impl serde::de::Error for Mistake {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Other(message.to_string())
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        // In serde's own words.
        let text = serde::de::value::Error::unknown_field(field, expected).to_string();
        let text = text.replacen("field", "parameter", 1).replace('`', "\"");
        Self::Unknown { key: field.to_owned(), text }
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing { key: field.to_owned() }
    }
}

/// A mapping that is read.
struct Entries<'a> {
    left: std::collections::btree_map::Iter<'a, String, Option<&'a RawValue>>,
    next: Option<(&'a str, Option<&'a RawValue>)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Mistake> {
        self.next = self.left.next().map(|(key, value)| (key.as_str(), *value));
        let key = self.next.map(|(key, _)| StrDeserializer::new(key));
        key.map(|key| seed.deserialize(key)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mistake> {
        match self.next.take() {
            Some((key, Some(given))) => {
                let mut json = serde_json::Deserializer::from_str(given.get());
                seed.deserialize(&mut json).map_err(|error| {
                    let plain = plain_time(key, given.get()).map(|remedy| format!("; {remedy}"));
                    let text = sentence(&error) + &plain.unwrap_or_default();
                    Mistake::Value { key: key.to_owned(), text }
                })
            }
            _ => seed.deserialize(MadeUp),
        }
    }
}

/// A value of whatever kind is wanted, as far as one is easily made.
struct MadeUp;

macro_rules! numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
            // More types take a one than a nought.
            visitor.visit_u8(1)
        }
    )*};
}

impl<'de> Deserializer<'de> for MadeUp {
    type Error = Mistake;

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_unit()
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_bool(false)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_str("")
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_str("")
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_none()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_seq(SeqDeserializer::new(std::iter::empty::<u8>()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        visitor.visit_enum(StrDeserializer::new(variants.first().copied().unwrap_or_default()))
    }

    forward_to_deserialize_any! {
        char bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier ignored_any
    }
}
