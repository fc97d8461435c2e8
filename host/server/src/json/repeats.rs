//! JSON as a value, and whether it says something twice.
//!
//! Of a field that stands twice, readers of JSON take the first or the last, as each likes: who
//! looked at the body before us may have seen another one than we do.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A text may have so many lists and objects, and one more for so many of its bytes: each takes hundreds of
/// bytes of memory, however short it is.
const PARTS: usize = 4_096;
/// As [`PARTS`].
const BYTES_OF_A_PART: usize = 32;

/// A value, and the first name that stands twice in one of its objects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    /// As it was said last.
    pub(crate) value: Value,
    /// None if nothing is said twice.
    pub(crate) twice: Option<String>,
}

/// Reads a text.
pub(crate) fn read(text: &[u8]) -> serde_json::Result<Told> {
    let (twice, parts) = (RefCell::new(None), Cell::new(PARTS + text.len() / BYTES_OF_A_PART));
    let mut from = serde_json::Deserializer::from_slice(text);
    let value = Any { twice: &twice, parts: &parts }.deserialize(&mut from)?;
    from.end()?;
    Ok(Told { value, twice: twice.into_inner() })
}

#[derive(Clone, Copy)]
struct Any<'a> {
    twice: &'a RefCell<Option<String>>,
    /// How many more there may be.
    parts: &'a Cell<usize>,
}

impl Any<'_> {
    fn part<E: Error>(&self) -> Result<(), E> {
        let left = self.parts.get().checked_sub(1);
        self.parts.set(left.ok_or_else(|| {
            E::custom("it has more lists and objects than a text of its length can need")
        })?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Any<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        self.part()?;
        let mut list = Vec::new();
        while let Some(value) = from.next_element_seed(self)? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        self.part()?;
        let mut object = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            if object.contains_key(&name) {
                self.twice.borrow_mut().get_or_insert_with(|| name.clone());
            }
            object.insert(name, from.next_value_seed(self)?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

    use super::*;

    #[test]
    fn a_value_is_what_it_is_everywhere_else() {
        let all = br#" {"a": [null, true, -1, 18446744073709551615, 1.5, "\u00e9\n"], "b": {}} "#;
        let told = read(all).unwrap();
        assert_eq!(told, Told { value: serde_json::from_slice(all).unwrap(), twice: None });
        for bad in [&b"{"[..], b"{} {}", b"", b"nul"] {
            let usual = serde_json::from_slice::<Value>(bad).unwrap_err().to_string();
            assert_eq!(read(bad).unwrap_err().to_string(), usual);
        }
        assert!(read("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn a_text_of_nothing_but_lists_and_objects_is_refused_before_it_takes_much_memory() {
        for part in [r#"{"a":0},"#, "[0],", "{},", "[[]],"] {
            let of = |bytes: usize| format!("[{}0]", part.repeat(bytes / part.len()));
            assert!(read(of(8_192).as_bytes()).is_ok(), "{part}");
            let told = read(of(1 << 20).as_bytes()).unwrap_err().to_string();
            assert!(told.contains("more lists and objects"), "{told}");
        }
        let usual =
            format!("[{}0]", r#"{"mm_objects":[{"mm_hash":12345678901234567890}]},"#.repeat(2_000));
        assert!(read(usual.as_bytes()).is_ok());
    }

    #[test]
    fn what_stands_twice_is_named_at_any_depth() {
        let twice = |text: &str| read(text.as_bytes()).unwrap().twice;
        assert_eq!(twice(r#"{"a": 1, "\u0061": 2}"#).as_deref(), Some("a"));
        assert_eq!(twice(r#"[{"a": {"b": 1, "c": 1, "b": 2}}]"#).as_deref(), Some("b"));
        assert_eq!(twice(r#"[{"a": 1}, {"a": 1}]"#), None);
    }
}
